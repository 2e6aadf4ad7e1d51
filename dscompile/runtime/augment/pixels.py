"""How pixels of 0 to 255 became the values of a batch."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dscompile.artifact.fields import Field
from dscompile.runtime.augment.checks import refuse


@dataclass(frozen=True)
class PixelMap:
    """How pixel values of 0 to 255 became the stored ones: torchvision's `ToTensor`, then `Normalize`.

    Attributes:
        scale: Divisor in float32, 255 for `ToTensor`; None if pixels were not scaled.
        mean: Subtracted after scaling: one value, or one per channel; None if not normalised.
        std: Divisor after that, as many values as `mean`; None if not normalised.
    """

    scale: float | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        """Refuse numbers that do not describe such a map."""
        mean, std = self.mean, self.std
        if (mean is None) != (std is None) or (mean and std and len(mean) != len(std)):
            refuse(
                "PixelMap.mean and .std", "both or neither, equally long", f"{mean} and {std}", "Give both."
            )
        divisors = (*(() if self.scale is None else (self.scale,)), *(std or ()))
        if (
            mean == ()
            or not all(math.isfinite(value) for value in (*divisors, *(mean or ())))
            or 0 in divisors
        ):
            refuse(
                "PixelMap", "finite numbers, no divisor of 0", repr(self), "Give the numbers of the artifact."
            )

    @classmethod
    def of(cls, field: Field) -> PixelMap | None:
        """Return how a field's stored values were made; None if pixels of 0 to 255 are what is stored."""
        if field.value_range != (0.0, 1.0):
            return None
        norm = field.normalisation
        if norm is None or not norm.applied:
            return cls(255.0)
        return cls(255.0, norm.mean, norm.std)

    def stored(self, pixel: float | tuple[float, ...]) -> tuple[float, ...]:
        """Return the stored value of a pixel value, per channel.

        Args:
            pixel: One value on the 0-255 scale, or one per channel.

        Returns:
            float32 results as Python floats, before any cast to a narrower dtype: one, or one per channel.

        Raises:
            OptionError: `pixel` and `mean` have different numbers of channels.
        """
        value = np.array(pixel, dtype=np.float32).reshape(-1)
        if self.scale is not None:
            value = value / np.float32(self.scale)
        if self.mean is not None and self.std is not None:
            mean, std = (np.array(numbers, dtype=np.float32) for numbers in (self.mean, self.std))
            if 1 != value.size != mean.size != 1:
                cure = "Give one fill value, or one per channel."
                refuse("fill", f"1 or {mean.size} values, as in PixelMap.mean", f"{value.size}", cure)
            value = (value - mean) / std
        return tuple(value.tolist())
