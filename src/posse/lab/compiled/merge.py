"""Merge kernels: eq. `merge_posteriors` on rows of (counts, totals), one row an agent.

A row is contiguous, so any graph is a few vector operations per link; the weights W come as CSR
arrays (offsets, neighbours relative to the agent, weights) with the agent among its neighbours.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from posse.lab.compiled.random import FAST, NETWORK, U64, next_uniform, open_stream, philox
from posse.lab.compiled.signatures import MERGE

# Rows merged in one stretch, few enough to stay in the cache between two passes over them.
_STRETCH = U64(32)
_OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": FAST}


@njit(MERGE, **_OPTIONS)
def merge_nothing(
    out, state, offsets, neighbours, weights, links, scratch, alive,
    lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Isolated agents, and agents that share one row."""
    return False


@njit(error_model="numpy", fastmath=FAST)
def _add_neighbours(out, target, state, source, length, e, end, shifts, weights, width):
    """out[target + j] = sum over the links e to end of weight * state[source + shift + j].

    Five links at a time, then three, then one: what is in a register need not be stored.
    """
    fresh = True
    while e < end:
        a, u = source + U64(shifts[e]) * width, weights[e]
        if end - e >= U64(5):
            b, v = source + U64(shifts[e + U64(1)]) * width, weights[e + U64(1)]
            c, w = source + U64(shifts[e + U64(2)]) * width, weights[e + U64(2)]
            d, x = source + U64(shifts[e + U64(3)]) * width, weights[e + U64(3)]
            f, y = source + U64(shifts[e + U64(4)]) * width, weights[e + U64(4)]
            for j in range(U64(0), length):
                kept = 0.0 if fresh else out[target + j]
                near = u * state[a + j] + v * state[b + j] + w * state[c + j]
                out[target + j] = kept + near + x * state[d + j] + y * state[f + j]
            e += U64(5)
        elif end - e >= U64(3):
            b, v = source + U64(shifts[e + U64(1)]) * width, weights[e + U64(1)]
            c, w = source + U64(shifts[e + U64(2)]) * width, weights[e + U64(2)]
            if fresh:
                for j in range(U64(0), length):
                    out[target + j] = u * state[a + j] + v * state[b + j] + w * state[c + j]
            else:
                for j in range(U64(0), length):
                    out[target + j] += u * state[a + j] + v * state[b + j] + w * state[c + j]
            e += U64(3)
        else:
            for j in range(U64(0), length):
                out[target + j] = (0.0 if fresh else out[target + j]) + u * state[a + j]
            e += U64(1)
        fresh = False


@njit(MERGE, **_OPTIONS)
def merge_static(
    out, state, offsets, neighbours, weights, links, scratch, alive,
    lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Any fixed W.

    neighbours: relative to the agent; links: for each agent how many rows from it on
    have the same neighbours and weights, which on a cycle or a grid is most: their rows are merged
    in one stretch.
    """
    width = U64(2) * n_arms
    row = lo
    while row < hi:
        slot = row // n_agents
        agent = row - slot * n_agents
        alike = min(min(U64(links[agent]), hi - row), _STRETCH)
        _add_neighbours(
            out, row * width, state, row * width, alike * width,
            U64(offsets[agent]), U64(offsets[agent + U64(1)]), neighbours, weights, width,
        )  # fmt: skip
        row += alike
    return True


@njit(MERGE, **_OPTIONS)
def merge_gossip(
    out, state, offsets, neighbours, weights, links, scratch, alive,
    lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """One uniformly drawn link a run and round: both ends take their average (eq. `gossip`)."""
    width = U64(2) * n_arms
    n_links = U64(links.size // 2)
    for slot in range(lo // n_agents, (hi + n_agents - U64(1)) // n_agents):
        stream = np.empty(8, np.uint64)
        open_stream(stream, U64(0), t, first_run + slot, NETWORK, key0, key1)
        link = min(U64(next_uniform(stream) * n_links), n_links - U64(1))
        a = (slot * n_agents + U64(links[U64(2) * link])) * width
        b = (slot * n_agents + U64(links[U64(2) * link + U64(1)])) * width
        for j in range(U64(0), width):
            mean = 0.5 * (state[a + j] + state[b + j])
            state[a + j] = mean
            state[b + j] = mean
    return False


@njit(error_model="numpy", fastmath=FAST)
def _draw_links(alive, n_links, threshold, t, run, key0, key1):
    """Which links live, four to a Philox call: alive where 32 random bits reach the threshold."""
    for call in range(U64(0), (n_links + U64(3)) >> U64(2)):
        a, b = philox(call, t, run, NETWORK, key0, key1)
        at = call << U64(2)
        alive[at] = (a >> U64(32)) >= threshold
        alive[at + U64(1)] = (a & U64(0xFFFFFFFF)) >= threshold
        alive[at + U64(2)] = (b >> U64(32)) >= threshold
        alive[at + U64(3)] = (b & U64(0xFFFFFFFF)) >= threshold


@njit(error_model="numpy", fastmath=FAST)
def _exchange(out, state, a, b, weight, width):
    """Move weight times their difference between the two ends of a link."""
    for j in range(U64(0), width):
        flow = weight * (state[b + j] - state[a + j])
        out[a + j] += flow
        out[b + j] -= flow


@njit(error_model="numpy", fastmath=FAST)
def _average(out, state, base, n_agents, width):
    """Every row becomes the mean row."""
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
def _largest_degree(alive, links, n_links, n_agents):
    """The largest number of living links of any agent."""
    degrees = np.zeros(n_agents, np.int64)
    for link in range(n_links):
        if alive[link]:
            degrees[links[2 * link]] += 1
            degrees[links[2 * link + 1]] += 1
    return degrees.max()


@njit(MERGE, **_OPTIONS)
def merge_failing(
    out, state, offsets, neighbours, weights, links, scratch, alive,
    lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Every link fails on its own with some probability; what it carried stays where it was.

    scratch: failure probability, whether to divide by the realised largest degree + 1, whether W
    is a plain average (complete graph); then, from 8 on, the weight of each link.  Where most
    links live, the full merge is corrected for the failed ones; else the living ones are added up.
    """
    width = U64(2) * n_arms
    n_links = U64(links.size // 2)
    threshold = U64(scratch[0] * 4294967296.0)
    realised, uniform = scratch[1] != 0.0, scratch[2] != 0.0
    mostly_alive = scratch[0] < 0.5 and not realised
    for slot in range(lo // n_agents, hi // n_agents):
        base = slot * n_agents * width
        _draw_links(alive, n_links, threshold, t, first_run + slot, key0, key1)
        correction = 1.0
        if mostly_alive and uniform:
            _average(out, state, base, n_agents, width)
        elif mostly_alive:
            for agent in range(U64(0), n_agents):
                row = base + agent * width
                _add_neighbours(
                    out, row, state, row, width,
                    U64(offsets[agent]), U64(offsets[agent + U64(1)]), neighbours, weights, width,
                )  # fmt: skip
        else:
            for j in range(base, base + n_agents * width):
                out[j] = state[j]
            if realised:
                correction = 1.0 / (1.0 + _largest_degree(alive, links, n_links, n_agents))
        sign = -1.0 if mostly_alive else 1.0
        for link in range(U64(0), n_links):
            if (alive[link] == 0) == mostly_alive:
                a = base + U64(links[U64(2) * link]) * width
                b = base + U64(links[U64(2) * link + U64(1)]) * width
                weight = correction if realised else sign * scratch[U64(8) + link]
                _exchange(out, state, a, b, weight, width)
    return True
