"""The loop of Algorithm 1 over compiled kernels: merge, choose, draw rewards, update."""

from __future__ import annotations

from numba import types

from posse.lab.compiled.jit import KERNEL, helper, kernel, use_wide_vectors, vectorised
from posse.lab.compiled.kernels.evidence import add_evidence
from posse.lab.compiled.kernels.pending_rewards import clip_rows, learn_arrivals, open_pulls
from posse.lab.compiled.kernels.thompson import update_sampling_modes
from posse.lab.compiled.philox import U64
from posse.lab.compiled.posteriors.student import standardise_rows
from posse.lab.compiled.records import (
    BELIEF_ARRAYS,
    BYTES,
    CHOOSE,
    FLOATS,
    IDLE,
    MERGE,
    NETWORK_ARRAYS,
    PENDING_ARRAYS,
    PLAY_CONSTANTS,
    REGRET_ARRAYS,
    REWARD,
    ROUND_ARRAYS,
    THREAD_WORKSPACE,
)


@vectorised
def fade_rows(rows, prior, fading, first, last):
    """Discount the evidence of some rows by one round of age, toward the prior (`beliefs.fade`)."""
    use_wide_vectors()
    width = U64(prior.size)
    for row in range(first, last):
        at = row * width
        for j in range(U64(0), width):
            rows[at + j] = prior[j] + fading * (rows[at + j] - prior[j])


@helper
def charge_regret(charged, gaps, start, size, arms, first, last, n_agents, n_arms):
    """Charge every agent the gap of its arm in this round, where gaps change.

    gaps: those of the round are from `start` on, `size` numbers for all runs or for all agents.
    """
    per_agent = size == U64(arms.size) * n_arms
    for slot in range(first // n_agents, (last - U64(1)) // n_agents + U64(1)):
        for i in range(max(first, slot * n_agents), min(last, (slot + U64(1)) * n_agents)):
            if arms[i] != IDLE:
                charged[i] += gaps[start + (i if per_agent else slot) * n_arms + U64(arms[i])]


@helper
def update_rows(
    rows, width, squares, shared, rates, arms, rewards, pulls, tally, first, last, n_agents, n_arms
):
    """Update each agent's belief by its reward (`add_evidence`), and count the pulls.

    rates: one for each agent of a run; squares: whether rows have sums of squares.
    """
    for slot in range(first // n_agents, (last - U64(1)) // n_agents + U64(1)):
        start = max(first, slot * n_agents)
        for i in range(start, min(last, (slot + U64(1)) * n_agents)):
            arm = U64(arms[i])
            cell = (slot if shared else i) * width + arm
            rate = rates[i - slot * n_agents]
            add_evidence(rows, cell, rate, rewards[i], n_arms, squares)
            pulls[i * n_arms + arm] += 1
            tally[slot * n_arms + arm] += 1


@vectorised
def mark_sleepers(arms, plays, start, first, last):
    """Mark the agents that do not play as IDLE; plays: 1 or 0, from `start` on for each row."""
    use_wide_vectors()
    for i in range(first, last):
        arms[i] = arms[i] if plays[start + i] != 0 else IDLE


@helper
def update_playing_rows(
    rows, width, squares, shared, rates, arms, rewards, pulls, tally, first, last, n_agents, n_arms,
    plays, start,
):  # fmt: skip
    """`update_rows` for the agents that play; the arm of the others becomes IDLE.

    plays: 1 or 0, from `start` on for each row of the block. Without branches, which would be
    unpredictable: an agent that does not play adds zeros.
    """
    for slot in range(first // n_agents, (last - U64(1)) // n_agents + U64(1)):
        begin = max(first, slot * n_agents)
        for i in range(begin, min(last, (slot + U64(1)) * n_agents)):
            arm = U64(arms[i])
            played = plays[start + i]
            weight = rates[i - slot * n_agents] * played
            cell = (slot if shared else i) * width + arm
            add_evidence(rows, cell, weight, rewards[i], n_arms, squares)
            pulls[i * n_arms + arm] += played
            tally[slot * n_arms + arm] += played
    mark_sleepers(arms, plays, start, first, last)


@helper
def record_regret(tally, pulls, gaps, charged, regret, column, n_columns, n_agents, n_arms, n_runs):
    """Compute the cumulative regret of each run from the number of pulls of each arm.

    Integers make it independent of the order of pulls. If every agent has its own gaps, the pulls
    of each agent are used. If gaps change from round to round, every agent was `charged` already.
    """
    for slot in range(n_runs):
        total = 0.0
        if charged.size > 0:
            for i in range(slot * n_agents, (slot + U64(1)) * n_agents):
                total += charged[i]
        elif gaps.size == tally.size:
            for k in range(slot * n_arms, (slot + U64(1)) * n_arms):
                total += gaps[k] * tally[k]
        else:
            width = n_agents * n_arms
            for k in range(slot * width, (slot + U64(1)) * width):
                total += gaps[k] * pulls[k]
        regret[slot * U64(n_columns) + U64(column)] = total / n_agents


def _signature_of(pending):
    """Return the signature of the driver for this type of `pending`."""
    return types.boolean(
        types.FunctionType(MERGE), types.FunctionType(CHOOSE), types.FunctionType(CHOOSE),
        types.FunctionType(CHOOSE), types.FunctionType(REWARD),
        NETWORK_ARRAYS, BELIEF_ARRAYS, ROUND_ARRAYS, REGRET_ARRAYS, THREAD_WORKSPACE, pending,
        PLAY_CONSTANTS, FLOATS, FLOATS, BYTES, types.boolean,  # levels, table, plays, flipped
        *(types.uint64,) * 4,  # lo, hi, tile, first_run
        *(types.uint64,) * 2, types.boolean,  # t0, t1, alone
    )  # fmt: skip


def _play(
    merge, choose, choose_eagerly, challenge, draw_rewards,
    network, beliefs, current, recorded, work, pending, constant,
    levels, table, plays, flipped,
    lo, hi, tile, first_run, t0, t1, alone,
):  # fmt: skip
    """Play rounds t0 to t1 - 1 of the rows lo to hi; returns which buffer then holds the state.

    The records are documented in `records`. `flipped` says that the state is in `beliefs.other`.
    A row holds the counts of all arms, then their totals, then perhaps their squares. Rows are
    processed a tile at a time, from merge to update, while they are in the processor's cache.
    `alone` says that these rows are whole runs, so that the round can be closed here; otherwise the
    caller closes it when all threads are done. There are no messages in the first `unmixed` rounds.
    `staged`: observations go to the store, and the choice reads them when a stage ends. Evidence
    fades before an update, as in `beliefs.fade`; where means drift, those of the round begin at
    `current.starts`. plays: which agents play in each round, (rounds, rows of the block) flattened;
    empty if all do. Rewards that arrive late are `pending`, and are learnt when all tiles of a
    round are merged. If it is None, all rewards arrive at once, and numba drops what is for late
    ones before it compiles it.
    """
    n_agents = constant.n_agents
    n_arms = constant.n_arms
    key0 = constant.key0
    key1 = constant.key1
    shared = constant.shared
    arms = current.arms
    rewards = current.rewards
    store = beliefs.store
    drifts = current.starts.size > 0
    means = current.means
    start = size = U64(0)
    n_runs = (hi - lo) // n_agents
    all_play = plays.size == 0
    squares = constant.n_planes == U64(3)
    column = 0
    # the first recorded round at or after t0
    while alone and recorded.times[column] < t0:
        column += 1
    for t in range(t0, t1):
        now, out = (beliefs.other, beliefs.state) if flipped else (beliefs.state, beliefs.other)
        moved = False
        if drifts:
            start = U64(current.starts[t - t0])
            size = U64(current.starts[current.starts.size - 1])
            means = current.means[start : start + size]
        for first in range(lo, hi, tile):
            last = min(first + tile, hi)
            # merge the messages that the neighbours sent after the last round
            moved = t > constant.unmixed + U64(1) and merge(
                out, now, network.offsets, network.neighbours, network.weights, network.links,
                network.constants, work.words, arms, rewards,
                store, first, last, n_agents, n_arms, first_run, t, key0, key1,
            )  # fmt: skip
            rows = out if moved else now
            # the rows of this tile: one for each run, or one for each agent
            first_row = first // n_agents if shared else first
            last_row = (last + n_agents - U64(1)) // n_agents if shared else last
            acted = rows
            if beliefs.acted.size > 0:
                acted = beliefs.acted
                if squares:
                    standardise_rows(acted, rows, constant.offset, first_row, last_row, n_arms)
                elif pending is not None:
                    clip_rows(acted, rows, beliefs.prior, first_row, last_row, n_arms)
            if not all_play:
                mark_sleepers(arms, plays, (t - t0) * U64(arms.size), first, last)
            # choose: each of the two kernels skips the runs of the other
            choose_eagerly(
                acted, store, shared, levels[t - t0], table, arms, current.pivots, current.eager,
                work.close, work.scratch, work.spare, work.stream,
                first, last, n_agents, n_arms, first_run, t, key0, key1,
            )  # fmt: skip
            choose(
                acted, store, shared, levels[t - t0], table, arms, current.pivots, current.eager,
                work.close, work.scratch, work.spare, work.stream,
                first, last, n_agents, n_arms, first_run, t, key0, key1,
            )  # fmt: skip
            # top-two sampling: the arm may give way to its challenger
            challenge(
                acted, store, shared, levels[t - t0], table, arms, current.pivots, current.eager,
                work.close, work.scratch, work.spare, work.stream,
                first, last, n_agents, n_arms, first_run, t, key0, key1,
            )  # fmt: skip
            # draw rewards and update
            draw_rewards(
                means, constant.parameter, arms, rewards,
                first, last, n_agents, n_arms, first_run, t, key0, key1,
            )  # fmt: skip
            if constant.fading != 1.0:
                fade_rows(rows, beliefs.prior, constant.fading, first_row, last_row)
            updated = store if constant.staged else rows
            width = (U64(4) if constant.staged else constant.n_planes) * n_arms
            if pending is not None:
                open_pulls(
                    rows, squares, shared, constant.rates, store, constant.mass_stride,
                    constant.noted, constant.floods, constant.counts_open, constant.lowest,
                    arms, rewards, recorded.pulls, work.tally, current.waits, plays,
                    (t - t0) * U64(arms.size), pending, first, last, n_agents, n_arms, t,
                )  # fmt: skip
            elif all_play:
                update_rows(
                    updated, width, squares, shared, constant.rates, arms, rewards, recorded.pulls,
                    work.tally, first, last, n_agents, n_arms,
                )  # fmt: skip
            else:
                update_playing_rows(
                    updated, width, squares, shared, constant.rates, arms, rewards, recorded.pulls,
                    work.tally, first, last, n_agents, n_arms,
                    plays, (t - t0) * U64(arms.size),
                )  # fmt: skip
            if drifts and t > constant.uncharged:
                charge_regret(
                    recorded.charged, recorded.gaps, start, size, arms, first, last,
                    n_agents, n_arms,
                )  # fmt: skip
        if pending is not None:
            learn_arrivals(
                out if moved else now, squares, shared, constant.rates, store, constant.mass_stride,
                constant.noted, constant.floods, constant.counts_open, constant.lowest, pending,
                n_agents, n_arms, t,
            )  # fmt: skip
        if moved:
            flipped = not flipped
        if alone:
            update_sampling_modes(
                current.eager, work.close, constant.worth, t, n_agents, n_arms, n_runs
            )
            if recorded.times[column] == t:
                record_regret(
                    work.tally, recorded.pulls, recorded.gaps, recorded.charged, recorded.regret,
                    column, recorded.times.size, n_agents, n_arms, n_runs,
                )  # fmt: skip
                column += 1
    return flipped


play = kernel(_signature_of(types.none), name="play", seconds=2, **KERNEL)(_play)
play_delayed = kernel(_signature_of(PENDING_ARRAYS), name="play_delayed", seconds=3, **KERNEL)(
    _play
)
