"""The kernel of beliefs at contexts: the elimination of `GaussianWeights.at_context`.

NumPy passes over all beliefs once for every entry of the matrices. Here a block of beliefs stays in
the processor's cache from the first pivot to the last.
"""

from __future__ import annotations

import numpy as np
from numba import types

from posse.families import LEAST_VARIANCE
from posse.lab.compiled.jit import KERNEL, kernel, use_wide_vectors
from posse.lab.compiled.philox import U64
from posse.lab.compiled.records import FLOATS

_BLOCK = U64(64)  # beliefs at a time: 64 matrices of 8 features take 32 kB


# No fast-math flags: results equal those of NumPy to the last bit.
@kernel(
    types.void(FLOATS, FLOATS, FLOATS, *(types.uint64,) * 3),
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
    for start in range(U64(0), n_beliefs, _BLOCK):
        size = min(_BLOCK, n_beliefs - start)
        # copy the block, since elimination overwrites it
        for i in range(d):
            for b in range(size):
                shift[i * _BLOCK + b] = belief[i * n_beliefs + start + b]
                x[i * _BLOCK + b] = contexts[i * (n_beliefs // n_arms) + (start + b) // n_arms]
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
