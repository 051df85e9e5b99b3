"""Kernels of algorithms that pass observations on: UCB-Network, its variants and Coop-SE."""

from __future__ import annotations

import math

from posse.lab.compiled.jit import FAST_KERNEL, kernel, use_wide_vectors, vectorised
from posse.lab.compiled.kernels.baselines import flood_observations
from posse.lab.compiled.numerics.kl_index import FIRST, kl_score
from posse.lab.compiled.philox import U64, pick_best
from posse.lab.compiled.records import CHOOSE, MERGE

# Positions in the table of an index; from LEADERS on the leader of each agent, if any.
FORCED, SELECTIVE, KIND, PARAMETER, LEADERS = range(5)
# Positions in the table of Coop-SE.
DEPTH, WIDTH = range(2)
# Numbers per agent in the store of ComEx: whether it sends in this round, and how often it did.
SENT_WIDTH = 2


@kernel(MERGE, **FAST_KERNEL)
def merge_neighbours(
    out, state, offsets, neighbours, weights, links, constants, words,
    arms, rewards, store, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Receive the neighbours' observations of the last round, if they send them.

    neighbours: the senders of each agent. store: see SENT_WIDTH; empty if all is sent.
    """
    is_selective = store.size > 0
    for i in range(lo, hi):
        base = i // n_agents * n_agents
        row = i * U64(2) * n_arms
        for e in range(U64(offsets[i - base]), U64(offsets[i - base + U64(1)])):
            j = base + U64(neighbours[e])
            if not is_selective or store[U64(SENT_WIDTH) * j] != 0.0:
                state[row + U64(arms[j])] += 1.0
                state[row + n_arms + U64(arms[j])] += rewards[j]
    return False


@vectorised
def _fill_ucb_indices(state, row, scores, level, table, last, n_arms):
    """Compute mean plus width of every arm; a new arm comes first."""
    use_wide_vectors()
    for k in range(U64(0), n_arms):
        count = state[row + k]
        total = state[row + n_arms + k]
        safe = max(count, 1.0)
        score = (total + math.sqrt(level * safe)) / safe
        scores[k] = score if count > 0.0 else FIRST


@vectorised
def _fill_kl_indices(state, row, scores, level, table, last, n_arms):
    """Compute the KL index of the arms that may have the largest, the last played arm first."""
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
def _is_exploration(state, row, arm, scratch, n_arms):
    """Whether another arm has a larger mean, or the arm is new: ComEx sends it then."""
    for k in range(U64(0), n_arms):
        count = state[row + k]
        scratch[k] = state[row + n_arms + k] / max(count, 1.0) if count > 0.0 else -FIRST
    best = scratch[0]
    for k in range(U64(1), n_arms):
        best = max(best, scratch[k])
    return scratch[arm] < best or scratch[arm] == -FIRST


def _kernel_of(name, indices):
    """Declare the choose kernel of one kind of index."""

    @kernel(CHOOSE, name=f"choose_heard_{name}", seconds=2, **FAST_KERNEL)
    def choose_heard(
        state, store, shared, level, table, arms, pivots, eager, close, scratch, spare,
        stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
    ):  # fmt: skip
        """Choose the largest index, with scale `level`; followers repeat their leaders.

        table: FORCED, the number of forced rounds; SELECTIVE, whether agents send only exploration;
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
            if table[SELECTIVE] != 0.0:
                is_sent = (
                    1.0 if _is_exploration(state, i * width, U64(arms[i]), scratch, n_arms) else 0.0
                )
                store[U64(SENT_WIDTH) * i] = is_sent
                store[U64(SENT_WIDTH) * i + U64(1)] += is_sent


_kernel_of("width", _fill_ucb_indices)
_kernel_of("kl", _fill_kl_indices)


@kernel(MERGE, **FAST_KERNEL)
def merge_eliminating(
    out, state, offsets, neighbours, weights, links, constants, words,
    arms, rewards, store, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Flood observations, and receive the neighbours' eliminations from before the last round.

    store: that of flooding; then twice for each agent the arms it has eliminated, after even and
    after odd rounds; then how many eliminations it received that were new to it.
    """
    n_rows = U64(arms.size)
    eliminated = U64(2) * U64(constants[0]) * n_rows
    n_received = eliminated + U64(2) * n_rows * n_arms
    before = eliminated + (t - U64(1)) % U64(2) * n_rows * n_arms
    after = eliminated + t % U64(2) * n_rows * n_arms
    flood_observations(
        state, offsets, neighbours, weights, links, constants, arms, rewards, store,
        lo, hi, n_agents, n_arms, t,
    )  # fmt: skip
    for i in range(lo, hi):
        base = i // n_agents * n_agents
        own_before = before + i * n_arms
        own_after = after + i * n_arms
        for k in range(U64(0), n_arms):
            store[own_after + k] = store[own_before + k]
        for e in range(U64(offsets[i - base]), U64(offsets[i - base + U64(1)])):
            if links[e] == 1:
                neighbour_before = before + (base + U64(neighbours[e])) * n_arms
                for k in range(U64(0), n_arms):
                    if store[neighbour_before + k] > store[own_before + k]:
                        store[n_received + i] += 1.0
                        store[own_after + k] = 1.0
        n_left = U64(0)
        for k in range(U64(0), n_arms):
            n_left += U64(store[own_after + k] == 0.0)
        # an agent needs an arm to play
        if n_left == U64(0):  # contradictory eliminations: the agent keeps to its own
            for k in range(U64(0), n_arms):
                store[own_after + k] = store[own_before + k]
    return False


@kernel(CHOOSE, **FAST_KERNEL)
def choose_least_heard(
    state, store, shared, level, table, arms, pivots, eager, close, scratch, spare,
    stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Choose by Coop-SE: eliminate dominated arms, play the one with the fewest observations.

    table: DEPTH, the number of rounds in the store of flooding; WIDTH, that of one observation.
    """
    n_rows = U64(arms.size)
    width = table[WIDTH]
    eliminated = U64(2) * U64(table[DEPTH]) * n_rows + t % U64(2) * n_rows * n_arms
    for i in range(lo, hi):
        row = i * U64(2) * n_arms
        own_after = eliminated + i * n_arms
        low = -FIRST
        for k in range(U64(0), n_arms):
            count = state[row + k]
            total = state[row + n_arms + k]
            if count > 0.0 and store[own_after + k] == 0.0:
                low = max(low, (total - width * math.sqrt(count)) / count)
        for k in range(U64(0), n_arms):
            count = state[row + k]
            total = state[row + n_arms + k]
            if count > 0.0 and (total + width * math.sqrt(count)) / count < low:
                store[own_after + k] = 1.0
            scratch[k] = -count if store[own_after + k] == 0.0 else -FIRST
        slot = i // n_agents
        arms[i] = pick_best(
            scratch, U64(0), n_arms, stream, i - slot * n_agents, t, first_run + slot, key0, key1
        )  # fmt: skip
