"""Options that do not suit the fields are refused, never ignored; odd names and empty fields are no trap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dscompile
from dscompile.errors import FieldError, OptionError


class Vectors:
    """Four vectors with labels; no field is a picture."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[np.ndarray[Any, Any], int]:
        return np.full(5, index, np.float32), index


class Tensors(Vectors):
    """Four uint8 pictures as tensors (C, H, W)."""

    def __getitem__(self, index: int) -> Any:
        return torch.full((3, 4, 4), index, dtype=torch.uint8), index


class Named:
    """One field of a given name, and a label."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {self.name: torch.zeros(0, 4), "label": index}


class Large:
    """Numbers far from zero that differ by little."""

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([1.7e9 + index % 2], dtype=torch.float64)


@pytest.mark.parametrize(
    ("name", "value"),
    [("dtype", "float16"), ("layout", "HWC"), ("normalize", "imagenet"), ("resize", 8), ("crop", 2)],
)
def test_an_option_for_pictures_needs_a_picture(name: str, value: Any, store: Path) -> None:
    with pytest.raises(
        OptionError, match=rf"option {name}: expected a picture field, got field0 float32 \(5,\)"
    ):
        dscompile.build(Vectors(), store=store, **{name: value})
    assert not store.exists()


def test_resize_needs_a_pillow_image(store: Path) -> None:
    with pytest.raises(OptionError, match=r"expected a Pillow image, got a uint8 tensor \(3, 4, 4\)"):
        dscompile.build(Tensors(), store=store, resize=8)
    cropped = dscompile.build(Tensors(), store=store, crop=2).open()
    assert cropped[3][0].tolist() == [[[3, 3], [3, 3]]] * 3


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0b", "é" * 101, "\ud800"])
@pytest.mark.parametrize("container", ["pt", "hdf5", "lmdb"])
def test_a_name_that_a_container_cannot_hold(name: str, container: str, store: Path) -> None:
    with pytest.raises(FieldError, match="at most 200 bytes"):
        dscompile.build(Named(name), store=store, format=container)


@pytest.mark.parametrize("name", ["é" * 100, "data/0"[:4] + "0", "fields", "a b.c"])
@pytest.mark.parametrize(
    "options",
    [{"format": "pt"}, {"format": "hdf5"}, {"format": "lmdb"}, {"format": "hdf5", "compression": "gzip"}],
    ids=str,
)
def test_odd_names_and_fields_without_bytes(name: str, options: dict[str, str], store: Path) -> None:
    dataset = dscompile.build(Named(name), store=store, **options).open()  # type: ignore[arg-type]
    assert dataset[2][name].shape == (0, 4)
    assert dataset[2]["label"] == 2
    assert dataset[[2, 1]][name].shape == (2, 0, 4)
    assert dataset[[2, 1]]["label"].tolist() == [2, 1]


def test_statistics_far_from_zero(store: Path) -> None:
    found = dscompile.build(Large(), store=store).manifest.splits["train"].statistics["value"]
    assert found == {"count": 1000, "mean": 1700000000.5, "std": 0.5, "min": 1.7e9, "max": 1700000001.0}
