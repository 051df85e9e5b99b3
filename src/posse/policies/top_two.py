"""Top-two sampling: play the leader or its nearest challenger, for best-arm identification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from posse import validation
from posse.best_arm import Race
from posse.families import Family, get_optional
from posse.policies.policy import argmax, timeless
from posse.randomness import FloatArray, Randomness

LEAST = 1e-150  # its square and its inverse are finite


@dataclass(frozen=True)
class TopTwo:
    """The leader by Thompson Sampling or, in a `fraction` of the rounds, its nearest challenger.

    The challenger of leader a is the arm b with the least (m_a - m_b)^2 / (v_a + v_b): m are the
    posterior means, v the variances if both arms had their common mean. It is the arm that is
    hardest to distinguish from the leader. (The variance of b alone would be too small for an
    unlucky arm with few successes, which would hardly be played again.) Thompson Sampling alone
    rarely plays arms that seem worse, so `posse.verdict` would wait very long for a winner.

    >>> belief = np.array([[30.0, 20.0, 2.0], [10.0, 20.0, 38.0]])  # about 3/4, 1/2 and 1/20
    >>> policy = posse.TopTwo(fraction=0.5)
    >>> policy.probabilities(belief, posse.families.Bernoulli(), 1, None).round(2).tolist()
    [0.5, 0.5, 0.0]
    """

    name: ClassVar[str] = "top-two"

    fraction: float = 0.5

    def __post_init__(self) -> None:
        validation.validate_number("fraction", self.fraction, at_least=0, at_most=1)

    @timeless
    def scores(
        self,
        belief: FloatArray,
        family: Family,
        t: int,
        horizon: int | None,
        generator: Randomness,
    ) -> FloatArray:
        """Return a posterior sample of each mean, or its nearness to the leader: (..., K)."""
        sample = family.sample_mean(belief, generator)
        leader = np.asarray(argmax(sample, generator))[..., None]
        challenged = generator.random(sample.shape[:-1])[..., None] < self.fraction
        mean = family.posterior_mean(belief)
        pulls = equivalent_pulls(family, belief)
        leader_mean, leader_pulls = (np.take_along_axis(x, leader, axis=-1) for x in (mean, pulls))
        nearness = -squared_distance(family, leader_mean, leader_pulls, mean, pulls)
        # the leader is not its own challenger
        np.put_along_axis(nearness, leader, -np.inf, axis=-1)
        return np.where(challenged, nearness, sample)

    def probabilities(
        self,
        belief: FloatArray,
        family: Family,
        t: int,
        horizon: int | None,
        race: Race | None = None,
    ) -> FloatArray:
        """Return P(best) with a `fraction` of it moved to each challenger: (D, K) -> (K,).

        The error is below 1e-7, that of P(best).
        """
        best = (race or Race(family))(belief)
        # a single arm has no challenger
        if len(best) == 1:
            return best
        mean = family.posterior_mean(belief)
        pulls = equivalent_pulls(family, belief)
        distance = squared_distance(family, mean[:, None], pulls[:, None], mean, pulls)  # (K, K)
        np.fill_diagonal(distance, np.inf)
        nearest = distance == distance.min(axis=1, keepdims=True)
        challengers = nearest / nearest.sum(axis=1, keepdims=True)
        return np.asarray((1 - self.fraction) * best + self.fraction * (best @ challengers))


def squared_distance(
    family: Family,
    mean: FloatArray,
    pulls: FloatArray,
    challenger_mean: FloatArray,
    challenger_pulls: FloatArray,
) -> FloatArray:
    """Return the squared distance of a leader to an arm, in standard errors if they were equal."""
    both = (pulls * mean + challenger_pulls * challenger_mean) / (pulls + challenger_pulls)
    variance = _reward_variance(family, both) * (1.0 / pulls + 1.0 / challenger_pulls)
    # an infinite distance is a valid answer: the arm is never the challenger
    with np.errstate(over="ignore"):
        return np.asarray((mean - challenger_mean) ** 2 / np.maximum(variance, LEAST))


def equivalent_pulls(family: Family, belief: FloatArray) -> FloatArray:
    """Return the number of rewards that would leave a mean as uncertain as it is."""
    variance = np.maximum(posterior_variance(family, belief), LEAST)
    return np.maximum(_reward_variance(family, family.posterior_mean(belief)) / variance, LEAST)


def _reward_variance(family: Family, mean: FloatArray) -> FloatArray:
    """Return the variance of one reward with this mean; 1 for all if the family has none."""
    variance = get_optional(family, "variance")(mean)
    return np.ones_like(mean) if variance is None else variance


def posterior_variance(family: Family, belief: FloatArray) -> FloatArray:
    """Return the posterior variance of the mean; from the middle 68% without a formula."""
    formula: Any = getattr(family, "posterior_variance", None)
    if formula is not None:
        return np.asarray(formula(belief))
    low, high = (family.mean_quantile(belief, level) for level in (0.16, 0.84))
    return np.asarray(((high - low) / 2) ** 2)
