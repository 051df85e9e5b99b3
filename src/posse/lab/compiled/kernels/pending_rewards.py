"""Delayed rewards: a ring of the rewards under way, by the round in which they arrive.

All rewards that are due in one round form a linked list, whose head is in the ring. A thread has a
ring of its own for the agents it plays, so that the order of the rewards of an agent, and of a run,
depends neither on the number of threads nor on other runs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from posse.lab.compiled.jit import helper, use_wide_vectors, vectorised
from posse.lab.compiled.kernels.evidence import add_evidence, correct_evidence
from posse.lab.compiled.kernels.late_flooding import LOST, open_entry
from posse.lab.compiled.philox import U64
from posse.lab.compiled.records import IDLE, PendingArrays

# Numbers of a reward under way: the next one of its list, its row, its arm and its delay.
ENTRY_WIDTH = 4
_NEXT, _ROW, _ARM, _AGE = (U64(i) for i in range(ENTRY_WIDTH))
_NONE = -1


class PendingRewards:
    """The ring of one thread, which grows with the delays that are drawn.

    heads: the first entry of each list; then the number of entries in use and the first free one.
    """

    def __init__(self, fading: float) -> None:
        self._fading = fading
        self.arrays = PendingArrays(
            np.array([_NONE, 0, _NONE]), np.zeros(0, np.int64), np.zeros(0), np.ones(1)
        )

    def make_room(self, t: int, waits: NDArray[np.uint32]) -> PendingArrays:
        """Make room for the rewards of the rounds from t on, which have these delays."""
        queued = waits[(waits != 0) & (waits != LOST)]
        longest = int(queued.max(initial=0))
        heads, entries, rewards, weights = self.arrays
        length = len(heads) - 2
        if longest >= length:
            longer = 2 * longest + 1
            moved = np.full(longer + 2, _NONE)
            due = np.arange(t, t + length)
            moved[due % longer] = heads[due % length]
            moved[longer:] = heads[length:]
            heads = moved
            weights = self._fading ** np.arange(longer, dtype=float)
        n_free = len(rewards) - int(heads[-2])
        n_new = queued.size - n_free
        if n_new > 0:
            added = np.zeros((n_new, ENTRY_WIDTH), np.int64)
            # the new entries are free: each names the one before it, the first the old list
            added[:, 0] = np.arange(len(rewards) - 1, len(rewards) + n_new - 1)
            added[0, 0] = heads[-1]
            heads[-1] = len(rewards) + n_new - 1
            entries = np.concatenate([entries, added.reshape(-1)])
            rewards = np.concatenate([rewards, np.zeros(n_new)])
        self.arrays = PendingArrays(heads, entries, rewards, weights)
        return self.arrays


@helper
def observation_rate(rates, store, mass_stride, slot, agent, n_agents):
    """Return what one observation of an agent adds to its count.

    mass_stride: of the masses of push-sum in the store, from run to run; below 0 without masses. A
    row of push-sum holds the evidence divided by a mass d, and the store 1/d - 1.
    """
    if mass_stride < 0:
        return rates[agent]
    return rates[agent] * (1.0 + store[U64(mass_stride) * slot + U64(2) * n_agents + agent])


@helper
def _locate_note(store, floods, i, arm, slot, width, n_agents, n_arms):
    """Return where the store takes evidence of row i that others get from it, and its stride.

    In a log if the algorithm floods; otherwise where `kernels.tree` has the own evidence of agents.
    """
    if floods:
        return open_entry(store, slot, i - slot * n_agents, arm), U64(1)
    return (i + U64(2) * slot * n_agents) * width + arm, n_arms


@helper
def open_pulls(
    rows, squares, shared, rates, store, mass_stride, noted, floods, counts_open, lowest,
    arms, rewards, pulls, tally, waits, plays, start, pending, first, last, n_agents, n_arms, t,
):  # fmt: skip
    """Count the pulls of a round; queue their rewards, or learn those that arrive at once.

    squares: whether rows have sums of squares; noted: the factor at which the store gets the
    evidence too, 0 without it; floods: whether the store is a log of evidence; counts_open: whether
    an open pull counts as the lowest reward. waits, plays: from `start` on for each row of the
    block; an agent that does not play has the arm IDLE afterwards.
    """
    heads = pending.heads
    entries = pending.entries
    length = U64(heads.size - 2)
    width = (U64(3) if squares else U64(2)) * n_arms
    for slot in range(first // n_agents, (last - U64(1)) // n_agents + U64(1)):
        for i in range(max(first, slot * n_agents), min(last, (slot + U64(1)) * n_agents)):
            if plays.size > 0 and plays[start + i] == 0:
                arms[i] = IDLE
                continue
            arm = U64(arms[i])
            pulls[i * n_arms + arm] += 1
            tally[slot * n_arms + arm] += 1
            wait = waits[start + i]
            if wait == 0 or counts_open:
                rate = observation_rate(
                    rates, store, mass_stride, slot, i - slot * n_agents, n_agents
                )
                cell = (slot if shared else i) * width + arm
                reward = rewards[i] if wait == 0 else lowest
                add_evidence(rows, cell, rate, reward, n_arms, squares)
                if noted != 0.0:
                    note, stride = _locate_note(
                        store, floods, i, arm, slot, width, n_agents, n_arms
                    )
                    add_evidence(store, note, rate * noted, reward, stride, squares)
            if wait != 0 and wait != LOST:
                entry = heads[length + U64(1)]
                at = U64(entry) * U64(ENTRY_WIDTH)
                heads[length + U64(1)] = entries[at + _NEXT]
                heads[length] += 1
                due = (t + U64(wait)) % length
                entries[at + _NEXT] = heads[due]
                entries[at + _ROW] = i
                entries[at + _ARM] = arm
                entries[at + _AGE] = wait
                pending.rewards[U64(entry)] = rewards[i]
                heads[due] = entry


@helper
def learn_arrivals(
    rows, squares, shared, rates, store, mass_stride, noted, floods, counts_open, lowest, pending,
    n_agents, n_arms, t,
):  # fmt: skip
    """Learn the rewards that arrive in round t, at the weight that their pulls have by now."""
    heads = pending.heads
    entries = pending.entries
    length = U64(heads.size - 2)
    width = (U64(3) if squares else U64(2)) * n_arms
    entry = heads[t % length]
    heads[t % length] = _NONE
    while entry != _NONE:
        at = U64(entry) * U64(ENTRY_WIDTH)
        i = U64(entries[at + _ROW])
        slot = i // n_agents
        rate = observation_rate(rates, store, mass_stride, slot, i - slot * n_agents, n_agents)
        weight = rate * pending.weights[U64(entries[at + _AGE])]
        arm = U64(entries[at + _ARM])
        cell = (slot if shared else i) * width + arm
        reward = pending.rewards[U64(entry)]
        note = stride = U64(0)
        if noted != 0.0:
            note, stride = _locate_note(store, floods, i, arm, slot, width, n_agents, n_arms)
        if counts_open:  # the pull was counted as the lowest reward
            correct_evidence(rows, cell, weight, lowest, reward, n_arms, squares)
            if noted != 0.0:
                correct_evidence(store, note, weight * noted, lowest, reward, stride, squares)
        else:
            add_evidence(rows, cell, weight, reward, n_arms, squares)
            if noted != 0.0:
                add_evidence(store, note, weight * noted, reward, stride, squares)
        following = entries[at + _NEXT]
        entries[at + _NEXT] = heads[length + U64(1)]
        heads[length + U64(1)] = entry
        heads[length] -= 1
        entry = following


@vectorised
def clip_rows(acted, rows, prior, first, last, n_arms):
    """Write Beta beliefs that rewards can produce (`clip_to_attainable`): no shape below the prior.

    Agents act on these, and exchange the others.
    """
    use_wide_vectors()
    for row in range(first, last):
        at = row * U64(2) * n_arms
        for k in range(U64(0), n_arms):
            total = rows[at + n_arms + k]
            failures = max(rows[at + k] - total, prior[k] - prior[n_arms + k])
            total = max(total, prior[n_arms + k])
            acted[at + k] = total + failures
            acted[at + n_arms + k] = total
