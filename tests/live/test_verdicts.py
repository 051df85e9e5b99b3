"""Verdicts of live agents: on closed evidence, of a view that is whole, and by every door."""

import asyncio

import httpx
import numpy as np
import pytest

import posse
from posse import families
from posse.live import AsyncClient, Client
from posse.live.agent import Agent
from posse.live.http import serve
from posse.live.node import Node
from posse.live.store import Store, Unknown
from posse.live.transport.memory import MemoryNetwork
from posse.live.verdicts import Stop

from .asking import refused

ARMS = ["red", "green"]


def agent(stop=Stop(), **keys):  # noqa: B008 (frozen)
    return Agent(ARMS, families.Bernoulli(), stop=stop, seed=1, **keys)


def learn(agent, arm, pulls, rewarded):
    for i in range(pulls):
        agent.learn(arm, 1.0 if i < rewarded else 0.0)


def test_a_winner_by_the_evidence_of_all():
    one = agent()
    assert one.verdict().sentence.startswith("keep going: red leads, with evidence 0.0 of the 3.0")
    learn(one, "red", 100, 60)
    learn(one, "green", 100, 20)
    found = one.verdict()
    assert (found.verdict, found.arm) == ("winner", "red")
    assert found.sentence == (
        "red wins; wrong in at most 5% of such experiments, however often you look: posse pin red"
    )
    belief = np.array([[61.0, 21.0], [41.0, 81.0]])
    assert found.evidence == pytest.approx(posse.verdict(one.family, belief).evidence, abs=1e-9)
    assert one.verdict() is found  # not computed again


def test_a_policy_that_starves_challengers_is_told_so():
    assert agent().verdict().sentence.endswith("; policy 'top-two' gets there sooner")
    assert agent(policy=posse.TopTwo()).verdict().sentence.endswith("of the 3.0 needed")


def test_only_closed_decisions_count():
    one = agent(silent_default=0.0)
    made = [one.begin(arm, 0.0) for arm in ARMS for _ in range(100)]
    for _ in range(60):
        one.correct("red", 0.0, 1.0, made[0])
    assert one.verdict().evidence == 0.0
    for i in range(100):
        one.close("red", 1.0 if i < 60 else 0.0, made[0])
        one.close("green", 0.0, made[0])
    assert one.verdict().verdict == "winner"


def test_without_stop_there_is_no_verdict():
    with pytest.raises(ValueError, match="this experiment has no stop"):
        agent(stop=None).verdict()


def test_arms_that_left_are_counted():
    one = agent()
    learn(one, "red", 5, 5)
    learn(one, "green", 5, 5)
    one.learn("blue", 1.0)  # an arm that only this agent's past knows
    assert one.verdict().needed == pytest.approx(np.log(2 / 0.05))
    one.set_arms(["red"])
    assert one.verdict().needed == pytest.approx(np.log(2 / 0.05))


def test_under_flows_nobody_wins_but_one_may_be_good_enough():
    one = agent(Stop(tolerance=0.01), exchange="flows")
    assert one.verdict().verdict == "keep-going"
    learn(one, "red", 300, 200)
    learn(one, "green", 300, 20)
    found = one.verdict()
    assert (found.verdict, found.arm) == ("good-enough", "red")
    assert found.evidence is found.needed is None
    assert agent(exchange="flows").verdict().sentence.startswith("keep going: settling for")


def test_where_sites_differ_it_is_about_this_one():
    here, there = agent(sites="differ"), agent()
    here.connect("there")
    there.connect("here")
    learn(there, "red", 100, 90)
    learn(there, "green", 100, 10)
    learn(here, "red", 60, 10)
    learn(here, "green", 60, 50)
    passed(there, here)
    found = here.verdict()
    assert (found.verdict, found.arm) == ("winner", "green")
    assert found.sentence.startswith("green wins here; wrong in at most 5%")


def passed(sender, receiver, name="there"):
    for _, message in sender.tick(0.0):
        receiver.receive(name, message, 0.0)


def test_nothing_is_said_while_evidence_is_on_its_way():
    """A neighbour holds two entries and sends one a tick: between them its view is not whole."""
    here = agent()
    there = agent(exchange_options={"batch": 1, "digest_every": 1})
    third = agent()
    here.connect("there")
    there.connect("here")
    third.connect("there")
    learn(third, "red", 100, 90)
    learn(there, "green", 100, 10)
    passed(third, there, "third")
    last = here.verdict()
    assert last.verdict == "keep-going"
    passed(there, here)
    assert not here.exchange.is_current()
    assert here.verdict() is last
    passed(there, here)
    assert here.exchange.is_current()
    assert (here.verdict().verdict, here.verdict().arm) == ("winner", "red")
    fresh = agent()
    fresh.connect("there")
    passed(there, fresh)
    assert fresh.verdict().sentence.startswith("keep going: a neighbour holds evidence")


def test_agents_on_a_ring_come_to_the_verdict_of_all_their_pulls():
    """Whenever a view is whole, its verdict is that of the pulls in it, and at last of all."""
    rng, names = np.random.default_rng(5), ["a", "b", "c", "d"]
    agents = {name: agent(policy=posse.TopTwo()) for name in names}
    near = {name: (names[i - 1], names[(i + 1) % 4]) for i, name in enumerate(names)}
    for name, each in agents.items():
        for other in near[name]:
            each.connect(other)
    pulls = np.zeros((2, 2))  # failures and successes by arm

    def exchange(now):
        posts = [(n, to, m) for n, each in agents.items() for to, m in each.tick(now)]
        while posts:
            sender, to, message = posts.pop(0)
            answers = agents[to].receive(sender, message, now)
            posts += [(to, other, answer) for other, answer in answers]

    for now in range(40):
        for each in agents.values():
            decision = each.pull()
            reward = int(rng.random() < (0.7 if decision.arm == "red" else 0.3))
            each.update(decision, float(reward))
            pulls[1 - reward, ARMS.index(decision.arm)] += 1
        exchange(float(now))
    for now in range(40, 60):
        exchange(float(now))
    whole = posse.verdict(families.Bernoulli(), 1.0 + pulls, names=ARMS)
    assert whole.verdict == "winner"
    for each in agents.values():
        assert each.exchange.is_current()
        found = each.verdict()
        assert (found.verdict, found.arm, found.sentence) == ("winner", "red", whole.sentence)
        assert found.evidence == pytest.approx(whole.evidence, abs=1e-9)


def test_a_digest_that_is_not_whole_yet_is_waited_for():
    here, there = agent(), agent()
    here.connect("there")
    there.connect("here")
    assert here.exchange.is_current()  # a neighbour that was never heard is not waited for
    there.exchange._sending.ticks = 1  # no digest in the next message
    learn(there, "red", 3, 3)
    passed(there, here)
    assert not here.exchange.is_current()
    there.exchange._sending.ticks = 0
    passed(there, here)
    assert here.exchange.is_current()


@pytest.fixture
def node(tmp_path):
    one = agent()
    store = Store.open(tmp_path / "agent.db", fingerprint=one.fingerprint)
    made = Node(one, store, MemoryNetwork([("a", "b")]).transport("a"), neighbours=["b"])
    made.transport.start(made.receive)
    yield made
    made.stop()


def test_over_http_and_by_both_clients(node):
    with (
        serve(node, "127.0.0.1:0") as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=10) as http,
    ):
        first = http.get("/v1/verdict").json()
        assert set(first) == {
            "verdict", "arm", "evidence", "needed", "expected_loss", "sentence"
        }  # fmt: skip
        assert first["verdict"] == "keep-going"
        with Client(server.url) as client:
            for _ in range(80):
                for arm in ARMS:
                    made = client.pull(allowed=[arm])
                    client.update(made, 1.0 if arm == "red" else 0.0)
            assert client.verdict()["sentence"].endswith("posse pin red")

        async def ask():
            async with AsyncClient(server.url, experiment="default") as client:
                return await client.verdict()

        assert asyncio.run(ask()) == http.get("/v1/verdict").json()
        text = http.get("/metrics").text
        assert 'posse_verdict_needed{experiment="default"} 2.99' in text
        assert "posse_verdict_evidence{" in text
        shapes = http.get("/openapi.json").json()["components"]["schemas"]
        assert shapes["VerdictAnswer"]["properties"]["verdict"]["enum"]


def test_without_stop_it_is_not_found(tmp_path):
    one = agent(stop=None)
    store = Store.open(tmp_path / "agent.db", fingerprint=one.fingerprint)
    made = Node(one, store, MemoryNetwork([("a", "b")]).transport("a"), neighbours=["b"])
    made.transport.start(made.receive)
    try:
        with (
            serve(made, "127.0.0.1:0") as server,
            httpx.Client(base_url=server.url, trust_env=False, timeout=10) as http,
            Client(server.url) as client,
        ):
            refused(http.get("/v1/verdict"), 404, "stop = {error = 0.05}")
            with pytest.raises(Unknown):
                client.verdict()
            assert "posse_verdict_evidence{" not in http.get("/metrics").text
    finally:
        made.stop()
