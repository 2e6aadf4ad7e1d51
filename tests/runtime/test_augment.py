"""Augmentations against torchvision's functional, bit for bit; draws by sample id; refusals."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torchvision.transforms import functional as F
from torchvision.transforms.v2 import functional as F2

from dscompile.errors import OptionError
from dscompile.runtime.augment import (
    Augmentation,
    CropDraw,
    PixelMap,
    RandomCrop,
    RandomHorizontalFlip,
    apply_all,
)

settings.register_profile("deterministic", derandomize=True, deadline=None)
settings.load_profile("deterministic")

DTYPES = [torch.uint8, torch.int16, torch.float16, torch.bfloat16, torch.float32, torch.float64]
MODES = ["constant", "reflect", "edge", "symmetric"]
CIFAR = PixelMap(255.0, (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.201))


def pictures(shape: tuple[int, ...], dtype: torch.dtype = torch.uint8, seed: int = 0) -> torch.Tensor:
    values = torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(seed))
    return values.to(dtype)


def normalised(batch: torch.Tensor, pixels: PixelMap) -> torch.Tensor:
    """Uint8 (N, C, H, W) through torchvision's ToTensor and Normalize, picture by picture."""
    made = []
    for picture in batch:
        scaled = F.to_tensor(picture.permute(1, 2, 0).numpy())
        made.append(F.normalize(scaled, list(pixels.mean or ()), list(pixels.std or ())))
    return torch.stack(made)


def same_bits(first: torch.Tensor, second: torch.Tensor) -> bool:
    same = first.dtype == second.dtype and first.shape == second.shape
    return same and first.numpy().tobytes() == second.numpy().tobytes()


def cropped_by_torchvision(crop: RandomCrop, batch: torch.Tensor, drawn: CropDraw) -> torch.Tensor:
    padding = crop.padding if crop.padding is None or isinstance(crop.padding, int) else list(crop.padding)
    height, width = (crop.size, crop.size) if isinstance(crop.size, int) else crop.size
    top, left = crop.offsets(drawn, *batch.shape[2:])
    made = []
    for picture, row, column in zip(batch, top.tolist(), left.tolist(), strict=True):
        if padding is not None:
            fill = list(crop.fill) if isinstance(crop.fill, tuple) else crop.fill
            picture = F2.pad(picture, padding, fill, crop.padding_mode)
        made.append(F.crop(picture, row, column, height, width))
    return torch.stack(made)


def every_offset(rows: int, columns: int) -> CropDraw:
    """A draw that lands once on each of rows * columns offsets."""
    row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    return CropDraw(
        ((row.flatten() << 32) + rows - 1) // rows, ((column.flatten() << 32) + columns - 1) // columns
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", MODES)
def test_crop_equals_torchvision_at_every_offset(dtype: torch.dtype, mode: Any) -> None:
    crop = RandomCrop((5, 6), padding=(1, 2, 3, 0), padding_mode=mode, fill=7)
    drawn = every_offset(7 + 2 - 5 + 1, 8 + 4 - 6 + 1)
    batch = pictures((35, 3, 7, 8), dtype)
    top, left = crop.offsets(drawn, 7, 8)
    assert len(set(zip(top.tolist(), left.tolist(), strict=True))) == 35
    made = crop.apply(batch, drawn)
    if dtype is torch.bfloat16:  # numpy has no such dtype
        assert torch.equal(made, cropped_by_torchvision(crop, batch, drawn))
    else:
        assert same_bits(made, cropped_by_torchvision(crop, batch, drawn))


@given(
    batch_shape=st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(4, 9), st.integers(4, 9)),
    padding=st.one_of(
        st.none(),
        st.integers(0, 3),
        st.tuples(st.integers(0, 3), st.integers(0, 3)),
        st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)),
    ),
    size=st.one_of(st.integers(1, 4), st.tuples(st.integers(1, 4), st.integers(1, 4))),
    mode=st.sampled_from(MODES),
    fill=st.integers(0, 255),
    dtype=st.sampled_from([torch.uint8, torch.float32]),
    seed=st.integers(),
)
def test_crop_equals_torchvision_for_any_option(
    batch_shape: tuple[int, int, int, int],
    padding: Any,
    size: Any,
    mode: Any,
    fill: int,
    dtype: torch.dtype,
    seed: int,
) -> None:
    crop = RandomCrop(size, padding, mode, fill)
    batch = pictures(batch_shape, dtype)
    drawn = crop.draw(torch.arange(len(batch)), seed=seed, epoch=0)
    assert same_bits(crop.apply(batch, drawn), cropped_by_torchvision(crop, batch, drawn))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_crop_fills_each_channel_with_its_own_value(dtype: torch.dtype) -> None:
    crop = RandomCrop(8, padding=3, fill=(10, 200, 255))
    batch = pictures((40, 3, 8, 8), dtype)
    drawn = crop.draw(torch.arange(40), seed=0, epoch=0)
    assert same_bits(crop.apply(batch, drawn), cropped_by_torchvision(crop, batch, drawn))


@pytest.mark.parametrize("mode", ["reflect", "edge", "symmetric"])
@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (1, 4)])
def test_padding_beyond_the_picture_repeats_as_numpy_and_torchvision_do_on_pictures(
    mode: Any, shape: tuple[int, int]
) -> None:
    batch = pictures((1, 2, *shape))
    padded = np.pad(batch.numpy(), ((0, 0), (0, 0), (7, 7), (7, 7)), mode=mode)
    crop = RandomCrop((shape[0] + 14, shape[1] + 14), padding=7, padding_mode=mode)
    made = crop.apply(batch, crop.draw(torch.arange(1), seed=0, epoch=0))
    assert np.array_equal(made.numpy(), padded)


@pytest.mark.parametrize(
    ("mode", "fill"),
    [("constant", 0), ("constant", 128), ("constant", (0, 128, 255)), *((mode, 0) for mode in MODES[1:])],
)
def test_crop_on_normalised_pictures_equals_crop_then_normalise(mode: Any, fill: Any) -> None:
    crop = RandomCrop(32, padding=4, padding_mode=mode, fill=fill)
    batch = pictures((64, 3, 32, 32))
    drawn = crop.draw(torch.arange(64), seed=1, epoch=2)
    expected = normalised(cropped_by_torchvision(crop, batch, drawn), CIFAR)
    assert same_bits(crop.apply(normalised(batch, CIFAR), drawn, pixels=CIFAR), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_fill_of_normalised_pictures_is_computed_in_float32_then_cast(dtype: torch.dtype) -> None:
    crop = RandomCrop(9, padding=9, fill=(3, 77, 200))
    batch = pictures((20, 3, 9, 9))
    drawn = crop.draw(torch.arange(20), seed=0, epoch=0)
    made = crop.apply(normalised(batch, CIFAR).to(dtype), drawn, pixels=CIFAR)
    assert torch.equal(made, normalised(cropped_by_torchvision(crop, batch, drawn), CIFAR).to(dtype))


def test_pixel_map_is_to_tensor_then_normalize_for_all_bytes() -> None:
    expected = normalised(torch.arange(256, dtype=torch.uint8).expand(1, 3, 1, 256), CIFAR)[0, :, 0]
    made = torch.tensor([CIFAR.stored(value) for value in range(256)]).T
    assert torch.equal(made, expected)


def test_pixel_map_parts_are_optional_and_broadcast() -> None:
    assert PixelMap().stored((1, 2.5)) == (1.0, 2.5)
    assert PixelMap(scale=255).stored(51) == (float(np.float32(0.2)),)
    assert PixelMap(mean=(1.0,), std=(2.0,)).stored((1, 2, 3)) == (0.0, 0.5, 1.0)
    assert PixelMap(mean=(1.0, 2.0), std=(2.0, 4.0)).stored(4) == (1.5, 0.5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(9, 3, 4, 8), (9, 1, 3, 5), (1, 2, 1, 1), (3, 1, 4, 2)])
def test_flip_equals_torchvision(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    flip = RandomHorizontalFlip()
    batch = pictures(shape, dtype)
    original = batch.clone()
    drawn = torch.arange(len(batch)) % 3 == 1
    made = flip.apply(batch, drawn)
    expected = [
        F.hflip(picture) if flipped else picture for picture, flipped in zip(batch, drawn, strict=True)
    ]
    assert torch.equal(made, torch.stack(expected))
    assert made.dtype == dtype
    assert torch.equal(batch, original)


def test_flip_keeps_the_bits_of_negative_zero_and_nan() -> None:
    batch = torch.tensor([-0.0, float("nan"), 0.0, float("-inf")]).view(1, 1, 1, 4).repeat(2, 1, 1, 1)
    made = RandomHorizontalFlip().apply(batch, torch.tensor([True, False]))
    assert same_bits(made[0], batch[0].flip(-1))
    assert same_bits(made[1], batch[1])


@pytest.mark.parametrize("step", [RandomCrop(5), RandomCrop(6, padding=2), RandomHorizontalFlip()])
def test_any_strides_are_read_right_and_the_result_is_new_and_contiguous(step: Augmentation[Any]) -> None:
    plain = pictures((6, 3, 8, 8))
    shifted = torch.empty(plain.numel() + 3, dtype=torch.uint8)[3:].view_as(plain).copy_(plain)
    odd_base = torch.frombuffer(bytearray(plain.numel() + 8), dtype=torch.uint8, offset=3)
    drawn = step.draw(torch.arange(6), seed=3, epoch=0)
    expected = step.apply(plain, drawn)
    layouts = {
        "channels last": plain.contiguous(memory_format=torch.channels_last),
        "part": pictures((9, 4, 12, 11))[2:8, 1:, 3:11, 2:10].copy_(plain),
        "transposed": plain.transpose(2, 3).contiguous().transpose(2, 3),
        "not aligned": shifted,
        "aligned by its offset alone": odd_base[5:].view_as(plain).copy_(plain),
    }
    for name, batch in layouts.items():
        made = step.apply(batch, drawn)
        assert torch.equal(made, expected), name
        assert made.is_contiguous(), name
        assert made.untyped_storage().data_ptr() != batch.untyped_storage().data_ptr(), name
        assert torch.equal(batch, plain), name
    one = step.apply(plain[:1].expand(6, -1, -1, -1), drawn)
    assert torch.equal(one, step.apply(plain[:1].repeat(6, 1, 1, 1), drawn))


@pytest.mark.parametrize("step", [RandomCrop(5, padding=2), RandomCrop(5), RandomHorizontalFlip()])
def test_an_empty_batch_stays_empty(step: Augmentation[Any]) -> None:
    drawn = step.draw(torch.arange(0), seed=0, epoch=0)
    made = step.apply(torch.empty(0, 3, 5, 5, dtype=torch.uint8), drawn)
    assert made.shape == (0, 3, 5, 5)
    assert made.dtype == torch.uint8


@given(
    ids=st.lists(st.integers(0, 2**40), min_size=1, max_size=20, unique=True),
    seed=st.integers(),
    epoch=st.integers(0, 10**6),
    place=st.integers(0, 5),
)
def test_draws_depend_on_the_sample_alone(ids: list[int], seed: int, epoch: int, place: int) -> None:
    samples = torch.tensor(ids)
    for step in (RandomCrop(4, padding=2), RandomHorizontalFlip()):
        whole = step.draw(samples, seed=seed, epoch=epoch, place=place)
        backwards = step.draw(samples.flip(0), seed=seed, epoch=epoch, place=place)
        single = step.draw(samples[:1], seed=seed, epoch=epoch, place=place)
        for all_rows, reversed_rows, row in zip(
            *(drawn if isinstance(drawn, CropDraw) else (drawn,) for drawn in (whole, backwards, single)),
            strict=True,
        ):
            assert torch.equal(all_rows, reversed_rows.flip(0))
            assert torch.equal(all_rows[:1], row)


def test_draws_never_change_between_versions() -> None:
    ids = torch.arange(8)
    crop, flip = RandomCrop(32, padding=4), RandomHorizontalFlip()
    top, left = crop.offsets(crop.draw(ids, seed=0, epoch=0), 32, 32)
    assert top.tolist() == [8, 4, 4, 3, 7, 8, 6, 0]
    assert left.tolist() == [1, 4, 4, 1, 0, 5, 3, 1]
    assert flip.draw(ids, seed=0, epoch=0).tolist() == [False, True, True, True, True, True, True, True]


@pytest.mark.parametrize("step", [RandomCrop(4), RandomHorizontalFlip()])
def test_seed_epoch_and_place_each_give_other_draws(step: RandomCrop | RandomHorizontalFlip) -> None:
    ids = torch.arange(1000)
    drawn = [
        step.draw(ids, seed=seed, epoch=epoch, place=place)
        for seed, epoch, place in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
    ]
    flags = [item.vertical < 2**31 if isinstance(item, CropDraw) else item for item in drawn]
    for first in range(4):
        for second in range(first):
            agree = (flags[first] == flags[second]).float().mean()
            assert 0.42 < agree < 0.58


def test_offsets_are_uniform_over_all_places_ends_included() -> None:
    crop = RandomCrop((32, 30), padding=4)
    top, left = crop.offsets(crop.draw(torch.arange(50_000), seed=8, epoch=1), 32, 32)
    table = torch.bincount(top * 11 + left, minlength=99)
    assert len(table) == 99
    assert stats.chisquare(table.numpy()).pvalue > 1e-3


def test_one_sample_gets_every_offset_over_the_epochs() -> None:
    crop = RandomCrop(32, padding=4)
    sample = torch.tensor([17])
    places = [crop.offsets(crop.draw(sample, seed=0, epoch=epoch), 32, 32) for epoch in range(3000)]
    table = np.bincount([int(top) * 9 + int(left) for top, left in places], minlength=81)
    assert stats.chisquare(table).pvalue > 1e-3


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_flips_happen_as_often_as_asked_and_independently_of_the_crop(p: float) -> None:
    ids = torch.arange(50_000)
    flips = RandomHorizontalFlip(p).draw(ids, seed=4, epoch=0, place=1)
    assert stats.binomtest(int(flips.sum()), 50_000, p).pvalue > 1e-3
    crop = RandomCrop(4)
    top = crop.offsets(crop.draw(ids, seed=4, epoch=0, place=0), 12, 12)[0]
    table = torch.bincount(top * 2 + flips, minlength=18).view(9, 2)
    assert stats.chi2_contingency(table.numpy()).pvalue > 1e-3


def test_probabilities_of_0_and_1_are_exact() -> None:
    lowest, highest = 62_033_055, 3_881_189  # their draws are 0 and 1 - 2**-24
    ids = torch.cat([torch.arange(10_000), torch.tensor([lowest, highest])])
    assert not RandomHorizontalFlip(0).draw(ids, seed=0, epoch=0).any()
    assert RandomHorizontalFlip(1).draw(ids, seed=0, epoch=0).all()
    assert RandomHorizontalFlip(2.0**-24).draw(ids, seed=0, epoch=0).nonzero().tolist() == [[10_000]]
    assert RandomHorizontalFlip(1 - 2.0**-24).draw(ids, seed=0, epoch=0).logical_not().nonzero().tolist() == [
        [10_001]
    ]


@pytest.mark.parametrize(("dtype", "pixels"), [(torch.uint8, None), (torch.float32, CIFAR)])
def test_apply_all_is_each_step_in_turn_whatever_the_batches(
    dtype: torch.dtype, pixels: PixelMap | None
) -> None:
    steps: list[Augmentation[Any]] = [
        RandomCrop(32, padding=4),
        RandomHorizontalFlip(),
        RandomCrop(28),
        RandomHorizontalFlip(),
    ]
    batch = pictures((50, 3, 32, 32))
    batch = batch if pixels is None else normalised(batch, pixels)
    ids = torch.randperm(1000, generator=torch.Generator().manual_seed(0))[:50]
    expected = batch
    for place, step in enumerate(steps):
        drawn = step.draw(ids, seed=5, epoch=6, place=place)
        expected = step.apply(expected, drawn, pixels=pixels)
    made = apply_all(batch, ids, steps, seed=5, epoch=6, pixels=pixels)
    assert same_bits(made, expected)
    assert made.dtype == dtype
    singles = [
        apply_all(batch[i : i + 1], ids[i : i + 1], steps, seed=5, epoch=6, pixels=pixels) for i in range(50)
    ]
    assert same_bits(torch.cat(singles), expected)
    assert apply_all(batch, ids, [], seed=5, epoch=6) is batch


@pytest.mark.parametrize(
    ("size", "padding", "asked", "got"),
    [
        (33, None, "33x33", "32x30 (32x30 before padding)"),
        ((40, 41), 4, "40x41", "40x38 (32x30 before padding)"),
        ((41, 30), (0, 4), "41x30", "40x30 (32x30 before padding)"),
    ],
)
def test_pictures_smaller_than_the_crop_are_refused(size: Any, padding: Any, asked: str, got: str) -> None:
    crop = RandomCrop(size, padding)
    drawn = crop.draw(torch.arange(2), seed=0, epoch=0)
    message = f"RandomCrop: expected pictures of {asked} or larger, got {got}"
    with pytest.raises(OptionError, match=re.escape(message)):
        crop.apply(pictures((2, 3, 32, 30)), drawn)


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"size": 0}, "RandomCrop.size"),
        ({"size": (4, -1)}, "RandomCrop.size"),
        ({"size": (4, 4, 4)}, "RandomCrop.size"),
        ({"size": 4.0}, "RandomCrop.size"),
        ({"size": True}, "RandomCrop.size"),
        ({"size": [4, 4]}, "RandomCrop.size"),
        ({"size": 4, "padding": -1}, "RandomCrop.padding"),
        ({"size": 4, "padding": (1, 2, 3)}, "RandomCrop.padding"),
        ({"size": 4, "padding": 1.5}, "RandomCrop.padding"),
        ({"size": 4, "padding": (1, 2, 3, -4)}, "RandomCrop.padding"),
        ({"size": 4, "padding_mode": "wrap"}, "RandomCrop.padding_mode"),
        ({"size": 4, "fill": "black"}, "RandomCrop.fill"),
        ({"size": 4, "fill": ()}, "RandomCrop.fill"),
        ({"size": 4, "fill": float("nan")}, "RandomCrop.fill"),
        ({"size": 4, "fill": (0, float("inf"), 0)}, "RandomCrop.fill"),
    ],
)
def test_crop_options_out_of_range_are_refused(options: dict[str, Any], place: str) -> None:
    with pytest.raises(OptionError, match=re.escape(place)) as refused:
        RandomCrop(**options)
    assert refused.value.place == place


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan"), "0.5", None])
def test_flip_probabilities_out_of_range_are_refused(p: Any) -> None:
    with pytest.raises(OptionError, match=r"RandomHorizontalFlip\.p: expected a number from 0 to 1"):
        RandomHorizontalFlip(p)


@pytest.mark.parametrize(
    "options",
    [
        {"scale": 0.0},
        {"scale": float("nan")},
        {"mean": (0.5,)},
        {"std": (0.5,)},
        {"mean": (), "std": ()},
        {"mean": (0.5, 0.5), "std": (0.5,)},
        {"mean": (0.5,), "std": (0.0,)},
        {"mean": (float("inf"),), "std": (1.0,)},
    ],
)
def test_pixel_maps_without_meaning_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="PixelMap"):
        PixelMap(**options)


@pytest.mark.parametrize(
    ("fill", "dtype", "pixels", "message"),
    [
        ((1, 2), torch.uint8, None, "RandomCrop.fill: expected 1 or 3 values, got 2"),
        ((1, 2), torch.float32, CIFAR, "fill: expected 1 or 3 values, as in PixelMap.mean, got 2"),
        (0, torch.float32, PixelMap(None, (1.0, 2.0), (1.0, 1.0)), "expected 1 or 3 values, got 2"),
        (256, torch.uint8, None, "RandomCrop.fill: expected a value of torch.uint8, got 256"),
        (-1, torch.uint8, None, "RandomCrop.fill: expected a value of torch.uint8, got -1"),
        (0.5, torch.uint8, None, "RandomCrop.fill: expected a value of torch.uint8, got 0.5"),
        (1e6, torch.float16, None, "RandomCrop.fill: expected a value of torch.float16, got 1000000.0"),
    ],
)
def test_a_fill_that_the_batch_cannot_hold_is_refused(
    fill: Any, dtype: torch.dtype, pixels: PixelMap | None, message: str
) -> None:
    crop = RandomCrop(8, padding=1, fill=fill)
    drawn = crop.draw(torch.arange(2), seed=0, epoch=0)
    with pytest.raises(OptionError, match=re.escape(message)):
        crop.apply(pictures((2, 3, 8, 8), dtype), drawn, pixels=pixels)


@pytest.mark.parametrize("step", [RandomCrop(4), RandomHorizontalFlip()])
@pytest.mark.parametrize("shape", [(3, 8, 8), (3, 3, 8, 8), (2, 1, 3, 8, 8)])
def test_a_batch_of_another_shape_than_drawn_is_refused(
    step: Augmentation[Any], shape: tuple[int, ...]
) -> None:
    drawn = step.draw(torch.arange(2), seed=0, epoch=0)
    message = f"batch to augment: expected (N, C, H, W) with N = 2, one row per drawn sample, got {shape}"
    with pytest.raises(OptionError, match=re.escape(message)):
        step.apply(pictures(shape), drawn)


def test_augmentations_are_values() -> None:
    assert RandomCrop(32, padding=4) == RandomCrop(32, 4)
    assert len({RandomCrop(32), RandomCrop(32), RandomHorizontalFlip(), RandomHorizontalFlip(0.5)}) == 2
    with pytest.raises(AttributeError):
        RandomCrop(32).size = 3  # type: ignore[misc]


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("dtype", "pixels"), [(torch.uint8, None), (torch.float32, CIFAR)])
def test_a_gpu_gives_the_same_batch_without_waiting(
    mode: Any, dtype: torch.dtype, pixels: PixelMap | None
) -> None:
    steps: list[Augmentation[Any]] = [RandomCrop(32, 4, mode, (1, 2, 3)), RandomHorizontalFlip()]
    batch, ids = pictures((64, 3, 32, 32), dtype), torch.arange(64)
    expected = apply_all(batch, ids, steps, seed=0, epoch=1, pixels=pixels)
    on_device, device_ids = batch.cuda(), ids.cuda()
    torch.cuda.set_sync_debug_mode("error")
    try:
        made = apply_all(on_device, device_ids, steps, seed=0, epoch=1, pixels=pixels)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(made.cpu(), expected)
