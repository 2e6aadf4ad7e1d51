"""The order of an epoch: a bijection, random access, statistical quality, and values that never change."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dscompile.errors import OptionError
from dscompile.runtime.order import MAX_LENGTH, TABLE_LENGTH, Order, Permutation, Sequential, order

settings.register_profile("deterministic", derandomize=True, deadline=None)
settings.load_profile("deterministic")

WALKED = 200_000  # above TABLE_LENGTH, and 24 % below a power of two
lengths = st.one_of(st.integers(1, 400), st.integers(TABLE_LENGTH - 3, TABLE_LENGTH + 3), st.just(WALKED))


def whole(length: int, seed: int = 0, epoch: int = 0) -> np.ndarray:
    return order(length, seed, epoch, shuffle=True).slice(0, length).numpy()


def same_bins(first: np.ndarray, second: np.ndarray, length: int, bins: int) -> float:
    """P-value of independence of two permutations of one range, both cut into equal bins."""
    table = np.bincount(first * bins // length * bins + second * bins // length, minlength=bins * bins)
    return float(stats.chi2_contingency(table.reshape(bins, bins)).pvalue)


def test_the_lengths_of_these_tests_cover_both_ways() -> None:
    assert 50_000 <= TABLE_LENGTH < WALKED


@pytest.mark.parametrize("length", range(1, 301))
def test_bijection_for_small_lengths(length: int) -> None:
    assert np.array_equal(np.sort(whole(length, seed=length)), np.arange(length))


@pytest.mark.parametrize(
    "length",
    [
        5000,
        50_000,
        TABLE_LENGTH - 1,
        TABLE_LENGTH,
        TABLE_LENGTH + 1,
        WALKED,
        2**18 - 1,
        2**18,
        2**18 + 1,
        1_281_167,
    ],
)
def test_bijection_for_large_lengths(length: int) -> None:
    found = whole(length, seed=5, epoch=2)
    assert found.dtype == np.int64
    assert np.array_equal(np.sort(found), np.arange(length))


@pytest.mark.parametrize("length", [10**8, 2**32 - 1, 2**32, 2**32 + 1, 2**40, MAX_LENGTH - 1, MAX_LENGTH])
def test_huge_orders_are_distinct_and_in_range_without_a_table(length: int) -> None:
    shuffled = order(length, 1, 1, shuffle=True)
    found = torch.cat([shuffled.slice(0, 20_000), shuffled.slice(length - 20_000, length)]).numpy()
    assert found.min() >= 0
    assert found.max() < length
    assert len(np.unique(found)) == 40_000
    assert stats.kstest(found / length, "uniform").pvalue > 1e-3


@given(length=lengths, seed=st.integers(), epoch=st.integers(0, 1000), data=st.data())
def test_a_slice_is_the_same_part_of_the_whole(
    length: int, seed: int, epoch: int, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, length))
    stop = data.draw(st.integers(start, min(length, start + 20_000)))
    step = data.draw(st.integers(1, 9))
    shuffled = order(length, seed, epoch, shuffle=True)
    one_by_one = [int(shuffled.slice(place, place + 1)) for place in range(start, stop, step)[:5]]
    found = shuffled.slice(start, stop, step)
    assert found.dtype == torch.int64
    assert found[:5].tolist() == one_by_one
    assert torch.equal(found, shuffled.slice(0, length)[start:stop:step])


def test_the_positions_of_the_ranks_cover_the_epoch() -> None:
    shuffled = order(WALKED, 3, 4, shuffle=True)
    by_rank = torch.stack([shuffled.slice(rank, WALKED, 8) for rank in range(8)], dim=1)
    assert torch.equal(by_rank.flatten(), shuffled.slice(0, WALKED))


def test_the_caller_owns_the_slice() -> None:
    for length in (100, WALKED):
        shuffled = order(length, 0, 0, shuffle=True)
        expected = shuffled.slice(0, 10).tolist()
        shuffled.slice(0, 10).zero_()
        assert shuffled.slice(0, 10).tolist() == expected


@pytest.mark.parametrize("length", [10, 1000, 50_000, WALKED])
def test_seeds_and_epochs_have_their_own_order_and_repeat_it(length: int) -> None:
    firsts = {
        (seed, epoch): tuple(whole(length, seed, epoch)[:50].tolist())
        for seed in (0, 1, 2, -1, 2**63, 2**64 - 2)
        for epoch in range(5)
    }
    assert len(set(firsts.values())) == len(firsts)
    assert firsts[1, 3] == tuple(whole(length, 1, 3)[:50].tolist())
    assert np.array_equal(whole(length, seed=-1), whole(length, seed=2**64 - 1))


def test_the_order_never_changes_between_versions() -> None:
    assert whole(10, 0, 0).tolist() == [3, 8, 9, 6, 7, 1, 2, 4, 0, 5]
    assert whole(10, 1, 0).tolist() == [1, 3, 4, 5, 0, 9, 8, 6, 7, 2]
    assert whole(10, 0, 1).tolist() == [3, 8, 7, 1, 4, 0, 6, 2, 9, 5]
    golden = {
        50_000: [37261, 31893, 21304, 25330, 43487],
        131_072: [125079, 92665, 37261, 82407, 128173],
        131_073: [39770, 57753, 28700, 70632, 124835],
        1_281_167: [333070, 539203, 884557, 250542, 667280],
        10**8: [77288480, 88309197, 32741520, 98896390, 43898540],
        2**32: [3158769192, 2727696231, 2542580807, 2507552663, 327675800],
        2**40 + 1: [816913002902, 143922369231, 649502757217, 299799268042, 266064519853],
    }
    found = {length: order(length, 42, 3, shuffle=True).slice(0, 5).tolist() for length in golden}
    assert found == golden


@pytest.mark.parametrize("length", [2, 3, 4])
def test_every_permutation_of_a_small_set_is_equally_likely(length: int) -> None:
    counts = Counter(tuple(whole(length, seed=11, epoch=epoch).tolist()) for epoch in range(6000))
    assert set(counts) == set(permutations(range(length)))
    assert stats.chisquare(list(counts.values())).pvalue > 1e-3


@pytest.mark.parametrize("length", [3, 10, 1000, 5000, 50_000, WALKED])
def test_over_epochs_a_position_holds_every_sample_equally_often(length: int) -> None:
    bins = min(length, 10)
    orders = [order(length, 21, epoch, shuffle=True) for epoch in range(1500)]
    for position in (0, 1, length // 2, length - 1):
        held = np.array([int(shuffled.slice(position, position + 1)) for shuffled in orders])
        assert stats.chisquare(np.bincount(held * bins // length, minlength=bins)).pvalue > 1e-4


@pytest.mark.parametrize("length", [1000, 5000, 50_000, WALKED])
def test_samples_move_a_third_of_the_length_on_average(length: int) -> None:
    for epoch in range(5):
        found = whole(length, 31, epoch)
        moved = np.abs(found - np.arange(length)).mean() / length
        # A random permutation: mean (n**2 - 1) / 3n, standard deviation about 0.21 / sqrt(n) of the length.
        assert abs(moved - 1 / 3) < 4 * 0.21 / length**0.5
        assert same_bins(np.arange(length), found, length, bins=10) > 1e-4


@pytest.mark.parametrize("length", [1000, 5000, 50_000, WALKED])
@pytest.mark.parametrize("lag", [1, 2, 3, 64, 512])
def test_neighbours_in_the_order_are_unrelated_samples(length: int, lag: int) -> None:
    for epoch in range(5):
        found = whole(length, 41, epoch)
        ahead = np.roll(found, -lag)
        assert same_bins(found, ahead, length, bins=10) > 1e-4
        distance = (ahead - found) % length * 50 // length
        assert stats.chisquare(np.bincount(distance, minlength=50)).pvalue > 1e-4


@pytest.mark.parametrize("lag", [2**10, 2**16, 2**17])
def test_positions_a_power_of_two_apart_are_unrelated_where_the_order_is_walked(lag: int) -> None:
    for epoch in range(10):
        found = whole(2**18, 51, epoch)
        distance = (np.roll(found, -lag) - found) % 2**18 // 2**10
        assert stats.chisquare(np.bincount(distance, minlength=256)).pvalue > 1e-5


@pytest.mark.parametrize("length", [1000, 5000, 50_000, WALKED])
def test_epochs_and_seeds_are_unrelated(length: int) -> None:
    for epoch in range(5):
        here = whole(length, 61, epoch)
        for other in (whole(length, 61, epoch + 1), whole(length, 62, epoch)):
            assert same_bins(here, other, length, bins=10) > 1e-4
            assert (here == other).sum() < 8  # of a Poisson variable with mean 1


def test_without_shuffle_the_samples_come_as_stored() -> None:
    stored: Order = order(10, 5, 6, shuffle=False)
    assert stored == Sequential(10)
    assert stored.slice(2, 6).tolist() == [2, 3, 4, 5]
    assert stored.slice(1, 10, 4).tolist() == [1, 5, 9]
    assert stored.slice(0, 0).dtype == torch.int64


def test_an_empty_order_has_an_empty_slice() -> None:
    for shuffle in (False, True):
        empty = order(0, 0, 0, shuffle)
        assert empty.length == 0
        assert empty.slice(0, 0).tolist() == []
    assert order(WALKED, 0, 0, shuffle=True).slice(7, 7).tolist() == []


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(
    ("start", "stop", "step"), [(-1, 3, 1), (0, 11, 1), (4, 3, 1), (0, 3, 0), (0, 3, -1)]
)
def test_positions_outside_are_refused(shuffle: bool, start: int, stop: int, step: int) -> None:
    with pytest.raises(OptionError, match=rf"positions of an order: .*got start={start}, stop={stop}"):
        order(10, 0, 0, shuffle).slice(start, stop, step)


@pytest.mark.parametrize("length", [-1, MAX_LENGTH + 1])
def test_lengths_out_of_range_are_refused(length: int) -> None:
    for make in (lambda: Permutation(length, 0), lambda: Sequential(length)):
        with pytest.raises(OptionError, match=rf"length of an order: .*got {length}"):
            make()
