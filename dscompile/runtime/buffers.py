"""Batch memory, reused only when nobody holds the previous batch any more.

A fresh 6 MB tensor per batch costs several times the gather itself, because the allocator maps and zeroes
new pages each time. Whether a batch is still held is read off its storage's reference count, which every
tensor, view, numpy array and autograd graph over it raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

# Per shape: one batch at the user, one being filled, one for a loop that keeps the last one, one to spare.
MOST_KEPT = 4


class Buffers:
    """Lends tensors of one shape and dtype after another, reusing memory that came back.

    Memory is kept by dtype and shape of a row: collected labels never hold on to a picture's buffer.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[tuple[int, ...], torch.dtype], list[tuple[torch.UntypedStorage, int]]] = {}

    def lend(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """Return a contiguous CPU tensor of undefined content that nobody else holds."""
        needed = dtype.itemsize * _product(shape)
        kept = self._kept.setdefault((shape[1:], dtype), [])
        for storage, unused in kept:
            if storage.nbytes() >= needed and _uses(storage) == unused:
                return torch.empty(0, dtype=dtype).set_(storage, 0, shape)  # type: ignore[call-overload, no-any-return]
        fresh = torch.empty(shape, dtype=dtype)
        if needed and _COUNT is not None:
            storage = fresh.untyped_storage()
            # `fresh` itself is one of the uses counted here.
            kept.append((storage, _uses(storage) - 1))
            del kept[:-MOST_KEPT]
        return fresh


# Private, but there since torch 2.1; without it every batch gets memory of its own.
_COUNT: Callable[[Any], int] | None = getattr(torch._C, "_storage_Use_Count", None)


def _uses(storage: torch.UntypedStorage) -> int:
    return -1 if _COUNT is None else int(_COUNT(storage._cdata))


def _product(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
