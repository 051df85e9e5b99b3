"""Where the true weights of features come from: drawn in each run, or given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from posse import checks
from posse.randomness import FloatArray


@dataclass(frozen=True)
class NormalWeights:
    """True weights of features, drawn N(0, sd^2) for each arm and feature in each run.

    n_arms:       K; where all arms share one theta, how many arms there are to choose from
    sd:           of every weight
    intercept:    what the first weight is drawn around, in place of 0: the log-odds of a rate, say
    intercept_sd: of the first weight; None: sd
    """

    n_arms: int
    sd: float = 1.0
    intercept: float = 0.0
    intercept_sd: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_arms", checks.whole("n_arms", self.n_arms, at_least=2))
        object.__setattr__(self, "sd", checks.number("sd", self.sd, at_least=0))
        checks.number("intercept", self.intercept)
        if self.intercept_sd is not None:
            checks.number("intercept_sd", self.intercept_sd, at_least=0)

    def __call__(self, generator: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
        """One draw of the weights, a row for each arm: (rows, d)."""
        theta = generator.standard_normal(shape) * self.sd
        if self.intercept_sd is not None and self.sd > 0:
            theta[:, 0] *= self.intercept_sd / self.sd
        theta[:, 0] += self.intercept
        return theta


# Ways to draw true weights by the names that files know.
WEIGHTS: dict[str, Any] = {"normal": NormalWeights}
