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
from pathlib import Path
from typing import Any

from dscompile.artifact.fields import Field
from dscompile.artifact.splits import Shard
from dscompile.errors import ShardError
from dscompile.formats.mapping import RECOMPILE, map_regions
from dscompile.formats.protocol import Regions, Rows

ALIGNMENT = 4096
LOCAL_HEADER, CENTRAL_HEADER, END_RECORD = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
DESCRIPTOR = b"PK\x07\x08"
END_BYTES = 22


class Pt:
    """The `.pt` container."""

    suffix = "pt"

    def create(self, path: Path, fields: Sequence[Field], samples: int) -> Regions:
        """Lay out a shard with `torch.save`; tensors are never touched, so their memory is not taken."""
        import torch
        from torch.utils.serialization import config

        tensors = {
            item.name: torch.empty((samples, *item.shape), dtype=getattr(torch, item.dtype))
            for item in fields
        }
        # torch 2.6 has no such setting and aligns to 64 bytes, which maps as well.
        settings: Any = config
        known = "save.storage_alignment" in settings.get_config_copy()
        with (
            settings.patch({"save.storage_alignment": ALIGNMENT} if known else {}),
            torch.serialization.skip_data(),
        ):
            torch.save(tensors, path)
        with zipfile.ZipFile(path) as archive:
            records = [archive.getinfo(f"{path.stem}/data/{key}") for key in range(len(fields))]
        with path.open("rb") as file:
            starts = [_data_start(file.fileno(), record.header_offset) for record in records]
        return {
            item.name: (start, record.file_size)
            for item, start, record in zip(fields, starts, records, strict=True)
        }

    def seal(self, path: Path, fields: Sequence[Field], regions: Regions) -> None:
        """Write the CRC-32 of each storage into its data descriptor and the central directory."""
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as data:
            for item, entry in zip(fields, _storage_entries(path, data, len(fields)), strict=True):
                start, length = regions[item.name]
                with memoryview(data) as view:
                    checksum = struct.pack("<I", zlib.crc32(view[start : start + length]))
                data[entry + 16 : entry + 20] = checksum
                if data[start + length : start + length + 4] == DESCRIPTOR:
                    data[start + length + 4 : start + length + 8] = checksum

    def check(self, path: Path, shard: Shard) -> None:
        """Check that the file begins and ends as a zip archive and lists every storage."""
        with path.open("rb") as file:
            head = file.read(4)
            file.seek(-END_BYTES, 2)
            tail = file.read(4)
        if head != LOCAL_HEADER or tail != END_RECORD:
            raise ShardError(str(path), "a .pt file in the zip layout", f"{head!r} … {tail!r}", RECOMPILE)

    def map(self, path: Path, shard: Shard, fields: Sequence[Field]) -> dict[str, Rows]:
        """Map a shard by its recorded offsets, without unpickling anything."""
        rows = map_regions(path, shard, fields)
        self.check(path, shard)
        return rows


def _data_start(handle: int, header: int) -> int:
    """Return where a record's bytes begin: after its local header, name and padding."""
    name, extra = struct.unpack("<HH", os.pread(handle, 4, header + 26))
    return header + 30 + int(name) + int(extra)


def _storage_entries(path: Path, data: mmap.mmap, fields: int) -> Iterator[int]:
    """Yield where the central directory's entry of each storage begins, in the order of the fields."""
    with zipfile.ZipFile(path) as archive:
        position = archive.start_dir
    entries = {}
    while data[position : position + 4] == CENTRAL_HEADER:
        name, extra, comment = struct.unpack("<HHH", data[position + 28 : position + 34])
        entries[data[position + 46 : position + 46 + name].decode()] = position
        position += 46 + name + extra + comment
    return (entries[f"{path.stem}/data/{key}"] for key in range(fields))
