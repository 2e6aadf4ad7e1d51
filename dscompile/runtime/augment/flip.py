"""Mirror images at random."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dscompile.runtime import random
from dscompile.runtime.augment.checks import check_batch, refuse
from dscompile.runtime.augment.pixels import PixelMap


@dataclass(frozen=True)
class RandomHorizontalFlip:
    """Mirror a picture left to right with probability `p`: `torchvision.transforms.functional.hflip`.

    Attributes:
        p: Probability in [0, 1]; 0 never flips and 1 always does.
    """

    p: float = 0.5

    def __post_init__(self) -> None:
        """Refuse what is not a probability."""
        if not (isinstance(self.p, int | float) and 0 <= self.p <= 1):
            refuse("RandomHorizontalFlip.p", "a number from 0 to 1", repr(self.p), "Give p=0.5.")

    def draw(self, sample_ids: torch.Tensor, *, seed: int, epoch: int, place: int = 0) -> torch.Tensor:
        """Return which samples to flip, bool (N,); see `Augmentation.draw`."""
        return random.uniform(random.derive(seed, epoch, place, "horizontal flip"), sample_ids) < self.p

    def apply(
        self, batch: torch.Tensor, drawn: torch.Tensor, *, pixels: PixelMap | None = None
    ) -> torch.Tensor:
        """Return the batch with the drawn samples mirrored, contiguous; see `Augmentation.apply`."""
        check_batch(batch, drawn)
        batch = batch.contiguous()
        out = batch.flip(-1)
        mirrored, original = _as_words(out, batch)
        # What is not flipped is taken back in place: a second fresh batch would cost more than the flip.
        torch.where(drawn.view(-1, 1), mirrored, original, out=mirrored)
        return out


def _as_words(*batches: torch.Tensor) -> list[torch.Tensor]:
    """Return views (N, M) of contiguous batches of one shape and dtype, in words of 8 bytes where they fit.

    `torch.where` costs by the element: on 512x3x32x32 uint8 it takes 0.58 ms by bytes and 0.1 ms by words.
    """
    rows = [batch.flatten(1) for batch in batches]
    if all(
        row.shape[1] * row.element_size() % 8 == 0
        and row.storage_offset() * row.element_size() % 8 == 0
        and row.data_ptr() % 8 == 0
        for row in rows
    ):
        return [row.view(torch.int64) for row in rows]
    return rows
