"""Calibration of merged beliefs by their effective sample size.

A belief of Algorithm 1 is the prior plus a sum over pulls of weight times statistic. The weights
are uneven, because a new reward counts N times until it has mixed, so the belief is tempered: it is
overconfident. A sketch travels with it, linear like the belief: the sum of the weights w, and sums
of w times random signs, whose mean square is an unbiased estimate of the sum of w^2. The effective
sample size is (sum of w)^2 / sum of w^2 (Kish). docs/calibration.md measures the coverage.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from posse.families import Family
from posse.randomness import FloatArray, Randomness

SIGNS = 16
# Sixteen signs estimate the sum of squared weights with an error: the ratio is Student's t, not
# normal, worth a factor (2.12 / 1.96)^2 = 1.17. The remaining factor is measured
# (docs/calibration.md): agents choose by an overconfident belief, and an arm with an unlucky start
# is not played often enough to recover.
CAUTION = 1.4


def create_sketch(n_agents: int | tuple[int, ...], n_arms: int) -> FloatArray:
    """Create the sketch before any pull: zeros (1 + SIGNS, N, K), or n_agents = (R, N) for runs."""
    between = n_agents if isinstance(n_agents, tuple) else (n_agents,)
    return np.zeros((1 + SIGNS, *between, n_arms))


def update_sketch(
    sketch: FloatArray,  # (1 + SIGNS, ..., K)
    arms: NDArray[np.integer],  # (...)
    learning_rate: float | FloatArray,  # one, or one for each agent (N,)
    randomness: Randomness,
) -> FloatArray:
    """Return a new sketch with each agent's pull and random signs; `beliefs.merge` merges it."""
    n_rows = len(sketch)
    n_arms = sketch.shape[-1]
    draws = np.asarray(randomness.random((*arms.shape, n_rows - 1)))  # (..., SIGNS)
    # Signs of different pulls are independent, so cross terms vanish in expectation and the mean
    # square of a signed sum estimates the sum of squared weights.
    signs = np.where(draws < 0.5, -1.0, 1.0)
    updated = sketch.copy()
    cells = updated.reshape(n_rows, -1)  # a view: (1 + SIGNS, agents * K)
    columns = np.arange(0, cells.shape[1], n_arms) + np.ravel(arms)
    rates = np.ravel(np.broadcast_to(learning_rate, arms.shape))  # (agents,)
    cells[0, columns] += rates
    cells[1:, columns] += rates * signs.reshape(-1, n_rows - 1).T
    return updated


def effective_pulls(weight: FloatArray, squares: FloatArray) -> FloatArray:
    """Return the effective sample size in pulls, with caution, and at most the weight.

    weight: the sum of w; squares: an estimate of the sum of w^2. Without squares, the weight.
    """
    weight = np.asarray(weight, dtype=float)
    squares = np.asarray(squares, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        pulls = weight**2 / (CAUTION * squares)
    return np.where(squares > 0, np.minimum(pulls, weight), weight)


def calibrate(family: Family, belief: FloatArray, signs: FloatArray) -> FloatArray:
    """Return the calibrated belief: the same mean reward, with the effective number of pulls.

    belief: (D, ..., K), such as that of an agent in `result.beliefs`
    signs:  (1 + SIGNS, ..., K), its sketch in `result.signs`

    >>> import posse
    >>> bandit = posse.Bandit.gaussian([0.5, 0.1])
    >>> ts = posse.Decentralized(posse.ThompsonSampling())
    >>> result = posse.simulate(bandit, posse.networks.cycle(30), ts, horizon=20, runs=1, seed=7,
    ...                         record=[20], keep=("beliefs", "signs"))
    >>> belief, signs = result.beliefs[0, -1, :, 0], result.signs[0, -1, :, 0]  # of agent 0
    >>> plain = posse.summarise(bandit.family, belief)
    >>> honest = posse.summarise(bandit.family, posse.calibrate(bandit.family, belief, signs))
    >>> bool((honest.high - honest.low > plain.high - plain.low).all())
    True
    """
    belief = np.asarray(belief, dtype=float)
    signs = np.asarray(signs, dtype=float)
    if signs.ndim < 2 or len(signs) < 2 or signs.shape[1:] != belief.shape[1:]:
        raise ValueError(
            f"signs must have the shape (1 + signs, {', '.join(map(str, belief.shape[1:]))}) of "
            f"the belief, got {signs.shape}"
        )
    prior = family.prior().reshape(-1, *[1] * (belief.ndim - 1))
    weight = signs[0]
    pulls = effective_pulls(weight, np.mean(signs[1:] ** 2, axis=0))
    share = np.divide(pulls, weight, out=np.ones_like(weight), where=weight > 0)
    return np.asarray(prior + (belief - prior) * share)
