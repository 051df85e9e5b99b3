"""Agents whose visitors differ: what they choose by, learn, show and refuse; without I/O."""

from collections import Counter

import numpy as np
import pytest

from posse import beliefs, families, policies
from posse.live.agent.action_selection import Shares
from posse.live.agent.agent import Agent
from posse.live.agent.arm_status import expansion_log_odds
from posse.live.ledger.sums import PER_UNIT
from posse.summary import probability_best, summarise
from tests.live.visits import ARMS, FAMILIES, SCHEMA, exchanged, reward_of, shop, visit

KINDS = pytest.mark.parametrize("kind", FAMILIES)
DE = {"country": "de", "returning": True, "basket": 100, "hour": 3}


def taught(kind="logistic", pulls=120, seed=2, **options):
    """An agent that has learned something."""
    agent, generator = shop(kind, **options), np.random.default_rng(seed)
    for _ in range(pulls):
        x = agent.encode_context(visit(generator)).x
        agent.learn(str(generator.choice(agent.arm_names)), reward_of(kind, generator), x=x)
    return agent


@KINDS
def test_the_probability_of_a_choice_is_that_at_its_context(kind):
    agent = taught(kind)
    for context in (DE, {**DE, "country": "fr", "basket": 450}):
        at = agent.family.at_context(agent.belief, agent.encode_context(context).x)
        wanted = dict(zip(ARMS, probability_best(agent.family.at_mean, at), strict=True))
        drawn = Counter()
        for _ in range(1000):
            arm, probability = agent.choose(None, context)
            assert probability == pytest.approx(wanted[arm], abs=1e-6)
            drawn[arm] += 1
        for arm, chance in wanted.items():  # five standard errors
            assert abs(drawn[arm] / 1000 - chance) < 5 * np.sqrt(chance * (1 - chance) / 1000)


def test_a_batch_of_visits_is_decided_one_by_one_or_at_once_alike():
    agent, generator = taught(), np.random.default_rng(4)
    wishes = [None, ["red", "blue"], ["red"], None, ["blue", "red"]] * 8
    visits = [agent.encode_context(visit(generator)) for _ in wishes]
    for choice, allowed, features in zip(
        agent.draw_choices(wishes, visits), wishes, visits, strict=True
    ):
        names = ARMS if allowed is None else allowed
        at = agent.family.at_context(agent.belief, features.x)[
            :, [ARMS.index(name) for name in names]
        ]
        wanted = [1.0] if len(names) == 1 else probability_best(agent.family.at_mean, at)
        assert choice.allowed == tuple(names)
        np.testing.assert_allclose(choice.probabilities, wanted, atol=1e-6)
        assert choice.probability == choice.probabilities[names.index(choice.arm)]


@pytest.mark.parametrize(
    "policy",
    [
        policies.ThompsonSampling(),
        policies.TopTwo(),
        policies.BayesUCB(),
        policies.Greedy(),
        policies.RandUCB(),
    ],
    ids=lambda policy: policy.name,
)
@pytest.mark.parametrize("n_arms", [3, 12])  # more than race at once
def test_every_policy_plays_at_contexts(policy, n_arms):
    arms = [f"arm{k}" for k in range(n_arms)]
    agent = taught(arms=arms, policy=policy)
    x = agent.encode_context(DE).x
    at = agent.family.at_context(agent.belief, x)
    t = agent.count_rounds() + 1
    wanted = policy.probabilities(at, agent.family.at_mean, t, None)
    (choice,) = agent.draw_choices([None], [agent.encode_context(DE)])
    np.testing.assert_allclose(choice.probabilities, wanted, atol=1e-6)
    assert choice.probability > 0


def test_shares_hold_at_contexts():
    agent = taught(min_share=0.05, new_arm_share=0.2, new_arm_pulls=100, arms=[*ARMS, "new"])
    for _ in range(400):
        agent.learn("red", 0.0, x=agent.encode_context(DE).x)
        agent.learn("green", 1.0, x=agent.encode_context(DE).x)
    (choice,) = agent.draw_choices([None], [agent.encode_context(DE)])
    at = agent.family.at_context(agent.belief, agent.encode_context(DE).x)
    said = probability_best(agent.family.at_mean, at)
    settled = probability_best(agent.family.at_mean, at[:, :2])
    new = said[2:].sum()
    wanted = said
    if new > 0.2:
        wanted = np.array([*(0.8 * settled), *(0.2 * said[2:] / new)])
    np.testing.assert_allclose(choice.probabilities, 0.8 * wanted + 0.05, atol=1e-6)
    assert agent.shares == Shares(0.05, 0.2, 100)


@KINDS
def test_arms_are_shown_at_a_context_and_on_average(kind):
    agent = taught(kind)
    average = agent.average_features()
    for context, x in (
        (None, average),
        ({}, average),
        (DE, agent.encode_context(DE).x),
        ({"country": "de"}, [1, 1, 0, 0, *average[4:]]),
        ({"returning": False, "hour": None}, [*average[:4], -1, average[5], 0, 1]),
    ):
        at = agent.family.at_context(agent.belief, np.array(x, dtype=float))
        wanted = summarise(agent.family.at_mean, at)
        for k, (arm, shown) in enumerate(agent.arms(context=context).items()):
            assert arm == ARMS[k]
            assert shown.mean == pytest.approx(wanted.mean[k], rel=1e-6)
            assert (shown.low, shown.high) == pytest.approx(
                (wanted.low[k], wanted.high[k]), rel=1e-6
            )
            assert shown.probability_best == pytest.approx(wanted.probability_best[k], abs=1e-6)
            assert shown.expected_loss == pytest.approx(wanted.expected_loss[k], abs=1e-6)
    assert agent.arms()["red"] != agent.arms(context=DE)["red"]


@pytest.mark.parametrize(
    ("context", "words"),
    [
        (None, "^context is missing: this experiment needs country, returning, basket, hour$"),
        ({"country": "de", "returning": True}, r"^context\.basket is missing$"),
        ({**DE, "basket": None}, r"^context\.basket is missing$"),
        ({**DE, "basket": float("nan")}, r"^context\.basket must be a finite number, got nan$"),
        ({**DE, "basket": 10**400}, r"^context\.basket must be a finite number"),
        ({**DE, "basket": "12"}, r"^context\.basket must be a number, got '12'$"),
        ({**DE, "basket": True}, r"^context\.basket must be a number, got True$"),
        ({**DE, "country": 3}, r"^context\.country must be text, got 3$"),
        ({**DE, "country": "x" * 201}, r"^context\.country must have at most 200 characters"),
        ({**DE, "returning": 1}, r"^context\.returning must be true or false, got 1$"),
        ({**DE, "colour": "red"}, "^context: 'colour' is unknown"),
        ([], "^context must be a table of names and values"),
    ],
)
def test_a_bad_context_is_refused_in_a_sentence(context, words):
    agent = taught()
    before = agent.exchange.own()
    for ask in (agent.choose, agent.pull):
        with pytest.raises(ValueError, match=words):
            ask(None, context)
    assert agent.exchange.own() == before
    with pytest.raises(ValueError, match=r"^context must be left out"):
        Agent(ARMS, families.Bernoulli()).pull(None, DE)
    with pytest.raises(ValueError, match=r"^context must be left out"):
        Agent(ARMS, families.Bernoulli()).arms(context=DE)
    with pytest.raises(ValueError, match=r"^context: 'contry' is unknown: did you mean 'country'"):
        agent.arms(context={"contry": "de"})
    with pytest.raises(ValueError, match=r"^context\.country must be text"):
        agent.arms(context={"country": 3})


def test_what_the_schema_does_not_know_is_answered():
    agent = taught()
    features = agent.encode_context({**DE, "country": "at", "basket": 700})
    assert (features.unknown, features.clipped) == (("country",), ("basket",))
    np.testing.assert_array_equal(features.x, [1, 0, 0, 0, 1, 1, -0.75, 0])
    assert agent.choose(None, {**DE, "country": "at"})[0] in ARMS


def test_the_reward_of_an_arm_that_is_played_no_more_is_learned():
    agent = taught()
    x = agent.encode_context(DE).x
    agent.set_arms(["red", "green"])
    at = agent.family.at_context(beliefs.prior(agent.family, (), 1), x)
    new = agent.expansion_point("purple", x)  # of which there is no evidence at all
    assert new.log_odds == pytest.approx((at[0] / at[1]).item())
    gone = agent.expansion_point("blue", x)
    agent.set_arms(ARMS)
    assert gone.log_odds == pytest.approx(agent.expansion_point("blue", x).log_odds, abs=1e-9)


def closed_later(agent, visits, order):
    """Decisions that count from their start, rewarded later, and closed in an order."""
    begun = []
    for arm, x, reward in visits:
        met = agent.expansion_point(arm, x)
        begun.append((arm, x, reward, met, agent.count_decision(arm, 0.0, point=met)))
    for arm, _, reward, met, made in begun:
        if reward:
            agent.correct_reward(arm, 0.0, reward, made, point=met)
    for nth in order:
        arm, _, reward, met, made = begun[nth]
        agent.close_decision(arm, reward, made, point=met)
    return begun


@KINDS
def test_decisions_that_count_from_the_start_end_as_if_heard_when_they_closed(kind):
    """Open decisions draw the belief that is acted on; closed ones end where the lab's would."""
    agent, heard, generator = shop(kind), shop(kind), np.random.default_rng(6)
    visits = [
        (str(generator.choice(ARMS)), agent.encode_context(visit(generator)).x, float(nth % 4 == 0))
        for nth in range(60)
    ]
    order = generator.permutation(60)
    before = shop(kind).belief
    closed_later(agent, visits, order[:0])
    assert not np.array_equal(agent.belief, before)
    np.testing.assert_array_equal(
        agent.closed_posteriors.current, before
    )  # people are shown none of it
    assert agent.arms()["red"].pulls_here == 0
    agent = shop(kind)
    closed_later(agent, visits, order)
    for nth in order:
        arm, x, reward = visits[nth]
        heard.learn(arm, reward, x=x)
    assert agent.exchange.own() == heard.exchange.own()
    np.testing.assert_array_equal(agent.belief, heard.belief)
    np.testing.assert_array_equal(agent.belief, agent.closed_posteriors.current)


def test_open_decisions_do_not_move_the_point_of_linearisation():
    """Many that have not paid yet look like failures: expanded there, successes would overshoot."""
    agent = shop()
    x = agent.encode_context(DE).x
    first = agent.expansion_point("red", x)
    begun = []
    for _ in range(300):
        met = agent.expansion_point("red", x)
        begun.append((met, agent.count_decision("red", 0.0, point=met)))
    assert agent.expansion_point("red", x).log_odds == pytest.approx(first.log_odds)
    acted_on = agent.family.at_context(agent.belief, x)[:, 0]
    assert expansion_log_odds(acted_on) < first.log_odds - 0.5
    for met, made in begun[:30]:  # of which a tenth pays, as was thought
        agent.correct_reward("red", 0.0, 1.0, made, point=met)
    acted_on = agent.family.at_context(agent.belief, x)[:, 0]
    assert expansion_log_odds(acted_on) == pytest.approx(first.log_odds, abs=0.01)


@KINDS
def test_evidence_of_contexts_fades(kind):
    clock = [0.0]
    options = {"clock": lambda: clock[0], "identity": "me"}
    agent = shop(kind, half_life=100.0, exchange_options=options)
    generator = np.random.default_rng(7)
    agent.tick(0.0)
    for _ in range(200):
        agent.learn(
            "red", reward_of(kind, generator), x=agent.encode_context(visit(generator)).x, at=0.0
        )
    start = agent.family.prior()
    first = agent.belief[:, 0] - start
    for now in (100.0, 250.0, 1000.0):
        clock[0] = now
        agent.tick(now)
        faded = agent.belief[:, 0] - start
        np.testing.assert_allclose(faded, first * 2 ** (-now / 100), rtol=1e-3, atol=0.01)
        agent.learn("green", reward_of(kind, generator), x=agent.encode_context(DE).x, at=now)
    clock[0] = 8000.0
    agent.tick(8000.0)
    np.testing.assert_allclose(agent.belief[:, 0], start, atol=1e-6)
    assert agent.choose(None, DE)[1] > 0


def test_another_schema_at_a_neighbour_is_refused_and_counted():
    agents = {"a": taught(), "b": shop(context={**SCHEMA, "country": ["de", "fr", "at"]})}
    exchanged(agents)
    assert agents["b"].exchange.refusals["fingerprint_mismatch"] > 0
    assert not agents["b"].exchange.evidence()
    assert set(agents["b"].exchange.refusals) == {"fingerprint_mismatch"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"exchange": "flows", "network_size": 3},
            "^contexts need exchange 'origins': flows give no honest intervals for them$",
        ),
        ({"sites": "differ"}, "make the site a category of the context instead$"),
        ({"sites": 0.2}, "^sites = 0.2 does not go with a context"),
        ({"context": {"f": [str(n) for n in range(64)]}}, "^contexts have 65 columns.* merge rare"),
        (
            {"context": {f"f{n}": (0, 1) for n in range(63)}, "arms": [f"a{n}" for n in range(5)]},
            r"^context has 64 columns and there are 5 arms: 5 x 4292 numbers are too many",
        ),
    ],
)
def test_what_does_not_go_with_contexts_is_refused_in_a_sentence(options, words):
    with pytest.raises(ValueError, match=words):
        shop(**options)


def test_as_many_arms_as_fit_into_a_message():
    """Of 64 columns four arms do, and no further one is taken in later."""
    agent = shop(context={f"f{n}": (0, 1) for n in range(63)}, arms=list("abcd"))
    with pytest.raises(ValueError, match=r"^context has 64 columns and there are 5 arms"):
        agent.set_arms(list("abcde"))
    agent.learn("d", 1.0, x=agent.average_features())
    agents = {"a": agent, "b": shop(context=agent.context, arms=list("abcd"))}
    exchanged(agents)
    assert agents["b"].exchange.evidence() == agent.exchange.own()


def test_what_fades_is_rounded_and_no_neighbour_refuses_it():
    """Of a number that hardly moves a feature is one step: rounded with its weight, it is apart."""
    clock = [0.0]
    context = {"odd": {"low": -1000, "high": 1000}, "flag": "flag"}
    agents = {}
    for name in "ab":
        options = {"clock": lambda: clock[0], "identity": name}
        agents[name] = shop(context=context, half_life=100.0, exchange_options=options)
    agent = agents["a"]
    for now in range(0, 1000, 5):
        clock[0] = float(now)
        agent.tick(clock[0])
        for _ in range(3):
            x = agent.encode_context({"odd": 3, "flag": True}).x
            met = agent.expansion_point("red", x)
            made = agent.count_decision("red", 0.0, at=clock[0], point=met)
            agent.correct_reward("red", 0.0, 1.0, made, at=clock[0], point=met)
            agent.close_decision("red", 1.0, made, at=clock[0], point=met)
    assert agent.exchange.own()["red"][-1] % PER_UNIT  # a faded count is no whole number
    for name, other in agents.items():
        other.connect("b" if name == "a" else "a")
    waiting = [("a", *sent) for sent in agent.tick(clock[0])]
    for _, receiver, message in waiting:
        agents[receiver].receive("a", message, clock[0])
    assert agents["b"].exchange.evidence()["red"][-1] > 0
    assert not agents["b"].exchange.refusals
