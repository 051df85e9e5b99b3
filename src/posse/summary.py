"""Summary of a belief: mean, 95% interval, probability of being the best, expected loss; lift."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from posse import best_arm, notebook_tables
from posse.families import Family, get_family_name, is_contextual
from posse.randomness import FloatArray


@dataclass(frozen=True)
class ArmSummary:
    """The summary of an agent's belief about its arms, each (K,)."""

    mean: FloatArray
    low: FloatArray  # 95% credible interval
    high: FloatArray
    probability_best: FloatArray
    expected_loss: FloatArray  # E[mean of the best arm - mean of this arm]

    def _repr_html_(self) -> str:
        headers = ["arm", *(field.name.replace("_", " ") for field in fields(self))]
        columns = [np.atleast_1d(getattr(self, field.name)) for field in fields(self)]
        rows = (
            [str(k), *(f"{x:.4g}" for x in row)] for k, row in enumerate(zip(*columns, strict=True))
        )
        return notebook_tables.render_table("Belief about each arm", headers, rows)


def summarise(family: Family, belief: FloatArray) -> ArmSummary:
    """Summarise one agent's belief (D, K).

    It does not correct the belief. That of a decentralized agent is tempered, because a new reward
    counts N times until it has mixed, so its intervals are far too narrow: pass
    `posse.calibrate(family, belief, signs)` instead (docs/calibration.md).

    >>> belief = np.array([[3.0, 1.0], [1.0, 3.0]])  # Beta(3, 1) and Beta(1, 3)
    >>> summary = posse.summarise(posse.families.Bernoulli(), belief)
    >>> summary.mean.tolist(), summary.probability_best.round(3).tolist()
    ([0.75, 0.25], [0.95, 0.05])
    """
    if is_contextual(family):
        raise ValueError(
            f"a belief of family {get_family_name(family)!r} is summarised at a context: "
            "summarise(family.at_mean, family.at_context(belief, x))"
        )
    if belief.ndim != 2 or not np.isfinite(belief).all():
        raise ValueError(
            f"belief must be that of one agent: finite numbers of shape (D, K), got {belief.shape}"
        )
    probability_best, expected_loss = best_arm.evaluate_arms(family, belief)
    return ArmSummary(
        mean=family.posterior_mean(belief),
        low=family.mean_quantile(belief, 0.025),
        high=family.mean_quantile(belief, 0.975),
        probability_best=probability_best,
        expected_loss=expected_loss,
    )


def probability_best(family: Family, belief: FloatArray, *, quick: bool = False) -> FloatArray:
    """Return the posterior probability of each arm to have the highest mean: (D, K) -> (K,).

    quick: within 1e-7 in a fraction of the time, as for decisions of a live agent.
    """
    return best_arm.Race(family)(belief) if quick else best_arm.evaluate_arms(family, belief)[0]


# --- lift of one arm over another

FARTHEST_SCORE = 6.0  # standard normal scores that the quadrature covers
SCORES = 97  # its nodes: a trapezoidal rule in the score, which converges exponentially
HALVINGS = 32  # of the range of lifts


@dataclass(frozen=True)
class Lift:
    """By how much the mean of one arm exceeds that of another, with a 95% credible interval.

    relative: as a share of the other mean, where means are never negative; else as a difference.
    """

    estimate: float  # from the two posterior means
    low: float
    high: float
    relative: bool


def estimate_lift(family: Family, belief: FloatArray) -> Lift | None:
    """Estimate the lift of the first arm over the second: (D, 2); None if it is not finite.

    The arms are independent under the belief. P(ratio <= r) is the integral of F_1(r y) f_2(y), or
    1 minus that of F_2(x / r) f_1(x); P(difference <= d) likewise.
    """
    relative = family.means.low >= 0
    mean = family.posterior_mean(belief)
    estimate = mean[0] / mean[1] - 1.0 if relative else mean[0] - mean[1]
    bounds = [_lift_quantile(family, belief, level, relative) for level in (0.025, 0.975)]
    low, high = (bound - 1.0 if relative else bound for bound in bounds)
    if not np.isfinite([estimate, low, high]).all():
        return None
    return Lift(float(estimate), float(low), float(high), relative)


def _lift_quantile(family: Family, belief: FloatArray, level: float, relative: bool) -> float:
    """Return a quantile of the ratio or the difference of two means, by bisection."""
    from scipy.special import ndtr

    scores = np.linspace(-FARTHEST_SCORE, FARTHEST_SCORE, SCORES)
    weights = np.exp(-(scores**2) / 2)
    weights /= weights.sum()
    values = family.mean_quantile(belief[:, None, :], ndtr(scores)[:, None])  # (SCORES, 2)
    if relative:
        values = np.maximum(values, np.finfo(float).tiny)
    # Nodes are quantiles of the narrower belief: on them the distribution function of the wider
    # one is smooth. The other way round it would be a step between two nodes.
    scaled = np.log(values) if relative else values
    spread = np.quantile(scaled, 0.75, axis=0) - np.quantile(scaled, 0.25, axis=0)
    nodes_of_second = spread[1] <= spread[0]
    lowest = scaled[0, 0] - scaled[-1, 1]
    highest = scaled[-1, 0] - scaled[0, 1]
    for _ in range(HALVINGS):
        middle = (lowest + highest) / 2
        if nodes_of_second:
            at = values[:, 1] * np.exp(middle) if relative else values[:, 1] + middle
            below = weights @ _clipped_cdf(family, belief[:, :1], at)
        else:
            at = values[:, 0] / np.exp(middle) if relative else values[:, 0] - middle
            below = 1.0 - weights @ _clipped_cdf(family, belief[:, 1:], at)
        if below < level:
            lowest = middle
        else:
            highest = middle
    middle = (lowest + highest) / 2
    return float(np.exp(middle)) if relative else float(middle)


def _clipped_cdf(family: Family, belief: FloatArray, values: FloatArray) -> FloatArray:
    """Return the distribution function of a mean, also outside of its range: (D, 1), (n,)."""
    low = family.means.low
    high = family.means.high
    inside = np.clip(values, np.nextafter(low, high), np.nextafter(high, low))
    below = family.mean_cdf(belief, inside)
    return np.where(values >= high, 1.0, np.where(values <= low, 0.0, below))
