"""The life of a decision: inactive, open, closed, cancelled, erased, under each reward window."""

import sqlite3

import pytest

from posse import families
from posse.contexts import Contexts
from posse.live.agent.agent import Agent
from posse.live.experiment.experiment import LiveExperiment
from posse.live.experiment.reward_window import RewardWindow
from posse.live.store import Conflict, Disk, LateReward, RewardOutcome, Store, StoreError, Unknown

UNIT = 2**20  # quanta
HEARD, COUNT, WAIT = RewardWindow(10.0), RewardWindow(10.0, 0.0), RewardWindow(10.0, 1.0)
NOTHING = (0, 0, 0, 0)


class Faulty(Disk):
    """A disk that fails when told to."""

    failing = False

    def commit(self, connection, durable):
        if self.failing:
            raise sqlite3.OperationalError("disk I/O error")
        super().commit(connection, durable)


class Site:
    """One experiment and its clock; `restart` is another process on the same disk."""

    def __init__(self, path, exchange, window, **options):
        self.path = path
        self.exchange = exchange
        self.window = window
        self.options = options
        self.now = 1000.0
        self.disk = Faulty()
        self.store = None
        self.restart()

    def restart(self):
        if self.store is not None:
            self.store.close()
        flows = self.exchange == "flows"
        options = {"family": families.Bernoulli()} | self.options
        agent = Agent(
            ["red", "green"],
            exchange=self.exchange,
            seed=1,
            silent_default=0.0 if flows else None,
            exchange_options=None if flows else {"identity": "a", "clock": lambda: self.now},
            **options,
        )
        self.store = Store.open(self.path, fingerprint=agent.fingerprint, disk=self.disk)
        self.experiment = LiveExperiment(
            "default", agent, self.store, reward_window=self.window, clock=lambda: self.now
        )

    def wait(self, seconds):
        self.now += seconds
        self.experiment.close_windows(self.now)

    @property
    def sums(self):
        """Reward and count acted on, and of closed decisions."""
        own = self.experiment.evidence()["own"].values()
        return tuple(sum(values[k] for values in own) / UNIT for k in (0, -1, 1, 2))

    @property
    def balances(self):
        audit = self.experiment.audit()
        return audit.counted == audit.in_evidence


@pytest.fixture(params=["origins", "flows"])
def make(request, tmp_path):
    sites = []

    def open_site(window, **options):
        sites.append(Site(tmp_path / f"{len(sites)}.db", request.param, window, **options))
        return sites[-1]

    yield open_site
    for site in sites:
        site.store.close()


@pytest.mark.parametrize("window", [HEARD, COUNT, WAIT])
def test_an_inactive_decision_is_no_evidence_and_ends_with_its_window(make, window):
    site = make(window)
    made = site.experiment.decide("a", activate=False)
    assert site.experiment.decide("a", activate=False) == made
    assert (made.state, made.probability, made.assumed) == ("inactive", 0.5, None)
    assert site.sums == NOTHING
    assert (site.store.count_open_decisions(), site.store.count_inactive_decisions()) == (0, 1)
    site.wait(10)
    ended = site.experiment.find_decision("a")
    assert (ended.state, ended.reward, ended.closed) == ("closed", None, site.now)
    assert site.sums == NOTHING
    with pytest.raises(LateReward, match="was not activated before"):
        site.experiment.reward("a", 1.0)
    with pytest.raises(Conflict, match="not activated before its reward window closed"):
        site.experiment.activate("a")
    assert site.balances


@pytest.mark.parametrize("window", [HEARD, COUNT, WAIT])
@pytest.mark.parametrize("by_reward", [False, True])
def test_an_activation_and_a_reward_make_a_decision_like_any_other(make, window, by_reward):
    shown, asked = make(window), make(window)
    shown.experiment.decide("a", ["red"])
    asked.experiment.decide("a", ["red"], activate=False)
    if not by_reward:
        assert asked.experiment.activate("a") == asked.experiment.activate("a")
        assert asked.experiment.counts["activated"] == 1
    for site in (shown, asked):
        assert site.experiment.reward("a", 1.0) is RewardOutcome.NEW
        assert site.experiment.reward("a", 1.0) is RewardOutcome.REPEATED
    assert asked.sums == shown.sums
    assert asked.store.find_decision("a").assumed == shown.store.find_decision("a").assumed
    for site in (shown, asked):
        site.wait(10)
        assert site.experiment.activate("a").state == "closed"  # a repetition
    assert asked.sums == shown.sums != NOTHING
    assert asked.balances


def test_an_activated_decision_without_a_reward_is_a_failure_when_its_window_ends(make):
    site = make(COUNT)
    site.experiment.decide("a", activate=False)
    site.wait(9)
    assert site.experiment.activate("a").state == "open"
    assert site.sums == (0, 1, 0, 0)
    site.wait(1)
    assert site.sums == (0, 1, 0, 1)


def test_a_refused_reward_leaves_an_inactive_decision_inactive(make):
    site = make(COUNT)
    site.experiment.decide("a", activate=False)
    with pytest.raises(ValueError, match="reward must"):
        site.experiment.reward("a", 7.0)
    assert site.experiment.find_decision("a").state == "inactive"
    assert site.sums == NOTHING


@pytest.mark.parametrize("window", [HEARD, COUNT, WAIT])
@pytest.mark.parametrize("activate", [False, True])
def test_cancelling_takes_back_what_a_decision_counted(make, window, activate):
    site = make(window)
    site.experiment.decide("b")
    before = site.sums
    site.experiment.decide("a", activate=activate)
    cancelled = site.experiment.cancel("a")
    assert (cancelled.state, cancelled.reward, cancelled.assumed) == ("cancelled", None, None)
    assert site.experiment.cancel("a") == cancelled == site.store.find_decision("a")
    assert site.experiment.counts["cancelled"] == 1
    assert site.sums == before
    assert site.balances
    with pytest.raises(Conflict, match=r"was cancelled: the reward 1\.0 is refused"):
        site.experiment.reward("a", 1.0)
    with pytest.raises(Conflict, match="was cancelled: ask for a new decision"):
        site.experiment.activate("a")
    site.wait(10)
    assert site.experiment.find_decision("a") == cancelled
    assert site.experiment.decide("a").state == "cancelled"  # a repetition


@pytest.mark.parametrize("window", [HEARD, COUNT, WAIT])
def test_a_decision_with_a_reward_or_closed_is_not_cancelled(make, window):
    site = make(window)
    for id_ in "ab":
        site.experiment.decide(id_)
    site.experiment.reward("a", 0.0)
    with pytest.raises(Conflict, match=r"has the reward 0\.0: it can no longer be cancelled"):
        site.experiment.cancel("a")
    site.wait(10)
    before = site.sums
    with pytest.raises(Conflict, match="is closed"):
        site.experiment.cancel("b")
    with pytest.raises(Unknown, match="there is no decision 'c'"):
        site.experiment.cancel("c")
    assert site.sums == before


@pytest.mark.parametrize("window", [HEARD, COUNT, WAIT])
def test_lives_go_on_in_another_process(make, window):
    site = make(window)
    for id_ in "abc":
        site.experiment.decide(id_, activate=id_ == "c")
    site.restart()
    assert site.experiment.activate("a").state == "open"
    site.experiment.cancel("b")
    site.experiment.cancel("c")
    expected = (0, 1, 0, 0) if window == COUNT else NOTHING
    assert site.sums == expected
    site.restart()  # while it rests
    assert site.sums == expected
    site.experiment.tick(site.now)
    assert site.sums == expected
    assert site.balances
    site.wait(10)
    assert site.experiment.audit().counted == (0 if window == HEARD else 1)


@pytest.mark.parametrize("work", ["activate", "cancel", "erase_decision"])
def test_a_commit_that_fails_changes_nothing(make, work):
    site = make(COUNT)
    site.experiment.decide("a", activate=work != "activate")
    before, sums = site.store.find_decision("a"), site.sums
    site.disk.failing = True
    with pytest.raises(StoreError):
        getattr(site.experiment, work)("a")
    site.disk.failing = False
    assert (site.store.find_decision("a"), site.sums) == (before, sums)
    getattr(site.experiment, work)("a")
    assert site.sums == ((0, 1, 0, 0) if work == "activate" else NOTHING)
    assert site.balances


@pytest.mark.parametrize("window", [HEARD, COUNT, WAIT])
def test_erasing_cancels_what_is_open_and_closes_what_has_a_reward(make, window):
    site = make(window)
    for id_ in "abcd":
        site.experiment.decide(id_, activate=id_ != "d")
    site.experiment.reward("a", 1.0)
    site.experiment.cancel("c")
    for id_ in "abcd":
        assert site.experiment.erase_decision(id_) is True
        with pytest.raises(Unknown):
            site.experiment.find_decision(id_)
        with pytest.raises(Unknown):
            site.experiment.erase_decision(id_)
    assert site.sums == (1, 1, 1, 1)
    assert site.balances
    site.wait(10)
    assert site.sums == (1, 1, 1, 1)
    assert site.experiment.counts["erased"] == 4
    assert site.experiment.decide("a").state == "open"  # a new decision


@pytest.mark.parametrize(
    "family", [families.Logistic(rate=0.3), families.Linear()], ids=["logistic", "linear"]
)
def test_a_decision_at_a_context_is_taken_back_to_the_last_quantum(tmp_path, family):
    """Also if the belief has moved since, at which it was linearised."""
    schema = Contexts({"age": {"low": 0, "high": 100}, "country": ["de", "fr"]})
    options = {"family": family, "context": schema, "reward_range": (0.0, 1.0)}
    site = Site(tmp_path / "a.db", "origins", COUNT, **options)
    visitors = [{"age": 17.3 * k % 100, "country": "de" if k % 3 else "fr"} for k in range(9)]
    for k in range(0, 8, 2):
        site.experiment.decide(f"v{k}", None, visitors[k])
        site.experiment.reward(f"v{k}", float(k % 4 == 0))
    before = site.experiment.evidence()["own"]
    for activate in (True, False):
        name = f"x{activate}"
        site.experiment.decide(name, ["red"], visitors[1], activate=activate)
        if not activate:
            site.experiment.activate(name)
        assert site.experiment.evidence()["own"] != before
        site.experiment.cancel(name)
        assert site.experiment.evidence()["own"] == before
    site.experiment.decide("y", ["red"], visitors[3])
    site.wait(5)
    site.experiment.decide("z", ["red"], visitors[5])
    site.experiment.reward("z", 1.0)
    with_z = site.experiment.evidence()["own"]
    site.experiment.cancel("y")
    site.experiment.decide("y2", ["red"], visitors[3])  # linearised elsewhere by now
    site.experiment.cancel("y2")
    site.wait(5)
    assert site.balances
    assert with_z["red"][-1] - site.experiment.evidence()["own"]["red"][-1] == UNIT
    site.store.close()
