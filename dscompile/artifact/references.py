"""What users call an artifact: a path, or a name that becomes a folder of the store."""

from __future__ import annotations

import os
import re
from pathlib import Path

from dscompile.artifact.manifest import FILE_NAME, Manifest

NAME_LENGTH = 200  # file systems allow 255 bytes


def usable_name(name: str) -> str:
    """Return what of a name a folder can have; empty if that is nothing."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:NAME_LENGTH].strip("-.")


def as_path(reference: str | os.PathLike[str]) -> Path | None:
    """Return the absolute path if the reference is one, None if it is a name."""
    text = os.fspath(reference)
    if not text:
        return None
    if isinstance(reference, os.PathLike) or os.sep in text or os.path.exists(os.path.join(text, FILE_NAME)):
        return Path(os.path.abspath(os.path.expanduser(text)))
    return None


def label(path: Path) -> str:
    """Return the reference `NAME@ID` of an artifact in a store."""
    return f"{path.parent.name}@{path.name}"


def describe(manifest: Manifest) -> str:
    """Return container and dtypes in a few words, to tell candidates apart."""
    return ", ".join([manifest.container, *(f"{item.name} {item.dtype}" for item in manifest.fields)])
