"""Whole agents through schedules of faults; `make simulate` runs many more of the same."""

import itertools

import pytest

from simulation.campaign import report, verdict
from simulation.schedule import plan_of

SCHEDULES = range(150)
PART = 25


@pytest.mark.parametrize("first", SCHEDULES[::PART])
@pytest.mark.parametrize("exchange", ["origins", "flows"])
def test_what_was_acknowledged_is_counted_once_whatever_happens(exchange, first):
    for seed in range(first, first + PART):
        plan = plan_of(seed, exchange)
        if verdict(plan) is not None:
            pytest.fail(report(plan))


def test_a_seed_is_one_schedule():
    plans = [plan_of(seed, "origins") for seed in range(20)]
    assert plans == [plan_of(seed, "origins") for seed in range(20)]
    assert all(one.steps != other.steps for one, other in itertools.pairwise(plans))
