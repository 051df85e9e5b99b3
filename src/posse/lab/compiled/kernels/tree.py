"""The merge kernel of `posse.Tree`: evidence over every link of a spanning tree, without echoes."""

from __future__ import annotations

import numpy as np

from posse.lab.compiled.jit import FAST_KERNEL, kernel, use_wide_vectors, vectorised
from posse.lab.compiled.kernels.evidence import add_evidence
from posse.lab.compiled.kernels.merge import draw_links, row_width
from posse.lab.compiled.philox import U64
from posse.lab.compiled.records import IDLE, MERGE

# Positions in the constants: the prior (count, total, and squares if there are any), the weight of
# an observation, the failure probability, the weight of evidence one round later, and whether links
# work only while both ends are awake.
PRIOR, _, _, RATE, FAILURE, FADING, CUTS_OFF = range(7)


@vectorised
def _exchange_messages(state, a, b, store, at, prior, width, n_arms):
    """Replace the messages between the agents of rows a and b.

    store: from `at` on the message from a to b, then that from b to a. A message is all evidence of
    the sender minus the last message of the receiver.
    """
    use_wide_vectors()
    reverse = at + width
    for plane in range(U64(0), width // n_arms):
        start = prior[U64(PRIOR) + plane]
        shift = plane * n_arms
        for k in range(shift, shift + n_arms):
            sent_by_a = store[at + k]
            sent_by_b = store[reverse + k]
            store[at + k] = (state[a + k] - start) - sent_by_b
            store[reverse + k] = (state[b + k] - start) - sent_by_a


@vectorised
def _add_row(state, row, store, at, width):
    """state[row + j] += store[at + j]."""
    use_wide_vectors()
    for j in range(U64(0), width):
        state[row + j] += store[at + j]


@kernel(MERGE, **{**FAST_KERNEL, "_nrt": True})  # it allocates
def merge_tree(
    out, state, offsets, neighbours, weights, links, constants, words,
    arms, rewards, store, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Exchange messages over every working link of the tree, then sum what each agent received.

    links: the two ends of each link of the tree; neighbours: for each link of the network that may
    fail its position in the tree, or -1. store: for every run the evidence of its agents' own
    rewards, N rows of (counts, totals), then two rows for every link of the tree, from its first
    end and from its second. A row of the state is the prior plus all evidence of an agent.
    """
    width = row_width(state, arms)
    squares = width > U64(2) * n_arms
    n_links = U64(links.size // 2)
    n_network = U64(neighbours.size)
    limit = U64(constants[FAILURE] * 4294967296.0)
    rate = constants[RATE]
    cuts_off = constants[CUTS_OFF] != 0.0
    changed = np.empty(n_network + U64(1), np.uint32)
    for slot in range(lo // n_agents, hi // n_agents):
        first = slot * n_agents
        own_evidence = first * U64(3) * width
        messages = own_evidence + n_agents * width
        # own evidence and messages fade; the state has faded already
        if constants[FADING] != 1.0:
            for j in range(own_evidence, own_evidence + U64(3) * n_agents * width):
                store[j] *= constants[FADING]
        # the observations of the last round join the own evidence
        for i in range(U64(0), n_agents):
            # an agent that did not play adds zeros; a branch would be unpredictable
            weight = rate if arms[first + i] != IDLE else 0.0
            cell = own_evidence + i * width + min(U64(arms[first + i]), n_arms - U64(1))
            add_evidence(store, cell, weight, rewards[first + i], n_arms, squares)
        n_working = n_links
        if limit > U64(0):
            n_working = draw_links(
                changed, words, n_network, limit, False, t, first_run + slot, key0, key1
            )
        for c in range(U64(0), n_working):
            link = np.int64(c)
            if limit > U64(0):
                link = neighbours[changed[c]]
                if link < 0:
                    continue
            a = (first + U64(links[2 * link])) * width
            b = (first + U64(links[2 * link + 1])) * width
            if cuts_off and (arms[a // width] == IDLE or arms[b // width] == IDLE):
                continue
            _exchange_messages(
                state, a, b, store, messages + U64(link) * U64(2) * width, constants, width, n_arms
            )
        # the new state: prior, own evidence, and the messages of all links of an agent
        for i in range(U64(0), n_agents):
            row = (first + i) * width
            for plane in range(U64(0), width // n_arms):
                for k in range(plane * n_arms, (plane + U64(1)) * n_arms):
                    state[row + k] = constants[U64(PRIOR) + plane]
            _add_row(state, row, store, own_evidence + i * width, width)
        for link in range(U64(0), n_links):
            at = messages + link * U64(2) * width
            _add_row(state, (first + U64(links[U64(2) * link + U64(1)])) * width, store, at, width)
            _add_row(state, (first + U64(links[U64(2) * link])) * width, store, at + width, width)
    return False
