"""Counter-based random numbers: known values, wrap-around, ranges and distributions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dscompile.errors import OptionError
from dscompile.runtime import random

settings.register_profile("deterministic", derandomize=True, deadline=None)
settings.load_profile("deterministic")

MASK = 2**64 - 1
int64s = st.integers(-(2**63), 2**63 - 1)


def reference_bits(key: int, sample: int) -> int:
    """SplitMix64 with unsigned Python integers."""
    state = (sample * 0x9E3779B97F4A7C15 + random.mix((key + 0x9E3779B97F4A7C15) & MASK)) & MASK
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
    return state ^ (state >> 31)


def test_mix_gives_the_published_outputs_of_splitmix64_with_seed_0() -> None:
    outputs = [random.mix(count * 0x9E3779B97F4A7C15 & MASK) for count in (1, 2, 3)]
    assert outputs == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


@given(key=st.integers(0, MASK), ids=st.lists(int64s, min_size=1, max_size=20))
def test_bits_on_int64_tensors_equal_unsigned_arithmetic(key: int, ids: list[int]) -> None:
    found = random.bits(key, torch.tensor(ids))
    assert [value & MASK for value in found.tolist()] == [reference_bits(key, sample) for sample in ids]


def test_values_never_change() -> None:
    ids = torch.tensor([0, 1, 2, -1, 2**63 - 1])
    assert random.bits(0, ids).tolist() == [
        5197578548964807871,
        -6411193824288604561,
        -5511663747979980962,
        -550239250356364224,
        -6624071030687798945,
    ]
    assert random.integers(5, ids, 0, 9).tolist() == [6, 8, 0, 0, 4]
    assert random.derive("crop") == 6985000800763550939
    assert random.derive(0, 1, 2, "horizontal flip") == 16485575825416400301


def test_bits_leave_their_input_alone_and_do_not_depend_on_the_other_ids() -> None:
    ids = torch.arange(1000)
    whole = random.bits(7, ids)
    assert torch.equal(ids, torch.arange(1000))
    assert torch.equal(random.bits(7, ids[123:456]), whole[123:456])
    assert torch.equal(random.bits(7, ids[::3].flip(0)), whole[::3].flip(0))


def test_every_bit_is_set_half_of_the_time_and_flips_with_every_bit_of_the_id() -> None:
    ids = torch.arange(20_000)
    base = random.bits(3, ids).numpy().view(np.uint64)
    places = np.arange(64, dtype=np.uint64)
    ones = ((base[:, None] >> places) & np.uint64(1)).mean(axis=0)
    assert np.abs(ones - 0.5).max() < 5 * 0.5 / 20_000**0.5
    for place in range(63):
        other = random.bits(3, ids ^ (1 << place)).numpy().view(np.uint64)
        changed = (((base ^ other)[:, None] >> places) & np.uint64(1)).mean(axis=0)
        assert np.abs(changed - 0.5).max() < 6 * 0.5 / 20_000**0.5


def test_neighbouring_keys_give_unrelated_numbers() -> None:
    ids = torch.arange(100_000)
    table = np.histogram2d(random.uniform(10, ids).numpy(), random.uniform(11, ids).numpy(), bins=16)[0]
    assert stats.chisquare(table.ravel()).pvalue > 1e-3


@given(key=st.integers(), ids=st.lists(int64s, min_size=1, max_size=20))
def test_uniform_takes_the_upper_24_bits(key: int, ids: list[int]) -> None:
    found = random.uniform(key, torch.tensor(ids))
    assert found.dtype == torch.float32
    assert found.tolist() == [(reference_bits(key & MASK, sample) >> 40) / 2**24 for sample in ids]


def test_uniform_is_uniform_and_below_one() -> None:
    found = random.uniform(0, torch.arange(200_000))
    assert 0 <= found.min() < 1e-4
    assert 0.9999 < found.max() < 1
    assert stats.kstest(found.numpy(), "uniform").pvalue > 1e-3


@given(
    key=st.integers(),
    low=st.integers(-(2**40), 2**40),
    span=st.integers(1, 2**31),
    ids=st.lists(int64s, min_size=1, max_size=20),
)
def test_integers_are_multiply_high_of_the_upper_word(key: int, low: int, span: int, ids: list[int]) -> None:
    found = random.integers(key, torch.tensor(ids), low, low + span)
    expected = [low + ((reference_bits(key & MASK, sample) >> 32) * span >> 32) for sample in ids]
    assert found.dtype == torch.int64
    assert found.tolist() == expected
    assert all(low <= value < low + span for value in expected)


@pytest.mark.parametrize("span", [1, 2, 3, 9, 100])
def test_integers_are_uniform(span: int) -> None:
    counts = torch.bincount(random.integers(1, torch.arange(90_000), 0, span), minlength=span)
    assert len(counts) == span
    assert span == 1 or stats.chisquare(counts.numpy()).pvalue > 1e-3


def test_words_are_the_two_halves_of_bits_and_independent() -> None:
    ids = torch.arange(100_000)
    high, low = random.words(9, ids)
    assert torch.equal((high << 32) | low, random.bits(9, ids))
    assert int(torch.minimum(high, low).min()) >= 0
    assert int(torch.maximum(high, low).max()) < 2**32
    table = np.histogram2d(high.numpy(), low.numpy(), bins=16)[0]
    assert stats.chisquare(table.ravel()).pvalue > 1e-3


@pytest.mark.parametrize("span", [0, -1, 2**31 + 1])
def test_an_empty_or_too_large_range_is_refused(span: int) -> None:
    with pytest.raises(OptionError, match=rf"range of random integers: expected 1 to .* got {span}"):
        random.integers(0, torch.arange(3), 0, span)


@pytest.mark.parametrize("dtype", [torch.int32, torch.float32, torch.uint8])
def test_ids_of_another_dtype_are_refused(dtype: torch.dtype) -> None:
    with pytest.raises(OptionError, match=rf"sample ids: expected .*int64, got {dtype}"):
        random.bits(0, torch.zeros(3, dtype=dtype))


def test_derive_tells_apart_order_type_number_and_text_of_its_parts() -> None:
    parts: list[tuple[int | str, ...]] = [
        (),
        (0,),
        (0, 0),
        (0, 1),
        (1, 0),
        (1,),
        ("1",),
        ("",),
        ("a", "b"),
        ("ab",),
        ("b", "a"),
        ("a\0",),
        ("a",),
        ("abcdefgh",),
        ("abcdefgh", ""),
        ("abcdefghi",),
    ]
    keys = [random.derive(*part) for part in parts]
    assert len(set(keys)) == len(parts)
    assert all(0 <= key <= MASK for key in keys)


@given(seed=st.integers(-(2**80), 2**80))
def test_seeds_of_any_size_and_sign_are_folded_to_64_bits(seed: int) -> None:
    assert random.derive(seed) == random.derive(seed % 2**64)
    assert random.derive(seed) != random.derive(seed + 1)
    assert torch.equal(random.bits(seed, torch.arange(4)), random.bits(seed % 2**64, torch.arange(4)))


def test_derive_accepts_numpy_integers_and_refuses_other_numbers() -> None:
    assert random.derive(np.int64(-5)) == random.derive(-5)
    with pytest.raises(OptionError, match=r"key of random numbers: expected integers and strings, got 0\.5"):
        random.derive(0.5)  # type: ignore[arg-type]


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_gives_the_same_numbers() -> None:
    ids = torch.arange(-5000, 5000) * 1_234_567_890_123
    for draw in (random.bits, random.uniform, lambda key, ids: random.integers(key, ids, -3, 1000)):
        assert torch.equal(draw(77, ids.cuda()).cpu(), draw(77, ids))
