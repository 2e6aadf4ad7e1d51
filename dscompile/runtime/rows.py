"""The rows of one field across shards, as torch sees them: gathered into a batch, or one by one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch

from dscompile.artifact.fields import Field
from dscompile.formats.protocol import Array, Rows


class FieldRows:
    """One field of a split: the shards' rows, and the ways to copy rows out of them.

    What it returns is always a copy: nothing hands out mapped memory, which a write would crash on.

    Args:
        field: The field.
        firsts: Index of the first row of each shard.
        shards: The rows of each shard, mapped or read on demand.
    """

    def __init__(self, field: Field, firsts: Sequence[int], shards: Sequence[Rows]) -> None:
        self.field = field
        self.dtype: torch.dtype = getattr(torch, field.dtype)
        self._firsts = list(firsts)
        self._shards = [_shard(rows, field) for rows in shards]

    def one(self, index: int) -> torch.Tensor:
        """Return a copy of one row, shape `field.shape`."""
        number = bisect_right(self._firsts, index) - 1
        local = index - self._firsts[number]
        return self._shards[number].span(local, local + 1).clone().view(self.field.shape)

    def gather(self, ids: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """Copy rows into `out` and return it.

        Args:
            ids: int64 (N,) on the CPU, each in [0, samples).
            out: (N, *shape) of the stored dtype, contiguous, on the CPU.
        """
        flat = _two_axes(out)
        if len(self._shards) == 1:
            self._shards[0].take(ids, flat)
            return out
        numbers = torch.bucketize(ids, torch.tensor(self._firsts[1:]), right=True)
        for number in sorted(set(numbers.tolist())):
            places = torch.nonzero(numbers == number).view(-1)
            part = flat.new_empty((len(places), flat.shape[1]))
            self._shards[number].take(ids[places] - self._firsts[number], part)
            flat.index_copy_(0, places, part)
        return out

    def span(self, start: int, stop: int, out: torch.Tensor) -> torch.Tensor:
        """Copy the consecutive rows [start, stop) into `out` (N, *shape) and return it."""
        flat = _two_axes(out)
        for first, shard in zip(self._firsts, self._shards, strict=True):
            low, high = max(start, first), min(stop, first + len(shard))
            if low < high:
                flat[low - start : high - start].copy_(shard.span(low - first, high - first))
        return out


class _Shard(Protocol):
    """Rows of one shard as tensors (N, elements of a row)."""

    def __len__(self) -> int: ...

    def span(self, start: int, stop: int) -> torch.Tensor:
        """Return consecutive rows, mapped or new."""
        ...

    def take(self, ids: torch.Tensor, out: torch.Tensor) -> None:
        """Copy rows into `out`."""
        ...


class _Mapped:
    """A mapped shard: one tensor over the whole mapping."""

    def __init__(self, flat: torch.Tensor) -> None:
        self._flat = flat

    def __len__(self) -> int:
        return len(self._flat)

    def span(self, start: int, stop: int) -> torch.Tensor:
        return self._flat[start:stop]

    def take(self, ids: torch.Tensor, out: torch.Tensor) -> None:
        torch.index_select(self._flat, 0, ids, out=out)


class _Read:
    """A shard whose rows are read when asked for."""

    def __init__(self, rows: Rows, field: Field) -> None:
        self._rows, self._field = rows, field

    def __len__(self) -> int:
        return len(self._rows)

    def span(self, start: int, stop: int) -> torch.Tensor:
        return _flat(self._rows[start:stop], self._field)

    def take(self, ids: torch.Tensor, out: torch.Tensor) -> None:
        out.copy_(_flat(self._rows[ids.numpy()], self._field))


def _shard(rows: Rows, field: Field) -> _Shard:
    return _Mapped(_flat(rows, field)) if isinstance(rows, np.ndarray) else _Read(rows, field)


def _two_axes(out: torch.Tensor) -> torch.Tensor:
    """Return a batch as (N, elements of a row), also where a row has none."""
    return out.view(len(out), out[0].numel() if len(out) else 0)


class _Writable:
    """An array interface over read-only memory that claims to be writable.

    torch warns about read-only arrays because it cannot keep users from writing to them; these tensors
    never reach a user.
    """

    def __init__(self, rows: Array) -> None:
        self._rows = rows
        self.__array_interface__ = {
            **rows.__array_interface__,
            "data": (rows.__array_interface__["data"][0], False),
        }


def _flat(rows: Array, field: Field) -> torch.Tensor:
    """Return rows as a tensor (samples, elements of a row), without a copy."""
    width = int(np.prod(field.shape, dtype=np.int64))
    if rows.size == 0:
        return torch.empty((len(rows), width), dtype=getattr(torch, field.dtype))
    tensor = torch.from_numpy(np.asarray(_Writable(rows.reshape(len(rows), width))))
    return tensor.view(torch.bfloat16) if field.dtype == "bfloat16" else tensor
