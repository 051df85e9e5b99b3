"""The clock of epochs: halving is odd, a semigroup and within bounds; no jump destroys evidence."""

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posse.live.ledger.bounds import Bounds
from posse.live.ledger.half_life import JUMPED, Epochs, halve, shift_ledger
from posse.live.ledger.sums import PER_UNIT, negative, to_quanta

WHOLE = st.integers(-(2**62), 2**62)
TIMES = st.integers(0, 70)
EXACTLY = settings(derandomize=True, deadline=None)


@EXACTLY
@given(WHOLE, TIMES, TIMES)
def test_halving_is_odd_a_semigroup_and_toward_zero(value, one, other):
    assert halve(-value, one) == -halve(value, one)
    assert halve(halve(value, one), other) == halve(value, one + other)
    exact = Fraction(value, 2**one)
    assert abs(halve(value, one)) <= abs(exact) < abs(halve(value, one)) + 1
    assert halve(halve(value, -one), one) == value


def within(bound, count, share):
    return int(share * bound * count), count


LEDGERS = st.tuples(st.floats(0.01, 50.0), st.integers(0, 2**50), st.floats(-1.0, 1.0))


@EXACTLY
@given(LEDGERS, TIMES, TIMES)
def test_a_clipped_ledger_keeps_its_bounds_and_is_a_semigroup_still(ledger, one, other):
    bounds = Bounds((ledger[0], 1.0))
    start = {"a": bounds.clip_values(within(*ledger))}
    step = shift_ledger(start, one, bounds)
    assert all(map(bounds.allow, step.values()))
    assert shift_ledger(step, other, bounds) == shift_ledger(start, one + other, bounds)
    assert shift_ledger(negative(start), one) == negative(shift_ledger(start, one))


@EXACTLY
@given(st.floats(0.01, 20.0), st.floats(-1.0, 1.0), st.floats(0.0, 1e4), st.floats(0.0, 200.0))
def test_a_decision_weighs_what_it_is_worth_at_its_time(bound, share, position, late):
    """Whatever the epoch it is entered in, it is read as 2^-age of it."""
    bounds, epochs = Bounds((bound, 1.0)), Epochs(10.0)
    statistic = to_quanta([share * bound, 1.0])
    epochs.move_to(10.0 * position)
    own_epoch = epochs.epoch
    entered = epochs.weigh_values(statistic, None, own_epoch, bounds)
    assert bounds.allow(entered)
    assert entered[-1] < 2 * PER_UNIT
    epochs.move_to(10.0 * (position + late))
    corrected = epochs.weigh_values(statistic, 10.0 * position, epochs.epoch, bounds)
    worth = 2.0**-late if late < 60 else 0.0
    for epoch, values in ((own_epoch, entered), (epochs.epoch, corrected)):
        read = epochs.read_ledger({epoch: {"a": values}}).get("a", (0, 0))
        assert read[-1] == pytest.approx(worth * PER_UNIT, abs=3.0, rel=1e-9)
        assert read[0] == pytest.approx(worth * statistic[0], abs=3.0 + 3.0 * bound, rel=1e-9)


def test_without_a_half_life_time_stands_still():
    epochs = Epochs()
    assert not epochs.move_to(1e9)
    assert (epochs.epoch, epochs.weight(5.0, 0), epochs.worth(0)) == (0, 1.0, 1.0)
    assert not epochs.is_forgotten(0)


def test_evidence_of_sixty_half_lives_reads_as_nothing():
    epochs = Epochs(1.0)
    epochs.move_to(1000.5)
    assert epochs.worth(941) > 0.0 == epochs.worth(940)
    assert epochs.is_forgotten(940)
    assert not epochs.is_forgotten(941)
    assert epochs.read_ledger({940: {"a": (2**60, 2**60)}}) == {}


@given(st.permutations(range(4)), st.lists(st.integers(0, 2**60), min_size=4, max_size=4))
def test_evidence_reads_alike_in_whatever_order_its_epochs_came(order, sums):
    epochs = Epochs(10.0)
    epochs.move_to(37.7)  # 3.77 epochs
    by_epoch = {epoch: {"a": (sums[epoch], 1)} for epoch in range(4)}
    other = {epoch: by_epoch[epoch] for epoch in order}
    assert epochs.read_ledger(other) == epochs.read_ledger(by_epoch)


def test_a_clock_that_jumps_is_followed_for_one_epoch_and_the_jump_is_counted_once():
    steady, refusals = [0.0], Counter()
    epochs = Epochs(10.0, monotonic=lambda: steady[0], refusals=refusals)
    epochs.move_to(1000.0)
    for seconds in range(1, 30):  # ten epochs ahead for half a minute, then set right
        steady[0] = float(seconds)
        epochs.move_to(1100.0 + seconds)
    assert epochs.epoch <= 100 + 1 + 2
    assert refusals == {JUMPED: 1}
    for seconds in range(30, 100):
        steady[0] = float(seconds)
        epochs.move_to(1000.0 + seconds)
    assert epochs.epoch == 109
    assert refusals == {JUMPED: 1}


def test_a_clock_that_goes_back_stands_still_until_it_has_caught_up():
    epochs = Epochs(10.0)
    epochs.move_to(105.0)
    assert not epochs.move_to(50.0)
    assert epochs.position == 10.5
    assert epochs.move_to(106.0)


def test_an_epoch_more_than_one_ahead_is_no_clock_near_ours():
    epochs = Epochs(10.0, clock=lambda: 99.9)
    assert not epochs.is_ahead(10)
    assert epochs.is_ahead(11)
