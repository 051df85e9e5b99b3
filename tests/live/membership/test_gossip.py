"""Heartbeats by gossip: whatever is lost, repeated or late, all have the newest in the end."""

import random
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posse.live.membership import heartbeats as presence
from posse.live.membership.heartbeats import (
    LEAST_STATUS_SECONDS,
    PING_SECONDS,
    REPEAT_SECONDS,
    STATUS_SECONDS,
    Link,
)
from posse.live.membership.records import StatusMessage
from tests.live.membership.world import World

LINE = [("a", "b"), ("b", "c"), ("c", "d")]
GRAPHS = [LINE, [*LINE, ("d", "a")], [("a", "b"), ("a", "c"), ("a", "d")]]
KINDS = (
    *("tick", "tick", "deliver", "deliver", "repeat", "drop"),
    *("cut", "heal", "restart", "kill", "wait"),
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.integers(0, 100),
    ),
    max_size=60,
)


def play(world, what, n):
    names = sorted({name for link in world.links for name in link})
    name, link = names[n % len(names)], frozenset(world.links[n % len(world.links)])
    if what == "tick" and name in world.agents:
        world.tick(name)
    elif what in ("deliver", "repeat"):
        world.deliver(n, repeat=what == "repeat")
    elif what == "drop" and world.network:
        world.network.pop(n % len(world.network))
    elif what == "cut":
        world.cut.add(link)
    elif what == "heal":
        world.cut.discard(link)
    elif what == "restart":
        world.start(name)
    elif what == "kill" and len(world.agents) > 1:
        world.kill(name)
    elif what == "wait":
        world.now += n % 70


@settings(max_examples=60)
@given(st.sampled_from(GRAPHS), STEPS, st.integers(0, 2))
def test_after_healing_all_have_the_newest_of_all(links, steps, skewed):
    """Also of those that are gone; no new status helps, for none is made meanwhile."""
    world = World(links, ahead={"b": 60.0 * skewed, "c": -60.0 * skewed})
    for what, n in steps:
        world.now += 0.1
        play(world, what, n)
    world.cut.clear()
    for name in {name for link in links for name in link} - world.agents.keys():
        if name not in ("d",):  # it may stay away: the line and the star go on without
            world.start(name)
    world.network.clear()
    for name in world.agents:
        world.tick(name)
    alive = [origin for name in world.agents for origin in world.times(name).items()]
    newest = {}
    for origin, time in alive:
        newest[origin] = max(time, newest.get(origin, 0))
    world.run(int(REPEAT_SECONDS) + 8, say=False)
    for name in world.agents:
        assert world.times(name) == newest
    assert not any(world.refused.values())


@pytest.mark.parametrize("loss", [0.2, 0.5])
def test_in_a_network_that_loses_messages_nobody_looks_silent(loss):
    world = World([*LINE, ("d", "e"), ("e", "f"), ("f", "a")])
    chance = random.Random(3)
    world.run(180, arrives=lambda: chance.random() > loss)
    for name in world.agents:
        assert set(world.states(name).values()) == {"here", "up"}


def test_where_nothing_is_lost_nothing_is_said_twice():
    world = World(LINE)
    world.run(30)
    world.sizes.clear()
    world.carried.clear()
    world.run(300)
    assert set(Counter(world.carried).values()) == {1}
    assert len(world.carried) == 5 * len(world.agents) * len(LINE)  # each link, one way
    links = 2 * len(LINE)
    assert len(world.sizes) / 5 / links <= 60 / PING_SECONDS + len(world.agents)


def test_a_status_is_made_on_change_but_not_for_ever():
    world = World([("a", "b"), ("a", "c")])
    made = {}
    for n in range(30):  # a link that comes and goes
        if n % 5 in (0, 1):
            world.cut ^= {frozenset("ab")}
        world.run(1)
        made[world.newest["a"]] = None
    assert len(made) > 10
    assert min(b - a for a, b in pairwise(made)) >= 1000 * LEAST_STATUS_SECONDS
    world.cut.clear()
    world.run(5)
    last = world.newest["a"]
    world.run(int(STATUS_SECONDS) - 10)
    assert world.newest["a"] == last
    world.run(10)
    assert world.newest["a"] > last


def test_a_change_while_a_status_is_being_made_is_told_next():
    """People look at the network from another thread."""
    world = World([("a", "b")])
    world.run(5)
    agent, now = world.agents["a"], world.now + STATUS_SECONDS
    status = agent.make_status([("shop", 7, 0, 0)], {}, now)
    agent.note_connections({"b": False}, now)
    agent.publish_status(status, ["shop"], now)
    assert agent.is_due(["shop"], now + LEAST_STATUS_SECONDS)


def test_who_restarts_is_told_all_at_once_even_of_the_dead():
    world = World(LINE)
    world.run(5)
    world.kill("d")
    world.run(200)
    dead = world.times("a")["d"]
    world.start("a")
    world.run(3)
    assert world.times("a").keys() == set("abcd")
    assert world.times("a")["d"] == dead
    assert world.states("a") == {"a": "here", "b": "up", "c": "up", "d": "silent"}


def test_who_restarts_between_two_ticks_is_told_all(monkeypatch):
    """The transport did not notice: its new start tells."""
    world = World(LINE)
    world.run(8)
    world.kill("d")
    world.start("a")
    world.run(4)
    assert world.times("a").keys() == set("abcd")


def test_a_large_network_comes_in_parts():
    world = World([("a", "b")])
    for n in range(400):
        other = World([(f"x{n}", "y")])
        other.tick(f"x{n}")
        (held,) = other.agents[f"x{n}"].statuses().values()
        sent = round(1000 * world.now)
        message = StatusMessage(((0, held.status),), sent, 0, 0)
        assert world.agents["a"].receive("x", message, world.now) == {}
    world.run(2)
    assert 1 < len(world.agents["b"].statuses()) < 400  # after two ticks some of them
    world.run(6)
    assert len(world.agents["b"].statuses()) == 402
    assert max(world.sizes) < presence.BATCH_BYTES


def test_under_flows_neighbours_are_told_of_oneself_only():
    world = World(LINE, relay=False)
    world.run(70)
    assert world.times("a").keys() == set("ab")
    assert world.times("b").keys() == set("abc")


def test_a_neighbour_that_never_says_a_status_is_told_ours_and_nothing_else():
    """It may not be there."""
    world = World([("a", "b"), ("b", "c")])
    world.run(5)
    del world.agents["c"]
    seen = []

    class Old:
        """Hears nothing, says nothing."""

        def receive(self, peer, message, now):
            seen.append(message)
            return presence.Counter()

        def note_connections(self, *_): ...
        def is_due(self, *_):
            return False

        def make_messages(self, *_):
            return []

    world.start("b")
    world.agents["c"] = Old()
    world.run(60)
    assert {status.origin for message in seen for _, status in message.statuses} == {"b"}
    assert len(seen) <= 60 / REPEAT_SECONDS + 3


def test_what_is_long_gone_is_forgotten_by_all():
    world = World(LINE)
    world.run(5)
    world.kill("d")
    for _ in range(8):
        world.now += 86400
        world.run(1)
    world.run(5)
    for name in world.agents:
        assert world.times(name).keys() == set("abc")
    world.start("a")
    world.run(5)
    assert world.times("a").keys() == set("abc")
    assert not any(world.refused.values())


def test_clocks_that_are_wrong_do_not_matter_to_who_is_up():
    world = World(LINE, ahead={"b": 280.0, "c": -280.0})
    world.run(130)
    for name in world.agents:
        assert set(world.states(name).values()) == {"here", "up"}
        for shown in world.view(name).describe_agents().values():
            assert shown["lag"] is None or 0 <= shown["lag"] < 10


@pytest.mark.parametrize("back", [100.0, 4000.0])
def test_a_clock_that_is_set_back_is_heard_of_all_the_same(back):
    """Its next statuses are later than its last ones, in one process and in the next."""
    world = World(LINE)
    world.run(70)
    world.ahead["a"] = -back
    world.run(130)
    assert world.states("d")["a"] == "up"
    if back > presence.MOST_AHEAD_SECONDS:
        assert world.refused["a"] > 0  # what it is told is of the future
    else:
        assert set(world.states("a").values()) == {"here", "up"}
        world.start("a")
        world.run(10)
        assert world.times("d")["a"] == world.newest["a"]


def test_rounds_are_measured_without_trusting_clocks():
    world = World([("a", "b")], ahead={"b": 200.0})
    for _ in range(30):  # a tick of each a second, a quarter of a second from a to b, half back
        world.now += 0.25
        world.tick("a")
        world.now += 0.25
        while world.network:
            world.deliver(0)
        world.tick("b")
        world.now += 0.5
        while world.network:
            world.deliver(0)
    for name, peer in ("ab", "ba"):
        assert world.agents[name].links()[peer].lag == pytest.approx(0.375, abs=0.01)
        assert world.view(name).describe_agents()[peer]["lag"] == pytest.approx(0.375, abs=0.01)


def test_a_lag_over_several_links_is_the_sum_of_waiting_and_way():
    world = World(LINE[:2])
    for _ in range(70):
        for name in "abc":
            world.tick(name)
            world.now += 0.3  # under way
            while world.network:
                world.deliver(0)
            world.now += 0.1  # until the next one ticks
    assert world.agents["a"].links()["b"].lag == pytest.approx(0.3, abs=0.01)
    assert world.view("c").describe_agents()["a"]["lag"] == pytest.approx(0.3 + 0.1 + 0.3, abs=0.01)


def test_a_clock_set_by_hours_is_no_round_trip():
    link = Link(since=0.0)
    for echo in (1_000, 9_000_000):  # long ago, and of the future
        link.note_echo(1, echo, 0, False, 4000.0)
        assert link.lag is None
    link.note_echo(1, 3_999_000, 500, False, 4000.0)
    assert link.lag == 0.25


def test_one_clock_that_jumps_does_not_spoil_a_lag():
    world = World([("a", "b")])
    world.run(60)
    world.ahead["a"] = 30.0
    world.run(15)
    assert world.agents["a"].links()["b"].lag == 0


def test_neighbours_come_and_go():
    world = World(LINE)
    world.run(5)
    world.links = [("a", "b"), ("c", "d"), ("a", "d")]  # as after a reload
    world.run(10)
    assert world.times("b").keys() == set("abcd")
    assert world.agents["b"].links().keys() == {"a"}
    assert {tuple(each) for each in world.edges("b")} >= set(pairwise("ab"))
