"""Thompson Sampling: play the arm whose sampled mean is highest (Alg. 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from posse.best_arm import Race
from posse.families import Family
from posse.policies.policy import timeless
from posse.randomness import FloatArray, Randomness


@dataclass(frozen=True)
class ThompsonSampling:
    """Each arm is played with its posterior probability of being the best (Alg. `decent_ts`).

    >>> belief = np.array([[3.0, 1.0], [1.0, 3.0]])  # Beta(3, 1) and Beta(1, 3)
    >>> policy = posse.ThompsonSampling()
    >>> policy.probabilities(belief, posse.families.Bernoulli(), 1, None).round(3).tolist()
    [0.95, 0.05]
    """

    name: ClassVar[str] = "thompson-sampling"

    @timeless
    def scores(
        self,
        belief: FloatArray,
        family: Family,
        t: int,
        horizon: int | None,
        generator: Randomness,
    ) -> FloatArray:
        """Return a posterior sample of each mean: (D, ..., K) -> (..., K)."""
        return family.sample_mean(belief, generator)

    def probabilities(
        self,
        belief: FloatArray,
        family: Family,
        t: int,
        horizon: int | None,
        race: Race | None = None,
    ) -> FloatArray:
        """Return the probabilities of being the best, within 1e-7: (D, K) -> (K,).

        A `race` of this family caches the quadrature of the previous belief, most of the work.
        """
        return (race or Race(family))(belief)
