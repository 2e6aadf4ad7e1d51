"""The rows of one field across shards, as torch sees them: gathered into a batch, or one by one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from dscompile.artifact.fields import Field

_SAME_SIZE = {"bfloat16": torch.bfloat16}


class FieldRows:
    """One field of a split: read-only views of the mapped shards, and the ways to copy rows out of them.

    What it returns is always a copy: nothing hands out mapped memory, which a write would crash on.

    Args:
        field: The field.
        firsts: Index of the first row of each shard.
        shards: Rows (samples, *shape) of each shard, mapped.
    """

    def __init__(
        self, field: Field, firsts: Sequence[int], shards: Sequence[np.ndarray[Any, np.dtype[Any]]]
    ) -> None:
        self.field = field
        self._firsts = list(firsts)
        self._flat = [_flat(rows, field) for rows in shards]
        self._length = sum(len(rows) for rows in shards)

    @property
    def dtype(self) -> torch.dtype:
        """The stored dtype."""
        return self._flat[0].dtype

    def one(self, index: int) -> torch.Tensor:
        """Return a copy of one row, shape `field.shape`."""
        number = bisect_right(self._firsts, index) - 1
        return self._flat[number][index - self._firsts[number]].clone().view(self.field.shape)

    def gather(self, ids: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """Copy rows into `out` and return it.

        Args:
            ids: int64 (N,) on the CPU, each in [0, samples).
            out: (N, *shape) of the stored dtype, contiguous, on the CPU.
        """
        flat = out.view(len(ids), -1) if out.numel() else out.view(len(ids), 0)
        if len(self._flat) == 1:
            torch.index_select(self._flat[0], 0, ids, out=flat)
            return out
        numbers = torch.bucketize(ids, torch.tensor(self._firsts[1:]), right=True)
        for number in sorted(set(numbers.tolist())):
            places = torch.nonzero(numbers == number).view(-1)
            local = ids[places] - self._firsts[number]
            flat.index_copy_(0, places, self._flat[number].index_select(0, local))
        return out

    def span(self, start: int, stop: int, out: torch.Tensor) -> torch.Tensor:
        """Copy the consecutive rows [start, stop) into `out` (N, *shape) and return it."""
        flat = out.view(stop - start, -1) if out.numel() else out.view(stop - start, 0)
        for first, rows in zip(self._firsts, self._flat, strict=True):
            low, high = max(start, first), min(stop, first + len(rows))
            if low < high:
                flat[low - start : high - start].copy_(rows[low - first : high - first])
        return out


class _Writable:
    """An array interface over read-only memory that claims to be writable.

    torch warns about read-only arrays because it cannot keep users from writing to them; these tensors
    never reach a user.
    """

    def __init__(self, rows: np.ndarray[Any, np.dtype[Any]]) -> None:
        self._rows = rows
        self.__array_interface__ = {
            **rows.__array_interface__,
            "data": (rows.__array_interface__["data"][0], False),
        }


def _flat(rows: np.ndarray[Any, np.dtype[Any]], field: Field) -> torch.Tensor:
    """Return mapped rows as a tensor (samples, elements of a row), without a copy."""
    width = int(np.prod(field.shape, dtype=np.int64))
    if rows.size == 0:
        return torch.empty((len(rows), width), dtype=getattr(torch, field.dtype))
    tensor = torch.from_numpy(np.asarray(_Writable(rows.reshape(len(rows), width))))
    return tensor.view(_SAME_SIZE[field.dtype]) if field.dtype in _SAME_SIZE else tensor
