"""The merge kernels of `posse.PushSum`: Algorithm 1 with weights that depend on the masses.

A row holds the belief acted on, prior + x / d, where x is the evidence of an agent and d its
divisor: its mass y at a known learning rate, which is part of x, or u where N is learnt. Shares P
turn x_j = (row_j - prior) d_j into

    row'_i = prior + sum over j of P_ij d_j / d'_i (row_j - prior),

so that rows mix as in `merge`, by weights of the round. These sum to 1 and the prior cancels,
except where u reaches an agent for the first time. One more difference: the driver adds an
observation at the constant rate, and here it must count rate / d.
"""

from __future__ import annotations

import numpy as np

from posse.algorithms import LEAST_MASS
from posse.lab.compiled.jit import FAST_KERNEL, helper, kernel, use_wide_vectors, vectorised
from posse.lab.compiled.kernels.evidence import add_evidence
from posse.lab.compiled.kernels.merge import add_neighbours, draw_links, row_width
from posse.lab.compiled.philox import NETWORK, U64, next_uniform, open_stream
from posse.lab.compiled.records import IDLE, MERGE
from posse.randomness import FloatArray

# Positions in the constants. The share that an agent gives to a receiver follows from SHARES on.
# First the prior: count, total, and squares if there are any.
PRIOR, _, _, RATE, LEARNT, FAILURE, REALISED, DIRECTED = range(8)
SHARES = 8
# Rounding of the sum of weights, far below what a row's prior could be missing.
_ROUNDING = 1e-9


def create_store(n_runs: int, n_agents: int) -> FloatArray:
    """Create the store of a block: y, u and 1/d - 1 of every agent, run by run; the lowest mass.

    Masses on a static network are those of the first run, since they are equal in all runs.
    """
    numbers = np.zeros((n_runs, 3, n_agents))
    numbers[:, 0] = 1.0
    numbers[:, 1, 0] = 1.0
    return np.append(numbers.reshape(-1), 1.0)


@helper
def _divisor(mass, unit_mass, learnt):
    """The number by which an agent divides its evidence."""
    return unit_mass if learnt and unit_mass > LEAST_MASS else mass


@helper
def _note_mass(store, mass):
    """Remember the lowest mass of the block, which the engine refuses if it is about to underflow.

    Until then the mass stays at LEAST_MASS, so that no division by 0 occurs here.
    """
    lowest = store[store.size - 1]
    store[store.size - 1] = min(lowest, mass)
    return max(mass, LEAST_MASS)


@helper
def _weigh_observations(state, store, at, arms, rewards, rate, first, n_agents, n_arms):
    """Let the observations of the last round count rate / d; the driver added the rate."""
    width = row_width(state, arms)
    squares = width > U64(2) * n_arms
    for i in range(U64(0), n_agents):
        # an agent that did not play adds zeros
        weight = rate if arms[first + i] != IDLE else 0.0
        more = weight * store[at + U64(2) * n_agents + i]
        cell = (first + i) * width + min(U64(arms[first + i]), n_arms - U64(1))
        add_evidence(state, cell, more, rewards[first + i], n_arms, squares)


@helper
def _push_masses(
    store, at, pushed, starts, ends, shifts, shares, mixing, missing, learnt, n_agents
):
    """Push the masses of a run over its links, and weigh its rows.

    starts, ends: of the links into each agent; shifts, shares: of each link. Results: `mixing`, the
    weight of each link; `missing`, what the weights of each agent lack to 1. pushed: room for 2 N
    masses.
    """
    for agent in range(n_agents):
        sender = at + agent
        mass = 0.0
        for e in range(starts[agent], ends[agent]):
            mixing[e] = shares[e] * store[sender + U64(shifts[e])]
            mass += mixing[e]
        mass = _note_mass(store, mass)
        pushed[agent] = mass
        divisor = mass
        missing[agent] = 0.0
        if learnt:
            unit_mass = total = 0.0
            for e in range(starts[agent], ends[agent]):
                there = sender + U64(shifts[e])
                unit_mass += shares[e] * store[there + n_agents]
                mixing[e] = shares[e] * _divisor(store[there], store[there + n_agents], learnt)
                total += mixing[e]
            pushed[n_agents + agent] = unit_mass
            divisor = _divisor(mass, unit_mass, learnt)
            missing[agent] = 1.0 - total / divisor
        inverse = 1.0 / divisor
        store[at + U64(2) * n_agents + agent] = inverse - 1.0
        for e in range(starts[agent], ends[agent]):
            mixing[e] *= inverse
    for j in range(U64(0), (U64(2) if learnt else U64(1)) * n_agents):
        store[at + j] = pushed[j]


@vectorised
def _mix_evidence(out, row, state, e, end, shifts, mixing, constants, width, n_arms):
    """Write prior + sum of weight (row - prior), where the weights do not sum to 1.

    They may be huge: evidence that is exactly 0 must remain so, which a sum of rows would not give.
    """
    n_planes = width // n_arms
    for plane in range(U64(0), n_planes):
        prior = constants[U64(PRIOR) + plane]
        for j in range(plane * n_arms, (plane + U64(1)) * n_arms):
            out[row + j] = prior
    for link in range(e, end):
        sender = row + U64(shifts[link]) * width
        for plane in range(U64(0), n_planes):
            prior = constants[U64(PRIOR) + plane]
            for j in range(plane * n_arms, (plane + U64(1)) * n_arms):
                out[row + j] += mixing[link] * (state[sender + j] - prior)


@vectorised
def _mix_rows(
    out, state, first, starts, ends, shifts, mixing, missing, constants, n_agents, width, n_arms
):
    """Write the new rows of a run to `out`."""
    use_wide_vectors()
    for agent in range(n_agents):
        row = (first + agent) * width
        e = U64(starts[agent])
        end = U64(ends[agent])
        if abs(missing[agent]) > _ROUNDING:
            _mix_evidence(out, row, state, e, end, shifts, mixing, constants, width, n_arms)
        else:
            add_neighbours(out, row, state, row, width, e, end, shifts, mixing, width, True)


@kernel(MERGE, seconds=3, **{**FAST_KERNEL, "_nrt": True})  # it allocates
def merge_push(
    out, state, offsets, neighbours, weights, links, constants, words,
    arms, rewards, store, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Push by static shares P: `weights`, as CSR rows of the receivers."""
    learnt = constants[LEARNT] != 0.0
    for slot in range(lo // n_agents, hi // n_agents):
        _weigh_observations(
            state, store, U64(0), arms, rewards, constants[RATE], slot * n_agents, n_agents, n_arms
        )  # fmt: skip
    mixing = np.empty(weights.size)
    missing = np.empty(n_agents)
    starts = offsets[:-1]
    ends = offsets[1:]
    _push_masses(
        store, U64(0), np.empty(U64(2) * n_agents), starts, ends, neighbours, weights, mixing,
        missing, learnt, n_agents,
    )  # fmt: skip
    for slot in range(lo // n_agents, hi // n_agents):
        _mix_rows(
            out, state, slot * n_agents, starts, ends, neighbours, mixing, missing, constants,
            n_agents, row_width(state, arms), n_arms,
        )  # fmt: skip
    return True


@kernel(MERGE, seconds=4, **{**FAST_KERNEL, "_nrt": True})  # it allocates
def merge_push_failing(
    out, state, offsets, neighbours, weights, links, constants, words,
    arms, rewards, store, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Push over links that fail independently; the share of a lost message stays at its sender.

    links: the two ends of each, of a directed one (sender, receiver); offsets: room for the links
    into each agent and for the agent itself.
    """
    n_links = U64(links.size // 2)
    threshold = U64(constants[FAILURE] * 4294967296.0)
    learnt = constants[LEARNT] != 0.0
    realised = constants[REALISED] != 0.0
    directed = constants[DIRECTED] != 0.0
    changed = np.empty(n_links + U64(1), np.uint32)
    shifts = np.empty(neighbours.size, np.int64)
    shares = np.empty(neighbours.size)
    mixing = np.empty(neighbours.size)
    ends = np.empty(n_agents, np.int64)
    n_receivers = np.empty(n_agents)
    missing = np.empty(n_agents)
    pushed = np.empty(U64(2) * n_agents)
    for slot in range(lo // n_agents, hi // n_agents):
        at = slot * U64(3) * n_agents
        _weigh_observations(
            state, store, at, arms, rewards, constants[RATE], slot * n_agents, n_agents, n_arms
        )  # fmt: skip
        n_working = draw_links(
            changed, words, n_links, threshold, False, t, first_run + slot, key0, key1
        )
        for agent in range(n_agents):
            ends[agent] = offsets[agent]
            n_receivers[agent] = 0.0
        for c in range(U64(0), n_working):
            link = U64(2) * U64(changed[c])
            sender = np.int64(links[link])
            receiver = np.int64(links[link + U64(1)])
            shifts[ends[receiver]] = sender - receiver
            shares[ends[receiver]] = constants[SHARES + sender]
            ends[receiver] += 1
            n_receivers[sender] += 1.0
            if not directed:  # and back
                shifts[ends[sender]] = receiver - sender
                shares[ends[sender]] = constants[SHARES + receiver]
                ends[sender] += 1
                n_receivers[receiver] += 1.0
        for agent in range(n_agents):
            share = constants[U64(SHARES) + agent]
            if realised:
                share = 1.0 / (1.0 + n_receivers[agent])
                for e in range(offsets[agent], ends[agent]):
                    shares[e] = 1.0 / (1.0 + n_receivers[np.int64(agent) + shifts[e]])
            # an agent sends to itself what it does not send to others
            shifts[ends[agent]] = 0
            shares[ends[agent]] = 1.0 - n_receivers[agent] * share
            ends[agent] += 1
        _push_masses(
            store, at, pushed, offsets, ends, shifts, shares, mixing, missing, learnt, n_agents
        )
        _mix_rows(
            out, state, slot * n_agents, offsets, ends, shifts, mixing, missing, constants,
            n_agents, row_width(state, arms), n_arms,
        )  # fmt: skip
    return True


@vectorised
def _mix_pair(state, a, b, here, there, back, forth, constants, width, n_arms):
    """Mix the evidence of two rows in place: here a + there b, and back a + forth b."""
    use_wide_vectors()
    for plane in range(U64(0), width // n_arms):
        prior = constants[U64(PRIOR) + plane]
        for k in range(plane * n_arms, (plane + U64(1)) * n_arms):
            first = state[a + k] - prior
            second = state[b + k] - prior
            state[a + k] = prior + (here * first + there * second)
            state[b + k] = prior + (back * first + forth * second)


@kernel(MERGE, seconds=2, **FAST_KERNEL)
def merge_push_gossip(
    out, state, offsets, neighbours, weights, links, constants, words,
    arms, rewards, store, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Push one half over one uniformly drawn link per run and round, and back if undirected."""
    width = row_width(state, arms)
    n_links = U64(links.size // 2)
    learnt = constants[LEARNT] != 0.0
    # what the first end of a link receives of the second
    returned = 0.5 if constants[DIRECTED] == 0.0 else 0.0
    for slot in range(lo // n_agents, hi // n_agents):
        at = slot * U64(3) * n_agents
        _weigh_observations(
            state, store, at, arms, rewards, constants[RATE], slot * n_agents, n_agents, n_arms
        )  # fmt: skip
        open_stream(words, U64(0), t, first_run + slot, NETWORK, key0, key1)
        link = min(U64(next_uniform(words) * n_links), n_links - U64(1))
        a = U64(links[U64(2) * link])
        b = U64(links[U64(2) * link + U64(1)])
        mass_a = store[at + a]
        mass_b = store[at + b]
        unit_a = store[at + n_agents + a]
        unit_b = store[at + n_agents + b]
        d_a = _divisor(mass_a, unit_a, learnt)
        d_b = _divisor(mass_b, unit_b, learnt)
        new_a = _note_mass(store, 0.5 * mass_a + returned * mass_b)
        new_b = 0.5 * mass_a + (1.0 - returned) * mass_b
        new_unit_a = 0.5 * unit_a + returned * unit_b
        new_unit_b = 0.5 * unit_a + (1.0 - returned) * unit_b
        inverse_a = 1.0 / _divisor(new_a, new_unit_a, learnt)
        inverse_b = 1.0 / _divisor(new_b, new_unit_b, learnt)
        _mix_pair(
            state, (slot * n_agents + a) * width, (slot * n_agents + b) * width,
            0.5 * d_a * inverse_a, returned * d_b * inverse_a,
            0.5 * d_a * inverse_b, (1.0 - returned) * d_b * inverse_b,
            constants, width, n_arms,
        )  # fmt: skip
        store[at + a] = new_a
        store[at + b] = new_b
        store[at + n_agents + a] = new_unit_a
        store[at + n_agents + b] = new_unit_b
        store[at + U64(2) * n_agents + a] = inverse_a - 1.0
        store[at + U64(2) * n_agents + b] = inverse_b - 1.0
    return False
