"""Blocks of runs: what every engine plays, and what it gives back.

An engine is a function `run(simulation, runs, threads, advance) -> Block`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from posse.algorithms.algorithm import Algorithm, Problem
from posse.bandits import AnyBandit, ContextualBandit, SiteMeans
from posse.families.family import Model, is_contextual
from posse.networks.network import Network
from posse.randomness import FloatArray, generator

Advance = Callable[[int], None]
T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True)
class Simulation:
    """One algorithm on one bandit and network, validated and ready to run."""

    bandit: AnyBandit
    network: Network
    algorithm: Algorithm
    horizon: int
    seed: int
    times: NDArray[np.int64]  # (len,) the rounds to record
    keep: tuple[str, ...] = ()  # what to keep of each run besides regret and pulls

    @property
    def model(self) -> Model:
        """The family that the algorithm believes in: its own, else the bandit's."""
        return model_of(self.algorithm, self.bandit)

    @property
    def reads_contexts(self) -> bool:
        """Whether the algorithm is to be told the contexts: there are some, and it knows them."""
        return is_contextual(self.model)

    @property
    def uncharged_rounds(self) -> int:
        """How many rounds from the first on the algorithm does not want charged."""
        uncharged = getattr(self.algorithm, "uncharged_rounds", lambda n_arms: 0)
        return int(uncharged(self.bandit.n_arms))

    def problem(self, n_runs: int) -> Problem:
        """What the algorithm is told, for a block of runs."""
        return Problem(
            n_agents=self.network.n_agents,
            n_arms=self.bandit.n_arms,
            horizon=self.horizon,
            family=self.bandit.family,
            network=self.network,
            n_runs=n_runs,
        )

    def true_means(self, runs: Sequence[int]) -> FloatArray:
        """Each run's means before any drift: (R, M, K), M = 1 where all agents have the same."""
        bandit, n_arms = self.bandit, self.bandit.n_arms
        assert not isinstance(bandit, ContextualBandit)  # which has them round by round
        means = [bandit.means_of_run(run, generator(self.seed, run, "means")) for run in runs]
        if any(drawn.shape[-1] != n_arms for drawn in means):
            raise ValueError(f"means: every run must have {n_arms} arms, as the first draw had")
        if isinstance(bandit.means, SiteMeans):
            means = [
                bandit.means.of_agents(
                    drawn,
                    self.network.n_agents,
                    bandit.family,
                    generator(self.seed, run, "sites"),
                )
                for run, drawn in zip(runs, means, strict=True)
            ]
        return np.stack([np.atleast_2d(drawn) for drawn in means])

    def true_arms(self, runs: Sequence[int]) -> tuple[FloatArray, NDArray[np.intp]]:
        """Each run's means (R, M, K) in a random order of arms, and that order (R, K).

        So position never matters, however ties are broken.
        """
        orders = arm_orders(self.seed, runs, self.bandit.n_arms)
        return in_played_order(self.true_means(runs), orders), orders


def model_of(algorithm: Any, bandit: AnyBandit) -> Model:
    """The family that an algorithm believes in, for as many features as the bandit's contexts."""
    own = getattr(algorithm, "family", None) or bandit.family
    if is_contextual(own) and is_contextual(bandit.family):
        return own.with_features(bandit.family.features)
    model: Model = own
    return model


@dataclass(frozen=True)
class Block:
    """The outcome of some runs, arms in the caller's order; the first axis of every array is R."""

    regret: FloatArray  # (R, len)
    pulls: NDArray[np.int32]  # (R, N, K)
    kept: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # by the names of `keep`

    @classmethod
    def joined(cls, blocks: Sequence[Block]) -> Block:
        """The runs of all of them, in order; of one block without a copy."""
        if len(blocks) == 1:
            return blocks[0]
        return cls(
            np.concatenate([block.regret for block in blocks]),
            np.concatenate([block.pulls for block in blocks]),
            {
                name: np.concatenate([block.kept[name] for block in blocks])
                for name in blocks[0].kept
            },
        )


def arm_orders(seed: int, runs: Sequence[int], n_arms: int) -> NDArray[np.intp]:
    """The caller's arm that is arm 0, 1, ... to the algorithm, in each run: (R, K)."""
    return np.stack([generator(seed, run, "permutation").permutation(n_arms) for run in runs])


def in_played_order(values: FloatArray, order: NDArray[np.intp]) -> FloatArray:
    """Relabel the arms of an array (R, M, K) by their order (R, K) in each run."""
    return np.take_along_axis(values, order[:, None, :], axis=-1)


def in_callers_order(values: NDArray[T], order: NDArray[np.intp]) -> NDArray[T]:
    """Undo the relabelling of arms in an array (R, ..., K), by their order (R, K) in each run."""
    position = np.argsort(order, axis=1)  # where each of the caller's arms was played
    between = [1] * (values.ndim - 2)
    return np.take_along_axis(values, position.reshape(len(order), *between, -1), axis=-1)


def in_parts(runs: range, size: int) -> list[range]:
    """Cut runs into parts of some size."""
    return [runs[first : first + size] for first in range(0, len(runs), size)]


def play_blocks(
    play: Callable[[range, Advance], Block],
    parts: Sequence[range],
    threads: int,
    advance: Advance,
) -> Block:
    """Blocks on a pool of threads; kernels let go of the interpreter where time is spent."""
    stopped = threading.Event()

    def go_on(steps: int) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt  # leave the block: nobody waits for it any more
        advance(steps)

    if threads == 1 or len(parts) == 1:
        outcomes = [play(part, go_on) for part in parts]
    else:
        with ThreadPoolExecutor(min(threads, len(parts))) as pool:
            try:
                outcomes = list(pool.map(play, parts, [go_on] * len(parts)))
            except BaseException:
                stopped.set()
                raise
    return Block.joined(outcomes)
