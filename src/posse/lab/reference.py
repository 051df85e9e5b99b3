"""The reference engine: NumPy, vectorised over runs and agents; the definition of every result."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posse.algorithms.algorithm import Algorithm, Problem
from posse.algorithms.forced import without_forced_pulls
from posse.bandits import Bandit, take
from posse.families.family import Family
from posse.networks.network import Network
from posse.randomness import FloatArray, Streams, generator

# Arrays of about this many numbers stay in the processor's cache.
_BLOCK_ELEMENTS = 65_536


@dataclass(frozen=True)
class Simulation:
    """One algorithm on one bandit and network, validated and ready to run."""

    bandit: Bandit
    network: Network
    algorithm: Algorithm
    horizon: int
    seed: int
    times: NDArray[np.int64]  # (len,) the rounds to record

    @property
    def model(self) -> Family:
        """The family that the algorithm believes in: its own, else the bandit's."""
        return getattr(self.algorithm, "family", None) or self.bandit.family

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

    def true_arms(self, runs: Sequence[int]) -> tuple[FloatArray, NDArray[np.intp]]:
        """Each run's means in a random order of arms, and that order: (R, K) each.

        So position never matters, however ties are broken.
        """
        n_arms = self.bandit.n_arms
        orders = [generator(self.seed, run, "permutation").permutation(n_arms) for run in runs]
        means = [self.bandit.means_of_run(run, generator(self.seed, run, "means")) for run in runs]
        if any(len(drawn) != n_arms for drawn in means):
            raise ValueError(f"means: every run must have {n_arms} arms, as the first draw had")
        return take(np.stack(means), np.stack(orders)), np.stack(orders)


@dataclass(frozen=True)
class Block:
    """The outcome of some runs."""

    regret: FloatArray  # (R, len)
    pulls: NDArray[np.int32]  # (R, N, K)


def simulate_block(
    simulation: Simulation, runs: Sequence[int], advance: Callable[[int], None]
) -> Block:
    """Play some runs side by side; run r is the same in whatever block it is played."""
    s = simulation
    problem = s.problem(len(runs))
    means, order = s.true_arms(runs)  # (R, K) each
    ledger = Ledger(means, problem, s.times)
    to_policy = Streams.of(s.seed, runs, "policy")
    to_rewards = Streams.of(s.seed, runs, "rewards")
    to_network = Streams.of(s.seed, runs, "network")
    draw_weights = s.network.sampler(len(runs))

    state = s.algorithm.init(problem)
    for t in range(1, s.horizon + 1):
        arms = s.algorithm.choose(state, t, to_policy)  # (R, N)
        _check_arms(s.algorithm, arms, (len(runs), problem.n_agents), problem.n_arms)
        rewards = s.bandit.family.draw_rewards(take(means, arms), to_rewards)  # (R, N)
        weights = draw_weights(to_network)  # W(t)
        state = s.algorithm.learn(state, arms, rewards, weights)
        ledger.record(t, arms)
        advance(len(runs))
    regret = without_forced_pulls(ledger.regret, s.times, ledger.gaps, s.uncharged_rounds)
    return Block(regret, in_callers_order(ledger.pulls, order))


def _check_arms(algorithm: Any, arms: Any, shape: tuple[int, int], n_arms: int) -> None:
    """Refuse arms that do not exist, which an algorithm of the user's may play."""
    array = np.asarray(arms)
    whole = array.shape == shape and np.issubdtype(array.dtype, np.integer)
    if not whole or array.min() < 0 or array.max() >= n_arms:
        raise ValueError(
            f"algorithm {type(algorithm).__name__} must choose whole numbers from 0 to "
            f"{n_arms - 1} in shape {shape} (runs, agents), got {array.dtype} {array.shape}"
        )


def in_callers_order(pulls: NDArray[np.int32], order: NDArray[np.intp]) -> NDArray[np.int32]:
    """Undo the relabelling of arms: (R, N, K)."""
    position = np.argsort(order, axis=1)  # where each of the caller's arms was played
    return np.take_along_axis(pulls, position[:, None, :], axis=2)


class Ledger:
    """What is kept of a run: cumulative pseudo-regret at the recorded rounds, and pulls."""

    def __init__(self, means: FloatArray, problem: Problem, times: NDArray[np.int64]) -> None:
        shape = (problem.n_runs, problem.n_agents, problem.n_arms)
        self.gaps = means.max(axis=1, keepdims=True) - means  # (R, K)
        self.pulls = np.zeros(shape, dtype=np.int32)
        self.regret = np.zeros((problem.n_runs, len(times)))
        self._so_far = np.zeros(problem.n_runs)
        self._column = {int(t): column for column, t in enumerate(times)}
        self._first_arm = np.arange(0, self.pulls.size, problem.n_arms)

    def record(self, t: int, arms: NDArray[np.intp]) -> None:
        """Charge round t's arms (R, N): the gaps of the arms played, averaged over agents."""
        self._so_far += take(self.gaps, arms).mean(axis=1)
        self.pulls.reshape(-1)[self._first_arm + arms.ravel()] += 1
        if t in self._column:
            self.regret[:, self._column[t]] = self._so_far


def blocks(simulation: Simulation, runs: range) -> list[range]:
    """The runs in blocks small enough for the cache, so memory does not grow with runs."""
    n_coordinates = len(simulation.model.prior())
    per_run = simulation.network.n_agents * simulation.bandit.n_arms * -(-n_coordinates // 2)
    size = max(1, _BLOCK_ELEMENTS // per_run)
    return in_parts(runs, size)


def in_parts(runs: range, size: int) -> list[range]:
    """Cut runs into parts of some size."""
    return [runs[first : first + size] for first in range(0, len(runs), size)]


def run(
    simulation: Simulation, runs: range, threads: int, advance: Callable[[int], None]
) -> tuple[FloatArray, NDArray[np.int32]]:
    """All runs in blocks on some threads: regret (runs, len) and pulls (runs, N, K)."""
    return play_blocks(
        lambda block, go_on: simulate_block(simulation, block, go_on),
        blocks(simulation, runs),
        threads,
        advance,
    )


def play_blocks(
    play: Callable[[range, Callable[[int], None]], Block],
    parts: Sequence[range],
    threads: int,
    advance: Callable[[int], None],
) -> tuple[FloatArray, NDArray[np.int32]]:
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
    regret = np.concatenate([outcome.regret for outcome in outcomes])
    pulls = np.concatenate([outcome.pulls for outcome in outcomes])
    return regret, pulls
