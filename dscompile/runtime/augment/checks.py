"""What every augmentation refuses."""

from __future__ import annotations

from typing import NoReturn

import torch

from dscompile.errors import OptionError


def check_batch(batch: torch.Tensor, drawn: torch.Tensor) -> None:
    """Refuse a batch that is not (N, C, H, W) with one row of `drawn` for each sample."""
    if batch.ndim != 4 or drawn.shape != batch.shape[:1]:
        expected = f"(N, C, H, W) with N = {drawn.numel()}, one row per drawn sample"
        refuse("batch to augment", expected, str(tuple(batch.shape)), "Draw for the samples of this batch.")


def refuse(place: str, expected: str, got: str, cure: str) -> NoReturn:
    """Raise an `OptionError`."""
    raise OptionError(place, expected, got, cure)
