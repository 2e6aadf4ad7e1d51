"""The arithmetic: bit for bit that of torchvision, for pictures and for whole arrays, in every dtype."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from objects import Items, Pictures, image, pixels
from PIL import Image
from torchvision import transforms
from torchvision.datasets import CIFAR10

import dscompile
from dscompile.errors import NumberError, OptionError, SampleError
from dscompile.sources.protocol import SplitData

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
GREY = (0.2860,), (0.3530,)


class Declared:
    """A source of dscompile's own kind over pictures in memory, as arrays too unless `arrays` is off."""

    name, splits, declared = "declared", ("train", "test"), True

    def __init__(
        self, *, arrays: bool, channels: int = 3, count: int = 7, height: int = 9, width: int = 6
    ) -> None:
        self.arrays = arrays
        self.pixels = {
            split: pixels(count, height, width, channels, seed) for seed, split in enumerate(self.splits)
        }

    def prepare(self, splits: Any = None) -> None:
        pass

    def files(self, splits: Any = None) -> dict[str, Path]:
        return {}

    def identity(self) -> dict[str, Any]:
        return {"kind": "declared", "arrays": self.arrays, "channels": self.pixels["train"].shape[-1]}

    def notes(self) -> dict[str, Any]:
        return {}

    def open(self, split: str) -> SplitData:
        array = self.pixels[split]
        labels = np.arange(len(array)) % 3
        samples = Items([(image(part), int(label)) for part, label in zip(array, labels, strict=True)])
        whole = array[..., 0] if array.shape[-1] == 1 else array
        return SplitData(
            samples, {"image": whole, "label": labels} if self.arrays else None, ("image", "label")
        )


def theirs(picture: Image.Image, *steps: Any, mean: Any = MEAN, std: Any = STD) -> torch.Tensor:
    made: torch.Tensor = transforms.Compose([*steps, transforms.ToTensor(), transforms.Normalize(mean, std)])(
        picture
    )
    return made


@pytest.mark.parametrize("arrays", [False, True], ids=["samples", "arrays"])
@pytest.mark.parametrize("channels", [1, 3])
def test_to_tensor_and_normalize(arrays: bool, channels: int, store: Path) -> None:
    source = Declared(arrays=arrays, channels=channels)
    mean, std = (MEAN, STD) if channels == 3 else GREY
    artifact = dscompile.build(source, store=store, normalize=(mean, std))
    for split in source.splits:
        for array, (found, label) in zip(source.pixels[split], artifact.open(split), strict=True):
            assert torch.equal(found, theirs(image(array), mean=mean, std=std))
            assert type(label) is int


@pytest.mark.parametrize("arrays", [False, True], ids=["samples", "arrays"])
def test_every_byte_under_every_constant(arrays: bool, store: Path) -> None:
    """All 256 values; constants that do not divide evenly, are tiny, large, or not exact in float32."""
    for number, (mean, std) in enumerate(
        [((0.1,), (0.3,)), ((1 / 3,), (1e-3,)), ((-0.7,), (97.0,)), ((0.0,), (1.0,))]
    ):
        source = Declared(arrays=arrays, channels=1)
        source.pixels = {
            split: np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1) for split in source.splits
        }
        found, _ = dscompile.build(source, store=store / str(number), normalize=(mean, std)).open("train")[0]
        assert torch.equal(found, theirs(image(source.pixels["train"][0]), mean=mean, std=std))


SIZES = [(9, 6), (6, 9), (7, 7), (32, 31), (5, 40), (3, 4), (1, 8)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("resize", "crop"), [(5, None), (13, None), (None, 4), (None, 11), (8, 5), (5, 8), (6, 6)]
)
def test_resize_and_crop(
    size: tuple[int, int], channels: int, resize: int | None, crop: int | None, store: Path
) -> None:
    """Down and up, odd sizes, a crop larger than the picture (padded with 0), portrait and landscape."""
    dataset = Pictures(3, *size, channels=channels)
    mean, std = (MEAN, STD) if channels == 3 else GREY
    steps = [transforms.Resize(resize)] if resize else []
    steps += [transforms.CenterCrop(crop)] if crop else []
    compiled = dscompile.compile(
        dataset, store=store, workers=1, dtype="float32", normalize=(mean, std), resize=resize, crop=crop
    )
    for (picture, label), (found, found_label) in zip(dataset.items, compiled, strict=True):
        assert torch.equal(found, theirs(picture, *steps, mean=mean, std=std))
        assert found_label == label


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("crop", [4, 8, 11])
def test_a_crop_of_arrays_is_that_of_pictures(size: tuple[int, int], crop: int, store: Path) -> None:
    source = Declared(arrays=True, height=size[0], width=size[1])
    compiled = dscompile.build(source, store=store, crop=crop, normalize=(MEAN, STD)).open("train")
    for array, (found, _) in zip(source.pixels["train"], compiled, strict=True):
        assert torch.equal(found, theirs(image(array), transforms.CenterCrop(crop)))


@pytest.mark.parametrize("crop", [4, 8])
def test_a_crop_of_tensors_is_that_of_torchvision(crop: int, store: Path) -> None:
    tensors = [torch.from_numpy(array).permute(2, 0, 1) for array in pixels(3)]
    compiled = dscompile.compile(Items([(item, 0) for item in tensors]), store=store, crop=crop)
    for tensor, (found, _) in zip(tensors, compiled, strict=True):
        assert torch.equal(found, transforms.functional.center_crop(tensor, [crop, crop]))


@pytest.mark.parametrize("arrays", [False, True], ids=["samples", "arrays"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_are_the_float32_rounded_once(dtype: str, arrays: bool, store: Path) -> None:
    source = Declared(arrays=arrays)
    compiled = dscompile.build(source, store=store, dtype=dtype, normalize=(MEAN, STD)).open("train")
    for array, (found, _) in zip(source.pixels["train"], compiled, strict=True):
        assert found.dtype == getattr(torch, dtype)
        assert torch.equal(found, theirs(image(array)).to(getattr(torch, dtype)))


@pytest.mark.parametrize("arrays", [False, True], ids=["samples", "arrays"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8"])
def test_hwc_is_chw_permuted(arrays: bool, dtype: str, store: Path) -> None:
    source = Declared(arrays=arrays)
    chw, hwc = (
        dscompile.build(source, store=store, dtype=dtype, layout=layout, name=layout).open("train")
        for layout in ("CHW", "HWC")
    )
    assert hwc.fields[0].shape == (9, 6, 3)
    for (one, _), (other, _) in zip(chw, hwc, strict=True):
        assert torch.equal(one.permute(1, 2, 0), other)


@pytest.mark.parametrize("arrays", [False, True], ids=["samples", "arrays"])
def test_uint8_keeps_the_bytes(arrays: bool, store: Path) -> None:
    source = Declared(arrays=arrays)
    compiled = dscompile.build(source, store=store, dtype="uint8").open("test")
    found = torch.stack([item for item, _ in compiled])
    assert np.array_equal(found.permute(0, 2, 3, 1).numpy(), source.pixels["test"])


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
@pytest.mark.parametrize("arrays", [False, True], ids=["samples", "arrays"])
@pytest.mark.parametrize("splits", [None, "test"])
def test_dataset_constants_are_those_of_the_training_split(
    dtype: str, arrays: bool, splits: str | None, store: Path
) -> None:
    source = Declared(arrays=arrays)
    artifact = dscompile.build(source, store=store, dtype=dtype, split=splits)
    scaled = source.pixels["train"].astype(np.float64).reshape(-1, 3) / 255
    norm = artifact.manifest.field("image").normalisation
    assert norm is not None
    assert norm.origin == "dataset"
    assert norm.applied == (dtype != "uint8")
    np.testing.assert_allclose(norm.mean, scaled.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(norm.std, scaled.std(axis=0), rtol=1e-13)
    if dtype == "float32":
        expected = theirs(image(source.pixels["test"][0]), mean=norm.mean, std=norm.std)
        assert torch.equal(artifact.open("test")[0][0], expected)


def test_dataset_constants_follow_crop_and_limit(store: Path) -> None:
    source = Declared(arrays=True)
    artifact = dscompile.build(source, store=store, crop=4, limit=3)
    cropped = source.pixels["train"][:3, 2:6, 1:5].astype(np.float64).reshape(-1, 3) / 255
    norm = artifact.manifest.field("image").normalisation
    assert norm is not None
    np.testing.assert_allclose(norm.mean, cropped.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(norm.std, cropped.std(axis=0), rtol=1e-13)
    assert artifact.manifest.splits["train"].statistics["image"]["count"] == 3 * 16


def test_cifar10_equals_torchvision(cifar_root: Path, store: Path) -> None:
    artifact = dscompile.build("cifar10", root=cifar_root, store=store, source_check=False)
    norm = artifact.manifest.field("image").normalisation
    assert norm is not None
    steps = transforms.Compose([transforms.ToTensor(), transforms.Normalize(norm.mean, norm.std)])
    for split, train in (("train", True), ("test", False)):
        data = CIFAR10.__new__(CIFAR10)  # its constructor checks checksums, which tiny files cannot have
        import pickle

        folder = cifar_root / "cifar-10-batches-py"
        files = [f"data_batch_{n}" for n in range(1, 6)] if train else ["test_batch"]
        parts = [pickle.loads((folder / file).read_bytes()) for file in files]
        data.data = (
            np.concatenate([part["data"] for part in parts]).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        )
        data.targets = [label for part in parts for label in part["labels"]]
        data.transform, data.target_transform = steps, None
        compiled = artifact.open(split)
        assert len(compiled) == len(data.targets)
        assert compiled.targets == data.targets
        assert compiled.classes == [f"kind{n}" for n in range(10)]
        for index in range(len(compiled)):
            expected, label = data[index]
            assert torch.equal(compiled[index][0], expected)
            assert compiled[index][1] == label


def test_imagenet_constants(store: Path) -> None:
    source = Declared(arrays=True)
    compiled = dscompile.build(source, store=store, normalize="imagenet").open("train")
    expected = theirs(image(source.pixels["train"][0]), mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
    assert torch.equal(compiled[0][0], expected)


def test_red_stays_red(store: Path) -> None:
    # BR-31
    dataset = Items([(Image.new("RGB", (2, 2), (255, 0, 0)), 0)])
    found, _ = dscompile.compile(dataset, store=store, normalize=((0.1, 0.2, 0.3), (1, 1, 1)))[0]
    expected = torch.tensor([1.0, 0.0, 0.0]) - torch.tensor([0.1, 0.2, 0.3])
    assert torch.equal(found[:, 0, 0], expected)
    assert dscompile.build(dataset, store=store).manifest.fields[0].colour == "RGB"


@pytest.mark.parametrize(
    ("normalize", "message"),
    [
        (((0.5, 0.5, 0.5), (0, 1, 1)), "channel 0"),
        (((0.5, 0.5, 0.5), (1, -1, 1)), "channel 1"),
        (((0.5, 0.5, 0.5), (1, 1, float("nan"))), "channel 2"),
        (((123.675, 116.28, 103.53), (58.395, 57.12, 57.375)), "divided by 255"),
        (((0.5,), (0.5,)), "3 means"),
        (((0.5, 0.5), (0.5,)), "2 means and 1"),
        (((), ()), "at least one"),
        ("data set", "'data set'"),
        (5, "5"),
        (("a", "b"), "normalize"),
    ],
)
def test_wrong_constants_are_refused_before_a_sample_is_read(
    normalize: Any, message: str, store: Path
) -> None:
    # BR-28
    source = Declared(arrays=True)
    if message != "3 means":  # for which the number of channels has to be looked up
        source.open = None  # type: ignore[method-assign, assignment]
    with pytest.raises(OptionError, match=message):
        dscompile.build(source, store=store, normalize=normalize)
    assert not store.exists()


@pytest.mark.parametrize("arrays", [False, True], ids=["samples", "arrays"])
def test_statistics_of_a_constant_channel_are_no_constants(arrays: bool, store: Path) -> None:
    source = Declared(arrays=arrays)
    source.pixels["train"][..., 1] = 7
    with pytest.raises(OptionError, match=r"field 'image'.*deviation > 0, got 0\.0"):
        dscompile.build(source, store=store)
    assert not (store / "declared").exists()


@pytest.mark.parametrize("arrays", [False, True], ids=["samples", "arrays"])
def test_pixels_beyond_float16_are_refused_by_name(arrays: bool, store: Path) -> None:
    source = Declared(arrays=arrays)
    source.pixels["train"][:] = 0
    source.pixels["train"][4, 2, 3, 1] = 255
    with pytest.raises(NumberError, match=r"'image', sample 4.*float16.*1 that do not, first 100000\.0"):
        dscompile.build(source, store=store, dtype="float16", normalize=((0, 0, 0), (1, 1e-5, 1)))
    assert not (store / "declared").exists()


HALF = [65504.0, 65519.0, -65504.0, 1e-8]


def floats(*values: float, dtype: torch.dtype = torch.float32) -> Items:
    return Items([(torch.full((1, 1, 2), value, dtype=dtype), 0) for value in values])


def test_half_precision_rounds_what_fits(store: Path) -> None:
    # BR-27
    compiled = dscompile.compile(floats(*HALF), store=store, dtype="float16")
    assert [item[0, 0, 0].item() for item, _ in compiled] == [65504.0, 65504.0, -65504.0, 0.0]


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (65520.0, "float16"),
        (-100000.0, "float16"),
        (3.4e38, "bfloat16"),
        (1e39, "float32"),
        (-1e300, "float32"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(value: float, dtype: str, store: Path) -> None:
    wide = torch.float64 if abs(value) > 3.5e38 else torch.float32
    with pytest.raises(
        NumberError, match=rf"'image', sample 1: .*{dtype}, got 2 that do not, first"
    ) as caught:
        dscompile.build(floats(1.0, value, dtype=wide), store=store, dtype=dtype)
    assert repr(torch.tensor(value, dtype=wide).item()) in str(caught.value)
    assert not (store / "items").exists()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("dtype", [None, "float16"])
def test_what_is_not_finite_is_refused_unless_allowed(value: float, dtype: str | None, store: Path) -> None:
    with pytest.raises(
        NumberError, match=r"'image', sample 2: expected finite numbers, got 2 that are not, first"
    ):
        dscompile.build(floats(0.0, 1.0, value), store=store, dtype=dtype)
    artifact = dscompile.build(floats(0.0, 1.0, value), store=store, dtype=dtype, allow_nonfinite=True)
    found = artifact.open()[2][0]
    assert torch.equal(found.float().nan_to_num(7, 8, 9), torch.full((1, 1, 2), value).nan_to_num(7, 8, 9))
    assert artifact.manifest.splits["train"].statistics["image"]["nonfinite"] == 2


def test_a_label_that_is_not_finite_is_refused(store: Path) -> None:
    with pytest.raises(NumberError, match="'field1', sample 1"):
        dscompile.build(Items([(torch.zeros(2), 1.0), (torch.zeros(2), float("nan"))]), store=store)


def test_pictures_of_unequal_size_are_refused_with_both_sizes(store: Path) -> None:
    # BR-32
    dataset = Items([(Image.new("RGB", (224, 224)), 0)] * 2 + [(Image.new("RGB", (224, 223)), 1)])
    with pytest.raises(SampleError, match=r"sample 2.*224x224.*sample 0.*224x223.*--resize"):
        dscompile.build(dataset, store=store)
    dataset.items[2] = (Image.new("L", (224, 224)), 1)
    with pytest.raises(SampleError, match=r"sample 2.*colour mode RGB.*got mode L"):
        dscompile.build(dataset, store=store)
    assert not (store / "items").exists()
