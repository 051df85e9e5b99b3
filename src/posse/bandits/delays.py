"""Delayed rewards: how many rounds after its pull a reward arrives, if ever."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from posse import validation
from posse.randomness import IntArray, Randomness

NEVER = -1
_LONGEST = 2.0**31  # beyond any horizon


class Delay(Protocol):
    """The distribution of the delay of rewards: a function or another callable.

    The generator draws arrays whose first axis is R, each row from the stream of its run.
    """

    def __call__(self, generator: Randomness, size: tuple[int, ...]) -> Any:
        """Draw whole rounds until each reward of (R, N) arrives: 0 at once, < 0 or inf never."""


@dataclass(frozen=True)
class GeometricDelay:
    """A geometric (memoryless) delay: a pending reward arrives in each round with equal chance.

    P(d rounds) = (1 - q) q^d with q = mean / (1 + mean); d = 0 is in the round of the pull.

    mean:  the mean delay in rounds of the rewards that arrive
    never: the share of rewards that never arrive
    """

    mean: float
    never: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", validation.validate_number("mean", self.mean, at_least=0))
        object.__setattr__(
            self, "never", validation.validate_number("never", self.never, at_least=0, below=1)
        )

    def __call__(self, generator: Randomness, size: tuple[int, ...]) -> IntArray:
        """Draw the rounds until each reward arrives, or NEVER: (R, N)."""
        # in (0, 1], so that the logarithm is finite
        uniform = 1.0 - np.asarray(generator.random(size))
        rounds = np.zeros(size, dtype=np.int64)
        if self.mean > 0:
            # Inversion: P(floor(log u / log q) >= d) = P(u <= q^d) = q^d.
            waited = np.floor(np.log(uniform) / math.log(self.mean / (1 + self.mean)))
            rounds = np.minimum(waited, _LONGEST).astype(np.int64)
        # The second uniform is drawn only where rewards can be lost, so that a delay without losses
        # uses one number for each reward.
        if self.never > 0:
            rounds = np.where(np.asarray(generator.random(size)) < self.never, NEVER, rounds)
        return rounds


def draw_delays(delay: Delay, generator: Randomness, size: tuple[int, ...]) -> IntArray:
    """Draw the delays of a round, NEVER for lost rewards: (R, N); validate user-defined ones."""
    rounds = delay(generator, size)
    if isinstance(delay, GeometricDelay):
        return np.asarray(rounds)
    try:
        values = np.asarray(rounds, dtype=float)
    except (TypeError, ValueError):
        values = np.full(size, np.nan)
    late = np.isfinite(values) & (values >= 0)
    if values.shape != size or np.isnan(values).any() or (values[late] % 1 != 0).any():
        raise ValueError(
            f"delay {validation.format_value(delay)} "
            f"must give whole rounds in shape {size} (runs, agents), "
            f"negative or inf for never, got {validation.format_value(rounds)}"
        )
    return np.where(late, np.minimum(values, _LONGEST), NEVER).astype(np.int64)


def resolve_delay(delay: Delay | None, mean: float | None, never: float) -> Any:
    """Return the delay of the arguments of `delayed`: a delay, or the mean of a geometric one."""
    if (delay is None) == (mean is None) or (never != 0 and mean is None):
        raise ValueError("delay must be given, or mean: use delayed(mean=20, never=0.1)")
    return GeometricDelay(mean, never) if mean is not None else delay


def check_delay(delay: Any) -> None:
    """Refuse an object that is not a delay, by a trial draw."""
    if isinstance(delay, type) or not callable(delay):
        raise ValueError(
            "delay must be one such as posse.bandits.GeometricDelay(20), or a function of a "
            f"generator and a size (runs, agents) that returns rounds, "
            f"got {validation.format_value(delay)}"
        )
    try:
        draw_delays(delay, np.random.default_rng(0), (1, 2))
    except ValueError:
        raise
    except Exception as error:  # user code may raise anything
        raise ValueError(f"delay: {delay!r} failed when it drew a delay: {error}") from error


# Delays by their names in files; a user-defined one is 'module:function' or 'module:class'.
DELAYS: dict[str, Any] = {"geometric": GeometricDelay}
