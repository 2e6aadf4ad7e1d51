"""Datasets of torchvision that yield (picture, label), by name: `cifar10`, `emnist:balanced`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dscompile.errors import SourceNotFoundError, UnknownSourceError, UnknownSplitError
from dscompile.sources.classes import class_names
from dscompile.sources.protocol import SplitData
from dscompile.sources.torchvision_arrays import ARRAYS
from dscompile.sources.torchvision_collections import COLLECTIONS
from dscompile.sources.torchvision_entry import Entry, Split, matches, missing, told
from dscompile.sources.torchvision_folders import FOLDERS
from dscompile.sources.torchvision_lists import LISTS
from dscompile.sources.torchvision_mnist import MNIST_FAMILY
from dscompile.sources.torchvision_read import (
    arrays_of,
    construct,
    require_listed,
    require_packages,
    settle,
    translated,
    verify,
)

TABLE: Mapping[str, Entry] = {**ARRAYS, **MNIST_FAMILY, **LISTS, **FOLDERS, **COLLECTIONS}


def names() -> list[str]:
    """Return all names that `claim` knows, variants included."""
    return [
        full
        for name, entry in TABLE.items()
        for full in ([name] if entry.splits else []) + [f"{name}:{variant}" for variant in entry.variants]
    ]


def claim(source: object, root: Path, check: bool) -> TorchvisionSource | None:
    """Return the source that a name such as `cifar10` or `emnist:balanced` stands for, None for other things.

    Raises:
        UnknownSourceError: The dataset is known, its variant is not.
    """
    if not isinstance(source, str):
        return None
    name, colon, variant = source.partition(":")
    if name not in TABLE:
        return None
    entry = TABLE[name]
    variants = {entry.default, *entry.variants} - {""}
    if (variant not in variants) if colon else (not entry.splits):
        raise _unknown_variant(source, name, entry)
    return TorchvisionSource(name, variant, root, check)


class TorchvisionSource:
    """One torchvision dataset in one folder. Neither making nor pickling it imports torchvision.

    Args:
        dataset: Its name in the table.
        variant: The variant, "" for the default one.
        root: The folder that torchvision calls `root`.
        check: Whether files must have their published checksums.
    """

    declared = True

    def __init__(self, dataset: str, variant: str, root: Path, check: bool) -> None:
        self.dataset = dataset
        self.variant = "" if variant == TABLE[dataset].default else variant
        self.root = Path(root).expanduser().absolute()
        self.check = check
        self._verified: dict[str, tuple[tuple[str, int, int], ...]] = {}

    def __repr__(self) -> str:
        return f"TorchvisionSource({self._title!r}, root={str(self.root)!r}, check={self.check})"

    @property
    def name(self) -> str:
        """The dataset's name, with a dash before the variant."""
        return self._title.replace(":", "-").replace("_", "-")

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits as torchvision names them, the training split first."""
        return tuple(self._entry.splits)

    def prepare(self, splits: Iterable[str] | None = None) -> None:
        """Download what is missing of the given splits, of all if None.

        Raises:
            SourceNotFoundError: A file is missing and cannot be downloaded.
            UnknownSplitError: There is no such split.
        """
        wanted = self._wanted(splits)
        if any(missing(self.root, split) is not None for split in wanted.values()):
            from dscompile.sources.torchvision_fetch import fetch

            fetch(self._title, self._entry, self.root, wanted)

    def files(self, splits: Iterable[str] | None = None) -> dict[str, Path]:
        """Return the files present that determine the samples of the given splits, of all if None.

        Returns:
            Relative POSIX path -> absolute path, sorted.
        """
        patterns = {pattern for split in self._wanted(splits).values() for pattern in split.files}
        places = {place for pattern in patterns for place in matches(self.root, pattern)}
        return {place: self.root / place for place in sorted(places)}

    def identity(self) -> dict[str, Any]:
        """Return the dataset's name and variant; the rest of its identity is the content of its files."""
        return {"kind": "torchvision", "dataset": self.dataset, "variant": self.variant or None}

    def notes(self) -> dict[str, Any]:
        """Return whether local files are checked, and citation and licence where known for sure."""
        entry = self._entry
        checked = ("checked" if self.check else "not checked") if entry.md5 else "none published"
        facts = {"citation": entry.citation, "licence": entry.licence}
        return {"published_checksums": checked} | {key: value for key, value in facts.items() if value}

    def open(self, split: str) -> SplitData:
        """Open one split.

        Raises:
            UnknownSplitError: There is no such split.
            SourceNotFoundError: A file is missing.
            SourceChecksumError: A file differs from its published checksum.
            SourceError: torchvision cannot read the files, or a package is absent.
        """
        entry = self._entry
        rows = self._wanted([split])[split]
        self._require(split, rows)
        require_packages(self._title, entry)
        place = f"{self._title}, split {split}, in {self.root}"
        with translated(place, self._title):
            dataset = construct(entry, self.root, rows.options)
            settle(entry, dataset)
            arrays = arrays_of(place, entry, dataset)
        require_listed(f"{self._title}, split {split},", entry, dataset)
        classes = class_names(getattr(dataset, entry.classes, None)) if entry.classes else None
        return SplitData(dataset, arrays, entry.field_names, classes)

    @property
    def _title(self) -> str:
        return f"{self.dataset}:{self.variant}" if self.variant else self.dataset

    @property
    def _entry(self) -> Entry:
        return _row(self.dataset, self.variant)

    def _wanted(self, splits: Iterable[str] | None) -> dict[str, Split]:
        known = self._entry.splits
        wanted = list(known) if splits is None else list(splits)
        for split in wanted:
            if split not in known:
                others = [
                    f"{self.dataset}:{variant}"
                    for variant in TABLE[self.dataset].variants
                    if split in _row(self.dataset, variant).splits
                ]
                raise UnknownSplitError(
                    self._title,
                    f"one of its splits {', '.join(known)}",
                    repr(split),
                    f"The variant {others[0]} has it." if others else "Choose one of them.",
                )
        return {split: known[split] for split in wanted}

    def _require(self, split: str, rows: Split) -> None:
        """Check that the files of a split are there and, once for each state of them, their checksums."""
        pattern = missing(self.root, rows)
        if pattern is not None:
            place, others = told(self.root, pattern)
            raise SourceNotFoundError(
                place,
                f"this file{others} of {self._title}, split {split}",
                "no such file",
                "`prepare()` downloads what is missing; or choose another folder with `--root`.",
            )
        if self.check and self._entry.md5:
            files = {place: path for place, path in self.files([split]).items() if place in self._entry.md5}
            state = tuple(
                (place, stat.st_size, stat.st_mtime_ns)
                for place, path in files.items()
                for stat in [path.stat()]
            )
            if self._verified.get(split) != state:
                verify(self._title, files, self._entry.md5)
                self._verified[split] = state


def _row(name: str, variant: str) -> Entry:
    entry = TABLE[name]
    return replace(entry, **entry.variants[variant]) if variant in entry.variants else entry


def _unknown_variant(source: str, name: str, entry: Entry) -> UnknownSourceError:
    known = [f"{name}:{variant}" for variant in entry.variants]
    if entry.splits:
        known.insert(0, name)
    near = difflib.get_close_matches(source, known, n=1)
    return UnknownSourceError(
        "source",
        f"a variant of {name}: {', '.join(known)}",
        repr(source),
        (f"Did you mean `{near[0]}`? " if near else "")
        + f"A file of your own by that name is `{name}.py:attr`, a loaded dataset can be passed as it is.",
    )
