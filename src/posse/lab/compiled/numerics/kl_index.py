"""The KL-UCB index for kernels: the twin of `algorithms.rivals.kl_index`, one arm at a time."""

from __future__ import annotations

import math

from posse.lab.compiled.jit import helper

# The kinds of `posse.algorithms.rivals.kl_index.divergence_kind`, in its order.
GAUSSIAN, UNKNOWN_VARIANCE, BERNOULLI, POISSON, EXPONENTIAL = range(5)
# An index above all others, where infinities are not allowed.
FIRST = 1e300
# Positions in the table of GosInE and Dist-UCB: the kind of divergence (below 0: the published
# index, whose width is sqrt(level / n)) and its sigma; then a number of each agent.
KIND, SIGMA, OWN = range(3)
_STEPS = 60
# The relative size of the last Newton step: the next would be below rounding.
_CLOSE = 1e-9


@helper
def _poisson_bound(p, radius):
    """Solve x^2/(2 (p + x)) = radius."""
    return radius + math.sqrt(radius * (radius + 2.0 * p))


@helper
def _above_bernoulli(p, radius):
    """The x above p with kl(p, p + x) = radius, from above."""
    complement = 1.0 - p
    if complement <= 0.0:
        return 0.0
    if p <= 0.0:
        return -math.expm1(-radius)
    entropy = -p * math.log(p) - complement * math.log(complement)
    x = min(math.sqrt(radius / 2.0), _poisson_bound(p, radius))
    x = min(x, complement - math.exp(-(radius + entropy) / complement))
    for _ in range(_STEPS):
        if x <= 0.0 or x >= complement:
            break
        kl = -p * math.log1p(x / p) - complement * math.log1p(-x / complement)
        step = (kl - radius) * (p + x) * (complement - x) / x
        x = max(x - step, 0.0)
        if abs(step) <= _CLOSE * min(x, complement - x):
            break
    return x


@helper
def _above_poisson(p, radius):
    """The x above p with kl(p, p + x) = radius, from above."""
    if p <= 0.0:
        return radius
    x = _poisson_bound(p, radius)
    for _ in range(_STEPS):
        if x <= 0.0:
            break
        step = (x - p * math.log1p(x / p) - radius) * (p + x) / x
        x = max(x - step, 0.0)
        if abs(step) <= _CLOSE * x:
            break
    return x


@helper
def _times_exponential(radius):
    """Return the ratio of index to mean of exponential rewards."""
    s = min(radius + 1.0, _poisson_bound(1.0, radius))
    for _ in range(_STEPS):
        if s <= 0.0:
            break
        step = (s + math.expm1(-s) - radius) / -math.expm1(-s)
        s = max(s - step, 0.0)
        if abs(step) <= _CLOSE * s:
            break
    return math.exp(min(s, 600.0))


@helper
def kl_index(kind, parameter, mean, count, level):
    """Return the largest q with count kl(mean, q) <= level; parameter: sigma, if any."""
    if count <= 0.0:
        return FIRST
    radius = max(level, 0.0) / count
    if kind == GAUSSIAN:
        return mean + parameter * math.sqrt(2.0 * radius)
    if kind == UNKNOWN_VARIANCE:
        return mean + parameter * math.sqrt(math.expm1(min(2.0 * radius, 600.0)))
    p = max(mean, 0.0)
    if kind == BERNOULLI:
        p = min(p, 1.0)
        return min(p + _above_bernoulli(p, radius), 1.0)
    if kind == POISSON:
        return p + _above_poisson(p, radius)
    return p * _times_exponential(radius)


@helper
def _stays_below(kind, p, radius, best):
    """Whether the index of a mean p is certainly below `best`, without solving for it."""
    if p >= best:
        return False
    if kind == BERNOULLI:
        if p + math.sqrt(radius / 2.0) < best:
            return True
        if p <= 0.0 or best >= 1.0:
            return False
        kl = p * math.log(p / best) + (1.0 - p) * math.log((1.0 - p) / (1.0 - best))
    elif kind == POISSON:
        if p + _poisson_bound(p, radius) < best:
            return True
        if p <= 0.0:
            return False
        kl = p * math.log(p / best) + best - p
    else:
        if p <= 0.0:
            return False
        kl = math.log(best / p) + p / best - 1.0
    return kl > radius + 1e-9 * (radius + 1.0)  # far beyond rounding, so that ties stay ties


@helper
def kl_score(kind, parameter, mean, count, level, best):
    """Return `kl_index`, or a number below `best` if it cannot reach the best index so far.

    A square root or two logarithms exclude most arms, while solving takes ten. So callers start
    with the arm that was played last, which makes `best` large.
    """
    if count > 0.0 and kind >= BERNOULLI:
        p = max(mean, 0.0) if kind != BERNOULLI else min(max(mean, 0.0), 1.0)
        if _stays_below(kind, p, max(level, 0.0) / count, best):
            return -FIRST
    return kl_index(kind, parameter, mean, count, level)


@helper
def index_score(table, mean, count, level, best):
    """Return the published index, or the KL index if it can reach the best so far."""
    if count <= 0.0:
        return FIRST
    if table[KIND] < 0.0:
        return mean + math.sqrt(level / count)
    return kl_score(int(table[KIND]), table[SIGMA], mean, count, level, best)
