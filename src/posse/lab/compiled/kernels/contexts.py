"""Kernels of linear and logistic beliefs: values at contexts, observations and the merge.

NumPy passes over all beliefs once for every entry of the matrices. Here a pack of beliefs stays in
the processor's cache from the first pivot to the last. Every number is computed by the operations
of NumPy and SciPy in their order, so that results are equal to the last bit.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

from posse.families import LEAST_VARIANCE
from posse.lab.compiled.jit import (
    KERNEL,
    PACK,
    copy_pack,
    helper,
    kernel,
    subtract_row,
    use_wide_vectors,
)
from posse.lab.compiled.philox import U64
from posse.lab.compiled.records import FLOATS, INDICES, TALLY

# Inputs, which the caller may have protected.
_INPUT = types.Array(types.float64, 1, "C", readonly=True)
_PACK = U64(PACK)  # beliefs at a time
# Beliefs whose contexts are gathered at a time, a multiple of a pack: vectors that were written
# number by number just before would be read slowly.
_BLOCK = U64(64)
# Agents merged in one stretch, few enough to stay in the cache between two passes over them.
_STRETCH = U64(64)


@njit(_nrt=True, error_model="numpy")
def _allocate_aligned(n):
    """Allocate n zeros from a cache line on: a vector across two lines takes twice as long."""
    numbers = np.zeros(n + U64(8))
    return numbers[(U64(64) - U64(numbers.ctypes.data) % U64(64)) // U64(8) :]


# No fast-math flags: results equal those of NumPy to the last bit.
@kernel(
    types.void(_INPUT, _INPUT, FLOATS, *(types.uint64,) * 3),
    seconds=2.0,
    **{**KERNEL, "_nrt": True},
)
def evaluate_at_contexts(belief, contexts, at_context, n_beliefs, n_features, n_arms):
    """Write shift and precision of x'theta of every belief: (D, n), (d, n / K) -> (2, n), flat.

    Elimination in [precision, x, shift] above [x', 0, 0] leaves minus variance and minus mean where
    the zeros were.
    """
    use_wide_vectors()
    d = n_features
    width = d + U64(2)
    # row by row, each entry for a pack of beliefs
    matrix = _allocate_aligned((d + U64(1)) * width * _PACK)
    variance = d * (width + U64(1)) * _PACK
    mean = variance + _PACK
    x = _allocate_aligned(d * _BLOCK)  # of every belief of a block
    visit = np.zeros(_BLOCK, np.uint64)  # the number of its context
    n_visits = n_beliefs // n_arms
    for start in range(U64(0), n_beliefs, _PACK):
        size = min(_PACK, n_beliefs - start)
        within = start % _BLOCK
        if not within:
            for b in range(min(_BLOCK, n_beliefs - start)):
                visit[b] = (start + b) // n_arms
            for i in range(d):
                for b in range(min(_BLOCK, n_beliefs - start)):
                    x[i * _BLOCK + b] = contexts[i * n_visits + visit[b]]
        coordinate = start + d * n_beliefs
        for i in range(d):
            at = i * (width + U64(1)) * _PACK
            for _ in range(i, d):
                _copy_pack(matrix, at, belief, coordinate, size)
                coordinate += n_beliefs
                at += _PACK
            copy_pack(matrix, at, x, i * _BLOCK + within)
            _copy_pack(matrix, at + _PACK, belief, start + i * n_beliefs, size)
        for b in range(_PACK):
            matrix[variance + b] = 0.0
            matrix[mean + b] = 0.0
        for j in range(d):
            pivot = j * (width + U64(1)) * _PACK
            for i in range(j + U64(1), d + U64(1)):
                source = pivot + (i - j) * _PACK
                subtract_row(
                    matrix, i * (width + U64(1)) * _PACK, source, pivot, (width - i) * _PACK
                )
        for b in range(size):
            at_context[start + b] = 0.0 - matrix[mean + b]
            at_context[n_beliefs + start + b] = 0.0 - matrix[variance + b]
    for b in range(n_beliefs):
        positive = max(at_context[n_beliefs + b], LEAST_VARIANCE)
        at_context[b] /= positive
        at_context[n_beliefs + b] = 1.0 / positive


@helper
def _copy_pack(to, target, numbers, first, size):
    """to[target + b] = numbers[first + b], for b < size <= _PACK."""
    if size == _PACK:
        copy_pack(to, target, numbers, first)
    else:
        for b in range(size):
            to[target + b] = numbers[first + b]


@kernel(types.void(*(_INPUT,) * 3, FLOATS, *(types.uint64,) * 2), **KERNEL)
def write_normal_equations(contexts, weight, target, coordinates, n_features, n):
    """Write (x target, weight x x') of n observations: (d, n), (n,), (n,) -> (D, n), flat."""
    use_wide_vectors()
    d = n_features
    for i in range(d):
        for b in range(n):
            coordinates[i * n + b] = contexts[i * n + b] * target[b]
    coordinate = d * n
    for i in range(d):
        for j in range(i, d):
            for b in range(n):
                product = contexts[i * n + b] * contexts[j * n + b]
                coordinates[coordinate + b] = weight[b] * product
            coordinate += n


@kernel(types.void(_INPUT, _INPUT, FLOATS, *(types.uint64,) * 4), **KERNEL)
def predict_linearly(contexts, theta, predictor, n_runs, n_agents, n_arms, n_features):
    """Write x'theta of every visit and arm: (R, N, d), (R, d, K) -> (R, N, K), flat."""
    use_wide_vectors()
    for row in range(n_runs * n_agents):
        out = row * n_arms
        weights = row // n_agents * n_features * n_arms
        x = row * n_features
        for k in range(n_arms):
            predictor[out + k] = contexts[x] * theta[weights + k]
        for j in range(U64(1), n_features):
            weights += n_arms
            for k in range(n_arms):
                predictor[out + k] += contexts[x + j] * theta[weights + k]


@kernel(
    types.void(
        FLOATS, _INPUT, TALLY, _INPUT, TALLY, TALLY, FLOATS, INDICES, *(types.uint64,) * 3
    ),
    seconds=2.0,
    **{**KERNEL, "_nrt": True},
)  # fmt: skip
def merge_coordinates(
    out, belief, columns, evidence, offsets, neighbours, weights, alike, n_layers, n_runs, n_cells
):
    """Write W (belief + evidence) for every coordinate and run: (D, R, N K) -> (D, R, N K), flat.

    columns, evidence: (R N,) the cell of each agent's observation and (D, R N) what it adds; or
    both empty. neighbours: relative to the agent; alike: for each agent how many from it on have
    the same neighbours and weights, which merge in one stretch. n_layers: D R; n_cells: N K.
    """
    use_wide_vectors()
    n_agents = U64(len(alike))
    n_arms = n_cells // n_agents
    updated = _allocate_aligned(n_cells)  # of one coordinate and run: it stays in the cache
    for layer in range(n_layers):
        first = layer * n_cells
        for j in range(n_cells):
            updated[j] = belief[first + j]
        if len(columns):
            run = layer % n_runs
            for b in range(run * n_agents, (run + U64(1)) * n_agents):
                cell = U64(columns[b]) - run * n_cells
                updated[cell] += evidence[layer // n_runs * n_runs * n_agents + b]
        agent = U64(0)
        while agent < n_agents:
            stretch = min(U64(alike[agent]), _STRETCH)
            e = offsets[agent]
            end = offsets[agent + U64(1)]
            start = agent * n_arms
            stop = start + stretch * n_arms
            fresh = end - e >= 3  # then the first pass writes the sums
            if not fresh:
                for j in range(start, stop):
                    out[first + j] = 0.0
            while e < end:
                # three links at a time, added in their order: a pass over the rows costs more
                a = U64(neighbours[e]) * n_arms
                p = weights[e]
                if end - e >= 3:
                    b = U64(neighbours[e + 1]) * n_arms
                    c = U64(neighbours[e + 2]) * n_arms
                    q = weights[e + 1]
                    r = weights[e + 2]
                    for j in range(start, stop):
                        total = (0.0 if fresh else out[first + j]) + p * updated[j + a]
                        total += q * updated[j + b]
                        out[first + j] = total + r * updated[j + c]
                    fresh = False
                    e += 3
                else:
                    for j in range(start, stop):
                        out[first + j] += p * updated[j + a]
                    e += 1
            agent += stretch
