"""The true means of a block of runs, round by round."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from posse import checks
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
        self._now = now
        self._show(nearest_means(self._bandit.family, now))

    def _show(self, means: FloatArray) -> None:
        self.means = in_played_order(means, self.order)
        self.gaps = self.means.max(axis=-1, keepdims=True) - self.means
