"""Making shards on a disk that may be full: one error whatever library runs out of space."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dscompile.errors import DscompileError, StoreError


@contextmanager
def room_for(path: Path, size: int, *errors: type[Exception]) -> Iterator[None]:
    """Turn OSError, and what else a library raises when it cannot write, into StoreError.

    Args:
        path: The shard to be made.
        size: Bytes of its rows.
        errors: What the library raises beside OSError.
    """
    try:
        yield
    except DscompileError:
        raise
    except Exception as error:
        if not isinstance(error, (OSError, *errors)):
            raise
        got = getattr(error, "strerror", None) or str(error) or type(error).__name__
        cure = "Free space, or choose another --store."
        raise StoreError(str(path), f"room for a shard of {size:,} bytes", got, cure) from error
