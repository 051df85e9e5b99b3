"""A belief in words people use: mean, 95% interval, chance of being the best, expected loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posse import best_arm
from posse.families.family import Family, get_family_name, is_contextual
from posse.randomness import FloatArray


@dataclass(frozen=True)
class ArmSummary:
    """What an agent believes about its arms, each (K,)."""

    mean: FloatArray
    low: FloatArray  # 95% credible interval
    high: FloatArray
    probability_best: FloatArray
    expected_loss: FloatArray  # how much one gives up, on average, by settling for this arm


def summarise(family: Family, belief: FloatArray) -> ArmSummary:
    """The summary of one agent's belief (D, K).

    It takes the belief at its word. That of a decentralized agent is tempered, a fresh reward
    counting N times until it has mixed, and so its intervals are far too narrow: give
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
            f"belief must be one agent's, finite numbers of shape (D, K), got {belief.shape}"
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
    """The posterior probability of each arm to have the highest mean: (D, K) -> (K,).

    Within 1e-7 and in a fraction of the time if `quick`, as for decisions of a live agent.
    """
    return best_arm.Race(family)(belief) if quick else best_arm.evaluate_arms(family, belief)[0]
