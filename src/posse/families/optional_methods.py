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
    """Defaults of what a family may say of itself; each can be left as it is.

    powers: live agents sum these powers of a reward, beside a count; `statistic(y)` is linear in
    them. None of them: the family is not for live agents.
    kernel: the posterior in `lab.compiled.posteriors` whose count and total the two coordinates
    are, up to a linear map (`pair`). None: no kernel, and the reference engine plays.
    reward_kernel: what draws its rewards in `lab.compiled.kernels.rewards`.
    quantiles_cross_once: whether those of any two beliefs do at most, as functions of the level; so
    they do if the log-ratio of two densities has two zeros at most. `RandUCB` needs it to say with
    which probability it chooses.
    assumption: on what a verdict of `posse.verdict` rests beside the range of rewards, in words.

    A family may also have `posterior_variance(belief)`, by which `TopTwo` tells arms apart; without
    it the middle 68% of the posterior has to do.
    """

    powers: ClassVar[tuple[int, ...]] = ()
    kernel: ClassVar[str | None] = None
    reward_kernel: ClassVar[str | None] = None
    quantiles_cross_once: ClassVar[bool] = False
    assumption: ClassVar[str] = ""

    @property
    def divergence(self) -> Divergence | None:
        """d(p, q) of arms with means p and q (Lai-Robbins); None where it is not known."""
        return None

    @property
    def subgaussian(self) -> float | None:
        """The sub-Gaussian constant of rewards, for baselines that need it; None: not known."""
        return None

    @property
    def unit(self) -> float | None:
        """What live agents divide rewards by; None: the largest reward of the range."""
        return None

    @property
    def observation_weight(self) -> float:
        """What one observation adds to the kernel's count, at learning rate 1."""
        return 1.0

    @property
    def reward_parameter(self) -> float:
        """The number that the reward kernel is given beside the means."""
        return 0.0

    @property
    def site_spread(self) -> float:
        """How far the means of an arm may lie apart between sites, in units of `site_unit`."""
        return 1.0

    def site_unit(self, means: FloatArray) -> FloatArray:
        """What a site_sd between sites is a multiple of; of rates and counts, the mean."""
        return means

    def variance(self, means: FloatArray) -> FloatArray | None:
        """The variance of one reward of an arm with this mean; None: it is no function of it."""
        return None

    @property
    def edges(self) -> FloatArray:
        """The means at which the posterior density jumps, ascending."""
        return np.empty(0)


_DEFAULTS = OptionalMethods()


def get_optional(family: Family, name: str) -> Any:
    """What a family says of itself under this name of `OptionalMethods`, else the default."""
    return getattr(family, name, getattr(_DEFAULTS, name))


def to_count_and_total(family: Family, belief: FloatArray) -> FloatArray:
    """The (count, total) of a family with a kernel, from its coordinates: (2, ...) -> (2, ...)."""
    count_and_total = np.linalg.solve(_count_total_basis(family), belief.reshape(2, -1))
    return np.asarray(count_and_total.reshape(belief.shape))


def from_count_and_total(family: Family, count_and_total: FloatArray) -> FloatArray:
    """The coordinates of a family with a kernel, from its (count, total): (2, ...) -> (2, ...)."""
    return np.tensordot(_count_total_basis(family), count_and_total, axes=1)


def _count_total_basis(family: Family) -> FloatArray:
    """B with coordinates = B (count, total), from statistic(y) = weight B (1, y): (2, 2)."""
    at_zero, at_one = family.statistic(np.array([0.0, 1.0])).T
    weight = get_optional(family, "observation_weight")
    return np.asarray(np.stack([at_zero, at_one - at_zero], axis=1) / weight)
