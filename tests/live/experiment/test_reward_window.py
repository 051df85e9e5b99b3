"""Rewards that come late: when decisions count under each meaning of silence, on a real store."""

import logging
import shutil
import sqlite3
from contextlib import closing, contextmanager

import numpy as np
import pytest

from posse import families
from posse.live.agent.agent import Agent
from posse.live.experiment.decision_request import DecisionRequest
from posse.live.experiment.experiment import Audit, LiveExperiment
from posse.live.experiment.reward_window import RewardWindow
from posse.live.store import (
    Conflict,
    Disk,
    LateReward,
    RewardOutcome,
    Store,
    StoreError,
    SupersededReward,
)

UNIT = 2**20  # quanta
ARMS = ["red", "green"]
HEARD, COUNT, WAIT = RewardWindow(10.0), RewardWindow(10.0, 0.0), RewardWindow(10.0, 1.0)


class Faulty(Disk):
    """A disk that fails when told to."""

    failing = False

    def commit(self, connection, durable):
        if self.failing:
            raise sqlite3.OperationalError("disk I/O error")
        super().commit(connection, durable)


class World:
    """One experiment and its clock; `again` is another process on the same disk."""

    def __init__(self, path, exchange, silence):
        self.path, self.exchange, self.silence = path, exchange, silence
        self.now, self.disk, self.seed = 1000.0, Faulty(), 0
        self.experiment = self.store = None
        self.again()

    def again(self):
        if self.store is not None:
            self.store.close()
        self.seed += 1
        flows = self.exchange == "flows"
        agent = Agent(
            ARMS,
            families.Bernoulli(),
            exchange=self.exchange,
            seed=self.seed,
            silent_default=0.0 if flows else None,
            exchange_options=None if flows else {"identity": "a", "clock": lambda: self.now},
        )
        self.store = Store.open(self.path, fingerprint=agent.fingerprint, disk=self.disk)
        self.experiment = LiveExperiment(
            "default", agent, self.store, reward_window=self.silence, clock=lambda: self.now
        )

    def decide(self, id_, arm=None):
        return self.experiment.decide(id_, None if arm is None else [arm])

    def reward(self, id_, reward):
        return self.experiment.reward(id_, reward)

    def wait(self, seconds):
        self.now += seconds
        self.experiment.close_windows(self.now)

    @property
    def sums(self):
        """Reward and count acted on, and of closed decisions."""
        own = self.experiment.evidence()["own"].values()
        return tuple(sum(values[k] for values in own) / UNIT for k in (0, -1, 1, 2))


@pytest.fixture(params=["origins", "flows"])
def make(request, tmp_path):
    made = []

    def open_(silence):
        made.append(World(tmp_path / f"{len(made)}.db", request.param, silence))
        return made[-1]

    yield open_
    for each in made:
        each.store.close()


def test_a_decision_counts_from_the_start_and_its_reward_corrects_it(make):
    world = make(COUNT)
    made = world.decide("a")
    assert world.decide("a") == made
    world.decide("b")
    assert made.assumed == 0.0
    assert world.sums == (0, 2, 0, 0)
    shown = world.experiment.arms().values()
    assert sum(arm["pulls_here"] for arm in shown) == 0
    assert sum(arm["open_here"] for arm in shown) == 2
    assert sum(arm["open_in_network"] for arm in shown) == 2
    world.wait(9)
    assert world.reward("a", 1.0) is RewardOutcome.NEW
    assert world.reward("a", 1.0) is RewardOutcome.REPEATED
    with pytest.raises(Conflict, match="has the reward 1"):
        world.reward("a", 0.0)
    assert world.sums == (1, 2, 0, 0)
    assert world.store.count_open_decisions() == 2
    world.wait(1)
    assert world.sums == (1, 2, 1, 2)
    assert world.store.count_open_decisions() == 0
    shown = world.experiment.arms().values()
    assert sum(arm["pulls_here"] for arm in shown) == 2
    assert sum(arm["open_here"] for arm in shown) == 0
    with pytest.raises(LateReward, match="got the default reward") as late:
        world.reward("b", 1.0)
    assert not isinstance(late.value, SupersededReward)
    assert world.reward("b", 0.0) is RewardOutcome.REPEATED
    world.wait(100)
    assert world.sums == (1, 2, 1, 2)


def test_a_reward_that_was_assumed_corrects_by_nothing_and_is_one(make):
    world = make(COUNT)
    world.decide("a")
    before = world.sums
    assert world.reward("a", 0.0) is RewardOutcome.NEW
    assert world.reward("a", 0.0) is RewardOutcome.REPEATED
    assert world.sums == before
    with pytest.raises(Conflict, match=r"has the reward 0\.0: the reward 1\.0 is refused"):
        world.reward("a", 1.0)
    world.wait(10)
    assert world.sums == (0, 1, 0, 1)
    assert not world.store.find_decision("a").silent


def test_what_is_no_reward_changes_nothing(make):
    for silence in (HEARD, COUNT, WAIT):
        world = make(silence)
        world.decide("a")
        before = world.sums
        with pytest.raises(ValueError, match="reward must"):
            world.reward("a", 7.0)
        assert world.sums == before
        assert world.reward("a", 1.0) is RewardOutcome.NEW


def test_where_silence_is_no_failure_evidence_waits(make):
    world = make(WAIT)
    for id_ in "abc":
        world.decide(id_)
    assert world.reward("a", 0.0) is RewardOutcome.NEW
    assert world.reward("b", 1.0) is RewardOutcome.NEW
    with pytest.raises(Conflict):
        world.reward("b", 0.0)
    assert world.sums == (0, 0, 0, 0)
    world.wait(10)
    assert world.sums == (2, 3, 2, 3)
    with pytest.raises(LateReward):
        world.reward("c", 0.0)


def test_where_silence_means_nothing_a_reward_counts_when_heard(make):
    world = make(HEARD)
    for id_ in "ab":
        world.decide(id_)
    assert world.sums == (0, 0, 0, 0)
    world.reward("a", 1.0)
    assert world.sums == (1, 1, 1, 1)
    world.wait(10)
    assert world.sums == (1, 1, 1, 1)
    with pytest.raises(LateReward, match="discarded") as late:
        world.reward("b", 1.0)
    assert late.value.lateness == 0.0


@pytest.mark.parametrize("last", [RewardWindow(), HEARD, WAIT, RewardWindow(3.0, 0.0)])
def test_what_was_counted_stays_with_a_decision_whatever_is_set_later(make, last):
    """Each by what it has: assumed and open, assumed and rewarded, kept for its window."""
    world = make(COUNT)
    for id_ in "ab":
        world.decide(id_)
    world.reward("b", 1.0)
    world.experiment.set_reward_window(WAIT)
    for id_ in "cd":
        world.decide(id_)
    world.reward("d", 0.0)
    assert world.sums == (1, 2, 0, 0)
    world.experiment.set_reward_window(last)
    world.silence = last
    world.again()
    world.reward("a", 1.0)
    assert world.sums[0] == 2
    if last.default_reward is None:  # c as any other that has no reward
        world.reward("c", 1.0)
    world.wait(20)
    closing = last.default_reward or 0.0
    total = 2 + (1 if last.default_reward is None else closing)  # c
    assert world.sums == (total, 4, total, 4)
    assert world.store.count_open_decisions() == 0


def test_a_restart_between_decision_reward_and_closing(make):
    for silence, sums in ((COUNT, (1, 2, 1, 2)), (WAIT, (2, 2, 2, 2)), (HEARD, (1, 1, 1, 1))):
        world = make(silence)
        for id_ in "ab":
            world.decide(id_)
        world.again()
        world.reward("a", 1.0)
        world.again()
        assert world.reward("a", 1.0) is RewardOutcome.REPEATED
        world.wait(10)
        world.again()
        world.wait(10)
        assert world.sums == sums


@contextmanager
def failing(world):
    world.disk.failing = True
    try:
        with pytest.raises(StoreError):
            yield
    finally:
        world.disk.failing = False


@pytest.mark.parametrize("silence", [HEARD, COUNT, WAIT], ids=["heard", "count", "wait"])
def test_a_commit_that_fails_leaves_memory_and_disk_alike(make, silence):
    """A decision is counted if, and only if, its row is there."""
    world, calm = make(silence), make(silence)
    for each in (world, calm):
        each.decide("a", "red")
    before = world.sums
    with failing(world):
        world.decide("b", "green")
    assert world.store.find_decision("b") is None
    assert world.sums == before
    with failing(world):
        world.reward("a", 1.0)
    assert world.sums == before
    for each in (world, calm):
        assert each.decide("b", "green").id == "b"
        assert each.reward("a", 1.0) is RewardOutcome.NEW
    with failing(world):
        world.wait(10)
    assert world.store.count_open_decisions() > 0
    world.wait(0)
    calm.wait(10)
    assert world.sums == calm.sums
    assert world.store.count_open_decisions() == 0


# under flows the sums of a copy are what counts
ORIGINS = pytest.mark.parametrize("make", ["origins"], indirect=True)


class Neighbour:
    """An agent in memory that holds what it was sent."""

    def __init__(self):
        options = {"identity": "n"}
        self.agent = Agent(ARMS, families.Bernoulli(), seed=9, exchange_options=options)
        self.agent.connect("a")

    def exchange(self, world):
        """Tick both some times and deliver all messages, with their answers."""
        now = world.now
        for _ in range(12):
            there = [message for _, message in world.experiment.tick(now)]
            back = [message for _, message in self.agent.tick(now)]
            while there or back:
                answers = [self.agent.receive("a", message, now) for message in there]
                there = [
                    answer
                    for message in back
                    for _, answer in world.experiment.receive("n", message, now)
                ]
                back = [answer for batch in answers for _, answer in batch]


@pytest.fixture
def restored(make, tmp_path):
    """Decisions a, b, c with the reward of a; b got one too, then a copy without it came back.

    A neighbour holds what came after the copy.
    """

    def open_(silence):
        world, neighbour = make(silence), Neighbour()
        world.experiment.agent.connect("n")
        for id_ in "abc":
            world.decide(id_)
        world.reward("a", 1.0)
        copy = tmp_path / "copy.db"
        with closing(sqlite3.connect(copy)) as file, closing(sqlite3.connect(world.path)) as source:
            source.backup(file)
        world.reward("b", 1.0)
        if silence == WAIT:  # else neighbours know nothing of the decisions
            world.wait(10)
        neighbour.exchange(world)
        world.store.close()
        for name in (world.path, *world.path.parent.glob(f"{world.path.name}-*")):
            name.unlink(missing_ok=True)
        shutil.copy(copy, world.path)
        world.again()
        return world, neighbour

    return open_


@ORIGINS
def test_decisions_that_a_neighbour_knows_more_of_than_a_restored_copy_are_superseded(
    restored, caplog
):
    world, neighbour = restored(COUNT)
    assert world.sums == (1, 3, 0, 0)  # as in the copy
    for _ in range(2):  # people are told once
        neighbour.exchange(world)
    assert [r.levelname for r in caplog.records if "was restored from a copy" in r.message] == [
        "WARNING"
    ]
    assert world.sums == (2, 3, 0, 0)  # what the neighbour held is back
    world.decide("d")
    before = world.sums
    with pytest.raises(SupersededReward, match="open when the store was restored") as refused:
        world.reward("b", 1.0)
    assert isinstance(refused.value, Conflict)
    with pytest.raises(SupersededReward):  # also if it was acknowledged: it will not be closed
        world.reward("a", 1.0)
    assert world.reward("d", 1.0) is RewardOutcome.NEW
    world.wait(10)
    assert world.store.count_open_decisions() == 0
    superseded = [world.store.find_decision(id_).superseded for id_ in "abcd"]
    assert superseded == [True, True, True, False]
    assert world.sums == (before[0] + 1, before[1], before[2] + 1, before[3] + 1)
    for id_ in "bc":
        with pytest.raises(SupersededReward):
            world.reward(id_, 1.0)
    assert world.experiment.counts["superseded"] == 4
    assert world.experiment.counts["late"] == 0
    caplog.clear()
    world.again()  # and not again after a restart
    neighbour.exchange(world)
    assert not [r for r in caplog.records if "was restored from a copy" in r.message]


@ORIGINS
def test_a_reward_that_waited_for_its_window_in_vain_is_counted(restored):
    """It was acknowledged in the copy, but neighbours know more of the process that decided."""
    world, neighbour = restored(WAIT)
    neighbour.exchange(world)
    refusals = world.experiment.agent.exchange.refusals
    assert refusals["superseded"] == 0
    before = world.sums
    assert before[-1] == 3  # what the neighbour held as closed is back
    world.wait(10)
    assert refusals["superseded"] == 1  # of a: b and c had none in the copy
    assert world.sums == before
    assert world.store.find_decision("a").reward == 1.0
    assert world.store.find_decision("a").superseded


@ORIGINS
def test_superseded_decisions_leave_the_belief_when_their_windows_are_long_over(restored):
    """They would stay in it as failures for ever: nobody can send their rewards any more."""
    world, neighbour = restored(COUNT)
    neighbour.exchange(world)
    world.decide("d")
    world.reward("d", 1.0)
    world.wait(10)
    assert world.sums == (3, 4, 1, 1)
    world.wait(400)  # two windows, and as long as another agent of this name may rest
    world.experiment.agent.exchange.compaction.every = 1
    neighbour.exchange(world)
    assert world.sums == (1, 1, 1, 1)
    held = neighbour.agent.exchange.evidence()
    assert held == world.experiment.agent.exchange.own()
    assert world.experiment.audit() == Audit(counted=1, in_evidence=1.0, in_network=1.0)


def test_late_rewards_are_counted_with_how_late_they_came(make):
    world = make(COUNT)
    for id_ in "ab":
        world.decide(id_)
    world.wait(10)
    for id_, seconds in (("a", 5.0), ("b", 95.0)):
        world.now = 1010.0 + seconds
        with pytest.raises(LateReward):
            world.reward(id_, 1.0)
    late = world.experiment.late.copy()
    assert world.experiment.counts["late"] == sum(late.counts) == 2
    assert late.counts[1] == late.counts[3] == 1
    assert (late.total, late.longest) == (100.0, 95.0)


@pytest.mark.parametrize(
    ("silence", "said"),
    [
        (RewardWindow(), None),
        (
            HEARD,
            "a decision counts when its reward arrives within 10 s, and not at all without one",
        ),
        (COUNT, "counts as 0, the lowest reward, from the start, and its reward corrects that"),
        (WAIT, r"because default_reward is not the lowest reward \(1, not 0\)"),
    ],
)
def test_the_log_says_when_decisions_count(make, caplog, silence, said):
    with caplog.at_level(logging.INFO, "posse"):
        world = make(silence)
        world.experiment.log_reward_window()  # as when a process answers
        messages = [record.getMessage() for record in caplog.records]
        assert len(messages) == (said is not None)
        caplog.clear()
        world.experiment.set_reward_window(silence)
        assert not caplog.records
        other = WAIT if silence is not WAIT else COUNT
        world.experiment.set_reward_window(other)
        assert len(caplog.records) == 1
    if said is not None:
        assert np.any([said.replace("\\", "") in message for message in messages])


def test_nothing_that_is_open_is_forgotten(make):
    world = make(COUNT)
    world.experiment.remember = 10.0
    for id_ in "ab":
        world.decide(id_)
    world.reward("a", 1.0)
    with closing(sqlite3.connect(world.path)) as connection:
        (columns,) = connection.execute("SELECT count(*) FROM decision WHERE closed IS NULL")
    assert columns == (2,)
    assert world.store.delete_old_decisions(1e9, 10.0) == 0
    assert world.store.find_decision("a") is not None


# new arms, in simulated time: two settled ones, and a third that comes later and is the worst


def share_of_a_new_arm(path, silence, rewards, seed):
    """Its share of the visits in its first window, where only `rewards` are reported."""
    rng = np.random.default_rng(seed)
    # of successes, or of complaints
    rates = {"a": 0.03, "b": 0.04, "new": 0.01 if rewards else 0.1}
    window, now = silence.window, [0.0]
    agent = Agent(["a", "b"], families.Bernoulli(), seed=seed)
    with Store.open(path, fingerprint=agent.fingerprint, monotonic=lambda: now[0]) as store:
        only = LiveExperiment("default", agent, store, reward_window=silence, clock=lambda: now[0])
        for arm in ("a", "b"):  # as sure as after a day
            for outcome, share in ((rewards, rates[arm]), (1 - rewards, 1 - rates[arm])):
                for _ in range(round(2000 * share)):
                    agent.learn(arm, outcome)
        only.set_arms(["a", "b", "new"])
        due, new, turns, visits = [], 0, 100, 50
        with store.transaction():
            for turn in range(turns):
                now[0] = window * turn / turns
                made = store.add_decisions(only.draw_decisions([DecisionRequest()] * visits))
                new += sum(each.arm == "new" for each in made)
                happened = [each.id for each in made if rng.random() < rates[each.arm]]
                due += [(now[0] + rng.random() * window, id_) for id_ in happened]
                store.add_rewards([(id_, rewards) for at, id_ in due if at <= now[0]], now[0])
                due = [each for each in due if each[0] > now[0]]
    return new / (turns * visits)


def test_a_new_arm_that_is_the_worst_does_not_take_the_visits_of_its_first_window(tmp_path):
    """As 0.2 counted it had 99%; that of another rule is 96%. At random it would have a third."""
    shares = [
        share_of_a_new_arm(tmp_path / f"{k}.db", RewardWindow(3600.0, 0.0), 1.0, k)
        for k in range(3)
    ]
    assert max(shares) < 0.1, shares


def test_where_complaints_are_reported_a_new_arm_waits(tmp_path):
    """Nothing of it is known until its windows close: all that the prior says."""
    silence = RewardWindow(3600.0, 1.0)
    agent = Agent(ARMS, families.Bernoulli())
    assert silence.counting_mode(agent) == "wait"
    shares = [share_of_a_new_arm(tmp_path / f"{k}.db", silence, 0.0, k) for k in range(2)]
    assert max(shares) < 0.1, shares
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RewardWindow, "counting_mode", lambda self, agent: "count")
        assert share_of_a_new_arm(tmp_path / "count.db", silence, 0.0, 3) > 0.2
