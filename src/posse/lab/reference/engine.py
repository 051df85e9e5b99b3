"""The reference engine: NumPy, vectorised over runs and agents; the definition of every result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posse.algorithms.algorithm import Problem
from posse.lab.reference.environment import LateRewards, Rounds
from posse.lab.reference.recorder import Tally
from posse.lab.simulation import Advance, Block, Simulation, coordinates_of, in_parts, play_blocks
from posse.randomness import Streams

# Arrays of about this many numbers stay in the processor's cache.
_BLOCK_ELEMENTS = 32_768


def simulate_block(
    simulation: Simulation, runs: Sequence[int], advance: Advance, rounds: int | None = None
) -> Block:
    """Play some runs side by side; run r is the same in whatever block it is played.

    rounds: how many of them, if not all up to the horizon.
    """
    s = simulation
    problem = s.problem(len(runs))
    played = Rounds(s, runs)
    to_policy = Streams.for_runs(s.seed, runs, "policy")

    state = s.algorithm.init(problem)
    tally = Tally(s, problem, runs, played.world, state)
    late = LateRewards(s, runs) if s.bandit.delay is not None else None
    algorithm: Any = s.algorithm  # which has the optional methods and arguments, or was refused
    prepare = getattr(algorithm, "prepare", None)
    for t in range(1, (rounds or s.horizon) + 1):
        contexts = played.begin(t)
        seen = {"contexts": contexts} if s.reads_contexts else {}
        state = prepare(state, t, to_policy) if prepare else state
        chosen = algorithm.choose(state, t, to_policy, **seen)
        arms = _checked(algorithm, chosen, problem)  # (R, N)
        cells, rewards, weights = played.play(t, arms)
        if late is None:
            state = algorithm.learn(state, arms, rewards, weights, **seen)
        else:
            heard = late.heard(t, arms, rewards, **seen)
            state = algorithm.learn_delayed(state, arms, heard, weights)
        tally.add(t, cells, state, weights)
        advance(len(runs))
    return tally.block()


def _checked(algorithm: Any, arms: Any, problem: Problem) -> NDArray[np.intp]:
    """The arms (R, N) as an array; refused if they do not exist, as a user's algorithm's may."""
    array = np.asarray(arms)
    shape = (problem.n_runs, problem.n_agents)
    n_arms = problem.n_arms
    whole = array.shape == shape and np.issubdtype(array.dtype, np.integer)
    if not whole or array.min() < 0 or array.max() >= n_arms:
        raise ValueError(
            f"algorithm {type(algorithm).__name__} must choose whole numbers from 0 to "
            f"{n_arms - 1} in shape {shape} (runs, agents), got {array.dtype} {array.shape}"
        )
    return array.astype(np.intp, copy=False)


def blocks(simulation: Simulation, runs: range) -> list[range]:
    """The runs in blocks small enough for the cache, so memory does not grow with runs."""
    n_coordinates = coordinates_of(simulation.model)
    pair = 4 if simulation.reads_contexts else 2  # elimination likes its rows long
    per_run = simulation.network.n_agents * simulation.bandit.n_arms * -(-n_coordinates // pair)
    size = max(1, _BLOCK_ELEMENTS // per_run)
    return in_parts(runs, size)


def run(simulation: Simulation, runs: range, threads: int, advance: Advance) -> Block:
    """All runs in blocks on some threads."""
    return play_blocks(
        lambda block, go_on: simulate_block(simulation, block, go_on),
        blocks(simulation, runs),
        threads,
        advance,
    )
