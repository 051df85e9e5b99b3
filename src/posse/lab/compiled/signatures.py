"""The three roles of kernels (merge, choose, reward) and their signatures.

The driver calls kernels through function pointers. So a family, a policy or a network is compiled
once, whatever it is combined with: compile time grows with the sum of the parts, not with their
product.
"""

from __future__ import annotations

from numba import types

U64 = types.uint64
WORDS = types.uint64[::1]
INDICES = types.uint32[::1]
BYTES = types.uint8[::1]
FLOATS = types.float64[::1]
COUNTS = types.int32[::1]
TALLY = types.int64[::1]

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

# Choose an arm for every agent from its row of the state.
#   state, store (what an algorithm stores besides), shared (whether all agents of a run share one
#   row), level, table (constants), arms, pivots, eager, close, scratch, spare, stream
CHOOSE = types.void(
    FLOATS, FLOATS, types.boolean, types.float64, FLOATS, INDICES, INDICES, BYTES, COUNTS, FLOATS,
    INDICES, WORDS, *_WHERE,
)  # fmt: skip

# Draw a reward for every agent.
#   means (slots, arms), parameter, arms, rewards
REWARD = types.void(FLOATS, types.float64, INDICES, FLOATS, *_WHERE)
