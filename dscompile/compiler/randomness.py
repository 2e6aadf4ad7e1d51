"""Randomness that would be frozen by accident: random transforms by name, hidden ones by reading twice."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from dscompile.compiler.samples import Layout, array_of, length_of, read, transformed
from dscompile.errors import RandomTransformError
from dscompile.sources.protocol import SplitData

PROBES = 8
# Random classes of torchvision whose name does not begin with Random.
RANDOM_NAMES = frozenset(
    [
        *("AugMix", "AutoAugment", "ColorJitter", "CutMix", "ElasticTransform", "GaussianBlur"),
        *("GaussianNoise", "JPEG", "MixUp", "RandAugment", "ScaleJitter", "TrivialAugmentWide"),
    ]
)
LOADER_HAS = frozenset({"RandomCrop", "RandomHorizontalFlip"})


def refuse_random(value: Any, place: str) -> None:
    """Refuse an object that holds a random torchvision transform, however deeply nested.

    Raises:
        RandomTransformError: Names each random step, where it sits, and what replaces it.
    """
    found = [(path, step) for path, step in _steps(value, "", set()) if is_random(step)]
    if not found:
        return
    names = ", ".join(f"{type(step).__name__} at {path.lstrip('.') or 'the top'}" for path, step in found)
    known = sorted({type(step).__name__ for _, step in found} & LOADER_HAS)
    cure = "Remove them here and let the loader draw them anew for each epoch"
    if known:
        cure += ": loader(augment=[" + ", ".join(f"dscompile.augment.{name}(…)" for name in known) + "])"
    raise RandomTransformError(place, "deterministic transforms", names, cure + ".")


def is_random(step: Any) -> bool:
    """Whether an object is one of torchvision's random transforms; with p=0 it does nothing and is not."""
    kind = type(step)
    if not kind.__module__.startswith("torchvision.transforms") or getattr(step, "p", None) == 0:
        return False
    return kind.__name__.startswith("Random") or kind.__name__ in RANDOM_NAMES


def refuse_hidden(data: SplitData, transform: Callable[[Any], Any] | None, place: str) -> None:
    """Read a few spread samples twice under different seeds and refuse a split that differs.

    Args:
        data: The opened split.
        transform: The user's transform, applied as the build does.
        place: What the split is called in messages.

    Raises:
        RandomTransformError: Names the sample that came out different.
    """
    samples = data.samples if transform is None else _Transformed(data, transform, place)
    last = length_of(samples) - 1
    for step in range(PROBES if last >= 0 else 0):
        index = round(step * last / (PROBES - 1))
        # Seeds of its own for each: a coin falls alike under the same two, whatever the sample.
        with _seeded(2 * step + 1):
            first = snapshot(read(samples, index, f"{place}, sample {index}"))
        with _seeded(2 * step + 2):
            second = snapshot(read(samples, index, f"{place}, sample {index}"))
        if first != second:
            raise RandomTransformError(
                f"{place}, sample {index}",
                "the same sample each time it is read",
                "two different ones under two seeds",
                "Remove the random step and use the loader's augmentations.",
            )


@dataclass(frozen=True)
class _Transformed:
    """The samples of a split after the user's transform, as name -> value."""

    data: SplitData
    transform: Callable[[Any], Any]
    place: str

    def __len__(self) -> int:
        return length_of(self.data.samples)

    def __getitem__(self, index: int) -> dict[str, Any]:
        place = f"{self.place}, sample {index}"
        sample = self.data.samples[index]
        return transformed(Layout.of(sample, self.data.field_names, place), sample, self.transform, place)


def snapshot(value: Any) -> Any:
    """Return what a sample holds now, to be compared by `==`: its structure, with arrays as their bytes.

    Nothing of the sample is kept, so a dataset that fills one buffer again is compared with what it held.
    """
    kind = type(value).__name__
    if isinstance(value, Mapping):
        return kind, [(key, snapshot(item)) for key, item in value.items()]
    if isinstance(value, (tuple, list)):
        return kind, [snapshot(item) for item in value]
    if isinstance(value, (str, bytes)) or value is None:
        return kind, value
    try:
        array = array_of(value)
    except (TypeError, RuntimeError):  # sparse, meta, of a dtype that NumPy has not
        return kind, None
    if array.dtype.hasobject:
        return kind, None  # Not to be compared; its field is refused by name when it is compiled.
    return kind, str(array.dtype), array.shape, array.tobytes()


def _steps(value: Any, path: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Yield (path, object) of everything reached through attributes, lists and dicts."""
    if (
        id(value) in seen
        or isinstance(value, (str, bytes, int, float, type, np.ndarray))
        or _holds_nothing(value)
    ):
        return
    seen.add(id(value))
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _steps(item, f"{path}[{key!r}]", seen)
    elif isinstance(value, Sequence) and not hasattr(value, "__dict__"):
        for position, item in enumerate(value):
            yield from _steps(item, f"{path}[{position}]", seen)
    else:
        yield path, value
        for name, item in getattr(value, "__dict__", {}).items():
            yield from _steps(item, f"{path}.{name}", seen)


def _holds_nothing(value: Any) -> bool:
    """Whether a value is a tensor, a module of code or a function: nothing that holds transforms."""
    return type(value).__name__ in ("Tensor", "module", "function", "builtin_function_or_method", "range")


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Set every global generator for the time of the block and put its state back afterwards."""
    torch = sys.modules.get("torch")
    before = random.getstate(), np.random.get_state(), torch.get_rng_state() if torch is not None else None
    random.seed(seed)
    np.random.seed(seed)
    if torch is not None:
        torch.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
        if torch is not None:
            torch.set_rng_state(before[2])
