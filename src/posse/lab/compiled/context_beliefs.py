"""Families whose beliefs at contexts a kernel evaluates, equal in bits to those in NumPy."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from posse.families import GaussianWeights, Linear, Logistic
from posse.lab.compiled.kernels.contexts import evaluate_at_contexts
from posse.lab.compiled.philox import U64
from posse.randomness import FloatArray


class CompiledWeights(GaussianWeights):
    """Gaussian beliefs about weights whose values at contexts a kernel computes."""

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
            np.ascontiguousarray(belief).reshape(-1),
            np.ascontiguousarray(np.moveaxis(x, -1, 0)).reshape(-1),
            at_context.reshape(-1),
            U64(n_beliefs), U64(d), U64(n_arms),
        )  # fmt: skip
        return at_context


class CompiledLinear(CompiledWeights, Linear):
    """`Linear`, with values at contexts from a kernel."""


class CompiledLogistic(CompiledWeights, Logistic):
    """`Logistic`, with values at contexts from a kernel."""


COMPILED_FAMILIES: dict[type, type] = {Linear: CompiledLinear, Logistic: CompiledLogistic}


def compile_family(family: Any) -> Any:
    """Return the same family with compiled values at contexts, if there is a kernel for it."""
    compiled = COMPILED_FAMILIES.get(type(family))
    if compiled is None:
        return family
    return compiled(**{field.name: getattr(family, field.name) for field in fields(family)})
