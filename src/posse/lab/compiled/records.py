"""Signatures of the three roles of kernels (merge, choose, reward), and records of arrays.

The driver calls kernels through function pointers. So a family, a policy or a network is compiled
once, whatever it is combined with: compile time grows with the sum of the parts, not with their
product.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

U64 = types.uint64
WORDS = types.uint64[::1]
INDICES = types.uint32[::1]
BYTES = types.uint8[::1]
FLOATS = types.float64[::1]
COUNTS = types.int32[::1]
TALLY = types.int64[::1]

# The arm of an agent that did not play in the last round (`posse.activity`).
IDLE = np.uint32(0xFFFFFFFF)

# Arguments that every role takes: where in the network, when, and with which random numbers.
#   lo, hi       the rows (agents) of this tile; row = slot * n_agents + agent, slot = run - first
#   n_agents, n_arms
#   first_run, t, key0, key1
_WHERE = (U64,) * 8

# Merge the state of the last round: returns whether the result is in `out` (else in place).
#   out, state, offsets, neighbours, weights, links, constants, words; the last round's arms and
#   rewards, and the algorithm's store
MERGE = types.boolean(
    FLOATS, FLOATS, TALLY, TALLY, FLOATS, INDICES, FLOATS, WORDS, INDICES, FLOATS, FLOATS, *_WHERE
)

# Choose an arm for every agent from its row of the state. An agent that does not play in this round
# has the arm IDLE; a kernel need not choose for it, but replaces IDLE by an arm.
#   state, store (what an algorithm stores besides), shared (whether all agents of a run share one
#   row), level, table (constants), arms, pivots, eager, close, scratch, spare, stream
CHOOSE = types.void(
    FLOATS, FLOATS, types.boolean, types.float64, FLOATS, INDICES, INDICES, BYTES, COUNTS, FLOATS,
    INDICES, WORDS, *_WHERE,
)  # fmt: skip

# Draw a reward for every agent.
#   means (slots, arms), parameter, arms, rewards
REWARD = types.void(FLOATS, types.float64, INDICES, FLOATS, *_WHERE)

# Records of arrays that the driver takes: one named tuple for each group of arguments.
#
# Numba passes a named tuple by value, as if its fields were separate arguments, so a record costs
# nothing inside the loop. The dtypes of the fields must match the types here exactly: numba
# converts separate arguments, but not the fields of a tuple.


class NetworkArrays(NamedTuple):
    """The network as a merge kernel reads it; arrays that the kernel does not use are empty."""

    offsets: Any = np.zeros(0, np.int64)
    neighbours: Any = np.zeros(0, np.int64)
    weights: Any = np.zeros(0)
    links: Any = np.zeros(0, np.uint32)
    # the meaning of the constants depends on the kernel
    constants: Any = np.zeros(8)
    n_words: int = 8  # words of random bits for the links of a round


class BeliefArrays(NamedTuple):
    """The beliefs of a block, (rows, counts, totals and perhaps squares of the arms) flattened."""

    state: Any
    other: Any  # the second buffer, for kernels that do not merge in place
    store: Any  # what an algorithm stores besides
    prior: Any  # one row at the start, to which evidence fades
    acted: Any  # what agents act on, if they exchange other numbers; else empty


class RoundArrays(NamedTuple):
    """The arms and rewards of the running round, and how each run samples."""

    arms: Any  # (rows,) of the last round until the choice; IDLE where an agent did not play
    pivots: Any  # (rows,) leading arms, where lazy sampling starts
    rewards: Any  # (rows + ROOM,)
    eager: Any  # (runs,) sampling modes
    means: Any  # (runs or rows, arms) flattened; where means drift, all sets of these rounds
    # Where means drift: where the means of each round of this call start, then the size of a set.
    starts: Any
    # (rounds, rows) flattened: delays of rewards (`kernels.pending_rewards`); empty without any
    waits: Any


class RegretArrays(NamedTuple):
    """The pulls and the regret of a block."""

    pulls: Any  # (rows, arms) flattened
    gaps: Any  # as the means
    times: Any  # (columns,) recorded rounds
    regret: Any  # (runs, columns) flattened
    charged: Any  # (rows,) regret so far, where means drift; else empty


class ThreadWorkspace(NamedTuple):
    """The scratch arrays of one thread."""

    scratch: Any
    spare: Any
    stream: Any
    close: Any  # (runs,) arms close to the leading one in this round
    tally: Any  # (runs, arms) pulls by the agents of this thread
    words: Any  # random bits for the links of a round


class PendingArrays(NamedTuple):
    """The rewards under way of the agents of one thread; see `kernels.pending_rewards`."""

    heads: Any  # (rounds of the ring + 2,)
    entries: Any  # (entries, ENTRY_WIDTH) flattened
    rewards: Any  # (entries,)
    weights: Any  # (rounds of the ring,) of a reward by its delay


class PlayConstants(NamedTuple):
    """The numbers of a simulation that never change."""

    shared: bool  # whether all agents of a run share one row
    staged: bool  # whether observations go to the store
    unmixed: Any  # uint64: rounds without messages
    worth: Any  # uint64: vectorised draws that cost as much as one scalar draw
    rates: Any  # (agents,) added to the count by one observation of each agent
    fading: float  # the weight of evidence one round later
    uncharged: Any  # uint64: rounds whose regret is not charged, where means drift
    counts_open: bool  # whether an open pull counts as the lowest reward
    lowest: float  # that reward
    mass_stride: int  # of the masses of push-sum in the store; below 0 without masses
    noted: float  # see `kernels.pending_rewards.open_pulls`
    floods: bool  # whether the store is a log of evidence (`kernels.late_flooding`)
    n_planes: Any  # uint64: numbers of a belief about an arm: count, total, perhaps squares
    offset: float  # of the shapes of `posteriors.student`
    parameter: float  # of the rewards
    n_agents: Any  # uint64
    n_arms: Any  # uint64
    key0: Any  # uint64: the seed
    key1: Any  # uint64


NETWORK_ARRAYS = types.NamedTuple(
    (TALLY, TALLY, FLOATS, INDICES, FLOATS, types.int64), NetworkArrays
)
BELIEF_ARRAYS = types.NamedUniTuple(FLOATS, 5, BeliefArrays)
ROUND_ARRAYS = types.NamedTuple(
    (INDICES, INDICES, FLOATS, BYTES, FLOATS, TALLY, INDICES), RoundArrays
)
REGRET_ARRAYS = types.NamedTuple((COUNTS, FLOATS, TALLY, FLOATS, FLOATS), RegretArrays)
THREAD_WORKSPACE = types.NamedTuple((FLOATS, INDICES, WORDS, COUNTS, TALLY, WORDS), ThreadWorkspace)
PENDING_ARRAYS = types.NamedTuple((TALLY, TALLY, FLOATS, FLOATS), PendingArrays)
PLAY_CONSTANTS = types.NamedTuple(
    (
        types.boolean, types.boolean, U64, U64, FLOATS, types.float64, U64, types.boolean,
        types.float64, types.int64, types.float64, types.boolean, U64, types.float64,
        types.float64, U64, U64, U64, U64,
    ),
    PlayConstants,
)  # fmt: skip
