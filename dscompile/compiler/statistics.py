"""Statistics of a field, gathered block by block and merged in any order without a different result."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from dscompile.artifact.fields import Field, Normalisation
from dscompile.compiler.transforms import Pixels

Number = int | float | Fraction
MOST_CLASSES = 65_536


@dataclass
class Statistics:
    """Count, sums, extremes and class counts of the values seen so far, per channel.

    Sums over bytes and integers are exact Python integers, so that merging is associative and a build
    gives the same statistics for any number of workers; float sums are merged in row order.
    """

    count: int = 0
    total: list[Number] = field(default_factory=list)
    squares: list[Number] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    nonfinite: int = 0
    classes: Counter[int] = field(default_factory=Counter)
    too_many_classes: bool = False

    def add_pixels(self, pixels: Pixels) -> None:
        """Add uint8 pixels (N, H, W) or (N, H, W, C)."""
        last = pixels[..., None] if pixels.ndim == 3 else pixels
        part = Statistics(count=last[..., 0].size)
        for channel in range(last.shape[-1]):
            plane = last[..., channel]
            # Sums of at most 2^53 / 255^2 bytes are exact in float64; a piece holds far fewer.
            wide = plane.astype(np.float64).reshape(-1)
            part.total.append(int(wide.sum()))
            part.squares.append(int(_squares(wide)))
            part.low.append(int(plane.min()))
            part.high.append(int(plane.max()))
        self.merge(part)

    def add_values(self, values: Pixels) -> None:
        """Add numbers of any shape as one channel; NaN and infinity are counted apart."""
        if values.dtype.kind == "c":
            values = np.abs(values)
        flat = values.reshape(-1)
        part = Statistics()
        if flat.dtype.kind == "f":
            finite = flat[np.isfinite(flat)].astype(np.float64)
            part.nonfinite = flat.size - finite.size
            flat = finite
        part.count = flat.size
        if flat.size:
            part.total, part.squares = _sums(flat)
            part.low, part.high = [flat.min().item()], [flat.max().item()]
        self.merge(part)

    def add_labels(self, labels: Pixels) -> None:
        """Add whole numbers (N,) and count each value; counting stops beyond 65,536 different ones."""
        self.add_values(labels)
        values, counts = np.unique(labels, return_counts=True)
        self._count_classes(Counter(dict(zip(values.tolist(), counts.tolist(), strict=True))), False)

    def _count_classes(self, counts: Counter[int], too_many: bool) -> None:
        self.classes.update(counts)
        self.too_many_classes |= too_many or len(self.classes) > MOST_CLASSES
        if self.too_many_classes:
            self.classes.clear()

    def merge(self, other: Statistics) -> None:
        """Add what another one has seen."""
        if other.total:
            if not self.total:
                self.total, self.squares = list(other.total), list(other.squares)
                self.low, self.high = list(other.low), list(other.high)
            else:
                self.total = [a + b for a, b in zip(self.total, other.total, strict=True)]
                self.squares = [a + b for a, b in zip(self.squares, other.squares, strict=True)]
                self.low = [min(a, b) for a, b in zip(self.low, other.low, strict=True)]
                self.high = [max(a, b) for a, b in zip(self.high, other.high, strict=True)]
        self.count += other.count
        self.nonfinite += other.nonfinite
        self._count_classes(other.classes, other.too_many_classes)

    def moments(self, scale: float = 1.0) -> tuple[list[float], list[float]]:
        """Return mean and population standard deviation per channel of values / scale."""
        means, deviations = [], []
        for total, squares in zip(self.total, self.squares, strict=True):
            # n * sum(x^2) - sum(x)^2 is exact for integers and fractions, so nothing cancels.
            spread = self.count * squares - total * total
            means.append(float(total / self.count) / scale)
            known = math.isfinite(spread)
            deviations.append(math.sqrt(max(0, spread)) / self.count / scale if known else math.inf)
        return means, deviations

    def normalisation(self, *, applied: bool) -> Normalisation:
        """Return the constants of pixels on [0, 1], computed from these bytes.

        Raises:
            FieldError: A channel is constant.
        """
        mean, std = self.moments(255.0)
        return Normalisation(tuple(mean), tuple(std), applied, "dataset")

    def describe(self, item: Field, *, pixels: bool) -> dict[str, Any]:
        """Return plain JSON data for the manifest, on the scale of the values before normalisation.

        Args:
            item: The field as stored.
            pixels: Whether bytes were added; they are described on the field's value range.
        """
        data: dict[str, Any] = {"count": self.count}
        if self.total:
            scale = 255.0 / item.value_range[1] if pixels and item.value_range else 1.0
            mean, std = self.moments(scale)
            rows = {"mean": mean, "std": std, "min": self.low, "max": self.high}
            rows.update({key: [value / scale for value in rows[key]] for key in ("min", "max") if scale != 1})
            finite = {key: value for key, value in rows.items() if all(map(math.isfinite, value))}
            data.update({key: value if pixels else value[0] for key, value in finite.items()})
        if self.nonfinite:
            data["nonfinite"] = self.nonfinite
        if self.classes:
            data["class_counts"] = {str(key): self.classes[key] for key in sorted(self.classes)}
        return data


def _sums(values: Pixels) -> tuple[list[Number], list[Number]]:
    """Return sum and sum of squares of numbers (N,), exact for whole numbers."""
    if values.dtype.kind not in "iu":
        wide = values.astype(np.float64)
        with np.errstate(over="ignore"):
            mean, spread = float(wide.mean()), _squares(wide - wide.mean())
        if not (math.isfinite(mean) and math.isfinite(spread)):
            return [math.inf], [math.inf]
        # As exact fractions around the mean, so that nothing cancels where the mean is large.
        middle, count = Fraction(mean), values.size
        return [middle * count], [Fraction(spread) + middle * middle * count]
    largest = max(-int(values.min()), int(values.max()))
    if largest**2 * values.size < 1 << 63:
        whole = values.astype(np.int64)
        return [int(whole.sum())], [int(np.einsum("i,i->", whole, whole))]
    numbers = values.tolist()
    return [sum(numbers)], [sum(number * number for number in numbers)]


def _squares(values: Pixels) -> float:
    # Not np.dot: its BLAS threads would fight with those of the engine (measured: 20 times slower).
    return float(np.einsum("i,i->", values, values))
