"""Fingerprints: a version, equal for equal numbers, and what is said under another is refused."""

from __future__ import annotations

import dataclasses
import random
import re
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from posse import families
from posse.live.agent import factory as fingerprints
from posse.live.agent.agent import Agent
from posse.live.agent.evidence import SIGNS, Evidence
from posse.live.config.experiment_settings import experiment_from_data
from posse.live.exchange.messages import OriginsMessage

CASES = [
    ("origins", families.Bernoulli(), None),
    ("flows", families.Bernoulli(), None),
    ("origins", families.Bernoulli(1, 19), None),
    ("flows", families.Bounded(2.0, 3.5), None),
    ("origins", families.Gaussian(20, 30, 10), (0, 500)),
    ("flows", families.Gaussian(0.1), (-1, 1.5)),
    ("origins", families.GaussianUnknownVariance(), (-4, 4)),
    ("origins", families.Poisson(2), (0, 50)),
    ("flows", families.Exponential(), (0, 1e-6)),
]
ARMS = ["a", "b"]
AS_INTS, AS_FLOATS = families.Bernoulli(1, 19), families.Bernoulli(1.0, 19.0)


def of(kind, family, reward_range=None):
    return fingerprints.compute_fingerprint(
        kind, Evidence.for_family(family, reward_range, SIGNS if kind == "flows" else 0)
    )


def as_floats(family):
    values = {name: float(value) for name, value in dataclasses.asdict(family).items()}
    return replace(family, **values)


def test_a_fingerprint_says_its_version():
    assert re.fullmatch(rf"{fingerprints.VERSION}-[0-9a-f]{{32}}", of("origins", AS_INTS))
    assert fingerprints.VERSION == 1


@pytest.mark.parametrize(("kind", "family", "reward_range"), CASES)
def test_equal_numbers_have_equal_fingerprints(kind, family, reward_range):
    assert of(kind, family, reward_range) == of(kind, as_floats(family), reward_range)


def test_a_file_may_write_whole_numbers_with_a_point_or_without():
    data = {"arms": ARMS, "reward_range": [0, 500]}
    numbers = {"sigma": 20, "prior_mean": 30, "prior_sd": 10}
    floats = {name: float(value) for name, value in numbers.items()}
    one, other = (
        experiment_from_data({**data, "family": {"name": "gaussian", **written}}).make_agent()
        for written in (numbers, floats)
    )
    assert one.fingerprint == other.fingerprint


def test_other_numbers_have_others():
    every = [of(*case) for case in CASES]
    every += [of("origins", families.Bernoulli(), (0, 0.5))]
    every += [of("origins", families.Gaussian(20, 30, 10), (0, 501))]
    assert len(set(every)) == len(every)


@dataclass(frozen=True)
class Doubled(families.Poisson):
    """Somebody's own family: another name, or else it would be taken for the registered one."""

    name: ClassVar[str] = "doubled"
    extra: float = 0.0


def test_own_families_go_by_their_numbers():
    base = of("origins", Doubled(2), (0, 50))
    assert base == of("origins", Doubled(2.0, 1, 5.0), (0, 50))  # extra changes no belief
    for other in [Doubled(3), Doubled(2, 2), families.Poisson(2)]:
        assert base != of("origins", other, (0, 50))


def test_experiments_and_networks_have_fingerprints_of_their_own():
    evidence = Evidence.for_family(AS_INTS)
    names = [("", "default"), ("", "a"), ("x", "a"), ("x a", "b"), ("x", "a b"), ("x", "b")]
    made = [
        fingerprints.compute_fingerprint("origins", evidence, network=network, experiment=name)
        for network, name in names
    ]
    assert len(set(made)) == len(names)
    assert made[0] == of("origins", AS_INTS)
    in_floats = fingerprints.compute_fingerprint(
        "origins", Evidence.for_family(AS_FLOATS), network="x", experiment="a"
    )
    assert in_floats == made[2]


def test_a_state_of_other_numbers_is_refused():
    state = Agent(ARMS, AS_INTS, seed=1).state()
    Agent(ARMS, AS_FLOATS, seed=2).restore(state)
    with pytest.raises(ValueError, match="another exchange, family or prior"):
        Agent(ARMS, families.Bernoulli(), seed=2).restore(state)


def signatures(name):
    """Not secret, but of one origin and one content."""
    return {
        "identity": name,
        "sign": lambda content: name.encode() + content,
        "verify": lambda origin, content, signature: signature == origin.encode() + content,
    }


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
    assert reader.exchange.refusals == {"signature_invalid": 1}
    assert len(tried) == 1


def test_one_bad_signature_does_not_keep_out_another_origin_for_ever():
    """Such as that of an authority which the relay trusts and the reader does not, sent first."""
    options = signatures("reader") | {"draw": random.Random(5).getrandbits}
    trusts = options["verify"]
    options["verify"] = lambda origin, *rest: origin != "stranger" and trusts(origin, *rest)
    reader = Agent(ARMS, AS_FLOATS, exchange_options=options)
    relay = Agent(ARMS, AS_FLOATS, exchange_options=signatures("relay"))
    relay.connect("reader")
    for name in ("stranger", "honest"):
        origin = Agent(ARMS, AS_FLOATS, exchange_options=signatures(name))
        origin.connect("relay")
        origin.learn("a", 1.0)
        for _, message in origin.tick(0.0):
            relay.receive(name, message, 0.0)
    for now in range(50):  # each time one or the other is first
        for _, message in relay.tick(now):
            for _, answer in reader.receive("relay", message, now):
                relay.receive("reader", answer, now)
    assert reader.exchange.known() == {"reader", "honest"}
