"""Kernels of Bayes-UCB and Greedy (the largest index, ties at random) and of Uniform."""

from __future__ import annotations

import math

from posse.lab.compiled.jit import KERNEL, kernel
from posse.lab.compiled.kernels.largest_quantile import play_largest_quantile
from posse.lab.compiled.kernels.student_quantile import play_student_quantile
from posse.lab.compiled.kernels.ties import play_any, play_best
from posse.lab.compiled.numerics.special import normal_score
from posse.lab.compiled.philox import U64
from posse.lab.compiled.posteriors import GAUSSIAN, POSTERIORS, STUDENT
from posse.lab.compiled.records import CHOOSE, IDLE


@kernel(CHOOSE, **KERNEL)
def choose_nothing(
    state, store, shared, level, table, arms, pivots, eager, close, scratch, spare,
    stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Do nothing, for policies without an eager kernel."""


def find_play_of(posterior):
    """Return the function that plays the largest quantile of a posterior."""
    return play_student_quantile if posterior is STUDENT else play_largest_quantile


def _greedy_kernel_of(name, posterior):
    """Declare the Greedy kernel of one posterior."""

    @kernel(CHOOSE, name=f"choose_greedy_{name}", **KERNEL)
    def choose_greedy(
        state, store, shared, level, table, arms, pivots, eager, close, scratch, spare,
        stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
    ):  # fmt: skip
        """Choose the largest posterior mean."""
        scores = scratch[:n_arms]
        for i in range(lo, hi):
            if arms[i] == IDLE:
                arms[i] = 0
                continue
            slot = i // n_agents
            row = (slot if shared else i) * U64(posterior.n_planes) * n_arms
            for k in range(U64(0), n_arms):
                scores[k] = posterior.mean(*posterior.read(state, row + k, n_arms))
            agent = i - slot * n_agents
            run = first_run + slot
            arms[i] = play_best(scores, stream, agent, t, run, key0, key1)


@kernel(CHOOSE, name="choose_uniform", **KERNEL)
def choose_uniform(
    state, store, shared, level, table, arms, pivots, eager, close, scratch, spare,
    stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Choose any arm, whatever the belief."""
    scores = scratch[:n_arms]
    for i in range(lo, hi):
        slot = i // n_agents
        agent = i - slot * n_agents
        arms[i] = play_any(scores, stream, agent, t, first_run + slot, key0, key1)


def _bayes_ucb_kernel_of(name, posterior):
    """Declare the Bayes-UCB kernel of one posterior."""
    play_quantile = find_play_of(posterior)

    @kernel(CHOOSE, name=f"choose_bayes_ucb_{name}", seconds=2, **KERNEL)
    def choose_bayes_ucb(
        state, store, shared, level, table, arms, pivots, eager, close, scratch, spare,
        stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
    ):  # fmt: skip
        """Choose the largest posterior quantile (Alg. `decent_bayesUCB`); level: the tail 1/t."""
        at_end = level <= 0.0 or level >= 1.0
        score = 0.0 if at_end else normal_score(level)
        log_level = 0.0 if at_end else math.log(level)
        peak = 0.3989422804014327 * math.exp(-0.5 * score * score)  # the normal density there
        for i in range(lo, hi):
            if arms[i] == IDLE:
                arms[i] = 0
                continue
            slot = i // n_agents
            row = (slot if shared else i) * U64(posterior.n_planes) * n_arms
            agent = i - slot * n_agents
            run = first_run + slot
            if at_end:
                arms[i] = play_any(scratch[:n_arms], stream, agent, t, run, key0, key1)
                continue
            arms[i], pivots[i] = play_quantile(
                posterior, state, row, level, log_level, score, peak, U64(pivots[i]), scratch,
                stream, n_arms, agent, t, run, key0, key1,
            )  # fmt: skip


@kernel(CHOOSE, name="choose_bayes_ucb_GAUSSIAN", **KERNEL)
def choose_bayes_ucb_gaussian(
    state, store, shared, level, table, arms, pivots, eager, close, scratch, spare,
    stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Choose by Bayes-UCB with Gaussian quantiles, which have a closed form."""
    scores = scratch[:n_arms]
    at_end = level <= 0.0 or level >= 1.0
    score = 0.0 if at_end else normal_score(level)
    for i in range(lo, hi):
        if arms[i] == IDLE:
            arms[i] = 0
            continue
        slot = i // n_agents
        row = (slot if shared else i) * U64(2) * n_arms
        agent = i - slot * n_agents
        run = first_run + slot
        if at_end:
            arms[i] = play_any(scores, stream, agent, t, run, key0, key1)
            continue
        for k in range(U64(0), n_arms):
            count = state[row + k]
            total = state[row + n_arms + k]
            scores[k] = total / count + score / math.sqrt(count)
        arms[i] = play_best(scores, stream, agent, t, run, key0, key1)


for _name, _posterior in POSTERIORS.items():
    _greedy_kernel_of(_name, _posterior)
    if _posterior is not GAUSSIAN:
        _bayes_ucb_kernel_of(_name, _posterior)
