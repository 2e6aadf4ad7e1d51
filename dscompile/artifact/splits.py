"""Splits and shards as the manifest records them, with the checks that need no file.

Named tuples, like the other plain records of the runtime's path: making a dataclass takes 0.65 ms at import
where a named tuple takes 0.11 ms, and a restart waits for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, NamedTuple

from dscompile.artifact.fields import Field
from dscompile.artifact.parsing import MOST, REBUILD, count, invalid, text
from dscompile.errors import UnsafePathError


class Shard(NamedTuple):
    """One file with the consecutive rows [first, first + samples) of a split.

    Attributes:
        path: File name relative to the artifact.
        first: Index of its first row in the split.
        samples: Number of rows.
        bytes: Size of the file.
        sha256: SHA-256 of the whole file.
        regions: Field name -> (byte offset, byte length) of its rows in the file.
    """

    path: str
    first: int
    samples: int
    bytes: int
    sha256: str
    regions: Mapping[str, tuple[int, int]]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {
            "path": self.path,
            "first": self.first,
            "samples": self.samples,
            "bytes": self.bytes,
            "sha256": self.sha256,
            "fields": {
                name: {"offset": start, "bytes": size} for name, (start, size) in self.regions.items()
            },
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Shard:
        """Make one from the data of `to_dict`; raises KeyError or TypeError if it is not of that form."""
        return cls(
            path=text(data["path"]),
            first=count(data["first"]),
            samples=count(data["samples"]),
            bytes=count(data["bytes"]),
            sha256=text(data["sha256"]),
            regions={
                name: (count(region["offset"]), count(region["bytes"]))
                for name, region in data["fields"].items()
            },
        )

    def check(self, place: str, first: int, fields: Sequence[Field], *, mapped: bool) -> None:
        """Refuse a path that leaves the artifact, a gap before `first`, and regions that do not fit.

        Compressed rows are not mapped and have no regions.
        """
        path = PurePosixPath(self.path)
        if path.is_absolute() or ".." in path.parts or not path.parts or set(self.path) & {"\\", "\x00"}:
            raise UnsafePathError(place, "a relative path inside the artifact", repr(self.path), REBUILD)
        if self.samples < 1:
            raise invalid(place, "samples >= 1", str(self.samples))
        if self.first != first:
            raise invalid(place, f"its first row to be {first}", str(self.first))
        rows = {item.name: item.row_bytes * self.samples for item in fields if mapped}
        if sorted(self.regions) != sorted(rows):
            raise invalid(place, f"one region for each of {sorted(rows)}", f"regions {sorted(self.regions)}")
        end = 0
        for name, (offset, length) in sorted(self.regions.items(), key=lambda item: item[1]):
            if length != rows[name]:
                raise invalid(f"{place}, field {name!r}", f"{rows[name]} bytes for its rows", str(length))
            if offset < end or offset + length > self.bytes:
                raise invalid(
                    f"{place}, field {name!r}", "a region of its own in the file", f"offset {offset}"
                )
            end = offset + length


class Split(NamedTuple):
    """The rows of one split.

    Attributes:
        samples: Number of rows.
        shards: The files, in the order of their rows.
        blocks: Field name -> SHA-256 of each block of `Manifest.block_rows` rows of the split.
        statistics: Field name -> {count, min, max, mean, std, class_counts …}.
        skipped: Samples left out: {source, index, reason}.
    """

    samples: int
    shards: tuple[Shard, ...]
    blocks: Mapping[str, tuple[str, ...]]
    statistics: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    skipped: tuple[Mapping[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {
            "samples": self.samples,
            "shards": [shard.to_dict() for shard in self.shards],
            "blocks": {name: list(digests) for name, digests in self.blocks.items()},
            "statistics": {name: dict(item) for name, item in self.statistics.items()},
            "skipped": [dict(item) for item in self.skipped],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Split:
        """Make one from the data of `to_dict`; raises KeyError or TypeError if it is not of that form."""
        return cls(
            samples=count(data["samples"]),
            shards=tuple(Shard.from_dict(item) for item in data["shards"]),
            blocks={name: tuple(text(digest) for digest in item) for name, item in data["blocks"].items()},
            statistics={name: dict(item) for name, item in data.get("statistics", {}).items()},
            skipped=tuple(dict(item) for item in data.get("skipped", [])),
        )

    def check(self, place: str, fields: Sequence[Field], block_rows: int, *, mapped: bool) -> None:
        """Refuse no rows or too many, shards that do not cover them once, and a wrong number of digests."""
        if self.samples < 1:
            raise invalid(place, "samples >= 1", str(self.samples))
        for item in fields:
            if item.extent * self.samples > MOST:
                got = f"{self.samples} rows of {item.extent} bytes"
                raise invalid(f"{place}, field {item.name!r}", "less than 2**63 bytes of rows", got)
        first = 0
        for shard in self.shards:
            shard.check(f"{place}, shard {shard.path!r}", first, fields, mapped=mapped)
            first += shard.samples
        if first != self.samples:
            raise invalid(place, f"{self.samples} samples in its shards", str(first))
        blocks = -(-self.samples // block_rows)
        for item in fields:
            found = len(self.blocks.get(item.name, ()))
            if found != blocks:
                raise invalid(f"{place}, field {item.name!r}", f"{blocks} block digests", str(found))
