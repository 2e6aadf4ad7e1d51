"""HDF5 shards: one contiguous dataset per field, described by attributes that any HDF5 tool reads.

h5py lays the file out (contiguous, allocated early, never filled) and says where each dataset's bytes lie;
rows are written there by offset, and read by offset, so that no handle is held and no lock is
taken, and reading does not import h5py.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dscompile.artifact.fields import STORED_AS, Field
from dscompile.artifact.splits import Shard
from dscompile.errors import ShardError
from dscompile.formats.mapping import RECOMPILE, check_magic, map_regions
from dscompile.formats.protocol import Regions, Rows
from dscompile.formats.room import room_for

MAGIC = b"\x89HDF\r\n\x1a\n"
KIND = "an HDF5 file"
ALIGNMENT = 4096
# What h5py raises for files that are damaged or of types it does not know.
UNREADABLE = (OSError, RuntimeError, KeyError, TypeError, ValueError)


class Hdf5:
    """The HDF5 container."""

    suffix: str = "h5"
    most_bytes: int | None = None

    def create(self, path: Path, fields: Sequence[Field], samples: int) -> Regions:
        """Lay out a shard: datasets (samples, *shape), contiguous, allocated, not filled."""
        size = sum(item.row_bytes for item in fields) * samples
        with room_for(path, size, RuntimeError), new_file(path, ALIGNMENT) as file:
            return {item.name: _allocated(file, item, samples) for item in fields}

    def seal(self, path: Path, fields: Sequence[Field], regions: Regions) -> Regions:
        """Describe each dataset by attributes; its bytes stay where they are."""
        import h5py

        size = sum(length for _, length in regions.values())
        with room_for(path, size, RuntimeError), h5py.File(path, "r+", locking=False) as file:
            describe(file, fields)
        return regions

    def check(self, path: Path, shard: Shard, fields: Sequence[Field]) -> None:
        """Check that each dataset has the recorded place, type and shape."""
        check_datasets(path, shard, fields)

    def map(self, path: Path, shard: Shard, fields: Sequence[Field]) -> dict[str, Rows]:
        """Map a shard by its recorded offsets; h5py is not involved."""
        check_magic(path, MAGIC, KIND)
        return dict(map_regions(path, shard, fields))


def new_file(path: Path, alignment: int = 1) -> Any:
    """Return a new h5py file that keeps no time stamps: equal rows are to give equal bytes at any time."""
    import h5py

    access, creation = h5py.h5p.create(h5py.h5p.FILE_ACCESS), h5py.h5p.create(h5py.h5p.FILE_CREATE)
    access.set_alignment(1, alignment)
    creation.set_obj_track_times(False)
    return h5py.File(h5py.h5f.create(bytes(path), h5py.h5f.ACC_EXCL, fcpl=creation, fapl=access))


def describe(file: Any, fields: Sequence[Field]) -> None:
    """Write dtype, layout, classes, normalisation … of each field as attributes of its dataset."""
    for item in fields:
        described = {key: value for key, value in item.to_dict().items() if key not in ("name", "shape")}
        norm = described.pop("normalisation", {})
        for key, value in {**described, **norm}.items():
            file[item.name].attrs[key] = value


def check_datasets(path: Path, shard: Shard, fields: Sequence[Field]) -> None:
    """Check each dataset as `dataset_of` does, and its place in the file where the manifest records one.

    Raises:
        ShardError: The file is no HDF5 file, or holds something else.
    """
    import h5py

    check_magic(path, MAGIC, KIND)
    try:
        with h5py.File(path, "r", locking=False) as file:
            for item in fields:
                dataset = dataset_of(path, file, item, shard, chunked=not shard.regions)
                place = shard.regions[item.name][0] if shard.regions else 0
                # Only a contiguous dataset has an offset; one without bytes has none.
                offset = (dataset.id.get_offset() or 0) if shard.regions else 0
                if offset != place:
                    raise ShardError(
                        f"{path}, dataset {item.name!r}", f"offset {place}", str(offset), RECOMPILE
                    )
    except UNREADABLE as error:
        if isinstance(error, ShardError):
            raise
        raise ShardError(str(path), KIND, str(error) or type(error).__name__, RECOMPILE) from error


def dataset_of(path: Path, file: Any, item: Field, shard: Shard, *, chunked: bool) -> Any:
    """Return the dataset of a field, if it is the file's own: no link elsewhere, no bytes of other files.

    Raises:
        ShardError: It is missing, a link, external or virtual, or of another layout, type or shape.
    """
    import h5py

    place = f"{path}, dataset {item.name!r}"
    if not isinstance(file.get(item.name, getlink=True), h5py.HardLink):
        raise ShardError(place, "a dataset of this file", "none, or a link elsewhere", RECOMPILE)
    dataset = file[item.name]
    if not isinstance(dataset, h5py.Dataset) or dataset.is_virtual or dataset.external:
        raise ShardError(
            place, "a dataset of this file", "another object, or bytes of other files", RECOMPILE
        )
    empty = item.row_bytes * shard.samples == 0
    if (dataset.chunks is not None) != (chunked and not empty):
        layouts = ("contiguous", "chunked")
        expected = layouts[chunked and not empty]
        raise ShardError(place, f"a {expected} dataset", f"chunks {dataset.chunks}", RECOMPILE)
    known = (np.dtype(STORED_AS[item.dtype]), (shard.samples, *item.shape))
    if (dataset.dtype, dataset.shape) != known:
        found = f"{dataset.dtype} {dataset.shape}"
        raise ShardError(place, f"type and shape {known[0]} {known[1]}", found, RECOMPILE)
    return dataset


def _allocated(file: Any, item: Field, samples: int) -> tuple[int, int]:
    import h5py

    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_layout(h5py.h5d.CONTIGUOUS)
    creation.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    creation.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    creation.set_obj_track_times(False)
    dataset = h5py.h5d.create(
        file.id,
        item.name.encode(),
        h5py.h5t.py_create(np.dtype(STORED_AS[item.dtype]), logical=True),
        h5py.h5s.create_simple((samples, *item.shape)),
        dcpl=creation,
    )
    # A dataset without bytes has no place; any offset will do for it.
    return dataset.get_offset() or 0, item.row_bytes * samples
