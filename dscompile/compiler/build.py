"""A build from end to end: source -> recipe -> hit, or plan -> engine -> verify -> publish."""

from __future__ import annotations

import platform
import resource
import sys
import time
from collections.abc import Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from dscompile.artifact.digests import FileDigests, check_unchanged, stats_of
from dscompile.artifact.fields import Normalisation
from dscompile.artifact.hashing import file_sha256
from dscompile.artifact.manifest import FILE_NAME, Manifest
from dscompile.artifact.splits import Shard, Split
from dscompile.artifact.store import Store, check_shards, folder_name, fsync
from dscompile.compiler.engine import Engine, Progress
from dscompile.compiler.identity import identify
from dscompile.compiler.passes import compiled, statistics_of
from dscompile.compiler.plan import Plan, check_space, make_plan
from dscompile.compiler.randomness import refuse_hidden, refuse_random
from dscompile.compiler.recipe import Options, Recipe, at_least_one
from dscompile.errors import BuildError, ForeignManifestError, UnknownSplitError
from dscompile.formats import format_of
from dscompile.formats.protocol import Format, Regions
from dscompile.sources import resolve
from dscompile.sources.protocol import Source, SplitData
from dscompile.version import __version__

LIBRARIES = ("torch", "torchvision", "numpy", "Pillow", "h5py", "lmdb")


@dataclass(frozen=True)
class Built:
    """What a build gives.

    Attributes:
        path: The artifact's folder (where it would be, for a dry run).
        manifest: Its manifest; None for a dry run.
        built: False if the artifact was there already.
        seconds: Wall time of the call.
        plan: What a dry run would write.
    """

    path: Path
    manifest: Manifest | None
    built: bool
    seconds: float
    plan: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """A build as asked for: where from, where to, and how; everything the recipe does not decide.

    Attributes:
        source: What the user named.
        options: What determines the bytes.
        root: Folder with the source's files; None for the store's downloads.
        name: Name of the artifact; None for the source's own.
        store: Where the artifact goes.
        source_check: Check published checksums.
        workers: Number of workers; None for all cores.
        executor: A foreign executor.
        progress: Called with (split, rows done, rows in all).
        force: Build even if the artifact is there.
        dry_run: Only plan.
    """

    source: Any
    options: Options
    store: Store
    root: Path | None = None
    name: str | None = None
    source_check: bool = True
    workers: int | None = None
    executor: Executor | None = None
    progress: Progress | None = None
    force: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        at_least_one("workers", self.workers)


def build(request: Request) -> Built:
    """Return the artifact of a request, building it unless it is there.

    Raises:
        DscompileError: See the class for what was wrong; nothing is left behind.
    """
    started = time.perf_counter()
    source = resolve(request.source, root=request.root or request.store.downloads, check=request.source_check)
    options = _settled(request.options, source)
    needed = splits_needed(source, options)
    source.prepare(needed)
    files = source.files(needed)
    before = stats_of(files)
    listed = FileDigests(request.store.root / ".digests").of(files)
    recipe = _recipe(request, source, options, listed)
    name = folder_name(request.name or source.name)
    target = request.store.target(name, recipe.id)
    if (target / FILE_NAME).exists() and not request.force and not request.dry_run:
        return Built(target, _found(target, recipe), False, time.perf_counter() - started)
    splits = options.splits or ()
    opened = {split: source.open(split) for split in splits}
    if not source.declared or options.transform is not None:
        for split, data in opened.items():
            refuse_hidden(data, options.transform, f"split {split!r}")
    container = format_of(options.format)
    plan = make_plan(opened, options, container.suffix, container.most_bytes)
    if request.dry_run:
        return Built(target, None, False, time.perf_counter() - started, plan.to_dict())
    check_space(request.store.root, plan)
    with request.store.staging(target) as folder:
        draft = _Draft(request, source, options, recipe, name, listed, container, folder)
        manifest = draft.write(plan, opened, started)
        check_unchanged(files, before)
        if not request.store.publish(folder, target, replace=_replaces(request, target, manifest)):
            manifest = _found(target, recipe)
    return Built(target, manifest, True, time.perf_counter() - started)


def _found(target: Path, recipe: Recipe) -> Manifest:
    """Return the manifest of the artifact that is there, refusing one of another recipe or a damaged one."""
    manifest = Manifest.read(target)
    if manifest.recipe_id != recipe.id:
        raise ForeignManifestError(
            f"{target / FILE_NAME}, recipe_id",
            recipe.id,
            manifest.recipe_id,
            "Build it again with --force, or move the artifact to its own folder.",
        )
    check_shards(target, manifest)
    return manifest


def _settled(options: Options, source: Source) -> Options:
    """Settle defaults and splits, refusing splits that the source does not have."""
    chosen = options.splits or source.splits
    for split in chosen:
        if split not in source.splits:
            raise UnknownSplitError(
                f"source {source.name!r}",
                f"a split of {', '.join(source.splits)}",
                repr(split),
                "Name one of them with --split, or none for all.",
            )
    ordered = tuple(split for split in source.splits if split in chosen)
    return replace(options.with_defaults(declared=source.declared), splits=ordered)


def splits_needed(source: Source, options: Options) -> tuple[str, ...]:
    """Return the splits whose files are read: those to build, and the training split for its statistics."""
    chosen = options.splits or ()
    if options.normalize != "dataset" or source.splits[0] in chosen:
        return chosen
    return (source.splits[0], *chosen)


def _recipe(request: Request, source: Source, options: Options, listed: list[dict[str, Any]]) -> Recipe:
    identity = {**source.identity(), "source_check": request.source_check} if listed else source.identity()
    datasets = getattr(source, "datasets", None)
    if datasets is not None:
        needed = splits_needed(source, options)
        for split in needed:
            refuse_random(datasets[split], f"source {source.name!r}, split {split!r}")
        identity["objects"] = {
            split: identify(datasets[split], f"source {source.name!r}", version=options.version)
            for split in needed
        }
    transform = None
    if options.transform is not None:
        refuse_random(options.transform, "option transform")
        transform = identify(options.transform, "option transform", version=options.version)
    return Recipe.of(identity, listed, options.splits or (), options, transform)


def _replaces(request: Request, target: Path, manifest: Manifest) -> bool:
    """Whether a forced build takes the place of the artifact that is there: only if it differs."""
    if not request.force or not (target / FILE_NAME).exists():
        return request.force
    try:
        there = Manifest.read(target)
        check_shards(target, there)
    except (ValueError, OSError):
        return True
    return [split.to_dict() for split in there.splits.values()] != [
        split.to_dict() for split in manifest.splits.values()
    ]


@dataclass(frozen=True)
class _Draft:
    """The artifact while it is written, in its staging folder."""

    request: Request
    source: Source
    options: Options
    recipe: Recipe
    name: str
    listed: list[dict[str, Any]]
    container: Format
    folder: Path

    def write(self, plan: Plan, opened: Mapping[str, SplitData], started: float) -> Manifest:
        """Compile all rows, seal the shards, write and return the manifest."""
        begin = datetime.now(timezone.utc)
        engine = Engine(self.request.workers, self.request.executor, self.request.progress)
        plan, regions, reports = compiled(
            engine, self.source, opened, self.options, plan, self.folder, self.container
        )
        shards = self._seal(plan, regions)
        splits = {
            split: Split(
                samples=plan.samples[split],
                shards=tuple(shards[shard.path] for shard in plan.shards[split]),
                blocks={item.name: tuple(part.digests[item.name] for part in found) for item in plan.fields},
                statistics=statistics_of(plan, found),
            )
            for split, found in reports.items()
        }
        manifest = Manifest(
            name=self.name,
            container=self.options.format,
            recipe=self.recipe.to_dict(),
            sample=plan.layout.structure,
            fields=plan.fields,
            block_rows=plan.block_rows,
            splits=splits,
            sources=tuple(self.listed),
            notes=self.source.notes(),
            writer=writer(),
            build={
                "start": begin.isoformat(timespec="seconds"),
                "seconds": round(time.perf_counter() - started, 3),
                "workers": engine.workers,
                "peak_memory": _peak_memory(),
            },
        )
        manifest.write(self.folder)
        if Manifest.read(self.folder) != manifest:
            raise BuildError(str(self.folder), "the manifest just written", "another one", "Report this bug.")
        return manifest

    def _seal(self, plan: Plan, regions: Mapping[str, Regions]) -> dict[str, Shard]:
        """Finish every shard, make it durable and take its digest, side by side."""
        planned = [shard for shards in plan.shards.values() for shard in shards]

        def sealed(path: str) -> None:
            self.container.seal(self.folder / path, plan.fields, regions[path])

        with ThreadPoolExecutor(max(2, self.request.workers or 2)) as pool:
            list(pool.map(sealed, [shard.path for shard in planned]))
            durable = [pool.submit(fsync, self.folder / shard.path) for shard in planned]
            digests = list(pool.map(file_sha256, [self.folder / shard.path for shard in planned]))
            for future in durable:
                future.result()
        found = {}
        for shard, digest in zip(planned, digests, strict=True):
            size = (self.folder / shard.path).stat().st_size
            where = dict(regions[shard.path])
            found[shard.path] = Shard(shard.path, shard.first, shard.samples, size, digest, where)
            self.container.check(self.folder / shard.path, found[shard.path], plan.fields)
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


__all__ = ["Built", "Normalisation", "Request", "build", "writer"]
