"""What is shown of the network: who is up, down, silent or only known, and how the links are."""

import pytest

from posse.live.membership.heartbeats import ReceivedStatus
from posse.live.membership.network_view import NetworkView
from posse.live.membership.records import Status
from tests.live.membership.world import CODEC, World

RING = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]
LINE = RING[:3]
NOW = 1000.0


def test_an_idle_network_is_up():
    world = World(RING)
    world.run(200)
    for name in world.agents:
        assert world.states(name) == {each: "here" if each == name else "up" for each in "abcd"}
        assert world.edges(name) == dict.fromkeys(("ab", "bc", "cd", "ad"), "up")


def test_a_neighbour_that_dies_is_down_and_for_others_silent_after_two_minutes():
    world = World(RING)
    world.run(70)
    world.kill("c")
    assert world.states("b")["c"] == "down"  # as soon as the transport tells
    assert world.edges("b")["bc"] == "down"
    assert world.states("a")["c"] == "up"
    world.run(3)
    assert (world.edges("a")["bc"], world.edges("a")["cd"]) == ("down", "down")
    seen = []
    for _ in range(130):
        world.run(1)
        seen.append(world.states("a")["c"])
        assert world.states("b")["c"] == world.states("d")["c"] == "down"
    assert "up" in seen
    assert seen.index("silent") > 50
    assert seen[-1] == "silent"
    world.start("c")
    world.run(4)
    assert world.states("a") == {"a": "here", "b": "up", "c": "up", "d": "up"}
    assert set(world.edges("a").values()) == {"up"}


def test_words_under_way_do_not_bring_a_dead_neighbour_back():
    """It changed, told one neighbour, and died; another one hears of it by that way, later."""
    world = World(RING)
    world.run(70)
    world.links.append(("c", "e"))
    world.start("e")
    world.tick("c")  # it has news
    (last,) = [payload for _, to, payload in world.network if to == "d"]
    world.network.clear()
    world.kill("c")
    assert world.states("b")["c"] == "down"
    world.now += 1
    world.agents["d"].receive("c", CODEC.decode(last).message, world.now)  # it waited there
    for _ in range(5):
        world.run(1)
        assert world.states("b")["c"] == "down"
    assert world.times("b")["c"] == world.newest["c"]


def test_a_link_that_is_cut_is_no_death():
    world = World(RING)
    world.run(70)
    world.cut.add(frozenset("ab"))
    assert world.states("a")["b"] == "down"
    world.run(5)  # by way of the others
    for _ in range(150):
        world.run(1)
        assert world.states("a")["b"] == world.states("b")["a"] == "up"
        assert (
            world.edges("a")
            == world.edges("c")
            == {"ab": "down", "bc": "up", "cd": "up", "ad": "up"}
        )
    assert world.view("a").describe_agents()["b"]["via"] == "d"


def test_a_neighbour_that_never_came_is_down_and_is_no_one_elses():
    world = World([*LINE, ("a", "z")])
    world.kill("z")
    world.run(10)
    assert world.states("a")["z"] == "down"
    assert world.edges("a")["az"] == "down"
    assert "z" not in world.states("c")  # nobody there has heard of it
    assert set(world.edges("c")) == {"ab", "bc", "cd"}


def test_a_partition_is_seen_from_both_sides():
    world = World(LINE)
    world.run(70)
    world.cut.add(frozenset("bc"))
    world.run(200)
    assert world.states("a") == {"a": "here", "b": "up", "c": "silent", "d": "silent"}
    assert world.edges("a")["bc"] == "down"
    assert world.edges("a")["cd"] == "up"  # by their last word
    world.cut.clear()
    world.run(3)
    assert world.states("a") == {"a": "here", "b": "up", "c": "up", "d": "up"}


def said(origin, neighbours, made=NOW, experiments=()):
    status = Status(origin, "net", 5, 4000, "1.0", neighbours, experiments)
    return ReceivedStatus(status, NOW, made, "x")


def view(*held, pulls=None, fading=(), near=""):
    here = said("me", tuple((name, True, 1) for name in near))
    known = {each.status.origin: each for each in (*held, here)}
    return NetworkView(known, {}, here.status, pulls or {}, fading, NOW)


def edges(*held, near="pq"):
    shown = view(*held, near=near)
    return [tuple(each.values()) for each in shown.describe_links(shown.describe_agents())]


def test_ends_that_disagree_are_half_a_link_unless_one_is_gone():
    up, down = (("q", True, 30),), (("p", False, -1),)
    assert edges(said("p", up), said("q", down)) == [("p", "q", "half", 0.03)]
    assert edges(said("p", up), said("q", (("p", True, 50),))) == [("p", "q", "up", 0.03)]
    assert edges(said("p", up, NOW - 1), said("q", (("p", True, 50),)))[0][3] == 0.05  # newer
    assert edges(said("p", up, NOW - 130), said("q", down)) == [("p", "q", "down", None)]
    assert edges(said("p", up, NOW - 130), said("q", down, NOW - 140)) == [("p", "q", "up", 0.03)]
    assert edges(said("p", up), said("q", ())) == [("p", "q", "up", 0.03)]


def test_whom_nobody_reaches_is_not_asked():
    """All around it call their links to it down: what it said last is of before."""
    up, down = (("q", True, 30),), (("p", False, -1),)
    assert edges(said("p", up), said("q", down), near="q") == [("p", "q", "down", None)]
    dead = said("r", (("p", True, 5),)), said("p", (*up, ("r", True, 5)))
    assert ("p", "q", "down", None) in edges(said("q", down), *dead, near="q")


def test_names_that_somebody_invents_are_no_agents():
    shown = view(said("p", (("<b>", True, 1), ("me", True, 1), ("p", True, 1))))
    assert shown.describe_agents().keys() == {"me", "p"}
    assert shown.describe_links(shown.describe_agents()) == [
        {"a": "me", "b": "p", "state": "up", "lag": 0.001}
    ]


def test_what_is_held_of_what_others_counted():
    pulls = {"shop": {"me": 3, "p": 5, "old": 7}, "fades": {"p": 5}}
    rows = tuple((name, 9, 1, 2) for name in ("elsewhere", "fades", "shop"))
    agents = view(said("p", (), experiments=rows), pulls=pulls, fading=["fades"]).describe_agents()
    keys = "counted", "open", "late", "held", "behind"
    assert {
        name: tuple(map(each.get, keys)) for name, each in agents["p"]["experiments"].items()
    } == {
        "elsewhere": (9, 1, 2, None, None),
        "fades": (9, 1, 2, 5, None),
        "shop": (9, 1, 2, 5, 4),
    }
    assert agents["old"] == {
        "state": "known", "heard": None, "lag": None, "via": None, "version": None,
        "started": None, "neighbours": {}, "refused": {},
        "experiments": {"shop": dict(zip(keys, (None, None, None, 7, None), strict=True))},
    }  # fmt: skip
    assert agents["p"]["started"] == 4.0


@pytest.mark.parametrize(("ago", "state"), [(119, "up"), (121, "silent")])
def test_two_minutes(ago, state):
    assert view(said("p", (), NOW - ago)).describe_agents()["p"]["state"] == state
