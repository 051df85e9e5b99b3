"""Optional methods of a family beyond the protocol `Family`, and their defaults.

Theory, baselines, kernels and live agents ask a family itself and keep no table of families, so a
new family is one file and one line in FAMILIES. A family inherits `OptionalMethods` to get the
defaults; a class without that base works as well, because `get_optional` reads the same defaults.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from posse.divergences import Divergence
from posse.families.family import Family
from posse.randomness import FloatArray


class OptionalMethods:
    """Default values of the optional methods and attributes of a family.

    powers: the powers of a reward that live agents sum beside a count; `statistic(y)` must be
    linear in them. y^0 counts the rewards other than 0. Empty: live agents refuse the family.
    kernel: the posterior of the compiled engine (`posse.lab.compiled.posteriors`) whose count and
    total equal the two coordinates up to a linear map (`to_count_and_total`). None: only the
    reference engine can simulate the family.
    reward_kernel: the function of the compiled engine that draws rewards.
    quantiles_cross_once: whether the quantile functions of any two beliefs cross at most once,
    which holds if the log-ratio of two densities has at most two zeros. `RandUCB` needs it to
    compute its propensities (the probability of each choice).
    anchored: whether what a reward adds depends on the belief about the arm that it met. Then
    `posse.beliefs` calls `statistic(rewards, at)` with that belief, at: (D, ...) (`Variational`).
    assumption: the assumption of `posse.verdict` beside the range of rewards, in words.

    A family may also have `posterior_variance(belief)`, which `TopTwo` uses; without it the middle
    68% of the posterior gives the variance. And it may have `kl(belief, other)` and
    `hellinger(belief, other)`, (D, ...) -> (...), the divergence and the distance between the
    posteriors of all parameters; `EventTriggered` needs the first. All families here have both.
    """

    powers: ClassVar[tuple[int, ...]] = ()
    kernel: ClassVar[str | None] = None
    reward_kernel: ClassVar[str | None] = None
    quantiles_cross_once: ClassVar[bool] = False
    anchored: ClassVar[bool] = False
    assumption: ClassVar[str] = ""

    @property
    def divergence(self) -> Divergence | None:
        """The divergence d(p, q) of arms with means p and q (Lai-Robbins); None if unknown."""
        return None

    @property
    def subgaussian(self) -> float | None:
        """The sub-Gaussian constant of rewards, for baselines that need it; None if unknown."""
        return None

    @property
    def unit(self) -> float | None:
        """The unit by which live agents divide rewards; None: the largest reward of the range."""
        return None

    @property
    def observation_weight(self) -> float:
        """The amount that one observation adds to the kernel's count at learning rate 1."""
        return 1.0

    @property
    def reward_parameter(self) -> float:
        """The second argument of the reward kernel, after the means."""
        return 0.0

    @property
    def shape_offset(self) -> float:
        """What the shape of a belief has beyond half the kernel's count, if it has a shape."""
        return 0.0

    @property
    def site_spread(self) -> float:
        """The scale of the heterogeneity between sites, in units of `site_unit`."""
        return 1.0

    def site_unit(self, means: FloatArray) -> FloatArray:
        """The unit of `site_sd`, the sd between sites; for rates and counts the mean."""
        return means

    def variance(self, means: FloatArray) -> FloatArray | None:
        """The variance of one reward of an arm with this mean; None if the mean does not fix it."""
        return None

    @property
    def edges(self) -> FloatArray:
        """The means at which the posterior density jumps, ascending."""
        return np.empty(0)


_DEFAULTS = OptionalMethods()


def get_optional(family: Family, name: str) -> Any:
    """Return an optional attribute of a family, or the default of `OptionalMethods`."""
    return getattr(family, name, getattr(_DEFAULTS, name))


def to_count_and_total(family: Family, belief: FloatArray) -> FloatArray:
    """Convert the coordinates of a family with a kernel to (count, total): (D, ...) -> (2, ...).

    A family that learns a variance, with `powers` (1, 2), has the sum of squares too: (3, ...).
    """
    basis = _count_total_basis(family)
    if basis.shape[0] > basis.shape[1]:
        # a coordinate that grows as one before it, such as a shape, says nothing new
        known = [row for row in range(len(basis)) if _adds_rank(basis, row)]
        basis, belief = basis[known], belief[known]
    sums = np.linalg.solve(basis, belief.reshape(len(basis), -1))
    return np.asarray(sums.reshape(belief.shape))


def from_count_and_total(family: Family, count_and_total: FloatArray) -> FloatArray:
    """Convert (count, total), or squares too, to the coordinates of a family: the inverse."""
    basis = _count_total_basis(family)
    coordinates = np.tensordot(basis, count_and_total, axes=1)
    if basis.shape[0] == basis.shape[1]:
        return coordinates
    # what the prior has beyond its sums stays as it is
    prior = family.prior()
    rest = prior - basis @ to_count_and_total(family, prior)
    return np.asarray(coordinates + rest.reshape(-1, *[1] * (coordinates.ndim - 1)))


def _adds_rank(basis: FloatArray, row: int) -> bool:
    """Whether a row is independent of those before it."""
    rank = np.linalg.matrix_rank
    return bool(rank(basis[: row + 1]) > (rank(basis[:row]) if row else 0))


def _count_total_basis(family: Family) -> FloatArray:
    """Return B with coordinates = B (count, total), or B (count, total, squares): (D, 2 or 3)."""
    # statistic(y) = weight B (1, y, y^2) is a polynomial, so two or three rewards determine B
    weight = get_optional(family, "observation_weight")
    if 2 not in get_optional(family, "powers"):
        at_zero, at_one = family.statistic(np.array([0.0, 1.0])).T
        return np.asarray(np.stack([at_zero, at_one - at_zero], axis=1) / weight)
    below, at_zero, above = family.statistic(np.array([-1.0, 0.0, 1.0])).T
    odd = (above - below) / 2
    even = (above + below) / 2 - at_zero
    return np.asarray(np.stack([at_zero, odd, even], axis=1) / weight)
