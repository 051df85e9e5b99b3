"""Kernels of Dist-UCB: estimates that track the average sample mean of the network."""

from __future__ import annotations

import math

from posse.lab.compiled.jit import FAST_KERNEL, kernel, use_wide_vectors, vectorised
from posse.lab.compiled.numerics.kl_index import FIRST, KIND, OWN, SIGMA, index_score
from posse.lab.compiled.philox import U64, pick_best
from posse.lab.compiled.records import CHOOSE, MERGE


@vectorised
def _fill_bounds(scores, z, start, counts, at, level, n_arms):
    """Compute the published indices, vectorised."""
    use_wide_vectors()
    for k in range(U64(0), n_arms):
        scores[k] = z[start + k] + math.sqrt(level / counts[at + k])


@kernel(MERGE, seconds=1.5, **FAST_KERNEL)
def merge_tracking(
    out, state, offsets, neighbours, weights, links, constants, words,
    arms, rewards, store, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """z <- W z + the change of the own sample mean, m <- max of the own n and the neighbours' m.

    state: z, then m; store: the own counts and totals, then the sample means of a round ago.
    """
    use_wide_vectors()
    width = U64(2) * n_arms
    for i in range(lo, hi):
        agent = i % n_agents
        row = i * width
        own_at = i * U64(2) * width
        before = own_at + width
        for k in range(U64(0), n_arms):
            mean = store[own_at + n_arms + k] / store[own_at + k]
            out[row + k] = mean - store[before + k]
            store[before + k] = mean
            out[row + n_arms + k] = store[own_at + k]
        for e in range(U64(offsets[agent]), U64(offsets[agent + U64(1)])):
            neighbour_row = U64(i + U64(neighbours[e])) * width
            weight = weights[e]
            for k in range(U64(0), n_arms):
                out[row + k] += weight * state[neighbour_row + k]
            for k in range(n_arms, width):
                out[row + k] = max(out[row + k], state[neighbour_row + k])
    return True


@kernel(CHOOSE, seconds=3.0, **FAST_KERNEL)
def choose_tracking(
    state, store, shared, level, table, arms, pivots, eager, close, scratch, spare,
    stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Choose an arm that lags, or the largest index; see `merge_tracking` for the store.

    table: after KIND and SIGMA the size of each agent's neighbourhood, itself included.
    """
    for i in range(lo, hi):
        if t <= n_arms:
            arms[i] = t - U64(1)
            continue
        slot = i // n_agents
        agent = i - slot * n_agents
        row = i * U64(2) * n_arms
        own_at = U64(2) * row
        # after the forced rounds the estimates start at the own sample means
        if t == n_arms + U64(1):
            for k in range(U64(0), n_arms):
                mean = store[own_at + n_arms + k] / store[own_at + k]
                state[row + k] = mean
                state[row + n_arms + k] = store[own_at + k]
                store[own_at + U64(2) * n_arms + k] = mean
        lags = False
        for k in range(U64(0), n_arms):
            late = store[own_at + k] <= state[row + n_arms + k] - n_arms
            scratch[k] = 1.0 if late else 0.0
            lags = lags or late
        if not lags:
            agent_level = level / table[U64(OWN) + agent]
            if table[KIND] <= 0.0:
                # the Gaussian index is of the published form, but for its width
                width = 1.0 if table[KIND] < 0.0 else 2.0 * table[SIGMA] ** 2
                _fill_bounds(scratch, state, row, store, own_at, width * agent_level, n_arms)
            else:
                best = -FIRST
                last = U64(arms[i])
                for nth in range(U64(0), n_arms):
                    k = (last + nth) % n_arms
                    scratch[k] = index_score(
                        table, state[row + k], store[own_at + k], agent_level, best
                    )
                    best = max(best, scratch[k])
        arms[i] = pick_best(
            scratch, U64(0), n_arms, stream, agent, t, first_run + slot, key0, key1
        )  # fmt: skip
