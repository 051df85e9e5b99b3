"""Sketches of the weights of pulls beside the beliefs of a block of runs (`keep=("signs",)`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posse import beliefs, calibration
from posse.algorithms.algorithm import Problem
from posse.lab.blocks import Simulation
from posse.randomness import FloatArray, Streams


class Sketches:
    """What `posse.calibrated` asks of every belief: (1 + SIGNS, R, N, K).

    They learn by Algorithm 1's own two equations, from signs with a stream of their own, so that
    whoever keeps them sees the same regret as who does not.
    """

    def __init__(self, simulation: Simulation, problem: Problem, runs: Sequence[int]) -> None:
        algorithm: Any = simulation.algorithm  # decentralized, or it was refused
        self._rate, self._fading = algorithm.rate(problem), algorithm.fading
        self._signs = Streams.of(simulation.seed, runs, "signs")
        between = (problem.n_runs, problem.n_agents)
        self.values: FloatArray = calibration.no_sketch(between, problem.n_arms)

    def learn(self, arms: NDArray[np.intp], weights: Any) -> None:
        """Fade as the beliefs do, add a round's pulls (R, N), then merge with the round's W(t)."""
        faded = self.values if self._fading == 1.0 else self._fading * self.values
        updated = calibration.observe(faded, arms, self._rate, self._signs)
        self.values = beliefs.merge(updated, weights)
