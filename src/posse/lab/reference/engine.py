"""The reference engine: NumPy, vectorised over runs and agents; it defines every result.

The compiled engine must agree with it in law, though not in bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posse.activity import copies_beliefs
from posse.algorithms import IDLE, Problem
from posse.lab.reference.environment import BeliefCopies, BlockEnvironment, DelayedRewards
from posse.lab.reference.recorder import Recorder
from posse.lab.simulation import (
    Advance,
    Block,
    Simulation,
    count_coordinates,
    play_blocks,
    split_runs,
)
from posse.randomness import Streams

# Arrays of about this many numbers stay in the processor's second-level cache.
_BLOCK_ELEMENTS = 32_768
# Kernels need less of the cache, and larger blocks have fewer calls of them.
_COMPILED_BLOCK_ELEMENTS = 131_072
# From this many evaluations of beliefs at contexts on, a kernel saves more time than it costs.
COMPILED_FROM = 200_000


def simulate_block(
    simulation: Simulation,
    runs: Sequence[int],
    advance: Advance,
    rounds: int | None = None,
    compiled: bool = False,
) -> Block:
    """Play some runs side by side; run r is the same in whatever block it is played.

    rounds: the number of rounds, if not all up to the horizon
    compiled: whether kernels compute beliefs about contexts, equal in bits
    """
    s = simulation
    problem = s.build_problem(len(runs))
    if compiled:  # imported here because numba takes a second to import
        from posse.lab.compiled import context_beliefs

        s = replace(s, bandit=context_beliefs.compile_bandit(s.bandit))
    environment = BlockEnvironment(s, runs)
    to_policy = Streams.for_runs(s.seed, runs, "policy")

    state: Any = s.algorithm.init(problem)
    if compiled and hasattr(state, "family"):
        state = replace(state, family=context_beliefs.compile_family(state.family))
    recorder = Recorder(s, problem, runs, environment.world, state)
    # a reward may come late, or not at all because its agent does not play
    accepts_idle = getattr(s.algorithm, "accepts_idle", False)
    every_reward = s.bandit.delay is None and (s.activity is None or accepts_idle)
    delayed = None if every_reward else DelayedRewards(s, runs)
    copies = BeliefCopies(s, runs) if copies_beliefs(s.activity) else None
    algorithm: Any = s.algorithm  # validated: it has the optional methods that it needs
    # `prepare` is optional: it starts a round, as the messages of GosInE do.
    prepare = getattr(algorithm, "prepare", None)
    weights: Any = None
    mixes: Any = None  # W(t), or the same on a kernel
    for t in range(1, (rounds or s.horizon) + 1):
        try:
            contexts = environment.begin_round(t)
            plays = environment.draw_plays()
            if copies is not None and t > 1:
                state = copies.copy_beliefs(state, t)
            context_arguments = {"contexts": contexts} if s.reads_contexts else {}
            state = prepare(state, t, to_policy) if prepare else state
            chosen = algorithm.choose(state, t, to_policy, **context_arguments)
            arms = _validate_arms(algorithm, chosen, problem, runs)  # (R, N)
            before = weights
            cells, rewards, weights = environment.play_round(t, arms, plays)
            if weights is not before:
                mixes = context_beliefs.compile_weights(weights) if compiled else weights
            # Agents choose, then observe, then exchange messages by W(t): a round of Algorithm 1.
            played = arms if plays is None else np.where(plays, arms, IDLE)
            if delayed is None:
                earned = rewards if plays is None else np.where(plays, rewards, 0.0)
                state = algorithm.learn(state, played, earned, mixes, **context_arguments)
            else:
                arrivals = delayed.collect_arrivals(t, arms, rewards, plays, **context_arguments)
                state = algorithm.learn_delayed(state, played, arrivals, mixes)
            recorder.record_round(t, cells, state, weights, plays)
        except Exception as error:  # often of a user's own algorithm, family or graph
            error.add_note(f"(in round {t}, {_name_runs(runs)}, {type(algorithm).__name__})")
            raise
        advance(len(runs))
    return recorder.to_block()


def _name_runs(runs: Sequence[int]) -> str:
    return f"run {runs[0]}" if len(runs) == 1 else f"runs {runs[0]} to {runs[-1]} side by side"


def _validate_arms(
    algorithm: Any, arms: Any, problem: Problem, runs: Sequence[int]
) -> NDArray[np.intp]:
    """Validate the arms (R, N) that an algorithm chose; a user-defined one may return anything."""
    array = np.asarray(arms)
    shape = (problem.n_runs, problem.n_agents)
    n_arms = problem.n_arms
    must = f"algorithm {type(algorithm).__name__} must choose whole numbers from 0 to {n_arms - 1}"
    if array.shape != shape or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{must} in shape {shape} (runs, agents), got {array.dtype} {array.shape}")
    if array.min() < 0 or array.max() >= n_arms:
        (row, agent) = np.argwhere((array < 0) | (array >= n_arms))[0]
        raise ValueError(f"{must}, got {array[row, agent]} for agent {agent} in run {runs[row]}")
    return array.astype(np.intp, copy=False)


def split_into_blocks(
    simulation: Simulation, runs: range, threads: int = 1, compiled: bool = False
) -> list[range]:
    """Split runs into blocks that fit the cache, so that memory does not grow with runs."""
    n_coordinates = count_coordinates(simulation.model)
    # Solving the linear systems of contexts gains from longer rows, so that blocks are larger.
    coordinates_per_element = 4 if simulation.reads_contexts else 2
    per_run = (
        simulation.network.n_agents
        * simulation.bandit.n_arms
        * -(-n_coordinates // coordinates_per_element)
    )
    size = _BLOCK_ELEMENTS // per_run
    if compiled:  # at least one block for each thread
        size = min(_COMPILED_BLOCK_ELEMENTS // per_run, -(-len(runs) // threads))
    return split_runs(runs, max(1, size))


def run(simulation: Simulation, runs: range, threads: int, advance: Advance) -> Block:
    """Play runs in blocks on some threads: the interface of an engine."""
    n_beliefs = len(runs) * simulation.network.n_agents * simulation.bandit.n_arms
    compiled = simulation.reads_contexts and n_beliefs * simulation.horizon >= COMPILED_FROM
    return play_blocks(
        lambda block, go_on: simulate_block(simulation, block, go_on, compiled=compiled),
        split_into_blocks(simulation, runs, threads, compiled),
        threads,
        advance,
    )
