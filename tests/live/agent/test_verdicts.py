"""Verdicts of live agents: on closed evidence, of a view that is whole, and by every door."""

import asyncio

import httpx
import numpy as np
import pytest

import posse
from posse import families
from posse.live import AsyncClient, Client
from posse.live.agent.agent import Agent
from posse.live.agent.verdicts import Judgement, NamedVerdict, Stop, add_forecast
from posse.live.experiment.experiment import LiveExperiment
from posse.live.http import serve_node
from posse.live.messaging.transport.memory import MemoryNetwork
from posse.live.store import Store, StoreError, Unknown
from posse.stopping import Range
from tests.live.asking import refused
from tests.live.single import single_node

ARMS = ["red", "green"]


def agent(stop=Stop(), **keys):  # noqa: B008 (frozen)
    return Agent(ARMS, families.Bernoulli(), stop=stop, seed=1, **keys)


def learn(agent, arm, pulls, rewarded):
    for i in range(pulls):
        agent.learn(arm, 1.0 if i < rewarded else 0.0)


def test_a_winner_by_the_evidence_of_all():
    one = agent()
    assert one.verdict().sentence == "keep going: no closed decisions yet"
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


def lose(agent, arm, pulls=60):
    """Pulls without a reward, after which nothing would be named."""
    learn(agent, arm, pulls, 0)


def test_a_named_winner_is_not_taken_back():
    """The first crossing of a confidence sequence is valid for ever (Ville's inequality)."""
    one = agent()
    learn(one, "red", 100, 60)
    learn(one, "green", 100, 20)
    first = one.verdict(now=0.0)
    assert (first.verdict, first.since) == ("winner", 0.0)
    assert first.sentence.startswith("since 1970-01-01 00:00 UTC: red wins; wrong in at most 5%")
    lose(one, "red", 150)
    belief = np.array([[61.0, 21.0], [191.0, 81.0]])
    assert posse.verdict(one.family, belief).verdict == "keep-going"  # which has no memory
    later = one.verdict(now=60.0)
    assert (later.verdict, later.arm, later.since) == ("winner", "red", 0.0)
    assert (later.evidence, later.sentence) == (first.evidence, first.sentence)
    assert later.expected_loss > first.expected_loss
    learn(one, "red", 400, 400)
    assert one.verdict(now=120.0).evidence > first.evidence
    assert one.verdict(now=120.0).since == 0.0


def test_other_arms_are_another_question():
    one = agent()
    learn(one, "red", 100, 60)
    learn(one, "green", 100, 20)
    assert one.verdict(now=0.0).verdict == "winner"
    one.set_arms(["green", "red"])
    assert one.verdict(now=1.0).since == 0.0
    one.set_arms([*ARMS, "blue"])
    assert one.verdict(now=2.0).verdict == "keep-going"
    lose(one, "red", 150)
    one.set_arms(ARMS)
    assert one.verdict(now=3.0).verdict == "keep-going"


def test_two_winners_are_a_contradiction_that_is_not_hidden():
    one = agent()
    learn(one, "red", 100, 60)
    learn(one, "green", 100, 20)
    assert one.verdict(now=0.0).arm == "red"
    learn(one, "green", 400, 400)
    found = one.verdict(now=60.0)
    assert (found.verdict, found.arm) == ("winner", "red")
    assert "red was named the winner, but now green has the evidence of one" in found.sentence
    assert "posse pin" not in found.sentence


def test_no_difference_stays_and_may_become_a_winner():
    one = agent(Stop(tolerance=0.3))
    learn(one, "red", 400, 200)
    learn(one, "green", 400, 200)
    assert one.verdict(now=0.0).verdict == "no-difference"
    learn(one, "red", 60, 60)
    found = one.verdict(now=1.0)
    assert (found.verdict, found.since) == ("no-difference", 0.0)
    learn(one, "red", 400, 300)
    found = one.verdict(now=2.0)
    assert (found.verdict, found.arm, found.since) == ("winner", "red", 2.0)


def test_a_winner_is_one_before_the_evidence_of_neighbours_has_come_back():
    one = agent()
    learn(one, "red", 100, 60)
    learn(one, "green", 100, 20)
    first = one.verdict(now=0.0)
    fresh, there = agent(), agent(exchange_options={"batch": 1, "digest_every": 1})
    third = agent()
    third.connect("there")
    learn(third, "red", 1, 1)
    learn(there, "green", 1, 1)
    passed(third, there, "third")
    fresh.connect("there")
    there.connect("here")
    fresh.named_verdict = NamedVerdict.from_json(one.named_verdict.to_json())
    passed(there, fresh)
    assert not fresh.exchange.is_current()
    assert fresh.verdict(now=60.0) == first


def test_a_policy_that_starves_challengers_is_told_so():
    one, other = agent(), agent(policy=posse.TopTwo())
    learn(one, "red", 1, 1)
    learn(other, "red", 1, 1)
    assert one.verdict().sentence.endswith("; policy 'top-two' gets there sooner")
    assert other.verdict().sentence.endswith("of the 3.0 needed")


def test_only_closed_decisions_count():
    one = agent(silent_default=0.0)
    made = [one.count_decision(arm, 0.0) for arm in ARMS for _ in range(100)]
    for _ in range(60):
        one.correct_reward("red", 0.0, 1.0, made[0])
    assert one.verdict().evidence == 0.0
    for i in range(100):
        one.close_decision("red", 1.0 if i < 60 else 0.0, made[0])
        one.close_decision("green", 0.0, made[0])
    assert one.verdict().verdict == "winner"


def test_without_stop_there_is_no_verdict():
    with pytest.raises(ValueError, match="this experiment has no stopping rule"):
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
    few = agent(exchange="flows")
    learn(few, "red", 3, 1)
    assert few.verdict().sentence.startswith("keep going: choosing")


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
    assert fresh.verdict().sentence.startswith("keep going: a neighbour has evidence")


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
    there.tick(0.0)  # so that no digest is in the next message, but only in the tenth
    there.connect("here")
    assert here.exchange.is_current()  # a neighbour that was never heard is not waited for
    learn(there, "red", 3, 3)
    passed(there, here)
    assert not here.exchange.is_current()
    for _ in range(9):
        passed(there, here)
    assert here.exchange.is_current()


@pytest.fixture
def node(tmp_path):
    one = agent()
    store = Store.open(tmp_path / "agent.db", fingerprint=one.fingerprint)
    made = single_node(one, store, MemoryNetwork([("a", "b")]).transport("a"), neighbours=["b"])
    made.transport.start(made.receive)
    yield made
    made.stop()


def test_over_http_and_by_both_clients(node):
    with (
        serve_node(node, "127.0.0.1:0") as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=10) as http,
    ):
        first = http.get("/v1/verdict").json()
        assert set(first) == {
            "verdict", "arm", "evidence", "needed", "expected_loss", "sentence", "since",
            "probability_best", "more_decisions", "seconds_left",
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
        assert shapes["Judgement"]["properties"]["verdict"]["enum"]


def test_without_stop_it_is_not_found(tmp_path):
    one = agent(stop=None)
    store = Store.open(tmp_path / "agent.db", fingerprint=one.fingerprint)
    made = single_node(one, store, MemoryNetwork([("a", "b")]).transport("a"), neighbours=["b"])
    made.transport.start(made.receive)
    try:
        with (
            serve_node(made, "127.0.0.1:0") as server,
            httpx.Client(base_url=server.url, trust_env=False, timeout=10) as http,
            Client(server.url) as client,
        ):
            refused(http.get("/v1/verdict"), 404, "stop = {error = 0.05}")
            with pytest.raises(Unknown):
                client.verdict()
            assert "posse_verdict_evidence{" not in http.get("/metrics").text
    finally:
        made.stop()


def test_a_winner_outlives_the_process_and_a_disk_that_fails(tmp_path, monkeypatch):
    def start(arms=ARMS):
        one = Agent(arms, families.Bernoulli(), stop=Stop(), seed=1)
        store = Store.open(tmp_path / "agent.db", fingerprint=one.fingerprint)
        return LiveExperiment("default", one, store, clock=lambda: 86_400.0)

    def reward(experiment, arm, pulls, rewarded):
        for i in range(pulls):
            experiment.reward(experiment.decide(allowed=[arm]).id, float(i < rewarded))

    first = start()
    reward(first, "red", 100, 60)
    reward(first, "green", 100, 20)

    def fail(*_):
        raise StoreError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(first.store, "write_record", fail)
        assert first.verdict().verdict == "winner"
    found = first.verdict()
    commits = first.store.commits
    assert first.verdict() == found
    assert first.store.commits == commits  # a look writes nothing
    first.store.close()

    second = start()
    reward(second, "red", 150, 0)
    kept = second.verdict()
    assert (kept.verdict, kept.arm, kept.since) == ("winner", "red", 86_400.0)
    assert kept.evidence == found.evidence
    second.store.close()

    third = start([*ARMS, "blue"])
    assert third.verdict().verdict == "keep-going"
    third.store.close()
    fourth = start()
    assert fourth.verdict().verdict == "keep-going"  # of other arms once, so from the beginning
    fourth.store.close()


def test_a_forecast_of_the_winner_by_the_rate_so_far(tmp_path):
    """2,000 closed decisions in an hour, and the forecast in decisions: both make seconds."""
    one = agent()
    time = [1000.0]
    store = Store.open(tmp_path / "agent.db", fingerprint=one.fingerprint)
    experiment = LiveExperiment("default", one, store, clock=lambda: time[0])
    experiment.recorder.record_minute(time[0])
    assert experiment.verdict().seconds_left is None
    learn(one, "red", 1000, 50)
    learn(one, "green", 1000, 30)
    first = experiment.verdict()
    assert first.more_decisions is not None
    assert first.seconds_left is None  # there is one point only
    time[0] += 3600.0
    experiment.recorder.record_minute(time[0])
    later = experiment.verdict()
    assert later.seconds_left.likely == pytest.approx(later.more_decisions.likely * 1.8, rel=0.02)
    assert later.sentence.startswith(first.sentence + "; at this rate a winner may come in about ")
    assert NamedVerdict(later, ARMS, 0.05, None, False).to_json()
    store.close()


def test_a_forecast_is_in_words():
    more = Range(3600.0, 86_400.0 * 9, None)
    given = Judgement("keep-going", "red", 1.0, 3.0, 0.1, "keep going", more_decisions=more)
    assert add_forecast(given, 1.0).sentence == (
        "keep going; at this rate a winner may come in about 9 days (at least 60 minutes, or much "
        "later)"
    )
    assert add_forecast(given, None) is given
    assert add_forecast(given, 1e-9) is given  # in centuries
