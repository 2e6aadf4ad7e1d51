"""Geometry of pictures at compile time: resize and centre crop, equal to torchvision's on Pillow images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Geometry:
    """Resize the shorter side, then crop the centre.

    Attributes:
        resize: Length in pixels of the shorter side, or None.
        crop: Side in pixels of the square kept, or None; smaller pictures are padded with 0.
    """

    resize: int | None = None
    crop: int | None = None

    def size(self, height: int, width: int) -> tuple[int, int]:
        """Return (height, width) after the steps, for a picture of that size."""
        if self.resize is not None:
            height, width = resized(height, width, self.resize)
        return (height, width) if self.crop is None else (self.crop, self.crop)

    def picture(self, image: Image) -> Image:
        """Return a Pillow image after the steps (bilinear with antialias, as Pillow always does)."""
        if self.resize is not None:
            from PIL.Image import Resampling

            height, width = resized(image.height, image.width, self.resize)
            if (width, height) != image.size:
                image = image.resize((width, height), Resampling.BILINEAR)
        return image if self.crop is None else _crop_picture(image, self.crop)

    def crop_pixels(self, pixels: Pixels) -> Pixels:
        """Return the centre crop of pixels (N, H, W) or (N, H, W, C): a view where nothing is padded."""
        if self.crop is None:
            return pixels
        height, width = pixels.shape[1:3]
        before, after = zip(padding(height, self.crop), padding(width, self.crop), strict=True)
        if any(before) or any(after):
            around = [(0, 0), *zip(before, after, strict=True), *[(0, 0)] * (pixels.ndim - 3)]
            pixels = np.pad(pixels, around)
        top, left = (start(size, self.crop) for size in pixels.shape[1:3])
        return pixels[:, top : top + self.crop, left : left + self.crop]


def resized(height: int, width: int, shorter: int) -> tuple[int, int]:
    """Return (height, width) with the shorter side of that length; the longer one is cut to an integer.

    The rule of torchvision's `Resize(int)`.
    """
    if width <= height:
        return int(shorter * height / width), shorter
    return shorter, int(shorter * width / height)


def start(size: int, crop: int) -> int:
    """Return the first pixel of the centre crop; halves round to even, as in torchvision's `center_crop`."""
    return round((size - crop) / 2.0)


def padding(size: int, crop: int) -> tuple[int, int]:
    """Return how many pixels are added (before, after) so that `size` reaches `crop`."""
    missing = max(0, crop - size)
    return missing // 2, (missing + 1) // 2


def _crop_picture(image: Image, crop: int) -> Image:
    (left_pad, right_pad), (top_pad, bottom_pad) = padding(image.width, crop), padding(image.height, crop)
    if left_pad or right_pad or top_pad or bottom_pad:
        from PIL import ImageOps

        image = ImageOps.expand(image, (left_pad, top_pad, right_pad, bottom_pad))
    left, top = start(image.width, crop), start(image.height, crop)
    return image.crop((left, top, left + crop, top + crop))
