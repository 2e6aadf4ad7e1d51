"""The plan: fields, bytes and shards of a build, known before the first row is read. Pure."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dscompile.artifact.fields import Field, Normalisation
from dscompile.artifact.hashing import block_rows, row_blocks
from dscompile.artifact.store import folder_name
from dscompile.compiler.recipe import Options, is_float
from dscompile.compiler.samples import Layout, field_of, length_of, read, transformed
from dscompile.compiler.transforms import Geometry
from dscompile.errors import OptionError, SourceError, SpaceError
from dscompile.formats.protocol import Format
from dscompile.sources.protocol import SplitData

SPARE_BYTES = 64 << 20


@dataclass(frozen=True)
class PlannedShard:
    """A shard to be written: file name, first row in the split, number of rows."""

    path: str
    first: int
    samples: int


@dataclass(frozen=True)
class Plan:
    """What a build will write.

    Attributes:
        layout: Structure of a sample and the names of its items.
        seen: The fields as the source yields them.
        fields: The fields as stored; with `--normalize dataset` the constants are not known yet.
        samples: Split -> number of samples.
        shards: Split -> its shards in order.
        block_rows: Rows of a block: the unit of work and of digests.
    """

    layout: Layout
    seen: tuple[Field, ...]
    fields: tuple[Field, ...]
    samples: Mapping[str, int]
    shards: Mapping[str, tuple[PlannedShard, ...]]
    block_rows: int

    @property
    def bytes(self) -> int:
        """Bytes of all rows."""
        return sum(self.samples.values()) * sum(field.row_bytes for field in self.fields)

    def blocks(self, split: str) -> list[range]:
        """Return the row ranges of a split that are compiled as one task each."""
        return row_blocks(self.samples[split], self.block_rows)

    def with_normalisation(self, constants: Normalisation) -> Plan:
        """Return the plan with the constants of every picture field filled in."""
        fields = tuple(
            replace(field, normalisation=replace(constants, applied=is_float(field.dtype)))
            if field.is_picture
            else field
            for field in self.fields
        )
        return replace(self, fields=fields)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data for `--dry-run`."""
        return {
            "sample": self.layout.structure,
            "fields": [field.to_dict() for field in self.fields],
            "splits": {
                name: {"samples": self.samples[name], "shards": [shard.path for shard in shards]}
                for name, shards in self.shards.items()
            },
            "bytes": self.bytes,
        }


def make_plan(opened: Mapping[str, SplitData], options: Options, container: Format) -> Plan:
    """Plan a build from the first sample of each split.

    Args:
        opened: The splits to build.
        options: Options with defaults settled.
        container: The container of the shards.

    Raises:
        SourceError: A split has no samples.
        FieldError: A value cannot be stored.
        OptionError: The options do not suit the fields.
    """
    samples = {name: split_samples(data, options) for name, data in opened.items()}
    for name, count in samples.items():
        if count == 0:
            raise SourceError(
                f"split {name!r}", "at least one sample", "none", "Check the source, or --split."
            )
    first = next(iter(opened))
    layout, seen = _seen(opened[first], first, options)
    _check_asked(seen, options)
    fields = tuple(stored_field(field, options) for field in seen)
    rows = block_rows(fields)
    shards = cut_shards(samples, fields, options.shard_bytes, container)
    return Plan(layout, seen, fields, samples, shards, rows)


def _check_asked(seen: tuple[Field, ...], options: Options) -> None:
    """Refuse options for pictures where no field is one: they would do nothing."""
    normalize = None if options.normalize == "none" else options.normalize
    asked = {
        "normalize": normalize,
        "dtype": options.dtype,
        "layout": options.layout,
        "resize": options.resize,
        "crop": options.crop,
    }
    for name, value in asked.items():
        if value is not None and not any(field.is_picture for field in seen):
            got = ", ".join(f"{field.name} {field.dtype} {field.shape}" for field in seen)
            cure = "Yield a Pillow image or a (C, H, W) tensor, or drop the option."
            raise OptionError(f"option {name}", "a picture field", got, cure)


def check_space(root: Path, plan: Plan) -> None:
    """Refuse a plan whose rows do not fit the store's file system.

    Raises:
        SpaceError: Names the bytes needed and those free.
    """
    existing = next(path for path in (root, *root.parents) if path.exists())
    free, needed = shutil.disk_usage(existing).free, plan.bytes + SPARE_BYTES
    if free < needed:
        raise SpaceError(
            str(root), f"{needed:,} bytes free", f"{free:,} bytes", "Free space, or choose another --store."
        )


def split_samples(data: SplitData, options: Options) -> int:
    """Return how many samples of a split are compiled."""
    count = length_of(data.samples)
    return count if options.limit is None else min(count, options.limit)


def stored_field(field: Field, options: Options) -> Field:
    """Return the field as stored: options touch pictures only.

    Raises:
        OptionError: An option does not suit the field.
    """
    if not field.is_picture:
        return field
    if field.dtype != "uint8":
        return _float_picture(field, options)
    if options.resize is not None and field.colour is None:
        raise OptionError(
            f"option resize, field {field.name!r}",
            "a Pillow image",
            f"a uint8 tensor {field.shape}",
            "Resize in the dataset, or let it yield the Pillow image.",
        )
    channels, height, width = field.shape
    height, width = geometry(options).size(height, width)
    dtype, layout = options.dtype or "uint8", options.layout or "CHW"
    return replace(
        field,
        dtype=dtype,
        shape=(channels, height, width) if layout == "CHW" else (height, width, channels),
        layout=layout,
        value_range=(0.0, 1.0) if is_float(dtype) else (0.0, 255.0),
        normalisation=_constants(field, channels, options, applied=is_float(dtype)),
    )


def geometry(options: Options) -> Geometry:
    """Return the resize and crop that the options ask for."""
    return Geometry(options.resize, options.crop)


def _float_picture(field: Field, options: Options) -> Field:
    """A picture that the dataset yields as numbers other than bytes: only its float dtype may change."""
    asked = {
        "resize": options.resize,
        "crop": options.crop,
        "normalize": None if options.normalize == "none" else options.normalize,
        "layout": options.layout,
        "dtype": options.dtype if options.dtype == "uint8" else None,
    }
    for name, value in asked.items():
        if value is not None:
            raise OptionError(
                f"option {name}, field {field.name!r}",
                "a picture of bytes (Pillow or uint8)",
                f"a {field.dtype} tensor {field.shape}",
                "Let the dataset yield the picture before its own ToTensor/Normalize, or drop the option.",
            )
    return replace(field, dtype=options.dtype or field.dtype)


def _constants(field: Field, channels: int, options: Options, *, applied: bool) -> Normalisation | None:
    constants = options.constants
    if not isinstance(constants, tuple):
        return None
    if len(constants[0]) != channels:
        raise OptionError(
            f"option normalize, field {field.name!r}",
            f"{channels} means and deviations, one per channel",
            str(len(constants[0])),
            "Give one of each per channel.",
        )
    return Normalisation(*constants, applied=applied)


def _seen(data: SplitData, split: str, options: Options) -> tuple[Layout, tuple[Field, ...]]:
    place = f"split {split!r}, sample 0"
    sample = read(data.samples, 0, place)
    layout = Layout.of(sample, data.field_names, place)
    fields = []
    for name, value in transformed(layout, sample, options.transform, place).items():
        classes = data.classes if name == "label" or layout.names == ("image", name) else None
        fields.append(field_of(name, value, place, classes))
    return layout, tuple(fields)


def cut_shards(
    samples: Mapping[str, int], fields: tuple[Field, ...], shard_bytes: int, container: Format
) -> dict[str, tuple[PlannedShard, ...]]:
    """Cut splits into shards of at most `shard_bytes`, whole blocks where a shard holds several.

    Raises:
        SourceError: Two splits have names that differ only in characters a file name cannot have.
    """
    stems = {split: folder_name(split) for split in samples}
    for split, stem in stems.items():
        if list(stems.values()).count(stem) > 1:
            raise SourceError(
                f"split {split!r}", "a name that gives a file name of its own", stem, "Rename the split."
            )
    row_bytes = max(1, sum(field.row_bytes for field in fields))
    size = min(shard_bytes, container.most_bytes or shard_bytes)
    rows, block = max(1, size // row_bytes), block_rows(fields)
    if rows > block:
        rows -= rows % block
    return {
        split: _named(stems[split], row_blocks(count, rows), container.suffix)
        for split, count in samples.items()
    }


def _named(stem: str, parts: list[range], suffix: str) -> tuple[PlannedShard, ...]:
    return tuple(
        PlannedShard(f"{stem}-{number:05d}-of-{len(parts):05d}.{suffix}", part.start, len(part))
        for number, part in enumerate(parts)
    )
