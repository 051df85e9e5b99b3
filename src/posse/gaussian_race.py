"""The race of Gaussian beliefs for the highest mean, for many contexts at once (quadrature).

As `race`, where there is no belief before that differs little: every visitor has another context.
Log-odds do as well as probabilities, for a monotone map leaves the order of the arms as it is.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from posse.randomness import FloatArray

FARTHEST = 6.0  # standard deviations: of an arm 1e-9 lies beyond, on either side
SCORES = np.array([-FARTHEST, -3.0, 0.0, 3.0, FARTHEST])  # at which the cells of an arm end
NODES = 8  # of Gauss-Legendre in a cell, where 5e-8 is the worst error that was seen


@cache
def _rule() -> tuple[FloatArray, FloatArray]:
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return nodes, weights


def chances(mean: FloatArray, sd: FloatArray) -> FloatArray:
    """Of every arm to have the highest mean: (B, K), (B, K) -> (B, K).

    The integral of its density times the other arms' distribution functions, in cells that are no
    wider than three standard deviations of any arm that rises there, from where all have begun to.
    """
    from scipy.special import ndtr

    nodes, weights = _rule()
    batch = len(mean)
    start = (mean - FARTHEST * sd).max(axis=1)
    edges = (mean[:, :, None] + sd[:, :, None] * SCORES).reshape(batch, -1)
    edges = np.sort(np.maximum(edges, start[:, None]), axis=1)
    half = np.diff(edges, axis=1)[:, :, None] / 2
    x = (edges[:, :-1, None] + half * (1.0 + nodes)).reshape(batch, 1, -1)
    score = (x - mean[:, :, None]) / sd[:, :, None]  # (B, K, nodes)
    below = ndtr(score)
    others, after = np.ones_like(below), np.ones_like(below)
    np.multiply.accumulate(below[:, :-1], axis=1, out=others[:, 1:])
    np.multiply.accumulate(below[:, :0:-1], axis=1, out=after[:, 1:])
    others *= after[:, ::-1]
    others *= np.exp(-0.5 * score * score)
    first = (others @ (half * weights).reshape(batch, -1, 1))[:, :, 0] / sd
    first *= 1.0 / math.sqrt(2.0 * math.pi)
    total = first.sum(axis=1, keepdims=True)
    if not (total > 0.5).all():  # arms known to the last digit, whose cells are one number
        leads = np.asarray(mean == mean.max(axis=1, keepdims=True), dtype=float)
        first = np.where(total > 0.5, first, leads)
        total = first.sum(axis=1, keepdims=True)
    return np.asarray(first / total)
