"""Kernels of the baselines: running consensus, DDUCB and flooding."""

from __future__ import annotations

import math

from numba import njit

from posse.lab.compiled.jit import FAST_KERNEL, kernel, use_wide_vectors, vectorised
from posse.lab.compiled.kernels.evidence import add_evidence
from posse.lab.compiled.kernels.merge import row_width
from posse.lab.compiled.philox import U64, pick_best
from posse.lab.compiled.records import CHOOSE, IDLE, MERGE

# Positions in the table of DDUCB.
UNACCELERATED, PRACTICAL, STAGE, NORM = range(4)
# An index above all others.
_FIRST = 1e300


@vectorised
def _force_arm(arms, lo, hi, t):
    """Play arm t in round t <= K."""
    for i in range(lo, hi):
        arms[i] = t - U64(1)


@vectorised
def _fill_indices(state, row, scores, table, level, growing, agent, n, n_arms):
    """Compute the index of every arm of n agents, one agent after the other."""
    use_wide_vectors()
    shift = table[0]
    weight = table[1]
    for i in range(U64(0), n):
        at = (row + i) * U64(2) * n_arms
        out = i * n_arms
        slack = table[U64(3) + agent + i] + growing
        if weight == 0.0:  # without a prior one division less
            for k in range(U64(0), n_arms):
                count = state[at + k]
                total = state[at + n_arms + k]
                scores[out + k] = (total + math.sqrt(level * (count + slack))) / count
        else:
            for k in range(U64(0), n_arms):
                count = state[at + k]
                total = state[at + n_arms + k]
                total_weight = weight + count
                width = math.sqrt(level * (count + slack) * total_weight / count)
                scores[out + k] = (shift + total + width) / total_weight


@kernel(CHOOSE, seconds=3.5, **FAST_KERNEL)
def choose_consensus(
    state, store, shared, level, table, arms, pivots, eager, close, scratch, spare,
    stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Choose the largest `rivals.coop_ucb.ConsensusIndex`; `level` is its scale in round t.

    table: shift, weight, growing, then the slack of each agent.
    """
    use_wide_vectors()
    if t <= n_arms:
        _force_arm(arms, lo, hi, t)
        return
    growing = table[2] * math.sqrt(math.log(float(t)))
    row = lo
    while row < hi:  # one run at a time
        slot = row // n_agents
        end = min(hi, (slot + U64(1)) * n_agents)
        agent = row - slot * n_agents
        _fill_indices(state, row, scratch, table, level, growing, agent, end - row, n_arms)
        for i in range(U64(0), end - row):
            arms[row + i] = pick_best(
                scratch, i * n_arms, n_arms, stream, agent + i, t, first_run + slot, key0, key1
            )
        row = end


@vectorised
def _start_stage(state, row, store, fresh_at, table, first, adds_up, n_agents, width):
    """End the averaging of a stage and start that of the fresh observations.

    store: the fresh pairs from `fresh_at` on, then the averaged ones.
    """
    use_wide_vectors()
    averaged = fresh_at + width
    for j in range(U64(0), width):
        fresh = store[fresh_at + j]
        mixed = state[row + j] * table[NORM]
        if first:  # only the own forced pulls are known: the share of one of N agents
            store[averaged + j] = fresh / n_agents
            state[row + j] = fresh
        else:
            store[averaged + j] = mixed + (store[averaged + j] if adds_up else 0.0)
            state[row + j] = fresh + (mixed if table[UNACCELERATED] != 0.0 else 0.0)
        store[fresh_at + j] = 0.0


@kernel(CHOOSE, **FAST_KERNEL)
def choose_staged(
    state, store, shared, level, table, arms, pivots, eager, close, scratch, spare,
    stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Choose by DDUCB: at the start of a stage, or in every round, the largest bound.

    store: for each agent the fresh pairs (c, gamma), then the averaged ones (a, alpha); `state`
    holds the pairs being averaged, (b, beta); `level` is 2 eta sigma^2 ln s / N.
    """
    use_wide_vectors()
    if t <= n_arms:
        _force_arm(arms, lo, hi, t)
        return
    width = U64(2) * n_arms
    past = t - U64(1) - n_arms
    length = U64(table[STAGE])
    starts = past % length == U64(0)
    practical = table[PRACTICAL] != 0.0
    if not (starts or practical):
        return
    adds_up = past > length and table[UNACCELERATED] == 0.0
    share = 1.0 / n_agents if practical else 0.0
    for i in range(lo, hi):
        fresh_at = i * U64(2) * width
        if starts:
            _start_stage(
                state, i * width, store, fresh_at, table, past == U64(0), adds_up, n_agents, width
            )  # fmt: skip
        averaged = fresh_at + width
        for k in range(U64(0), n_arms):
            a = store[averaged + k] + share * store[fresh_at + k]
            alpha = store[averaged + n_arms + k] + share * store[fresh_at + n_arms + k]
            safe = a if a > 0.0 else 1.0  # accelerated counts can be negative
            scratch[k] = alpha / safe + math.sqrt(level / safe) if a > 0.0 else _FIRST
        slot = i // n_agents
        agent = i - slot * n_agents
        arms[i] = pick_best(
            scratch, U64(0), n_arms, stream, agent, t, first_run + slot, key0, key1
        )  # fmt: skip


@njit(inline="always")
def _receive_observations(
    state, offsets, neighbours, weights, links, store, rate, varies, squares,
    lo, hi, n_agents, n_arms, n_rows, width, depth, slot, t,
):  # fmt: skip
    """Add the observations that reach the agents of rows lo to hi; varies: see below."""
    for i in range(lo, hi):
        base = i // n_agents * n_agents
        row = i * width
        for e in range(U64(offsets[i - base]), U64(offsets[i - base + U64(1)])):
            hops = U64(links[e])
            if hops < t:
                # the slot of round t - hops; a modulo would cost more than everything else here
                past = slot + U64(1) + (U64(0) if hops <= slot + U64(1) else depth) - hops
                observation = past * n_rows + base + U64(neighbours[e])
                arm = store[U64(2) * observation]
                weight = rate
                if varies:  # by a product: a branch for each sleeper would be unpredictable
                    weight = weights[e] * (arm >= 0.0)
                    arm = max(arm, 0.0)
                reward = store[U64(2) * observation + U64(1)]
                add_evidence(state, row + U64(int(arm)), weight, reward, n_arms, squares)


@vectorised
def flood_observations(
    state, offsets, neighbours, weights, links, constants, arms, rewards, store,
    lo, hi, n_agents, n_arms, t,
):  # fmt: skip
    """Receive the observations of agents d hops away from d rounds ago.

    constants: the number of rounds in the store; whether weights vary, because evidence fades or
    agents sleep; and the weight if they do not. An agent that did not play stores the arm -1. The
    loop over senders is nearly all of the cost of flooding, so it is compiled twice: without
    anything that varies it is a tenth faster.
    """
    n_rows = U64(arms.size)
    width = row_width(state, arms)
    squares = width > U64(2) * n_arms
    depth = U64(constants[0])
    varies = constants[1] != 0.0
    rate = constants[2]
    slot = (t - U64(1)) % depth
    now = slot * n_rows
    for i in range(lo, hi):
        store[U64(2) * (now + i)] = arms[i] if arms[i] != IDLE else -1.0
        store[U64(2) * (now + i) + U64(1)] = rewards[i]
    if varies or squares:
        _receive_observations(
            state, offsets, neighbours, weights, links, store, rate, True, squares,
            lo, hi, n_agents, n_arms, n_rows, width, depth, slot, t,
        )  # fmt: skip
    else:
        _receive_observations(
            state, offsets, neighbours, weights, links, store, rate, False, False,
            lo, hi, n_agents, n_arms, n_rows, U64(2) * n_arms, depth, slot, t,
        )  # fmt: skip


@kernel(MERGE, **FAST_KERNEL)
def merge_flooding(
    out, state, offsets, neighbours, weights, links, constants, words,
    arms, rewards, store, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Receive the observations of agents d hops away from d rounds ago.

    neighbours: all other agents, for each agent; weights: what an observation of them is worth at
    its age; links: their distances in hops; constants: see `flood_observations`. store: a ring
    buffer of (rounds, rows, arm and reward).
    """
    flood_observations(
        state, offsets, neighbours, weights, links, constants, arms, rewards, store,
        lo, hi, n_agents, n_arms, t,
    )  # fmt: skip
    return False
