"""Student posterior: sqrt(count) (mean - total/count) has Student's t law of 2 shape degrees.

The standardised form of a Normal-Gamma belief. With r = d^2 / (2 shape count), d = x count - total,
1 / (1 + r) at the mean's own place is a Beta(shape, 1/2) variate, so that P(mean > x) is half of
its distribution function at z = 1 / (1 + r). A Beta(shape, 1) variate is smaller: P <= z^shape / 2.
And log(1 + r) >= 2 r / (2 + r), so that the quick test needs no division.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from posse.lab.compiled.jit import helper, inline_here, use_wide_vectors, vectorised
from posse.lab.compiled.numerics.special import beta_prefix, beta_tails
from posse.lab.compiled.philox import (
    ALL_ARMS,
    PIVOT,
    U64,
    exp,
    log,
    next_uniform,
    next_word,
    philox,
    turn_of,
    uniform,
)
from posse.lab.compiled.posteriors.gaussian import place_deviates
from posse.lab.compiled.posteriors.posterior import Posterior
from posse.policies import LEAST

# Below this times the product of count and squares, their difference is rounding, as in
# `GaussianUnknownVariance.unpack_belief`.
_LEAST_SHARE = float(np.finfo(float).eps)
VAGUE = 1e30  # the error of a quantile that the series does not give
_SMALL = 0.25  # the largest (score^2 + 1) / degrees for which it does


@vectorised
def standardise_rows(acted, rows, offset, first, last, n_arms):
    """Write count, total and shape of the Student laws of rows of (counts, totals, squares).

    offset: what a shape has beyond half the count.
    """
    use_wide_vectors()
    for row in range(first, last):
        at = row * U64(3) * n_arms
        for k in range(at, at + n_arms):
            count = rows[k]
            total = rows[k + n_arms]
            both = count * rows[k + U64(2) * n_arms]
            shape = 0.5 * count + offset
            precision = 2.0 * shape * count / max(both - total * total, _LEAST_SHARE * both)
            acted[k] = precision * count
            acted[k + n_arms] = precision * total
            acted[k + U64(2) * n_arms] = shape


@vectorised
def read_student(state, at, n_arms):
    """Return count, total and shape of the arm at this place of a row."""
    inline_here()
    return state[at], state[at + n_arms], state[at + U64(2) * n_arms]


@vectorised
def student_is_near(count, total, shape, d, threshold):
    """Whether the exponent 4 shape d^2 / (4 shape count + d^2) is below a threshold."""
    inline_here()
    degrees = 4.0 * shape
    return d * abs(d) * max(degrees - threshold, 0.0) <= degrees * threshold * count


@helper
def student_mean(count, total, shape):
    """Return the expectation of the mean."""
    return total / count


@vectorised
def student_spread(x):
    """Return the variance-like factor of the common tail bound at x."""
    return 1.0


@njit(inline="always")
def _variate(shape, word0, word1):
    """Return a variate of Student's t law from two words (Bailey 1994).

    As Box-Muller, but the second variate would not be independent of the first.
    """
    w = -log(uniform(word0)) / shape
    r = exp(w) - 1.0 if w > 1e-5 else w + 0.5 * w * w  # without cancellation near 0
    return math.sqrt(2.0 * shape * r) * turn_of(word1)[0]


@helper
def student_sample(count, total, shape, stream):
    """Draw the mean once."""
    t = _variate(shape, next_word(stream), next_word(stream))
    return (total + t * math.sqrt(count)) / count


@vectorised
def student_sample_pivots(
    posterior, state, start, step, pivots, row, scratch, size, spare, stream,
    n, n_arms, agent, run, t, key0, key1,
):  # fmt: skip
    """Draw a sample of each agent's pivot; see `gamma_variates.sample_pivots`."""
    use_wide_vectors()
    first = U64(3) * size
    second = U64(4) * size
    for i in range(U64(0), n):
        at = start + i * step + U64(pivots[row + i])
        count, total, shape = read_student(state, at, n_arms)
        scratch[first + i] = count
        scratch[second + i] = total
        scratch[i] = shape
    for i in range(U64(0), n):
        a, b = philox(agent + i, t, run, PIVOT, key0, key1)
        count = scratch[first + i]
        variate = _variate(scratch[i], a, b)
        scratch[i] = (scratch[second + i] + variate * math.sqrt(count)) / count
        spare[i] = np.uint32(a & U64(0x3FF))  # not used by the variate


@vectorised
def student_sample_all(
    posterior, state, start, step, scratch, spare, stream, n, n_arms, agent, run, t, key0, key1
):
    """Sample every arm of every agent; see `gamma_variates.sample_all`."""
    use_wide_vectors()
    stride = (n_arms + U64(1)) & ~U64(1)
    shapes = U64(2) * n_arms
    for i in range(U64(0), n):
        row = start + i * step
        for k in range(U64(0), stride):
            scratch[i * stride + k] = state[row + shapes + min(k, n_arms - U64(1))]
    for j in range(U64(0), n * stride):
        a, b = philox(agent * stride + j, t, run, ALL_ARMS, key0, key1)
        scratch[j] = _variate(scratch[j], a, b)
    place_deviates(state, start, step, scratch, stride, n, n_arms)


@helper
def student_tail(count, total, shape, x):
    """Return P(mean > x)."""
    d = x * count - total
    half = 0.5 * beta_tails(shape, 0.5, 1.0 / (1.0 + d * d / (2.0 * shape * count)))[0]
    return half if d > 0.0 else 1.0 - half


@vectorised
def student_tail_bound(count, total, shape, x):
    """z^shape / 2, and less far out, as Mills' ratio: the factor (1 - s)^(-1/2) is largest at z.

    With shape B(shape, 1/2) >= sqrt(pi (shape + 1/4)) (Watson 1959).
    """
    inline_here()
    d = x * count - total
    r = d * d / (2.0 * shape * count)
    mills = math.pi * (shape + 0.25) * r / (1.0 + r)
    return 0.5 * exp(-shape * log(1.0 + r)) / math.sqrt(max(mills, 1.0))


@helper
def student_sample_tail(count, total, shape, x, stream):
    """Rejection of z from a power of a uniform, which has the law of Beta(shape, 1) below z(x)."""
    d = x * count - total
    least = math.log1p(d * d / (2.0 * shape * count))  # -log z at x
    beyond = -math.expm1(-least)
    while True:
        minus_log = least - math.log(next_uniform(stream)) / shape
        u = next_uniform(stream)
        if u * u * -math.expm1(-minus_log) < beyond:
            return (total + math.sqrt(2.0 * shape * count * math.expm1(minus_log))) / count


@vectorised
def student_unit_variance(mean):
    """Return the variance of a reward up to a constant factor: one for all means."""
    return 1.0


@vectorised
def student_pulls(count, total, shape):
    """Return how many rewards a belief is worth, up to that factor: one over its variance.

    The variance of the mean is infinite for shapes up to 1.
    """
    return max(count * (shape - 1.0) / shape, LEAST)


@vectorised
def near_quantile(shape, score):
    """Expand the quantile of Student's t law of a normal score; also a bound of the error.

    Fisher and Cornish (1960) to the fourth order in 1/degrees. The bound, three times the last term
    with all signs positive, is at least three times the largest error seen.
    """
    inline_here()
    inverse = 0.5 / shape
    z = score * score
    first = (z + 1.0) / 4.0
    second = (z * (5.0 * z + 16.0) + 3.0) / 96.0
    third = (z * (z * (3.0 * z + 19.0) + 17.0) - 15.0) / 384.0
    fourth = (z * (z * (z * (79.0 * z + 776.0) + 1482.0) - 1920.0) - 945.0) / 92160.0
    most = (z * (z * (z * (79.0 * z + 776.0) + 1482.0) + 1920.0) + 945.0) / 92160.0
    series = 1.0 + inverse * (first + inverse * (second + inverse * (third + inverse * fourth)))
    square = inverse * inverse
    error = (3.0 * most * square * square + 1e-14) * abs(score)
    return score * series, error if (z + 1.0) * inverse < _SMALL else VAGUE


@helper
def solve_quantile(shape, level, score):
    """Find t > 0 with P(T > t) = level < 1/2 by Newton's method for the logarithms of both.

    The logarithm of the tail is concave in log t, so that the method converges from everywhere;
    score: the normal quantile, from which it starts.
    """
    log_t = math.log(score)
    for _ in range(100):
        t = math.exp(log_t)
        z = 1.0 / (1.0 + t * t / (2.0 * shape))
        tail = 0.5 * beta_tails(shape, 0.5, z)[0]
        # the prefix is t times the density
        step = tail / beta_prefix(shape, 0.5, z) * math.log(tail / level)
        log_t += step
        if abs(step) < 1e-9:
            break
    return math.exp(log_t)


@helper
def student_quantile(shape, level, score):
    """Return the x with P(T > x) = level, for T of Student's t law; score: the normal quantile."""
    if score > 0.0:
        return solve_quantile(shape, level, score)
    return -solve_quantile(shape, 1.0 - level, -score) if score < 0.0 else 0.0


STUDENT = Posterior(
    name="STUDENT",
    factor=0.5,
    highest=math.inf,
    worth=8,
    mean=student_mean,
    spread=student_spread,
    sample=student_sample,
    tail=student_tail,
    tail_bound=student_tail_bound,
    sample_tail=student_sample_tail,
    density=None,  # `kernels.student_quantile` has a series for its quantiles
    start=None,
    near_score=None,
    ahead=None,
    is_log_concave=None,
    two_gammas=False,
    shapes=None,
    from_gammas=None,
    unit_variance=student_unit_variance,
    pulls=student_pulls,
    sample_pivots=student_sample_pivots,
    sample_all=student_sample_all,
    n_planes=3,
    read=read_student,
    is_near=student_is_near,
)
