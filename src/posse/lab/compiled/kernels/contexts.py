"""Kernels of linear and logistic beliefs: values at contexts, observations and the merge.

NumPy passes over all beliefs once for every entry of the matrices. Here a block of beliefs stays in
the processor's cache from the first pivot to the last. Every number is computed by the operations
of NumPy and SciPy in their order, so that results are equal to the last bit.
"""

from __future__ import annotations

import numpy as np
from numba import types

from posse.families import LEAST_VARIANCE
from posse.lab.compiled.jit import KERNEL, kernel, use_wide_vectors
from posse.lab.compiled.philox import U64
from posse.lab.compiled.records import FLOATS, INDICES, TALLY

# Inputs, which the caller may have protected.
_INPUT = types.Array(types.float64, 1, "C", readonly=True)
_BLOCK = U64(64)  # beliefs at a time: 64 matrices of 8 features take 32 kB
# Agents merged in one stretch, few enough to stay in the cache between two passes over them.
_STRETCH = U64(64)


# No fast-math flags: results equal those of NumPy to the last bit.
@kernel(
    types.void(_INPUT, _INPUT, FLOATS, *(types.uint64,) * 3),
    seconds=2.0,
    **{**KERNEL, "_nrt": True},
)
def evaluate_at_contexts(belief, contexts, at_context, n_beliefs, n_features, n_arms):
    """Write shift and precision of x'theta of every belief: (D, n), (d, n / K) -> (2, n), flat."""
    use_wide_vectors()
    d = n_features
    matrix = np.empty(d * d * _BLOCK)  # rows of the precision, each entry for a block of beliefs
    shift = np.empty(d * _BLOCK)
    x = np.empty(d * _BLOCK)
    mean = np.empty(_BLOCK)
    variance = np.empty(_BLOCK)
    factor = np.empty(_BLOCK)
    visit = np.empty(_BLOCK, np.uint64)  # the context of every belief of the block
    n_visits = n_beliefs // n_arms
    for start in range(U64(0), n_beliefs, _BLOCK):
        size = min(_BLOCK, n_beliefs - start)
        for b in range(size):
            visit[b] = (start + b) // n_arms
        # copy the block, since elimination overwrites it
        for i in range(d):
            for b in range(size):
                shift[i * _BLOCK + b] = belief[i * n_beliefs + start + b]
                x[i * _BLOCK + b] = contexts[i * n_visits + visit[b]]
        coordinate = d
        for i in range(d):
            for j in range(i, d):
                for b in range(size):
                    matrix[(i * d + j) * _BLOCK + b] = belief[coordinate * n_beliefs + start + b]
                coordinate += U64(1)
        for b in range(size):
            mean[b] = 0.0
            variance[b] = 0.0
        for j in range(d):
            at_j = j * _BLOCK
            pivot = (j * d + j) * _BLOCK
            for b in range(size):
                scaled = x[at_j + b] / matrix[pivot + b]
                mean[b] += scaled * shift[at_j + b]
                variance[b] += scaled * x[at_j + b]
            for i in range(j + U64(1), d):
                row = (j * d + i) * _BLOCK
                at_i = i * _BLOCK
                for b in range(size):
                    factor[b] = matrix[row + b] / matrix[pivot + b]
                    shift[at_i + b] -= factor[b] * shift[at_j + b]
                    x[at_i + b] -= factor[b] * x[at_j + b]
                for k in range(i, d):
                    entry = (i * d + k) * _BLOCK
                    other = (j * d + k) * _BLOCK
                    for b in range(size):
                        matrix[entry + b] -= factor[b] * matrix[other + b]
        for b in range(size):
            positive = max(variance[b], LEAST_VARIANCE)
            at_context[start + b] = mean[b] / positive
            at_context[n_beliefs + start + b] = 1.0 / positive


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
    updated = np.empty(n_cells)  # of one coordinate and run: it stays in the cache
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
                        total = out[first + j] + p * updated[j + a]
                        total += q * updated[j + b]
                        out[first + j] = total + r * updated[j + c]
                    e += 3
                else:
                    for j in range(start, stop):
                        out[first + j] += p * updated[j + a]
                    e += 1
            agent += stretch
