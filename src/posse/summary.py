"""Summary of a belief: mean, 95% interval, probability of being the best, expected loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posse import best_arm
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
