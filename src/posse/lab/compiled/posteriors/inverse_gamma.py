"""Inverse-Gamma posterior: the mean is total / Gamma(count)."""

from __future__ import annotations

import math

from posse.lab.compiled.jit import helper, inline_here, vectorised
from posse.lab.compiled.numerics.gamma_variates import sample_all, sample_pivots
from posse.lab.compiled.numerics.quantiles import UNKNOWN, tail_score
from posse.lab.compiled.numerics.special import gamma_prefix, gamma_tails
from posse.lab.compiled.philox import exp, log, next_gamma, next_uniform
from posse.lab.compiled.posteriors.posterior import Posterior
from posse.policies import LEAST


@helper
def inverse_gamma_mean(count, total):
    """Return the expectation of the mean."""
    return total / (count - 1.0)


@vectorised
def inverse_gamma_spread(x):
    """Return the variance-like factor of the common tail bound at x."""
    return x * x


@helper
def inverse_gamma_sample(count, total, stream):
    """Draw the mean once."""
    return total / next_gamma(stream, count)


@helper
def inverse_gamma_tail(count, total, x):
    """Return P(mean > x)."""
    if x <= 0.0:
        return 1.0
    return gamma_tails(count, total / x)[0]


@vectorised
def inverse_gamma_tail_bound(count, total, x):
    """That of a Gamma variate, for its lower tail."""
    inline_here()
    w = total / x
    return exp(count - w + count * log(w / count))


@helper
def inverse_gamma_sample_tail(count, total, x, stream):
    """Rejection from the exponential whose rate is the slope of the Gamma's log-density."""
    w = total / x
    slope = (count - 1.0) / w - 1.0
    while True:
        excess = -math.log(next_uniform(stream)) / slope
        if excess < w:
            ratio = (count - 1.0) * math.log1p(-excess / w) + excess + slope * excess
            if math.log(next_uniform(stream)) < ratio:
                return total / (w - excess)


@helper
def inverse_gamma_density(count, total, x):
    """Return the density of the mean at x, and the slope of its logarithm."""
    w = total / x
    return gamma_prefix(count, w) / x, (w - (count + 1.0)) / x


@vectorised
def inverse_gamma_start(count, total, score):
    """Return a point near the quantile of a standard normal score."""
    root = 1.0 - 1.0 / (9.0 * count) - score / (3.0 * math.sqrt(count))  # Wilson and Hilferty
    return total / count / (root * root * root if root > 0.1 else 1.0)


@vectorised
def inverse_gamma_near_score(count, total, x):
    """Approximate the normal score of P(mean > x); also its slope in x and an error bound."""
    inline_here()
    w = total / x
    d = count - w
    fall = count * log(count / w) - d
    return tail_score(fall, d * d, count, d / x, count, d > 0.0)


@vectorised
def inverse_gamma_ahead(count, total, x, score, log_level, hazard):
    """How far the quantile of a score is above x: see `Posterior.ahead`."""
    there, slope, error = inverse_gamma_near_score(count, total, x)
    return score - there, (score - there) / slope, error, UNKNOWN


@helper
def inverse_gamma_is_log_concave(count, total):
    """Whether the density is log-concave, so that 1/e of the mass lies above total/count."""
    # its upper tail is the lower tail of a Gamma variate, log-concave since the shape is above 1
    return True


@vectorised
def inverse_gamma_shapes(count, total):
    """Return the shapes of the Gamma variates of a draw."""
    return count, 0.0


@vectorised
def inverse_gamma_from_gammas(count, total, first, second):
    """Return the draw given its Gamma variates."""
    return total / first


@vectorised
def inverse_gamma_unit_variance(mean):
    """Return the variance of a reward up to a constant factor: that of an exponential law."""
    return mean * mean


@vectorised
def inverse_gamma_pulls(count, total):
    """Return how many rewards a belief is worth, up to that factor.

    The variance of the mean is infinite for counts up to 2.
    """
    return max(count - 2.0, LEAST)


INVERSE_GAMMA = Posterior(
    name="INVERSE_GAMMA",
    factor=1.0,
    highest=math.inf,
    worth=3,
    mean=inverse_gamma_mean,
    spread=inverse_gamma_spread,
    sample=inverse_gamma_sample,
    tail=inverse_gamma_tail,
    tail_bound=inverse_gamma_tail_bound,
    sample_tail=inverse_gamma_sample_tail,
    density=inverse_gamma_density,
    start=inverse_gamma_start,
    near_score=inverse_gamma_near_score,
    ahead=inverse_gamma_ahead,
    is_log_concave=inverse_gamma_is_log_concave,
    two_gammas=False,
    shapes=inverse_gamma_shapes,
    from_gammas=inverse_gamma_from_gammas,
    unit_variance=inverse_gamma_unit_variance,
    pulls=inverse_gamma_pulls,
    sample_pivots=sample_pivots,
    sample_all=sample_all,
)
