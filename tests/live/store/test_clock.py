"""Forgetting by the time that went by: a clock that jumps makes no decision old."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from posse.live.store import Conflict, DecisionRecord, RewardOutcome, Store
from tests.live.store.participants import Sums

YEAR = 365 * 86400.0
REMEMBER = 1000.0


class Clocks:
    """A clock that can be set, and one that cannot."""

    def __init__(self) -> None:
        self.steady, self.ahead = 5.0, 1e9

    @property
    def now(self) -> float:
        return self.steady + self.ahead


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def start(path: Path, clocks: Clocks) -> Callable[[], Store]:
    def opened() -> Store:
        store = Store.open(path, fingerprint="f", monotonic=lambda: clocks.steady)
        store.attach_participant(Sums())
        return store

    return opened


@pytest.fixture
def store(start: Callable[[], Store]) -> Iterator[Store]:
    with start() as opened:
        yield opened


def visit(store: Store, clocks: Clocks, id: str) -> RewardOutcome:
    store.add_decision(DecisionRecord(id, "A", 0.5, clocks.now))
    return store.add_reward(id, 1.0, clocks.now)


def tick(store: Store, clocks: Clocks, seconds: float) -> None:
    """Let time go by, forgetting as an agent does."""
    for _ in range(10):
        clocks.steady += seconds / 10
        store.delete_old_decisions(clocks.now, REMEMBER)


def total(store: Store) -> float:
    state = store.load_exchange()
    assert state is not None
    return float(state["sums"].get("A", 0.0))


def test_what_is_old_is_forgotten(store: Store, clocks: Clocks) -> None:
    visit(store, clocks, "d")
    tick(store, clocks, REMEMBER * 0.9)
    visit(store, clocks, "e")
    assert store.find_decision("d") is not None
    tick(store, clocks, REMEMBER * 0.2)
    assert store.find_decision("d") is None
    assert store.find_decision("e") is not None
    tick(store, clocks, REMEMBER)
    assert store.find_decision("e") is None
    assert total(store) == 2


@pytest.mark.parametrize("before", [0.0, REMEMBER * 0.5, REMEMBER * 3])
@pytest.mark.parametrize("jump", [YEAR, -YEAR, REMEMBER * 1.1])
def test_a_clock_that_jumps_for_a_moment(
    store: Store, clocks: Clocks, before: float, jump: float
) -> None:
    """Seen in 0.1: all settled decisions were deleted, and one asked again counted twice."""
    visit(store, clocks, "first")
    tick(store, clocks, before)
    visit(store, clocks, "d")
    clocks.ahead += jump
    tick(store, clocks, 10)
    visit(store, clocks, "meanwhile")
    tick(store, clocks, 10)
    clocks.ahead -= jump
    tick(store, clocks, 10)
    counted = total(store)
    for id in ("d", "meanwhile"):
        assert visit(store, clocks, id) is RewardOutcome.REPEATED
        with pytest.raises(Conflict):
            store.add_reward(id, 0.0, clocks.now)
    assert total(store) == counted
    for _ in range(3):  # in the end it is
        tick(store, clocks, REMEMBER)
    assert store.find_decision("d") is None


@pytest.mark.parametrize("jump", [YEAR, -YEAR])
def test_a_start_with_a_wrong_clock(
    start: Callable[[], Store], clocks: Clocks, jump: float
) -> None:
    with start() as store:
        visit(store, clocks, "d")
    clocks.ahead += jump
    with start() as store:
        tick(store, clocks, 10)
        visit(store, clocks, "e")
        clocks.ahead -= jump
        tick(store, clocks, 10)
        assert visit(store, clocks, "d") is visit(store, clocks, "e") is RewardOutcome.REPEATED
        tick(store, clocks, REMEMBER * 1.3)
        assert store.find_decision("d") is None


def test_old_decisions_of_an_earlier_start(start: Callable[[], Store], clocks: Clocks) -> None:
    """They are told by their times, up to the newest of them."""
    with start() as store:
        visit(store, clocks, "old")
        clocks.steady += REMEMBER
        visit(store, clocks, "new")
    clocks.steady = 0.0  # a reboot
    clocks.ahead += 3 * REMEMBER  # of which it took some time
    with start() as store:
        tick(store, clocks, 10)
        assert store.find_decision("old") is None
        assert store.find_decision("new") is not None


def test_numbers_that_are_given_again(store: Store, clocks: Clocks) -> None:
    """When the newest decision is deleted, SQLite gives its number to the next, maybe of another
    experiment, whose age is its own."""
    other = store.open_experiment("other", "f")
    other.attach_participant(Sums())
    visit(store, clocks, "d")
    clocks.steady += 1
    for view, remember in ((other, REMEMBER), (store, REMEMBER / 10)):
        view.delete_old_decisions(clocks.now, remember)
    clocks.steady += REMEMBER
    assert store.delete_old_decisions(clocks.now, REMEMBER / 10) == 1
    clocks.ahead -= YEAR
    visit(other, clocks, "e")
    clocks.ahead += YEAR
    assert other.delete_old_decisions(clocks.now, REMEMBER) == 0
    assert other.find_decision("e") is not None
