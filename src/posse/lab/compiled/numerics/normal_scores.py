"""Approximate normal scores of tails, from two or three logarithms and two square roots.

For a law whose log-density falls by r^2/2 from its mode to x, with slope v there in units of the
mode's curvature, the normal score of the tail beyond x is r + log(v/r)/r, up to an error that
shrinks like shape^(-3/2) (Barndorff-Nielsen 1986; Lugannani and Rice 1980).
"""

from __future__ import annotations

import math

from numba import njit

from posse.lab.compiled.philox import log

UNKNOWN = 1e30  # in place of infinity, for kernels compiled without infinities
# Twice the largest error seen times shape^(3/2), for shapes from 1 on and r from 0.3 to 8; beyond
# 8, where the exact error does not matter, it is less than 1.
_ERROR = 0.05
_LEAST = 0.3  # nearer to the mode v/r is known to too few digits
_MOST = 8.0


@njit(inline="always")
def tail_score(fall, above, below, slope, shape, beyond):
    """Return the score, its slope in x and a bound of its error, without branches.

    fall: by how much the log-density falls, r^2/2; above/below: v^2; slope: that of the fall
    in x; shape: the smallest one; beyond: whether x is beyond the mode.
    """
    twice = max(2.0 * fall, 1e-20)
    r = math.sqrt(twice)
    inverse = 1.0 / r
    vague = 1.0 / shape
    score = r + 0.5 * log(max(above, 1e-20) / (below * twice)) * inverse
    error = _ERROR * vague * math.sqrt(vague) + 1e-9
    error = error if r < _MOST else 1.0
    is_known = (r > _LEAST) & (shape > 0.999) & beyond
    return score, slope * inverse, error if is_known else UNKNOWN
