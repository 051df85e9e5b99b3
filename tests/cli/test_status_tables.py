"""Sparklines: what came in each cell, from numbers that add up or fade, with gaps."""

import pytest

from posse.cli.status_tables import ASCII, BLOCKS, HOURS, compute_trends, draw_sparkline

START = 1_700_000_040


def history(minutes, pulls, rewards=None, fading=False):
    """A history of minutes; pulls, rewards: of each arm at these."""
    arms = {
        name: {"here": {"pulls": series, "closed": series, "rewards": (rewards or pulls)[name]}}
        for name, series in pulls.items()
    }
    return {"times": [START + 60 * m for m in minutes], "arms": arms, "fading": fading}


def test_lines_are_as_high_as_their_numbers():
    assert draw_sparkline([n / 7 for n in range(8)], 0, 1) == BLOCKS
    assert draw_sparkline([n / 7 for n in range(8)], 0, 1, unicode=False) == ASCII
    assert ASCII.isascii()
    assert draw_sparkline([None, 0.03, 0.06], 0, 0.06) == f" {BLOCKS[4]}{BLOCKS[7]}"
    assert draw_sparkline([-5.0, 5.0], 0, 1) == BLOCKS[0] + BLOCKS[-1]
    assert draw_sparkline([0.0, 0.0], 0, 0) == BLOCKS[0] * 2


def test_a_cell_is_what_came_in_it():
    found = compute_trends(history(range(5), {"a": [5, 6, 6, 8, 8], "b": [0, 1, 1, 8, 8]}), 10)
    assert found.seconds == 240
    assert found.shares["a"] == [0.5, None, pytest.approx(2 / 9), None]
    assert found.shares["b"] == [0.5, None, pytest.approx(7 / 9), None]


def test_rates_are_of_all_arms_together():
    rewards = {"a": [0, 1, 1], "b": [0, 0, 0]}
    found = compute_trends(history(range(3), {"a": [0, 2, 4], "b": [0, 2, 2]}, rewards), 10)
    assert found.rates == [0.25, 0.0]


@pytest.mark.parametrize("most", [1, 3, 7, 50])
def test_cells_are_no_more_than_there_is_room_for_and_nothing_is_left_out(most):
    minutes = range(100)
    found = compute_trends(history(minutes, {"a": [*minutes], "b": [3 * m for m in minutes]}), most)
    assert len(found.rates) <= most
    assert found.shares["a"] == pytest.approx([0.25] * len(found.rates))
    assert found.seconds >= 99 * 60


def test_only_the_last_hours():
    minutes = range(HOURS * 60 + 500)
    found = compute_trends(history(minutes, {"a": [0] * 500 + [*range(HOURS * 60)]}), 24)
    assert found.seconds == HOURS * 3600
    assert found.shares["a"] == [1.0] * 24


def test_gaps_are_blank():
    """Nobody was there to see it; what came meanwhile is in the first cell afterwards."""
    found = compute_trends(history([0, 1, 2, 8, 9], {"a": [0, 1, 2, 3, 4]}), 9)
    assert found.shares["a"] == [1, 1, None, None, None, None, None, 1, 1]


def test_an_arm_has_no_share_before_it_is_known():
    found = compute_trends(history(range(4), {"a": [0, 2, 4, 6], "b": [None, None, 1, 3]}), 9)
    assert found.shares["a"] == [1.0, 1.0, 0.5]
    assert found.shares["b"] == [None, None, 0.5]


def test_what_fades_is_read_as_it_was():
    found = compute_trends(history(range(3), {"a": [4, 2, 1], "b": [4, 6, 1]}, fading=True), 9)
    assert found.shares["a"] == [0.25, 0.5]
    found = compute_trends(history([0, 1, 4], {"a": [4, 2, 1], "b": [4, 6, 1]}, fading=True), 9)
    assert found.shares["a"] == [0.25, None, None, 0.5]


def test_too_little_is_nothing():
    assert compute_trends(history([], {"a": []}), 9) is None
    assert compute_trends(history([1], {"a": [5]}), 9) is None
    assert compute_trends(history(range(9), {"a": [*range(9)]}), 0) is None


def test_a_counter_that_goes_back_is_no_share():
    """A disk was set back."""
    found = compute_trends(history(range(4), {"a": [5, 9, 1, 2], "b": [0, 0, 0, 1]}), 9)
    assert found.shares["a"] == [1.0, None, 0.5]
