"""Reading the rows of a block: from whole arrays, or sample by sample, converted to what is stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from dscompile.artifact.fields import STORED_AS, Field
from dscompile.compiler.pixels import PIECE_BYTES, Converter, overflow, rounded, widened
from dscompile.compiler.plan import Plan, geometry
from dscompile.compiler.recipe import Options
from dscompile.compiler.samples import Array, is_pillow, pixels_of, read, row_of, transformed
from dscompile.errors import NumberError, SampleError
from dscompile.formats.protocol import Regions
from dscompile.sources.protocol import SplitData


class Opener(Protocol):
    """Anything that opens splits: a source, or rows that an earlier pass has staged."""

    def open(self, split: str) -> SplitData:
        """Return the opened split."""
        ...


class Piece(NamedTuple):
    """Some consecutive rows: their first index, what is stored, and what statistics are taken of."""

    first: int
    stored: dict[str, Array]
    measured: dict[str, Array]


@dataclass(frozen=True)
class Work:
    """All that a worker needs; pickles if the source does.

    Attributes:
        source: Where the splits are opened, lazily, once per process.
        options: Settled options.
        plan: The plan, with every constant known.
        folder: Where the shards lie.
        regions: Shard path -> where the rows of each field begin.
    """

    source: Opener
    options: Options
    plan: Plan
    folder: Path
    regions: Mapping[str, Regions]
    opened: dict[str, SplitData] = field(default_factory=dict, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "opened": {}}

    def data(self, split: str) -> SplitData:
        """Return the opened split."""
        if split not in self.opened:
            self.opened[split] = self.source.open(split)
        return self.opened[split]


def batched(data: SplitData, options: Options) -> bool:
    """Whether a split is compiled from whole arrays: it has them, and no step needs single pictures."""
    return data.arrays is not None and options.resize is None and options.transform is None


def pieces(work: Work, split: str, rows: range) -> Iterator[Piece]:
    """Yield the rows of a block in pieces of about 1 MiB, converted."""
    data = work.data(split)
    sample_bytes = sum(item.row_bytes for item in work.plan.fields)
    for part in cut(rows, PIECE_BYTES // max(1, sample_bytes)):
        if batched(data, work.options):
            yield _from_arrays(work, data, part)
        else:
            yield _from_samples(work, split, data, part)


def _from_arrays(work: Work, data: SplitData, rows: range) -> Piece:
    arrays = data.arrays or {}
    stored, measured = {}, {}
    for item, seen in zip(work.plan.fields, work.plan.seen, strict=True):
        values = arrays[item.name][rows.start : rows.stop]
        if item.is_picture and seen.dtype == "uint8":
            values = geometry(work.options).crop_pixels(values)
            stored[item.name] = _converted(item, values, rows.start)
        else:
            values = values.astype(STORED_AS[seen.dtype], copy=False)
            stored[item.name] = _cast(item, seen, values, rows.start, work.options)
            values = widened(stored[item.name], item.dtype)
        measured[item.name] = values
    return Piece(rows.start, stored, measured)


def _from_samples(work: Work, split: str, data: SplitData, rows: range) -> Piece:
    columns: dict[str, list[Array]] = {item.name: [] for item in work.plan.fields}
    for index in rows:
        for name, row in _sample_rows(work, split, data, index).items():
            columns[name].append(row.copy())  # a dataset may fill one buffer again for the next sample
    stored, measured = {}, {}
    for item, seen in zip(work.plan.fields, work.plan.seen, strict=True):
        values = np.stack(columns[item.name])
        if item.is_picture and seen.dtype == "uint8":
            stored[item.name] = _converted(item, values, rows.start)
        else:
            stored[item.name] = _cast(item, seen, values, rows.start, work.options)
            values = widened(stored[item.name], item.dtype)
        measured[item.name] = values
    return Piece(rows.start, stored, measured)


def _sample_rows(work: Work, split: str, data: SplitData, index: int) -> dict[str, Array]:
    """Return one sample's fields: pictures as pixels (H, W[, C]) after geometry, others as stored rows."""
    place = f"split {split!r}, sample {index}"
    rows = {}
    values = transformed(work.plan.layout, read(data.samples, index, place), work.options.transform, place)
    for item, seen in zip(work.plan.fields, work.plan.seen, strict=True):
        value = values[item.name]
        if item.is_picture and seen.dtype == "uint8":
            rows[item.name] = _pixels(work, item, seen, value, place)
        else:
            rows[item.name] = row_of(value, seen, place)
    return rows


def _pixels(work: Work, item: Field, seen: Field, value: Any, place: str) -> Array:
    if is_pillow(value):
        if value.mode != seen.colour:
            raise SampleError(
                f"{place}, field {item.name!r}",
                f"colour mode {seen.colour}, as in the first sample",
                f"mode {value.mode}",
                "Give all pictures one mode in the dataset, e.g. with image.convert('RGB').",
            )
        value = geometry(work.options).picture(value)
        pixels = pixels_of(value, item.name, place)
    else:
        row_of(value, seen, place)
        pixels = geometry(work.options).crop_pixels(pixels_of(value, item.name, place)[None])[0]
    found = (1 if pixels.ndim == 2 else pixels.shape[2], *pixels.shape[:2])
    channels, height, width = found
    expected = item.shape if item.layout == "CHW" else (item.shape[2], *item.shape[:2])
    if found != expected:
        raise SampleError(
            f"{place}, field {item.name!r}",
            f"{expected[0]} channels of {expected[2]}x{expected[1]} pixels, as in sample 0",
            f"{channels} channels of {width}x{height} pixels",
            "Give all pictures one size with --resize and --crop, and one colour mode.",
        )
    return pixels


def _converted(item: Field, pixels: Array, first: int) -> Array:
    converter = Converter(item)
    converter.check(pixels, first)
    return converter(pixels)


def _cast(item: Field, seen: Field, values: Array, first: int, options: Options) -> Array:
    """Return rows in the stored dtype, refusing what does not fit or is not finite."""
    wide = widened(values, seen.dtype)
    if wide.dtype.kind in "fc" and not options.allow_nonfinite:
        _refuse_nonfinite(item, wide, first)
    if item.dtype == seen.dtype:
        return np.ascontiguousarray(values)
    with np.errstate(over="ignore"):
        single = wide.astype(np.float32)
    narrow = rounded(single, item.dtype)
    lost = np.isfinite(wide) & ~np.isfinite(widened(narrow, item.dtype))
    for row in np.flatnonzero(lost.reshape(len(lost), -1).any(axis=1))[:1]:
        raise overflow(item, first + int(row), wide[row][lost[row]])
    return np.ascontiguousarray(narrow)


def _refuse_nonfinite(item: Field, values: Array, first: int) -> None:
    bad = ~np.isfinite(values).reshape(len(values), -1)
    for row in np.flatnonzero(bad.any(axis=1))[:1]:
        value = values[row].reshape(-1)[bad[row]][0]
        raise NumberError(
            f"field {item.name!r}, sample {first + int(row)}",
            "finite numbers",
            f"{int(bad[row].sum())} that are not, first {value}",
            "Correct the source, or accept them with --allow-nonfinite.",
        )


def cut(rows: range, step: int) -> Iterator[range]:
    """Yield consecutive parts of `rows`, each of `step` rows (at least one) but the last."""
    step = max(1, step)
    return (range(start, min(start + step, rows.stop)) for start in range(rows.start, rows.stop, step))
