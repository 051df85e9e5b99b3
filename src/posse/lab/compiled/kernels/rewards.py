"""Reward kernels: one variate per run, agent and round, whatever the arm (common random numbers).

A reward is the quantile of its arm's law at that variate.
"""

from __future__ import annotations

import math

import numpy as np

from posse.lab.compiled.jit import FAST_KERNEL, helper, kernel
from posse.lab.compiled.numerics.quantiles import upper_quantile
from posse.lab.compiled.numerics.special import gamma_tails, normal_score
from posse.lab.compiled.philox import REWARD as PURPOSE
from posse.lab.compiled.philox import U64, fill_normals, fill_uniforms
from posse.lab.compiled.posteriors import BETA
from posse.lab.compiled.records import REWARD


@helper
def _per_agent(means, arms, n_arms):
    """Whether there are means for every agent, (rows, arms), or for every run, (runs, arms)."""
    return U64(means.size) == U64(arms.size) * n_arms


@helper
def _fill_levels(rewards, lo, hi, n_agents, first_run, t, key0, key1):
    """Write a uniform for every agent of the tile in the place of its reward."""
    row = lo
    while row < hi:
        slot = row // n_agents
        end = min(hi, (slot + U64(1)) * n_agents)
        first_agent = row - slot * n_agents
        fill_uniforms(
            rewards, row, end - row, first_agent, t, first_run + slot, PURPOSE, key0, key1
        )
        row = end


@helper
def poisson_quantile(mean, u):
    """Return the smallest k with P(K <= k) >= u: from a normal guess, then step by step."""
    if mean > 1e9:  # the Cornish-Fisher quantile is as good as any there
        score = -normal_score(u)
        return np.rint(mean + math.sqrt(mean) * score + (score * score - 1.0) / 6.0)
    k = 0.0
    # start near the quantile; from 0 the walk would be long
    if mean > 30.0:
        k = math.floor(max(0.0, mean - normal_score(u) * math.sqrt(mean)))
        below = gamma_tails(k + 1.0, mean)[1]  # P(K <= k) = P(Gamma(k + 1) > mean)
    else:
        below = math.exp(-mean)
    weight = math.exp(k * math.log(mean) - mean - math.lgamma(k + 1.0))
    if below >= u:
        while k > 0.0 and below - weight >= u:
            below -= weight
            weight *= k / mean
            k -= 1.0
        return k
    while below < u:
        k += 1.0
        weight *= mean / k
        if weight < 1e-17 * u:  # u is beyond what the sum can reach in floats
            return k
        below += weight
    return k


@helper
def beta_quantile(a, b, u):
    """The x with P(Beta(a, b) <= x) = u, from the nearer tail."""
    if u < 0.5:
        return 1.0 - upper_quantile(BETA, a + b, b, u, b / (a + b))
    return upper_quantile(BETA, a + b, a, 1.0 - u, a / (a + b))


@kernel(REWARD, **FAST_KERNEL)
def draw_gaussian(
    means, parameter, arms, rewards, lo, hi, n_agents, n_arms, first_run, t, key0, key1
):
    """mean + sigma z; the parameter is sigma."""
    wide = _per_agent(means, arms, n_arms)
    row = lo
    while row < hi:
        slot = row // n_agents
        end = min(hi, (slot + U64(1)) * n_agents)
        first_agent = row - slot * n_agents
        fill_normals(rewards, row, end - row, first_agent, t, first_run + slot, PURPOSE, key0, key1)
        for i in range(row, end):
            first = (i if wide else slot) * n_arms
            rewards[i] = means[first + U64(arms[i])] + parameter * rewards[i]
        row = end


@kernel(REWARD, **FAST_KERNEL)
def draw_bernoulli(
    means, parameter, arms, rewards, lo, hi, n_agents, n_arms, first_run, t, key0, key1
):
    """1 with probability mean, else 0."""
    wide = _per_agent(means, arms, n_arms)
    _fill_levels(rewards, lo, hi, n_agents, first_run, t, key0, key1)
    for slot in range(lo // n_agents, (hi - U64(1)) // n_agents + U64(1)):
        start = max(lo, slot * n_agents)
        end = min(hi, (slot + U64(1)) * n_agents)
        for i in range(start, end):
            mean = means[(i if wide else slot) * n_arms + U64(arms[i])]
            rewards[i] = 1.0 if rewards[i] < mean else 0.0


@kernel(REWARD, **FAST_KERNEL)
def draw_exponential(
    means, parameter, arms, rewards, lo, hi, n_agents, n_arms, first_run, t, key0, key1
):
    """Draw -mean log(1 - u)."""
    wide = _per_agent(means, arms, n_arms)
    _fill_levels(rewards, lo, hi, n_agents, first_run, t, key0, key1)
    for slot in range(lo // n_agents, (hi - U64(1)) // n_agents + U64(1)):
        start = max(lo, slot * n_agents)
        end = min(hi, (slot + U64(1)) * n_agents)
        for i in range(start, end):
            mean = means[(i if wide else slot) * n_arms + U64(arms[i])]
            rewards[i] = -mean * math.log1p(-rewards[i])


@kernel(REWARD, **FAST_KERNEL)
def draw_poisson(
    means, parameter, arms, rewards, lo, hi, n_agents, n_arms, first_run, t, key0, key1
):
    """Draw the smallest count whose distribution function reaches u."""
    wide = _per_agent(means, arms, n_arms)
    _fill_levels(rewards, lo, hi, n_agents, first_run, t, key0, key1)
    for slot in range(lo // n_agents, (hi - U64(1)) // n_agents + U64(1)):
        start = max(lo, slot * n_agents)
        end = min(hi, (slot + U64(1)) * n_agents)
        for i in range(start, end):
            mean = means[(i if wide else slot) * n_arms + U64(arms[i])]
            rewards[i] = poisson_quantile(mean, rewards[i])


@kernel(REWARD, **FAST_KERNEL)
def draw_bounded(
    means, parameter, arms, rewards, lo, hi, n_agents, n_arms, first_run, t, key0, key1
):
    """Draw the Beta(c m, c (1 - m)) quantile at u; the parameter is c."""
    wide = _per_agent(means, arms, n_arms)
    _fill_levels(rewards, lo, hi, n_agents, first_run, t, key0, key1)
    for slot in range(lo // n_agents, (hi - U64(1)) // n_agents + U64(1)):
        start = max(lo, slot * n_agents)
        end = min(hi, (slot + U64(1)) * n_agents)
        for i in range(start, end):
            mean = means[(i if wide else slot) * n_arms + U64(arms[i])]
            rewards[i] = beta_quantile(parameter * mean, parameter * (1.0 - mean), rewards[i])
