"""Class names of a dataset, wherever it keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def class_names(value: Any) -> tuple[str, ...] | None:
    """Return class names in the order of their ids.

    Args:
        value: A sequence of names, of tuples of synonyms (joined by a comma, since the first synonym
            alone is not unique), or a mapping name -> id.

    Returns:
        The names, or None if `value` is none of these: then no names are known.
    """
    if isinstance(value, Mapping):
        if not all(isinstance(item, int) for item in value.values()):
            return None
        value = sorted(value, key=value.__getitem__)
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        return None
    names = [", ".join(map(str, item)) if isinstance(item, tuple | list) else item for item in value]
    if not names or not all(isinstance(name, str) for name in names):
        return None
    return tuple(map(str, names))  # numpy strings become plain ones


def classes_of(dataset: Any) -> tuple[str, ...] | None:
    """Return the class names that a dataset or the datasets it wraps know.

    Looks at `.classes`, then through `.dataset` (`torch.utils.data.Subset` and most wrappers), then through
    `.datasets` (`ConcatDataset`), whose parts must agree.
    """
    seen: set[int] = set()
    while id(dataset) not in seen:
        seen.add(id(dataset))
        names = class_names(getattr(dataset, "classes", None))
        if names is not None:
            return names
        parts = getattr(dataset, "datasets", None)
        if isinstance(parts, list | tuple) and parts:
            found = {classes_of(part) for part in parts}
            return found.pop() if len(found) == 1 else None
        dataset = getattr(dataset, "dataset", None)
    return None
