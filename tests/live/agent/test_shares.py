"""Shares: laws of the mixture, and arms drawn as often as is recorded.

Statistical tests have fixed seeds and an error rate of 1e-6 each.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

import posse
from posse import families
from posse.live.agent.action_selection import (
    Chooser,
    Shares,
    cap_new_arms,
    draw_arms,
    mix_with_uniform,
)
from posse.live.agent.agent import Agent
from posse.live.agent.rendezvous_hashing import VisitorHash
from posse.live.config.experiment_settings import ExperimentSettings
from posse.policies import POLICIES

ARMS = ["red", "green", "blue", "new"]


def normalised(weights):
    values = np.array(weights)
    return values / values.sum()


def said_by_a_policy(n_arms):
    """Probabilities as policies say them: some of them tiny or nothing."""
    weight = st.one_of(st.just(0.0), st.floats(1e-300, 1e-6), st.floats(0.01, 1.0))
    several = st.lists(weight, min_size=n_arms, max_size=n_arms)
    return several.filter(lambda weights: sum(weights) > 1e-9).map(normalised)


@st.composite
def situations(draw):
    n_arms = draw(st.integers(2, 8))
    pulls = draw(st.integers(1, 200))
    closed = st.one_of(st.just(0.0), st.floats(0, 400), st.just(float(pulls)))
    return (
        draw(said_by_a_policy(n_arms)),
        np.array(draw(st.lists(closed, min_size=n_arms, max_size=n_arms))),
        Shares(
            draw(st.one_of(st.just(0.0), st.floats(0, 1 / n_arms))),
            draw(st.one_of(st.none(), st.floats(1e-6, 1))),
            pulls,
        ),
    )


def mixed(said, closed, shares):
    """What the shares make of it, where the policy takes settled arms for equally good."""
    new = shares.find_new_arms(closed)
    settled = 0 if new is None else int((~new).sum())
    return shares.mix_probabilities(said, new, lambda: np.full(settled, 1 / settled))


@given(situations())
def test_what_holds_of_every_mixture(situation):
    said, closed, shares = situation
    before = said.copy()
    result = mixed(said, closed, shares)
    np.testing.assert_array_equal(said, before)
    assert result.sum() == pytest.approx(1.0, abs=1e-12)
    assert (result >= shares.min_share).all()
    new = closed < shares.new_arm_pulls
    acts = shares.new_arm_share is not None and new.any() and not new.all()
    # the cap comes first and the floor after it, so that the floor holds and the cap nearly
    room = 1 - len(said) * shares.min_share
    if acts:
        most = room * shares.new_arm_share + new.sum() * shares.min_share
        assert result[new].sum() <= most + 1e-12
    if not acts or said[new].sum() <= shares.new_arm_share:
        if shares.min_share == 0:
            assert result is said
        else:
            np.testing.assert_allclose(result, room * said + shares.min_share, atol=1e-15)
    else:  # new arms stay in the policy's proportions
        expected = said[new] / said[new].sum() * shares.new_arm_share
        np.testing.assert_allclose(result[new], room * expected + shares.min_share, rtol=1e-12)


@given(st.integers(2, 30), st.floats(0, 1))
def test_a_floor_that_is_too_high_for_few_arms_is_an_equal_share(n_arms, least):
    said = np.eye(n_arms)[0]
    result = mix_with_uniform(said, least)
    assert (result >= min(least, 1 / n_arms)).all()
    assert result.sum() == pytest.approx(1.0, abs=1e-12)


def test_the_cap_by_hand():
    """Two new arms at 0.9 together get 0.2 as 2 : 1; the policy is asked about the settled ones."""
    said = np.array([0.6, 0.07, 0.3, 0.03])
    new = np.array([True, False, True, False])
    result = cap_new_arms(said, new, 0.2, np.array([0.75, 0.25]))
    np.testing.assert_allclose(result, [0.4 / 3, 0.6, 0.2 / 3, 0.2], rtol=1e-15)
    np.testing.assert_allclose(
        mix_with_uniform(result, 0.05),
        0.8 * np.array([0.4 / 3, 0.6, 0.2 / 3, 0.2]) + 0.05,
        rtol=1e-15,
    )


class Always:
    """A generator of one uniform."""

    def __init__(self, uniform):
        self.uniform = uniform

    def random(self, size):
        return np.full(size, self.uniform)


@given(said_by_a_policy(5), st.floats(0, 1, exclude_max=True))
def test_no_arm_without_a_probability_is_drawn(said, uniform):
    for each in (0.0, uniform, np.nextafter(1, 0)):
        (arm,) = draw_arms(said, 1, Always(each))
        assert said[arm] > 0
        before = said[:arm].sum()
        assert before - 1e-12 <= each <= before + said[arm] + 1e-12


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"min_share": 0.3}, r"min_share must be at most 1/4 for 4 arms.* 0.3"),
        ({"min_share": -0.1}, "min_share must be a finite number at least 0"),
        ({"min_share": True}, "min_share must be a number"),
        ({"new_arm_share": 0}, "new_arm_share must be a finite number above 0 and at most 1"),
        ({"new_arm_share": 1.1}, "new_arm_share must be"),
        ({"new_arm_pulls": 0}, "new_arm_pulls must be a whole number at least 1"),
    ],
)
def test_shares_that_cannot_be_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        Agent(ARMS, families.Bernoulli(), **options)
    with pytest.raises(ValueError, match=words):
        ExperimentSettings(tuple(ARMS), families.Bernoulli(), **options)


def test_new_arms_and_a_floor_that_do_not_fit_are_refused_and_nothing_changes():
    one = Agent(ARMS, families.Bernoulli(), min_share=0.25)
    with pytest.raises(ValueError, match="min_share must be at most 1/5"):
        one.set_arms([*ARMS, "violet"])
    assert one.arm_names == ARMS
    one.set_arms([*ARMS, "violet"], Shares(0.2))
    assert one.choose()[1] == pytest.approx(0.2)
    with pytest.raises(ValueError, match="min_share must be at most 1/5"):
        one.set_arms(one.arm_names, Shares(0.3))
    assert one.shares == Shares(0.2)
    Agent([str(k) for k in range(10)], families.Bernoulli(), min_share=0.1)  # which may round up


def test_an_experiment_gives_new_arms_an_equal_share_unless_it_says_otherwise():
    settings = ExperimentSettings(tuple(ARMS), families.Bernoulli())
    assert settings.make_agent().shares == Shares(0.0, 0.25, 100)
    other = dataclasses.replace(settings, new_arm_share=0.1, new_arm_pulls=7, min_share=0.02)
    assert other.make_agent().shares == Shares(0.02, 0.1, 7)
    assert Agent(ARMS, families.Bernoulli()).shares == Shares()  # the paper's


def taught(policy=None, pulls=120, **options):
    """Three arms of so many pulls, the first the best, and one of none."""
    one = Agent(ARMS, families.Bernoulli(), policy=policy, seed=5, **options)
    for k, arm in enumerate(ARMS[:3]):
        for i in range(pulls):
            one.learn(arm, float(i % 10 < 6 - k))
    return one


@dataclasses.dataclass(frozen=True)
class EpsilonGreedy(posse.Greedy):
    """A mixture: the best arm, or in a fifth of the rounds any arm."""

    def scores(self, belief, family, t, horizon, generator):
        if generator.random() < 0.2:
            return generator.random(belief.shape[1])
        return family.posterior_mean(belief)

    def probabilities(self, belief, family, t, horizon):
        best = super().probabilities(belief, family, t, horizon)
        return 0.8 * best + 0.2 / belief.shape[1]


MIXTURES = {
    "off": {},
    "floor": {"min_share": 0.05},
    "cap": {"new_arm_share": 0.1},
    "both": {"min_share": 0.05, "new_arm_share": 0.1},
    "cap above": {"new_arm_share": 1.0},
}


@pytest.mark.parametrize("shares", MIXTURES)
@pytest.mark.parametrize("name", [*POLICIES, "a mixture"])
def test_arms_are_drawn_as_often_as_is_recorded(name, shares, example_of):
    """Chi-square of 1200 decisions, one by one and in batches, of every policy."""
    policy = example_of((POLICIES | {"a mixture": EpsilonGreedy})[name])
    options = MIXTURES[shares]
    one = taught(policy, **options, horizon=10_000)
    allowed = ["new", "blue", "red"] if shares == "both" else None
    choices = one.draw_choices([allowed] * 1000)
    choices += [each for _ in range(200) for each in one.draw_choices([allowed])]
    (names,) = {each.allowed for each in choices}
    assert names == tuple(allowed or ARMS)
    said = choices[0].probabilities
    assert said.sum() == pytest.approx(1.0, abs=1e-9)
    # the belief is the same throughout, and the round hardly matters
    together = np.stack([each.probabilities for each in choices])
    np.testing.assert_allclose(together, np.broadcast_to(said, together.shape), atol=1e-6)
    for each in choices:
        assert each.probability == each.probabilities[names.index(each.arm)] > 0
    counts = np.array([sum(each.arm == name for each in choices) for name in names])
    expected = said * len(choices)
    likely = expected > 5  # the chi-square law needs a few in every class
    assert (counts[~likely] < 30).all()
    square = ((counts - expected)[likely] ** 2 / expected[likely]).sum()
    assert stats.chi2.sf(square, max(1, likely.sum() - 1)) > 1e-6
    floor, cap = options.get("min_share", 0), options.get("new_arm_share", 1)
    assert min(said) >= floor
    assert said[names.index("new")] <= (1 - len(names) * floor) * cap + floor + 1e-12


@pytest.mark.parametrize("name", POLICIES)
def test_shares_that_change_nothing_leave_every_choice_as_it_was(name, example_of):
    """Bit for bit: all arms are settled, or none is, or the cap is not reached."""
    policy = example_of(POLICIES[name])
    settled = ["red", "green", "blue"]
    for pulls, allowed in ((120, settled), (20, None), (120, ["new"])):
        plain = taught(policy, pulls, horizon=500)
        shared = taught(policy, pulls, horizon=500, new_arm_share=0.01)
        wishes = [allowed] * 20
        assert plain.choose_many(wishes) == shared.choose_many(wishes)
        assert [plain.choose(allowed) for _ in range(20)] == [
            shared.choose(allowed) for _ in range(20)
        ]


def test_the_cap_ends_when_an_arm_has_been_seen_often_enough():
    one = taught(new_arm_share=0.1, new_arm_pulls=30)
    for i in range(30):
        (choice,) = one.draw_choices([None])
        assert choice.probabilities[3] <= 0.1
        one.learn("new", float(i % 10 < 9))
    (choice,) = one.draw_choices([None])
    assert choice.probabilities[3] > 0.9
    one.set_arms([*ARMS, "newer"])
    (choice,) = one.draw_choices([None])
    assert choice.probabilities[4] <= 0.1


def test_open_decisions_do_not_make_an_arm_settled():
    """An arm whose rewards all came early looks best of all, and is known by those alone."""
    one = taught(new_arm_share=0.1)
    for _ in range(150):
        made = one.count_decision("new", 0.0)
        one.correct_reward("new", 0.0, 1.0, made)
    (choice,) = one.draw_choices([None])
    assert choice.probabilities[3] == pytest.approx(0.1)
    for _ in range(100):
        one.close_decision("new", 1.0, made)
    (choice,) = one.draw_choices([None])
    assert choice.probabilities[3] > 0.99


def test_settled_arms_share_the_rest_as_the_policy_would_without_the_new_ones():
    """Eleven new arms leave them no chance that a race can tell from nothing."""
    many = [f"new {k}" for k in range(11)]
    one = taught(new_arm_share=0.2)
    alone = one.draw_choices([ARMS[:3]])[0].probabilities
    one.set_arms([*ARMS[:3], *many], Shares(0.0, 0.2))
    (choice,) = one.draw_choices([None])
    np.testing.assert_allclose(choice.probabilities[:3], 0.8 * alone, rtol=1e-6)
    np.testing.assert_allclose(choice.probabilities[3:], 0.2 / 11, rtol=1e-6)


def test_one_arm_that_is_allowed_is_certain_and_two_share_a_high_floor():
    one = taught(min_share=0.25, new_arm_share=0.1)
    assert one.choose(["new"]) == ("new", 1.0)
    for n in (2, 3):
        (choice,) = one.draw_choices([ARMS[-n:]])
        assert min(choice.probabilities) >= 0.25
    (choice,) = one.draw_choices([None])
    np.testing.assert_array_equal(choice.probabilities, 0.25)


class Liar(posse.ThompsonSampling):
    """The first or the second of a posterior sample, which says it was the first."""

    def scores(self, belief, family, t, horizon, generator):
        sample = super().scores(belief, family, t, horizon, generator)
        return np.where(sample == sample.max(), -np.inf, sample) if t % 2 == 0 else sample


class Certain(posse.ThompsonSampling):
    """A random policy that is taken for one without chance."""

    def probabilities(self, belief, family, t, horizon):
        return np.eye(belief.shape[1])[family.posterior_mean(belief).argmax()]


@pytest.mark.parametrize("policy", [Liar(), Certain()])
def test_a_policy_that_chooses_otherwise_than_it_says_is_refused(policy):
    with pytest.raises(ValueError, match="must choose by the probabilities that it reports"):
        Agent(ARMS, families.Bernoulli(), policy=policy)


def test_every_policy_is_honest_about_every_family(policy, family):
    """Of the registered ones none is refused that says its probabilities."""
    prior = np.repeat(family.prior()[:, None], 2, axis=1)
    if policy.probabilities(prior, family, 1, 100) is None:
        assert policy.name == "rand-ucb"
        assert family.name in {"gaussian-unknown-variance", "grid", "revenue"}
    elif families.get_optional(family, "powers"):  # live agents can have it
        Chooser(policy, family, 100, Shares(), VisitorHash("", "")).check_honesty()


def test_an_arm_whose_probability_is_too_small_to_be_told_is_not_played():
    """Nobody can weigh a decision of probability 0, so the scores of a round do not decide."""

    class Rounding(posse.ThompsonSampling):
        def scores(self, belief, family, t, horizon, generator):
            return np.array([0.0, 0.0, 0.0, 1.0]) if t != 10 else family.sample_mean(
                belief, generator
            )  # fmt: skip

        def probabilities(self, belief, family, t, horizon):
            if t == 10:
                return super().probabilities(belief, family, t, horizon)
            return np.array([0.5, 0.5, 0.0, 0.0])

    one = Agent(ARMS, families.Bernoulli(), policy=Rounding(), seed=3)
    choices = one.draw_choices([None] * 9)
    assert {(each.arm, each.probability) for each in choices} == {("red", 0.5), ("green", 0.5)}


def test_thompson_sampling_draws_by_the_integral_of_being_the_best():
    """Chi-square of 4000 decisions against SciPy's quadrature, with a belief that changes."""
    one = taught(pulls=40)
    alpha, beta = one.belief

    def integrand(x, arm):
        others = [stats.beta.cdf(x, alpha[j], beta[j]) for j in range(4) if j != arm]
        return stats.beta.pdf(x, alpha[arm], beta[arm]) * np.prod(others)

    best = [integrate.quad(integrand, 0, 1, (arm,), epsabs=1e-12)[0] for arm in range(4)]
    choices = one.draw_choices([None] * 3000)
    choices += [each for _ in range(1000) for each in one.draw_choices([None])]
    np.testing.assert_allclose(choices[0].probabilities, best, atol=1e-7)
    assert all(each.probability == each.probabilities[ARMS.index(each.arm)] for each in choices)
    counts = [sum(each.arm == arm for each in choices) for arm in ARMS]
    assert stats.chisquare(counts, np.array(best) / sum(best) * 4000).pvalue > 1e-6
    for _ in range(40):  # the law follows the belief at once
        one.learn("new", 0.0)
    (choice,) = one.draw_choices([None])
    assert choice.probabilities[3] < 0.01 < best[3]
