"""How true means change from round to round: rotation, random walk, sines, or one's own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from posse import validation
from posse.randomness import FloatArray, Randomness


class Drift(Protocol):
    """What changes the means of a bandit; whatever has this method will do.

    It is called once in each round from the first on, for a block of R runs at a time, and must
    depend on its arguments and what it draws from `generator` alone, so that a run is the same in
    whatever block it is played: keep nothing between the calls. The generator draws arrays whose
    first axis is R, each row from the stream of its run. Means outside the family's range (a rate
    below 0) are played as the nearest inside, while `before` is what the drift gave.
    """

    def means_at(
        self,
        t: int,
        means: FloatArray,  # (R, M, K) the bandit's own, M = 1 where all agents have the same
        before: FloatArray,  # (R, M, K) what this gave for round t - 1; `means` in round 1
        generator: Randomness,
    ) -> FloatArray:
        """The means in round t, in the same shape (R, M, K)."""


@dataclass(frozen=True)
class Rotation:
    """Every so many rounds each arm takes the mean of the arm before it, the first the last's.

    every: rounds between two changes; the first comes after that many.
    """

    every: int

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "every", validation.validate_integer("every", self.every, at_least=1)
        )

    def means_at(
        self, t: int, means: FloatArray, before: FloatArray, generator: Randomness
    ) -> FloatArray:
        """The bandit's means, moved on by one arm for each change so far."""
        changes, since = divmod(t - 1, self.every)
        return before if since else np.roll(means, changes, axis=-1)


@dataclass(frozen=True)
class RandomWalk:
    """Means that wander about the bandit's own and come back: an autoregressive process.

    mean(t) = own + (mean(t - 1) - own)(1 - 1/time) + sd sqrt(2/time) z, from `own` in round 1 on.
    All agents see the same steps, so that sites that differ keep their difference.

    sd:   how far a mean is from the bandit's after a long while (its standard deviation)
    time: the rounds in which it forgets where it was
    """

    sd: float
    time: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sd", validation.validate_number("sd", self.sd, above=0))
        object.__setattr__(self, "time", validation.validate_number("time", self.time, at_least=1))

    def means_at(
        self, t: int, means: FloatArray, before: FloatArray, generator: Randomness
    ) -> FloatArray:
        """One step."""
        if t == 1:
            return means
        steps = generator.standard_normal((len(means), 1, means.shape[-1]))
        pull = 1 - 1 / self.time
        spread = self.sd * math.sqrt(2 / self.time)
        return np.asarray(means + (before - means) * pull + spread * steps)


@dataclass(frozen=True)
class Sines:
    """Means that rise and fall, each arm in its turn: own + amplitude sin(2 pi (t/period + k/K)).

    amplitude: how far above and below the bandit's mean
    period:    rounds until all is as it was
    """

    amplitude: float
    period: float

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "amplitude", validation.validate_number("amplitude", self.amplitude, above=0)
        )
        object.__setattr__(
            self, "period", validation.validate_number("period", self.period, above=0)
        )

    def means_at(
        self, t: int, means: FloatArray, before: FloatArray, generator: Randomness
    ) -> FloatArray:
        """A point of each arm's wave."""
        n_arms = means.shape[-1]
        phases = t / self.period + np.arange(n_arms) / n_arms
        return np.asarray(means + self.amplitude * np.sin(2 * math.pi * phases))


def check_drift(drift: Any) -> None:
    """Refuse what cannot tell the means of a round."""
    validation.validate_methods("drift", drift, ["means_at"], "posse.bandits.Rotation(500)")


# Drifts by the names that files know; any other is 'module:class'.
DRIFTS: dict[str, Any] = {"rotation": Rotation, "random-walk": RandomWalk, "sines": Sines}
