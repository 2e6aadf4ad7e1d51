"""Crops at random places."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import torch

from dscompile.runtime import random
from dscompile.runtime.augment.checks import check_batch, refuse
from dscompile.runtime.augment.pixels import PixelMap

PaddingMode = Literal["constant", "reflect", "edge", "symmetric"]
Padding = int | tuple[int, int] | tuple[int, int, int, int]


class CropDraw(NamedTuple):
    """Where each crop lies within the room it has, whatever that room is: two int64 (N,) in [0, 2**32)."""

    vertical: torch.Tensor
    horizontal: torch.Tensor


@dataclass(frozen=True)
class RandomCrop:
    """Cut a window at a place drawn uniformly over all offsets, after optional padding.

    Equals `torchvision.transforms.functional.pad` and `crop` for the offsets of `offsets`.

    Attributes:
        size: Height and width of the window; one number for both.
        padding: Added before the crop: one number for all sides, (left and right, top and bottom), or
            (left, top, right, bottom).
        padding_mode: `constant` fills with `fill`; `edge` repeats the last pixel; `reflect` mirrors without
            and `symmetric` with the last pixel, again and again where the padding exceeds the picture.
        fill: Pixel value of constant padding, on the 0-255 scale: one number, or one per channel. A batch
            that was scaled or normalised is padded with the value that its `PixelMap` gives for it.
    """

    size: int | tuple[int, int]
    padding: Padding | None = None
    padding_mode: PaddingMode = "constant"
    fill: float | tuple[float, ...] = 0

    def __post_init__(self) -> None:
        """Refuse options out of range."""
        if not _are_ints(self.size, lengths=(2,), low=1):
            cure = "Give (height, width)."
            refuse("RandomCrop.size", "a positive integer, or a tuple of 2", repr(self.size), cure)
        if self.padding is not None and not _are_ints(self.padding, lengths=(2, 4), low=0):
            cure = "Give (left, top, right, bottom)."
            refuse("RandomCrop.padding", "an integer from 0, or a tuple of 2 or 4", repr(self.padding), cure)
        if self.padding_mode not in get_args(PaddingMode):
            modes = ", ".join(get_args(PaddingMode))
            refuse("RandomCrop.padding_mode", modes, repr(self.padding_mode), "Choose one of them.")
        values = self.fill if isinstance(self.fill, tuple) else (self.fill,)
        if not values or not all(isinstance(value, int | float) and math.isfinite(value) for value in values):
            refuse("RandomCrop.fill", "a finite number, or one per channel", repr(self.fill), "Give fill=0.")

    def draw(self, sample_ids: torch.Tensor, *, seed: int, epoch: int, place: int = 0) -> CropDraw:
        """Return where each sample's window lies, for pictures of any size; see `Augmentation.draw`."""
        return CropDraw(*random.words(random.derive(seed, epoch, place, "crop"), sample_ids))

    def offsets(self, drawn: CropDraw, height: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the top and left edges of the windows in the padded pictures.

        Args:
            drawn: What `draw` returned.
            height: Height of the pictures before padding.
            width: Their width before padding.

        Returns:
            Two new int64 tensors (N,), each uniform over [0, padded size - window size], ends included.

        Raises:
            OptionError: The padded picture is smaller than the window.
        """
        left, top, right, bottom = self._sides()
        padded_height, padded_width = height + top + bottom, width + left + right
        window_height, window_width = self._window()
        if padded_height < window_height or padded_width < window_width:
            got = f"{padded_height}x{padded_width} ({height}x{width} before padding)"
            cure = "Crop to a smaller size, add padding, or compile with a larger resize."
            refuse("RandomCrop", f"pictures of {window_height}x{window_width} or larger", got, cure)
        return (
            random.scale(drawn.vertical, padded_height - window_height + 1),
            random.scale(drawn.horizontal, padded_width - window_width + 1),
        )

    def apply(self, batch: torch.Tensor, drawn: CropDraw, *, pixels: PixelMap | None = None) -> torch.Tensor:
        """Return the windows, (N, C, size[0], size[1]), contiguous; see `Augmentation.apply`."""
        check_batch(batch, drawn.vertical)
        top, left = self.offsets(drawn, *batch.shape[2:])
        if any(self._sides()):
            batch = self._padded(batch, pixels)
        return _windows(batch, top, left, self._window())

    def _window(self) -> tuple[int, int]:
        return (self.size, self.size) if isinstance(self.size, int) else self.size

    def _sides(self) -> tuple[int, int, int, int]:
        """Return the padding as (left, top, right, bottom)."""
        if self.padding is None or isinstance(self.padding, int):
            side = self.padding or 0
            return side, side, side, side
        return self.padding if len(self.padding) == 4 else self.padding + self.padding

    def _padded(self, batch: torch.Tensor, pixels: PixelMap | None) -> torch.Tensor:
        """Return a padded copy of the batch."""
        left, top, right, bottom = self._sides()
        count, channels, height, width = batch.shape
        out = batch.new_empty((count, channels, height + top + bottom, width + left + right))
        rows, columns = slice(top, top + height), slice(left, left + width)
        if self.padding_mode == "constant":
            _fill(out, _stored_fill(self.fill, pixels, channels, batch.dtype))
        out[:, :, rows, columns] = batch
        if self.padding_mode == "constant":
            return out
        across = self._mirrored(left, width, right, batch.device)
        for edge in (slice(0, left), slice(left + width, None)):
            out[:, :, rows, edge] = batch.index_select(3, across[edge])
        down = self._mirrored(top, height, bottom, batch.device).add_(top)
        for edge in (slice(0, top), slice(top + height, None)):
            out[:, :, edge] = out.index_select(2, down[edge])
        return out

    def _mirrored(self, before: int, length: int, after: int, device: torch.device) -> torch.Tensor:
        """Return which pixel of a line of `length` stands at each place of the padded line: int64."""
        places = torch.arange(-before, length + after, device=device)
        if self.padding_mode == "edge" or length == 1:
            return places.clamp_(0, length - 1)
        repeated = 1 if self.padding_mode == "symmetric" else 0  # whether the last pixel stands twice
        period = 2 * (length - 1 + repeated)
        places = places.remainder_(period)
        return torch.minimum(places, period - repeated - places)


def _windows(
    batch: torch.Tensor, top: torch.Tensor, left: torch.Tensor, size: tuple[int, int]
) -> torch.Tensor:
    """Return one window per sample, (N, C, *size), from a batch (N, C, H, W) of any strides.

    A view holds the window at every element of the memory, overlapping; one `index_select` takes N of them,
    each a strided copy. Measured on 512x3x32x32 uint8: 0.08 ms; indexing a (N, y, x, C, h, w) view: 0.5 ms.
    """
    count, channels = batch.shape[:2]
    if count == 0:
        return batch.new_empty((0, channels, *size))
    per_sample, per_channel, per_row, per_column = batch.stride()
    rows, columns = batch.shape[2] - size[0], batch.shape[3] - size[1]
    places = 1 + (count - 1) * per_sample + rows * per_row + columns * per_column
    view = batch.as_strided((places, channels, *size), (1, per_channel, per_row, per_column))
    first = torch.arange(count, device=batch.device) * per_sample
    return view.index_select(0, first + top * per_row + left * per_column)


def _stored_fill(
    fill: float | tuple[float, ...], pixels: PixelMap | None, channels: int, dtype: torch.dtype
) -> tuple[float, ...]:
    """Return the padding value in a batch's own terms: one, or one per channel."""
    values = fill if isinstance(fill, tuple) else (fill,)
    if pixels is not None:
        values = pixels.stored(values)
    if len(values) not in (1, channels):
        cure = "Give one fill value, or one per channel."
        refuse("RandomCrop.fill", f"1 or {channels} values", str(len(values)), cure)
    info = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    for value in values:
        if not info.min <= value <= info.max or (value % 1 and not dtype.is_floating_point):
            cure = "Give a fill that the dtype holds, or say by `pixels` how the batch was made."
            refuse("RandomCrop.fill", f"a value of {dtype}", str(value), cure)
    return values


def _fill(batch: torch.Tensor, values: tuple[float, ...]) -> None:
    """Set every pixel (N, C, H, W) to one value, or to one per channel, without a copy to the device."""
    if len(values) == 1:
        batch.fill_(values[0])
        return
    for channel, value in enumerate(values):
        batch[:, channel].fill_(value)


def _are_ints(value: object, *, lengths: tuple[int, ...], low: int) -> bool:
    """Say whether a value is an integer from `low`, or a tuple of them of one of the lengths."""
    values = value if isinstance(value, tuple) and len(value) in lengths else (value,)
    return all(isinstance(item, int) and not isinstance(item, bool) and item >= low for item in values)
