"""Mapping a file's field regions by their recorded offsets."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dscompile.artifact.fields import STORED_AS, Field
from dscompile.artifact.splits import Shard
from dscompile.errors import ShardError
from dscompile.formats.protocol import Array

RECOMPILE = "The file was damaged or replaced: recompile with --force, or restore it from a copy."


def check_magic(path: Path, magic: bytes, kind: str) -> None:
    """Check the first bytes of a file.

    Raises:
        ShardError: The file is missing, or begins with other bytes.
    """
    try:
        with path.open("rb") as file:
            head = file.read(len(magic))
    except OSError as error:
        raise ShardError(str(path), kind, error.strerror or str(error), RECOMPILE) from error
    if head != magic:
        raise ShardError(str(path), kind, f"a file that begins with {head!r}", RECOMPILE)


def map_regions(path: Path, shard: Shard, fields: Sequence[Field]) -> dict[str, Array]:
    """Map a whole file read-only and return field name -> rows (samples, *shape), without a copy.

    The arrays keep the mapping alive; the file handle is closed at once, so a removed or renamed file
    stays readable.

    Raises:
        ShardError: The file is missing or has another size than recorded.
    """
    try:
        with path.open("rb") as file:
            mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise ShardError(str(path), f"a file of {shard.bytes} bytes", str(error), RECOMPILE) from error
    if len(mapping) != shard.bytes:
        raise ShardError(str(path), f"{shard.bytes} bytes", f"{len(mapping)} bytes", RECOMPILE)
    rows: dict[str, Array] = {}
    for item in fields:
        offset, _ = shard.regions[item.name]
        if offset % np.dtype(STORED_AS[item.dtype]).itemsize:
            place = f"{path}, field {item.name!r}"
            raise ShardError(place, "an offset aligned to its items", str(offset), RECOMPILE)
        shape = (shard.samples, *item.shape)
        rows[item.name] = np.ndarray(shape, STORED_AS[item.dtype], buffer=mapping, offset=offset)
    return rows
