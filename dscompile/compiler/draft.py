"""An artifact while it is written: rows compiled, shards sealed, digests taken, manifest last."""

from __future__ import annotations

import logging
import platform
import resource
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from dscompile.artifact.hashing import file_sha256
from dscompile.artifact.manifest import Manifest
from dscompile.artifact.splits import Shard, Split
from dscompile.artifact.store import fsync
from dscompile.compiler.engine import Engine
from dscompile.compiler.passes import Splits, compiled, statistics_of
from dscompile.compiler.plan import Plan
from dscompile.compiler.recipe import Options, Recipe
from dscompile.errors import BuildError
from dscompile.formats import format_of
from dscompile.formats.protocol import Regions
from dscompile.sources.protocol import SplitData
from dscompile.version import __version__

log = logging.getLogger("dscompile")
LIBRARIES = ("torch", "torchvision", "numpy", "Pillow", "h5py", "lmdb")


@dataclass(frozen=True)
class Facts:
    """What the manifest says that the rows do not decide.

    Attributes:
        name: Name of the artifact.
        recipe: Its recipe.
        sources: The source's files: path, size, sha256.
        notes: What the source says of itself.
        parent: The artifact it was converted from.
        statistics: Split -> statistics to record instead of those of the stored values.
    """

    name: str
    recipe: Recipe
    sources: tuple[Mapping[str, Any], ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)
    parent: Mapping[str, Any] | None = None
    statistics: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)


def write_artifact(
    folder: Path,
    source: Splits,
    opened: Mapping[str, SplitData],
    plan: Plan,
    options: Options,
    facts: Facts,
    engine: Engine,
) -> Manifest:
    """Compile all rows of a plan into the staging folder `folder`, and write and return the manifest.

    Raises:
        DscompileError: What reading, converting or writing raised.
    """
    begin, started = datetime.now(timezone.utc), time.perf_counter()
    container = format_of(options.format, options.compression)
    if options.compression is not None:
        log.warning(
            "%s-compressed shards cannot be mapped: rows are decompressed for each batch", options.compression
        )
    plan, regions, reports = compiled(engine, source, opened, options, plan, folder, container)
    shards = _sealed(folder, plan, regions, options)
    splits = {
        split: Split(
            samples=plan.samples[split],
            shards=tuple(shards[shard.path] for shard in plan.shards[split]),
            blocks={item.name: tuple(part.digests[item.name] for part in found) for item in plan.fields},
            statistics=facts.statistics.get(split) or statistics_of(plan, found),
        )
        for split, found in reports.items()
    }
    manifest = Manifest(
        name=facts.name,
        container=options.format,
        compression=options.compression,
        recipe=facts.recipe.to_dict(),
        sample=plan.layout.structure,
        fields=plan.fields,
        block_rows=plan.block_rows,
        splits=splits,
        sources=facts.sources,
        notes=facts.notes,
        parent=facts.parent,
        writer=writer(),
        build={
            "start": begin.isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - started, 3),
            "workers": engine.workers,
            "peak_memory": _peak_memory(),
        },
    )
    manifest.write(folder)
    if Manifest.read(folder) != manifest:
        raise BuildError(str(folder), "the manifest just written", "another one", "Report this bug.")
    return manifest


def _sealed(folder: Path, plan: Plan, regions: Mapping[str, Regions], options: Options) -> dict[str, Shard]:
    """Finish every shard, make it durable, take its digest and check it, side by side."""
    container = format_of(options.format, options.compression)
    planned = [shard for shards in plan.shards.values() for shard in shards]

    def seal(path: str) -> Regions:
        return container.seal(folder / path, plan.fields, regions[path])

    with ThreadPoolExecutor(2) as pool:
        recorded = list(pool.map(seal, [shard.path for shard in planned]))
        durable = [pool.submit(fsync, folder / shard.path) for shard in planned]
        digests = list(pool.map(file_sha256, [folder / shard.path for shard in planned]))
        for future in durable:
            future.result()
    found = {}
    for shard, where, digest in zip(planned, recorded, digests, strict=True):
        size = (folder / shard.path).stat().st_size
        made = Shard(shard.path, shard.first, shard.samples, size, digest, dict(where))
        container.check(folder / shard.path, made, plan.fields)
        found[shard.path] = made
    return found


def writer() -> dict[str, str]:
    """Return the versions that wrote an artifact; outside recipe id and content digest."""
    versions = {"dscompile": __version__, "python": platform.python_version()}
    for library in LIBRARIES:
        try:
            versions[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            versions[library] = "absent"
    if "PIL" in sys.modules:
        from PIL import features

        versions["libjpeg"] = str(features.version("jpg"))
    return versions


def _peak_memory() -> int:
    """Return the largest resident size in bytes of this process or of one of its workers."""
    unit = 1 if sys.platform == "darwin" else 1024
    usages = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return max(usages) * unit
