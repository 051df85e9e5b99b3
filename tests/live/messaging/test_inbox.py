"""Budgets of neighbours: who sends too much is dropped and counted, and nobody else waits."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posse.live.counters import Counts
from posse.live.messaging.inbox import (
    BURST_SECONDS,
    BYTE_RATE_EXCEEDED,
    LARGEST_QUEUE,
    LONGEST_QUEUE,
    MESSAGE_RATE_EXCEEDED,
    Inbox,
    MessageLimits,
)


class World:
    def __init__(self, messages=10.0, volume=1e6):
        self.now, self.refusals = 0.0, Counts()
        self.inbox = Inbox((messages, volume), lambda: self.now, self.refusals)


def test_neighbours_take_turns():
    w = World()
    for k in range(3):
        w.inbox.put_message("loud", b"%d" % k)
    w.inbox.put_message("quiet", b"here")
    taken = [w.inbox.take_message() for _ in range(4)]
    assert taken == [("loud", b"0"), ("quiet", b"here"), ("loud", b"1"), ("loud", b"2")]


def test_a_budget_of_messages_fills_with_time():
    w = World(messages=10.0)
    burst = int(10 * BURST_SECONDS)
    assert sum(w.inbox.admit_message("a", 1) for _ in range(burst + 7)) == burst
    assert w.refusals.copy() == {MESSAGE_RATE_EXCEEDED: 7}
    assert w.inbox.admit_message("b", 1)  # another's budget is its own
    w.now += 1.0
    assert sum(w.inbox.admit_message("a", 1) for _ in range(20)) == 10
    w.now -= 1000.0  # a clock set back neither fills nor empties it
    assert not w.inbox.admit_message("a", 1)
    w.now += 0.5
    assert sum(w.inbox.admit_message("a", 1) for _ in range(20)) == 5


def test_a_budget_of_bytes():
    w = World(messages=1e9, volume=1e6)
    assert sum(w.inbox.admit_message("a", 900_000) for _ in range(50)) == 5
    assert w.refusals.copy() == {BYTE_RATE_EXCEEDED: 45}


def test_the_largest_message_passes_however_little_is_allowed():
    w = World(messages=0.1, volume=1.0)
    assert w.inbox.admit_message("a", 1_000_000)


def test_work_for_nothing_costs_more_and_is_paid_off():
    w = World(messages=10.0)
    for _ in range(100):
        w.inbox.charge_neighbour("a", 10)
    assert not w.inbox.admit_message("a", 1)
    w.now += BURST_SECONDS + 0.2  # no debt is longer than the burst
    assert w.inbox.admit_message("a", 1)


def test_who_is_in_debt_loses_what_waits():
    w = World(messages=10.0)
    for peer in ("bad", "good"):
        for _ in range(3):
            w.inbox.put_message(peer, b"x")
    w.inbox.charge_neighbour("bad", seconds=4.0)  # it had not sent that much
    assert w.refusals.copy() == {}
    w.inbox.charge_neighbour("bad", seconds=4.0)
    assert w.refusals.copy() == {MESSAGE_RATE_EXCEEDED: 3}
    assert [w.inbox.take_message() for _ in range(3)] == [("good", b"x")] * 3
    w.now += BURST_SECONDS
    w.inbox.put_message("bad", b"again")
    assert w.inbox.take_message() == ("bad", b"again")


def test_what_waits_is_bounded():
    w = World(messages=1e9, volume=1e15)
    for _ in range(20):
        w.inbox.put_message("large", bytes(900_000))
    for _ in range(2 * LONGEST_QUEUE):
        w.inbox.put_message("many", b"x")
    assert w.refusals.copy() == {
        BYTE_RATE_EXCEEDED: 20 - LARGEST_QUEUE // 900_000,
        MESSAGE_RATE_EXCEEDED: LONGEST_QUEUE,
    }
    w.inbox.put_message("good", b"news")
    assert ("good", b"news") in [w.inbox.take_message() for _ in range(3)]


def test_a_closed_inbox_lets_everybody_go():
    w = World()
    taken = []
    thread = threading.Thread(target=lambda: taken.append(w.inbox.take_message()))
    thread.start()
    w.inbox.close()
    thread.join(10)
    assert taken == [None]
    w.inbox.put_message("a", b"late")
    assert w.inbox.take_message() is None


@given(
    tick=st.floats(0.01, 3600),
    experiments=st.integers(1, 50),
    ticks_of_neighbour=st.floats(0.5, 2.0),
)
def test_what_honest_neighbours_send_passes(tick, experiments, ticks_of_neighbour):
    """A message, its answer and a control a tick and experiment, each in two versions."""
    messages, _ = MessageLimits().rates_for(tick, experiments)
    w = World(messages, 1e9)
    step = tick * ticks_of_neighbour
    for _ in range(5):
        w.now += step
        assert all(w.inbox.admit_message("a", 1000) for _ in range(6 * experiments))


def test_a_neighbour_that_catches_up_passes():
    """After a partition, a message of 900 kB and its answer at every tick."""
    for tick, experiments in ((1.0, 1), (0.5, 3), (1.0, 10)):
        w = World(*MessageLimits().rates_for(tick, experiments))
        for _ in range(30):
            w.now += tick
            assert all(w.inbox.admit_message("a", 900_000) for _ in range(experiments))


def test_limits_are_checked_and_changed():
    with pytest.raises(ValueError, match=r"limits\.bytes_per_second must be"):
        MessageLimits(bytes_per_second=0)
    w = World(messages=1.0)
    assert sum(w.inbox.admit_message("a", 1) for _ in range(20)) == 5
    w.inbox.set_rates((100.0, 1e6))
    assert sum(w.inbox.admit_message("a", 1) for _ in range(600)) == 500
