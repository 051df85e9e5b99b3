"""Kernels of GosInE: each agent has a few active arms, and neighbours recommend others."""

from __future__ import annotations

from posse.lab.compiled.jit import FAST_KERNEL, KERNEL, helper, kernel
from posse.lab.compiled.numerics.kl_index import FIRST, index_score
from posse.lab.compiled.philox import NETWORK, U64, next_uniform, open_stream, pick_best
from posse.lab.compiled.records import CHOOSE, MERGE


@helper
def _most_played(state, row, store, at, n_arms, top):
    """Return how often the most played arm of the phase was played, and how many arms tie."""
    tied = U64(0)
    for k in range(U64(0), n_arms):
        phase_count = state[row + k] - store[at + k]
        if phase_count > top:
            top = phase_count
            tied = U64(1)
        elif phase_count == top:
            tied += U64(1)
    return top, tied


@kernel(MERGE, **KERNEL)
def merge_gosine(
    out, state, offsets, neighbours, weights, links, constants, words,
    arms, rewards, store, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """End a phase if the last round was a cube: every agent gets a recommendation.

    state: the own counts and totals; store: for each agent the counts at the start of the phase,
    then its arms U and V and its most played arm of the phase. neighbours: without the agent.
    """
    root = U64(round((t - U64(1)) ** (1.0 / 3.0)))
    if root * root * root != t - U64(1):
        return False
    # first all agents write their recommendation, then all agents read one: order does not matter
    width = n_arms + U64(3)
    for i in range(lo, hi):
        row = i * U64(2) * n_arms
        at = i * width
        top, tied = _most_played(state, row, store, at, n_arms, -1.0)
        slot = i // n_agents
        open_stream(words, i - slot * n_agents, t, first_run + slot, NETWORK, key0, key1)
        nth = min(U64(next_uniform(words) * tied), tied - U64(1))
        for k in range(U64(0), n_arms):
            if state[row + k] - store[at + k] == top:
                if nth == U64(0):
                    store[at + n_arms + U64(2)] = float(k)
                    break
                nth -= U64(1)
    # L = ceil(K/N) sticky arms of each agent
    size = (n_arms + n_agents - U64(1)) // n_agents
    for i in range(lo, hi):
        slot = i // n_agents
        agent = i - slot * n_agents
        row = i * U64(2) * n_arms
        at = i * width
        first = U64(offsets[agent])
        degree = U64(offsets[agent + U64(1)]) - first
        upper = U64(store[at + n_arms])
        lower = U64(store[at + n_arms + U64(1)])
        swap = state[row + lower] - store[at + lower] > state[row + upper] - store[at + upper]
        if swap:
            upper, lower = lower, upper
        if degree > U64(0):
            open_stream(words, n_agents + agent, t, first_run + slot, NETWORK, key0, key1)
            nth = min(U64(next_uniform(words) * degree), degree - U64(1))
            adviser = slot * n_agents + U64(neighbours[first + nth])
            arm = U64(store[adviser * width + n_arms + U64(2)])
            sticky = (arm + n_arms - agent * size % n_arms) % n_arms < size
            if not sticky and arm != upper and arm != lower:
                lower = arm
        store[at + n_arms] = float(upper)
        store[at + n_arms + U64(1)] = float(lower)
    for i in range(lo, hi):
        for k in range(U64(0), n_arms):
            store[i * width + k] = state[i * U64(2) * n_arms + k]
    return False


@kernel(CHOOSE, seconds=3.0, **FAST_KERNEL)
def choose_gosine(
    state, store, shared, level, table, arms, pivots, eager, close, scratch, spare,
    stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Choose the active arm with the largest index; see `merge_gosine` for the store."""
    size = (n_arms + n_agents - U64(1)) // n_agents  # sticky arms of an agent
    for i in range(lo, hi):
        slot = i // n_agents
        agent = i - slot * n_agents
        row = i * U64(2) * n_arms
        at = i * (n_arms + U64(3))
        first = agent * size % n_arms
        if t == U64(1):
            store[at + n_arms] = float((first + size) % n_arms)
            store[at + n_arms + U64(1)] = float((first + size + U64(1)) % n_arms)
        upper = U64(store[at + n_arms])
        lower = U64(store[at + n_arms + U64(1)])
        n_active = U64(0)
        for nth in range(U64(0), min(size, n_arms)):
            k = first + nth
            spare[n_active] = k if k < n_arms else k - n_arms
            n_active += U64(1)
        if (upper + n_arms - first) % n_arms >= size:
            spare[n_active] = upper
            n_active += U64(1)
        if (lower + n_arms - first) % n_arms >= size and lower != upper:
            spare[n_active] = lower
            n_active += U64(1)
        # start at the arm that was played last, which is likely the best: see `kl_score`
        start = U64(0)
        for nth in range(U64(0), n_active):
            if spare[nth] == arms[i]:
                start = nth
        best = -FIRST
        for nth in range(start, start + n_active):
            at = nth if nth < n_active else nth - n_active
            k = U64(spare[at])
            count = state[row + k]
            mean = state[row + n_arms + k] / max(count, 1.0)
            scratch[at] = index_score(table, mean, count, level, best)
            best = max(best, scratch[at])
        best_place = pick_best(
            scratch, U64(0), n_active, stream, agent, t, first_run + slot, key0, key1
        )  # fmt: skip
        arms[i] = spare[best_place]
