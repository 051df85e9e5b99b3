"""RandUCB: the largest quantile at a level of the agent's own, drawn anew in every round."""

from __future__ import annotations

import math

from posse.lab.compiled.beliefs import BELIEFS, GAUSSIAN
from posse.lab.compiled.indices import largest_quantile, play_best, tie
from posse.lab.compiled.jit import FAST_KERNEL, KERNEL, kernel, use_wide_vectors, vectorised
from posse.lab.compiled.random import (
    LEVEL,
    ROOM,
    U64,
    fill_normals,
    fill_uniforms,
    pick_best,
)
from posse.lab.compiled.signatures import CHOOSE
from posse.lab.compiled.special import normal_score

_PEAK = 0.3989422804014327  # of the normal density


@vectorised
def _upper_bounds(state, row, z, scores, at, n_arms):
    """mean + |z| sd of every arm of a Gaussian belief."""
    use_wide_vectors()
    for k in range(U64(0), n_arms):
        count, total = state[row + k], state[row + n_arms + k]
        scores[at + k] = (total + z * math.sqrt(count)) / count


@kernel(CHOOSE, name="choose_rand_ucb_GAUSSIAN", **FAST_KERNEL)
def choose_rand_ucb_gaussian(
    state, store, shared, level, table, arms, pivots, eager, close, scratch, spare,
    stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """RandUCB where quantiles are a formula."""
    use_wide_vectors()
    first = lo
    while first < hi:  # one run at a time
        slot = first // n_agents
        last = min(hi, (slot + U64(1)) * n_agents)
        agent, run = first - slot * n_agents, first_run + slot
        scores = last - first + U64(ROOM)  # behind the normals
        fill_normals(scratch, U64(0), last - first, agent, t, run, LEVEL, key0, key1)
        for i in range(U64(0), last - first):
            row = (slot if shared else first + i) * U64(2) * n_arms
            _upper_bounds(state, row, abs(scratch[i]), scratch, scores, n_arms)
            arms[first + i] = pick_best(
                scratch, scores, n_arms, stream, agent + i, t, run, key0, key1
            )
        first = last


def _kernel_of(name, belief):
    """RandUCB for one kind of belief."""

    @kernel(CHOOSE, name=f"choose_rand_ucb_{name}", seconds=2, **KERNEL)
    def choose_rand_ucb(
        state, store, shared, level, table, arms, pivots, eager, close, scratch, spare,
        stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
    ):  # fmt: skip
        """The largest posterior quantile at an upper tail drawn from U(0, 1/2)."""
        first = lo
        while first < hi:  # one run at a time
            slot = first // n_agents
            last = min(hi, (slot + U64(1)) * n_agents)
            agent, run = first - slot * n_agents, first_run + slot
            n = last - first
            fill_uniforms(scratch, U64(0), n, agent, t, run, LEVEL, key0, key1)
            scores = scratch[n + U64(ROOM) :]
            for i in range(U64(0), n):
                tail = 0.5 * scratch[i]
                score = normal_score(tail)
                peak = _PEAK * math.exp(-0.5 * score * score)
                row = (slot if shared else first + i) * U64(2) * n_arms
                winner, quantile = largest_quantile(
                    belief, state, row, tail, math.log(tail), score, peak,
                    U64(pivots[first + i]), scores, n_arms,
                )  # fmt: skip
                arms[first + i] = pivots[first + i] = winner
                tied = scores[:n_arms]
                if tie(belief, state, row, tail, winner, quantile, tied, n_arms) > 1:
                    arms[first + i] = play_best(tied, stream, agent + i, t, run, key0, key1)
            first = last


for _name, _belief in BELIEFS.items():
    if _belief is not GAUSSIAN:
        _kernel_of(_name, _belief)
