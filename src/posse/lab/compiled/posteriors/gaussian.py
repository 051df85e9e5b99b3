"""Gaussian posterior: the mean is N(total/count, 1/count)."""

from __future__ import annotations

import math

from posse.lab.compiled.jit import helper, inline_here, use_wide_vectors, vectorised
from posse.lab.compiled.numerics.quantiles import UNKNOWN
from posse.lab.compiled.philox import (
    ALL_ARMS,
    PIVOT,
    U64,
    exp,
    fill_normals,
    fill_normals_and_bits,
    next_normal,
    next_uniform,
)
from posse.lab.compiled.posteriors.posterior import Posterior


@helper
def gaussian_mean(count, total):
    """Return the expectation of the mean."""
    return total / count


@vectorised
def gaussian_spread(x):
    """Return the variance-like factor of the common tail bound at x."""
    return 1.0


@helper
def gaussian_sample(count, total, stream):
    """Draw the mean once."""
    return (total + next_normal(stream) * math.sqrt(count)) / count


@helper
def gaussian_tail(count, total, x):
    """Return P(mean > x)."""
    return 0.5 * math.erfc((x * count - total) / math.sqrt(2.0 * count))


@vectorised
def gaussian_tail_bound(count, total, x):
    """An upper bound of P(mean > x), for x above total/count."""
    inline_here()
    d = x * count - total
    square = d * d / count
    # Mills' ratio: at most exp(-square/2)/2, the common bound, as soon as square > 2/pi
    return 0.3989422804014327 * exp(-0.5 * square) / math.sqrt(square)


@helper
def gaussian_sample_tail(count, total, x, stream):
    """Rejection from the exponential whose rate is the slope of the log-density at x."""
    root = math.sqrt(count)
    a = (x * count - total) / root
    while True:
        excess = -math.log(next_uniform(stream)) / a
        if next_uniform(stream) < math.exp(-0.5 * excess * excess):
            return (total + (a + excess) * root) / count


@helper
def gaussian_density(count, total, x):
    """Return the density of the mean at x, and the slope of its logarithm."""
    d = x * count - total
    height = math.sqrt(count / (2.0 * math.pi)) * math.exp(-0.5 * d * d / count)
    return height, -d


@vectorised
def gaussian_start(count, total, score):
    """Return a point near the quantile of a standard normal score."""
    return (total + score * math.sqrt(count)) / count


@vectorised
def gaussian_near_score(count, total, x):
    """Return the normal score of P(mean > x), its slope in x and an error bound."""
    root = math.sqrt(count)
    return (x * count - total) / root, root, 1e-12


@vectorised
def gaussian_ahead(count, total, x, score, log_level, hazard):
    """How far the quantile of a score is above x: see `Posterior.ahead`."""
    there, slope, error = gaussian_near_score(count, total, x)
    return score - there, (score - there) / slope, error, UNKNOWN


@helper
def gaussian_is_log_concave(count, total):
    """Whether the density is log-concave, so that 1/e of the mass lies above total/count."""
    return True


@vectorised
def gaussian_sample_pivots(
    posterior, state, start, step, pivots, row, scratch, size, spare, stream,
    n, n_arms, agent, run, t, key0, key1,
):  # fmt: skip
    """Draw a sample of each agent's pivot; see `gamma_variates.sample_pivots`."""
    use_wide_vectors()
    first = U64(3) * size
    second = U64(4) * size
    # first, since it may write beyond its column (ROOM)
    fill_normals_and_bits(scratch, spare, n, agent, t, run, PIVOT, key0, key1)
    for i in range(U64(0), n):
        at = start + i * step + U64(pivots[row + i])
        scratch[first + i] = state[at]
        scratch[second + i] = state[at + n_arms]
    for i in range(U64(0), n):
        count = scratch[first + i]
        total = scratch[second + i]
        scratch[i] = (total + scratch[i] * math.sqrt(count)) / count


@vectorised
def place_deviates(state, start, step, scratch, stride, n, n_arms):
    """Replace standard deviates of n agents by samples: (total + deviate sqrt(count)) / count.

    scratch: the deviates of an agent's arms, `stride` apart from agent to agent.
    """
    use_wide_vectors()
    for i in range(U64(0), n):
        row = start + i * step
        at = i * stride
        for k in range(U64(0), n_arms):
            count = state[row + k]
            total = state[row + n_arms + k]
            scratch[at + k] = (total + scratch[at + k] * math.sqrt(count)) / count


@vectorised
def gaussian_sample_all(
    posterior, state, start, step, scratch, spare, stream, n, n_arms, agent, run, t, key0, key1
):
    """Sample every arm of every agent; see `gamma_variates.sample_all`."""
    use_wide_vectors()
    stride = (n_arms + U64(1)) & ~U64(1)
    fill_normals(scratch, U64(0), n * stride, agent * stride, t, run, ALL_ARMS, key0, key1)
    place_deviates(state, start, step, scratch, stride, n, n_arms)


@vectorised
def gaussian_unit_variance(mean):
    """Return the variance of a reward up to a constant factor: one for all means."""
    return 1.0


@vectorised
def gaussian_pulls(count, total):
    """Return how many rewards a belief is worth, up to that factor: the precision."""
    return count


GAUSSIAN = Posterior(
    name="GAUSSIAN",
    factor=0.5,
    highest=math.inf,
    worth=12,
    mean=gaussian_mean,
    spread=gaussian_spread,
    sample=gaussian_sample,
    tail=gaussian_tail,
    tail_bound=gaussian_tail_bound,
    sample_tail=gaussian_sample_tail,
    density=gaussian_density,
    start=gaussian_start,
    near_score=gaussian_near_score,
    ahead=gaussian_ahead,
    is_log_concave=gaussian_is_log_concave,
    two_gammas=False,
    shapes=None,
    from_gammas=None,
    unit_variance=gaussian_unit_variance,
    pulls=gaussian_pulls,
    sample_pivots=gaussian_sample_pivots,
    sample_all=gaussian_sample_all,
)
