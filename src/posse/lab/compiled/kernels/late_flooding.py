"""Flooding of delayed rewards: a log of evidence in the store, and the merge kernel that reads it.

An agent may learn several delayed rewards in a round, or none, so one place for each agent and
round does not suffice. Each run has a log of the evidence that its agents learnt, in the order of
rounds: a ring that holds at least the rounds still in transit. The driver writes
(`log_evidence`), the merge kernel reads.

The store holds the number of entries of a ring, the number of rounds in transit and the number of
numbers of an entry; then for each run the number of entries ever written, for each round in transit
the number written before it, and the ring. An entry is its agent, its arm, and what is added to
count, total and perhaps squares.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from posse.lab.compiled.jit import FAST_KERNEL, helper, kernel
from posse.lab.compiled.kernels.merge import row_width
from posse.lab.compiled.philox import U64
from posse.lab.compiled.records import MERGE

# Positions in the store, and where the first run begins.
_CAPACITY, _DEPTH, _WIDTH, _FIRST_RUN = range(4)
# Positions in an entry.
_AGENT, _ARM, _EVIDENCE = (U64(i) for i in range(3))
# The delay of a reward that never arrives before the horizon.
LOST = np.uint32(0xFFFFFFFF)


class EvidenceLog:
    """The logs of a block of runs; the rings grow with the delays that are drawn."""

    def __init__(
        self, n_runs: int, n_agents: int, depth: int, n_planes: int, counts_open: bool
    ) -> None:
        self._shape = (n_runs, n_agents)
        self._depth = depth
        self._width = 2 + n_planes
        self._counts_open = counts_open
        # entries of each run by round: the rounds in transit, then those to come
        self._n_entries = np.zeros((n_runs, depth), np.int64)
        self.store = np.zeros(_FIRST_RUN + n_runs * (1 + depth))
        self.store[_DEPTH] = depth
        self.store[_WIDTH] = self._width

    def make_room(self, waits: NDArray[np.uint32]) -> None:
        """Make room for the rewards of the next rounds, which have these delays: (rounds, rows)."""
        n_runs, n_agents = self._shape
        n_rounds = len(waits)
        arrives = waits != LOST
        longest = int(waits[arrives].max(initial=0))
        end = max(self._n_entries.shape[1], self._depth + n_rounds + longest)
        runs = np.arange(waits.shape[1]) // n_agents
        rounds = self._depth + np.arange(n_rounds)[:, None]
        # of a reward that arrives when it arrives; of a pull that counts until then, at once
        due = (runs * end + rounds + waits)[arrives]
        if self._counts_open:
            due = np.append(due, (runs * end + rounds + np.zeros_like(waits))[waits != 0])
        n_entries = np.bincount(due, minlength=n_runs * end).reshape(n_runs, end)
        n_entries[:, : self._n_entries.shape[1]] += self._n_entries
        # the most entries that the rounds in transit ever have, the running round included
        so_far = np.cumsum(n_entries[:, : self._depth + n_rounds], axis=1)
        in_transit = so_far[:, self._depth :] - so_far[:, :n_rounds]
        self._n_entries = n_entries[:, n_rounds:]
        if in_transit.max(initial=0) > self.store[_CAPACITY]:
            self._grow(2 * int(in_transit.max()))

    def _grow(self, capacity: int) -> None:
        """Move the entries to larger rings."""
        n_runs = self._shape[0]
        header = 1 + self._depth
        before = int(self.store[_CAPACITY])
        old = self.store[_FIRST_RUN:].reshape(n_runs, -1)
        new = np.zeros((n_runs, header + capacity * self._width))
        new[:, :header] = old[:, :header]
        entries = old[:, header:].reshape(n_runs, before, self._width)
        moved = new[:, header:].reshape(n_runs, capacity, self._width)
        for run in range(n_runs):
            n_written = int(old[run, 0])
            kept = np.arange(max(0, n_written - before), n_written)
            moved[run, kept % capacity] = entries[run, kept % max(before, 1)]
        self.store = np.concatenate([[capacity, self._depth, self._width], new.reshape(-1)])


@helper
def _locate_run(store, slot):
    """Return where the log of a run begins."""
    width = U64(1) + U64(store[_DEPTH]) + U64(store[_CAPACITY]) * U64(store[_WIDTH])
    return U64(_FIRST_RUN) + slot * width


@helper
def open_entry(store, slot, agent, arm):
    """Append an entry without evidence to the log of a run; return where its evidence goes."""
    log = _locate_run(store, slot)
    width = U64(store[_WIDTH])
    nth = U64(store[log]) % U64(store[_CAPACITY])
    store[log] += 1.0
    at = log + U64(1) + U64(store[_DEPTH]) + nth * width
    store[at + _AGENT] = agent
    store[at + _ARM] = arm
    for j in range(at + _EVIDENCE, at + width):
        store[j] = 0.0
    return at + _EVIDENCE


@kernel(MERGE, **FAST_KERNEL)
def merge_late_flooding(
    out, state, offsets, neighbours, weights, links, constants, words,
    arms, rewards, store, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Receive the evidence that agents d hops away learnt d rounds ago.

    neighbours: for each agent the others by their distance; offsets: where those at each distance
    begin, (agents, distances) flattened; weights: of evidence by its distance. By entry, not by
    receiver: how many entries an agent has in a round is unpredictable, how many receivers is not.
    """
    width = row_width(state, arms)
    squares = width > U64(2) * n_arms
    capacity = U64(store[_CAPACITY])
    depth = U64(store[_DEPTH])
    n_distances = depth - U64(1)
    entry_width = U64(store[_WIDTH])
    for slot in range(lo // n_agents, hi // n_agents):
        log = _locate_run(store, slot)
        entries = log + U64(1) + depth
        first_row = slot * n_agents
        begin = store[log]
        # the entries of round t will begin here
        store[log + U64(1) + t % depth] = begin
        for hops in range(U64(1), min(n_distances, t - U64(1)) + U64(1)):
            end = begin
            begin = store[log + U64(1) + (t - hops) % depth]
            weight = weights[hops - U64(1)]
            nth = U64(begin) % capacity if capacity > U64(0) else U64(0)
            for _ in range(U64(end - begin)):
                at = entries + nth * entry_width
                nth = nth + U64(1) if nth + U64(1) < capacity else U64(0)
                sent_to = U64(int(store[at + _AGENT])) * n_distances + hops - U64(1)
                arm = U64(int(store[at + _ARM]))
                count = weight * store[at + _EVIDENCE]
                total = weight * store[at + _EVIDENCE + U64(1)]
                square = weight * store[at + _EVIDENCE + U64(2)] if squares else 0.0
                for e in range(U64(offsets[sent_to]), U64(offsets[sent_to + U64(1)])):
                    cell = (first_row + U64(neighbours[e])) * width + arm
                    state[cell] += count
                    state[cell + n_arms] += total
                    if squares:
                        state[cell + U64(2) * n_arms] += square
    return False
