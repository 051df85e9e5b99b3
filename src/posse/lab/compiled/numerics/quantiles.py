"""Quantiles of posteriors by root finding."""

from __future__ import annotations

import math

from posse.lab.compiled.jit import helper

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
