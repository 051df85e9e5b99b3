"""Beta beliefs: the mean is Beta(total, count - total)."""

from __future__ import annotations

import math

from posse.lab.compiled.beliefs.belief import Belief
from posse.lab.compiled.beliefs.scores import tail_score
from posse.lab.compiled.gammas import sample_all, sample_pivots
from posse.lab.compiled.jit import helper, vectorised
from posse.lab.compiled.random import log, next_gamma, next_uniform
from posse.lab.compiled.special import beta_prefix, beta_tails


@helper
def beta_mean(count, total):
    """The mean's expectation."""
    return total / count


@vectorised
def beta_spread(x):
    """The variance-like factor of the common tail bound at x."""
    return x * (1.0 - x) if x < 0.5 else 0.25


@helper
def beta_sample(count, total, stream):
    """One draw of the mean."""
    successes = next_gamma(stream, total)
    failures = next_gamma(stream, count - total)
    both = successes + failures
    if both > 0.0:
        return successes / both
    return 1.0 if next_uniform(stream) * count < total else 0.0  # both shapes tiny


@helper
def beta_tail(count, total, x):
    """P(mean > x)."""
    return beta_tails(total, count - total, x)[1]


@helper
def beta_tail_bound(count, total, x):
    """exp(-count kl(mean, x))."""
    if x >= 1.0:
        return 0.0
    failures = count - total
    exponent = total * math.log(x * count / total)
    if failures > 0.0:
        exponent += failures * math.log((1.0 - x) * count / failures)
    return math.exp(exponent)


@helper
def beta_sample_tail(count, total, x, stream):
    """Rejection from an exponential where the density is log-concave, else from a power."""
    a, b = total, count - total
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
def beta_density(count, total, x):
    """The density of the mean at x, and the slope of its logarithm."""
    a, b = total, count - total
    return beta_prefix(a, b, x) / (x * (1.0 - x)), (a - 1.0) / x - (b - 1.0) / (1.0 - x)


@vectorised
def beta_start(count, total, score):
    """A point near the quantile of a standard normal score."""
    mean = total / count
    return mean + score * math.sqrt(mean * (1.0 - mean) / (count + 1.0))


@vectorised
def beta_near_score(count, total, x):
    """About the normal score of P(mean > x), its slope in x, a bound of the error."""
    failures, d, rest = count - total, x * count - total, 1.0 - x
    small = min(total, failures)
    safe = max(failures, 1e-20)
    fall = total * log(total / (count * x)) + failures * log(safe / (count * rest))
    v = d * math.sqrt(count / (total * safe))
    return tail_score(fall, v, d / (x * rest), small)


@helper
def beta_is_log_concave(count, total):
    """Whether the density is, so that 1/e of it lies above total/count."""
    return total >= 1.0 and count - total >= 1.0


@vectorised
def beta_shapes(count, total):
    """The shapes of the Gamma variates that make a draw."""
    return total, count - total


@vectorised
def beta_from_gammas(count, total, first, second):
    """The draw that Gamma variates make."""
    return first / (first + second)


BETA = Belief(
    name="BETA",
    factor=1.0,
    highest=1.0,
    worth=3,
    mean=beta_mean,
    spread=beta_spread,
    sample=beta_sample,
    tail=beta_tail,
    tail_bound=beta_tail_bound,
    sample_tail=beta_sample_tail,
    density=beta_density,
    start=beta_start,
    near_score=beta_near_score,
    is_log_concave=beta_is_log_concave,
    two_gammas=True,
    shapes=beta_shapes,
    from_gammas=beta_from_gammas,
    sample_pivots=sample_pivots,
    sample_all=sample_all,
)
