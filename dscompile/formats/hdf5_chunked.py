"""Compressed HDF5 shards: chunks of a few rows, read through h5py because they cannot be mapped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dscompile.artifact.fields import STORED_AS, Field
from dscompile.artifact.hashing import BLOCK_BYTES, row_blocks
from dscompile.artifact.splits import Shard
from dscompile.errors import ShardError
from dscompile.formats.hdf5 import KIND, MAGIC, UNREADABLE, check_datasets, dataset_of, describe, new_file
from dscompile.formats.mapping import RECOMPILE, check_magic
from dscompile.formats.plain import Plain
from dscompile.formats.protocol import Array, Regions, Rows
from dscompile.formats.room import room_for

# A random row costs the decompression of its chunk: 64 KiB is a few rows, and enough for gzip to work with.
CHUNK_BYTES = 64 << 10


class ChunkedHdf5:
    """The HDF5 container with compressed chunks.

    Args:
        compression: A filter of h5py: `gzip` or `lzf`.
    """

    suffix: str = "h5"
    most_bytes: int | None = None

    def __init__(self, compression: str) -> None:
        self.compression = compression

    def create(self, path: Path, fields: Sequence[Field], samples: int) -> Regions:
        """Lay out plain rows, one field after another; `seal` compresses them."""
        return Plain().create(path, fields, samples)

    def seal(self, path: Path, fields: Sequence[Field], regions: Regions) -> Regions:
        """Replace the plain rows by a compressed file, 16 MiB at a time."""
        packed = path.with_name(f".{path.name}")
        samples = max(
            (regions[item.name][1] // item.row_bytes for item in fields if item.row_bytes), default=0
        )
        size = sum(length for _, length in regions.values())
        with room_for(path, size, RuntimeError), new_file(packed) as file:
            for item in fields:
                self._pack(file, path, item, regions[item.name][0], samples)
            describe(file, fields)
        packed.replace(path)
        return {}

    def check(self, path: Path, shard: Shard, fields: Sequence[Field]) -> None:
        """Check that each dataset has the recorded type and shape."""
        check_datasets(path, shard, fields)

    def map(self, path: Path, shard: Shard, fields: Sequence[Field]) -> dict[str, Rows]:
        """Open a shard; rows are read and decompressed when asked for. Not to be used across a fork."""
        import h5py

        check_magic(path, MAGIC, KIND)
        try:
            file = h5py.File(path, "r", locking=False)
            return {
                item.name: ChunkedRows(path, dataset_of(path, file, item, shard, chunked=True), item)
                for item in fields
            }
        except UNREADABLE as error:
            if isinstance(error, ShardError):
                raise
            raise ShardError(str(path), KIND, str(error) or type(error).__name__, RECOMPILE) from error

    def _pack(self, file: Any, path: Path, item: Field, start: int, samples: int) -> None:
        length = item.row_bytes * samples
        rows = max(1, min(samples, CHUNK_BYTES // max(1, item.row_bytes)))
        dataset = file.create_dataset(
            item.name,
            (samples, *item.shape),
            np.dtype(STORED_AS[item.dtype]),
            # A dataset without bytes can have no chunks.
            chunks=(rows, *item.shape) if length else None,
            compression=self.compression if length else None,
        )
        if length == 0:
            return
        plain = np.memmap(path, STORED_AS[item.dtype], "r", start, (samples, *item.shape))
        for block in row_blocks(samples, rows * max(1, BLOCK_BYTES // (rows * item.row_bytes))):
            dataset[block.start : block.stop] = plain[block.start : block.stop]


class ChunkedRows:
    """Rows of one dataset, read through h5py: one handle, which closes with the last of them."""

    def __init__(self, path: Path, dataset: Any, item: Field) -> None:
        self._path, self._dataset, self._item = path, dataset, item

    def __len__(self) -> int:
        return int(self._dataset.shape[0])

    def __getitem__(self, rows: Any) -> Array:
        """Return new rows (N, *shape) for a slice or an int64 array; each chunk is read once per call.

        Raises:
            ShardError: The chunk is damaged.
        """
        try:
            if isinstance(rows, slice):
                return np.asarray(self._dataset[rows], STORED_AS[self._item.dtype])
            return self._scattered(np.asarray(rows))
        except (OSError, RuntimeError) as error:
            place = f"{self._path}, dataset {self._item.name!r}"
            raise ShardError(place, "chunks that can be read", str(error), RECOMPILE) from error

    def _scattered(self, rows: Array) -> Array:
        out = np.empty((len(rows), *self._item.shape), STORED_AS[self._item.dtype])
        if out.nbytes == 0:
            return out
        step = self._dataset.chunks[0]
        for chunk in np.unique(rows // step).tolist():
            part = self._dataset[chunk * step : (chunk + 1) * step]
            places = np.flatnonzero(rows // step == chunk)
            out[places] = part[rows[places] - chunk * step]
        return out
