"""Thompson Sampling: play the arm whose sampled mean is highest (Alg. 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from posse.families.family import Family
from posse.randomness import FloatArray, Randomness


@dataclass(frozen=True)
class ThompsonSampling:
    """Each arm is played with its posterior probability of being the best (Alg. `decent_ts`)."""

    name: ClassVar[str] = "thompson-sampling"

    def scores(
        self,
        belief: FloatArray,
        family: Family,
        t: int,
        horizon: int | None,
        generator: Randomness,
    ) -> FloatArray:
        """A posterior sample of each mean: (D, ..., K) -> (..., K)."""
        return family.sample_mean(belief, generator)
