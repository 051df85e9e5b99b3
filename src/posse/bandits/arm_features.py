"""Features of arms, drawn anew at every visit, for bandits whose arms share one theta."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from posse import checks
from posse.randomness import FloatArray, Randomness


@dataclass(frozen=True)
class UnitFeatures:
    """Every arm of every visit gets a random direction of length 1 as its features.

    n_arms:   K
    features: d
    """

    n_arms: int
    features: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_arms", checks.whole("n_arms", self.n_arms, at_least=2))
        object.__setattr__(self, "features", checks.whole("features", self.features, at_least=1))

    def __call__(self, generator: Randomness, size: tuple[int, ...]) -> FloatArray:
        """The features of all arms at some visits: (R, N) -> (R, N, K, d)."""
        drawn = np.asarray(generator.standard_normal((*size, self.n_arms, self.features)))
        return np.asarray(drawn / np.sqrt((drawn**2).sum(axis=-1, keepdims=True)))


# Ways to draw contexts by the names that files know, beside the schema of `posse.Contexts`; any
# other is 'module:function'.
CONTEXTS: dict[str, Any] = {"unit": UnitFeatures}
