"""One task of a build: read the rows of one block, convert them, write them where they belong."""

from __future__ import annotations

import hashlib
import os
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np

from dscompile.artifact.fields import Field
from dscompile.compiler.pixels import PIECE_BYTES
from dscompile.compiler.plan import geometry
from dscompile.compiler.reading import Work, cut, pieces
from dscompile.compiler.samples import Array
from dscompile.compiler.statistics import Statistics
from dscompile.errors import StoreError


@dataclass
class Report:
    """What a task returns: small, whatever the size of its rows.

    Attributes:
        rows: The rows of the block.
        digests: Field name -> SHA-256 of its stored bytes.
        statistics: Field name -> what was seen.
    """

    rows: range
    digests: dict[str, str] = field(default_factory=dict)
    statistics: dict[str, Statistics] = field(default_factory=dict)


def compile_rows(work: Work, split: str, rows: range) -> Report:
    """Read, convert, write and digest one block of rows.

    Raises:
        SampleError, NumberError: A sample cannot be stored; names split, sample and field.
        StoreError: The rows cannot be written.
    """
    report = Report(rows, statistics={item.name: Statistics() for item in work.plan.fields})
    digests = {item.name: hashlib.sha256() for item in work.plan.fields}
    with ExitStack() as stack:
        writer = _Writer(work, split, stack)
        for piece in pieces(work, split, rows):
            for item in work.plan.fields:
                values = piece.stored[item.name]
                measure(report.statistics[item.name], item, piece.measured[item.name])
                digests[item.name].update(values.data.cast("B") if values.size else b"")
                writer.write(item, piece.first, values)
    report.digests = {name: digest.hexdigest() for name, digest in digests.items()}
    return report


def measure_rows(work: Work, split: str, rows: range) -> Report:
    """Take the statistics of the picture fields of one block of array rows; nothing is written."""
    report = Report(rows)
    arrays = work.data(split).arrays or {}
    for item in work.plan.fields:
        if item.is_picture:
            found = report.statistics[item.name] = Statistics()
            for part in cut(rows, PIECE_BYTES // max(1, item.row_bytes)):
                measure(
                    found, item, geometry(work.options).crop_pixels(arrays[item.name][part.start : part.stop])
                )
    return report


def measure(found: Statistics, item: Field, values: Array) -> None:
    """Add rows to a field's statistics: pictures per channel, labels with their counts."""
    if item.is_picture and values.dtype == np.uint8:
        found.add_pixels(values)
    elif item.python == "int":
        found.add_labels(values)
    else:
        found.add_values(values)


class _Writer:
    """Writes rows of a split into its shards by offset; a piece may cross from one shard to the next."""

    def __init__(self, work: Work, split: str, stack: ExitStack) -> None:
        self._work, self._shards, self._stack = work, work.plan.shards[split], stack
        self._handles: dict[str, int] = {}

    def write(self, item: Field, first: int, values: Array) -> None:
        for shard in self._shards:
            start, stop = max(first, shard.first), min(first + len(values), shard.first + shard.samples)
            if start < stop and item.row_bytes:
                offset = self._work.regions[shard.path][item.name][0]
                rows = values[start - first : stop - first]
                self._pwrite(shard.path, rows, offset + (start - shard.first) * item.row_bytes)

    def _pwrite(self, name: str, rows: Array, offset: int) -> None:
        data = rows.data.cast("B")
        try:
            while data:
                written = os.pwrite(self._handle(name), data, offset)
                data, offset = data[written:], offset + written
        except OSError as error:
            raise StoreError(
                str(self._work.folder / name),
                "room for its rows",
                error.strerror or str(error),
                "Free space, or choose another --store.",
            ) from error

    def _handle(self, name: str) -> int:
        if name not in self._handles:
            self._handles[name] = os.open(self._work.folder / name, os.O_WRONLY)
            self._stack.callback(os.close, self._handles[name])
        return self._handles[name]
