"""The audit balances: the stored counter equals the decisions in own evidence, whatever happens."""

import random
import shutil
import sqlite3
import threading
from contextlib import suppress

import httpx
import pytest

from posse import families
from posse.live.agent.agent import Agent
from posse.live.client import Client
from posse.live.experiment.experiment import Audit
from posse.live.experiment.reward_window import RewardWindow
from posse.live.http import serve_node
from posse.live.messaging.transport.memory import MemoryNetwork
from posse.live.store import Disk, RewardOutcome, Store, StoreError, Unknown
from tests.live.asking import refused
from tests.live.several import Several, table
from tests.live.single import single_node

SILENCES = {
    "reported": RewardWindow(),
    "count": RewardWindow(60.0, 0.0),
    "wait": RewardWindow(60.0, 1.0),
}


class Failing(Disk):
    """A disk that fails when told to."""

    fails = False

    def commit(self, connection, durable):
        if self.fails:
            raise sqlite3.OperationalError("disk I/O error")
        super().commit(connection, durable)


class One:
    """An agent in a folder, started again and again."""

    def __init__(self, folder, exchange="origins", **more):
        self.path, self.now, self.disk = folder / "a.db", 2e9, Failing()
        options = {"identity": "a"} if exchange == "origins" else {}
        self.made = {"exchange": exchange, "exchange_options": options, "silent_default": 0.0}
        self.made |= more
        self.silence = RewardWindow()
        self.start()

    def start(self):
        agent = Agent(["red", "green"], families.Bernoulli(), seed=1, **self.made)
        store = Store.open(self.path, fingerprint=agent.fingerprint, disk=self.disk)
        transport = MemoryNetwork([("a", "b")]).transport("a")
        self.node = single_node(
            agent,
            store,
            transport,
            neighbours=["b"],
            reward_window=self.silence,
            clock=lambda: self.now,
        )
        self.node.transport.start(self.node.receive)
        self.only = self.node.experiment()

    def restart(self):
        self.node.stop()
        self.start()

    def visit(self, times=1):
        for _ in range(times):
            self.only.reward(self.only.decide().id, 1.0)


@pytest.fixture
def make(tmp_path):
    made = []

    def start(*options, **more):
        made.append(One(tmp_path, *options, **more))
        return made[-1]

    yield start
    for each in made:
        each.node.stop()


@pytest.mark.parametrize("exchange", ["origins", "flows"])
def test_what_is_counted_is_what_the_evidence_counts_whatever_silence_means(make, exchange):
    """Decisions repeated and refused, rewards late and wrong, restarts, other rules meanwhile."""
    one, draw, made = make(exchange), random.Random(exchange), []
    modes = set()
    for step in range(200):
        one.now += draw.random() * 5
        if step % 20 == 0:
            one.silence = draw.choice(list(SILENCES.values()))
            one.only.set_reward_window(one.silence)
        if step % 60 == 30:
            one.restart()
        modes.add(one.only.counting_mode)
        made.append(one.only.decide(f"d{draw.randrange(200)}").id)
        for _ in range(draw.randrange(3)):
            with suppress(ValueError):
                one.only.reward(draw.choice(made), draw.choice([0.0, 1.0, 1.0, 7.0]))
        if step % 7 == 0:
            one.node.tick()
        audit = one.only.audit()
        assert audit.counted == audit.in_evidence == audit.in_network
    assert modes == set(SILENCES)
    assert audit.counted > 100


def test_a_commit_that_fails_counts_nothing(make):
    one = make()
    one.visit(3)
    before, waiting = one.only.audit(), one.only.decide()
    for silence in SILENCES.values():
        one.only.set_reward_window(silence)
        one.disk.fails = True
        for attempt in (one.only.decide, lambda: one.only.reward(waiting.id, 1.0)):
            with pytest.raises(StoreError):
                attempt()
        assert one.only.audit() == before
        one.disk.fails = False
    one.restart()
    assert one.only.audit() == before == Audit(3, 3.0, 3.0)
    assert one.only.reward(waiting.id, 1.0) is RewardOutcome.NEW
    assert one.only.counted_decisions == 4


def test_it_is_one_statement_of_a_commit(make):
    one, statements = make(), []
    decisions = [one.only.decide().id for _ in range(50)]
    one.node.store.file.connection.set_trace_callback(statements.append)
    one.only.store.add_rewards([(each, 1.0) for each in decisions], one.now)
    assert one.only.counted_decisions == 50
    assert len([each for each in statements if "'counted'" in each]) == 1


def test_arms_that_are_gone_are_in_the_audit(make):
    one = make()
    one.visit(5)
    one.only.set_arms(["blue"])
    one.visit(2)
    assert one.only.audit() == Audit(7, 7.0, 7.0)


def test_the_audit_balances_at_every_moment(make):
    """Read by others while it is written, in the middle of a commit, too."""
    one, stop = make(), threading.Event()
    one.only.set_reward_window(SILENCES["count"])
    found = []

    def look():
        while not stop.is_set():
            found.append(one.only.audit())

    watcher = threading.Thread(target=look)
    watcher.start()
    one.visit(40)
    stop.set()
    watcher.join()
    assert all(each.counted == each.in_evidence for each in found)
    assert one.only.audit() == Audit(40, 40.0, 40.0)


def test_a_disk_that_was_set_back_shows(tmp_path):
    """Neighbours give the evidence back; the counter knows nothing of it, and says so."""
    pair = Several(tmp_path).start(a=table("a", ["x"]), b=table("b", ["x"]))
    try:
        pair.visit("a", "x", 4)
        pair.nodes["a"].stop()
        copy = tmp_path / "copy"
        shutil.copy(tmp_path / "a.db", copy)
        pair.open_node(table("a", ["x"]))
        pair.visit("a", "x", 3)
        pair.tick(15)
        assert pair.nodes["b"].experiment("x").audit() == Audit(0, 0.0, 7.0)
        pair.nodes["a"].stop()
        shutil.copy(copy, tmp_path / "a.db")
        pair.open_node(table("a", ["x"]))
        only = pair.nodes["a"].experiment("x")
        assert only.audit() == Audit(4, 4.0, 4.0)
        pair.tick(15)
        assert only.audit() == Audit(4, 7.0, 7.0)
    finally:
        pair.close()


def test_over_http_and_in_the_metrics(make):
    one = make()
    one.visit(3)
    with serve_node(one.node, "127.0.0.1:0") as server:
        with Client(server.url) as client:
            assert client.audit() == {"counted": 3, "in_evidence": 3.0, "in_network": 3.0}
        shown = httpx.get(f"{server.url}/metrics", trust_env=False).text
    assert '\nposse_decisions_counted{experiment="default"} 3\n' in shown


def test_what_fades_has_no_audit(make):
    one = make(half_life=3600.0)
    one.visit(3)
    assert one.only.audit() is None
    assert one.only.counted_decisions == 3
    with serve_node(one.node, "127.0.0.1:0") as server:
        refused(httpx.get(f"{server.url}/v1/audit", trust_env=False), 404, "half_life", "fades")
        with Client(server.url) as client, pytest.raises(Unknown, match="half_life"):
            client.audit()
