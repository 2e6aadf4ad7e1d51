"""The embedded dataset: pixels for ever the same, learnable but not trivial, options checked."""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dscompile.errors import OptionError, UnknownSplitError
from dscompile.sources import resolve
from dscompile.sources.protocol import SplitData
from dscompile.sources.synthetic import SyntheticSource
from dscompile.sources.synthetic_shapes import hashed

NAMES = ("disc", "ring", "square", "frame", "diamond", "plus", "saltire", "triangle", "rows", "columns")


def opened(spec: str, split: str) -> SplitData:
    return resolve(spec, root=Path()).open(split)


def arrays(spec: str, split: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    found = opened(spec, split).arrays
    assert found is not None
    return found["image"], found["label"]


def test_hash_is_splitmix64() -> None:
    """The first outputs of the published generator from seed 0."""
    assert [hex(word) for word in hashed(np.arange(1, 4, dtype=np.uint64)).tolist()] == [
        "0xe220a8397b1dcdaf",
        "0x6e789e6aa1b965f4",
        "0x6c45d188009454f",
    ]


@pytest.mark.parametrize(
    ("spec", "split", "digest"),
    [
        ("synthetic:train=64", "train", "ca8897a8833b737bcfcbc978d24b371edc97ea11cf9f0bdc41bc60ac464c9f08"),
        ("synthetic:test=64", "test", "1410e2f30d9d75ddbc20db95fc8718c8bdf8cc6609bdf4f87e2322a8c5c49043"),
        (
            "synthetic:train=20,size=8",
            "train",
            "1a920b56377835864453ecbde7e6c13339ce306e62882a634a39f5fc7a188337",
        ),
        (
            "synthetic:test=3,size=224",
            "test",
            "5f345776bde2066d9c5e3e7a48b49d95a101324ff1370f090e8af9cf9292f258",
        ),
    ],
)
def test_golden_pixels(spec: str, split: str, digest: str) -> None:
    image, label = arrays(spec, split)
    assert hashlib.sha256(image.tobytes() + label.astype("<i8").tobytes()).hexdigest() == digest


def test_shape_dtype_and_labels() -> None:
    image, label = arrays("synthetic", "train")
    assert (image.shape, image.dtype) == ((5000, 32, 32, 3), np.uint8)
    assert (label.shape, label.dtype) == ((5000,), np.int64)
    assert np.bincount(label).tolist() == [500] * 10
    assert (image.min(), image.max()) == (0, 255)
    assert len(opened("synthetic", "test").samples) == 1000
    assert opened("synthetic", "test").classes == NAMES
    assert opened("synthetic", "test").field_names == ("image", "label")


def test_a_sample_depends_on_no_count() -> None:
    image, label = arrays("synthetic:train=500,test=77", "train")
    fewer_image, fewer_label = arrays("synthetic:train=23,test=1", "train")
    np.testing.assert_array_equal(fewer_image, image[:23])
    np.testing.assert_array_equal(fewer_label, label[:23])
    test_image = arrays("synthetic", "test")[0]
    np.testing.assert_array_equal(arrays("synthetic:train=1,test=40", "test")[0], test_image[:40])
    assert not np.array_equal(test_image[:23], fewer_image)


def test_samples_equal_arrays() -> None:
    split = opened("synthetic:test=25,size=40", "test")
    assert split.arrays is not None
    samples = pickle.loads(pickle.dumps(split.samples))
    assert len(samples) == 25
    for index in range(25):
        image, label = samples[index]
        assert (image.mode, image.size, type(label)) == ("RGB", (40, 40), int)
        np.testing.assert_array_equal(np.asarray(image), split.arrays["image"][index], strict=True)
        assert label == split.arrays["label"][index]
    assert samples[-1][0].tobytes() == samples[24][0].tobytes()
    for beyond in (25, -26):
        with pytest.raises(IndexError, match="of 25 samples"):
            samples[beyond]


def test_no_two_pictures_are_alike() -> None:
    image = np.concatenate([arrays("synthetic", "train")[0], arrays("synthetic", "test")[0]])
    assert len({picture.tobytes() for picture in image}) == 6000


def test_a_split_too_big_for_memory_is_drawn_on_demand() -> None:
    split = opened("synthetic:train=100000000", "train")
    assert split.arrays is None
    assert split.samples[12][0].tobytes() == opened("synthetic:train=13", "train").samples[12][0].tobytes()
    assert split.samples[99_999_999][0].size == (32, 32)


def test_identity() -> None:
    assert resolve("synthetic", root=Path()).identity() == {
        "kind": "synthetic",
        "version": 1,
        "train": 5000,
        "test": 1000,
        "size": 32,
    }
    source = resolve("synthetic:size=64,train=10", root=Path())
    assert source.identity() == {"kind": "synthetic", "version": 1, "train": 10, "test": 1000, "size": 64}
    assert (source.name, source.splits, source.declared, source.files()) == (
        "synthetic",
        ("train", "test"),
        True,
        {},
    )
    assert pickle.loads(pickle.dumps(source)).identity() == source.identity()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sise=3", "option 'sise': expected one of train, test, size, got 'sise=3'. Did you mean `size`?"),
        ("train", "option train: expected a whole number, got ''. Write for example `train=5000`."),
        ("train=1e3", "option train: expected a whole number, got '1e3'"),
        ("train=-4", "option train: expected a whole number, got '-4'"),
        ("train=0", "option train: expected 1 … 2147483648, got 0. The default is 5000."),
        ("test=0", "option test: expected 1 … 2147483648, got 0. The default is 1000."),
        ("size=7", "option size: expected 8 … 1024, got 7. The default is 32."),
        ("size=1025", "option size: expected 8 … 1024, got 1025"),
        ("size=8,size=9", "option size: expected one value, got two"),
        ("size=8,", "option '': expected one of train, test, size, got ''"),
    ],
)
def test_options_are_checked(text: str, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        resolve(f"synthetic:{text}", root=Path())
    assert message in str(caught.value)


def test_options_are_checked_in_python_too() -> None:
    with pytest.raises(OptionError, match="option size"):
        SyntheticSource(size=4)


def test_unknown_split() -> None:
    with pytest.raises(UnknownSplitError, match="one of its splits train, test, got 'val'"):
        opened("synthetic", "val")


def test_learnable_but_not_trivial() -> None:
    """A linear model must not do; a small convolutional one must, in a few epochs."""
    import torch
    from torch import nn

    def tensors(split: str) -> tuple[torch.Tensor, torch.Tensor]:
        image, label = arrays("synthetic:size=16", split)
        return torch.from_numpy(image).permute(0, 3, 1, 2).float() / 128 - 1, torch.from_numpy(label)

    def block(inputs: int, outputs: int) -> nn.Module:
        convolution = nn.Conv2d(inputs, outputs, 3, padding=1)
        return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2))

    def accuracy(model: nn.Module) -> float:
        optimizer = torch.optim.Adam(model.parameters(), 3e-3)
        for _ in range(5):
            for rows in torch.randperm(len(train[0])).split(64):
                loss = nn.functional.cross_entropy(model(train[0][rows]), train[1][rows])
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        model.eval()
        with torch.no_grad():
            return float((model(test[0]).argmax(1) == test[1]).float().mean())

    train, test = tensors("train"), tensors("test")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        linear = accuracy(nn.Sequential(nn.Flatten(), nn.Linear(768, 10)))
        convolutional = accuracy(nn.Sequential(block(3, 24), block(24, 48), nn.Flatten(), nn.Linear(768, 10)))
    assert linear < 0.5
    assert convolutional > 0.95
