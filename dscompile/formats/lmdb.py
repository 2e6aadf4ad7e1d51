"""LMDB shards: one value per field, padded to whole pages, in an environment of one file.

LMDB puts a value that does not fit a page onto consecutive pages of its own, behind a header of 16 bytes.
`create` puts zeros there and finds the pages; rows are then written in place by offset (LMDB keeps no
checksums), and read by offset, so that no environment is held, no lock is
taken, no reader slot is used and lmdb is not imported.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from dscompile.artifact.fields import Field
from dscompile.artifact.splits import Shard
from dscompile.errors import BuildError, OptionError, ShardError
from dscompile.formats.mapping import RECOMPILE, check_magic, map_regions
from dscompile.formats.protocol import Regions, Rows
from dscompile.formats.room import room_for

PAGE, HEADER = 4096, 16
# Page 0 is a meta page: its number, the flag of a meta page, and LMDB's magic number.
MAGIC = struct.pack("<QHHII", 0, 0, 8, 0, 0xBEEFC0DE)
OVERFLOW = 0x04
# Meta pages, the tree's pages and the description; a field's entry takes less than 600 bytes.
SPARE_PAGES = 32
DESCRIPTION = b"fields"
MOST_BYTES = (1 << 32) - PAGE


class Lmdb:
    """The LMDB container."""

    suffix: str = "lmdb"
    most_bytes: int | None = MOST_BYTES

    def create(self, path: Path, fields: Sequence[Field], samples: int) -> Regions:
        """Lay out a shard: zeros for each field, committed in one step, and then left out of the file.

        With `writemap` the zeros go straight to the pages of a draft, so memory does not grow with the rows.
        """
        import lmdb

        lengths = {item.name: item.row_bytes * samples for item in fields}
        _check_lengths(path, lengths)
        draft = path.with_name(f".{path.name}")
        try:
            with room_for(path, sum(lengths.values()), lmdb.Error):
                used = _draft(draft, lengths, _description(fields, samples))
                starts = dict(zip(lengths, _hollow_copy(draft, path, used, len(lengths)), strict=True))
                _confirm(draft, starts)
        finally:
            draft.unlink(missing_ok=True)
        return {name: (starts[name], length) for name, length in lengths.items()}

    def seal(self, path: Path, fields: Sequence[Field], regions: Regions) -> Regions:
        """Return the regions: the environment was committed before its rows were written."""
        return regions

    def check(self, path: Path, shard: Shard, fields: Sequence[Field]) -> None:
        """Check that the large values of the file are those of the fields, in their order, where recorded.

        The pages are read here and not by liblmdb, which a damaged tree can make crash.
        """
        check_magic(path, MAGIC, "an LMDB file")
        with path.open("rb") as file:
            handle = file.fileno()
            walk = _walk(lambda at: os.pread(handle, HEADER, at), os.fstat(handle).st_size)
            large = ((at + HEADER, *header) for at, header in walk if header is not None)
            for item in fields:
                start, length = shard.regions[item.name]
                expected = (start, (start - HEADER) // PAGE, OVERFLOW, _pages(length))
                found = next(large, None)
                if found != expected:
                    place = f"{path}, value of field {item.name!r}"
                    raise ShardError(place, f"offset, page, flags and span {expected}", str(found), RECOMPILE)

    def map(self, path: Path, shard: Shard, fields: Sequence[Field]) -> dict[str, Rows]:
        """Map a shard by its recorded offsets; lmdb is not involved."""
        check_magic(path, MAGIC, "an LMDB file")
        return dict(map_regions(path, shard, fields))


def key(name: str) -> bytes:
    """Return the key of a field's rows: its name and the first row of the value, `image/000000000000`."""
    return f"{name}/{0:012d}".encode()


def _pages(length: int) -> int:
    """Return how many pages a value needs; it is padded to fill them: k * 4096 - 16 bytes."""
    return max(1, -(-(length + HEADER) // PAGE))


def _description(fields: Sequence[Field], samples: int) -> bytes:
    described = [{"name": item.name, "dtype": item.dtype, "shape": list(item.shape)} for item in fields]
    return json.dumps({"samples": samples, "fields": described}).encode()


def _environment(path: Path, **options: Any) -> Any:
    import lmdb

    return lmdb.open(os.fspath(path), subdir=False, lock=False, readahead=False, **options)


def _page_header(data: bytes) -> tuple[int, int, int]:
    """Return number, flags and span of a page from its first 16 bytes."""
    number, flags, span = struct.unpack("<Q2xHI", data)
    return int(number), int(flags), int(span)


def _draft(draft: Path, lengths: dict[str, int], description: bytes) -> int:
    """Make an environment of zeros for each field and the description; return its bytes in use."""
    pages = sum(_pages(length) for length in lengths.values()) + SPARE_PAGES + len(lengths)
    pages += len(description) // PAGE
    with _environment(draft, map_size=pages * PAGE, writemap=True, sync=False) as environment:
        _reserve(draft, pages * PAGE)
        with environment.begin(write=True) as transaction:
            for name, length in lengths.items():
                # Zeros are not touched memory: the kernel maps one page of them over and over.
                transaction.put(key(name), np.zeros(_pages(length) * PAGE - HEADER, np.uint8).data)
            transaction.put(DESCRIPTION, description)
        return int(environment.info()["last_pgno"] + 1) * PAGE


def _reserve(path: Path, size: int) -> None:
    """Take the space of a file: writing to a mapped hole of a full disk kills the process with SIGBUS."""
    if not hasattr(os, "posix_fallocate"):
        return
    with path.open("r+b") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENODEV):  # not this file system
                raise


def _walk(header_at: Callable[[int], bytes], size: int) -> Iterator[tuple[int, tuple[int, int, int] | None]]:
    """Yield the offset of each page or large value, with the header of a large value, None for other pages.

    Ends for any bytes: each step goes on by a page at least.
    """
    at = 0
    while at + HEADER <= size and len(data := header_at(at)) == HEADER:
        number, flags, span = _page_header(data)
        large = at >= 2 * PAGE and flags & OVERFLOW
        yield at, (number, flags, span) if large else None
        at += max(1, span if large else 1) * PAGE


def _hollow_copy(draft: Path, path: Path, size: int, fields: int) -> list[int]:
    """Copy an environment but for the bytes of the fields' values, and return where each of those begins.

    They are the first large values; the description may be another.

    Rows are then written into holes of a file that nothing has mapped, as in the other containers, and the
    kernel caches them in large folios. Measured: in a file that liblmdb has opened they are cached page by
    page (56,207 runs of adjacent pages instead of 2,282), and an epoch takes 1.12 times as long.
    """
    starts: list[int] = []
    with ExitStack() as stack:
        source, target = stack.enter_context(draft.open("rb")), stack.enter_context(path.open("xb"))
        data = stack.enter_context(mmap.mmap(source.fileno(), size, access=mmap.ACCESS_READ))
        target.truncate(size)
        for at, header in _walk(lambda at: data[at : at + HEADER], size):
            length = PAGE if header is None else header[2] * PAGE
            if header is not None and len(starts) < fields:
                starts.append(at + HEADER)
                length = HEADER
            target.seek(at)
            target.write(data[at : at + length])
    return starts


def _confirm(path: Path, starts: dict[str, int]) -> None:
    """Check through LMDB itself that each field's value is where it was found: a mark must come back."""
    with path.open("r+b", buffering=0) as file:
        for name, start in starts.items():
            os.pwrite(file.fileno(), key(name)[:PAGE], start)
        with _environment(path, readonly=True) as environment, environment.begin(buffers=True) as transaction:
            for name in starts:
                if bytes(transaction.get(key(name))[: len(key(name))]) != key(name):
                    raise BuildError(
                        str(path), f"the value of {name!r} at its page", "another", "Report this bug."
                    )
        for name, start in starts.items():
            os.pwrite(file.fileno(), bytes(len(key(name))), start)


def _check_lengths(path: Path, lengths: dict[str, int]) -> None:
    for name, length in lengths.items():
        if length > MOST_BYTES:
            raise OptionError(
                f"{path.name}, field {name!r}",
                f"at most {MOST_BYTES:,} bytes, the largest value LMDB can hold",
                f"{length:,} bytes",
                "Use --format pt or hdf5 for samples this large.",
            )
