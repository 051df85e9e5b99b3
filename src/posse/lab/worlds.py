"""The true means of a block of runs, round by round."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from posse import checks
from posse.bandits import DRIFTS
from posse.families.family import nearest_means
from posse.lab.blocks import Simulation, arm_orders, in_played_order
from posse.randomness import FloatArray, Streams


class World:
    """What the arms of some runs pay on average, in the order in which the arms are played.

    means: (R, M, K) in the present round, M = 1 where all agents have the same, else N
    gaps:  (R, M, K) to the best arm of that agent in that round
    order: (R, K) of the caller's arms
    """

    means: FloatArray
    gaps: FloatArray
    order: NDArray[np.intp]

    def __init__(self, simulation: Simulation, runs: Sequence[int]) -> None:
        s = simulation
        self.drifts = s.bandit.drift is not None
        self._bandit = s.bandit
        self._own = self._now = s.true_means(runs)  # in the caller's order
        self._own.setflags(write=False)  # a drift of the user's is given them
        self.order = arm_orders(s.seed, runs, s.bandit.n_arms)
        self._show(self._own)
        if self.drifts:
            self._stream = Streams.of(s.seed, runs, "drift")

    def begin(self, t: int) -> None:
        """Round t begins: the means are now its own."""
        if not self.drifts:
            return
        drift = self._bandit.drift
        now = np.asarray(drift.means_at(t, self._own, self._now, self._stream))
        if now is self._now:  # as the round before
            return
        if now.shape != self._own.shape or not np.isfinite(now).all():
            raise ValueError(
                f"drift {checks.shown(drift)} must give finite means in shape {self._own.shape} "
                f"(runs, agents, arms), got {checks.shown(now)} in round {t}"
            )
        now.setflags(write=False)
        self._now = now
        self._show(nearest_means(self._bandit.family, now))

    def _show(self, means: FloatArray) -> None:
        self.means = in_played_order(means, self.order)
        self.gaps = self.means.max(axis=-1, keepdims=True) - self.means


def check_drift(simulation: Simulation, run: int) -> None:
    """Refuse a drift of the user's that fails at once, or is another when a run is played again."""
    drift = simulation.bandit.drift
    if drift is None or type(drift) in DRIFTS.values():
        return
    worlds = [World(simulation, [run]) for _ in range(2)]
    for t in range(1, min(3, simulation.horizon) + 1):
        for world in worlds:
            try:
                world.begin(t)
            except ValueError:
                raise  # a sentence already
            except Exception as error:  # whatever a user's part may raise
                raise ValueError(
                    f"drift {checks.shown(drift)} failed in round {t}: "
                    f"{type(error).__name__}: {error}"
                ) from error
        if not np.array_equal(worlds[0].means, worlds[1].means):
            raise ValueError(
                f"drift {checks.shown(drift)} must draw from the generator it is given and keep "
                "nothing: a run must have the same means whenever it is played"
            )
