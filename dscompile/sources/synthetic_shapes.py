"""Pixels of the embedded dataset as a pure function of (split, index, size).

Only integers are used: a counter-based hash in place of a random generator, and shapes as inequalities
between whole numbers. So the pixels depend neither on the machine nor on a library's version. Any change of
the pixels needs a new `VERSION`, since it stands in the identity of every artifact made from them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words = NDArray[np.uint64]
    Index = NDArray[np.int64]
    Coordinates = NDArray[np.int32]
    Pixels = NDArray[np.uint8]
    Mask = NDArray[np.bool_]

VERSION = 1
CLASSES = ("disc", "ring", "square", "frame", "diamond", "plus", "saltire", "triangle", "rows", "columns")

_GOLDEN = 0x9E3779B97F4A7C15
_SALTS = {"train": 0x7472_6169_6E00_0001, "test": 0x7465_7374_0000_0002}
_BATCH_PIXELS = 1 << 18
_UNIT = 16  # coordinates are counted in sixteenths of a pixel


def hashed(counter: Words) -> Words:
    """Return the SplitMix64 output of each counter: uint64 -> uint64, any shape but a scalar's."""
    z = counter * np.uint64(_GOLDEN)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    out: Words = z ^ (z >> np.uint64(31))
    return out


def labels(split: str, index: Index) -> Index:
    """Return the labels of sample indices: int64 (N,) in 0 … 9, each block of ten a shuffle of all."""
    block = index // 10
    keys = hashed(np.add.outer(_key(split, block, 1), np.arange(10, dtype=np.uint64)))
    order = np.argsort(keys, axis=1, kind="stable")
    picked: Index = np.take_along_axis(order, (index % 10)[:, None], axis=1)[:, 0]
    return picked.astype(np.int64)


def pictures(split: str, index: Index, size: int) -> Pixels:
    """Return the pictures of sample indices: uint8 (N, size, size, 3) in 0 … 255, RGB."""
    made = np.empty((len(index), size, size, 3), dtype=np.uint8)
    step = max(1, _BATCH_PIXELS // size**2)
    for start in range(0, len(index), step):
        made[start : start + step] = _draw(split, index[start : start + step], size)
    return made


def _key(split: str, number: Index, stream: int) -> Words:
    """Return one hash for each number of a stream, from which further counters are counted."""
    return hashed(hashed(number.astype(np.uint64) + np.uint64(_SALTS[split])) + np.uint64(stream << 32))


def _draw(split: str, index: Index, size: int) -> Pixels:
    key = _key(split, index, 2)
    mask = _masks(key, labels(split, index), size)
    ground, figure = _colours(key)
    colour = np.where(mask[..., None], figure[:, None, None, :], ground[:, None, None, :])
    noise = _noise(_key(split, index, 3), size)
    return np.clip(colour + noise, 0, 255).astype(np.uint8)


def _below(key: Words, number: int, limit: int) -> Coordinates:
    """Return draw `number` of each sample, evenly in 0 … limit - 1: int32 (N,)."""
    word = hashed(key + np.uint64(number)) >> np.uint64(32)
    scaled: Words = (word * np.uint64(limit)) >> np.uint64(32)
    return scaled.astype(np.int32)


def _colours(key: Words) -> tuple[NDArray[np.int16], NDArray[np.int16]]:
    """Return colours of ground and figure: int16 (N, 3) in 0 … 255, at least 48 apart in each channel."""
    ground = np.stack([_below(key, 8 + channel, 256) for channel in range(3)], axis=1)
    apart = np.stack([48 + _below(key, 16 + channel, 160) for channel in range(3)], axis=1)
    return ground.astype(np.int16), ((ground + apart) % 256).astype(np.int16)


def _noise(key: Words, size: int) -> NDArray[np.int16]:
    """Return noise of each pixel and channel: int16 (N, size, size, 3) in -47 … 47, mostly small."""
    counter: Words = np.add.outer(key, np.arange(size * size, dtype=np.uint64))
    octets = hashed(counter).astype("<u8").view(np.uint8).reshape(-1, size, size, 8).astype(np.int16)
    return ((octets[..., 0:3] + octets[..., 3:6] - 255) * 47) // 255


def _masks(key: Words, label: Index, size: int) -> Mask:
    """Return which pixels belong to the figure: bool (N, size, size)."""
    span = _UNIT * size
    radius = span * 7 // 32 + _below(key, 0, span * 5 // 32)
    centre_y = span * 3 // 8 + _below(key, 1, span // 4)
    centre_x = span * 3 // 8 + _below(key, 2, span // 4)
    grid = np.arange(size, dtype=np.int32) * _UNIT + _UNIT // 2
    mask = np.empty((len(label), size, size), dtype=bool)
    for number, shape in enumerate(_SHAPES):
        chosen = np.flatnonzero(label == number)
        y = grid[None, :, None] - centre_y[chosen, None, None]
        x = grid[None, None, :] - centre_x[chosen, None, None]
        mask[chosen] = shape(y, x, radius[chosen, None, None])
    return mask


# Each shape takes y (N, size, 1) and x (N, 1, size) from its centre and its radius r (N, 1, 1), all int32.


def _disc(y: Coordinates, x: Coordinates, r: Coordinates) -> Mask:
    return y * y + x * x <= r * r


def _ring(y: Coordinates, x: Coordinates, r: Coordinates) -> Mask:
    square = y * y + x * x
    return (square <= r * r) & (square * 25 >= r * r * 9)


def _square(y: Coordinates, x: Coordinates, r: Coordinates) -> Mask:
    return np.maximum(abs(y), abs(x)) * 8 <= r * 7


def _frame(y: Coordinates, x: Coordinates, r: Coordinates) -> Mask:
    far = np.maximum(abs(y), abs(x))
    return (far * 8 <= r * 7) & (far * 2 >= r)


def _diamond(y: Coordinates, x: Coordinates, r: Coordinates) -> Mask:
    return (abs(y) + abs(x)) * 4 <= r * 5


def _plus(y: Coordinates, x: Coordinates, r: Coordinates) -> Mask:
    return (np.minimum(abs(y), abs(x)) * 4 <= r) & (np.maximum(abs(y), abs(x)) <= r)


def _saltire(y: Coordinates, x: Coordinates, r: Coordinates) -> Mask:
    return (abs(abs(y) - abs(x)) * 3 <= r) & (np.maximum(abs(y), abs(x)) <= r)


def _triangle(y: Coordinates, x: Coordinates, r: Coordinates) -> Mask:
    return (abs(x) * 2 <= y + r) & (y <= r)


def _rows(y: Coordinates, x: Coordinates, r: Coordinates) -> Mask:
    even: Mask = (y + r) * 5 // (r * 2) % 2 == 0
    return even & (np.maximum(abs(y), abs(x)) < r)


def _columns(y: Coordinates, x: Coordinates, r: Coordinates) -> Mask:
    return _rows(x, y, r)


_SHAPES: tuple[Callable[[Coordinates, Coordinates, Coordinates], Mask], ...] = (
    _disc,
    _ring,
    _square,
    _frame,
    _diamond,
    _plus,
    _saltire,
    _triangle,
    _rows,
    _columns,
)
