"""Shares: what an agent makes of its policy's probabilities before it draws an arm.

Two rules, one after the other: arms that are new get no more than a share together, and no arm
gets less than a share. What they give is what is drawn from and what is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from posse import checks
from posse.randomness import FloatArray, Randomness


@dataclass(frozen=True)
class Shares:
    """The least share of every arm, and the most that new arms get together.

    min_share: the least probability of an arm; 0 is none. new_arm_share: the most that arms of
    fewer than new_arm_pulls closed decisions get together while there are others; None is no
    limit.
    """

    min_share: float = 0.0
    new_arm_share: float | None = None
    new_arm_pulls: int = 100

    def __post_init__(self) -> None:
        checks.number("min_share", self.min_share, at_least=0, at_most=1)
        if self.new_arm_share is not None:
            checks.number("new_arm_share", self.new_arm_share, above=0, at_most=1)
        checks.whole("new_arm_pulls", self.new_arm_pulls, at_least=1)

    def check(self, n_arms: int) -> None:
        """Refuse a least share that so many arms cannot all have."""
        if self.min_share * n_arms > 1 + 1e-9:  # 0.1 of ten arms may round to more
            raise ValueError(
                f"min_share must be at most 1/{n_arms} for {n_arms} arms, which cannot all have "
                f"{self.min_share}"
            )

    def new(
        self, closed: Sequence[float], places: NDArray[np.intp] | None = None
    ) -> NDArray[np.bool_] | None:
        """Which arms at these places the cap may act on, by closed decisions; None if on none."""
        if self.new_arm_share is None or min(closed) >= self.new_arm_pulls:
            return None
        new = np.asarray(closed) < self.new_arm_pulls
        new = new if places is None else new[places]
        return new if new.any() and not new.all() else None

    def mixed(
        self,
        probabilities: FloatArray,
        new: NDArray[np.bool_] | None,
        settled: Callable[[], FloatArray],
    ) -> FloatArray:
        """The probabilities of a choice from those of the policy, (K,) -> (K,).

        new: which arms are; settled: how the policy would choose if there were only the others,
        (S,). The same array where neither rule changes anything.
        """
        if new is not None and self.new_arm_share is not None:
            together = probabilities[new].sum()
            if together > self.new_arm_share:
                probabilities = capped(probabilities, new, self.new_arm_share, settled())
        return floored(probabilities, self.min_share) if self.min_share > 0 else probabilities


def capped(
    probabilities: FloatArray, new: NDArray[np.bool_], share: float, settled: FloatArray
) -> FloatArray:
    """The new arms together at this share, in the policy's proportions: (K,) -> (K,).

    The others get the rest as the policy would choose between them alone, settled (S,): what it
    says of them beside new arms may be too little to tell one from another, or nothing.
    """
    result = np.empty_like(probabilities)
    result[new] = share * (probabilities[new] / probabilities[new].sum())
    result[~new] = (1.0 - share) * settled
    return result


def floored(probabilities: FloatArray, least: float) -> FloatArray:
    """Mixed with a uniform choice so that every arm has the least, at most 1/K: (K,) -> (K,)."""
    n_arms = len(probabilities)
    if n_arms * least >= 1.0:
        return np.full(n_arms, 1.0 / n_arms)
    return (1.0 - n_arms * least) * probabilities + least


def draw(probabilities: FloatArray, count: int, generator: Randomness) -> list[int]:
    """So many arms drawn by their probabilities, never one of probability 0."""
    up_to = np.cumsum(probabilities)
    # a uniform below 1 times the sum is below the sum, however it is rounded
    below = generator.random((count,)) * up_to[-1]
    return np.searchsorted(up_to, below, side="right").tolist()  # type: ignore[no-any-return]
