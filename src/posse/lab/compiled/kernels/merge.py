"""Merge kernels: eq. `merge_posteriors` on rows of (counts, totals), one row per agent.

A row is contiguous, so any graph takes a few vector operations per link. Rows of families that
learn a variance hold sums of squares too; all numbers merge alike. The weights W come as CSR arrays
(offsets, neighbours relative to the agent, weights) with the agent among its neighbours.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

from posse.lab.compiled.jit import (
    CHUNK,
    FAST_KERNEL,
    KERNEL,
    add_chunk,
    helper,
    kernel,
    use_wide_vectors,
    vectorised,
)
from posse.lab.compiled.philox import NETWORK, U64, next_uniform, open_stream, philox
from posse.lab.compiled.records import IDLE, MERGE

# Rows merged in one stretch, few enough to stay in the cache between two passes over them.
_STRETCH = U64(64)


@njit(inline="always")
def row_width(state, arms):
    """Return how many numbers a row has, where every agent has one."""
    return U64(state.size) // U64(arms.size)


@kernel(MERGE, **FAST_KERNEL)
def merge_nothing(
    out, state, offsets, neighbours, weights, links, constants, words,
    arms, rewards, store, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Do nothing, for isolated agents and for agents that share one row."""
    return False


@njit(inline="always")
def _locate_row(source, shifts, weights, e, width):
    """Return where the row of a link starts, and its weight."""
    return source + U64(shifts[e]) * width, weights[e]


@vectorised
def add_neighbours(out, target, state, source, length, e, end, shifts, weights, width, fresh):
    """out[target + j] += sum over the links e to end of weight * state[source + shift + j].

    `fresh` says that out is still empty. Ten links at a time, then five, three, one: every pass
    over the row costs as much as several links.
    """
    use_wide_vectors()
    while e < end:
        n_left = end - e
        a, p = _locate_row(source, shifts, weights, e, width)
        if n_left >= U64(3):
            b, q = _locate_row(source, shifts, weights, e + U64(1), width)
            c, r = _locate_row(source, shifts, weights, e + U64(2), width)
        if n_left >= U64(5):
            d, s = _locate_row(source, shifts, weights, e + U64(3), width)
            f, t = _locate_row(source, shifts, weights, e + U64(4), width)
        if n_left >= U64(10):
            g, u = _locate_row(source, shifts, weights, e + U64(5), width)
            h, v = _locate_row(source, shifts, weights, e + U64(6), width)
            k, w = _locate_row(source, shifts, weights, e + U64(7), width)
            m, x = _locate_row(source, shifts, weights, e + U64(8), width)
            n, y = _locate_row(source, shifts, weights, e + U64(9), width)
            for j in range(U64(0), length):
                base = 0.0 if fresh else out[target + j]
                five = p * state[a + j] + q * state[b + j] + r * state[c + j]
                five += s * state[d + j] + t * state[f + j]
                next_five = u * state[g + j] + v * state[h + j] + w * state[k + j]
                next_five += x * state[m + j] + y * state[n + j]
                out[target + j] = base + five + next_five
            e += U64(10)
        elif n_left >= U64(5):
            for j in range(U64(0), length):
                base = 0.0 if fresh else out[target + j]
                five = p * state[a + j] + q * state[b + j] + r * state[c + j]
                out[target + j] = base + five + s * state[d + j] + t * state[f + j]
            e += U64(5)
        elif n_left >= U64(3):
            if fresh:
                for j in range(U64(0), length):
                    out[target + j] = p * state[a + j] + q * state[b + j] + r * state[c + j]
            else:
                for j in range(U64(0), length):
                    out[target + j] += p * state[a + j] + q * state[b + j] + r * state[c + j]
            e += U64(3)
        else:
            for j in range(U64(0), length):
                out[target + j] = (0.0 if fresh else out[target + j]) + p * state[a + j]
            e += U64(1)
        fresh = False


@vectorised
def _merge_rows(out, state, offsets, neighbours, weights, links, lo, hi, n_agents, width, fresh):
    """out (+)= W state for the rows lo to hi.

    neighbours: relative to the agent; links: for each agent how many rows from it on have the same
    neighbours and weights. On a cycle or a grid these are most rows; they merge in one stretch.
    """
    use_wide_vectors()
    row = lo
    while row < hi:
        slot = row // n_agents
        agent = row - slot * n_agents
        alike = min(min(U64(links[agent]), hi - row), _STRETCH)
        add_neighbours(
            out, row * width, state, row * width, alike * width,
            U64(offsets[agent]), U64(offsets[agent + U64(1)]), neighbours, weights, width, fresh,
        )  # fmt: skip
        row += alike


@kernel(MERGE, seconds=2.5, **FAST_KERNEL)
def merge_static(
    out, state, offsets, neighbours, weights, links, constants, words,
    arms, rewards, store, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Merge by a static W."""
    width = row_width(state, arms)
    _merge_rows(
        out, state, offsets, neighbours, weights, links, lo, hi, n_agents, width, True
    )  # fmt: skip
    return True


@vectorised
def _weigh_rows(out, target, state, rows, weights, n_rows, width):
    """Write the weighted sum of some rows of the state; rows: where they start.

    n_rows: 3, 6, 9 ... A row is too short for loops that the compiler vectorises, so it goes by
    chunks; the last chunk overlaps the one before.
    """
    use_wide_vectors()
    chunk = U64(CHUNK)
    if width < chunk:
        for j in range(U64(0), width):
            total = 0.0
            for e in range(n_rows):
                total += weights[e] * state[rows[e] + j]
            out[target + j] = total
        return
    last = width - chunk
    a, b, c = rows[0], rows[1], rows[2]
    p, q, r = weights[0], weights[1], weights[2]
    for j in range(U64(0), last, chunk):
        add_chunk(out, target + j, state, j, rows, weights, n_rows, a, b, c, p, q, r)
    add_chunk(out, target + last, state, last, rows, weights, n_rows, a, b, c, p, q, r)


@vectorised
def _copy_rows(out, state, first, agents, n_copied, width):
    """Copy the rows of some agents of a run whose rows start at `first`."""
    use_wide_vectors()
    for nth in range(n_copied):
        at = first + agents[nth] * width
        for j in range(at, at + width):
            out[j] = state[j]


@kernel(MERGE, seconds=4, **{**FAST_KERNEL, "_nrt": True})  # it allocates
def merge_awake(
    out, state, offsets, neighbours, weights, links, constants, words,
    arms, rewards, store, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Merge among the agents that played in the last round; the rows of the others stay.

    The weight of a link between two agents that are awake depends on a degree d among those awake
    and is constants[8 + d]. d is the largest one of the run if constants[0] is not 0 (max-degree
    weights), else the larger one of its two ends (Metropolis weights). Where all are awake, W is
    the static one. Where few are awake, their new rows are copied back; else the old rows of the
    others are copied, and the result is in `out`.
    """
    width = row_width(state, arms)
    by_max_degree = constants[0] != 0.0
    degrees = np.empty(n_agents, np.uint64)
    # lists are written without branches, which would be unpredictable: an entry not counted is
    # overwritten
    agents = np.empty(n_agents + U64(1), np.uint64)
    senders = np.empty(neighbours.size, np.uint64)
    # the rows that one agent weighs, in threes
    rows = np.empty(constants.size, np.uint64)
    amounts = np.empty(constants.size)
    n_awake = U64(0)
    for row in range(lo, hi):
        n_awake += U64(arms[row] != IDLE)
    returns = U64(2) * n_awake < hi - lo
    for slot in range(lo // n_agents, hi // n_agents):
        first = slot * n_agents
        n_awake = U64(0)
        for agent in range(U64(0), n_agents):
            degrees[agent] = U64(0)
            agents[n_awake] = agent
            n_awake += U64(arms[first + agent] != IDLE)
        if n_awake == n_agents:
            end = first + n_agents
            _merge_rows(
                out, state, offsets, neighbours, weights, links, first, end, n_agents, width, True
            )  # fmt: skip
            if returns:
                _copy_rows(state, out, first * width, agents, n_agents, width)
            continue
        # the neighbours of each agent that are awake, from its offset on
        largest = n_movers = U64(0)
        for nth in range(n_awake):
            agent = agents[nth]
            begin = U64(offsets[agent])
            at = begin
            for e in range(begin, U64(offsets[agent + U64(1)])):
                shift = neighbours[e]
                sender = agent + U64(shift)
                senders[at] = sender
                at += U64((arms[first + sender] != IDLE) & (shift != 0))
            degrees[agent] = at - begin
            largest = max(largest, at - begin)
            agents[n_movers] = agent
            n_movers += U64(at > begin)
        by_largest = constants[U64(8) + largest]
        # agents side by side whose links all work, as without sleep, merge in one stretch
        as_static = not by_max_degree or U64(9) + largest == U64(constants.size)
        start = end = U64(0)
        for nth in range(n_movers):
            agent = agents[nth]
            begin = U64(offsets[agent])
            degree = degrees[agent]
            is_whole = as_static & (begin + degree + U64(1) == U64(offsets[agent + U64(1)]))
            # a stretch of one row would be slower
            is_whole = is_whole & ((links[agent] > 1) | (agent == end))
            if is_whole and not by_max_degree:
                for e in range(begin, begin + degree):
                    sender = senders[e]
                    n_links = U64(offsets[sender + U64(1)] - offsets[sender])
                    is_whole = is_whole & (degrees[sender] + U64(1) == n_links)
            if is_whole:
                if agent != end:
                    _merge_rows(
                        out, state, offsets, neighbours, weights, links, first + start,
                        first + end, n_agents, width, True,
                    )  # fmt: skip
                    start = agent
                end = agent + U64(1)
                continue
            own = (first + agent) * width
            kept = 1.0
            for e in range(degree):
                sender = senders[begin + e]
                amount = by_largest
                if not by_max_degree:
                    amount = constants[U64(8) + max(degree, degrees[sender])]
                rows[e] = (first + sender) * width
                amounts[e] = amount
                kept -= amount
            for e in range(degree, degree + U64(3)):
                rows[e] = own
                amounts[e] = kept if e == degree else 0.0
            n_rows = (degree // U64(3) + U64(1)) * U64(3)
            _weigh_rows(out, own, state, rows, amounts, n_rows, width)
        _merge_rows(
            out, state, offsets, neighbours, weights, links, first + start, first + end, n_agents,
            width, True,
        )  # fmt: skip
        if returns:
            _copy_rows(state, out, first * width, agents, n_movers, width)
            continue
        n_others = U64(0)
        for agent in range(U64(0), n_agents):
            agents[n_others] = agent
            n_others += U64(degrees[agent] == U64(0))
        _copy_rows(out, state, first * width, agents, n_others, width)
    return not returns


@kernel(MERGE, seconds=2.5, **FAST_KERNEL)
def merge_chebyshev(
    out, state, offsets, neighbours, weights, links, constants, words,
    arms, rewards, store, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """One step of T_n(W/lambda_2), n = 1 to C: T_n = 2 W/lambda_2 T_{n-1} - T_{n-2} (DDUCB).

    `weights` are those of 2 W/lambda_2, constants[0] is C, and `out` still holds T_{n-2}. The
    choice divides by T_C(1/lambda_2) at the end of the stage.
    """
    use_wide_vectors()
    width = row_width(state, arms)
    starts = (t - n_arms - U64(2)) % U64(constants[0]) == U64(0)
    if not starts:
        for j in range(lo * width, hi * width):
            out[j] = -out[j]
    _merge_rows(
        out, state, offsets, neighbours, weights, links, lo, hi, n_agents, width, starts
    )  # fmt: skip
    if starts:  # T_1 = W/lambda_2
        for j in range(lo * width, hi * width):
            out[j] *= 0.5
    return True


@kernel(MERGE, **FAST_KERNEL)
def merge_gossip(
    out, state, offsets, neighbours, weights, links, constants, words,
    arms, rewards, store, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Average the two ends of one uniformly drawn link per run and round (eq. `gossip`)."""
    width = row_width(state, arms)
    n_links = U64(links.size // 2)
    for slot in range(lo // n_agents, (hi + n_agents - U64(1)) // n_agents):
        open_stream(words, U64(0), t, first_run + slot, NETWORK, key0, key1)
        link = min(U64(next_uniform(words) * n_links), n_links - U64(1))
        a = (slot * n_agents + U64(links[U64(2) * link])) * width
        b = (slot * n_agents + U64(links[U64(2) * link + U64(1)])) * width
        for j in range(U64(0), width):
            mean = 0.5 * (state[a + j] + state[b + j])
            state[a + j] = mean
            state[b + j] = mean
    return False


@helper
def draw_links(changed, words, n_links, threshold, failed, t, run, key0, key1):
    """List the links that failed, or those that did not; returns how many.

    A link fails if its 32 random bits are below the threshold; a Philox call serves four links.
    """
    for call in range(U64(0), (n_links + U64(3)) >> U64(2)):
        a, b = philox(call, t, run, NETWORK, key0, key1)
        words[call << U64(1)] = a
        words[(call << U64(1)) + U64(1)] = b
    bits = words.view(np.uint32)
    limit = np.uint32(threshold)
    n_changed = U64(0)
    # without branches, which would be unpredictable: an entry not counted is overwritten
    for link in range(U64(0), n_links):
        changed[n_changed] = link
        n_changed += U64((bits[link] < limit) == failed)
    return n_changed


_COUNT = types.void(
    types.int64[::1], types.uint32[::1], types.uint64[::1], types.uint64, types.float64,
    *(types.uint64,) * 5,
)  # fmt: skip


@kernel(_COUNT, **KERNEL)
def count_living(
    living, changed, words, n_links, p, horizon, first_run, n_runs, key0, key1
):  # fmt: skip
    """Count the working links after rounds 1 to the horizon, merged at the start of the next."""
    threshold = U64(p * 4294967296.0)
    for t in range(U64(1), horizon + U64(1)):
        for slot in range(U64(0), n_runs):
            living[(t - U64(1)) * n_runs + slot] = draw_links(
                changed, words, n_links, threshold, False, t + U64(1), first_run + slot, key0, key1
            )


@vectorised
def _average_rows(out, state, base, n_agents, width):
    """Replace every row by the mean row."""
    for j in range(U64(0), width):
        out[base + j] = 0.0
    for agent in range(U64(0), n_agents):
        row = base + agent * width
        for j in range(U64(0), width):
            if agent == U64(0):
                out[base + j] = state[row + j]
            else:
                out[base + j] += state[row + j]
    for j in range(U64(0), width):
        out[base + j] /= n_agents
    for agent in range(U64(1), n_agents):
        for j in range(U64(0), width):
            out[base + agent * width + j] = out[base + j]


@njit
def _largest_degree(changed, n_changed, links, n_agents):
    """Return the largest degree of any agent in the listed links."""
    degrees = np.zeros(n_agents, np.int64)
    for c in range(n_changed):
        degrees[links[2 * changed[c]]] += 1
        degrees[links[2 * changed[c] + 1]] += 1
    return degrees.max()


@vectorised
def _is_comparable(state, base, n_agents, width, n_arms):
    """Whether all counts of a run are within four orders of magnitude of each other."""
    lowest = highest = state[base]
    for agent in range(U64(0), n_agents):
        row = base + agent * width
        for k in range(U64(0), n_arms):
            lowest = min(lowest, state[row + k])
            highest = max(highest, state[row + k])
    return highest < 1e4 * lowest


@kernel(MERGE, seconds=6, **{**FAST_KERNEL, "_nrt": True})  # it allocates
def merge_failing(
    out, state, offsets, neighbours, weights, links, constants, words,
    arms, rewards, store, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Merge over links that fail independently; the weight of a failed link stays with its ends.

    constants: failure probability, whether to divide by the realised largest degree + 1, whether W
    is a plain average (complete graph), whether all links have one weight, whether equal beliefs
    may become different in their last digit; then, from 8 on, the weight of each link. If most
    links work and rounding allows it, the full merge is corrected for the failed links; otherwise
    the working links are summed.
    """
    width = row_width(state, arms)
    n_links = U64(links.size // 2)
    threshold = U64(constants[0] * 4294967296.0)
    realised = constants[1] != 0.0
    uniform = constants[2] != 0.0
    alike = constants[3] != 0.0
    changed = np.empty(n_links + U64(1), np.uint32)
    # for each agent the neighbours of its changed links, then the agent itself
    shifts = np.empty(neighbours.size, np.int64)
    amounts = np.empty(neighbours.size)
    ends = np.empty(n_agents, np.int64)
    own_weight = np.empty(n_agents)
    for slot in range(lo // n_agents, hi // n_agents):
        base = slot * n_agents * width
        # subtracting from the full merge loses digits if beliefs differ by orders of magnitude
        mostly_alive = constants[0] < 0.5 and not realised and constants[4] != 0.0
        mostly_alive = mostly_alive and _is_comparable(state, base, n_agents, width, n_arms)
        sign = -1.0 if mostly_alive else 1.0
        n_changed = draw_links(
            changed, words, n_links, threshold, mostly_alive, t, first_run + slot, key0, key1
        )
        scale = 1.0
        if realised:
            scale = 1.0 / (1.0 + _largest_degree(changed, n_changed, links, n_agents))
        for agent in range(U64(0), n_agents):
            ends[agent] = offsets[agent]
            own_weight[agent] = 0.0
        for c in range(U64(0), n_changed):
            link = U64(changed[c])
            a = U64(links[U64(2) * link])
            b = U64(links[U64(2) * link + U64(1)])
            at_a = ends[a]
            at_b = ends[b]
            shift = np.int64(b) - np.int64(a)
            shifts[at_a] = shift
            shifts[at_b] = -shift
            ends[a] = at_a + 1
            ends[b] = at_b + 1
            if not alike:
                amount = sign * constants[U64(8) + link]
                amounts[at_a] = amounts[at_b] = amount
                own_weight[a] -= amount
                own_weight[b] -= amount
        if alike:  # all links have one weight
            amount = sign * (scale if realised else constants[8])
            for j in range(amounts.size):
                amounts[j] = amount
            for agent in range(U64(0), n_agents):
                own_weight[agent] = -amount * (ends[agent] - offsets[agent])
        if mostly_alive and uniform:
            _average_rows(out, state, base, n_agents, width)
        for agent in range(U64(0), n_agents):
            row = base + agent * width
            first = U64(offsets[agent])
            last = U64(ends[agent])
            shifts[last] = 0
            amounts[last] = own_weight[agent]
            if not mostly_alive:
                amounts[last] += 1.0
            elif not uniform:
                end = U64(offsets[agent + U64(1)])
                add_neighbours(
                    out, row, state, row, width, first, end, neighbours, weights, width, True
                )
            add_neighbours(
                out, row, state, row, width, first, last + U64(1), shifts, amounts, width,
                not mostly_alive,
            )  # fmt: skip
    return True
