"""Parts of a simulation with contexts that kernels compute, equal in bits to those in NumPy.

The reference engine plays them in place of the plain ones: a family (`compile_family`), the true
means of a bandit (`compile_bandit`) and W(t) (`compile_weights`).
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posse.bandits import ContextualBandit
from posse.families import GaussianWeights, Linear, Logistic
from posse.lab.compiled.kernels.contexts import (
    evaluate_at_contexts,
    merge_coordinates,
    predict_linearly,
    write_normal_equations,
)
from posse.lab.compiled.network_arrays import csr_rows, equal_stretches
from posse.lab.compiled.philox import U64
from posse.networks import SparseWeights
from posse.randomness import FloatArray


class CompiledWeights(GaussianWeights):
    """Gaussian beliefs about weights whose values at contexts and updates kernels compute."""

    def at_context(self, belief: FloatArray, contexts: FloatArray) -> FloatArray:
        """Shift and precision of x'theta, equal in bits to that of `GaussianWeights`."""
        n_beliefs = belief[0].size
        n_arms = belief.shape[-1]
        x = np.asarray(contexts, dtype=float)
        d = self.features
        # one feature is the plain family; arms with features of their own are rarer
        if d == 1 or x.shape != (*belief.shape[1:-1], d) or not n_beliefs:
            return super().at_context(belief, contexts)
        at_context = np.empty((2, *belief.shape[1:]))
        evaluate_at_contexts(
            np.ascontiguousarray(belief).reshape(-1), _flatten_features_first(x),
            at_context.reshape(-1), U64(n_beliefs), U64(d), U64(n_arms),
        )  # fmt: skip
        return at_context

    def normal_equations(
        self, contexts: FloatArray, weight: FloatArray, target: FloatArray
    ) -> FloatArray:
        """Return (x target, weight x x'), equal in bits to those of `GaussianWeights`."""
        x = np.asarray(contexts, dtype=float)
        if not weight.shape == target.shape == x.shape[:-1]:
            return super().normal_equations(contexts, weight, target)
        d = self.features
        coordinates = np.empty((d + d * (d + 1) // 2, *weight.shape))
        write_normal_equations(
            _flatten_features_first(x), np.ascontiguousarray(weight).reshape(-1),
            np.ascontiguousarray(target).reshape(-1), coordinates.reshape(-1),
            U64(d), U64(weight.size),
        )  # fmt: skip
        return coordinates


def _flatten_features_first(contexts: FloatArray) -> FloatArray:
    """Return contexts (..., d) as (d, ...), flat."""
    return np.ascontiguousarray(contexts.reshape(-1, contexts.shape[-1]).T).reshape(-1)


class CompiledLinear(CompiledWeights, Linear):
    """`Linear`, with values at contexts and updates from kernels."""


class CompiledLogistic(CompiledWeights, Logistic):
    """`Logistic`, with values at contexts and updates from kernels."""


COMPILED_FAMILIES: dict[type, type] = {Linear: CompiledLinear, Logistic: CompiledLogistic}


def compile_family(family: Any) -> Any:
    """Return the same family on kernels, if there are kernels for it."""
    compiled = COMPILED_FAMILIES.get(type(family))
    if compiled is None:
        return family
    return compiled(**{field.name: getattr(family, field.name) for field in fields(family)})


class CompiledBandit(ContextualBandit):
    """A contextual bandit whose true means a kernel computes."""

    def means(self, contexts: FloatArray, theta: FloatArray) -> FloatArray:
        """Return the mean of each arm, equal in bits to that of `ContextualBandit`."""
        # features of arms, or one theta for all of them, are rarer
        if contexts.ndim == 4 or self.family.shared:
            return super().means(contexts, theta)
        n_runs, n_agents, d = contexts.shape
        n_arms = theta.shape[1]
        predictor = np.empty((n_runs, n_agents, n_arms))
        predict_linearly(
            np.ascontiguousarray(contexts).reshape(-1),
            np.ascontiguousarray(theta.transpose(0, 2, 1)).reshape(-1), predictor.reshape(-1),
            U64(n_runs), U64(n_agents), U64(n_arms), U64(d),
        )  # fmt: skip
        return self.family.inverse_link(predictor)


def compile_bandit(bandit: Any) -> Any:
    """Return the same bandit on a kernel, if it is a contextual one."""
    if type(bandit) is not ContextualBandit:
        return bandit
    compiled = object.__new__(CompiledBandit)  # it is validated already
    compiled.__dict__.update(bandit.__dict__)
    return compiled


class CompiledSparseWeights(SparseWeights):
    """One CSR matrix (N, N) for all leading axes, applied by a kernel."""

    def __init__(self, weights: SparseWeights) -> None:
        super().__init__(weights.weights)
        offsets, neighbours, values = csr_rows(weights.weights)
        self._arrays = (offsets, neighbours, values, equal_stretches(offsets, neighbours, values))

    def __matmul__(self, x: FloatArray) -> FloatArray:
        return self.merge_evidence(x, np.zeros(0, np.int64), np.zeros((len(x), 0)))

    def merge_evidence(
        self, belief: FloatArray, columns: NDArray[np.int64], evidence: FloatArray
    ) -> FloatArray:
        """Return W (belief + evidence), as `posse.beliefs.observe_and_merge` needs it.

        belief: (D, ..., N, K); columns: (... N,) cells of (..., N, K); evidence: (D, ... N)
        """
        n_agents, n_arms = belief.shape[-2:]
        n_cells = n_agents * n_arms
        merged = np.empty(belief.shape)
        merge_coordinates(
            merged.reshape(-1), np.ascontiguousarray(belief, dtype=float).reshape(-1), columns,
            np.ascontiguousarray(evidence).reshape(-1), *self._arrays,
            U64(belief.size // n_cells), U64(belief[0].size // n_cells), U64(n_cells),
        )  # fmt: skip
        return merged


def compile_weights(weights: Any) -> Any:
    """Return the same W(t) on a kernel, if it is one sparse matrix for all runs."""
    return CompiledSparseWeights(weights) if type(weights) is SparseWeights else weights
