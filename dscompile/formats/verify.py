"""Verifying an artifact: every byte against the digests of the manifest, shards side by side."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dscompile.artifact.files import check_shards
from dscompile.artifact.hashing import file_sha256
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


@dataclass(frozen=True)
class _Looked:
    """What reading one shard as a file gave: its digest if it is not the recorded one, and other problems."""

    problems: tuple[Problem, ...] = ()
    other_digest: str | None = None
    readable: bool = True


def verify(
    path: Path, manifest: Manifest, *, quick: bool = False, progress: Progress | None = None
) -> list[Problem]:
    """Return what is wrong with an artifact; an empty list if nothing is.

    Each file is compared with its SHA-256, then by the container's own index with the manifest, and each
    block of rows, where the manifest says it lies, with its digest.

    Args:
        path: Its folder.
        manifest: Its manifest, which has been checked on reading.
        quick: Check sizes and headers only.
        progress: Called with (`shards` or `blocks`, shards done, shards in all).
    """
    try:
        check_shards(path, manifest)
    except ShardError as error:
        return [Problem(os.path.basename(error.place), None, None, error.expected, error.got)]
    shards = [(split, shard) for split in manifest.splits.values() for shard in split.shards]
    looked: dict[str, _Looked] = {}
    wrong: dict[str, list[Problem]] = {shard.path: [] for _, shard in shards}
    report = progress or (lambda step, done, total: None)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        files = pool.map(lambda item: _file(path, manifest, item[1], quick), shards)
        for done, ((_, shard), result) in enumerate(zip(shards, files, strict=True), start=1):
            looked[shard.path] = result
            report("shards", done, len(shards))
        blocks = pool.map(
            lambda item: [] if quick else _shard(path, manifest, item[0], item[1], looked), shards
        )
        for done, problems in enumerate(blocks, start=1):
            for problem in problems:
                wrong[problem.shard].append(problem)
            if not quick:
                report("blocks", done, len(shards))
    return [problem for _, shard in shards for problem in _of(shard, looked, wrong[shard.path])]


def _of(shard: Shard, looked: Mapping[str, _Looked], wrong: Sequence[Problem]) -> list[Problem]:
    """Return the problems of one shard; its digest is one of them where no block says more."""
    found = [*looked[shard.path].problems, *wrong]
    digest = looked[shard.path].other_digest
    if digest is not None and not found:
        place = ", outside the rows" if all(item.readable for item in looked.values()) else ""
        found.append(Problem(shard.path, None, None, f"SHA-256 {shard.sha256}", f"{digest}{place}"))
    return found


def _file(path: Path, manifest: Manifest, shard: Shard, quick: bool) -> _Looked:
    """Compare one shard with its SHA-256, and with its container's index once it is the recorded file."""
    file, container = path / shard.path, format_of(manifest.container, manifest.compression)
    try:
        if not quick:
            digest = file_sha256(file)
            if digest != shard.sha256:
                # A library that unpacks rows is not to be handed a file that nobody wrote.
                return _Looked(other_digest=digest, readable=manifest.compression is None)
        container.check(file, shard, manifest.fields)
    except ShardError as error:
        return _Looked((Problem(shard.path, None, None, error.expected, error.got),), readable=False)
    except OSError as error:
        got = error.strerror or str(error)
        return _Looked((Problem(shard.path, None, None, "a file that can be read", got),), readable=False)
    return _Looked()


def _shard(
    path: Path, manifest: Manifest, split: Split, shard: Shard, looked: Mapping[str, _Looked]
) -> list[Problem]:
    """Return the blocks that differ, of those that begin in this shard.

    A block that reaches into other shards is read from all of them, and counts against the one whose file
    is not the recorded one. Where one of them cannot be read, that has been said.
    """
    container = format_of(manifest.container, manifest.compression)
    mapped: dict[str, Mapping[str, Rows]] = {}
    found: list[Problem] = []
    low, high = (-(-end // manifest.block_rows) for end in (shard.first, shard.first + shard.samples))
    for number in range(low, high):
        start = number * manifest.block_rows
        block = range(start, min(start + manifest.block_rows, split.samples))
        parts = [
            item for item in split.shards if item.first < block.stop and item.first + item.samples > start
        ]
        if not all(looked[item.path].readable for item in parts):
            continue
        try:
            for item in parts:
                if item.path not in mapped:
                    mapped[item.path] = container.map(path / item.path, item, manifest.fields)
            wrong = list(_differing(manifest, split, parts, mapped, block))
        except ShardError as error:
            return [*found, Problem(shard.path, None, None, error.expected, error.got)]
        blamed = next((item for item in parts if looked[item.path].other_digest), parts[0]).path
        found += [Problem(blamed, name, (start, block.stop - 1), *pair) for name, pair in wrong]
    return found


def _differing(
    manifest: Manifest,
    split: Split,
    parts: Sequence[Shard],
    mapped: Mapping[str, Mapping[str, Rows]],
    block: range,
) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the fields whose rows of a block differ, with the recorded and the found digest."""
    for item in manifest.fields:
        digest = hashlib.sha256()
        for shard in parts:
            low, high = max(block.start, shard.first), min(block.stop, shard.first + shard.samples)
            part = mapped[shard.path][item.name][low - shard.first : high - shard.first]
            digest.update(part.data.cast("B") if part.size else b"")
        expected = split.blocks[item.name][block.start // manifest.block_rows]
        if digest.hexdigest() != expected:
            yield item.name, (expected, digest.hexdigest())
