"""Digests of source files: remembered while nothing changes, never believed when something did."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path

import pytest

from dscompile.artifact import digests
from dscompile.artifact.digests import FileDigests, check_unchanged, stats_of
from dscompile.artifact.fields import Field
from dscompile.artifact.hashing import block_rows, canonical_json, digest_of, file_sha256, row_blocks
from dscompile.errors import SourceError, SourceNotFoundError

pytestmark = pytest.mark.usefixtures("no_open_files")


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files count as settled at once, so that their digests are remembered."""
    monkeypatch.setattr(digests, "SETTLED_NS", -10_000_000_000)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    made = {}
    for name, data in (("a.bin", b"a" * 1000), ("sub/b.bin", b""), ("c.bin", b"c" * (3 << 20))):
        made[name] = tmp_path / "root" / name
        made[name].parent.mkdir(parents=True, exist_ok=True)
        made[name].write_bytes(data)
    return made


def remembered(folder: Path, files: dict[str, Path]) -> list[dict[str, object]]:
    """Return the digests, and let them be remembered as a build that succeeded does."""
    digests = FileDigests(folder)
    found = digests.of(files)
    digests.remember()
    return found


def expected(files: dict[str, Path]) -> list[dict[str, object]]:
    return [
        {"path": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in ((name, path.read_bytes()) for name, path in files.items())
    ]


def test_digests_are_those_of_hashlib(files: dict[str, Path], tmp_path: Path) -> None:
    assert remembered(tmp_path / "memory", files) == expected(files)
    assert file_sha256(files["c.bin"]) == hashlib.sha256(b"c" * (3 << 20)).hexdigest()


@pytest.mark.usefixtures("settled")
def test_unchanged_files_are_not_read_again(files: dict[str, Path], tmp_path: Path) -> None:
    first = remembered(tmp_path / "memory", files)
    for path in files.values():
        before = path.stat().st_atime_ns
        os.utime(path, ns=(before, path.stat().st_mtime_ns))  # another ctime: these must be read again
    assert remembered(tmp_path / "memory", files) == first
    table = next((tmp_path / "memory").iterdir())
    rows = json.loads(table.read_text())
    rows["a.bin"][1] = "remembered"
    table.write_text(json.dumps(rows))
    assert remembered(tmp_path / "memory", files)[0]["sha256"] == "remembered"
    assert FileDigests(tmp_path / "memory", paranoid=True).of(files) == first


@pytest.mark.usefixtures("settled")
def test_a_change_of_equal_size_and_time_is_found(files: dict[str, Path], tmp_path: Path) -> None:
    remembered(tmp_path / "memory", files)
    before = files["a.bin"].stat()
    time.sleep(0.02)  # the clock of a file system may tick in 10 ms
    files["a.bin"].write_bytes(b"b" * 1000)
    os.utime(files["a.bin"], ns=(before.st_atime_ns, before.st_mtime_ns))
    assert files["a.bin"].stat().st_mtime_ns == before.st_mtime_ns
    assert remembered(tmp_path / "memory", files) == expected(files)


@pytest.mark.usefixtures("settled")
def test_another_file_of_equal_size_and_time_is_found(files: dict[str, Path], tmp_path: Path) -> None:
    remembered(tmp_path / "memory", files)
    before = files["a.bin"].stat()
    other = tmp_path / "other"
    other.write_bytes(b"z" * 1000)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(files["a.bin"])
    assert remembered(tmp_path / "memory", files) == expected(files)


def test_a_file_just_written_is_not_remembered(files: dict[str, Path], tmp_path: Path) -> None:
    """Within the clock's tick it could change again under the same time stamp."""
    remembered(tmp_path / "memory", files)
    assert json.loads(next((tmp_path / "memory").iterdir()).read_text()) == {}


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"a.bin": 5}',
        '{"a.bin": []}',
        '{"a.bin": [1, 2, 3]}',
        '{"a.bin": [[0, 0, 0, 0], 1]}',
    ],
)
def test_a_damaged_memory_costs_time_only(text: str, files: dict[str, Path], tmp_path: Path) -> None:
    remembered(tmp_path / "memory", files)
    table = next((tmp_path / "memory").iterdir())
    table.write_text(text)
    assert remembered(tmp_path / "memory", files) == expected(files)


def test_a_memory_that_cannot_be_written_is_done_without(files: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert remembered(tmp_path / "file" / "memory", files) == expected(files)


def test_a_missing_file_is_named(files: dict[str, Path], tmp_path: Path) -> None:
    files["a.bin"].unlink()
    with pytest.raises(SourceNotFoundError, match=r"a\.bin"):
        remembered(tmp_path / "memory", files)


@pytest.mark.parametrize("change", ["content", "gone", "touched"])
def test_a_change_during_a_build_is_found(change: str, files: dict[str, Path]) -> None:
    before = stats_of(files)
    check_unchanged(files, before)
    time.sleep(0.02)
    if change == "gone":
        files["a.bin"].unlink()
    elif change == "touched":
        files["a.bin"].touch()
    else:
        files["a.bin"].write_bytes(b"new")
    with pytest.raises(SourceError, match=r"a\.bin"):
        check_unchanged(files, before)


def test_canonical_json() -> None:
    data = {"b": [1.0, 0.1, 1e22, True, None], "a": "größe \u2028", "A": {}}
    text = '{"A":{},"a":"größe \u2028","b":[1.0,0.1,1e+22,true,null]}'
    assert canonical_json(data) == text
    assert digest_of(data) == hashlib.sha256(text.encode()).hexdigest()
    with pytest.raises(ValueError, match="JSON"):
        canonical_json(float("nan"))


@pytest.mark.parametrize(
    ("row_bytes", "rows"),
    [
        (1, 1 << 24),
        (3 * 32 * 32 + 8, 4096),
        (16 << 20, 1),
        ((16 << 20) + 1, 1),
        ((8 << 20) + 1, 1),
        (0, 1 << 24),
    ],
)
def test_rows_of_a_block(row_bytes: int, rows: int) -> None:
    # The largest power of two with at most 16 MiB, at least 1: worked out by hand.
    assert block_rows([Field("x", "uint8", (row_bytes,))]) == rows


def test_blocks_cover_a_split() -> None:
    assert row_blocks(10, 4) == [range(0, 4), range(4, 8), range(8, 10)]
    assert row_blocks(8, 4) == [range(0, 4), range(4, 8)]
    assert row_blocks(0, 4) == []
