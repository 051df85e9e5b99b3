"""Thompson Sampling with all K samples, vectorised: for runs whose arms are still close.

A kernel of its own: it and the lazy one leave each other's runs alone, and stay small enough to be
compiled well.
"""

from __future__ import annotations

import math

from numba import njit

from posse.lab.compiled.beliefs import BETA, GAMMA, GAUSSIAN, factor, sample, spread
from posse.lab.compiled.gammas import attempt_gammas
from posse.lab.compiled.jit import FAST_KERNEL, use_wide_vectors, vectorised
from posse.lab.compiled.random import (
    ALL_ARMS,
    CONTEST,
    U64,
    fill_normals,
    open_stream,
    pick_best,
)
from posse.lab.compiled.signatures import CHOOSE
from posse.lab.compiled.thompson import ALWAYS_EAGER, EAGER, PROBE_EVERY, PROBES


@vectorised
def _sample_all(
    state, start, step, belief, scratch, spare, stream, n, n_arms, agent, run, t, key0, key1
):
    """Every arm of every agent, vectorised: sample k of agent i goes to scratch[i * stride + k]."""
    use_wide_vectors()
    stride = (n_arms + U64(1)) & ~U64(1)  # even, so that an agent's variates are whole pairs
    size = n * stride
    if belief == GAUSSIAN:
        fill_normals(scratch, U64(0), size, agent * stride, t, run, ALL_ARMS, key0, key1)
        for i in range(U64(0), n):
            row, at = start + i * step, i * stride
            for k in range(U64(0), n_arms):
                count, total = state[row + k], state[row + n_arms + k]
                scratch[at + k] = (total + scratch[at + k] * math.sqrt(count)) / count
        return
    # Gamma variates as in `_sample_pivots`
    for i in range(U64(0), n):
        row, at = start + i * step, i * stride
        for k in range(U64(0), stride):
            arm = min(k, n_arms - U64(1))
            count, total = state[row + arm], state[row + n_arms + arm]
            scratch[at + k] = count if belief > GAMMA else total
            scratch[size + at + k] = count - total
    attempt_gammas(
        scratch, U64(0), size, size + size, spare, belief == BETA, size, agent * stride, t, run,
        ALL_ARMS, key0, key1,
    )  # fmt: skip
    for i in range(U64(0), n):
        row, at = start + i * step, i * stride
        opened = False
        for k in range(U64(0), n_arms):
            count, total = state[row + k], state[row + n_arms + k]
            drawn = scratch[at + k]
            if scratch[size + size + at + k] != 0.0:
                if not opened:
                    open_stream(stream, agent + i, t, run, CONTEST, key0, key1)
                    opened = True
                scratch[at + k] = sample(belief, count, total, stream)
            elif belief == BETA:
                scratch[at + k] = drawn / (drawn + scratch[size + at + k])
            elif belief == GAMMA:
                scratch[at + k] = drawn / count
            else:
                scratch[at + k] = total / drawn


@vectorised
def _choose_eagerly(
    state,
    start,
    step,
    belief,
    arms,
    pivots,
    scratch,
    spare,
    stream,
    n_arms,
    agent,
    run,
    t,
    key0,
    key1,
):
    """The agents of one run, each with all its samples."""
    use_wide_vectors()
    n = U64(arms.size)
    stride = (n_arms + U64(1)) & ~U64(1)
    _sample_all(
        state, start, step, belief, scratch, spare, stream, n, n_arms, agent, run, t, key0, key1
    )
    for i in range(U64(0), n):
        best = pick_best(scratch, i * stride, n_arms, stream, agent + i, t, run, key0, key1)
        arms[i] = best
        pivots[i] = best


@vectorised
def _probe(state, start, step, belief, level, pivots, n_arms, agent, n_agents):
    """How many arms of a few agents are close to a rather low sample of their leading arm."""
    apart = max(U64(1), n_agents // PROBES)
    threshold = 2.0 * math.log(max(factor(belief) / level, 2.0 * n_arms * factor(belief)))
    n_close = 0
    for probe in range(U64(0), min(PROBES, n_agents)):
        if agent <= probe * apart < agent + U64(pivots.size):
            i = probe * apart - agent
            row = start + i * step
            leader = U64(0)
            for k in range(U64(1), n_arms):
                here, there = row + n_arms + k, row + n_arms + leader
                if state[here] * state[row + leader] > state[there] * state[row + k]:
                    leader = k
            pivots[i] = leader
            x = state[row + n_arms + leader] / state[row + leader]
            x -= math.sqrt(spread(belief, x) / state[row + leader])
            for k in range(U64(0), n_arms):
                count = state[row + k]
                d = x * count - state[row + n_arms + k]
                n_close += (d * abs(d) <= threshold * spread(belief, x) * count) & (k != leader)
    return n_close


@njit(CHOOSE, **FAST_KERNEL)
def choose_thompson_eagerly(
    state, store, shared, belief, level, table, arms, pivots, eager, close, scratch, spare,
    stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Thompson Sampling (Alg. `decent_ts`) with all K samples, for the runs that are eager."""
    use_wide_vectors()
    width = U64(2) * n_arms
    row = lo
    while row < hi:
        slot = row // n_agents
        end = min(hi, (slot + U64(1)) * n_agents)
        if eager[slot] == EAGER or eager[slot] == ALWAYS_EAGER:
            start, step = (slot * width, U64(0)) if shared else (row * width, width)
            agent, leaders = row - slot * n_agents, pivots[row:end]
            _choose_eagerly(
                state, start, step, belief, arms[row:end], leaders, scratch, spare, stream,
                n_arms, agent, first_run + slot, t, key0, key1,
            )  # fmt: skip
            if t % PROBE_EVERY == U64(0):
                close[slot] += _probe(
                    state, start, step, belief, level, leaders, n_arms, agent, n_agents
                )
        row = end
