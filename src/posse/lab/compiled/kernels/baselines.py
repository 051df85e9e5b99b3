"""Kernels of the baselines: what they choose by, and how observations flood a network."""

from __future__ import annotations

import math

from posse.lab.compiled.jit import FAST_KERNEL, kernel, use_wide_vectors, vectorised
from posse.lab.compiled.philox import U64, pick_best
from posse.lab.compiled.signatures import CHOOSE, MERGE

# Where DDUCB's table keeps its constants.
UNACCELERATED, PRACTICAL, STAGE, NORM = range(4)
# An index above all others.
_FIRST = 1e300


@vectorised
def _force(arms, lo, hi, t):
    """Round t <= K: arm t."""
    for i in range(lo, hi):
        arms[i] = t - U64(1)


@vectorised
def _indices(state, row, scores, table, level, growing, agent, n, n_arms):
    """The index of every arm of n agents, one agent after the other."""
    use_wide_vectors()
    shift = table[0]
    weight = table[1]
    for i in range(U64(0), n):
        at = (row + i) * U64(2) * n_arms
        out = i * n_arms
        slack = table[U64(3) + agent + i] + growing
        if weight == 0.0:  # without a prior there is less to divide
            for k in range(U64(0), n_arms):
                count = state[at + k]
                total = state[at + n_arms + k]
                scores[out + k] = (total + math.sqrt(level * (count + slack))) / count
        else:
            for k in range(U64(0), n_arms):
                count = state[at + k]
                total = state[at + n_arms + k]
                known = weight + count
                width = math.sqrt(level * (count + slack) * known / count)
                scores[out + k] = (shift + total + width) / known


@kernel(CHOOSE, seconds=3.5, **FAST_KERNEL)
def choose_consensus(
    state, store, shared, level, table, arms, pivots, eager, close, scratch, spare,
    stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """The largest index of `rivals.coop_ucb.Index`; `level` is its scale at round t.

    table: shift, weight, growing, then the slack of each agent.
    """
    use_wide_vectors()
    if t <= n_arms:
        _force(arms, lo, hi, t)
        return
    growing = table[2] * math.sqrt(math.log(float(t)))
    row = lo
    while row < hi:  # one run at a time
        slot = row // n_agents
        end = min(hi, (slot + U64(1)) * n_agents)
        agent = row - slot * n_agents
        _indices(state, row, scratch, table, level, growing, agent, end - row, n_arms)
        for i in range(U64(0), end - row):
            arms[row + i] = pick_best(
                scratch, i * n_arms, n_arms, stream, agent + i, t, first_run + slot, key0, key1
            )
        row = end


@vectorised
def _next_stage(state, row, store, own, table, first, adds_up, n_agents, width):
    """Settle what was mixed, and mix what is fresh; store: fresh at `own`, then settled."""
    use_wide_vectors()
    settled = own + width
    for j in range(U64(0), width):
        fresh = store[own + j]
        mixed = state[row + j] * table[NORM]
        if first:  # of the forced pulls one's own are all there is, for one of N agents
            store[settled + j] = fresh / n_agents
            state[row + j] = fresh
        else:
            store[settled + j] = mixed + (store[settled + j] if adds_up else 0.0)
            state[row + j] = fresh + (mixed if table[UNACCELERATED] != 0.0 else 0.0)
        store[own + j] = 0.0


@kernel(CHOOSE, **FAST_KERNEL)
def choose_staged(
    state, store, shared, level, table, arms, pivots, eager, close, scratch, spare,
    stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """DDUCB: at the start of a stage, or in every round, the largest bound from what is settled.

    store: for each agent its fresh (c, gamma), then what is settled (a, alpha); `state` is what
    is being mixed, (b, beta); `level` is 2 eta sigma^2 ln s / N.
    """
    use_wide_vectors()
    if t <= n_arms:
        _force(arms, lo, hi, t)
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
        own = i * U64(2) * width
        if starts:
            _next_stage(
                state, i * width, store, own, table, past == U64(0), adds_up, n_agents, width
            )  # fmt: skip
        settled = own + width
        for k in range(U64(0), n_arms):
            a = store[settled + k] + share * store[own + k]
            alpha = store[settled + n_arms + k] + share * store[own + n_arms + k]
            safe = a if a > 0.0 else 1.0  # Chebyshev's weights can be negative
            scratch[k] = alpha / safe + math.sqrt(level / safe) if a > 0.0 else _FIRST
        slot = i // n_agents
        agent = i - slot * n_agents
        arms[i] = pick_best(
            scratch, U64(0), n_arms, stream, agent, t, first_run + slot, key0, key1
        )  # fmt: skip


@vectorised
def flood(
    state, offsets, neighbours, links, constants, arms, rewards, store, lo, hi, n_agents, n_arms, t
):
    """Hear of what others saw, as many rounds ago as they are hops away."""
    n_rows = U64(arms.size)
    depth = U64(constants[0])
    rate = constants[1]
    slot = (t - U64(1)) % depth
    now = slot * n_rows
    for i in range(lo, hi):
        store[U64(2) * (now + i)] = arms[i]
        store[U64(2) * (now + i) + U64(1)] = rewards[i]
    for i in range(lo, hi):
        base = i // n_agents * n_agents
        row = i * U64(2) * n_arms
        for e in range(U64(offsets[i - base]), U64(offsets[i - base + U64(1)])):
            hops = U64(links[e])
            if hops < t:
                # the slot of round t - hops; a division would cost more than all the rest
                past = slot + U64(1) + (U64(0) if hops <= slot + U64(1) else depth) - hops
                seen = past * n_rows + base + U64(neighbours[e])
                arm = U64(int(store[U64(2) * seen]))
                state[row + arm] += rate
                state[row + n_arms + arm] += rate * store[U64(2) * seen + U64(1)]


@kernel(MERGE, **FAST_KERNEL)
def merge_flooding(
    out, state, offsets, neighbours, weights, links, constants, words,
    arms, rewards, store, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Hear of what others saw, as many rounds ago as they are hops away.

    neighbours: all others of each agent; links: how far they are; constants: how many rounds the
    store keeps, and what one observation adds to a count.  store: (rounds, rows, arm and reward).
    """
    flood(
        state, offsets, neighbours, links, constants, arms, rewards, store,
        lo, hi, n_agents, n_arms, t,
    )  # fmt: skip
    return False
