"""A belief in words people use: mean, 95% credible interval, chance of being best, expected loss.

Written once for all families, from their distribution functions and densities alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from posse.families.abilities import ability
from posse.families.family import Family
from posse.randomness import FloatArray


@dataclass(frozen=True)
class _Rule:
    """Where to integrate: Gauss-Legendre in cells between quantiles of the arms.

    The cells of each arm end at its quantiles of these standard normal scores, so that every arm's
    rise from 0 to 1 is resolved, however narrow beside the others.
    """

    levels: FloatArray  # (cells + 1,)
    nodes: FloatArray  # on [-1, 1]
    weights: FloatArray

    @classmethod
    def of(cls, farthest: float, n_levels: int, n_nodes: int) -> _Rule:
        from scipy.special import ndtr

        scores = np.linspace(-farthest, farthest, n_levels)
        return cls(ndtr(scores), *np.polynomial.legendre.leggauss(n_nodes))


@cache
def _fine() -> _Rule:
    """For what people read: also the tails of beliefs without a mean to speak of."""
    return _Rule.of(8.0, 33, 5)


@cache
def _quick() -> _Rule:
    """For probabilities within 1e-6."""
    return _Rule.of(6.0, 9, 6)


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
    `posse.calibrated(family, belief, signs)` instead (docs/calibration.md).

    >>> belief = np.array([[3.0, 1.0], [1.0, 3.0]])  # Beta(3, 1) and Beta(1, 3)
    >>> summary = posse.summarise(posse.families.Bernoulli(), belief)
    >>> summary.mean.tolist(), summary.probability_best.round(3).tolist()
    ([0.75, 0.25], [0.95, 0.05])
    """
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


def probability_best(family: Family, belief: FloatArray, *, quick: bool = False) -> FloatArray:
    """The posterior probability of each arm to have the highest mean: (D, K) -> (K,).

    Within 1e-6 and in a third of the time if `quick`, as for every decision of a live agent.
    """
    if quick:
        quantiles = _quantiles(family, belief, _quick())
        # nobody wins where some arm is almost surely not yet
        x, width = _grid(family, quantiles, _quick(), start=quantiles[0].max())
        density, _, others = _at(family, belief, x)
        first = width @ (density * others)
        if abs(first.sum() - 1.0) < 1e-7:  # else a density is too steep for wide cells
            return np.asarray(first / first.sum())
    return _race(family, belief)[0]


def _race(family: Family, belief: FloatArray) -> tuple[FloatArray, FloatArray]:
    """P(arm k is the best) and E[mean of the best - mean of k], each (K,).

    The first is the integral of f_k times the product of the other arms' F_j, the second that of
    F_k (1 - product).
    """
    rule = _fine()
    x, width = _grid(family, _quantiles(family, belief, rule), rule)
    density, below, others = _at(family, belief, x)
    first = width @ (density * others)  # where arm k comes first at x
    behind = width @ (below * (1.0 - others))
    return (first / first.sum(), behind) if first.sum() > 0.5 else _leads(family, belief)


def _leads(family: Family, belief: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The race of arms known to the last digit, whose quantiles are one number."""
    mean = family.posterior_mean(belief)
    leads = mean == mean.max()
    return leads / leads.sum(), mean.max() - mean


def _quantiles(family: Family, belief: FloatArray, rule: _Rule) -> FloatArray:
    """Of every arm: (levels, K)."""
    return family.mean_quantile(belief[:, None, :], rule.levels[:, None])


def _grid(
    family: Family, quantiles: FloatArray, rule: _Rule, start: float = -np.inf
) -> tuple[FloatArray, FloatArray]:
    """Means from the start on, and the width that each stands for: each (nodes,)."""
    # a family on cells has jumps at their edges
    edges = np.unique(np.append(quantiles, ability(family, "edges")))
    edges = edges[np.isfinite(edges) & (edges >= start)]
    middle, half = (edges[1:] + edges[:-1]) / 2, (edges[1:] - edges[:-1]) / 2
    x = (middle[:, None] + half[:, None] * rule.nodes).ravel()
    # a node beside an end of the range may round to it, where a density may be infinite
    low, high = family.means.low, family.means.high
    x = np.clip(x, np.nextafter(low, high), np.nextafter(high, low))
    return x, (half[:, None] * rule.weights).ravel()


def _at(
    family: Family, belief: FloatArray, x: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Every arm's density and distribution, and the product of the others', each (nodes, K)."""
    density = np.exp(family.log_density(belief[:, None, :], x[:, None]))
    below = family.mean_cdf(belief[:, None, :], x[:, None])
    return density, below, _product_of_others(below)


def _product_of_others(factors: FloatArray) -> FloatArray:
    """For each arm the product over all other arms, without dividing: (nodes, K) -> (nodes, K)."""
    ones = np.ones((len(factors), 1))
    before = np.cumprod(np.hstack([ones, factors[:, :-1]]), axis=1)
    after = np.cumprod(np.hstack([ones, factors[:, :0:-1]]), axis=1)[:, ::-1]
    return np.asarray(before * after, dtype=float)
