"""Rewards on their way: what a delayed bandit pays in a round, and what arrives in it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from posse.algorithms.algorithm import Heard
from posse.bandits import delays
from posse.lab.blocks import Simulation
from posse.randomness import FloatArray, Streams


class LateRewards:
    """The open pulls of a block of runs, by the round in which their rewards arrive.

    Delays have a stream of their own, so that all algorithms meet the same.
    """

    def __init__(self, simulation: Simulation, runs: Sequence[int]) -> None:
        self._delay, self._horizon = simulation.bandit.delay, simulation.horizon
        self._stream = Streams.of(simulation.seed, runs, "delay")
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
        wait = np.ravel(delays.drawn(self._delay, self._stream, arms.shape))
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
