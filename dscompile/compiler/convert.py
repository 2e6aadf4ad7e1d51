"""From one artifact to another: other container, shard size or dtype, without the source."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dscompile.artifact.fields import Field
from dscompile.artifact.files import check_shards
from dscompile.artifact.hashing import block_rows
from dscompile.artifact.manifest import FILE_NAME, Manifest
from dscompile.artifact.store import Store
from dscompile.compiler.build import Built, found_there
from dscompile.compiler.draft import Facts, write_artifact
from dscompile.compiler.engine import Engine, Progress
from dscompile.compiler.plan import Plan, check_space, cut_shards
from dscompile.compiler.recipe import Options, Recipe, is_float
from dscompile.compiler.samples import Array, Layout
from dscompile.errors import DigestError, OptionError
from dscompile.formats import format_of
from dscompile.formats.protocol import Rows
from dscompile.formats.verify import verify
from dscompile.sources.protocol import SplitData


def convert(
    store: Store,
    artifact: str | os.PathLike[str],
    options: Options,
    *,
    name: str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Built:
    """Write an artifact's rows anew in another container, shard size or dtype, and publish it.

    The parent is verified first. With an unchanged dtype the content digest is the parent's; a float dtype
    rounds to nearest, and bytes become what a float artifact of the same recipe holds.

    Args:
        store: Where the artifact is found, and where the new one goes.
        artifact: A path, `NAME` or `NAME@ID`.
        options: `format`, `compression`, `dtype` and `shard_bytes`; the rest is the parent's.
        name: Name of the new artifact; None for the parent's.
        workers: Number of workers.
        progress: Called with (split, rows done, rows in all).

    Raises:
        DigestError: The parent is damaged.
        OptionError: Normalised floats cannot become bytes again.
    """
    started = time.perf_counter()
    path, parent = store.find(artifact)
    fields = tuple(_converted(field, options.dtype) for field in parent.fields)
    options = replace(options, normalize="none", allow_nonfinite=True, splits=tuple(parent.splits))
    recipe = _recipe(parent, options)
    target = store.target(name or parent.name, recipe.id)
    if (target / FILE_NAME).exists():
        return Built(target, found_there(target, recipe), False, time.perf_counter() - started)
    check_shards(path, parent)
    if problems := verify(path, parent):
        raise DigestError(str(path), "an artifact that verifies", str(problems[0]), "Build the parent again.")
    plan = _plan(parent, fields, options)
    check_space(store.root, plan)
    facts = _facts(parent, recipe, name or parent.name)
    rows = _Parent(path, parent)
    with store.staging(target) as folder:
        opened = {split: rows.open(split) for split in plan.samples}
        engine = Engine(workers, progress=progress)
        manifest = write_artifact(folder, rows, opened, plan, options, facts, engine)
        built = store.publish(folder, target)
    return Built(target, manifest, built, time.perf_counter() - started)


def _plan(parent: Manifest, fields: tuple[Field, ...], options: Options) -> Plan:
    samples = {split: record.samples for split, record in parent.splits.items()}
    container = format_of(options.format, options.compression)
    return Plan(
        layout=Layout(parent.sample, tuple(field.name for field in parent.fields)),
        seen=parent.fields,
        fields=fields,
        samples=samples,
        shards=cut_shards(samples, fields, options.shard_bytes, container),
        block_rows=block_rows(fields),
    )


def _facts(parent: Manifest, recipe: Recipe, name: str) -> Facts:
    """What the new manifest says: the parent's sources, notes and statistics, and who the parent is."""
    origin = {
        "recipe_id": parent.recipe_id,
        "content_digest": parent.content_digest,
        "container": parent.container,
    }
    statistics = {split: record.statistics for split, record in parent.splits.items()}
    return Facts(name, recipe, parent.sources, parent.notes, origin, statistics)


def _recipe(parent: Manifest, options: Options) -> Recipe:
    identity = {"kind": "artifact", "recipe_id": parent.recipe_id, "content_digest": parent.content_digest}
    recipe = Recipe.of(identity, [], tuple(parent.splits), options)
    return replace(recipe, steps=({"step": "convert", "dtype": options.dtype},))


def _converted(field: Field, dtype: str | None) -> Field:
    """Return a field in the new dtype: pictures change, and tensors of floats."""
    concerned = field.is_picture or (is_float(field.dtype) and field.python == "tensor")
    if dtype is None or dtype == field.dtype or not concerned:
        return field
    if not is_float(dtype):
        raise OptionError(
            f"option dtype, field {field.name!r}",
            "a float dtype",
            dtype,
            f"{field.dtype} values cannot become bytes again: build from the source with --dtype {dtype}.",
        )
    if field.dtype != "uint8":
        return replace(field, dtype=dtype)
    norm = None if field.normalisation is None else replace(field.normalisation, applied=True)
    return replace(field, dtype=dtype, value_range=(0.0, 1.0), normalisation=norm)


@dataclass(frozen=True)
class _Parent:
    """The parent's rows as whole arrays, pictures of bytes as (N, H, W, C)."""

    path: Path
    manifest: Manifest

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self.manifest.splits)

    def open(self, split: str) -> SplitData:
        record, container = (
            self.manifest.splits[split],
            format_of(self.manifest.container, self.manifest.compression),
        )
        mapped = [
            container.map(self.path / shard.path, shard, self.manifest.fields) for shard in record.shards
        ]
        firsts = [shard.first for shard in record.shards]
        arrays: Mapping[str, Any] = {
            item.name: _Sharded(item, firsts, [rows[item.name] for rows in mapped])
            for item in self.manifest.fields
        }
        return SplitData(range(record.samples), arrays)


@dataclass(frozen=True)
class _Sharded:
    """Rows of several shards that slice like one array."""

    field: Field
    firsts: list[int]
    shards: list[Rows]

    def __getitem__(self, rows: slice) -> Array:
        parts = []
        for first, shard in zip(self.firsts, self.shards, strict=True):
            low, high = max(rows.start, first), min(rows.stop, first + len(shard))
            if low < high:
                parts.append(shard[low - first : high - first])
        found = parts[0] if len(parts) == 1 else np.concatenate(parts)
        pixels = self.field.is_picture and self.field.dtype == "uint8" and self.field.layout == "CHW"
        return np.moveaxis(found, 1, -1) if pixels else found
