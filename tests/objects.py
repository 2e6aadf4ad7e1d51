"""Small datasets of the user's own, and what stands in a store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

Array = np.ndarray[Any, np.dtype[Any]]


def pixels(count: int, height: int = 6, width: int = 9, channels: int = 3, seed: int = 0) -> Array:
    """Return uint8 pictures (N, H, W, C) of noise with the values 0 and 255 in each."""
    made = np.random.default_rng(seed).integers(0, 256, (count, height, width, channels), dtype=np.uint8)
    made[:, 0, 0], made[:, -1, -1] = 0, 255
    return made


def image(array: Array) -> Image.Image:
    """Return a Pillow image: RGB, or L for one channel."""
    return Image.fromarray(array[..., 0] if array.shape[-1] == 1 else array)


class Items:
    """A map-style dataset over a list."""

    def __init__(self, items: Sequence[Any]) -> None:
        self.items = list(items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.items[index]


class Pictures(Items):
    """(PIL picture, int label), with class names."""

    classes = ("ant", "bee", "cat")

    def __init__(self, count: int = 10, height: int = 6, width: int = 9, channels: int = 3, seed: int = 0):
        self.pixels = pixels(count, height, width, channels, seed)
        super().__init__([(image(array), n % 3) for n, array in enumerate(self.pixels)])


class Failing:
    """Ten samples, one of which raises for the first few times that it is read."""

    def __init__(self, index: int, error: BaseException, times: int = 1 << 30) -> None:
        self.index, self.error, self.times = index, error, times

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if index == self.index and self.times > 0:
            self.times -= 1
            raise self.error
        return torch.full((4,), float(index)), index


def left_behind(store: Path) -> list[str]:
    """Return what a store holds besides the tables of file digests: relative paths."""
    found = [path.relative_to(store) for path in store.rglob("*")] if store.exists() else []
    return sorted(path.as_posix() for path in found if path.parts[0] != ".digests")


def shard_bytes(path: Path) -> dict[str, bytes]:
    """Return the bytes of every file of an artifact but its manifest."""
    return {file.name: file.read_bytes() for file in sorted(path.iterdir()) if file.name != "manifest.json"}
