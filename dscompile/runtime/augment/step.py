"""Augmentations: random steps that the loader applies to whole batches.

Each has two pure halves. `draw` gives every sample its parameters from (seed, epoch, sample id, place in the
list) alone, so they do not depend on the batch, the rank or the device. `apply` is a tensor function of a
batch and what was drawn. Neither waits for a device, and for the same parameters the result equals
torchvision's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import torch

from dscompile.runtime.augment.pixels import PixelMap

Drawn = TypeVar("Drawn")


class Augmentation(Protocol[Drawn]):
    """A random step of the loader. `Drawn` holds its parameters, one row per sample."""

    def draw(self, sample_ids: torch.Tensor, *, seed: int, epoch: int, place: int = 0) -> Drawn:
        """Return the parameters of some samples.

        Args:
            sample_ids: int64 (N,): indices into the split.
            seed: Any integer, taken modulo 2**64.
            epoch: Any integer.
            place: Position of this step in the list of augmentations, so that equal steps draw differently.

        Returns:
            Tensors on the device of `sample_ids`; of its batch, row i depends on sample_ids[i] alone.

        Raises:
            OptionError: `sample_ids` is not int64.
        """
        ...

    def apply(self, batch: torch.Tensor, drawn: Drawn, *, pixels: PixelMap | None = None) -> torch.Tensor:
        """Return the augmented batch.

        Args:
            batch: (N, C, H, W), any dtype, device and strides; it is only read.
            drawn: What `draw` returned for these N samples, on the batch's device.
            pixels: How the batch's values were made from pixels of 0 to 255; None if it holds pixels.

        Returns:
            A new tensor of the same dtype and device, which shares no memory with `batch`.

        Raises:
            OptionError: The batch does not fit the step or what was drawn.
        """
        ...


def apply_all(
    batch: torch.Tensor,
    sample_ids: torch.Tensor,
    augmentations: Sequence[Augmentation[Any]],
    *,
    seed: int,
    epoch: int,
    pixels: PixelMap | None = None,
) -> torch.Tensor:
    """Draw and apply a list of augmentations in order.

    Args:
        batch: (N, C, H, W), any dtype, device and strides; it is only read.
        sample_ids: int64 (N,): the samples of the batch. On another device than the batch, they are copied.
        augmentations: The steps; each one's place in the list is part of its draw.
        seed: Any integer, taken modulo 2**64.
        epoch: Any integer.
        pixels: How the batch's values were made from pixels of 0 to 255; None if it holds pixels.

    Returns:
        The augmented batch on the batch's device: a new tensor, or `batch` itself if the list is empty.

    Raises:
        OptionError: The batch does not fit a step or `sample_ids`.
    """
    ids = sample_ids.to(batch.device, non_blocking=True)
    for place, augmentation in enumerate(augmentations):
        drawn = augmentation.draw(ids, seed=seed, epoch=epoch, place=place)
        batch = augmentation.apply(batch, drawn, pixels=pixels)
    return batch
