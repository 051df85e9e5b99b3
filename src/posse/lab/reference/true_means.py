"""The true means of a block of runs, round by round."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.bandits import CONTEXTS, DRIFTS, ContextualBandit
from posse.contexts import Contexts
from posse.families.family import clip_means
from posse.lab.simulation import Simulation, arm_orders, in_played_order
from posse.randomness import FloatArray, Streams, create_generator


class World:
    """What the arms of some runs pay on average, in the order in which the arms are played.

    means: (R, M, K) in the present round, M = 1 where all agents have the same, else N
    gaps:  (R, M, K) to the best arm of that agent in that round
    order: (R, K) of the caller's arms
    changes: whether they are others from round to round
    contexts: what agents see of the round's visits, (R, N, d) or (R, N, K, d); None: nothing
    """

    means: FloatArray
    gaps: FloatArray
    order: NDArray[np.intp]
    contexts: FloatArray | None = None

    def __init__(self, simulation: Simulation, runs: Sequence[int]) -> None:
        s = simulation
        assert not isinstance(s.bandit, ContextualBandit)
        self.changes = s.bandit.drift is not None
        self._bandit = s.bandit
        self._own = self._now = s.true_means(runs)  # in the caller's order
        self._own.setflags(write=False)  # a drift of the user's is given them
        self.order = arm_orders(s.seed, runs, s.bandit.n_arms)
        self._show(self._own)
        if self.changes:
            self._stream = Streams.for_runs(s.seed, runs, "drift")

    def begin(self, t: int) -> None:
        """Round t begins: the means are now its own."""
        if not self.changes:
            return
        drift = self._bandit.drift
        now = np.asarray(drift.means_at(t, self._own, self._now, self._stream))
        if now is self._now:  # as the round before
            return
        if now.shape != self._own.shape or not np.isfinite(now).all():
            raise ValueError(
                f"drift {validation.format_value(drift)} "
                f"must give finite means in shape {self._own.shape} "
                f"(runs, agents, arms), got {validation.format_value(now)} in round {t}"
            )
        now.setflags(write=False)
        self._now = now
        self._show(clip_means(self._bandit.family, now))

    def _show(self, means: FloatArray) -> None:
        self.means = in_played_order(means, self.order)
        self.gaps = self.means.max(axis=-1, keepdims=True) - self.means


class ContextualWorld:
    """The same of a bandit with contexts: means are those of the visits of a round, (R, N, K)."""

    def __init__(self, simulation: Simulation, runs: Sequence[int]) -> None:
        s = simulation
        assert isinstance(s.bandit, ContextualBandit)
        self.changes = True
        self._bandit = s.bandit
        self._stream = Streams.for_runs(s.seed, runs, "contexts")
        self._size = (len(runs), s.network.n_agents)
        self.order = arm_orders(s.seed, runs, s.bandit.n_arms)
        of_runs = [
            s.bandit.theta_of_run(run, create_generator(s.seed, run, "means")) for run in runs
        ]
        self._theta = np.stack(of_runs)  # (R, K, d), or (R, 1, d)
        if not s.bandit.family.shared:
            self._theta = np.take_along_axis(self._theta, self.order[:, :, None], axis=1)
        self.contexts: FloatArray | None = None  # before round 1
        self.means = self.gaps = np.zeros((*self._size, s.bandit.n_arms))

    def begin(self, t: int) -> None:
        """Round t begins: every agent has a visit."""
        x = self._bandit.draw_contexts(self._stream, self._size)
        if x.ndim == 4:
            x = np.take_along_axis(x, self.order[:, None, :, None], axis=2)
        self.contexts = x
        self.contexts.setflags(write=False)  # an algorithm of the user's is given them
        self.means = self._bandit.means(x, self._theta)
        self.gaps = self.means.max(axis=-1, keepdims=True) - self.means


def world_of(simulation: Simulation, runs: Sequence[int]) -> World | ContextualWorld:
    """The world that some runs are played in."""
    contextual = isinstance(simulation.bandit, ContextualBandit)
    return ContextualWorld(simulation, runs) if contextual else World(simulation, runs)


def check_world(simulation: Simulation, run: int) -> None:
    """Refuse a drift or contexts of the user's that fail at once, or differ when played again."""
    bandit = simulation.bandit
    if isinstance(bandit, ContextualBandit):
        what = "contexts"
        part = bandit.contexts
    else:
        what = "drift"
        part = bandit.drift
    if part is None or type(part) in (Contexts, *CONTEXTS.values(), *DRIFTS.values()):
        return
    worlds = [world_of(simulation, [run]) for _ in range(2)]
    for t in range(1, min(3, simulation.horizon) + 1):
        for world in worlds:
            try:
                world.begin(t)
            except ValueError:
                raise  # a sentence already
            except Exception as error:  # whatever a user's part may raise
                raise ValueError(
                    f"{what} {validation.format_value(part)} failed in round {t}: "
                    f"{type(error).__name__}: {error}"
                ) from error
        if not np.array_equal(worlds[0].means, worlds[1].means):
            raise ValueError(
                f"{what} {validation.format_value(part)} "
                "must draw from the generator it is given and keep "
                "nothing: a run must have the same means whenever it is played"
            )
