"""Strict reading of plain JSON data: what is not of the type the format says is refused."""

from __future__ import annotations

from typing import Any

from dscompile.errors import ManifestError

REBUILD = "Build the artifact again, or restore the file from a copy."


def invalid(place: object, expected: str, got: str) -> ManifestError:
    """Return the error for a manifest that is not one."""
    return ManifestError(f"{place}: not a valid manifest", expected, got, REBUILD)


def text(value: Any) -> str:
    """Return `value` if it is a string, else raise TypeError."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.60} is not text")
    return value


def count(value: Any) -> int:
    """Return `value` if it is a whole number >= 0, else raise TypeError."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"{value!r:.60} is not a whole number >= 0")
    return value


def number(value: Any) -> float:
    """Return `value` as a float if it is a number, else raise TypeError."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(f"{value!r:.60} is not a number")
    return float(value)


def truth(value: Any) -> bool:
    """Return `value` if it is true or false, else raise TypeError."""
    if not isinstance(value, bool):
        raise TypeError(f"{value!r:.60} is not true or false")
    return value
