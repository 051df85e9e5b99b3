"""Index policies: Bayes-UCB and Greedy, the arm with the largest index, ties broken at random."""

from __future__ import annotations

import math

from numba import njit

from posse.lab.compiled.beliefs import (
    BETA,
    GAUSSIAN,
    INVERSE_GAMMA,
    spread,
    start,
    tail,
    tail_bound,
    upper_quantile,
)
from posse.lab.compiled.jit import KERNEL, helper
from posse.lab.compiled.random import TIE, U64, open_stream, pick_tied
from posse.lab.compiled.signatures import CHOOSE
from posse.lab.compiled.special import normal_score

# Grunbaum's inequality: a log-concave law has at least 1/e of its mass on each side of its mean.
_MEAN_IS_BELOW = 0.36


@helper
def play_best(scores, stream, agent, t, run, key0, key1):
    """The arm with the largest score."""
    arm, best, n_tied = U64(0), scores[0], 1
    for k in range(1, scores.size):
        if scores[k] > best:
            arm, best, n_tied = U64(k), scores[k], 1
        elif scores[k] == best:
            n_tied += 1
    if n_tied > 1:
        open_stream(stream, agent, t, run, TIE, key0, key1)
        return pick_tied(scores, best, n_tied, stream)
    return arm


@njit(CHOOSE, **KERNEL)
def choose_nothing(
    state, store, shared, belief, level, table, arms, pivots, eager, close, scratch, spare,
    stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """For policies without an eager kernel."""


@njit(CHOOSE, **KERNEL)
def choose_greedy(
    state, store, shared, belief, level, table, arms, pivots, eager, close, scratch, spare,
    stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """The largest posterior mean."""
    scores = scratch[:n_arms]
    for i in range(lo, hi):
        slot = i // n_agents
        row = (slot if shared else i) * U64(2) * n_arms
        for k in range(U64(0), n_arms):
            count, total = state[row + k], state[row + n_arms + k]
            scores[k] = total / (count - 1.0 if belief == INVERSE_GAMMA else count)
        agent, run = i - slot * n_agents, first_run + slot
        arms[i] = play_best(scores, stream, agent, t, run, key0, key1)


@helper
def _largest_quantile(state, row, belief, level, score, pivot, n_arms):
    """The arm with the largest quantile, computing as few quantiles as possible.

    An arm k cannot win if P(mean_k > q) < level for some q below the winner's quantile; that
    probability is bounded cheaply.  First with q = the pivot's total/count: for log-concave
    posteriors and level < 1/e it lies below the pivot's quantile.  Where that leaves other arms,
    with q = the pivot's quantile itself, then the largest so far.
    """
    count, total = state[row + pivot], state[row + n_arms + pivot]
    log_level = math.log(level)
    failures = count - total if belief == BETA else 1.0
    log_concave = (total >= 1.0 or belief == INVERSE_GAMMA) and failures >= 1.0
    if level < _MEAN_IS_BELOW and log_concave:
        x = total / count
        threshold = -2.0 * log_level * spread(belief, x)
        close = 0
        for k in range(U64(0), n_arms):
            d = x * state[row + k] - state[row + n_arms + k]
            close += (d * abs(d) <= threshold * state[row + k]) & (k != pivot)
        if close == 0:
            return pivot
    winner = pivot
    quantile = upper_quantile(belief, count, total, level, start(belief, count, total, score))
    for k in range(U64(0), n_arms):
        if k != pivot:
            count, total = state[row + k], state[row + n_arms + k]
            d = quantile * count - total
            if d > 0.0:
                if d * d > -2.0 * log_level * spread(belief, quantile) * count:
                    continue
                if tail_bound(belief, count, total, quantile) < level:
                    continue
            if tail(belief, count, total, quantile) > level:
                winner = k
                near = max(quantile, start(belief, count, total, score))
                quantile = upper_quantile(belief, count, total, level, near)
    return winner


@njit(CHOOSE, **KERNEL)
def choose_bayes_ucb(
    state, store, shared, belief, level, table, arms, pivots, eager, close, scratch, spare,
    stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """The largest posterior quantile (Alg. `decent_bayesUCB`); `level` is the upper tail 1/t ..."""
    scores = scratch[:n_arms]
    score = 0.0 if level >= 1.0 else normal_score(level)
    for i in range(lo, hi):
        slot = i // n_agents
        row = (slot if shared else i) * U64(2) * n_arms
        agent, run = i - slot * n_agents, first_run + slot
        if level >= 1.0:  # every index is the lower end of the range
            for k in range(U64(0), n_arms):
                scores[k] = 0.0
            arms[i] = play_best(scores, stream, agent, t, run, key0, key1)
        elif belief == GAUSSIAN:
            for k in range(U64(0), n_arms):
                count, total = state[row + k], state[row + n_arms + k]
                scores[k] = total / count + score / math.sqrt(count)
            arms[i] = play_best(scores, stream, agent, t, run, key0, key1)
        else:
            arms[i] = _largest_quantile(state, row, belief, level, score, U64(pivots[i]), n_arms)
            n_tied = 0  # arms of equal belief tie exactly; the noise of a solver must not decide
            for k in range(U64(0), n_arms):
                same = (
                    state[row + k] == state[row + U64(arms[i])]
                    and state[row + n_arms + k] == state[row + n_arms + U64(arms[i])]
                )
                scores[k] = 1.0 if same else 0.0
                n_tied += same
            pivots[i] = arms[i]
            if n_tied > 1:
                open_stream(stream, agent, t, run, TIE, key0, key1)
                arms[i] = pick_tied(scores, 1.0, n_tied, stream)
