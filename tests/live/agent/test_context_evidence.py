"""Evidence of contexts: whole numbers of rounded features, and the belief that they sum up to."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posse import beliefs, families
from posse.contexts import Contexts
from posse.live.agent.context_evidence import ExpansionPoint
from posse.live.agent.evidence import Evidence
from posse.live.ledger.bounds import Bounds
from posse.live.ledger.sums import PER_UNIT
from tests.live.visits import (
    ARMS,
    FAMILIES,
    SCHEMA,
    exchanged,
    grams,
    make_agent_evidence,
    reward_of,
    shop,
    visit,
)

KINDS = pytest.mark.parametrize("kind", FAMILIES)


@KINDS
def test_the_belief_of_one_agent_is_the_labs_with_the_same_rounded_features(kind):
    agent, generator = shop(kind), np.random.default_rng(3)
    evidence = make_agent_evidence(agent)
    belief = beliefs.prior(agent.family, (), len(ARMS))
    for _ in range(250):
        context = visit(generator)
        decision = agent.pull(context=context)
        met = agent.expansion_point(decision.arm, agent.encode_context(context).x)
        x = evidence.sums.round_features(met)
        assert np.abs(x - met.x).max() <= 0.5 / (1024 * 0.018)  # half of the smallest step
        reward = reward_of(kind, generator)
        arm = np.array(ARMS.index(decision.arm))
        at = agent.family.at_context(belief, met.x)[:, arm]
        if kind == "logistic":  # linearised where the lab would
            assert at[0] / at[1] == pytest.approx(met.log_odds, abs=1e-4)
        statistic = agent.family.statistic(np.array(reward), x, at)
        belief[:, arm] += statistic
        agent.update(decision, reward)
    size = np.abs(belief).max(axis=1, keepdims=True)
    np.testing.assert_allclose(agent.belief, belief, atol=2**-10, rtol=0)
    assert (np.abs(agent.belief - belief) <= 1e-4 * size + 1e-9).all()


@KINDS
def test_without_rounding_it_is_nearly_what_the_lab_learns(kind):
    """Features rounded to a thousandth cost next to nothing."""
    agent, generator = shop(kind), np.random.default_rng(4)
    belief = beliefs.prior(agent.family, (), len(ARMS))
    for _ in range(250):
        context = visit(generator)
        decision = agent.pull(context=context)
        reward = reward_of(kind, generator)
        x = agent.encode_context(context).x
        arm = np.array(ARMS.index(decision.arm))
        belief = beliefs.observe(belief, arm, np.array(reward), agent.family, 1.0, x)
        agent.update(decision, reward)
    x = agent.encode_context(visit(generator)).x
    got, wanted = (agent.family.at_context(each, x) for each in (agent.belief, belief))
    np.testing.assert_allclose(got[1], wanted[1], rtol=5e-3)
    np.testing.assert_allclose(got[0] / got[1], wanted[0] / wanted[1], atol=0.02)


@KINDS
def test_gram_matrices_in_whole_numbers_have_no_negative_direction(kind):
    """Rounded features: whatever was met, the sum is positive semidefinite by construction."""
    agent, generator = shop(kind), np.random.default_rng(5)
    for _ in range(1000):
        x = agent.encode_context(visit(generator)).x
        agent.learn("red", reward_of(kind, generator), x=x)
    for matrix in grams(agent, agent.exchange.own()["red"]):
        values = np.linalg.eigvalsh((matrix / PER_UNIT).astype(float))
        # country = unknown, de, fr, it do not add up to 1, but hour and "hour missing" may be near
        assert values.min() > -1e-12 * values.max()
        precision = matrix / PER_UNIT + np.eye(len(matrix)) / agent.family.prior_sd**2
        assert np.linalg.eigvalsh(precision.astype(float)).min() > 0


@KINDS
def test_one_pull_is_within_its_bounds(kind):
    agent, generator = shop(kind), np.random.default_rng(6)
    evidence = make_agent_evidence(agent)
    bounds = Bounds(evidence.bounds, evidence.closed_sums, features=evidence.features)
    ends = evidence.reward_range
    for u in (-8.0, -3.0, 0.0, 1.5434, 8.0):
        for reward in (*ends, reward_of(kind, generator)):
            met = ExpansionPoint(agent.encode_context(visit(generator)).x, u)
            quanta = evidence.quantize_reward(reward, generator, met)
            assert bounds.check_observation("red", quanta) == quanta
            assert bounds.allow_row("a", quanta)
            assert quanta[-1] == PER_UNIT
    assert max(abs(q) for q in quanta) <= 1.25 * PER_UNIT


@KINDS
def test_parts_of_a_decision_add_up_to_its_reward_in_whole_numbers(kind):
    """Begun, corrected and closed is heard at once, to the quantum; also where it is moved."""
    agent, generator = shop(kind), np.random.default_rng(7)
    evidence, x = make_agent_evidence(agent), agent.encode_context(visit(generator)).x
    begun, closed = ExpansionPoint(x, -3.0), ExpansionPoint(x, -1.0)
    for assumed, reward in ((0.0, 1.0), (0.0, 0.0), (0.0, 0.25)):
        parts = [
            evidence.quantize_decision(assumed, begun),
            evidence.quantize_correction(assumed, reward, begun),
            evidence.quantize_closing(reward, generator, begun, closed),
        ]
        whole = evidence.quantize_reward(reward, generator, closed)
        assert tuple(map(sum, zip(*parts, strict=True))) == whole
        still = evidence.quantize_closing(reward, generator, begun, begun)
        assert not any(still[: evidence.sums.n_sums])


@KINDS
def test_the_reward_comes_first(kind):
    agent, generator = shop(kind), np.random.default_rng(8)
    rewards = [reward_of(kind, generator) for _ in range(50)]
    for reward in rewards:
        agent.learn("green", reward, x=agent.encode_context(visit(generator)).x)
    quanta = agent.exchange.own()["green"]
    assert agent.reward_sum(quanta) == pytest.approx(sum(rewards), abs=50 * 3 / PER_UNIT)
    assert agent.summarize_pulls(quanta)[:2] == (50.0, 50.0)


def test_the_average_visit_is_that_of_all_agents():
    agents, generator = {name: shop("linear") for name in "ab"}, np.random.default_rng(9)
    met = []
    for _ in range(40):
        for agent in agents.values():
            x = agent.encode_context(visit(generator)).x
            met.append(x)
            agent.learn(ARMS[len(met) % 3], 1.0, x=x)
    assert agents["a"].average_features()[1] not in (0.0, pytest.approx(np.mean(met, axis=0)[1]))
    exchanged(agents)
    for agent in agents.values():
        np.testing.assert_allclose(agent.average_features(), np.mean(met, axis=0), atol=1e-3)


def test_before_the_first_visit_the_average_is_of_nothing_known():
    np.testing.assert_array_equal(shop().average_features(), np.eye(1, 8)[0])


@settings(max_examples=40, deadline=None)
@given(data=st.data(), d=st.integers(1, 5), n=st.integers(1, 30))
def test_sums_of_any_features_pass_every_check(data, d, n):
    """No honest agent is refused, however odd what it met."""
    numbers = st.floats(-1, 1, allow_nan=False, allow_subnormal=False)
    context = Contexts({f"f{i}": (-1, 1) for i in range(d - 1)})
    evidence = Evidence.for_family(families.Logistic(rate=0.5), closed=True, context=context)
    bounds = Bounds(evidence.bounds, evidence.closed_sums, features=d)
    total = [0] * bounds.dimension
    for _ in range(n):
        x = np.array([1.0, *data.draw(st.lists(numbers, min_size=d - 1, max_size=d - 1))])
        met = ExpansionPoint(x, data.draw(st.floats(-8, 8)))
        row = evidence.quantize_reward(data.draw(st.sampled_from([0.0, 1.0])), None, met)
        total = [a + b for a, b in zip(total, row, strict=True)]
    assert bounds.allow_row("a", total)


@pytest.mark.parametrize(
    ("family", "context", "words"),
    [
        (families.Bernoulli(), SCHEMA, "^context does not go with family 'bernoulli'"),
        (families.Logistic(rate=0.1), None, "^family 'logistic' needs a context"),
        (families.Linear(), None, "^family 'linear' needs a context"),
        (families.Linear(shared=True), SCHEMA, "^family.shared needs features of arms"),
        (families.Linear(features=3), SCHEMA, "^features is 3 in Linear, but contexts have 8"),
        (families.Linear(), SCHEMA, "^reward_range must be given for family 'linear'"),
    ],
)
def test_a_family_and_a_context_need_each_other(family, context, words):
    schema = None if context is None else Contexts(context)
    with pytest.raises(ValueError, match=words):
        Evidence.for_family(family, context=schema)


def fingerprint(**changes):
    return shop("linear", **changes).fingerprint


def test_every_word_of_the_schema_is_in_the_fingerprint():
    """Another meaning of a column is another network; how often is the lab's business."""
    plain = fingerprint()
    others = [
        {**SCHEMA, "country": ["de", "fr", "at"]},
        {**SCHEMA, "country": ["fr", "de", "it"]},
        {**SCHEMA, "basket": {"low": 0, "high": 501}},
        {**SCHEMA, "Returning": SCHEMA["returning"]},
        dict(reversed(SCHEMA.items())),
        {name: field for name, field in SCHEMA.items() if name != "hour"},
        {**SCHEMA, "hour": {"low": 0, "high": 24}, "more": "flag"},  # as many columns
    ]
    assert len({plain, *(fingerprint(context=each) for each in others)}) == len(others) + 1
    assert fingerprint(context={**SCHEMA, "basket": (0.0, 500.0)}) == plain
    often = {"categories": ["de", "fr", "it"], "shares": [0.5, 0.25, 0.25]}
    assert fingerprint(context={**SCHEMA, "country": often}) == plain
    assert fingerprint(context=json.loads(json.dumps(SCHEMA))) == plain
    assert fingerprint(reward_range=(-2, 4)) != plain
