"""Augmentations: random steps that the loader applies to whole batches.

Each has two pure halves. `draw` gives every sample its parameters from (seed, epoch, sample id, place in the
list) alone, so they do not depend on the batch, the rank or the device. `apply` is a tensor function of a
batch and what was drawn. Neither waits for a device, and for the same parameters the result equals
torchvision's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, NoReturn, Protocol, TypeVar, get_args

import numpy as np
import torch

from dscompile.errors import OptionError
from dscompile.runtime import random

PaddingMode = Literal["constant", "reflect", "edge", "symmetric"]
Padding = int | tuple[int, int] | tuple[int, int, int, int]
Drawn = TypeVar("Drawn")


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
            _refuse(
                "PixelMap.mean and .std", "both or neither, equally long", f"{mean} and {std}", "Give both."
            )
        divisors = (*(() if self.scale is None else (self.scale,)), *(std or ()))
        if (
            mean == ()
            or not all(math.isfinite(value) for value in (*divisors, *(mean or ())))
            or 0 in divisors
        ):
            _refuse(
                "PixelMap", "finite numbers, no divisor of 0", repr(self), "Give the numbers of the artifact."
            )

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
                _refuse("fill", f"1 or {mean.size} values, as in PixelMap.mean", f"{value.size}", cure)
            value = (value - mean) / std
        return tuple(value.tolist())


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
            _refuse("RandomCrop.size", "a positive integer, or a tuple of 2", repr(self.size), cure)
        if self.padding is not None and not _are_ints(self.padding, lengths=(2, 4), low=0):
            cure = "Give (left, top, right, bottom)."
            _refuse("RandomCrop.padding", "an integer from 0, or a tuple of 2 or 4", repr(self.padding), cure)
        if self.padding_mode not in get_args(PaddingMode):
            modes = ", ".join(get_args(PaddingMode))
            _refuse("RandomCrop.padding_mode", modes, repr(self.padding_mode), "Choose one of them.")
        values = self.fill if isinstance(self.fill, tuple) else (self.fill,)
        if not values or not all(isinstance(value, int | float) and math.isfinite(value) for value in values):
            _refuse("RandomCrop.fill", "a finite number, or one per channel", repr(self.fill), "Give fill=0.")

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
            _refuse("RandomCrop", f"pictures of {window_height}x{window_width} or larger", got, cure)
        return (
            random.scale(drawn.vertical, padded_height - window_height + 1),
            random.scale(drawn.horizontal, padded_width - window_width + 1),
        )

    def apply(self, batch: torch.Tensor, drawn: CropDraw, *, pixels: PixelMap | None = None) -> torch.Tensor:
        """Return the windows, (N, C, size[0], size[1]), contiguous; see `Augmentation.apply`."""
        _check_batch(batch, drawn.vertical)
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
            _refuse("RandomHorizontalFlip.p", "a number from 0 to 1", repr(self.p), "Give p=0.5.")

    def draw(self, sample_ids: torch.Tensor, *, seed: int, epoch: int, place: int = 0) -> torch.Tensor:
        """Return which samples to flip, bool (N,); see `Augmentation.draw`."""
        return random.uniform(random.derive(seed, epoch, place, "horizontal flip"), sample_ids) < self.p

    def apply(
        self, batch: torch.Tensor, drawn: torch.Tensor, *, pixels: PixelMap | None = None
    ) -> torch.Tensor:
        """Return the batch with the drawn samples mirrored, contiguous; see `Augmentation.apply`."""
        _check_batch(batch, drawn)
        batch = batch.contiguous()
        out = batch.flip(-1)
        mirrored, original = _as_words(out, batch)
        # What is not flipped is taken back in place: a second fresh batch would cost more than the flip.
        torch.where(drawn.view(-1, 1), mirrored, original, out=mirrored)
        return out


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


def _stored_fill(
    fill: float | tuple[float, ...], pixels: PixelMap | None, channels: int, dtype: torch.dtype
) -> tuple[float, ...]:
    """Return the padding value in a batch's own terms: one, or one per channel."""
    values = fill if isinstance(fill, tuple) else (fill,)
    if pixels is not None:
        values = pixels.stored(values)
    if len(values) not in (1, channels):
        cure = "Give one fill value, or one per channel."
        _refuse("RandomCrop.fill", f"1 or {channels} values", str(len(values)), cure)
    info = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    for value in values:
        if not info.min <= value <= info.max or (value % 1 and not dtype.is_floating_point):
            cure = "Give a fill that the dtype holds, or say by `pixels` how the batch was made."
            _refuse("RandomCrop.fill", f"a value of {dtype}", str(value), cure)
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


def _check_batch(batch: torch.Tensor, drawn: torch.Tensor) -> None:
    if batch.ndim != 4 or drawn.shape != batch.shape[:1]:
        expected = f"(N, C, H, W) with N = {drawn.numel()}, one row per drawn sample"
        _refuse("batch to augment", expected, str(tuple(batch.shape)), "Draw for the samples of this batch.")


def _refuse(place: str, expected: str, got: str, cure: str) -> NoReturn:
    raise OptionError(place, expected, got, cure)
