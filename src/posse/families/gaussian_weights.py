"""Gaussian beliefs about weights of features: Bayesian linear regression for any rewards.

The coordinates are those of the normal equations: the d shifts b = Lambda m, then the upper
triangle by rows of the precision matrix Lambda, D = d + d (d + 1) / 2. A reward adds to both, and
a merge averages both.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.families.belief_divergences import (
    hellinger_distance,
    kl_weights,
    log_normaliser_weights,
)
from posse.randomness import FloatArray

# The variance of a mean at a context without any feature is 0, and its inverse is needed.
LEAST_VARIANCE = 1e-30


@dataclass(frozen=True, kw_only=True)
class GaussianWeights:
    """A Gaussian belief about d weights: its prior and its value at a context.

    Subclasses define how rewards enter (`observation_terms`). The first feature is the intercept,
    1 in every context. (Features without an intercept, such as those of arms under `shared`, have a
    first feature like the others and a prior_mean of 0.)
    """

    prior_sd: float = 1.0
    intercept_sd: float | None = None  # of the first weight; None: prior_sd
    features: int = 0  # 0: as many as the contexts have, which a bandit or an agent fills in
    shared: bool = False  # one theta for all arms, which differ by their features

    def __post_init__(self) -> None:
        validation.validate_number("prior_sd", self.prior_sd, at_least=1e-30, at_most=1e30)
        if self.intercept_sd is not None:
            validation.validate_number(
                "intercept_sd", self.intercept_sd, at_least=1e-30, at_most=1e30
            )
        features = validation.validate_integer(
            "features", self.features, at_least=0, at_most=10_000
        )
        object.__setattr__(self, "features", features)
        if not isinstance(self.shared, bool):
            raise ValueError(
                f"shared must be True or False, got {validation.format_value(self.shared)}"
            )

    @property
    def _intercept_mean(self) -> float:
        """The prior mean of the first weight."""
        return 0.0

    def with_features(self, features: int) -> Self:
        """Return the same family for this number of features; refuse another number if set."""
        if self.features not in (0, features):
            raise ValueError(
                f"features is {self.features} in {type(self).__name__}, but contexts have "
                f"{features} columns, the intercept among them"
            )
        return dataclasses.replace(self, features=features)

    @cached_property
    def _triangle_indices(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        rows, columns = np.triu_indices(self.features)
        return rows, columns

    def prior(self) -> FloatArray:
        """Independent normal weights, all but the first around 0: (D,)."""
        if not self.features:
            raise ValueError(
                f"features must be the number of columns of the contexts: "
                f"{type(self).__name__}(...).with_features(contexts.n_features)"
            )
        rows, columns = self._triangle_indices
        sds = np.full(self.features, float(self.prior_sd))
        sds[0] = self.prior_sd if self.intercept_sd is None else self.intercept_sd
        shift = np.zeros(self.features)
        shift[0] = self._intercept_mean / sds[0] ** 2
        return np.concatenate([shift, np.where(rows == columns, 1.0 / sds[rows] ** 2, 0.0)])

    def at_context(self, belief: FloatArray, contexts: FloatArray) -> FloatArray:
        """Shift and precision of x'theta: (D, ..., K), (..., d) or (..., K, d) -> (2, ..., K).

        The precision is 1 / (x' Lambda^-1 x), the mean x' Lambda^-1 b. The elimination has no
        square roots and runs for all agents and arms at once: with Lambda = L P L', Lx' = x and
        Lb' = b these are sums of squares and products over the pivots. It does not call LAPACK, so
        the digits are the same on every machine.
        """
        x = np.asarray(contexts, dtype=float)
        x = np.moveaxis(x if x.ndim == belief.ndim else x[..., None, :], -1, 0)  # (d, ..., K or 1)
        d = self.features
        # One feature: the plain family, bit-identical where that feature is 1.
        if d == 1:
            square = np.maximum(x[0] * x[0], LEAST_VARIANCE)
            return np.stack(np.broadcast_arrays(belief[0] * x[0] / square, belief[1] / square))
        shape = np.broadcast_shapes(x.shape[1:], belief.shape[1:])
        x = np.array(np.broadcast_to(x, (d, *shape)), order="C")
        # One long axis is faster than several short ones.
        if belief.shape[1:] == shape:
            belief = belief.reshape(len(belief), -1)
            x = x.reshape(d, -1)
        shift = np.array(belief[:d])
        precision = np.zeros((d, d, *belief.shape[1:]))  # above the diagonal and on it
        precision[self._triangle_indices] = belief[d:]
        mean = np.zeros(x.shape[1:])
        variance = np.zeros(x.shape[1:])
        for j in range(d):
            # Gaussian elimination of column j in Lambda, b and x
            pivot = precision[j, j]
            row = precision[j, j + 1 :]
            scaled = x[j] / pivot
            mean += scaled * shift[j]
            variance += scaled * x[j]
            factor = row / pivot
            precision[j + 1 :, j + 1 :] -= factor[:, None] * row
            shift[j + 1 :] -= factor * shift[j]
            x[j + 1 :] -= factor * x[j]
        np.maximum(variance, LEAST_VARIANCE, out=variance)
        return np.stack([mean / variance, 1.0 / variance]).reshape(2, *shape)

    def normal_equations(
        self, contexts: FloatArray, weight: FloatArray, target: FloatArray
    ) -> FloatArray:
        """Return (x target, weight x x'), the coordinates of observations.

        contexts: (..., d); weight and target: (...), from `observation_terms` -> (D, ...)
        """
        x = np.moveaxis(np.asarray(contexts, dtype=float), -1, 0)
        rows, columns = self._triangle_indices
        return np.concatenate([x * target, weight * (x[rows] * x[columns])])

    def unpack_matrices(self, belief: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the shifts (..., d) and precision matrices (..., d, d) of a belief (D, ...)."""
        d = self.features
        (rows, columns) = self._triangle_indices
        last = np.moveaxis(belief, 0, -1)
        precision = np.empty((*last.shape[:-1], d, d))
        precision[..., rows, columns] = precision[..., columns, rows] = last[..., d:]
        return last[..., :d], precision

    def kl(self, belief: FloatArray, other: FloatArray) -> FloatArray:
        """The divergence KL(belief, other) between beliefs about all weights: (D, ...) -> (...)."""
        return kl_weights(*self.unpack_matrices(belief), *self.unpack_matrices(other))

    def hellinger(self, belief: FloatArray, other: FloatArray) -> FloatArray:
        """The Hellinger distance between beliefs about all weights: (D, ...) -> (...)."""

        def log_normaliser(coordinates: FloatArray) -> FloatArray:
            return log_normaliser_weights(*self.unpack_matrices(coordinates))

        return hellinger_distance(log_normaliser, belief, other)
