"""Vectorised Gamma variates by Marsaglia and Tsang's method (2000) without branches.

And samples of the posteriors that take one or two of them: Beta, Gamma and inverse Gamma.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from posse.lab.compiled.jit import use_wide_vectors, vectorised
from posse.lab.compiled.philox import (
    ALL_ARMS,
    CONTEST,
    PIVOT,
    PIVOT_AGAIN,
    U64,
    fill_uniforms,
    log,
    normals,
    open_stream,
    philox,
)

# The method is exact for shapes above 1/3, and accepts most proposals from 1 on. A prior of 1 is a
# little less after a merge, by rounding, and need not be drawn one by one.
_LEAST_SHAPE = 1.0 - 1e-9


@njit(inline="always")
def _cube_root_gamma(shape, z):
    """Propose a Gamma(shape) variate (Marsaglia & Tsang); also the log acceptance probability."""
    d = max(shape - 1.0 / 3.0, 0.5)
    v = max(1.0 + z / math.sqrt(9.0 * d), 1e-30)
    cube = v * v * v
    accept = 0.5 * z * z + d * (1.0 - cube + log(cube))
    return d * cube, accept if (v > 1e-30) & (shape >= _LEAST_SHAPE) else -1e300


@vectorised
def attempt_gammas(
    columns, first, second, rejected, spare, two, n, index, t, run, purpose, key0, key1
):
    """Try to draw Gamma variates with the shapes of the first column, and if `two` the second.

    Both are accepted or rejected together, which takes one uniform and is exact too. About 2% of
    the variates are rejected, and all shapes below 1. `spare` gets 10 random bits for each.
    """
    use_wide_vectors()
    fill_uniforms(columns, rejected, n, index, t, run, purpose + U64(16), key0, key1)
    for i in range(U64(0), n):
        a, b = philox(index + i, t, run, purpose, key0, key1)
        z, y = normals(a, b)
        columns[first + i], accept = _cube_root_gamma(columns[first + i], z)
        if two:
            columns[second + i], accept_too = _cube_root_gamma(columns[second + i], y)
            accept += accept_too
        spare[i] = np.uint32(a & U64(0x3FF))
        columns[rejected + i] = 1.0 if log(columns[rejected + i]) >= accept else 0.0


@vectorised
def sample_pivots(
    posterior, state, start, step, pivots, row, scratch, size, spare, stream,
    n, n_arms, agent, run, t, key0, key1,
):  # fmt: skip
    """Draw a posterior sample of each agent's pivot, vectorised; and 10 spare random bits.

    scratch: the samples, and from three sizes on three more columns of working memory.
    """
    use_wide_vectors()
    first = U64(3) * size
    second = U64(4) * size
    rejected = U64(5) * size
    for i in range(U64(0), n):
        at = start + i * step + U64(pivots[row + i])
        scratch[first + i] = state[at]
        scratch[second + i] = state[at + n_arms]
    # one or two Gamma variates per agent: one vectorised try, then the rejected ones one by one
    for i in range(U64(0), n):
        first_shape, second_shape = posterior.shapes(scratch[first + i], scratch[second + i])
        scratch[first + i] = first_shape
        scratch[second + i] = second_shape
    attempt_gammas(
        scratch, first, second, rejected, spare, posterior.two_gammas, n, agent, t, run, PIVOT,
        key0, key1,
    )  # fmt: skip
    for i in range(U64(0), n):
        at = start + i * step + U64(pivots[row + i])
        count = state[at]
        total = state[at + n_arms]
        if scratch[rejected + i] != 0.0:
            open_stream(stream, agent + i, t, run, PIVOT_AGAIN, key0, key1)
            scratch[i] = posterior.sample(count, total, stream)
        else:
            scratch[i] = posterior.from_gammas(
                count, total, scratch[first + i], scratch[second + i]
            )  # fmt: skip


@vectorised
def sample_all(
    posterior, state, start, step, scratch, spare, stream, n, n_arms, agent, run, t, key0, key1
):
    """Sample every arm of every agent, vectorised: to scratch[i * stride + k].

    The stride is even, so that an agent's variates are whole pairs.
    """
    use_wide_vectors()
    stride = (n_arms + U64(1)) & ~U64(1)
    size = n * stride
    for i in range(U64(0), n):
        row = start + i * step
        at = i * stride
        for k in range(U64(0), stride):
            arm = min(k, n_arms - U64(1))
            first_shape, second_shape = posterior.shapes(
                state[row + arm], state[row + n_arms + arm]
            )
            scratch[at + k] = first_shape
            scratch[size + at + k] = second_shape
    attempt_gammas(
        scratch, U64(0), size, size + size, spare, posterior.two_gammas, size, agent * stride,
        t, run, ALL_ARMS, key0, key1,
    )  # fmt: skip
    for i in range(U64(0), n):
        row = start + i * step
        at = i * stride
        opened = False
        for k in range(U64(0), n_arms):
            count = state[row + k]
            total = state[row + n_arms + k]
            if scratch[size + size + at + k] != 0.0:
                if not opened:
                    open_stream(stream, agent + i, t, run, CONTEST, key0, key1)
                    opened = True
                scratch[at + k] = posterior.sample(count, total, stream)
            else:
                scratch[at + k] = posterior.from_gammas(
                    count, total, scratch[at + k], scratch[size + at + k]
                )
