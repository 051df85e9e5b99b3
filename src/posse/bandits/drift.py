"""Non-stationary means: drift by rotation, random walk, sines, or a user-defined rule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from posse import validation
from posse.randomness import FloatArray, Randomness


class Drift(Protocol):
    """The drift of the means of a bandit: any object with this method.

    The engine calls it once in each round from the first on, for a block of R runs at a time. It
    must depend only on its arguments and on draws from `generator`, and store nothing between
    calls, so that a run is the same in every block. The generator draws arrays whose first axis is
    R, each row from the stream of its run. Means outside the family's range (a rate below 0) are
    clipped for play, while `before` is the unclipped value.
    """

    def means_at(
        self,
        t: int,
        means: FloatArray,  # (R, M, K) without drift, M = 1 where all agents have the same
        before: FloatArray,  # (R, M, K) returned for round t - 1; `means` in round 1
        generator: Randomness,
    ) -> FloatArray:
        """Return the means of round t, in the same shape (R, M, K)."""


@dataclass(frozen=True)
class Rotation:
    """Abrupt changes: after every so many rounds the means move on by one arm, cyclically.

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
        """Return the bandit's means, moved on by one arm for each change so far."""
        changes, since = divmod(t - 1, self.every)
        # Between two changes the means of the last round are still right.
        return before if since else np.roll(means, changes, axis=-1)


@dataclass(frozen=True)
class RandomWalk:
    """Means that revert to the bandit's own: an autoregressive process of order 1.

    mean(t) = own + (mean(t - 1) - own)(1 - 1/time) + sd sqrt(2/time) z, from `own` in round 1 on.
    All agents share the steps, so that differences between sites stay constant.

    sd:   the stationary standard deviation around the bandit's mean
    time: the correlation time in rounds
    """

    sd: float
    time: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sd", validation.validate_number("sd", self.sd, above=0))
        object.__setattr__(self, "time", validation.validate_number("time", self.time, at_least=1))

    def means_at(
        self, t: int, means: FloatArray, before: FloatArray, generator: Randomness
    ) -> FloatArray:
        """Return the means after one step of the process."""
        if t == 1:
            return means
        # One step for each run and arm; the axis of length 1 shares it among all agents.
        steps = generator.standard_normal((len(means), 1, means.shape[-1]))
        pull = 1 - 1 / self.time
        # for long times this step leaves the stationary standard deviation at sd
        spread = self.sd * math.sqrt(2 / self.time)
        return np.asarray(means + (before - means) * pull + spread * steps)


@dataclass(frozen=True)
class Sines:
    """Periodic means, shifted in phase by arm: own + amplitude sin(2 pi (t/period + k/K)).

    amplitude: the largest deviation from the bandit's mean
    period:    in rounds
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
        """Return the value of the wave of each arm in round t."""
        n_arms = means.shape[-1]
        phases = t / self.period + np.arange(n_arms) / n_arms
        return np.asarray(means + self.amplitude * np.sin(2 * math.pi * phases))


def check_drift(drift: Any) -> None:
    """Refuse an object without the method of a drift."""
    validation.validate_methods("drift", drift, ["means_at"], "posse.bandits.Rotation(500)")


# Drifts by their names in files; a user-defined one is 'module:class'.
DRIFTS: dict[str, Any] = {"rotation": Rotation, "random-walk": RandomWalk, "sines": Sines}
