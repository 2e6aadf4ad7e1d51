"""Datasets that exist already: any map-style object, or a dict of them by split."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dscompile.errors import SourceError, UnknownSplitError
from dscompile.sources.classes import classes_of
from dscompile.sources.protocol import Samples, SplitData

_LIST_IT = (
    "Pass a dataset with `__len__` and `__getitem__`; a stream that fits in memory becomes one by "
    "`list(ds)`, several splits by `{'train': …, 'test': …}`."
)


def names() -> list[str]:
    """Return no name: objects are passed as they are."""
    return []


def claim(source: object, root: Path, check: bool) -> ObjectSource | None:
    """Return a source over a dataset or a dict of datasets, None for text.

    Raises:
        SourceError: The object, or one of the dict's values, is not a map-style dataset.
    """
    if isinstance(source, str):
        return None
    return ObjectSource(splits_of(source, "source"))


class ObjectSource:
    """A user's own datasets, compiled exactly as they yield.

    It has no identity of its own: the compiler computes that from the live `datasets`. It pickles when they
    do.

    Args:
        datasets: Split name -> dataset, the training split first.
        name: Default name of the artifact; None takes the class name of the first dataset.

    Attributes:
        datasets: The live datasets by split.
    """

    declared = False

    def __init__(self, datasets: Mapping[str, Samples], name: str | None = None) -> None:
        self.datasets: dict[str, Samples] = dict(datasets)
        self.name = name or dashed(type(next(iter(self.datasets.values()))).__name__)

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of the splits, the training split first."""
        return tuple(self.datasets)

    def prepare(self, splits: Iterable[str] | None = None) -> None:
        """Do nothing: the datasets are there."""

    def files(self, splits: Iterable[str] | None = None) -> dict[str, Path]:
        """Return no file: which ones the datasets read is not known."""
        return {}

    def identity(self) -> dict[str, Any]:
        """Return only that this is an object; the rest is the compiler's to find out from `datasets`."""
        return {"kind": "object"}

    def notes(self) -> dict[str, Any]:
        """Return nothing: nothing is known about the datasets' origin."""
        return {}

    def open(self, split: str) -> SplitData:
        """Open one split: the dataset itself, with the class names it knows.

        Raises:
            UnknownSplitError: There is no such split.
        """
        if split not in self.datasets:
            raise UnknownSplitError(
                self.name, f"one of its splits {', '.join(self.datasets)}", repr(split), "Choose one."
            )
        dataset = self.datasets[split]
        return SplitData(dataset, classes=classes_of(dataset))


def splits_of(value: object, place: str) -> dict[str, Samples]:
    """Return the splits of a dataset (one, `train`) or of a dict of datasets, the training split first.

    Raises:
        SourceError: The value is neither; names the place and, in a dict, the split.
    """
    if not isinstance(value, Mapping):
        return {"train": _map_style(value, place)}
    if not value:
        raise SourceError(place, "at least one split", "an empty dict", _LIST_IT)
    for name in value:
        if not isinstance(name, str) or not name:
            raise SourceError(place, "split names as text", repr(name), _LIST_IT)
    order = sorted(value, key=lambda name: name != "train")
    return {name: _map_style(value[name], f"{place}, split {name}") for name in order}


def is_map_style(value: object) -> bool:
    """Tell whether a value has a length and yields samples by index.

    A class has both methods but no samples; torch's `IterableDataset` inherits a `__getitem__` that only
    raises.
    """
    if isinstance(value, type | str | bytes):
        return False
    data = sys.modules.get("torch.utils.data")  # whoever made such an object has imported it
    if data is not None and isinstance(value, data.IterableDataset):
        return False
    return hasattr(value, "__len__") and hasattr(value, "__getitem__")


def _map_style(value: Any, place: str) -> Samples:
    if is_map_style(value):
        samples: Samples = value
        return samples
    if isinstance(value, type):
        got = f"the class {value.__name__} itself"
    elif callable(value) and not hasattr(value, "__iter__"):
        got = f"the function {getattr(value, '__name__', type(value).__name__)}"
    else:
        got = f"an object of class {type(value).__name__}"
    raise SourceError(place, "map-style datasets only", got, _LIST_IT)


def dashed(name: str) -> str:
    """Return a name of code as artifacts are named: `MyFaces` -> `my-faces`, `CIFAR10` -> `cifar10`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name)
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-") or "dataset"
