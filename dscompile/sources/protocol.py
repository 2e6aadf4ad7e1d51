"""What a source owes the compiler: a name, an identity, its files, and its splits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np


class Samples(Protocol):
    """A map-style sequence of samples: the one thing every dataset has."""

    def __len__(self) -> int:
        """Return the number of samples."""
        ...

    def __getitem__(self, index: int) -> Any:
        """Return the sample of one index, in its own structure."""
        ...


class Arrays(Protocol):
    """Rows that slice like a numpy array: an array, a mapping, or several of them one after another."""

    def __getitem__(self, rows: slice) -> np.ndarray[Any, Any]:
        """Return consecutive rows, a view where possible."""
        ...


@dataclass(frozen=True)
class SplitData:
    """One opened split.

    Attributes:
        samples: The samples as the dataset yields them: PIL pictures, arrays, tensors, numbers, in a
            tuple, a dict or alone.
        arrays: The same samples as whole arrays, where the source has them in memory: pictures as
            uint8 (N, H, W) or (N, H, W, C) exactly as Pillow would show them, numbers as (N,). The
            compiler then works in batches. None if samples must be read one by one.
        field_names: Names for the items of a tuple sample; None leaves the choice to the compiler.
        classes: Class names in the order of their ids, if the source knows them.
    """

    samples: Samples
    arrays: Mapping[str, Arrays] | None = None
    field_names: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None


@runtime_checkable
class Source(Protocol):
    """A place samples come from. Making one is cheap; it must pickle, so that workers can open it.

    Attributes:
        name: Default name of the artifact: lower case, dashes.
        splits: The names of all splits, the training split first.
        declared: True where dscompile knows the dataset (pictures then become float32 and normalised
            by default); False for a user's own dataset, which is compiled exactly as it yields.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def splits(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def declared(self) -> bool: ...  # noqa: D102

    def prepare(self, splits: Iterable[str] | None = None) -> None:
        """Make the files of some splits present, of all if None (download what is missing and may be).

        Returns at once, importing nothing heavy, when the files are there.

        Raises:
            SourceNotFoundError: A file is missing and cannot be fetched.
            UnknownSplitError: The source has no such split; names those it has.
        """
        ...

    def files(self, splits: Iterable[str] | None = None) -> dict[str, Path]:
        """Return the files that determine the samples of some splits, of all if None.

        Returns:
            Relative POSIX path -> absolute path, sorted.
        """
        ...

    def identity(self) -> dict[str, Any]:
        """Return plain JSON data that, with the contents of `files()`, determines every sample.

        Never an absolute path, a clock or a host. Cheap: reads no sample.
        """
        ...

    def notes(self) -> dict[str, Any]:
        """Return facts for the manifest: licence, citation, whether published checksums were checked."""
        ...

    def open(self, split: str) -> SplitData:
        """Open one split for reading; may import what the source needs.

        Raises:
            UnknownSplitError: The source has no such split; names those it has.
            SourceChecksumError: A file differs from its published checksum.
            SourceNotFoundError: A file is missing.
        """
        ...
