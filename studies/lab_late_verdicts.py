"""Verdicts of agents on a ring, who hear of each other one hop a round: who is wrong, and when.

Every agent plays and judges by its own view, which is causally closed: what is k hops away is known
k rounds late. The screen and the verdicts are those of `lab_false_winners`.
"""

from __future__ import annotations

import math

import lab_false_winners as screen
import numpy as np
from numba import njit

import posse

SEED = 12
AGENTS = 16
MOST = 20_000  # views kept of a run


@njit
def play(kind, means, rounds, needed, rng, who, when, pulls, sums):
    """TopTwo on a ring; views at which a verdict is to be asked for are kept: how many."""
    n_arms = len(means)
    n_views = 0
    n = np.zeros((rounds + 1, AGENTS, n_arms))
    total = np.zeros((rounds + 1, AGENTS, n_arms))
    for t in range(rounds):
        n[t + 1], total[t + 1] = n[t], total[t]
        for i in range(AGENTS):
            counts = np.zeros(n_arms)
            totals = np.zeros(n_arms)
            for j in range(AGENTS):
                hops = min((i - j) % AGENTS, (j - i) % AGENTS)
                counts += n[max(t - hops, 0), j]
                totals += total[max(t - hops, 0), j]
            if n_views < MOST and screen.may_win(kind, counts, totals, n_arms, needed):
                who[n_views] = i
                when[n_views] = t
                pulls[n_views] = counts
                sums[n_views] = totals
                n_views += 1
            arm = screen._choose(kind, 0.5, counts, totals, n_arms, rng)
            n[t + 1, i, arm] += 1.0
            total[t + 1, i, arm] += screen._reward(kind, means[arm], rng)
    return n_views


def first_winners(kind, means, rounds, seed):
    """Of every agent that names a winner: the round, and which arm."""
    family = screen.FAMILIES[kind]
    means = np.array(means)
    needed = math.log((len(means) - 1) / screen.ERROR)
    agents = np.zeros(MOST, np.int64)
    when = np.zeros(MOST, np.int64)
    pulls = np.zeros((MOST, len(means)))
    sums = np.zeros((MOST, len(means)))
    rng = np.random.default_rng(seed)
    n_views = play(kind, means, rounds, needed - 1e-6, rng, agents, when, pulls, sums)
    failure, success = family.statistic(np.array([0.0, 1.0])).T
    winners = {}
    for k in range(n_views):
        if agents[k] not in winners:
            belief = family.prior()[:, None] + np.outer(failure, pulls[k])
            verdict = posse.verdict(
                family, belief + np.outer(success - failure, sums[k]), screen.ERROR
            )
            if verdict.verdict == "winner":
                winners[int(agents[k])] = int(when[k]), verdict.arm
    return winners


def study(runs=1000):
    """The table of docs/stopping.md, and what in it breaks a promise."""
    wrong = []
    lines = [
        f"| {AGENTS} agents on a ring, {runs} runs of 10,000 pulls in all | one named agent | "
        "upper 95% bound | any of them |",
        "|---|---|---|---|",
    ]
    for name in ("Gaussian, 2 x 0.3", "Bernoulli, 2 x 3%"):
        found = [first_winners(*screen.EQUAL[name], 625, SEED + run) for run in range(runs)]
        one = sum(0 in each for each in found)
        any_ = sum(map(bool, found))
        bound = screen.upper_bound(one, runs)
        lines.append(
            f"| {name}: false winners | {one} ({one / runs:.1%}) | {bound:.1%} | "
            f"{any_} ({any_ / runs:.1%}) |"
        )
        if bound > screen.ERROR:
            wrong.append(f"{name}: up to {bound:.1%} false winners by one agent")
    few = max(2, runs // 5)
    kind, means, _ = screen.SOON["Gaussian .5 .2 .1 .1 .1"]
    found = [first_winners(kind, means, 300, SEED + run) for run in range(few)]
    times = np.array([sorted(t for t, _ in each.values()) for each in found if len(each) == AGENTS])
    named = [each[0][0] for each in found if 0 in each]
    alone = np.median(screen.experiments(kind, 0.5, means, 100_000, few)[1])
    numbers = [
        AGENTS * x for x in (np.median(times[:, 0]), np.median(named), np.median(times[:, -1]))
    ]
    lines += [
        "",
        f"Gaussian .5 .2 .1 .1 .1, {few} runs: the first agent names the winner after "
        f"{numbers[0]:,.0f} pulls in all (median), a named one after {numbers[1]:,.0f}, the last "
        f"after {numbers[2]:,.0f}; one agent with all pulls after {alone:,.0f}.",
    ]
    return "\n".join(lines), wrong
