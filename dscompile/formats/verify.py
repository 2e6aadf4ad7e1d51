"""Verifying an artifact: every byte against the digests of the manifest, shards side by side."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dscompile.artifact.fields import Field
from dscompile.artifact.files import check_shards
from dscompile.artifact.hashing import file_sha256, row_blocks
from dscompile.artifact.manifest import Manifest
from dscompile.artifact.splits import Shard, Split
from dscompile.errors import ShardError
from dscompile.formats import format_of
from dscompile.formats.protocol import Rows

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Problem:
    """One difference: which shard, which field and rows ([first, last], of the split), what was expected."""

    shard: str
    field: str | None
    rows: tuple[int, int] | None
    expected: str
    got: str

    def __str__(self) -> str:
        where = "" if self.rows is None else f", field {self.field!r}, rows {self.rows[0]} to {self.rows[1]}"
        return f"{self.shard}{where}: expected {self.expected}, got {self.got}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {
            "shard": self.shard,
            "field": self.field,
            "rows": None if self.rows is None else list(self.rows),
            "expected": self.expected,
            "got": self.got,
        }


def verify(
    path: Path, manifest: Manifest, *, quick: bool = False, progress: Progress | None = None
) -> list[Problem]:
    """Return what is wrong with an artifact; an empty list if nothing is.

    Args:
        path: Its folder.
        manifest: Its manifest, which has been checked on reading.
        quick: Check sizes and headers only.
        progress: Called with (`shards`, shards done, shards in all).
    """
    try:
        check_shards(path, manifest)
    except ShardError as error:
        return [Problem(os.path.basename(error.place), None, None, error.expected, error.got)]
    shards = [(split, shard) for split in manifest.splits.values() for shard in split.shards]
    found: list[Problem] = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for done, problems in enumerate(
            pool.map(lambda item: _shard(path, manifest, item[0], item[1], quick), shards), start=1
        ):
            found.extend(problems)
            if progress is not None:
                progress("shards", done, len(shards))
    return found


def _shard(path: Path, manifest: Manifest, split: Split, shard: Shard, quick: bool) -> list[Problem]:
    file, container = path / shard.path, format_of(manifest.container, manifest.compression)
    try:
        if quick:
            container.check(file, shard, manifest.fields)
            return []
        digest = file_sha256(file)
        if digest == shard.sha256:
            return []
        rows = container.map(file, shard, manifest.fields)
        found = [
            Problem(shard.path, item.name, (block.start, block.stop - 1), expected, got)
            for item in manifest.fields
            for block, expected, got in _blocks(path, manifest, split, shard, item, rows[item.name])
        ]
    except ShardError as error:
        return [Problem(shard.path, None, None, error.expected, error.got)]
    return found or [
        Problem(shard.path, None, None, f"SHA-256 {shard.sha256}", f"{digest}, outside the rows")
    ]


def _blocks(
    path: Path, manifest: Manifest, split: Split, shard: Shard, item: Field, rows: Rows
) -> Iterator[tuple[range, str, str]]:
    """Yield the blocks of a field that differ, with the recorded and the found digest.

    A block that crosses into the next shard is read from all shards it lies in.
    """
    container = format_of(manifest.container, manifest.compression)
    blocks = row_blocks(split.samples, manifest.block_rows)
    for number, block in enumerate(blocks):
        if block.stop <= shard.first or block.start >= shard.first + shard.samples:
            continue
        digest = hashlib.sha256()
        for other in split.shards:
            low, high = max(block.start, other.first), min(block.stop, other.first + other.samples)
            if low < high:
                mapped = (
                    rows if other is shard else container.map(path / other.path, other, [item])[item.name]
                )
                part = mapped[low - other.first : high - other.first]
                digest.update(part.data.cast("B") if part.size else b"")
        expected, got = split.blocks[item.name][number], digest.hexdigest()
        if got != expected:
            yield block, expected, got
