"""Beta posterior: the mean is Beta(total, count - total)."""

from __future__ import annotations

import math

from posse.lab.compiled.jit import helper, inline_here, vectorised
from posse.lab.compiled.numerics.gamma_variates import sample_all, sample_pivots
from posse.lab.compiled.numerics.quantiles import (
    UNKNOWN,
    small_stirling_error,
    stirling_error,
    tail_score,
)
from posse.lab.compiled.numerics.special import beta_prefix, beta_tails
from posse.lab.compiled.philox import exp, log, next_gamma, next_uniform
from posse.lab.compiled.posteriors.posterior import Posterior


@helper
def beta_mean(count, total):
    """Return the expectation of the mean."""
    return total / count


@vectorised
def beta_spread(x):
    """Return the variance-like factor of the common tail bound at x."""
    return x * (1.0 - x) if x < 0.5 else 0.25


@helper
def beta_sample(count, total, stream):
    """Draw the mean once."""
    successes = next_gamma(stream, total)
    failures = next_gamma(stream, count - total)
    both = successes + failures
    if both > 0.0:
        return successes / both
    return 1.0 if next_uniform(stream) * count < total else 0.0  # both shapes tiny


@helper
def beta_tail(count, total, x):
    """Return P(mean > x)."""
    return beta_tails(total, count - total, x)[1]


@vectorised
def beta_tail_bound(count, total, x):
    """exp(-count kl(mean, x))."""
    inline_here()
    failures = count - total
    safe = max(failures, 1e-20)  # 0 times its logarithm is 0
    exponent = total * log(x * count / total) + failures * log(max(1.0 - x, 1e-300) * count / safe)
    return exp(exponent) if x < 1.0 else 0.0


@helper
def beta_sample_tail(count, total, x, stream):
    """Rejection from an exponential where the density is log-concave, else from a power."""
    a = total
    b = count - total
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
    """Return the density of the mean at x, and the slope of its logarithm."""
    a = total
    b = count - total
    return beta_prefix(a, b, x) / (x * (1.0 - x)), (a - 1.0) / x - (b - 1.0) / (1.0 - x)


@vectorised
def beta_start(count, total, score):
    """Return a point near the quantile of a standard normal score.

    P(mean > x) is P(B < total) with B binomial of count - 1 trials of chance x.  Its expansion of
    Cornish and Fisher to third order, with total - 1/2 for continuity, is a quadratic in x:
    (m x - c)^2 = score^2 (trials x (1 - x) + correction).
    """
    square = score * score
    shift = (square - 1.0) / 6.0
    trials = count - 1.0 + (7.0 - square) / 18.0
    correction = square * (4.0 - square) / 36.0
    m = count - 1.0 - 2.0 * shift
    c = total - 0.5 - shift
    p = square * trials
    a = m * m + p
    root = math.sqrt(max(p * (c * (m - c) + 0.25 * p) + a * correction, 0.0))
    root = root if score > 0.0 else -root
    return min(max((m * c + 0.5 * p + root) / a, 1e-9), 1.0 - 1e-9)


@vectorised
def beta_near_score(count, total, x):
    """Approximate the normal score of P(mean > x); also its slope in x and an error bound."""
    inline_here()
    failures = count - total
    d = x * count - total
    complement = 1.0 - x
    safe = max(failures, 1e-20)
    # reciprocals first: they are shared by several terms
    per_count = 1.0 / count
    per_x = 1.0 / x
    per_complement = 1.0 / complement
    fall = total * log(total * per_count * per_x) + failures * log(
        safe * per_count * per_complement
    )
    slope = d * per_x * per_complement
    return tail_score(fall, d * d * count, total * safe, slope, min(total, failures), d > 0.0)


@vectorised
def beta_ahead(count, total, x, score, log_level, hazard):
    """How far the quantile of a score is above x: see `Posterior.ahead`.

    log_level: the logarithm of the tail of this score; hazard: the normal density there over the
    tail. If a shape is small the score of `beta_near_score` is too
    vague. The tail itself is then known from six levels of the continued fraction of DiDonato and
    Morris (1992, eq. 9).
    """
    inline_here()
    there, slope, error = beta_near_score(count, total, x)
    failures = count - total
    safe = max(failures, 1e-20)
    complement = 1.0 - x
    d = x * count - total
    shape = min(total, failures)
    # Numerators and denominators of the last two convergents. They are scaled by the product of all
    # divisors, so that one division is enough.
    before = 1.0
    divisor = failures + 1.0
    top_before = 1.0
    top = failures * (d + 1.0)
    bottom_before = 0.0
    bottom = divisor
    for m in range(1, 7):
        following = failures + (2.0 * m + 1.0)
        share = m * (total - m) * complement
        a = (failures + (m - 1.0)) * (count + (m - 1.0)) * share * complement * following * before
        b = following * (m * divisor + share) + divisor * (
            (failures + m) * (d + 1.0 + m * (1.0 + x))
        )
        top, top_before = b * top + a * top_before, top
        bottom, bottom_before = b * bottom + a * bottom_before, bottom
        before = divisor
        divisor = following
    fraction = bottom / top
    per_count = 1.0 / count
    per_x = 1.0 / x
    per_complement = 1.0 / complement
    fall = total * log(total * per_count * per_x) + failures * log(
        safe * per_count * per_complement
    )
    scale = fraction * math.sqrt(total * safe * per_count * 0.15915494309189535)
    log_tail = log(max(scale, 1e-300)) - fall
    log_tail += stirling_error(count) - small_stirling_error(total) - small_stirling_error(safe)
    ahead = (log_tail - log_level) / hazard
    # three times the largest error seen, for shapes from 1 to 40 and tails from 1e-6 to 0.1; beyond
    # 0.1 the error is larger, but below a hundredth of the distance
    fourth = shape * shape * shape * shape
    fine_error = 1e-6 + 1e-10 * fourth + 0.01 * abs(ahead)
    is_fine = (fine_error < error) & (error < 2.0)
    # Halley's method on the logarithm of the tail, as in `upper_quantile`
    per_slope = hazard * fraction * x * complement
    step = ahead * per_slope
    log_slope = (total - 1.0) * per_x - (failures - 1.0) * per_complement
    damping = 1.0 + 0.5 * (step * log_slope + ahead * hazard)
    # The logarithm of the tail of a log-concave law is concave, so that it lies below its tangent
    # at x, and the quantile is below Newton's step. Twice the error more than makes up for those of
    # the tangent's height and slope, if the logarithm is within 1 of its target.
    is_bounded = is_fine & (shape > 1.0 - 1e-9) & (ahead * hazard < 1.0)
    farthest = (max(ahead, -1.0 / hazard) + 3.0 * fine_error) * per_slope
    step = step if is_fine else score - there
    step /= min(max(damping, 0.5), 2.0) if is_fine else slope
    ahead = ahead if is_fine else score - there
    error = fine_error if is_fine else error
    # at the mean or below it the tail is above 0.2 (Grunbaum: 1/e); the estimate is a normal one
    is_near_mean = (shape > 0.999) & ((d <= 0.0) | (fall < 0.05))
    deviation = math.sqrt(total * safe * per_count) * per_count
    normal_step = score * deviation - d * per_count
    return (
        1.0 if is_near_mean else ahead,
        normal_step if is_near_mean else step,
        0.5 if is_near_mean else error,
        farthest if is_bounded & (not is_near_mean) else UNKNOWN,
    )


@helper
def beta_is_log_concave(count, total):
    """Whether the density is log-concave, so that 1/e of the mass lies above total/count."""
    return total >= 1.0 and count - total >= 1.0


@vectorised
def beta_shapes(count, total):
    """Return the shapes of the Gamma variates of a draw."""
    return total, count - total


@vectorised
def beta_from_gammas(count, total, first, second):
    """Return the draw given its Gamma variates."""
    return first / (first + second)


@vectorised
def beta_unit_variance(mean):
    """Return the variance of a reward up to a constant factor: m (1 - m)."""
    return mean * (1.0 - mean)


@vectorised
def beta_pulls(count, total):
    """Return how many rewards a belief is worth, up to that factor: alpha + beta + 1."""
    return count + 1.0


BETA = Posterior(
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
    ahead=beta_ahead,
    is_log_concave=beta_is_log_concave,
    two_gammas=True,
    shapes=beta_shapes,
    from_gammas=beta_from_gammas,
    unit_variance=beta_unit_variance,
    pulls=beta_pulls,
    sample_pivots=sample_pivots,
    sample_all=sample_all,
)
