"""Samples as users make them: one buffer used for all, mixed modes, odd numbers, paths and hidden state."""

from __future__ import annotations

import ctypes
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import dscompile
from dscompile.compiler.identity import identify
from dscompile.errors import (
    FieldError,
    NumberError,
    OpaqueError,
    OptionError,
    RandomTransformError,
    SampleError,
)


class Reused:
    """Twenty samples, all made in one buffer: `get` turns it into what is yielded."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.array = np.zeros((3, 4, 6), np.uint8)
        self.record: dict[str, Any] = {}

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> Any:
        self.array[:] = index
        if self.kind == "array":
            return self.array
        if self.kind == "strided":
            return self.array[:, ::2]
        if self.kind == "tensor":
            return torch.from_numpy(self.array)
        if self.kind == "float tensor":
            return torch.from_numpy(self.array).float().copy_(torch.full((3, 4, 6), index))
        self.record["x"] = torch.from_numpy(self.array)
        return self.record


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("kind", ["array", "strided", "tensor", "float tensor", "dict"])
def test_a_buffer_used_again_keeps_every_sample(kind: str, workers: int, store: Path) -> None:
    found = dscompile.build(Reused(kind), store=store, version="1", workers=workers).open()
    for index in range(20):
        value = found[index]
        value = value["x"] if isinstance(value, dict) else value
        assert value.unique().tolist() == [index]


def test_a_buffer_used_again_keeps_every_crop(store: Path) -> None:
    found = dscompile.build(Reused("tensor"), store=store, version="1", crop=2).open()
    assert [found[index].unique().tolist() for index in range(20)] == [[index] for index in range(20)]


class Jittered(Reused):
    """Noise of a global generator, drawn into one buffer."""

    def __getitem__(self, index: int) -> Any:
        if self.kind == "tensor":
            return torch.from_numpy(self.array).random_()
        self.array[:] = np.random.randint(0, 100, self.array.shape, np.uint8)
        self.record["x"] = self.array
        return self.array if self.kind == "array" else self.record


@pytest.mark.parametrize("kind", ["array", "tensor", "dict"])
def test_noise_in_a_buffer_used_again_is_found(kind: str, store: Path) -> None:
    with pytest.raises(RandomTransformError, match="sample 0: expected the same sample each time"):
        dscompile.build(Jittered(kind), store=store, version="1")
    assert not store.exists()


def picture(mode: str) -> Image.Image:
    return Image.new(mode, (4, 4))


@pytest.mark.parametrize(
    ("first", "second"), [("RGB", "HSV"), ("RGB", "YCbCr"), ("RGBA", "CMYK"), ("RGB", "L")]
)
def test_colour_modes_are_not_mixed(first: str, second: str, store: Path) -> None:
    with pytest.raises(SampleError, match=f"sample 1.*colour mode {first}.*got mode {second}"):
        dscompile.build([picture(first), picture(second)], store=store, name="modes")
    assert not store.exists()


@pytest.mark.parametrize(
    "value", [np.longdouble(1) / 3, np.ma.array([1, 2], mask=[0, 1]), Image.new("RGB", (0, 0))], ids=repr
)
def test_what_would_lose_something_is_refused(value: Any, store: Path) -> None:
    with pytest.raises(FieldError, match="field"):
        dscompile.build([value], store=store, name="values", version="1")


@pytest.mark.parametrize("width", [1e-300, 1e-45, 2.0**-127])
def test_a_deviation_that_float32_cannot_hold_is_refused(width: float, store: Path) -> None:
    with pytest.raises(OptionError, match="in float32"):
        dscompile.build("synthetic:train=2,test=2", store=store, normalize=((0.5,) * 3, (width, 1.0, 1.0)))


def test_a_picture_that_becomes_infinite_is_refused(store: Path) -> None:
    narrow = ((0.5,) * 3, (2.0**-126, 1.0, 1.0))
    with pytest.raises(NumberError, match="field 'image', sample 0: expected values that fit float16"):
        dscompile.build("synthetic:train=2,test=2", store=store, normalize=narrow, dtype="float16")


class Rooted:
    """A dataset that keeps the folder it reads from."""

    def __init__(self, root: Any) -> None:
        self.root = root


@pytest.mark.parametrize("root", ["faces", "./faces", "faces/", "link", Path("faces")])
def test_a_relative_root_counts_by_content(
    root: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "faces" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "faces")
    file = tmp_path / "faces" / "deep" / "a.txt"
    monkeypatch.chdir(tmp_path)
    found = []
    for text in ("one", "one", "two"):
        file.write_text(text)
        found.append(identify(Rooted(root), "x")["digest"])
    assert found[0] == found[1] != found[2]


def test_a_linked_folder_below_the_root_counts(tmp_path: Path) -> None:
    real, root = tmp_path / "real", tmp_path / "root"
    real.mkdir()
    root.mkdir()
    (root / "sub").symlink_to(real)
    (real / "loop").symlink_to(root)
    found = set()
    for text in ("one", "two"):
        (real / "a.txt").write_text(text)
        found.add(identify(Rooted(str(root)), "x")["digest"])
    assert len(found) == 2


def test_a_word_that_happens_to_name_a_folder_is_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Labelled:
        label = "cat"

    before = identify(Labelled(), "x")
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "file").write_text("1")
    monkeypatch.chdir(tmp_path)
    assert identify(Labelled(), "x") == before


class Slotted:
    __slots__ = ("__value",)

    def __init__(self, value: int) -> None:
        self.__value = value


class Weight(float):
    note = ""


def marked(note: str) -> Weight:
    weight = Weight(1.5)
    weight.note = note
    return weight


def palette(colour: int) -> Image.Image:
    image = Image.new("P", (2, 2))
    image.putpalette([colour] * 768)
    return image


def tagged(tag: int) -> torch.Tensor:
    tensor = torch.zeros(2)
    tensor.tag = tag  # type: ignore[attr-defined]
    return tensor


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Slotted(1), Slotted(2)),
        (marked("a"), marked("b")),
        (palette(1), palette(2)),
        (tagged(1), tagged(2)),
        (defaultdict(int), defaultdict(list)),
    ],
    ids=["slots", "subclass", "palette", "tensor attribute", "default factory"],
)
def test_state_beside_the_value_counts(one: Any, other: Any) -> None:
    assert identify([one], "x") != identify([other], "x")


@pytest.mark.parametrize("value", [random.Random(1), ctypes.c_int(3), np.random.default_rng(1)], ids=repr)
def test_state_kept_in_c_is_opaque(value: Any) -> None:
    with pytest.raises(OpaqueError, match="version="):
        identify([value], "x")


def test_a_file_named_in_the_code_counts(tmp_path: Path) -> None:
    space: dict[str, Any] = {"__name__": "users_code"}
    file = tmp_path / "table.txt"
    found = set()
    for text in ("one", "two"):
        file.write_text(text)
        exec(f"def read(index):\n    return open({str(file)!r}).read()[index]", space)
        found.add(identify(space["read"], "x")["digest"])
    assert len(found) == 2
