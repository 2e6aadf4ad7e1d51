"""Strict reading of plain JSON data: what is not of the type the format says is refused."""

from __future__ import annotations

import math
from typing import Any

from dscompile.errors import ManifestError

MOST = (1 << 63) - 1  # sizes and offsets of files are signed 64-bit numbers
REBUILD = "Build the artifact again, or restore the file from a copy."


def invalid(place: object, expected: str, got: str) -> ManifestError:
    """Return the error for a manifest that is not one."""
    return ManifestError(f"{place}: not a valid manifest", expected, got, REBUILD)


def text(value: Any) -> str:
    """Return `value` if it is a string, else raise TypeError."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.60} is not text")
    return value


def label(value: Any) -> str:
    """Return `value` if it is text without NUL, which HDF5 cannot hold, else raise TypeError."""
    if "\x00" in text(value):
        raise TypeError(f"{value!r:.60} holds NUL")
    return str(value)


def count(value: Any) -> int:
    """Return `value` if it is a whole number from 0 to 2**63 - 1, else raise TypeError."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST:
        raise TypeError(f"{value!r:.60} is not a whole number >= 0 and < 2**63")
    return value


def number(value: Any) -> float:
    """Return `value` as a float if it is a finite number, else raise TypeError."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(f"{value!r:.60} is not a number")
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise TypeError(f"{value!r:.60} is not a finite number")
    return found


def truth(value: Any) -> bool:
    """Return `value` if it is true or false, else raise TypeError."""
    if not isinstance(value, bool):
        raise TypeError(f"{value!r:.60} is not true or false")
    return value
