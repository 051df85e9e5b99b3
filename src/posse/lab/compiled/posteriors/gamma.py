"""Gamma posterior: the mean is Gamma(total) / count."""

from __future__ import annotations

import math

from posse.lab.compiled.jit import helper, inline_here, vectorised
from posse.lab.compiled.numerics.gamma_variates import sample_all, sample_pivots
from posse.lab.compiled.numerics.quantiles import UNKNOWN, tail_score
from posse.lab.compiled.numerics.special import gamma_prefix, gamma_tails
from posse.lab.compiled.philox import exp, log, next_gamma, next_uniform
from posse.lab.compiled.posteriors.posterior import Posterior


@helper
def gamma_mean(count, total):
    """Return the expectation of the mean."""
    return total / count


@vectorised
def gamma_spread(x):
    """Return the variance-like factor of the common tail bound at x."""
    return x


@helper
def gamma_sample(count, total, stream):
    """Draw the mean once."""
    return next_gamma(stream, total) / count


@helper
def gamma_tail(count, total, x):
    """Return P(mean > x)."""
    return gamma_tails(total, x * count)[1]


@vectorised
def gamma_tail_bound(count, total, x):
    """exp(-a (r - 1 - log r)) with a = total, r = x count / a."""
    inline_here()
    return exp(total - x * count + total * log(x * count / total))


@helper
def gamma_sample_tail(count, total, x, stream):
    """Rejection from the exponential whose rate is the slope of the log-density at x."""
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


@helper
def gamma_density(count, total, x):
    """Return the density of the mean at x, and the slope of its logarithm."""
    return gamma_prefix(total, x * count) / x, (total - 1.0) / x - count


@vectorised
def gamma_start(count, total, score):
    """Return a point near the quantile of a standard normal score."""
    root = 1.0 - 1.0 / (9.0 * total) + score / (3.0 * math.sqrt(total))  # Wilson and Hilferty
    return total / count * (root * root * root if root > 0.1 else 1.0)


@vectorised
def gamma_near_score(count, total, x):
    """Approximate the normal score of P(mean > x); also its slope in x and an error bound."""
    inline_here()
    d = x * count - total
    fall = d - total * log(x * count / total)
    return tail_score(fall, d * d, total, d / x, total, d > 0.0)


@vectorised
def gamma_ahead(count, total, x, score, log_level, hazard):
    """How far the quantile of a score is above x: see `Posterior.ahead`."""
    there, slope, error = gamma_near_score(count, total, x)
    return score - there, (score - there) / slope, error, UNKNOWN


@helper
def gamma_is_log_concave(count, total):
    """Whether the density is log-concave, so that 1/e of the mass lies above total/count."""
    return total >= 1.0


@vectorised
def gamma_shapes(count, total):
    """Return the shapes of the Gamma variates of a draw."""
    return total, 0.0


@vectorised
def gamma_from_gammas(count, total, first, second):
    """Return the draw given its Gamma variates."""
    return first / count


@vectorised
def gamma_unit_variance(mean):
    """Return the variance of a reward up to a constant factor: that of a Poisson law."""
    return mean


@vectorised
def gamma_pulls(count, total):
    """Return how many rewards a belief is worth, up to that factor: the rate."""
    return count


GAMMA = Posterior(
    name="GAMMA",
    factor=1.0,
    highest=math.inf,
    worth=3,
    mean=gamma_mean,
    spread=gamma_spread,
    sample=gamma_sample,
    tail=gamma_tail,
    tail_bound=gamma_tail_bound,
    sample_tail=gamma_sample_tail,
    density=gamma_density,
    start=gamma_start,
    near_score=gamma_near_score,
    ahead=gamma_ahead,
    is_log_concave=gamma_is_log_concave,
    two_gammas=False,
    shapes=gamma_shapes,
    from_gammas=gamma_from_gammas,
    unit_variance=gamma_unit_variance,
    pulls=gamma_pulls,
    sample_pivots=sample_pivots,
    sample_all=sample_all,
)
