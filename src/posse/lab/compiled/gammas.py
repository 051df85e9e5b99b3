"""Gamma variates, many at a time: Marsaglia and Tsang's method (2000) without branches."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from posse.lab.compiled.jit import use_wide_vectors, vectorised
from posse.lab.compiled.random import U64, fill_uniforms, log, normals, philox


@njit(inline="always")
def _cube_root_gamma(shape, z):
    """Marsaglia & Tsang's proposal for a Gamma(shape) variate, and the log of its acceptance."""
    d = max(shape - 1.0 / 3.0, 0.5)
    v = max(1.0 + z / math.sqrt(9.0 * d), 1e-30)
    cube = v * v * v
    accept = 0.5 * z * z + d * (1.0 - cube + log(cube))
    return d * cube, accept if (v > 1e-30) & (shape >= 1.0) else -1e300


@vectorised
def attempt_gammas(
    columns, first, second, rejected, spare, two, n, index, t, run, purpose, key0, key1
):
    """One try at Gamma variates, whose shapes are in the first column, and if `two` the second.

    Both are accepted or rejected together, which takes one uniform and is as exact.  Rejected are
    about 2% a variate, and all shapes below 1.  `spare` gets 10 random bits each.
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
