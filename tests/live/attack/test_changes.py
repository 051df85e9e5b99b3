"""Agents that change while others run: arms come and go, and what cannot change says so."""

import pytest

from posse import families
from posse.live.experiment.reward_window import RewardWindow
from posse.live.store import RewardOutcome

BOTH = pytest.mark.parametrize("exchange", ["origins", "flows"])


def counted(world, arm):
    """What every node holds of an arm, whether it plays it or not, in pulls."""
    return [node.evidence()["held"].get(arm, (0,))[-1] / 2**20 for node in world.nodes.values()]


@BOTH
def test_arms_added_by_some_first(line, exchange):
    """The middle one does not know the arm, and carries what is known of it to the other end."""
    world = line(exchange)
    world.start("a", ["red", "green", "blue"])
    world.start("b", ["red", "green"])
    world.start("c", ["red", "green", "blue"])
    world.visit("a", 6, "blue")
    world.visit("b", 5, "red")
    world.visit("c", 4, "blue")
    world.tick(150)
    assert counted(world, "blue") == pytest.approx([10] * 3, abs=1e-3)
    assert counted(world, "red") == pytest.approx([5] * 3, abs=1e-3)
    assert world.pulls("c", "blue") == pytest.approx(10, abs=1e-3)
    with pytest.raises(ValueError, match="blue"):
        world.nodes["b"].decide(allowed=["blue"])
    world.close_node("b")
    world.start("b", ["green", "blue", "red"])  # the others' order is not its own
    world.visit("b", 2, "blue")
    world.tick(150)
    for name in "abc":
        assert world.pulls(name, "blue") == pytest.approx(12, abs=1e-3)
        assert world.pulls(name, "red") == pytest.approx(5, abs=1e-3)
        assert not world.nodes[name].network()["refused"]


@BOTH
def test_an_arm_removed_by_some(line, exchange):
    """A decision of an arm that is gone is still rewarded, and counted by those who play it."""
    world = line(exchange)
    for name in "abc":
        world.start(name, ["red", "green", "blue"])
    late = world.nodes["b"].decide("late", allowed=["blue"])
    world.visit("b", 3, "blue")
    world.tick(60)
    world.close_node("b")
    world.start("b", ["red", "green"])
    assert world.nodes["b"].decide("late") == late
    assert world.nodes["b"].reward("late", 1.0) is RewardOutcome.NEW
    assert world.nodes["b"].reward("late", 1.0) is RewardOutcome.REPEATED
    assert set(world.nodes["b"].arms()) == {"red", "green"}
    world.visit("a", 2, "blue")
    world.tick(150)
    assert counted(world, "blue") == pytest.approx([6] * 3, abs=1e-3)
    for name in "ac":
        assert world.pulls(name, "blue") == pytest.approx(6, abs=1e-3)
    for node in world.nodes.values():
        assert not node.network()["refused"]
    assert {world.nodes["b"].decide().arm for _ in range(30)} <= {"red", "green"}


@BOTH
def test_silence_about_an_arm_that_is_gone(line, exchange):
    world = line(exchange)
    world.start("a", ["red", "green", "blue"])
    world.nodes["a"].decide("late", allowed=["blue"])
    world.close_node("a")
    world.start("a", ["red", "green"], reward_window=RewardWindow(5.0, 0.0))
    world.tick(10)
    assert world.nodes["a"].reward("late", 0.0) is RewardOutcome.REPEATED
    assert world.nodes["a"].evidence()["own"]["blue"][-1] == 2**20


@BOTH
@pytest.mark.parametrize(
    "change",
    [
        {"family": families.Bernoulli(2, 2)},
        {"family": families.Bounded()},
        {"exchange": "the other"},
    ],
)
def test_what_evidence_means_cannot_change(line, exchange, change):
    """Another family, prior or exchange on the same store: one line that says what to do."""
    world = line(exchange)
    world.start("a")
    world.visit("a", 3)
    world.close_node("a")
    if change == {"exchange": "the other"}:
        change = {"exchange": {"origins": "flows", "flows": "origins"}[exchange]}
    with pytest.raises(ValueError, match="new store") as caught:
        world.start("a", **change)
    assert "\n" not in str(caught.value)
    for word in ("family", "prior", "exchange"):
        assert word in str(caught.value)
    world.start("a")
    assert world.pulls("a") == pytest.approx(3)
