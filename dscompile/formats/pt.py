"""`.pt` shards: a plain dict of CPU tensors that `torch.load(weights_only=True, mmap=True)` reads.

`torch.save` lays the file out with holes where the storages belong (`skip_data`); rows are then written
into the holes by whoever has them, and `seal` fills in the checksums that the zip container wants. Apart
from the serialization id, which torch derives from checksums of the holes, the file is what `torch.save`
of the whole dict would give.
"""

from __future__ import annotations

import mmap
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from dscompile.artifact.fields import Field
from dscompile.artifact.splits import Shard
from dscompile.errors import ShardError
from dscompile.formats.mapping import RECOMPILE, check_magic, map_regions
from dscompile.formats.protocol import Regions, Rows
from dscompile.formats.room import room_for

ALIGNMENT = 4096
# What torch calls the folder in the archive where it is given a file and no path.
ROOT = "archive"
LOCAL_HEADER, CENTRAL_HEADER, DESCRIPTOR = b"PK\x03\x04", b"PK\x01\x02", b"PK\x07\x08"
# What zipfile raises for damaged archives; UnicodeDecodeError is a ValueError.
_UNREADABLE = (
    zipfile.BadZipFile,
    KeyError,
    ValueError,
    OverflowError,
    struct.error,
    NotImplementedError,
    OSError,
)


class Pt:
    """The `.pt` container."""

    suffix: str = "pt"
    most_bytes: int | None = None

    def create(self, path: Path, fields: Sequence[Field], samples: int) -> Regions:
        """Lay out a shard with `torch.save`; tensors are never touched, so their memory is not taken."""
        import torch

        tensors = {
            item.name: torch.empty((samples, *item.shape), dtype=getattr(torch, item.dtype))
            for item in fields
        }
        size = sum(item.row_bytes for item in fields) * samples
        # A path would give its name to the archive's folder, if it is ASCII.
        with (
            room_for(path, size, RuntimeError),
            path.open("wb") as file,
            _aligned(),
            torch.serialization.skip_data(),
        ):
            torch.save(tensors, file)
        with zipfile.ZipFile(path) as archive:
            found = _storages(path, archive, len(fields))
        return {item.name: region for item, region in zip(fields, found, strict=True)}

    def seal(self, path: Path, fields: Sequence[Field], regions: Regions) -> Regions:
        """Write the CRC-32 of each storage into its data descriptor and the central directory."""
        # Written through the file: a mapped page that the disk has no room for would kill the process.
        with (
            room_for(path, sum(length for _, length in regions.values())),
            path.open("r+b") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            for item, entry in zip(fields, _storage_entries(path, data, len(fields)), strict=True):
                start, length = regions[item.name]
                with memoryview(data) as view:
                    checksum = struct.pack("<I", zlib.crc32(view[start : start + length]))
                os.pwrite(file.fileno(), checksum, entry + 16)
                if data[start + length : start + length + 4] == DESCRIPTOR:
                    os.pwrite(file.fileno(), checksum, start + length + 4)
        return regions

    def check(self, path: Path, shard: Shard, fields: Sequence[Field]) -> None:
        """Check that the archive lists each storage at its recorded place."""
        check_magic(path, LOCAL_HEADER, "a .pt file in the zip layout")
        try:
            with zipfile.ZipFile(path) as archive:
                found = _storages(path, archive, len(fields))
        except _UNREADABLE as error:
            raise ShardError(str(path), "a .pt file in the zip layout", str(error), RECOMPILE) from error
        for item, region in zip(fields, found, strict=True):
            if region != shard.regions[item.name]:
                place = f"{path}, storage of field {item.name!r}"
                raise ShardError(
                    place, f"offset and bytes {shard.regions[item.name]}", str(region), RECOMPILE
                )

    def map(self, path: Path, shard: Shard, fields: Sequence[Field]) -> dict[str, Rows]:
        """Map a shard by its recorded offsets, without unpickling anything."""
        check_magic(path, LOCAL_HEADER, "a .pt file in the zip layout")
        return dict(map_regions(path, shard, fields))


def _aligned() -> AbstractContextManager[Any]:
    """Return a context in which `torch.save` aligns storages to 4096 bytes.

    A torch without that setting (2.6) aligns them to 64 bytes, which maps as well.
    """
    try:
        from torch.utils.serialization import config
    except ImportError:
        return nullcontext()
    settings: Any = config
    known = "save.storage_alignment" in settings.get_config_copy()
    return settings.patch({"save.storage_alignment": ALIGNMENT}) if known else nullcontext()


def _storages(path: Path, archive: zipfile.ZipFile, fields: int) -> list[tuple[int, int]]:
    """Return (offset, bytes) of each storage, in the order of the fields.

    A record's bytes begin after its local header, name and padding.
    """
    records = [archive.getinfo(f"{ROOT}/data/{key}") for key in range(fields)]
    found = []
    with path.open("rb") as file:
        for record in records:
            name, extra = struct.unpack("<HH", os.pread(file.fileno(), 4, record.header_offset + 26))
            found.append((record.header_offset + 30 + name + extra, record.file_size))
    return found


def _storage_entries(path: Path, data: mmap.mmap, fields: int) -> Iterator[int]:
    """Yield where the central directory's entry of each storage begins, in the order of the fields."""
    with zipfile.ZipFile(path) as archive:
        position = archive.start_dir
    entries = {}
    while data[position : position + 4] == CENTRAL_HEADER:
        name, extra, comment = struct.unpack("<HHH", data[position + 28 : position + 34])
        entries[data[position + 46 : position + 46 + name].decode()] = position
        position += 46 + name + extra + comment
    return (entries[f"{ROOT}/data/{key}"] for key in range(fields))
