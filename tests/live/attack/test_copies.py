"""Copies of a store put back, twice, late and beside another agent: each promise on real nodes."""

import shutil

import pytest

from posse import families
from posse.live.agent.agent import Agent
from posse.live.experiment.reward_window import RewardWindow
from posse.live.ledger import PER_UNIT
from posse.live.node import Node
from posse.live.store import Store, SupersededReward
from tests.live.single import single_node

WINDOW = 100.0
ASSUME_FAILURE = RewardWindow(WINDOW, 0.0)  # decisions count from their start
ASSUME_SUCCESS = RewardWindow(WINDOW, 1.0)  # they count when their window closes


class Site:
    """Agent a, whose store is copied and put back, and its neighbour b."""

    def __init__(self, line, reward_window, names="ab"):
        self.world, self.reward_window = line("origins", names), reward_window
        for name in names:
            self.world.start(name, reward_window=reward_window)
        self.world.tick(2)

    @property
    def a(self):
        return self.world.nodes["a"]

    def decide(self, times):
        return [self.a.decide(allowed=["red"]).id for _ in range(times)]

    def reward(self, decisions):
        for decision in decisions:
            self.a.reward(decision, 1.0)

    def copy(self):
        """A copy of the store while nothing is written, as of a clean stop."""
        self.restart()
        self.world.close_node("a")
        shutil.copy2(self.world.path("a"), self.world.folder / "copy")
        self.start()

    def put_back(self, deaf=False):
        """Start a with the copy; deaf: nothing that others say reaches it."""
        self.world.close_node("a")
        shutil.copy2(self.world.folder / "copy", self.world.path("a"))
        with pytest.MonkeyPatch.context() as patch:
            if deaf:
                patch.setattr(Node, "receive", lambda self, peer, payload: None)
            self.start()

    def restart(self):
        self.world.close_node("a")
        self.start()

    def start(self):
        return self.world.start("a", reward_window=self.reward_window)

    def held(self, name):
        """What it counts of red: rewards, closed rewards, closed decisions, decisions."""
        held = self.world.nodes[name].evidence()["held"]
        return tuple(value / PER_UNIT for value in held.get("red", (0, 0, 0, 0)))

    def agree(self):
        """What both count."""
        assert self.held("a") == self.held("b")
        return self.held("a")

    def is_refused(self, decisions):
        before = self.a.counts["superseded"]
        for decision in decisions:
            with pytest.raises(SupersededReward):
                self.a.reward(decision, 1.0)
        assert self.a.counts["superseded"] == before + len(decisions)


def test_a_what_waited_for_its_window_in_a_copy_is_superseded_and_said(line, caplog):
    """Sequence A: 21 decisions, one closed in what the disk forgot; 20 were taken back unsaid."""
    site = Site(line, ASSUME_SUCCESS)
    site.decide(1)
    site.world.tick(50)
    others = site.decide(20)
    site.reward(others)
    site.copy()
    site.world.tick(60)  # the window of the first one closes, and b hears it
    assert site.agree() == (1, 1, 1, 1)
    site.put_back()
    new = site.decide(4)
    site.reward(new)
    site.world.tick(270)  # all windows have closed
    refused = site.a.network()["refused"].get("superseded", 0)
    assert site.a.counts["superseded"] + refused >= len(others)
    # what b held is kept, what is new counts, what the copy had open is not counted again
    assert site.agree() == (5, 5, 5, 5)
    assert "superseded" in caplog.text
    assert not site.world.nodes["b"].network()["refused"]


def test_a2_decisions_that_are_superseded_do_not_stay_as_failures(line):
    """Sequence A': 20 decisions were refused, and stayed in the belief as failures for ever."""
    site = Site(line, ASSUME_FAILURE)
    decisions = site.decide(20)
    site.world.tick(3)
    site.copy()
    site.reward(decisions[:1])
    site.world.tick(3)
    site.put_back()
    site.world.tick(10)
    assert site.agree() == (1, 0, 0, 20)
    site.is_refused(decisions)
    site.reward(site.decide(2))
    site.world.tick(int(3 * WINDOW) + 450)
    # nothing was closed in what b held: all of it leaves, decisions and rewards together
    assert site.agree() == (2, 2, 2, 2)


@pytest.mark.parametrize("reward_window", [RewardWindow(), ASSUME_FAILURE], ids=["heard", "count"])
def test_b_a_copy_put_back_twice_counts_its_decisions_once(line, reward_window):
    """Sequence B: the first restart dies before it hears its neighbour; 10 counted as 20."""
    site = Site(line, reward_window)
    decisions = site.decide(10)
    site.world.tick(3)
    site.copy()
    site.put_back(deaf=True)
    site.reward(decisions)
    site.world.tick(40)  # the grace period is over: b hears of the rewards, a of nothing
    assert site.held("b")[0] == 10
    site.put_back()
    site.reward(decisions)  # which wait: nobody was heard yet
    assert site.held("a")[0] == 10
    site.world.tick(10)
    assert site.agree()[0] == site.agree()[3] == 10
    for _ in range(2):
        site.put_back()
        site.world.tick(10)
        assert site.agree()[0] == site.agree()[3] == 10


@pytest.mark.parametrize("reward_window", [RewardWindow(), ASSUME_FAILURE], ids=["heard", "count"])
def test_c_a_clock_behind_the_last_start_counts_decisions_once(line, reward_window):
    """Sequence C: incarnations were times, and one restored earlier seemed older: 10 became 20."""
    site = Site(line, reward_window)
    site.world.now += 1000.0
    decisions = site.decide(10)
    site.world.tick(3)
    site.copy()
    then = site.world.now
    site.world.now += 30.0
    site.restart()
    site.reward(decisions)
    site.world.tick(10)
    assert site.agree()[0] == 10
    site.world.now = then + 5.0
    site.put_back()
    site.reward(decisions)
    site.reward(site.decide(3))
    site.world.tick(15)
    assert site.agree()[0] == site.agree()[3] == 13


def test_e_two_agents_of_one_name_both_count_and_refuse_nothing(line, caplog):
    """Sequence E, a rolling deployment: one of them refused every reward across a tick."""
    site = Site(line, RewardWindow(WINDOW, 0.0), "abc")
    world = site.world
    world.close_node("c")
    world.path("c").unlink()
    agent = Agent(
        ["red", "green"], families.Bernoulli(), exchange="origins", seed=7,
        exchange_options={"identity": "a"},
    )  # fmt: skip
    store = Store.open(world.path("c"), fingerprint=agent.fingerprint)
    node = single_node(
        agent, store, world.network.transport("c"), neighbours=["b"], clock=lambda: world.now,
        reward_window=site.reward_window,
    )  # fmt: skip
    twins = [site.a, world.add_node(node, "c")]
    decisions = []
    for _ in range(25):
        for twin in twins:
            decisions.append((twin, twin.decide(allowed=["red"]).id))
        world.tick(2)
        if len(decisions) > 8:
            for twin, decision in (decisions.pop(0), decisions.pop(0)):
                twin.reward(decision, 1.0)
    for twin, decision in decisions:
        twin.reward(decision, 1.0)
    world.tick(20)
    assert site.agree()[3] == site.agree()[0] == 50
    assert world.nodes["c"].evidence()["held"] == site.a.evidence()["held"]
    assert not any(each.network()["refused"] for each in world.nodes.values())
    assert [twin.counts["superseded"] for twin in twins] == [0, 0]
    sentences = [record.message for record in caplog.records if "of this name" in record.message]
    assert len(sentences) == 2


def test_a_lost_disk_keeps_what_its_neighbour_held(line):
    site = Site(line, ASSUME_FAILURE)
    decisions = site.decide(6)
    site.reward(decisions[:4])
    site.world.tick(int(WINDOW) + 5)
    opened = site.decide(3)
    site.world.tick(3)
    assert site.agree() == (4, 4, 6, 9)
    site.world.close_node("a")
    for each in site.world.folder.glob("a.db*"):
        each.unlink()
    site.start()
    site.world.tick(15)
    assert site.agree() == (4, 4, 6, 9)
    with pytest.raises(Exception, match="decision"):
        site.a.reward(opened[0], 1.0)
    site.world.tick(int(3 * WINDOW) + 450)
    assert site.agree() == (4, 4, 6, 6)
