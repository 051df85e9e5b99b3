"""What the rounds of some runs bring, as the reference engine draws it: rewards and W(t)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posse.families import FAMILIES, Grid
from posse.families.family import is_contextual, name_of
from posse.lab.blocks import Simulation
from posse.lab.tally import first_cells
from posse.lab.worlds import world_of
from posse.randomness import FloatArray, Streams


class Rounds:
    """The world of a block of runs, played round by round.

    It draws from the streams of the runs alone, so whoever plays the same arms meets the same.
    """

    def __init__(self, simulation: Simulation, runs: Sequence[int]) -> None:
        s = simulation
        self.world = world_of(s, runs)
        self._to_rewards = Streams.of(s.seed, runs, "rewards")
        self._to_network = Streams.of(s.seed, runs, "network")
        self._draw_weights = s.network.sampler(len(runs))
        family: Any = s.bandit.family
        self._draw_rewards = _drawing(family.at_mean if is_contextual(family) else family)
        self._first_cell = first_cells(self.world.means)

    def begin(self, t: int) -> FloatArray | None:
        """Round t begins: what agents see of its visits, (R, N, d) or (R, N, K, d), if anything."""
        self.world.begin(t)
        return self.world.contexts

    def play(self, t: int, arms: NDArray[np.intp]) -> tuple[NDArray[np.intp], FloatArray, Any]:
        """Play the arms (R, N) of round t: their cells among all means, rewards (R, N), W(t)."""
        cells = self._first_cell + arms  # take_along_axis, which is slower, finds them twice
        rewards = self._draw_rewards(self.world.means.take(cells), self._to_rewards)
        return cells, rewards, self._draw_weights(self._to_network, t)


def _drawing(family: Any) -> Callable[[FloatArray, Streams], FloatArray]:
    """How a family draws rewards: one of the user's may draw anything, so it is looked at."""
    if type(family) in FAMILIES.values() and not isinstance(family, Grid):
        drawn: Callable[[FloatArray, Streams], FloatArray] = family.draw_rewards
        return drawn
    low, high = family.rewards.low, family.rewards.high

    def checked(means: FloatArray, generator: Streams) -> FloatArray:
        rewards = np.asarray(family.draw_rewards(means, generator), dtype=np.float64)
        if rewards.shape != means.shape:
            raise ValueError(
                f"family {name_of(family)!r} must draw a reward for each mean, in shape "
                f"{means.shape} (runs, agents), got {rewards.shape}"
            )
        within = (rewards >= low) & (rewards <= high) & np.isfinite(rewards)
        if not within.all():
            raise ValueError(
                f"family {name_of(family)!r} must draw finite rewards in {family.rewards}, "
                f"got {float(rewards[~within][0])!r}"
            )
        return rewards

    return checked
