"""Quantiles of posteriors by root finding, and approximate normal scores of their tails."""

from __future__ import annotations

import math

from numba import njit

from posse.lab.compiled.jit import helper
from posse.lab.compiled.philox import log

_TINY = 1e-300  # quantiles below are 0, as they are or nearly are for floats


@helper
def upper_quantile(posterior, count, total, level, start):
    """Find x with P(mean > x) = level, for means above 0.

    Halley's method on the logarithm of the tail, inside a shrinking bracket; about three steps from
    a start nearby. While an end of the bracket is that of the range, steps towards it are factors,
    each the square of the last: quantiles of small shapes may be 1e-200 or 1e200.
    """
    low = 0.0
    high = posterior.highest
    x = start if low < start < high else total / count
    target = math.log(level)
    reach = 2.0
    for _ in range(200):
        above = posterior.tail(count, total, x)
        if above < level:
            if x <= _TINY:
                return 0.0
            high = x
        else:
            low = x
        density, log_slope = posterior.density(count, total, x)
        following = math.nan
        if above > 0.0 and density > 0.0:
            hazard = density / above
            excess = math.log(above) - target
            step = excess / hazard
            # f = log tail - target: f''/f' = log_slope + hazard
            damping = 1.0 + 0.5 * step * (log_slope + hazard)
            following = x + step / min(max(damping, 0.5), 2.0)
            if high == math.inf:  # from far below, where the density is tiny, a step is huge
                following = min(following, reach * x)
            near = abs(following - x) <= 1e-6 * min(x, high - x) and low <= following <= high
            if near and abs(excess) <= 0.01 * (1.0 - level):
                return following  # cubic convergence: the next step would be below rounding
        if not low < following < high:
            if high == math.inf:
                following = reach * x
            elif low == 0.0:
                following = max(high / reach, _TINY)
            elif high > 4.0 * low:
                following = math.sqrt(low) * math.sqrt(high)
            else:
                following = 0.5 * (low + high)
        if following >= reach * x or following * reach <= x:
            reach = min(reach * reach, 1e64)
        if following == x:
            return x
        x = following
    return x


@njit(inline="always")
def stirling_error(a):
    """lgamma(a) - [(a - 1/2) log a - a + log(2 pi)/2] to 4e-7, for a >= 2, without branches.

    Four terms of Stieltjes' continued fraction (Abramowitz & Stegun 6.1.48), as one quotient.
    """
    square = a * a
    low = square + 195 / 371
    high = low + 53 / 210
    return (1 / 12) * a * high / (square * high + (1 / 30) * low)


@njit(inline="always")
def small_stirling_error(a):
    """The same for a >= 1, by Gamma(a + 1) = a Gamma(a)."""
    return stirling_error(a + 1.0) + (a + 0.5) * log(1.0 + 1.0 / a) - 1.0


# Approximate normal scores of tails, from two or three logarithms and two square roots.
#
# For a law whose log-density falls by r^2/2 from its mode to x, with slope v there in units of
# the mode's curvature, the normal score of the tail beyond x is r + log(v/r)/r, up to an error
# that shrinks like shape^(-3/2) (Barndorff-Nielsen 1986; Lugannani and Rice 1980).

UNKNOWN = 1e30  # in place of infinity, for kernels compiled without infinities
# Twice the largest error seen times shape^(3/2), for shapes from 1 on and r from 0.3 to 8; beyond
# 8, where the exact error does not matter, it is less than 1.
_ERROR = 0.05
_LEAST = 0.3  # nearer to the mode v/r is known to too few digits
_MOST = 8.0
# A Newton step by approximate scores from within BENT of the quantile's leaves an error of less
# than (_BEND + _BEND_MORE off^2) off^2 besides that of the score itself: twice the largest seen,
# for shapes from 1 on, scores up to 6.
BENT = 0.1
_BEND = 0.25
_BEND_MORE = 110.0


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


@njit(inline="always")
def bound_step(off, error):
    """Bound how far a quantile is, in scores, that Newton's method takes to be `off` away.

    Upwards this holds for quantiles up to BENT away, or any distance below; downwards within BENT.
    """
    near = max(off, -BENT)
    square = near * near
    doubt = error + (_BEND + _BEND_MORE * square) * square
    return near - doubt, near + doubt
