"""The environment of a block of runs: rewards, W(t), and the queue of delayed rewards.

Every purpose (rewards, network, delay) has its own random stream of every run, so that all
algorithms with one seed face the same environment (common random numbers).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posse.activity import BoolArray, JoinSources, PlayMasks
from posse.algorithms import ArrivedRewards
from posse.bandits import NEVER, draw_delays
from posse.families import FAMILIES, VARIATIONAL, Grid, get_family_name, is_contextual
from posse.lab.reference.recorder import first_cells
from posse.lab.reference.true_means import DatasetWorld, EnvironmentWorld, create_world
from posse.lab.simulation import Simulation
from posse.networks import cut_off_sleepers
from posse.randomness import FloatArray, Streams


class DelayedRewards:
    """The queue of delayed rewards of a block of runs, by arrival round.

    A reward that would arrive after the horizon, or never, is not queued. Agents that do not play
    get no reward; those that play get it at once if the bandit has no delay.
    """

    def __init__(self, simulation: Simulation, runs: Sequence[int]) -> None:
        self._delay = simulation.bandit.delay
        self._horizon = simulation.horizon
        self._stream = Streams.for_runs(simulation.seed, runs, "delay")
        # By arrival round, arrays (4 + d, n): the row run * N + agent of the pull, its arm, its
        # reward, its round, and its d features.
        self._due: dict[int, list[FloatArray]] = {}

    def collect_arrivals(
        self,
        t: int,
        arms: NDArray[np.intp],
        rewards: FloatArray,
        plays: BoolArray | None = None,  # (R, N); None: all agents play
        contexts: FloatArray | None = None,
    ) -> ArrivedRewards:
        """Queue the rewards (R, N) of round t and return the rewards that arrive in it."""
        wait = np.zeros(arms.size, dtype=np.int64)
        if self._delay is not None:
            wait = np.ravel(draw_delays(self._delay, self._stream, arms.shape))
        arrives = (wait != NEVER) & (t + wait <= self._horizon)
        rows = np.flatnonzero(arrives if plays is None else arrives & np.ravel(plays))
        # Sorted by delay, rewards of one arrival round are adjacent, and are queued as one slice.
        rows = rows[np.argsort(wait[rows], kind="stable")]
        pulls = np.ravel(arms)[rows], np.ravel(rewards)[rows], np.full(len(rows), t)
        features = _select_features(arms, contexts)[:, rows]
        sent = np.concatenate([np.stack([rows, *pulls]), features])
        cuts = [*np.flatnonzero(np.diff(wait[rows], prepend=-1)).tolist(), len(rows)]
        for first, last in pairwise(cuts):  # rewards of one arrival round; np.split is slow
            due = t + int(wait[rows[first]])
            self._due.setdefault(due, []).append(sent[:, first:last])
        arrived = np.concatenate([np.zeros((len(sent), 0)), *self._due.pop(t, [])], axis=1)
        row, arm, pulled = arrived[[0, 1, 3]].astype(np.int64)
        run, agent = np.divmod(row, arms.shape[1])
        x = None if contexts is None else arrived[4:].T
        return ArrivedRewards(t, run, agent, arm, arrived[2], pulled, x)


def _select_features(arms: NDArray[np.intp], contexts: FloatArray | None) -> FloatArray:
    """Select the features of the arms pulled, (d, R N); d = 0 without contexts."""
    if contexts is None:
        return np.empty((0, arms.size))
    if contexts.ndim == 4:
        contexts = np.take_along_axis(contexts, arms[..., None, None], axis=2)[:, :, 0]
    return contexts.reshape(arms.size, -1).T


class BlockEnvironment:
    """The environment of a block of runs: true means, who plays, rewards and W(t), by round.

    It draws from the streams of the runs only, so that the same arms get the same rewards.
    """

    def __init__(self, simulation: Simulation, runs: Sequence[int]) -> None:
        s = simulation
        self.world = create_world(s, runs)
        self._to_rewards = Streams.for_runs(s.seed, runs, "rewards")
        self._to_network = Streams.for_runs(s.seed, runs, "network")
        self._draw_weights = s.network.sampler(len(runs))
        # Data sets and user-defined environments pay rewards themselves, without a family.
        if not isinstance(self.world, DatasetWorld | EnvironmentWorld):
            family: Any = s.bandit.family
            self._draw_rewards = _build_sampler(family.at_mean if is_contextual(family) else family)
        self._first_cell = first_cells(self.world.means)
        self._simulation = s
        self._masks = None
        if s.activity is not None:
            self._masks = PlayMasks(s.activity, s.seed, runs, s.network.n_agents)

    def draw_plays(self) -> BoolArray | None:
        """Draw who plays in the next round, (R, N); None if all agents always play."""
        return None if self._masks is None else self._masks.draw_rounds(1)[0]

    def begin_round(self, t: int) -> FloatArray | None:
        """Begin round t; return its contexts, (R, N, d) or (R, N, K, d), if there are any."""
        self.world.begin_round(t)
        return self.world.contexts

    def play_round(
        self, t: int, arms: NDArray[np.intp], plays: BoolArray | None = None
    ) -> tuple[NDArray[np.intp], FloatArray, Any]:
        """Play the arms (R, N) of round t: their cells in the means, rewards (R, N), and W(t)."""
        cells = self._first_cell + arms  # flat indices: faster than take_along_axis, and used twice
        if isinstance(self.world, DatasetWorld | EnvironmentWorld):
            rewards = self.world.pay_rewards(t, arms, cells, self._to_rewards)
        else:
            rewards = self._draw_rewards(self.world.means.take(cells), self._to_rewards)
        weights: Any = self._draw_weights(self._to_network, t)
        if plays is not None and self._simulation.cuts_off_sleepers:
            weights = cut_off_sleepers(self._simulation.network, weights, plays)
        return cells, rewards, weights


class BeliefCopies:
    """Agents that join take over the belief of a neighbour (`posse.activity.Shifts`, copies)."""

    def __init__(self, simulation: Simulation, runs: Sequence[int]) -> None:
        self._sources = JoinSources(simulation.activity, simulation.network, simulation.seed, runs)

    def copy_beliefs(self, state: Any, t: int) -> Any:
        """Return the state before round t with the beliefs of those who join in it."""
        run, joiner, source = self._sources.draw_round(t)
        if len(run) == 0:
            return state
        copied = {}
        for name in ("belief", "unclipped"):  # Algorithm 1 exchanges the second, if there is one
            values = getattr(state, name)
            if values is not None:
                values = values.copy()
                values[:, run, joiner] = values[:, run, source]
                copied[name] = values
        return dataclasses.replace(state, **copied)


def _build_sampler(family: Any) -> Callable[[FloatArray, Streams], FloatArray]:
    """Return the family's `draw_rewards`, with validation of its rewards if user-defined."""
    # Validation of every reward costs time, and the families of the library are tested.
    ours = (*FAMILIES.values(), *VARIATIONAL.values())
    if type(family) in ours and not isinstance(family, Grid):
        draw: Callable[[FloatArray, Streams], FloatArray] = family.draw_rewards
        return draw
    low = family.rewards.low
    high = family.rewards.high

    def draw_validated(means: FloatArray, generator: Streams) -> FloatArray:
        rewards = np.asarray(family.draw_rewards(means, generator), dtype=np.float64)
        if rewards.shape != means.shape:
            raise ValueError(
                f"family {get_family_name(family)!r} must draw a reward for each mean, in shape "
                f"{means.shape} (runs, agents), got {rewards.shape}"
            )
        within = (rewards >= low) & (rewards <= high) & np.isfinite(rewards)
        if not within.all():
            raise ValueError(
                f"family {get_family_name(family)!r} must draw finite rewards in {family.rewards}, "
                f"got {float(rewards[~within][0])!r}"
            )
        return rewards

    return draw_validated
