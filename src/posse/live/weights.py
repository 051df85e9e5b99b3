"""Posteriors of the weights of features, factorised (Cholesky) once for each state of an arm."""

from __future__ import annotations

import numpy as np

from posse.families.gaussian_weights import LEAST_VARIANCE
from posse.families.linear import Linear
from posse.families.logistic import Logistic
from posse.randomness import FloatArray


class Weights:
    """What a belief (D, K) says at contexts, as `family.at`, without solving for every one of them.

    With Lambda = L L' and R the inverse of L, x'theta has the variance |R x|^2 and the mean
    (R x)'(R b): R and R b are kept of every arm until its belief is another.
    """

    def __init__(self, family: Linear | Logistic, n_arms: int) -> None:
        d = family.features
        self._belief = np.full((d + d * (d + 1) // 2, n_arms), np.nan)
        rows, columns = np.triu_indices(d)
        self._matrix = np.empty((d, d), dtype=np.intp)  # where a belief has each of Lambda
        self._matrix[rows, columns] = self._matrix[columns, rows] = d + np.arange(len(rows))
        self._roots, self._shifts = np.zeros((n_arms, d, d)), np.zeros((n_arms, d))
        self._followed: FloatArray | None = None
        self._least = float(np.diagonal(family.prior()[self._matrix]).min())  # precision

    def follow(self, belief: FloatArray) -> None:
        """Take over the belief about all arms, (D, K), if it is a new one."""
        if belief is self._followed:
            return
        (changed,) = (belief != self._belief).any(axis=0).nonzero()
        for arm in changed.tolist():
            root = self._root(belief[self._matrix, arm])
            self._roots[arm], self._shifts[arm] = root, root @ belief[: len(root), arm]
        self._belief, self._followed = belief, belief

    def at(self, x: FloatArray, arm: int | None = None) -> FloatArray:
        """Shift and precision of the means at contexts: (B, d) -> (2, B, K), or of one arm."""
        which = slice(None) if arm is None else slice(arm, arm + 1)
        scaled = x @ self._roots[which].swapaxes(1, 2)  # (K, B, d)
        variance = np.maximum((scaled * scaled).sum(axis=2).T, LEAST_VARIANCE)
        mean = (scaled @ self._shifts[which, :, None])[:, :, 0].T
        return np.stack([mean / variance, 1.0 / variance])

    def _root(self, precision: FloatArray) -> FloatArray:
        """The inverse of a root of a matrix: (d, d) -> (d, d).

        Evidence adds to the prior's precision in every direction. Where matrices were rounded, as
        evidence fades, or a neighbour lies, it may not: then no direction is known worse than by
        the prior.
        """
        try:
            return np.asarray(np.linalg.inv(np.linalg.cholesky(precision)))
        except np.linalg.LinAlgError:
            values, vectors = np.linalg.eigh(precision)
            values = np.maximum(values, self._least)
            return np.asarray(vectors.T / np.sqrt(values)[:, None])
