"""Kernels of RandUCB: the largest quantile at a level drawn for each agent and round."""

from __future__ import annotations

import math

from posse.lab.compiled.jit import FAST_KERNEL, KERNEL, helper, kernel, use_wide_vectors, vectorised
from posse.lab.compiled.kernels.indices import find_play_of
from posse.lab.compiled.numerics.special import normal_score
from posse.lab.compiled.philox import (
    LEVEL,
    ROOM,
    U64,
    fill_normals,
    fill_uniforms,
    next_uniform,
    open_stream,
    pick_best,
)
from posse.lab.compiled.posteriors import GAUSSIAN, POSTERIORS
from posse.lab.compiled.records import CHOOSE, IDLE

_PEAK = 0.3989422804014327  # of the normal density


@helper
def draws_sample(share, stream, agent, t, run, key0, key1):
    """Whether an agent samples in this round; the stream is then open for it."""
    if share == 0.0:
        return False
    open_stream(stream, agent, t, run, LEVEL + U64(16), key0, key1)
    return next_uniform(stream) < share


@helper
def best_sample(posterior, state, row, stream, n_arms):
    """Return the arm of the largest posterior sample: Thompson Sampling, arm by arm."""
    best = posterior.sample(*posterior.read(state, row, n_arms), stream)
    arm = U64(0)
    n_tied = 1.0
    for k in range(U64(1), n_arms):
        x = posterior.sample(*posterior.read(state, row + k, n_arms), stream)
        if x > best:
            best = x
            arm = k
            n_tied = 1.0
        elif x == best:  # at the end of the range: ties are broken at random
            n_tied += 1.0
            if next_uniform(stream) * n_tied < 1.0:
                arm = k
    return arm


@vectorised
def _upper_bounds(state, row, z, scores, at, n_arms):
    """Compute mean + |z| sd of every arm of a Gaussian posterior."""
    use_wide_vectors()
    for k in range(U64(0), n_arms):
        count = state[row + k]
        total = state[row + n_arms + k]
        scores[at + k] = (total + z * math.sqrt(count)) / count


@kernel(CHOOSE, name="choose_rand_ucb_GAUSSIAN", **FAST_KERNEL)
def choose_rand_ucb_gaussian(
    state, store, shared, level, table, arms, pivots, eager, close, scratch, spare,
    stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Choose by RandUCB with Gaussian quantiles; `level`: the share of rounds with a sample.

    table: the width.
    """
    use_wide_vectors()
    first = lo
    while first < hi:  # one run at a time
        slot = first // n_agents
        last = min(hi, (slot + U64(1)) * n_agents)
        agent = first - slot * n_agents
        run = first_run + slot
        scores = last - first + U64(ROOM)  # behind the normals
        fill_normals(scratch, U64(0), last - first, agent, t, run, LEVEL, key0, key1)
        for i in range(U64(0), last - first):
            if arms[first + i] == IDLE:
                arms[first + i] = 0
                continue
            row = (slot if shared else first + i) * U64(2) * n_arms
            if draws_sample(level, stream, agent + i, t, run, key0, key1):
                arms[first + i] = best_sample(GAUSSIAN, state, row, stream, n_arms)
                continue
            _upper_bounds(state, row, table[0] * abs(scratch[i]), scratch, scores, n_arms)
            arms[first + i] = pick_best(
                scratch, scores, n_arms, stream, agent + i, t, run, key0, key1
            )
        first = last


def _kernel_of(name, posterior):
    """Declare the RandUCB kernel of one posterior."""
    play_quantile = find_play_of(posterior)

    @kernel(CHOOSE, name=f"choose_rand_ucb_{name}", seconds=2, **KERNEL)
    def choose_rand_ucb(
        state, store, shared, level, table, arms, pivots, eager, close, scratch, spare,
        stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
    ):  # fmt: skip
        """Choose the largest posterior quantile at an upper tail drawn from U(0, 1/2).

        level: the share of rounds with a posterior sample instead; table: the width.
        """
        first = lo
        while first < hi:  # one run at a time
            slot = first // n_agents
            last = min(hi, (slot + U64(1)) * n_agents)
            agent = first - slot * n_agents
            run = first_run + slot
            n = last - first
            fill_uniforms(scratch, U64(0), n, agent, t, run, LEVEL, key0, key1)
            scores = scratch[n + U64(ROOM) :]
            for i in range(U64(0), n):
                if arms[first + i] == IDLE:
                    arms[first + i] = 0
                    continue
                tail = 0.5 * scratch[i]
                score = normal_score(tail)
                # a width other than 1 stretches the score, and so changes the tail
                if table[0] != 1.0:
                    score *= table[0]
                    tail = 0.5 * math.erfc(score * math.sqrt(0.5))
                peak = _PEAK * math.exp(-0.5 * score * score)
                row = (slot if shared else first + i) * U64(posterior.n_planes) * n_arms
                if draws_sample(level, stream, agent + i, t, run, key0, key1):
                    arms[first + i] = best_sample(posterior, state, row, stream, n_arms)
                    continue
                arms[first + i], pivots[first + i] = play_quantile(
                    posterior, state, row, tail, math.log(tail), score, peak,
                    U64(pivots[first + i]), scores, stream, n_arms, agent + i, t, run, key0, key1,
                )  # fmt: skip
            first = last


for _name, _posterior in POSTERIORS.items():
    if _posterior is not GAUSSIAN:
        _kernel_of(_name, _posterior)
