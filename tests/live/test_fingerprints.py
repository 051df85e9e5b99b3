"""Fingerprints: those of 0.1 for ever, equal for equal numbers, and equal ones understood."""

from __future__ import annotations

import dataclasses
import random
import sqlite3
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from posse import families
from posse.live import fingerprints
from posse.live.agent import Agent
from posse.live.evidence import SIGNS, Evidence
from posse.live.exchange.messages import OriginsMessage
from posse.live.setup.experiments import experiment_from_data
from posse.live.store import Store

# What Posse 0.1 wrote into stores and messages: of its source, of numbers as they were given.
OF_0_1 = [
    ("origins", families.Bernoulli(), None, "ae683c452c6807abe8774f1ee2fd32db"),
    ("flows", families.Bernoulli(), None, "8b5b5e62cd321067ed54a3a89fa3c93d"),
    ("origins", families.Bernoulli(1, 19), None, "3dd0528be7ed0512fecf30122848170c"),
    ("flows", families.Bounded(2.0, 3.5), None, "0e83d952a88c3378b963e93e6206de48"),
    ("origins", families.Gaussian(20, 30, 10), (0, 500), "20ab714a67e04f02f453c5c3644f725e"),
    ("flows", families.Gaussian(0.1), (-1, 1.5), "21313cb0c202fddd40b3832e37c5cfae"),
    (
        "origins",
        families.GaussianUnknownVariance(),
        (-4, 4),
        "d3305b7b2a81ade9bf64c3e62ab6d448",
    ),
    ("origins", families.Poisson(2), (0, 50), "31f8fcc73cf3baa93636a1cbbb94a13c"),
    ("flows", families.Exponential(), (0, 1e-6), "dca698a9c22c475fc7d7c0864185163a"),
]
ARMS = ["a", "b"]
AS_INTS, AS_FLOATS = families.Bernoulli(1, 19), families.Bernoulli(1.0, 19.0)


def of(kind, family, reward_range=None):
    return fingerprints.spellings(
        kind, Evidence.of(family, reward_range, SIGNS if kind == "flows" else 0)
    )


def as_floats(family):
    values = {name: float(value) for name, value in dataclasses.asdict(family).items()}
    return replace(family, **values)


@pytest.mark.parametrize(("kind", "family", "reward_range", "digest"), OF_0_1)
def test_what_0_1_wrote_is_known(kind, family, reward_range, digest):
    """And it is still what is said first: neighbours of 0.1 know no other spelling.

    Seen: beside agents of 0.1 with `sigma = 20`, one on a new disk and with the same file was
    refused by all ("another fingerprint").
    """
    assert of(kind, family, reward_range)[0] == digest
    assert digest in of(kind, as_floats(family), reward_range)


def test_a_file_of_0_1_is_spelled_as_0_1_did():
    data = {"arms": ARMS, "reward_range": [0, 500]}
    numbers = {"sigma": 20, "prior_mean": 30, "prior_sd": 10}
    spelled = {case[1]: case[3] for case in OF_0_1}[families.Gaussian(20, 30, 10)]
    agent = experiment_from_data({**data, "family": {"name": "gaussian", **numbers}}).agent()
    assert agent.fingerprint == spelled
    floats = {name: float(value) for name, value in numbers.items()}
    agent = experiment_from_data({**data, "family": {"name": "gaussian", **floats}}).agent()
    assert agent.fingerprint != spelled
    assert spelled in agent.equal_fingerprints


@pytest.mark.parametrize(("kind", "family", "reward_range", "digest"), OF_0_1)
def test_equal_numbers_have_equal_fingerprints(kind, family, reward_range, digest):
    assert {*of(kind, family, reward_range)} == {*of(kind, as_floats(family), reward_range)}
    assert len(set(of(kind, family, reward_range))) == len(of(kind, family, reward_range))


def test_other_numbers_have_others():
    every = [set(of(*case[:3])) for case in OF_0_1]
    every += [set(of("origins", families.Bernoulli(), (0, 0.5)))]
    every += [set(of("origins", families.Gaussian(20, 30, 10), (0, 501)))]
    assert len(set().union(*every)) == sum(map(len, every))


@dataclass(frozen=True)
class Doubled(families.Poisson):
    """Somebody's own family: another name, or else it would be taken for the registered one."""

    name: ClassVar[str] = "doubled"
    extra: float = 0.0


@dataclass(frozen=True)
class Lomax(families.Poisson):
    """As if a registered family had got a new field."""

    weight: float = 1.0

    def statistic(self, rewards):
        return self.weight * super().statistic(rewards)


def test_a_new_field_locks_nobody_out(monkeypatch):
    """At its default the family is that of 0.1; with another number it is another."""
    monkeypatch.setitem(families.FAMILIES, "poisson", Lomax)
    assert {*of("origins", Lomax(2), (0, 50))} == {*of("origins", Lomax(2.0), (0, 50))}
    assert of("origins", Lomax(2), (0, 50))[0] == "31f8fcc73cf3baa93636a1cbbb94a13c"
    other = of("origins", Lomax(2, weight=3.0), (0, 50))
    assert not {*other} & {*of("origins", Lomax(2), (0, 50))}


def test_own_families_go_by_their_numbers():
    base = of("origins", Doubled(2), (0, 50))
    assert base == of("origins", Doubled(2.0, 1, 5.0), (0, 50))  # extra changes no belief
    for other in [Doubled(3), Doubled(2, 2), families.Poisson(2)]:
        assert not {*base} & {*of("origins", other, (0, 50))}


def test_experiments_and_networks_have_fingerprints_of_their_own():
    evidence = Evidence.of(AS_INTS)
    names = [("", "default"), ("", "a"), ("x", "a"), ("x a", "b"), ("x", "a b"), ("x", "b")]
    made = [
        fingerprints.spellings("origins", evidence, network=network, experiment=name)
        for network, name in names
    ]
    assert len({each[0] for each in made}) == len(names)
    assert [len(each) for each in made[1:]] == [1] * 5  # numbers have one spelling there
    assert made[0] == of("origins", AS_INTS)
    in_floats = fingerprints.spellings(
        "origins", Evidence.of(AS_FLOATS), network="x", experiment="a"
    )
    assert in_floats == made[2]


def test_a_store_of_0_1_with_whole_numbers_is_opened_and_goes_on_in_its_spelling(tmp_path):
    old = {case[1]: case[3] for case in OF_0_1}[AS_INTS]
    path = tmp_path / "agent.db"
    agent = Agent(ARMS, AS_FLOATS, seed=1)
    assert agent.fingerprint != old
    Store.open(path, fingerprint=old).close()
    with pytest.raises(
        ValueError, match="exchange, family, prior, reward_range, half_life or stop"
    ):
        Store.open(path, fingerprint=agent.fingerprint)
    with Store.open(path, fingerprint=agent.fingerprint, equal=agent.equal_fingerprints) as store:
        assert store.fingerprint == old
        agent.go_on_as(store.fingerprint)
    assert agent.fingerprint == agent.exchange.fingerprint == agent.state()["fingerprint"] == old
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT fingerprint FROM experiment").fetchone() == (old,)
    connection.close()
    again = Agent(ARMS, AS_FLOATS, seed=2)
    again.restore(agent.state())
    assert again.fingerprint == old


def signatures(name):
    """Not secret, but of one origin and one content."""
    return {
        "identity": name,
        "sign": lambda content: name.encode() + content,
        "verify": lambda origin, content, signature: signature == origin.encode() + content,
    }


@pytest.mark.parametrize("exchange", ["origins", "flows"])
def test_equal_spellings_exchange_over_a_third(exchange):
    """One that goes on in 0.1's spelling, one new; what one signed reaches the other by a relay."""
    old = of(exchange, AS_INTS)[0]
    agents = {}
    for name, spelling in {"old": old, "relay": old, "new": None}.items():
        options = signatures(name) if exchange == "origins" else {}
        agents[name] = Agent(
            ARMS, AS_FLOATS, exchange=exchange, exchange_options=options, seed=len(name)
        )
        if spelling:
            agents[name].go_on_as(spelling)
    assert len({agent.fingerprint for agent in agents.values()}) == 2
    for one, other in [("old", "relay"), ("relay", "new")]:
        agents[one].connect(other)
        agents[other].connect(one)
    agents["old"].learn("a", 1.0)
    agents["new"].learn("b", 0.0)
    for now in range(30):
        waiting = [(name, *sent) for name, agent in agents.items() for sent in agent.tick(now)]
        while waiting:
            source, target, message = waiting.pop(0)
            answers = agents[target].receive(source, message, now)
            waiting += [(target, *answer) for answer in answers]
    for agent in agents.values():
        assert not agent.exchange.refusals
        pulls = [status.pulls_in_network for status in agent.arms().values()]
        assert pulls == pytest.approx([1.0, 1.0], abs=0.05)


def test_after_a_bad_signature_the_rest_of_a_message_is_not_looked_at():
    tried = []
    options = signatures("reader") | {"verify": lambda *content: tried.append(content)}
    reader = Agent(ARMS, AS_FLOATS, exchange_options=options)
    liar = Agent(ARMS, AS_FLOATS, exchange_options=signatures("liar"))
    liar.connect("reader")
    liar.learn("a", 1.0)
    ((_, message),) = liar.tick(0.0)
    (entry,) = message.entries
    forged = tuple(replace(entry, incarnation=i) for i in range(100))
    reader.receive("liar", OriginsMessage(reader.fingerprint, forged, (), False), 0.0)
    assert reader.exchange.refusals == {"bad signature": 1}
    assert len(tried) == len(of("origins", AS_FLOATS)) == 4


def test_one_bad_signature_does_not_keep_out_another_spelling_for_ever():
    """Such as that of an authority which the relay trusts and the reader does not, sent first."""
    options = signatures("reader") | {"draw": random.Random(5).getrandbits}
    trusts = options["verify"]
    options["verify"] = lambda origin, *rest: origin != "stranger" and trusts(origin, *rest)
    reader = Agent(ARMS, AS_FLOATS, exchange_options=options)
    relay = Agent(ARMS, AS_FLOATS, exchange_options=signatures("relay"))
    relay.connect("reader")
    for name, spelling in [("stranger", None), ("old", of("origins", AS_INTS)[0])]:
        origin = Agent(ARMS, AS_FLOATS, exchange_options=signatures(name))
        origin.go_on_as(spelling or origin.fingerprint)
        origin.connect("relay")
        origin.learn("a", 1.0)
        for _, message in origin.tick(0.0):
            relay.receive(name, message, 0.0)
    for now in range(50):  # each time one or the other is first
        for _, message in relay.tick(now):
            for _, answer in reader.receive("relay", message, now):
                relay.receive("reader", answer, now)
    assert reader.exchange.known() == {"reader", "old"}
