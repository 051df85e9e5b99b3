"""Weighted rendezvous hashing: the laws of a visitor's arm.

Statistical tests use fixed visitor ids, so their outcome never changes; each would fail for at most
one in a million other sets of ids (ERROR).
"""

from hashlib import blake2b
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import posse
from posse.live.agent.rendezvous_hashing import (
    MAX_VISITOR_LENGTH,
    VisitorHash,
    validate_visitor,
)

ERROR = 1e-6
ARMS = ("red", "green", "blue", "gold")
MANY = 100_000
BEFORE = np.array([0.4, 0.3, 0.2, 0.1])
AFTER = {
    "little": np.array([0.42, 0.3, 0.19, 0.09]),
    "much": np.array([0.05, 0.15, 0.2, 0.6]),
    "an arm is out": np.array([0.5, 0.0, 0.3, 0.2]),
}


def hash_plainly(network, *parts):
    """The number of some texts, written down a second time from the definition."""
    message = b"".join(len(part.encode()).to_bytes(8, "big") + part.encode() for part in parts)
    digest = blake2b(message, key=network.encode(), digest_size=8).digest()
    bits = "".join(f"{byte:08b}" for byte in digest)[:53]
    return max(int(bits, 2), 1) / 2**53


@pytest.fixture(scope="module")
def numbers():
    """The uniform numbers of many visitors, (MANY, 4)."""
    hashed = VisitorHash("shop", "checkout")
    flat = [hashed.uniform(f"u-{i}", arm) for i in range(MANY) for arm in ARMS]
    return np.reshape(flat, (MANY, len(ARMS)))


def race(numbers, p):
    """The arms of visitors by the definition: the smallest -ln(u) / p, of arms with p > 0."""
    with np.errstate(divide="ignore"):
        return (-np.log(numbers) / p).argmin(axis=1)


def share_that_moves(p, q):
    """The share of visitors whose arm changes as probabilities move from p to q, both positive."""
    return 1 - sum(1 / np.maximum(p / p[k], q / q[k]).sum() for k in range(len(p)))


def test_a_number_is_a_hash_of_three_texts_that_any_language_can_compute(numbers):
    assert numbers[17, 0] == hash_plainly("shop", "checkout", "u-17", "red")
    odd = VisitorHash("n" * 64, "ß").uniform("ü 1\n", "")
    assert odd == hash_plainly("n" * 64, "ß", "ü 1\n", "")
    # written down, so that the arms of visitors stay the same in all later versions
    assert VisitorHash("default", "default").uniform("u-17", "red") == 0.009556251366647284


def test_numbers_are_uniform_and_never_0_or_1(numbers):
    assert 0 < numbers.min() < numbers.max() < 1
    assert stats.kstest(numbers.ravel(), "uniform").pvalue > ERROR


def test_no_two_lists_of_texts_are_hashed_alike():
    texts = ("", "a", "b", "ab", "ba", "a\0", "\0a")
    hashes = {
        (network, experiment, *parts): VisitorHash(network, experiment).uniform(*parts)
        for network, experiment in product(texts, repeat=2)
        for count in (1, 2)
        for parts in product(texts, repeat=count)
    }
    assert len(set(hashes.values())) == len(hashes)
    long_names = [VisitorHash("n" * size, "e").uniform("v") for size in (64, 65, 66, 300)]
    assert len(set(long_names)) == 4


@pytest.mark.parametrize("after", ["before", *AFTER])
def test_over_visitors_an_arm_is_played_with_its_probability(numbers, after):
    p = AFTER.get(after, BEFORE)
    counts = np.bincount(race(numbers, p), minlength=4)
    assert (counts[p == 0] == 0).all()
    played = p > 0
    assert stats.chisquare(counts[played], MANY * p[played]).pvalue > ERROR


def test_an_arm_is_chosen_by_the_race(numbers):
    hashed = VisitorHash("shop", "checkout")
    for p in (BEFORE, *AFTER.values()):
        chosen = [hashed.choose_arm(f"u-{i}", ARMS, p.tolist()) for i in range(500)]
        assert chosen == race(numbers[:500], p).tolist()


def test_the_order_of_arms_does_not_matter():
    hashed = VisitorHash("shop", "checkout")
    for order in permutations(range(4)):
        names = [ARMS[k] for k in order]
        for i in range(20):
            place = hashed.choose_arm(f"u-{i}", names, BEFORE[list(order)].tolist())
            assert names[place] == ARMS[hashed.choose_arm(f"u-{i}", ARMS, BEFORE.tolist())]


@pytest.mark.parametrize("after", AFTER)
def test_visitors_move_to_arms_that_gain_and_no_more_of_them_than_the_formula_says(numbers, after):
    q = AFTER[after]
    old = race(numbers, BEFORE)
    new = race(numbers, q)
    moved = old != new
    gain = q / BEFORE
    assert (gain[new[moved]] > gain[old[moved]]).all()
    share = share_that_moves(BEFORE, np.maximum(q, 1e-300))
    assert stats.binomtest(int(moved.sum()), MANY, share).pvalue > ERROR


@given(st.lists(st.tuples(*[st.floats(0.01, 1)] * 2), min_size=2, max_size=6))
def test_bounds_of_the_share_that_moves(weights):
    p, q = (np.array(side) / sum(side) for side in zip(*weights, strict=True))
    distance = abs(p - q).sum() / 2
    share = share_that_moves(p, q)
    assert distance - 1e-12 <= share <= 2 * distance / (1 + distance) + 1e-12
    if len(p) == 2:
        assert share == pytest.approx(distance, abs=1e-12)


@pytest.mark.parametrize(
    ("network", "experiment", "arms"),
    [("shop", "banner", ARMS), ("other", "checkout", ARMS), ("shop", "checkout", "wxyz")],
)
def test_arms_in_other_experiments_and_networks_are_independent(numbers, network, experiment, arms):
    hashed = VisitorHash(network, experiment)
    there = [hashed.choose_arm(f"u-{i}", arms, BEFORE.tolist()) for i in range(4000)]
    table = np.zeros((4, 4))
    np.add.at(table, (race(numbers[:4000], BEFORE), there), 1)
    assert stats.chi2_contingency(table).pvalue > ERROR


# ---- agents

VISITORS = [f"u-{i}" for i in range(100)]


def teach(agent, rewards):
    for arm, reward in rewards:
        agent.learn(arm, float(reward))
    return agent


def make_agent(seed=0, experiment="checkout", **options):
    names = {"network": "shop", "experiment": experiment}
    return posse.Agent(
        ARMS, posse.families.Bernoulli(), seed=seed, exchange_options=names, **options
    )


HISTORY = [(arm, i % (2 + k) == 0) for i in range(60) for k, arm in enumerate(ARMS)]


def arms_of(agent, allowed=None):
    choices = agent.draw_choices([allowed] * len(VISITORS), None, VISITORS)
    return [choice.arm for choice in choices]


@pytest.mark.parametrize("exchange", ["origins", "flows"])
@pytest.mark.parametrize("policy", ["thompson-sampling", "top-two", "greedy"])
def test_agents_with_equal_beliefs_give_a_visitor_the_same_arm(exchange, policy, example_of):
    chosen = example_of(posse.policies.POLICIES[policy])
    options = {"exchange": exchange, "policy": chosen, "min_share": 0.02}
    here = teach(make_agent(1, **options), HISTORY)
    there = make_agent(2, **options)
    for part in range(0, len(HISTORY), 30):  # another path to the same belief
        teach(there, HISTORY[part : part + 30][::-1])
        there.pull()
    assert arms_of(here) == arms_of(there)
    assert arms_of(here, ["gold", "red"]) == arms_of(there, ["red", "gold"])
    assert set(arms_of(here, ["gold", "red"])) <= {"gold", "red"}
    one_by_one = [here.pull(visitor=visitor).arm for visitor in VISITORS]
    assert one_by_one == arms_of(there)
    assert arms_of(make_agent(1, **options, experiment="banner")) != arms_of(
        make_agent(1, **options)
    )


def test_the_recorded_probability_is_that_of_the_race():
    agent = teach(make_agent(min_share=0.05), HISTORY)
    hashed = VisitorHash("shop", "checkout")
    for choice, visitor in zip(
        agent.draw_choices([None] * 100, None, VISITORS), VISITORS, strict=True
    ):
        probabilities = choice.probabilities.tolist()
        place = hashed.choose_arm(visitor, ARMS, probabilities)
        assert (choice.arm, choice.probability) == (ARMS[place], probabilities[place])
        assert choice.probabilities.sum() == pytest.approx(1)


def test_visitors_leave_the_random_choices_of_others_as_they_were():
    plain = teach(make_agent(7), HISTORY)
    mixed = teach(make_agent(7), HISTORY)
    visitors = [None, "u-1", None, None, "u-2", None]
    choices = mixed.draw_choices([None] * 6, None, visitors)
    at_random = [c.arm for c, visitor in zip(choices, visitors, strict=True) if visitor is None]
    assert at_random == [choice.arm for choice in plain.draw_choices([None] * 4)]
    assert mixed.choose() == plain.choose()


def test_visitors_at_contexts():
    schema = {"country": ["de", "fr"]}
    model = posse.families.Logistic(rate=0.2)
    agents = [
        posse.Agent(ARMS, model, context=schema, seed=seed, min_share=0.05) for seed in (1, 2)
    ]
    for agent in agents:
        x = agent.encode_context({"country": "fr"}).x
        for _ in range(20):
            agent.learn("blue", 1.0, x=x)
    arms = {}
    for country in ("de", "fr"):
        visit = agents[0].encode_context({"country": country})
        batches = [a.draw_choices([None] * 100, [visit] * 100, VISITORS) for a in agents]
        assert [c.arm for c in batches[0]] == [c.arm for c in batches[1]]
        arms[country] = [c.arm for c in batches[0]]
        one = agents[0].pull(context={"country": country}, visitor="u-0")
        assert one.arm == arms[country][0]
    assert arms["de"].count("blue") < arms["fr"].count("blue")
    moved = {b for a, b in zip(arms["de"], arms["fr"], strict=True) if a != b}
    assert moved == {"blue"}  # the only arm whose probability grew


@pytest.mark.parametrize("bad", ["", "x" * (MAX_VISITOR_LENGTH + 1), 17, b"u", "\ud800"])
def test_a_bad_visitor_is_refused(bad):
    with pytest.raises(ValueError, match="visitor must be"):
        validate_visitor(bad)
    with pytest.raises(ValueError, match="visitor must be"):
        make_agent().pull(visitor=bad)
    assert validate_visitor("x" * MAX_VISITOR_LENGTH)
