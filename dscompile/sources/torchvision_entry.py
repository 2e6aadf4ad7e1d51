"""What one row of the torchvision table says, and the files that it names."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Archive:
    """A file as its publisher offers it.

    Attributes:
        place: Where torchvision keeps it, relative to the root.
        md5: Its published checksum, if there is one.
        url: Where it is published, if that is known here.
    """

    place: str
    md5: str | None = None
    url: str | None = None


@dataclass(frozen=True)
class Split:
    """One split of a torchvision dataset.

    Attributes:
        options: Constructor arguments that select it.
        files: Patterns relative to the root of all files that determine its samples; see `matches`.
        archives: The published files those come from.
    """

    options: Mapping[str, Any]
    files: tuple[str, ...]
    archives: tuple[Archive, ...] = ()


@dataclass(frozen=True)
class Entry:
    """One torchvision dataset.

    Attributes:
        class_name: Name of the class in `torchvision.datasets`.
        splits: Split name -> `Split`, the training split first; no two share a sample. Empty where the
            user has to name a variant.
        layout: How the class holds its pictures in memory: "HW", "HWC", "CHW" (`.data` beside `.targets`
            or `.labels`), "pairs" (a list of (tensor, label)), or "" if it reads them one by one.
        md5: Published checksums of the local files: relative path -> md5.
        fetch: "download" if the constructor takes `download=True`, "unpack" if it unpacks archives that
            lie in the root, "none" if the user has to place the files.
        needs: Packages that reading needs besides torchvision and Pillow.
        classes: The name under which the class keeps its class names.
        listed: The name under which it keeps the paths it took from a list, which may name absent files.
        field_names: Names of the items of a sample.
        variants: Variant name -> the fields of this row that it replaces.
        default: Name of the variant that this row itself is.
        citation: Whom to cite, where known for sure.
        licence: The licence of the pictures, where known for sure.
    """

    class_name: str
    splits: Mapping[str, Split]
    layout: str = ""
    md5: Mapping[str, str] = field(default_factory=dict)
    fetch: str = "download"
    needs: tuple[str, ...] = ()
    classes: str = "classes"
    listed: str = ""
    field_names: tuple[str, ...] = ("image", "label")
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    default: str = ""
    citation: str = ""
    licence: str = ""


def by_split(
    patterns: tuple[str, ...], archives: tuple[Archive, ...] = (), **splits: dict[str, Any]
) -> dict[str, Split]:
    """Return splits that differ in a word of their patterns: `{}` stands for `word`, else for the name."""
    made = {}
    for name, given in splits.items():
        options = dict(given)
        word = options.pop("word", name)
        made[name] = Split(
            {"split": name, **options}, tuple(pattern.format(word) for pattern in patterns), archives
        )
    return made


def matches(root: Path, pattern: str) -> list[str]:
    """Return the files that a pattern names, as sorted POSIX paths relative to the root.

    A pattern is an exact path, a path whose last part has wildcards, or `FOLDER/**` for all files below a
    folder. Alternatives are separated by `|`; the first one that names a file counts. Links are followed,
    since torchvision follows them too.
    """
    for alternative in pattern.split("|"):
        found = sorted(_walk(root, alternative))
        if found:
            return found
    return []


def _walk(root: Path, pattern: str) -> Iterator[str]:
    folder, _, last = pattern.rpartition("/")
    if last == "**":
        top = root / folder
        for parent, _, names in os.walk(top, followlinks=True):
            below = Path(parent).relative_to(root).as_posix()
            yield from (f"{below}/{name}" for name in names)
    elif "*" in last:
        if (root / folder).is_dir():
            with os.scandir(root / folder) as entries:
                for entry in entries:
                    if fnmatch.fnmatchcase(entry.name, last) and entry.is_file():
                        yield f"{folder}/{entry.name}" if folder else entry.name
    elif (root / pattern).is_file():
        yield pattern


def present(root: Path, pattern: str) -> bool:
    """Tell whether a pattern names a file, without listing all that it names."""
    return any(next(_walk(root, alternative), None) for alternative in pattern.split("|"))


def missing(root: Path, split: Split) -> str | None:
    """Return the first pattern of a split that names no file, None if all are there."""
    return next((pattern for pattern in split.files if not present(root, pattern)), None)


def told(root: Path, pattern: str) -> tuple[str, str]:
    """Return how an error tells a pattern: the path of its first alternative, and the others in brackets."""
    first, *others = pattern.split("|")
    return str(root / first), f" (or {' or '.join(others)})" if others else ""
