"""What every container must do, and readers of each that share no code with dscompile."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dscompile.artifact.fields import STORED_AS, Field
from dscompile.artifact.splits import Shard
from dscompile.formats import format_of
from dscompile.formats.protocol import Format, Regions

Array = np.ndarray[Any, np.dtype[Any]]
DTYPES = ("uint8", "float16", "bfloat16", "float32", "int64", "bool", "complex64", "uint64", "float64")


def fields_of(dtypes: tuple[str, ...]) -> tuple[Field, ...]:
    """Return one field per dtype, each of another odd shape, a number last and one without bytes."""
    shapes = [(3, 5, 7), (), (2, 3), (11,), (1, 1), (4, 1, 3), (2,), (), (5, 5)]
    fields = [Field(f"f_{dtype}", dtype, shapes[n % len(shapes)]) for n, dtype in enumerate(dtypes)]
    return (*fields, Field("label", "int64", (), python="int"), Field("nothing", "float32", (0, 4)))


def rows_of(item: Field, samples: int, seed: int = 0) -> Array:
    """Return stored rows (samples, *shape) of any bits; bool only 0 and 1."""
    count = samples * item.row_bytes
    raw = np.random.default_rng([seed, *item.name.encode()]).integers(0, 256, count, dtype=np.uint8)
    if item.dtype == "bool":
        raw &= 1
    return raw.view(STORED_AS[item.dtype]).reshape(samples, *item.shape)


def write_shard(
    path: Path, container: Format, fields: tuple[Field, ...], rows: dict[str, Array], first: int = 0
) -> Shard:
    """Write a shard as a build does: lay out, write by offset, seal; return what a manifest records."""
    samples = len(next(iter(rows.values())))
    laid_out: Regions = container.create(path, fields, samples)
    with path.open("r+b") as file:
        for name, (offset, length) in laid_out.items():
            data = rows[name].tobytes()
            assert len(data) == length
            if data:
                file.seek(offset)
                file.write(data)
    regions = container.seal(path, fields, laid_out)
    data = path.read_bytes()
    return Shard(path.name, first, samples, len(data), hashlib.sha256(data).hexdigest(), dict(regions))


def made(
    folder: Path, name: str, fields: tuple[Field, ...], samples: int
) -> tuple[Path, Shard, dict[str, Array]]:
    """Write one shard of noise and return its path, its record and its rows."""
    container = format_of(name)
    rows = {item.name: rows_of(item, samples) for item in fields}
    path = folder / f"train-00000-of-00001.{container.suffix}"
    return path, write_shard(path, container, fields, rows), rows


def plain_pt(path: Path, fields: tuple[Field, ...]) -> dict[str, bytes]:
    """Read a `.pt` shard with torch alone."""
    import torch

    loaded = torch.load(path, weights_only=True, mmap=True)
    assert list(loaded) == [item.name for item in fields]
    for item in fields:
        tensor = loaded[item.name]
        assert tensor.dtype == getattr(torch, item.dtype)
        assert tuple(tensor.shape[1:]) == item.shape
        assert tensor.is_contiguous()
        assert not tensor.requires_grad
    return {name: tensor.flatten().view(torch.uint8).numpy().tobytes() for name, tensor in loaded.items()}


def plain_hdf5(path: Path, fields: tuple[Field, ...]) -> dict[str, bytes]:
    """Read an HDF5 shard with h5py alone."""
    import h5py

    with h5py.File(path, "r") as file:
        assert sorted(file) == sorted(item.name for item in fields)
        for item in fields:
            assert file[item.name].chunks is None
            assert file[item.name].attrs["dtype"] == item.dtype
        return {name: dataset[()].tobytes() for name, dataset in file.items()}


def plain_lmdb(path: Path, fields: tuple[Field, ...]) -> dict[str, bytes]:
    """Read an LMDB shard with lmdb alone; values are padded, so they are cut to what the fields need."""
    import lmdb

    found = {}
    with (
        lmdb.open(str(path), subdir=False, readonly=True, lock=False) as environment,
        environment.begin() as get,
    ):
        import json

        described = json.loads(get.get(b"fields"))
        assert [item["name"] for item in described["fields"]] == [item.name for item in fields]
        for item in fields:
            value = get.get(f"{item.name}/000000000000".encode())
            found[item.name] = value[: item.row_bytes * described["samples"]]
    return found


PLAIN: dict[str, Callable[[Path, tuple[Field, ...]], dict[str, bytes]]] = {
    "pt": plain_pt,
    "hdf5": plain_hdf5,
    "lmdb": plain_lmdb,
}
