"""Rewards on their way: what a delayed bandit pays in a round, and what arrives in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posse.algorithms.algorithm import Heard
from posse.bandits import delays
from posse.families import FAMILIES, Grid
from posse.families.family import get_family_name, is_contextual
from posse.lab.reference.recorder import first_cells
from posse.lab.reference.true_means import world_of
from posse.lab.simulation import Simulation
from posse.randomness import FloatArray, Streams


class LateRewards:
    """The open pulls of a block of runs, by the round in which their rewards arrive.

    Delays have a stream of their own, so that all algorithms meet the same.
    """

    def __init__(self, simulation: Simulation, runs: Sequence[int]) -> None:
        self._delay = simulation.bandit.delay
        self._horizon = simulation.horizon
        self._stream = Streams.for_runs(simulation.seed, runs, "delay")
        # (4 + d, n) each: row run * N + agent, arm, reward and round of the pull; its features
        self._due: dict[int, list[FloatArray]] = {}

    def heard(
        self,
        t: int,
        arms: NDArray[np.intp],
        rewards: FloatArray,
        contexts: FloatArray | None = None,
    ) -> Heard:
        """Send off the rewards of round t, (R, N) each, and take in what arrives in it."""
        wait = np.ravel(delays.draw_delays(self._delay, self._stream, arms.shape))
        rows = np.flatnonzero((wait != delays.NEVER) & (t + wait <= self._horizon))
        rows = rows[np.argsort(wait[rows], kind="stable")]
        pulls = np.ravel(arms)[rows], np.ravel(rewards)[rows], np.full(len(rows), t)
        features = _features(arms, contexts)[:, rows]
        sent = np.concatenate([np.stack([rows, *pulls]), features])
        cuts = [*np.flatnonzero(np.diff(wait[rows], prepend=-1)).tolist(), len(rows)]
        for first, last in pairwise(cuts):  # those that arrive together; np.split is slow
            due = t + int(wait[rows[first]])
            self._due.setdefault(due, []).append(sent[:, first:last])
        arrived = np.concatenate([np.zeros((len(sent), 0)), *self._due.pop(t, [])], axis=1)
        row, arm, pulled = arrived[[0, 1, 3]].astype(np.int64)
        run, agent = np.divmod(row, arms.shape[1])
        x = None if contexts is None else arrived[4:].T
        return Heard(t, run, agent, arm, arrived[2], pulled, x)


def _features(arms: NDArray[np.intp], contexts: FloatArray | None) -> FloatArray:
    """The features of the arms pulled, (d, R N); none where there are no contexts."""
    if contexts is None:
        return np.empty((0, arms.size))
    if contexts.ndim == 4:
        contexts = np.take_along_axis(contexts, arms[..., None, None], axis=2)[:, :, 0]
    return contexts.reshape(arms.size, -1).T


# What the rounds of some runs bring, as the reference engine draws it: rewards and W(t).


class Rounds:
    """The world of a block of runs, played round by round.

    It draws from the streams of the runs alone, so whoever plays the same arms meets the same.
    """

    def __init__(self, simulation: Simulation, runs: Sequence[int]) -> None:
        s = simulation
        self.world = world_of(s, runs)
        self._to_rewards = Streams.for_runs(s.seed, runs, "rewards")
        self._to_network = Streams.for_runs(s.seed, runs, "network")
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
    low = family.rewards.low
    high = family.rewards.high

    def checked(means: FloatArray, generator: Streams) -> FloatArray:
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

    return checked
