"""Kernels of those who pass observations on: UCB-Network, Follow Your Leader, ComEx, Coop-SE."""

from __future__ import annotations

import math

from posse.lab.compiled.jit import FAST_KERNEL, kernel, use_wide_vectors, vectorised
from posse.lab.compiled.kernels.baselines import flood
from posse.lab.compiled.numerics.kl_index import FIRST, kl_score
from posse.lab.compiled.philox import U64, pick_best
from posse.lab.compiled.signatures import CHOOSE, MERGE

# Where the table of an index keeps its constants; after them the leader of each agent, if any.
FORCED, TELLS, KIND, PARAMETER, LEADERS = range(5)
# Where that of Coop-SE does.
DEPTH, WIDTH = range(2)
# What an agent that tells keeps in the store: whether it does in this round, and how often it did.
TOLD_WIDTH = 2


@kernel(MERGE, **FAST_KERNEL)
def merge_neighbours(
    out, state, offsets, neighbours, weights, links, constants, words,
    arms, rewards, store, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Hear what the neighbours saw in the last round, if they tell it.

    neighbours: those that each agent hears.  store: see TOLD_WIDTH; empty where all is told.
    """
    tells = store.size > 0
    for i in range(lo, hi):
        base = i // n_agents * n_agents
        row = i * U64(2) * n_arms
        for e in range(U64(offsets[i - base]), U64(offsets[i - base + U64(1)])):
            j = base + U64(neighbours[e])
            if not tells or store[U64(TOLD_WIDTH) * j] != 0.0:
                state[row + U64(arms[j])] += 1.0
                state[row + n_arms + U64(arms[j])] += rewards[j]
    return False


@vectorised
def _widths(state, row, scores, level, table, last, n_arms):
    """Mean and width of every arm, an unheard one first."""
    use_wide_vectors()
    for k in range(U64(0), n_arms):
        count = state[row + k]
        total = state[row + n_arms + k]
        safe = max(count, 1.0)
        score = (total + math.sqrt(level * safe)) / safe
        scores[k] = score if count > 0.0 else FIRST


@vectorised
def _kl_indices(state, row, scores, level, table, last, n_arms):
    """The KL index of every arm that may have the largest, the one played last first."""
    kind = int(table[KIND])
    parameter = table[PARAMETER]
    best = -FIRST
    for at in range(U64(0), n_arms):
        k = last if at == U64(0) else (at - U64(1) if at <= last else at)
        count = state[row + k]
        total = state[row + n_arms + k]
        mean = total / max(count, 1.0)
        scores[k] = kl_score(kind, parameter, mean, count, level, best)
        best = max(best, scores[k])


@vectorised
def _tell(state, row, arm, scratch, n_arms):
    """Whether an agent tells of an arm: another has a larger mean, or it is unheard."""
    for k in range(U64(0), n_arms):
        count = state[row + k]
        scratch[k] = state[row + n_arms + k] / max(count, 1.0) if count > 0.0 else -FIRST
    best = scratch[0]
    for k in range(U64(1), n_arms):
        best = max(best, scratch[k])
    return scratch[arm] < best or scratch[arm] == -FIRST


def _kernel_of(name, indices):
    """The choice by one kind of index."""

    @kernel(CHOOSE, name=f"choose_heard_{name}", seconds=2, **FAST_KERNEL)
    def choose_heard(
        state, store, shared, level, table, arms, pivots, eager, close, scratch, spare,
        stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
    ):  # fmt: skip
        """The largest index, `level` being its scale at round t; followers after their leaders.

        table: FORCED, how many rounds are; TELLS, whether agents tell only what they explore;
        KIND and PARAMETER of a KL index; from LEADERS on the leader of each agent.
        """
        width = U64(2) * n_arms
        follow = U64(table.size) > U64(LEADERS)
        if follow and t > U64(1):  # while their leaders' arms are still those of the last round
            for i in range(lo, hi):
                base = i // n_agents * n_agents
                arms[i] = arms[base + U64(table[U64(LEADERS) + i - base])]
        for i in range(lo, hi):
            slot = i // n_agents
            agent = i - slot * n_agents
            if t <= U64(table[FORCED]):
                arms[i] = t - U64(1)
            elif not follow or t == U64(1) or U64(table[U64(LEADERS) + agent]) == agent:
                indices(state, i * width, scratch, level, table, U64(arms[i]), n_arms)
                arms[i] = pick_best(
                    scratch, U64(0), n_arms, stream, agent, t, first_run + slot, key0, key1
                )  # fmt: skip
            if table[TELLS] != 0.0:
                told = 1.0 if _tell(state, i * width, U64(arms[i]), scratch, n_arms) else 0.0
                store[U64(TOLD_WIDTH) * i] = told
                store[U64(TOLD_WIDTH) * i + U64(1)] += told


_kernel_of("width", _widths)
_kernel_of("kl", _kl_indices)


@kernel(MERGE, **FAST_KERNEL)
def merge_eliminating(
    out, state, offsets, neighbours, weights, links, constants, words,
    arms, rewards, store, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Flooding, and what those one hop away had given up before the last round.

    store: that of flooding; then twice for each agent which arms it has given up, after even and
    after odd rounds; then how many arms it was told of that it had not given up.
    """
    n_rows = U64(arms.size)
    given_up = U64(2) * U64(constants[0]) * n_rows
    told = given_up + U64(2) * n_rows * n_arms
    before = given_up + (t - U64(1)) % U64(2) * n_rows * n_arms
    after = given_up + t % U64(2) * n_rows * n_arms
    flood(
        state, offsets, neighbours, links, constants, arms, rewards, store,
        lo, hi, n_agents, n_arms, t,
    )  # fmt: skip
    for i in range(lo, hi):
        base = i // n_agents * n_agents
        own = before + i * n_arms
        mine = after + i * n_arms
        for k in range(U64(0), n_arms):
            store[mine + k] = store[own + k]
        for e in range(U64(offsets[i - base]), U64(offsets[i - base + U64(1)])):
            if links[e] == 1:
                theirs = before + (base + U64(neighbours[e])) * n_arms
                for k in range(U64(0), n_arms):
                    if store[theirs + k] > store[own + k]:
                        store[told + i] += 1.0
                        store[mine + k] = 1.0
        left = U64(0)
        for k in range(U64(0), n_arms):
            left += U64(store[mine + k] == 0.0)
        if left == U64(0):  # somebody must be wrong: one's own reasons stand
            for k in range(U64(0), n_arms):
                store[mine + k] = store[own + k]
    return False


@kernel(CHOOSE, **FAST_KERNEL)
def choose_least_heard(
    state, store, shared, level, table, arms, pivots, eager, close, scratch, spare,
    stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Coop-SE: give up what has become hopeless, and play what was heard of least.

    table: DEPTH, how many rounds flooding's store keeps; WIDTH, that of one observation.
    """
    n_rows = U64(arms.size)
    width = table[WIDTH]
    given_up = U64(2) * U64(table[DEPTH]) * n_rows + t % U64(2) * n_rows * n_arms
    for i in range(lo, hi):
        row = i * U64(2) * n_arms
        mine = given_up + i * n_arms
        low = -FIRST
        for k in range(U64(0), n_arms):
            count = state[row + k]
            total = state[row + n_arms + k]
            if count > 0.0 and store[mine + k] == 0.0:
                low = max(low, (total - width * math.sqrt(count)) / count)
        for k in range(U64(0), n_arms):
            count = state[row + k]
            total = state[row + n_arms + k]
            if count > 0.0 and (total + width * math.sqrt(count)) / count < low:
                store[mine + k] = 1.0
            scratch[k] = -count if store[mine + k] == 0.0 else -FIRST
        slot = i // n_agents
        arms[i] = pick_best(
            scratch, U64(0), n_arms, stream, i - slot * n_agents, t, first_run + slot, key0, key1
        )  # fmt: skip
