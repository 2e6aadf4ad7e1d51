"""Rows of every dtype and place in memory are copied out alike: one, many, in order, from several shards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from objects import Items

import dscompile
from dscompile.artifact.fields import STORED_AS, Field
from dscompile.runtime.rows import field_rows

DTYPES = sorted(STORED_AS)
WAYS: dict[str, dict[str, Any]] = {
    "pt": {},
    "pt, shards": {"shard_bytes": 50},
    "hdf5, shards": {"format": "hdf5", "shard_bytes": 50},
    "lmdb, shards": {"format": "lmdb", "shard_bytes": 50},
    "gzip": {"format": "hdf5", "compression": "gzip"},
    "lzf, shards": {"format": "hdf5", "compression": "lzf", "shard_bytes": 50},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_from_every_container(dtype: str, way: str, tmp_path: Path) -> None:
    rows = [torch.tensor([n % 2, 1, 0, n % 3 == 0]).to(getattr(torch, dtype)) for n in range(10)]
    items = Items(list(zip(rows, range(10), strict=True)))
    with dscompile.compile(items, store=tmp_path, workers=1, **WAYS[way]) as dataset:
        for index in ([3, 1, 9, 3], [0], list(range(10))):
            found, labels = dataset[index]
            assert found.dtype == getattr(torch, dtype)
            assert [row.tolist() for row in found] == [rows[n].tolist() for n in index]
            assert labels.tolist() == index
        assert dataset[2:7][0].tolist() == [rows[n].tolist() for n in range(2, 7)]
        assert dataset[9][0].tolist() == rows[9].tolist()
        for shuffle in (False, True):
            for found, labels in dataset.loader(4, shuffle=shuffle):
                assert [row.tolist() for row in found] == [rows[n].tolist() for n in labels.tolist()]


@pytest.mark.parametrize("offsets", [(0, 0), (4, 0), (0, 4), (1, 0), (0, 3), (2, 7)])
def test_rows_at_any_offset(offsets: tuple[int, int]) -> None:
    """Writers may place rows at any offset; two shards need not agree on it."""
    field = Field("x", "float32", (2,))
    values = np.arange(20, dtype="<f4").reshape(10, 2)
    shards = []
    for offset, part in zip(offsets, (values[:6], values[6:]), strict=True):
        memory = bytes(offset) + part.tobytes()
        shards.append(np.ndarray(part.shape, "<f4", buffer=memory, offset=offset))
    rows = field_rows(field, [0, 6], shards)
    ids = torch.tensor([7, 0, 5, 6, 9, 0])
    assert rows.gather(ids, torch.empty(6, 2)).numpy().tolist() == values[ids.numpy()].tolist()
    assert rows.span(4, 9, torch.empty(5, 2)).numpy().tolist() == values[4:9].tolist()
    assert [rows.one(n).tolist() for n in range(10)] == values.tolist()
