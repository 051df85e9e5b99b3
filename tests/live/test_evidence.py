"""Evidence: what a reward becomes, and what a sum of it says of a family's arms."""

import numpy as np
import pytest

from posse import beliefs, families
from posse.live.evidence import CAUTION, SIGNS, Evidence
from posse.live.exchange.quanta import PER_UNIT

CASES = {
    "bernoulli": (families.Bernoulli(2.0, 3.0), None, [0.0, 1.0, 1.0]),
    "bounded": (families.Bounded(), None, [0.2, 1.0, 0.55]),
    "gaussian": (families.Gaussian(0.5, 0.3, 2.0), (-10, 10), [-1.5, 0.25, 9.0]),
    "poisson": (families.Poisson(), (0, 50), [0.0, 3.0, 50.0]),
    "exponential": (families.Exponential(), (0, 1e-6), [1e-9, 2e-7, 1e-6]),
    "unknown variance": (families.GaussianUnknownVariance(), (-4, 4), [-4.0, 0.5, 1.25]),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("signs", [0, SIGNS])
def test_a_sum_of_evidence_is_the_posterior(name, signs):
    """The belief from whole quanta is the core's belief, to a quantum a reward."""
    family, reward_range, rewards = CASES[name]
    evidence = Evidence.of(family, reward_range, signs)
    generator = np.random.default_rng(0)
    belief, total = beliefs.prior(family, 1, 1), None
    for reward in rewards:
        quanta = np.array(evidence.of_reward(reward, generator), dtype=object)
        assert all(
            abs(q) <= bound * PER_UNIT for q, bound in zip(quanta, evidence.bounds, strict=True)
        )
        total = quanta if total is None else total + quanta
        belief = beliefs.observe(belief, np.array([0]), np.array([reward]), family, 1.0)
    got = family.prior() + evidence.statistic(tuple(total))
    np.testing.assert_allclose(got, belief[:, 0, 0], rtol=1e-4)
    assert evidence.count(tuple(total)) == len(rewards)
    assert len(total) == len(evidence.bounds)


def test_a_level_below_zero_is_no_evidence():
    evidence = Evidence.of(families.Bernoulli())
    np.testing.assert_array_equal(evidence.statistic((5, -3)), 0)
    assert evidence.count((5, -3)) == 0
    # more successes than pulls, as levels may have for a while: all successes
    np.testing.assert_allclose(evidence.statistic((3 * PER_UNIT, 2 * PER_UNIT)), [2, 0])
    np.testing.assert_allclose(evidence.statistic((-PER_UNIT, 2 * PER_UNIT)), [0, 2])


def test_signs_tell_what_a_belief_is_worth():
    """One pull counted N times is worth one; N pulls of N agents are worth N; less for caution."""
    evidence = Evidence.of(families.Bernoulli(), signs=SIGNS)
    generator = np.random.default_rng(1)
    one = np.array(evidence.of_reward(1.0, generator), dtype=object)
    assert evidence.effective_count(tuple(100 * one)) == pytest.approx(1.0 / CAUTION)
    worth = []
    for _ in range(200):
        pulls = [evidence.of_reward(1.0, generator) for _ in range(50)]
        total = tuple(np.array(pulls, dtype=object).sum(axis=0))
        assert evidence.count(total) == 50
        worth.append(evidence.effective_count(total))
    # 50^2 / (1.4 * 50 chi^2_16/16), capped at 50: 37.5 on average, with a standard error of 0.7
    assert 35.4 < np.mean(worth) < 39.6
    assert max(worth) == 50


@pytest.mark.parametrize(
    ("family", "reward_range", "words"),
    [
        (families.Gaussian(), None, "reward_range must be given"),
        (families.Poisson(), None, "reward_range must be given"),
        (families.Gaussian(), (1, 1), "rising"),
        (families.Bernoulli(), (-1, 1), "within"),
        (families.Gaussian(), (0, np.inf), "reward_range"),
    ],
)
def test_ranges(family, reward_range, words):
    with pytest.raises(ValueError, match=words):
        Evidence.of(family, reward_range)


@pytest.mark.parametrize("reward", [-0.1, 1.1, np.nan, np.inf, "1", None, True])
def test_rewards_that_cannot_be_are_refused(reward):
    with pytest.raises(ValueError, match="reward"):
        Evidence.of(families.Bernoulli()).of_reward(reward, np.random.default_rng(0))
