"""Tails and quantiles of the Beta and Gamma laws for kernels, accurate far into the tails."""

from __future__ import annotations

import math

from posse.lab.compiled.jit import helper

_TINY = 1e-300
_LARGE = 1e6


@helper
def _stirling_error(a):
    """lgamma(a) - [(a - 1/2) log a - a + log(2 pi)/2], for a >= 10."""
    i = 1.0 / a
    z = i * i
    tail = 1 / 1260 - z * (1 / 1680 - z * (1 / 1188 - z * (691 / 360360)))
    return i * (1 / 12 - z * (1 / 360 - z * tail))


@helper
def _log1p_minus(d):
    """log(1 + d) - d, without cancellation near 0."""
    if abs(d) < 0.01:
        series = 1 / 6 - d * (1 / 7 - d * (1 / 8 - d * (1 / 9)))
        return -d * d * (1 / 2 - d * (1 / 3 - d * (1 / 4 - d * (1 / 5 - d * series))))
    return math.log1p(d) - d


@helper
def _log_minus(x, mean):
    """log(x / mean) - (x / mean - 1), without cancellation near mean nor near 0."""
    off = (x - mean) / mean
    return math.log(x / mean) - off if x < 0.1 * mean else _log1p_minus(off)


@helper
def beta_prefix(a, b, x):
    """x^a (1 - x)^b / B(a, b), for 0 < x < 1."""
    # large shapes: the peak by Stirling's formula, so that no large logarithms cancel
    if a >= 10.0 and b >= 10.0:
        n = a + b
        mean = a / n
        exponent = a * _log_minus(x, mean) + b * _log_minus(1.0 - x, 1.0 - mean)
        exponent += _stirling_error(n) - _stirling_error(a) - _stirling_error(b)
        return math.exp(exponent) * math.sqrt(a * (b / n) / (2.0 * math.pi))
    small = min(a, b)
    large = max(a, b)
    if large >= 10.0:  # the difference of two large lgammas would lose their digits
        n = a + b
        rise = (large - 0.5) * math.log1p(small / large) + small * math.log(n) - small
        log_beta = math.lgamma(small) - (rise + _stirling_error(n) - _stirling_error(large))
    else:
        log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    return math.exp(a * math.log(x) + b * math.log1p(-x) - log_beta)


@helper
def _beta_fraction(a, b, x):
    """The continued fraction of the incomplete beta function (Lentz's method)."""
    total = a + b
    above = a + 1.0
    below = a - 1.0
    c = 1.0
    d = 1.0 - total * x / above
    d = 1.0 / (d if abs(d) > _TINY else _TINY)
    h = d
    for m in range(1, 100_000):
        twice = 2 * m
        term = m * (b - m) * x / ((below + twice) * (a + twice))
        d = 1.0 + term * d
        c = 1.0 + term / c
        d = 1.0 / (d if abs(d) > _TINY else _TINY)
        c = c if abs(c) > _TINY else _TINY
        h *= d * c
        term = -(a + m) * (total + m) * x / ((a + twice) * (above + twice))
        d = 1.0 + term * d
        c = 1.0 + term / c
        d = 1.0 / (d if abs(d) > _TINY else _TINY)
        c = c if abs(c) > _TINY else _TINY
        step = d * c
        h *= step
        if abs(step - 1.0) < 3e-16:
            break
    return h


@helper
def beta_tails(a, b, x):
    """P(X <= x) and P(X > x) for X ~ Beta(a, b), each to full relative accuracy in its tail."""
    if x <= 0.0:
        return 0.0, 1.0
    if x >= 1.0:
        return 1.0, 0.0
    prefix = beta_prefix(a, b, x)
    # the continued fraction converges fast below the mean; above it the other tail is computed
    if x < (a + 1.0) / (a + b + 2.0):
        below = prefix * _beta_fraction(a, b, x) / a
        return below, 1.0 - below
    above = prefix * _beta_fraction(b, a, 1.0 - x) / b
    return 1.0 - above, above


@helper
def gamma_prefix(a, x):
    """x^a e^-x / Gamma(a), for x > 0."""
    if a >= 10.0:
        exponent = a * _log_minus(x, a) - _stirling_error(a)
        return math.exp(exponent) * math.sqrt(a / (2.0 * math.pi))
    return math.exp(a * math.log(x) - x - math.lgamma(a))


@helper
def large_gamma_tails(a, x):
    """`gamma_tails` of a shape so large that series are long (Temme 1979), to 1e-10."""
    off = (x - a) / a
    eta = math.copysign(math.sqrt(-2.0 * _log_minus(x, a)), off)
    if abs(off) < 0.01:
        term = -1 / 3 + eta * (1 / 12 - eta * (2 / 135 - eta * (1 / 864 + eta * (1 / 2835))))
    else:
        term = 1.0 / off - 1.0 / eta
    term *= math.exp(-0.5 * a * eta * eta) / math.sqrt(2.0 * math.pi * a)
    y = eta * math.sqrt(0.5 * a)
    return 0.5 * math.erfc(-y) - term, 0.5 * math.erfc(y) + term


@helper
def gamma_tails(a, x):
    """P(X <= x) and P(X > x) for X ~ Gamma(a), each to full relative accuracy in its tail."""
    if x <= 0.0:
        return 0.0, 1.0
    if a >= _LARGE:
        return large_gamma_tails(a, x)
    prefix = gamma_prefix(a, x)
    if x < a + 1.0:  # the series of the lower tail
        term = 1.0 / a
        total = term
        n = a
        while term > 1e-17 * total:
            n += 1.0
            term *= x / n
            total += term
        below = prefix * total
        return below, 1.0 - below
    b = x + 1.0 - a  # the continued fraction of the upper tail
    c = 1.0 / _TINY
    d = 1.0 / b
    h = d
    for i in range(1, 100_000):
        term = -i * (i - a)
        b += 2.0
        d = term * d + b
        d = 1.0 / (d if abs(d) > _TINY else _TINY)
        c = b + term / c
        c = c if abs(c) > _TINY else _TINY
        step = d * c
        h *= step
        if abs(step - 1.0) < 3e-16:
            break
    above = prefix * h
    return 1.0 - above, above


@helper
def normal_score(tail):
    """The standard normal quantile with this upper tail (AS 241, Wichura 1988, to 1e-15)."""
    q = 0.5 - tail
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        top = 2509.0809287301226727 * r + 33430.575583588128105
        top = ((top * r + 67265.770927008700853) * r + 45921.953931549871457) * r
        top = ((top + 13731.693765509461125) * r + 1971.5909503065514427) * r
        top = (top + 133.14166789178437745) * r + 3.387132872796366608
        low = 5226.495278852545925 * r + 28729.085735721942674
        low = ((low * r + 39307.89580009271061) * r + 21213.794301586595867) * r
        low = ((low + 5394.1960214247511077) * r + 687.1870074920579083) * r
        low = (low + 42.313330701600911252) * r + 1.0
        return q * top / low
    r = math.sqrt(-math.log(tail if q > 0 else 1.0 - tail))
    if r <= 5.0:
        r -= 1.6
        top = 7.7454501427834140764e-4 * r + 0.0227238449892691845833
        top = ((top * r + 0.24178072517745061177) * r + 1.27045825245236838258) * r
        top = ((top + 3.64784832476320460504) * r + 5.7694972214606914055) * r
        top = (top + 4.6303378461565452959) * r + 1.42343711074968357734
        low = 1.05075007164441684324e-9 * r + 5.475938084995344946e-4
        low = ((low * r + 0.0151986665636164571966) * r + 0.14810397642748007459) * r
        low = ((low + 0.68976733498510000455) * r + 1.6763848301838038494) * r
        low = (low + 2.05319162663775882187) * r + 1.0
    else:
        r -= 5.0
        top = 2.01033439929228813265e-7 * r + 2.71155556874348757815e-5
        top = ((top * r + 0.0012426609473880784386) * r + 0.026532189526576123093) * r
        top = ((top + 0.29656057182850489123) * r + 1.7848265399172913358) * r
        top = (top + 5.4637849111641143699) * r + 6.6579046435011037772
        low = 2.04426310338993978564e-15 * r + 1.4215117583164458887e-7
        low = ((low * r + 1.8463183175100546818e-5) * r + 7.868691311456132591e-4) * r
        low = ((low + 0.0148753612908506148525) * r + 0.13692988092273580531) * r
        low = (low + 0.59983220655588793769) * r + 1.0
    score = top / low
    return score if q > 0 else -score
