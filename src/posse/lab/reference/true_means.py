"""The true means of a block of runs: fixed, non-stationary (drift), of contexts, of data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.bandits import CONTEXTS, DRIFTS, Bandit, ContextualBandit, Dataset, Environment
from posse.contexts import Contexts
from posse.families import clip_means
from posse.lab.simulation import Simulation, in_played_order
from posse.randomness import FloatArray, Streams, UniformStreams, create_generator

# Up to so many arms, the best ones of all agents are found arm by arm.
_FEW_ARMS = 32


def _compute_gaps(means: FloatArray) -> FloatArray:
    """Return how far each mean is below that of the best arm: (..., K) -> (..., K)."""
    if means.shape[-1] > _FEW_ARMS:
        return np.asarray(means.max(axis=-1, keepdims=True) - means)
    # NumPy takes 30 ns for each of many short rows
    best = np.maximum.reduce(means.transpose(-1, *range(means.ndim - 1)).copy(), axis=0)
    return np.asarray(best[..., None] - means)


class World:
    """The true means of some runs, with arms in the order in which they are played.

    means:    (R, M, K) in the current round, M = 1 where all agents share them, else N
    gaps:     (R, M, K) to the best arm of that agent in that round
    order:    (R, K) of the caller's arms
    changes:  whether means change from round to round
    contexts: of the current round, (R, N, d) or (R, N, K, d); None without contexts
    """

    means: FloatArray
    gaps: FloatArray
    order: NDArray[np.intp]
    contexts: FloatArray | None = None

    def __init__(self, simulation: Simulation, runs: Sequence[int]) -> None:
        s = simulation
        assert isinstance(s.bandit, Bandit)
        self.changes = s.bandit.drift is not None
        self._bandit = s.bandit
        self._is_global = s.regret == "global"
        # A drift is a function of the initial means, the current ones and the round, so that
        # user-defined drifts need no state.
        self._initial = self._current = s.true_means(runs)  # (R, M, K) in the caller's order
        self._initial.setflags(write=False)  # a user-defined drift is given them
        self.order = s.arm_orders(runs)
        self._set_means(self._initial)
        if self.changes:
            self._stream = Streams.for_runs(s.seed, runs, "drift")

    def begin_round(self, t: int) -> None:
        """Begin round t: the means drift."""
        if not self.changes:
            return
        drift = self._bandit.drift
        drifted = np.asarray(drift.means_at(t, self._initial, self._current, self._stream))
        if drifted is self._current:  # unchanged since the last round
            return
        if drifted.shape != self._initial.shape or not np.isfinite(drifted).all():
            raise ValueError(
                f"drift {validation.format_value(drift)} "
                f"must give finite means in shape {self._initial.shape} "
                f"(runs, agents, arms), got {validation.format_value(drifted)} in round {t}"
            )
        drifted.setflags(write=False)
        self._current = drifted
        # The drift continues from its own means; played are the nearest ones that the family has.
        self._set_means(clip_means(self._bandit.family, drifted))

    def _set_means(self, means: FloatArray) -> None:
        self.means = in_played_order(means, self.order)
        values = self.means
        if self._is_global:  # what an arm is worth to the average agent
            values = np.broadcast_to(values.mean(axis=1, keepdims=True), values.shape)
        self.gaps = _compute_gaps(values)


class ContextualWorld:
    """The true means of a contextual bandit: those of the contexts of a round, (R, N, K)."""

    def __init__(self, simulation: Simulation, runs: Sequence[int]) -> None:
        s = simulation
        assert isinstance(s.bandit, ContextualBandit)
        self.changes = True
        self._bandit = s.bandit
        self._stream: Any = Streams.for_runs(s.seed, runs, "contexts")
        if type(s.bandit.contexts) is Contexts:  # it draws uniforms only
            self._stream = UniformStreams(self._stream)
        self._size = (len(runs), s.network.n_agents)
        self.order = s.arm_orders(runs)
        of_runs = [
            s.bandit.theta_of_run(run, create_generator(s.seed, run, "means")) for run in runs
        ]
        self._theta = np.stack(of_runs)  # (R, K, d), or (R, 1, d)
        # A theta for every arm follows the order of the arms; a shared one does not.
        if not s.bandit.family.shared:
            self._theta = np.take_along_axis(self._theta, self.order[:, :, None], axis=1)
        self.contexts: FloatArray | None = None  # before round 1
        self.means = self.gaps = np.zeros((*self._size, s.bandit.n_arms))

    def begin_round(self, t: int) -> None:
        """Begin round t: draw a context for every agent."""
        x = self._bandit.draw_contexts(self._stream, self._size)
        if x.ndim == 4:
            x = np.take_along_axis(x, self.order[:, None, :, None], axis=2)
        self.contexts = x
        self.contexts.setflags(write=False)  # a user-defined algorithm is given them
        self.means = self._bandit.means(x, self._theta)
        self.gaps = _compute_gaps(self.means)


class DatasetWorld:
    """The rows that agents draw from a data set: their rewards are the means, (R, N, K)."""

    def __init__(self, simulation: Simulation, runs: Sequence[int]) -> None:
        s = simulation
        assert isinstance(s.bandit, Dataset)
        self.changes = True
        self._bandit = s.bandit
        self._stream = Streams.for_runs(s.seed, runs, "contexts")
        self._size = (len(runs), s.network.n_agents)
        self.order = s.arm_orders(runs)
        self.contexts: FloatArray | None = None  # before round 1
        self.means = self.gaps = np.zeros((*self._size, s.bandit.n_arms))

    def begin_round(self, t: int) -> None:
        """Begin round t: every agent draws a row of its shard."""
        rows = self._bandit.draw_rows(self._stream, self._size)
        if self._bandit.contexts is not None:
            self.contexts = self._bandit.contexts.values[rows]
            self.contexts.setflags(write=False)  # a user-defined algorithm is given them
        self.means = self._bandit.rewards.values[rows]
        self.gaps = _compute_gaps(self.means)

    def pay_rewards(
        self, t: int, arms: NDArray[np.intp], cells: NDArray[np.intp], streams: Streams
    ) -> FloatArray:
        """Return the rewards (R, N) of the arms in the rows, which have no noise of their own."""
        return self.means.take(cells)


class EnvironmentWorld:
    """A user-defined environment: true means by its function, or unknown, (R, N, K).

    Where means are unknown there are no gaps: what a round adds to the curve is the reward, which
    `pay_rewards` writes in place of the gap of the arm played.
    """

    contexts: FloatArray | None = None

    def __init__(self, simulation: Simulation, runs: Sequence[int]) -> None:
        s = simulation
        assert isinstance(s.bandit, Environment)
        self.changes = True
        self._bandit = s.bandit
        self._shape = (len(runs), s.network.n_agents, s.bandit.n_arms)
        self.order = s.arm_orders(runs)
        self.means = np.zeros(self._shape)
        self.gaps = np.zeros(self._shape)

    def begin_round(self, t: int) -> None:
        """Begin round t: compute the means, if they are known."""
        if self._bandit.means is None:
            return
        means = self._bandit.means_at(t, self._shape[1])
        self.means = np.array(np.broadcast_to(means, self._shape))
        self.gaps = _compute_gaps(self.means)

    def pay_rewards(
        self, t: int, arms: NDArray[np.intp], cells: NDArray[np.intp], streams: Streams
    ) -> FloatArray:
        """Draw the rewards (R, N) of the arms, one run at a time."""
        rewards = np.stack(
            [
                self._bandit.draw_rewards(np.array(arms_of_run), t, generator)
                for arms_of_run, generator in zip(arms, streams.generators, strict=True)
            ]
        )
        if self._bandit.means is None:
            self.gaps.reshape(-1)[cells] = rewards
        return rewards


AnyWorld = World | ContextualWorld | DatasetWorld | EnvironmentWorld


def create_world(simulation: Simulation, runs: Sequence[int]) -> AnyWorld:
    """Create the true means of some runs."""
    if isinstance(simulation.bandit, ContextualBandit):
        return ContextualWorld(simulation, runs)
    if isinstance(simulation.bandit, Dataset):
        return DatasetWorld(simulation, runs)
    if isinstance(simulation.bandit, Environment):
        return EnvironmentWorld(simulation, runs)
    return World(simulation, runs)


def check_world(simulation: Simulation, run: int) -> None:
    """Refuse user-defined functions that fail at once, or differ when played again."""
    bandit = simulation.bandit
    if isinstance(bandit, Environment):
        _check_environment(bandit, simulation, run)
        return
    if isinstance(bandit, ContextualBandit):
        part_name = "contexts"
        part = bandit.contexts
    else:
        part_name = "drift"
        part = bandit.drift
    if part is None or type(part) in (Contexts, *CONTEXTS.values(), *DRIFTS.values()):
        return
    # Played twice from the same streams, user-defined code must give the same means.
    worlds = [create_world(simulation, [run]) for _ in range(2)]
    for t in range(1, min(3, simulation.horizon) + 1):
        for world in worlds:
            try:
                world.begin_round(t)
            except ValueError:
                raise  # its message is for users already
            except Exception as error:  # user-defined code may raise anything
                raise ValueError(
                    f"{part_name} {validation.format_value(part)} failed in round {t}: "
                    f"{type(error).__name__}: {error}"
                ) from error
        if not np.array_equal(worlds[0].means, worlds[1].means):
            raise ValueError(
                f"{part_name} {validation.format_value(part)} "
                "must draw from the generator it is given and keep "
                "nothing: a run must have the same means whenever it is played"
            )


def _check_environment(bandit: Environment, simulation: Simulation, run: int) -> None:
    """Play the first rounds of a user-defined environment twice, from the same streams."""
    n_agents = simulation.network.n_agents
    generators = [create_generator(simulation.seed, run, "rewards") for _ in range(2)]
    for t in range(1, min(3, simulation.horizon) + 1):
        # Different arms for different agents, as far as there are.
        arms = (np.arange(n_agents) + t) % bandit.n_arms
        try:
            if bandit.means is not None:
                bandit.means_at(t, n_agents)
            first, second = (bandit.draw_rewards(np.array(arms), t, g) for g in generators)
        except ValueError:
            raise  # its message is for users already
        except Exception as error:  # user-defined code may raise anything
            raise ValueError(
                f"environment failed in round {t}: {type(error).__name__}: {error}"
            ) from error
        if not np.array_equal(first, second):
            raise ValueError(
                f"draw {validation.format_value(bandit.draw)} must draw from the generator it is "
                "given and keep nothing: a run must have the same rewards whenever it is played"
            )
