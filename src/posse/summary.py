"""A belief in words people use: mean, 95% credible interval, chance of being best, expected loss.

Written once for all families, from their distribution functions and densities alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posse.families.family import Family
from posse.randomness import FloatArray

# The cells of the quadrature: for each arm the quantiles at these many standard normal scores, so
# that every arm's rise from 0 to 1 is resolved, however narrow beside the others.
_SCORES = np.linspace(-8.0, 8.0, 33)
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(5)


@dataclass(frozen=True)
class ArmSummary:
    """What an agent believes about its arms, each (K,)."""

    mean: FloatArray
    low: FloatArray  # 95% credible interval
    high: FloatArray
    probability_best: FloatArray
    expected_loss: FloatArray  # how much one gives up, on average, by settling for this arm


def summarise(family: Family, belief: FloatArray) -> ArmSummary:
    """The summary of one agent's belief (D, K)."""
    if belief.ndim != 2 or not np.isfinite(belief).all():
        raise ValueError(
            f"belief must be one agent's, finite numbers of shape (D, K), got {belief.shape}"
        )
    probability_best, expected_loss = _race(family, belief)
    return ArmSummary(
        mean=family.posterior_mean(belief),
        low=family.mean_quantile(belief, 0.025),
        high=family.mean_quantile(belief, 0.975),
        probability_best=probability_best,
        expected_loss=expected_loss,
    )


def probability_best(family: Family, belief: FloatArray) -> FloatArray:
    """The posterior probability of each arm to have the highest mean: (D, K) -> (K,)."""
    return _race(family, belief)[0]


def _race(family: Family, belief: FloatArray) -> tuple[FloatArray, FloatArray]:
    """P(arm k is the best) and E[mean of the best - mean of k], each (K,).

    The first is the integral of f_k times the product of the other arms' F_j, the second that of
    F_k (1 - product): by Gauss-Legendre in every cell of the union of all arms' quantiles.
    """
    from scipy.special import ndtr

    quantiles = [family.mean_quantile(belief, level) for level in ndtr(_SCORES)]
    # a family on cells has jumps at their edges
    edges = np.unique(np.concatenate([*quantiles, getattr(family, "edges", [])]))
    edges = edges[np.isfinite(edges)]
    middle, half = (edges[1:] + edges[:-1]) / 2, (edges[1:] - edges[:-1]) / 2
    x = (middle[:, None] + half[:, None] * _NODES).ravel()  # (nodes,)
    width = (half[:, None] * _NODE_WEIGHTS).ravel()  # (nodes,)
    # a node beside an end of the range may round to it, where a density may be infinite
    low, high = family.means.low, family.means.high
    x = np.clip(x, np.nextafter(low, high), np.nextafter(high, low))

    density = np.exp(family.log_density(belief[:, None, :], x[:, None]))  # (nodes, K)
    below = family.mean_cdf(belief[:, None, :], x[:, None])  # (nodes, K)
    others = _product_of_others(below)
    first = (width[:, None] * density * others).sum(axis=0)  # where arm k comes first at x
    behind = (width[:, None] * below * (1.0 - others)).sum(axis=0)
    if first.sum() < 0.5:  # arms known to the last digit: their quantiles are one number
        mean = family.posterior_mean(belief)
        leads = mean == mean.max()
        return leads / leads.sum(), mean.max() - mean
    return first / first.sum(), behind


def _product_of_others(factors: FloatArray) -> FloatArray:
    """For each arm the product over all other arms, without dividing: (nodes, K) -> (nodes, K)."""
    ones = np.ones((len(factors), 1))
    before = np.cumprod(np.hstack([ones, factors[:, :-1]]), axis=1)
    after = np.cumprod(np.hstack([ones, factors[:, :0:-1]]), axis=1)[:, ::-1]
    return np.asarray(before * after, dtype=float)
