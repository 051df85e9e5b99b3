"""The four kinds of belief the kernels know, each read from a pair (count, total).

Every family with a kernel keeps two numbers per arm, and both equations of the paper act alike on
them: an observation y adds rate to the count and rate * y to the total, a merge averages both.

| belief        | families           | count       | total            | the mean is                |
|---------------|--------------------|-------------|------------------|----------------------------|
| GAUSSIAN      | Gaussian           | precision   | precision * mean | N(total/count, 1/count)    |
| BETA          | Bernoulli, Bounded | alpha + beta| alpha            | Beta(total, count - total) |
| GAMMA         | Poisson            | rate        | shape            | Gamma(total) / count       |
| INVERSE_GAMMA | Exponential        | shape       | rate             | total / Gamma(count)       |

For all four P(mean > x) <= factor exp(-d^2 / (2 spread(x) count)) with d = x count - total > 0:
Chernoff's bound, its exponent bounded from below by a parabola; the factor is 1, for the Gaussian
1/2.  It needs no division and no exp to compare with a threshold.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from posse.lab.compiled.jit import helper
from posse.lab.compiled.random import next_gamma, next_normal, next_uniform
from posse.lab.compiled.special import (
    beta_prefix,
    beta_tails,
    gamma_prefix,
    gamma_tails,
    normal_score,
)

GAUSSIAN, BETA, GAMMA, INVERSE_GAMMA = (np.uint64(i) for i in range(4))
_TINY = 1e-300  # quantiles below are 0, as they are or nearly are for floats


@njit(inline="always")
def factor(belief):
    """The factor of the common tail bound."""
    return 0.5 if belief == GAUSSIAN else 1.0


@njit(inline="always")
def spread(belief, x):
    """The variance-like factor of the common tail bound at x."""
    if belief == GAUSSIAN:
        return 1.0
    if belief == BETA:
        return x * (1.0 - x) if x < 0.5 else 0.25
    return x if belief == GAMMA else x * x


@helper
def sample(belief, count, total, stream):
    """One draw of the mean."""
    if belief == GAUSSIAN:
        return (total + next_normal(stream) * math.sqrt(count)) / count
    if belief == BETA:
        successes = next_gamma(stream, total)
        failures = next_gamma(stream, count - total)
        both = successes + failures
        if both > 0.0:
            return successes / both
        return 1.0 if next_uniform(stream) * count < total else 0.0  # both shapes tiny
    if belief == GAMMA:
        return next_gamma(stream, total) / count
    return total / next_gamma(stream, count)


@helper
def tail_bound(belief, count, total, x):
    """An upper bound of P(mean > x) for x above total/count, at most the common one."""
    if belief == GAUSSIAN:
        d = x * count - total
        square = d * d / count
        # Mills' ratio: at most exp(-square/2)/2, the common bound, as soon as square > 2/pi
        return 0.3989422804014327 * math.exp(-0.5 * square) / math.sqrt(square)
    if belief == BETA:  # exp(-count kl(mean, x))
        if x >= 1.0:
            return 0.0
        failures = count - total
        exponent = total * math.log(x * count / total)
        if failures > 0.0:
            exponent += failures * math.log((1.0 - x) * count / failures)
        return math.exp(exponent)
    if belief == GAMMA:  # exp(-a (r - 1 - log r)) with a = total, r = x count / a
        return math.exp(total - x * count + total * math.log(x * count / total))
    w = total / x  # the same for the lower tail of a Gamma
    return math.exp(count - w + count * math.log(w / count))


@helper
def tail(belief, count, total, x):
    """P(mean > x)."""
    if belief == GAUSSIAN:
        return 0.5 * math.erfc((x * count - total) / math.sqrt(2.0 * count))
    if belief == BETA:
        return beta_tails(total, count - total, x)[1]
    if belief == GAMMA:
        return gamma_tails(total, x * count)[1]
    if x <= 0.0:
        return 1.0
    return gamma_tails(count, total / x)[0]


@helper
def sample_tail(belief, count, total, x, stream):
    """One draw of the mean given that it is above x, where x is beyond the mode.

    Rejection from the exponential whose rate is the slope of the log-density at x, which lies
    above every log-concave density; from a power where the density is not log-concave.
    """
    if belief == GAUSSIAN:
        root = math.sqrt(count)
        a = (x * count - total) / root
        while True:
            excess = -math.log(next_uniform(stream)) / a
            if next_uniform(stream) < math.exp(-0.5 * excess * excess):
                return (total + (a + excess) * root) / count
    if belief == BETA:
        return _sample_beta_tail(total, count - total, x, stream)
    if belief == GAMMA:
        w = x * count
        if total < 1.0:
            while True:
                g = w - math.log(next_uniform(stream))
                if math.log(next_uniform(stream)) < (total - 1.0) * math.log(g / w):
                    return g / count
        slope = 1.0 - (total - 1.0) / w
        while True:
            excess = -math.log(next_uniform(stream)) / slope
            ratio = (total - 1.0) * math.log1p(excess / w) - excess + slope * excess
            if math.log(next_uniform(stream)) < ratio:
                return (w + excess) / count
    w = total / x
    slope = (count - 1.0) / w - 1.0
    while True:
        excess = -math.log(next_uniform(stream)) / slope
        if excess < w:
            ratio = (count - 1.0) * math.log1p(-excess / w) + excess + slope * excess
            if math.log(next_uniform(stream)) < ratio:
                return total / (w - excess)


@helper
def _sample_beta_tail(a, b, x, stream):
    """Beta(a, b) given that it is above x."""
    slope = (b - 1.0) / (1.0 - x) - (a - 1.0) / x
    if a >= 1.0 and b >= 1.0 and slope > 1e-8:
        while True:
            z = x - math.log(next_uniform(stream)) / slope
            if z < 1.0:
                ratio = (a - 1.0) * math.log(z / x) + (b - 1.0) * math.log((1.0 - z) / (1.0 - x))
                if math.log(next_uniform(stream)) < ratio + slope * (z - x):
                    return z
    # 1 - z is a power of a uniform under the factor (1 - z)^(b - 1); the other factor is bounded
    highest = x if a < 1.0 else 1.0
    while True:
        z = 1.0 - (1.0 - x) * math.exp(math.log(next_uniform(stream)) / b)
        if math.log(next_uniform(stream)) < (a - 1.0) * math.log(z / highest):
            return z


@helper
def _density(belief, count, total, x):
    """The density of the mean at x, and the slope of its logarithm."""
    if belief == BETA:
        a, b = total, count - total
        return beta_prefix(a, b, x) / (x * (1.0 - x)), (a - 1.0) / x - (b - 1.0) / (1.0 - x)
    if belief == GAMMA:
        return gamma_prefix(total, x * count) / x, (total - 1.0) / x - count
    w = total / x
    return gamma_prefix(count, w) / x, (w - (count + 1.0)) / x


@helper
def start(belief, count, total, score):
    """A point near the quantile of a standard normal score, from which to look for it."""
    mean = total / count
    if belief == BETA:
        return mean + score * math.sqrt(mean * (1.0 - mean) / (count + 1.0))
    return mean * math.exp(score / math.sqrt(total if belief == GAMMA else count))


@helper
def upper_quantile(belief, count, total, level, start):
    """The x with P(mean > x) = level.

    Halley's method on the logarithm of the tail, kept inside a shrinking bracket; three steps or
    so from a start nearby.  While an end of the bracket is that of the range, steps towards it are
    factors, each the square of the last: of small shapes quantiles may be 1e-200 or 1e200.
    """
    if belief == GAUSSIAN:
        return (total + normal_score(level) * math.sqrt(count)) / count
    low, high = 0.0, 1.0 if belief == BETA else math.inf
    x = start if low < start < high else total / count
    target = math.log(level)
    reach = 2.0
    for _ in range(200):
        above = tail(belief, count, total, x)
        if above < level:
            if x <= _TINY:
                return 0.0
            high = x
        else:
            low = x
        density, log_slope = _density(belief, count, total, x)
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
