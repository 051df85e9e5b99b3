"""Kernels of the compiled engine: choose an arm, draw a reward, update and merge.

Importing this package lists every kernel in `posse.lab.compiled.jit.KERNELS`.
"""

from posse.lab.compiled.kernels import (
    baselines,
    contexts,
    dist_ucb,
    eager_thompson,
    gosine,
    indices,
    late_flooding,
    merge,
    observations,
    pooling,
    push_sum,
    rand_ucb,
    rewards,
    thompson,
    top_two,
    tree,
)

__all__ = [
    "baselines",
    "contexts",
    "dist_ucb",
    "eager_thompson",
    "gosine",
    "indices",
    "late_flooding",
    "merge",
    "observations",
    "pooling",
    "push_sum",
    "rand_ucb",
    "rewards",
    "thompson",
    "top_two",
    "tree",
]
