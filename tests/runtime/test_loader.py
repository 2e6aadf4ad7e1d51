"""The loader: whole epochs, any dtype, reproducible orders, and batches that stay the user's."""

from __future__ import annotations

import gc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from objects import Items, pixels
from torchvision.transforms import functional as F

import dscompile
from dscompile import augment
from dscompile.errors import DeviceError, OptionError
from dscompile.runtime.loader import Loader

pytestmark = pytest.mark.usefixtures("no_open_files")
MEAN, STD = (0.49, 0.48, 0.45), (0.25, 0.24, 0.26)
COUNT = 23


class Numbered(Items):
    """(uint8 picture, its index as label): the label says which sample a row of a batch is."""

    def __init__(self, count: int = COUNT, size: int = 8) -> None:
        self.pixels = pixels(count, size, size)
        super().__init__([(torch.from_numpy(row).permute(2, 0, 1), n) for n, row in enumerate(self.pixels)])


@pytest.fixture(scope="module")
def store_(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("loader")


def built(store: Path, dtype: str = "uint8", **options: Any) -> dscompile.CompiledDataset:
    options = {"normalize": (MEAN, STD), "dtype": dtype, "workers": 1, **options}
    return dscompile.compile(Numbered(), store=store, **options)


def ids(loader: Loader) -> list[int]:
    return [int(label) for _, labels in loader for label in labels]


def floats(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """What torchvision makes of all the pictures, by its own operations on each."""
    made = [F.normalize(F.to_tensor(row), MEAN, STD) for row in Numbered().pixels]
    return torch.stack(made).to(dtype)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("batch_size", [1, 2, 7, 22, 23, 24, 1000])
@pytest.mark.parametrize("shard_bytes", [1 << 30, 1000])
def test_an_epoch_is_every_sample_once(
    shuffle: bool, batch_size: int, shard_bytes: int, store_: Path
) -> None:
    dataset = built(store_, shard_bytes=shard_bytes)
    loader = dataset.loader(batch_size, shuffle=shuffle)
    found = list(loader)
    assert len(found) == len(loader) == -(-COUNT // batch_size)
    assert [len(labels) for _, labels in found][:-1] == [batch_size] * (len(loader) - 1)
    labels = torch.cat([labels for _, labels in found])
    assert sorted(labels.tolist()) == list(range(COUNT))
    assert labels.dtype == torch.int64
    assert shuffle or labels.tolist() == list(range(COUNT))
    for images, numbers in found:
        assert images.is_contiguous()
        assert torch.equal(images.permute(0, 2, 3, 1), torch.from_numpy(Numbered().pixels[numbers.numpy()]))


def test_drop_last_leaves_a_smaller_batch_out(store_: Path) -> None:
    dataset = built(store_)
    assert [len(labels) for _, labels in dataset.loader(10, drop_last=True)] == [10, 10]
    assert len(dataset.loader(23, drop_last=True)) == 1
    assert len(ids(dataset.loader(10))) == 23


def test_a_batch_larger_than_the_split(store_: Path) -> None:
    # BR-64
    dataset = built(store_, limit=3)
    assert [labels.tolist() for _, labels in dataset.loader(4)] == [[0, 1, 2]]
    with pytest.warns(UserWarning, match=r"batch_size 4 .*no batch of 3 samples") as caught:
        loader = dataset.loader(4, drop_last=True)
    assert [warning.filename for warning in caught] == [__file__]
    assert (len(loader), list(loader)) == (0, [])


def test_epochs_differ_and_a_restart_repeats_them(store_: Path) -> None:
    # BR-65
    dataset = built(store_)
    loader = dataset.loader(5, shuffle=True, seed=3)
    epochs = [ids(loader) for _ in range(4)]
    assert len({tuple(order) for order in epochs}) == 4
    again = built(store_).loader(7, shuffle=True, seed=3)
    assert [ids(again) for _ in range(4)] == epochs  # whatever the batch size
    again.set_epoch(2)
    assert [ids(again), ids(again)] == epochs[2:]
    assert ids(dataset.loader(5, shuffle=True, seed=4)) != epochs[0]
    plain = dataset.loader(5)
    assert [ids(plain), ids(plain)] == [list(range(COUNT))] * 2


def test_the_order_does_not_depend_on_torchs_generator(store_: Path) -> None:
    torch.manual_seed(1)
    one = ids(built(store_).loader(4, shuffle=True))
    torch.manual_seed(2)
    state = torch.get_rng_state()
    assert ids(built(store_).loader(4, shuffle=True)) == one
    assert torch.equal(torch.get_rng_state(), state)


def test_leaving_an_epoch_early_starts_the_next(store_: Path) -> None:
    loader = built(store_).loader(4, shuffle=True)
    for _ in loader:
        break
    second = ids(loader)
    fresh = built(store_).loader(4, shuffle=True)
    assert [ids(fresh), ids(fresh)][1] == second


def test_two_epochs_side_by_side(store_: Path) -> None:
    loader = built(store_).loader(4, shuffle=True)
    both = list(zip(loader, loader, strict=True))
    fresh = built(store_).loader(4, shuffle=True)
    assert [label for (_, labels), _ in both for label in labels.tolist()] == ids(fresh)
    assert [label for _, (_, labels) in both for label in labels.tolist()] == ids(fresh)


@pytest.mark.parametrize("stored", ["uint8", "float32"])
@pytest.mark.parametrize("augmented", [False, True])
def test_kept_batches_stay_as_they_were(stored: str, augmented: bool, store_: Path) -> None:
    steps = [augment.RandomHorizontalFlip()] if augmented else []
    loader = built(store_, stored).loader(4, dtype="float32", augment=steps)
    kept: list[tuple[torch.Tensor, torch.Tensor]] = []
    copies = []
    views = []
    for number, (images, labels) in enumerate(loader):
        copies.append((images.clone(), labels.clone()))
        if number % 3 == 0:
            kept.append((images, labels))
        elif number % 3 == 1:
            views.append((number, images[0, 1:, :2].transpose(0, 2), labels.numpy()))
        else:
            kept.append((images.detach().requires_grad_(), labels[1:]))
    for (images, labels), (one, other) in zip(
        kept, [c for n, c in enumerate(copies) if n % 3 != 1], strict=True
    ):
        assert torch.equal(images, one)
        assert torch.equal(labels, other[-len(labels) :])
    for number, view, array in views:
        assert torch.equal(view, copies[number][0][0, 1:, :2].transpose(0, 2))
        assert np.array_equal(array, copies[number][1].numpy())


def test_a_batch_held_by_a_graph_stays(store_: Path) -> None:
    weight = torch.ones(1, requires_grad=True)
    loader = built(store_, "float32").loader(4)
    losses, expected = [], 0.0
    for images, _ in loader:
        losses.append((images * weight).sum())
        expected += images.sum().item()
    sum(losses).backward()  # type: ignore[union-attr]
    assert weight.grad is not None
    assert weight.grad.item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("stored", ["uint8", "float16", "float32"])
@pytest.mark.parametrize("dtype", [None, "float32", "float16", torch.bfloat16])
def test_memory_comes_back_when_a_batch_is_dropped(stored: str, dtype: Any, store_: Path) -> None:
    loader = built(store_, stored).loader(1, dtype=dtype)
    places = []
    for images, labels in loader:
        places.append((images.untyped_storage().data_ptr(), labels.untyped_storage().data_ptr()))
    assert len({place for place, _ in places}) <= 3
    assert len({place for _, place in places}) <= 3


def test_what_is_kept_of_a_batch_costs_its_own_bytes(store_: Path) -> None:
    """A user who collects labels must not hold on to the pictures' memory."""
    rows = [{"label": n, "image": torch.zeros(3, 16, 16)} for n in range(64)]
    dataset = dscompile.compile(Items(rows), store=store_, name="dicts")
    labels = []
    for batch in dataset.loader(4):
        labels.append(batch["label"])
        del batch
    assert {label.untyped_storage().nbytes() for label in labels} == {4 * 8}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64, "float16"])
@pytest.mark.parametrize("layout", ["CHW", "HWC"])
def test_batches_do_not_depend_on_what_is_stored(dtype: Any, layout: str, store_: Path) -> None:
    """uint8 bytes become the float32 of torchvision bit for bit, and are rounded once for a narrower type."""
    wanted = getattr(torch, dtype) if isinstance(dtype, str) else dtype
    for stored in ("uint8", "float32"):
        found = torch.cat(
            [images for images, _ in built(store_, stored, layout=layout).loader(5, dtype=dtype)]
        )
        if layout == "HWC":
            found = found.permute(0, 3, 1, 2)
        assert found.dtype == wanted
        assert torch.equal(found, floats(wanted))


@pytest.mark.parametrize("stored", ["float16", "bfloat16"])
def test_narrow_stored_floats_widen_exactly(stored: str, store_: Path) -> None:
    found = torch.cat([images for images, _ in built(store_, stored).loader(5, dtype="float32")])
    assert torch.equal(found, floats(getattr(torch, stored)).float())
    assert next(iter(built(store_, stored).loader(5)))[0].dtype == getattr(torch, stored)


def test_uint8_without_constants_is_on_the_unit_scale(store_: Path) -> None:
    dataset = built(store_, "uint8", normalize="none")
    found = torch.cat([images for images, _ in dataset.loader(5, dtype="float32")])
    assert torch.equal(found, torch.stack([F.to_tensor(row) for row in Numbered().pixels]))
    assert next(iter(dataset.loader(5)))[0].dtype == torch.uint8


def test_dtype_concerns_pictures_and_floats_only(store_: Path) -> None:
    row = {
        "image": torch.zeros(3, 2, 2),
        "vector": torch.ones(4),
        "ids": torch.tensor([1, 2]),
        "label": 3,
        "x": 0.5,
    }
    dataset = dscompile.compile(Items([row] * 3), store=store_, name="several")
    found = next(iter(dataset.loader(2, dtype="float16")))
    assert {name: value.dtype for name, value in found.items()} == {
        "image": torch.float16,
        "vector": torch.float16,
        "ids": torch.int64,
        "label": torch.int64,
        "x": torch.float32,
    }


@pytest.mark.parametrize("stored", ["uint8", "float32", "float16"])
@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "symmetric"])
def test_augmented_batches_equal_torchvision_for_what_was_drawn(stored: str, mode: Any, store_: Path) -> None:
    """Pad, crop and flip bytes by torchvision, then normalise: the road that the loader does not take."""
    crop = augment.RandomCrop(8, padding=3, padding_mode=mode)
    flip = augment.RandomHorizontalFlip()
    loader = built(store_, stored).loader(6, shuffle=True, seed=5, dtype="float32", augment=[crop, flip])
    for epoch in range(2):
        for images, labels in loader:
            drawn = crop.draw(labels, seed=5, epoch=epoch, place=0)
            top, left = crop.offsets(drawn, 8, 8)
            turned = flip.draw(labels, seed=5, epoch=epoch, place=1)
            for row, label in enumerate(labels.tolist()):
                picture = torch.from_numpy(Numbered().pixels[label]).permute(2, 0, 1)
                picture = F.crop(F.pad(picture, [3], padding_mode=mode), int(top[row]), int(left[row]), 8, 8)
                picture = F.hflip(picture) if turned[row] else picture
                one = F.normalize(picture.float() / 255, MEAN, STD)
                one = one.half().float() if stored == "float16" else one
                assert torch.equal(images[row], one)


def test_augmentation_does_not_depend_on_batches(store_: Path) -> None:
    steps = [augment.RandomCrop(8, padding=2), augment.RandomHorizontalFlip()]
    rows = []
    for batch_size in (1, 4, 23):
        loader = built(store_).loader(batch_size, augment=steps, seed=9)
        list(loader)
        rows.append(torch.cat([images for images, _ in loader]))
    assert torch.equal(rows[0], rows[1])
    assert torch.equal(rows[0], rows[2])
    other = built(store_).loader(23, augment=steps, seed=10)
    assert not torch.equal(next(iter(other))[0], rows[0])


def test_augmentation_leaves_what_is_stored(store_: Path) -> None:
    dataset = built(store_)
    list(dataset.loader(4, augment=[augment.RandomHorizontalFlip(p=1)]))
    assert torch.equal(dataset[0][0].permute(1, 2, 0), torch.from_numpy(Numbered().pixels[0]))


def test_augmentation_needs_pictures_in_chw(store_: Path) -> None:
    flip = augment.RandomHorizontalFlip()
    for dataset in (
        built(store_, layout="HWC"),
        dscompile.compile(Items([torch.zeros(2)] * 3), store=store_),
    ):
        with pytest.raises(OptionError, match="CHW"):
            dataset.loader(2, augment=[flip])


@pytest.mark.parametrize("device", ["meta", "xla", "cuda:99", "gpu", "cpu:x", "", 7.5, None])
def test_a_device_that_is_not_there_is_named(device: Any, store_: Path) -> None:
    with pytest.raises(DeviceError, match=repr(device) if device is not None else "None"):
        built(store_).loader(4, device=device)


def test_a_missing_gpu_is_named_before_anything_is_read(store_: Path) -> None:
    # BR-62; also: nothing here may initialise CUDA.
    list(built(store_).loader(4, device="cpu"))
    if torch.cuda.device_count() == 0:
        with pytest.raises(DeviceError, match="0 CUDA devices"):
            built(store_).loader(4, device="cuda")
    assert not torch.cuda.is_initialized()


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 0},
        {"batch_size": -1},
        {"batch_size": 2.0},
        {"batch_size": True},
        {"batch_size": None},
        {"dtype": "float31"},
        {"dtype": "nn"},
        {"dtype": float},
    ],
    ids=repr,
)
def test_options_out_of_range_are_refused(options: dict[str, Any], store_: Path) -> None:
    with pytest.raises(OptionError, match=next(iter(options))):
        built(store_).loader(**options)


@pytest.mark.parametrize("dtype", ["uint8", "int64", "bool"])
def test_floats_are_not_given_as_whole_numbers(dtype: str, store_: Path) -> None:
    with pytest.raises(OptionError, match=f"'image'.*float dtype.*torch.{dtype}"):
        built(store_, "float32").loader(4, dtype=dtype)


def test_an_epoch_left_early_leaves_no_file_open(store_: Path) -> None:
    for _ in range(3):
        for _ in built(store_).loader(4, shuffle=True):
            break
    gc.collect()


def test_a_loader_warns_of_nothing(store_: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for stored in ("uint8", "float32", "bfloat16"):
            for images, _ in built(store_, stored).loader(4, shuffle=True, dtype="float32"):
                images.mul_(2)
