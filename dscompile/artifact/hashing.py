"""Digests: canonical JSON, files, and the content digest over field bytes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dscompile.artifact.fields import Field

READ_BYTES = 1 << 20
BLOCK_BYTES = 16 << 20


def canonical_json(data: Any) -> str:
    """Return the one JSON text of plain data: sorted keys, no blanks, shortest floats, no NaN."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest_of(data: Any) -> str:
    """Return the SHA-256 (64 hex digits) of the canonical JSON of plain data."""
    return hashlib.sha256(canonical_json(data).encode()).hexdigest()


def file_sha256(path: Path) -> str:
    """Return the SHA-256 (64 hex digits) of a file's bytes, reading 1 MiB at a time."""
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        buffer = bytearray(READ_BYTES)
        view = memoryview(buffer)
        while count := file.readinto(buffer):
            digest.update(view[:count])
    return digest.hexdigest()


def block_rows(fields: Sequence[Field]) -> int:
    """Return how many rows share one digest: the largest power of two with at most 16 MiB, at least 1.

    It depends on the fields alone, so that containers and shard sizes do not change a content digest.
    """
    sample_bytes = max(1, sum(field.row_bytes for field in fields))
    return 1 << max(0, (BLOCK_BYTES // sample_bytes).bit_length() - 1)


def row_blocks(samples: int, rows: int) -> list[range]:
    """Return the rows of each block of `rows` rows of a split; the last one may be shorter."""
    return [range(start, min(start + rows, samples)) for start in range(0, samples, rows)]


def content_digest(
    fields: Sequence[Field], splits: Mapping[str, tuple[int, Mapping[str, Sequence[str]]]]
) -> str:
    """Return the SHA-256 over the field bytes of all splits.

    Args:
        fields: The fields; name, kind, dtype and shape take part, descriptions do not.
        splits: Split name -> (samples, {field name: SHA-256 of each block of `block_rows` rows}).
    """
    return digest_of(
        {
            "fields": [[field.name, field.kind, field.dtype, list(field.shape)] for field in fields],
            "splits": {
                name: {"samples": samples, "blocks": {key: list(value) for key, value in blocks.items()}}
                for name, (samples, blocks) in splits.items()
            },
        }
    )
