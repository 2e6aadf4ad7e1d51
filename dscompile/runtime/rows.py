"""The rows of one field across shards, as torch sees them: gathered into a batch, or one by one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import prod
from typing import Protocol

import numpy as np
import torch

from dscompile.artifact.fields import STORED_AS, Field
from dscompile.formats.protocol import Array, Rows


class FieldRows(Protocol):
    """One field of a split, and the ways to copy rows out of its shards.

    What comes out is always a copy: nothing hands out mapped memory, which a write would crash on.
    """

    dtype: torch.dtype

    def one(self, index: int) -> torch.Tensor:
        """Return a copy of one row, shape `field.shape`."""
        ...

    def gather(self, ids: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """Copy rows into `out` and return it.

        Args:
            ids: int64 (N,) on the CPU, each in [0, samples).
            out: (N, *shape) of the stored dtype, contiguous, on the CPU.
        """
        ...

    def span(self, start: int, stop: int, out: torch.Tensor) -> torch.Tensor:
        """Copy the consecutive rows [start, stop) into `out` (N, *shape) and return it."""
        ...


def field_rows(field: Field, firsts: Sequence[int], shards: Sequence[Rows]) -> FieldRows:
    """Return a field's rows.

    Args:
        field: The field.
        firsts: Index of the first row of each shard.
        shards: The rows of each shard: mapped arrays, or readers where they are compressed.
    """
    arrays = [rows for rows in shards if isinstance(rows, np.ndarray)]
    if len(arrays) == len(shards) and field.row_bytes and all(rows.flags.aligned for rows in arrays):
        return MappedRows(field, firsts, arrays)
    return ReadRows(field, firsts, shards)


class MappedRows:
    """Rows of mapped shards: any number of them is gathered by one `index_select`.

    A tensor with the address of the lowest mapping as its origin reaches over all of them; a view of it
    holds a row at every element, and the elements where the shards' rows begin are what is selected.
    The holes between the mappings are never touched.
    """

    def __init__(self, field: Field, firsts: Sequence[int], shards: Sequence[Array]) -> None:
        self.field = field
        self.dtype: torch.dtype = getattr(torch, field.dtype)
        self._width = prod(field.shape)
        self._firsts = list(firsts)
        self._shards = list(shards)
        addresses = [rows.__array_interface__["data"][0] for rows in shards]
        item = field.row_bytes // self._width
        places = [(address - min(addresses)) // item for address in addresses]
        end = max(place + rows.size for place, rows in zip(places, shards, strict=True))
        elements = _tensor(_Memory(shards, min(addresses), end), field)
        self._at = elements.as_strided((end - self._width + 1, self._width), (1, 1))
        # Row r of shard k begins at element r * width + starts[k].
        self._starts = torch.tensor(
            [place - first * self._width for place, first in zip(places, firsts, strict=True)]
        )
        self._bounds = torch.tensor(self._firsts[1:])

    def one(self, index: int) -> torch.Tensor:
        """See `FieldRows.one`."""
        number = bisect_right(self._firsts, index) - 1
        row = self._shards[number][index - self._firsts[number]]
        return (
            _tensor(_Memory([row], row.__array_interface__["data"][0], row.size), self.field)
            .clone()
            .view(self.field.shape)
        )

    def gather(self, ids: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """See `FieldRows.gather`."""
        elements = ids * self._width
        if len(self._shards) == 1:
            elements += self._starts
        else:
            elements += self._starts[torch.bucketize(ids, self._bounds, right=True)]
        torch.index_select(self._at, 0, elements, out=out.view(-1, self._width))
        return out

    def span(self, start: int, stop: int, out: torch.Tensor) -> torch.Tensor:
        """See `FieldRows.span`."""
        for first, number in zip(self._firsts, range(len(self._shards)), strict=True):
            low, high = max(start, first), min(stop, first + len(self._shards[number]))
            if low < high:
                begin = int(self._starts[number]) + low * self._width
                rows = self._at[begin].as_strided((high - low, self._width), (self._width, 1))
                out.view(-1, self._width)[low - start : high - start].copy_(rows)
        return out


class ReadRows:
    """Rows that are read when asked for, shard by shard."""

    def __init__(self, field: Field, firsts: Sequence[int], shards: Sequence[Rows]) -> None:
        self.field = field
        self.dtype: torch.dtype = getattr(torch, field.dtype)
        self._firsts, self._shards = list(firsts), list(shards)

    def one(self, index: int) -> torch.Tensor:
        """See `FieldRows.one`."""
        return self.gather(torch.tensor([index]), torch.empty((1, *self.field.shape), dtype=self.dtype))[0]

    def gather(self, ids: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """See `FieldRows.gather`."""
        target = _array(out)
        numbers = np.searchsorted(self._firsts, ids.numpy(), side="right") - 1
        for number in np.unique(numbers).tolist():
            places = np.flatnonzero(numbers == number)
            target[places] = self._shards[number][ids.numpy()[places] - self._firsts[number]]
        return out

    def span(self, start: int, stop: int, out: torch.Tensor) -> torch.Tensor:
        """See `FieldRows.span`."""
        for first, rows in zip(self._firsts, self._shards, strict=True):
            low, high = max(start, first), min(stop, first + len(rows))
            if low < high:
                _array(out)[low - start : high - start] = rows[low - first : high - first]
        return out


class _Memory:
    """An array interface over mapped memory that claims to be writable, and keeps the mappings alive.

    torch warns about read-only arrays because it cannot keep users from writing to them; these tensors
    never reach a user.
    """

    def __init__(self, owners: Sequence[Array], address: int, size: int) -> None:
        self._owners = owners
        self.__array_interface__ = {
            **owners[0].__array_interface__,
            "data": (address, False),
            "shape": (size,),
            "strides": None,
        }


def _array(out: torch.Tensor) -> Array:
    """Return a tensor as an array, bfloat16 as its bits: torch scatters no unsigned integers above 8 bits."""
    array: Array = (out.view(torch.uint16) if out.dtype == torch.bfloat16 else out).numpy()
    return array


def _tensor(rows: Array | _Memory, field: Field) -> torch.Tensor:
    """Return rows as a tensor of the field's dtype, without a copy."""
    tensor = torch.from_numpy(np.asarray(rows, STORED_AS[field.dtype]))
    return tensor.view(torch.bfloat16) if field.dtype == "bfloat16" else tensor
