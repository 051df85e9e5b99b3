"""Regret of the rivals and of Posse's own, beside what other implementations gave."""

from __future__ import annotations

import math
import os

import numpy as np

import posse
from posse import networks
from posse.algorithms import Problem

SEED = 17
HORIZON = 2000
FOUR = [0.8, 0.6, 0.5, 0.4]
TEN = np.linspace(0.9, 0.1, 10)
# Who, where, which arms, rounds; authors' code and a second implementation, with standard errors
CHECKS = {
    "DPE2": (posse.DPE2(), networks.path(6), FOUR, 1500, (21.6, 3.1), (18.0, 0.6)),
    "Dist-UCB1, forced pulls free": (
        posse.DistUCB(charge_initial=False), networks.cycle(6), FOUR, 400, (27.9, 1.4), (27.5, 0.3),
    ),
    "GosInE": (posse.GosInE(), networks.complete(6), TEN, 512, None, (62.5, 1.2)),
    "GosInE, arms in this order": (
        posse.GosInE(), networks.complete(6), TEN, 512, (57.6, 0.8), (57.2, 0.5),
    ),
}  # fmt: skip

BANDIT = posse.Bandit.gaussian([0.5] + [0.1] * 16)
WHERE = {"cycle 36": networks.cycle(36), "star 36": networks.star(36)}
TS = posse.ThompsonSampling()
UCB = posse.BayesUCB()
# An independent implementation's regret on both, 100 runs; its standard error where it is known
KNOWN = {
    "centralized TS": (posse.Centralized(TS), (14.2, None), (14.2, None)),
    "flooding TS": (posse.Flooding(TS), (14.7, None), (14.4, None)),
    "dec-TS": (posse.Decentralized(TS), (14.9, None), (18.8, None)),
    "dec-Bayes-UCB": (posse.Decentralized(UCB), (12.1, 0.2), (16.9, 0.3)),
    "isolated TS": (posse.Isolated(TS), (270.0, None), (270.0, None)),
    "coop-UCL": (posse.CoopUCL(), (25.5, None), (26.7, None)),
    "coop-UCB2": (posse.CoopUCB2(), (27.9, None), (29.4, None)),
    "DDUCB": (posse.DDUCB(), (540.0, None), (392.0, None)),
    "CO-UCB, flooding (KL)": (posse.UCBNetwork("diameter", index="kl"), (20.5, 0.3), (20.2, 0.2)),
    "Follow Your Leader (KL)": (posse.FollowYourLeader(index="kl"), (160.8, 0.7), (21.2, 0.3)),
    "Coop-SE (c = 0.5)": (posse.CoopSE(index="gaussian"), (76.9, 1.7), (68.6, 1.7)),
    "Dist-KL-UCB": (posse.DistUCB(index="kl"), (351.0, None), (55.7, None)),
    "Dist-UCB1": (posse.DistUCB(), (533.0, None), (101.0, None)),
    "ComEx (KL)": (posse.ComEx(index="kl"), (186.0, None), (344.0, None)),
    "UCB-Network (KL)": (posse.UCBNetwork(index="kl"), (212.0, None), (399.0, None)),
    "DPE2": (posse.DPE2(), (202.0, 13.0), (199.0, 13.0)),
    "GosInE (KL)": (posse.GosInE(index="kl"), (389.0, 7.0), (354.0, 30.0)),
}
MARKS = {
    "code": "read in code",
    "abstract": "abstract read, the rest from memory",
    "memory": "from memory",
}


def in_order(algorithm, network, means, horizon, runs):
    """Regret of runs whose arms are not shuffled: (R,)."""
    generator = np.random.default_rng(SEED)
    means = np.asarray(means)
    family = posse.families.Bernoulli()
    state = algorithm.init(Problem(network.n_agents, len(means), horizon, family, network, runs))
    regret = np.zeros(runs)
    for t in range(1, horizon + 1):
        state = algorithm.prepare(state, t, generator)
        arms = algorithm.choose(state, t, generator)
        regret += (means.max() - means[arms]).mean(axis=1)
        state = algorithm.learn(state, arms, family.draw_rewards(means[arms], generator), None)
    return regret


def format_number(value, error=None):
    """A number and its standard error, to the digits that mean something."""
    digits = 0 if value >= 300 else 1
    return f"{value:.{digits}f}" + ("" if error is None else f" ± {error:.{max(digits, 1)}f}")


def off(who, mean, error, known, of_memory):
    """A sentence where a regret is further from a known one than 3 standard errors."""
    theirs, its_error = known
    allowed = 3 * math.hypot(error, error if its_error is None else its_error)
    allowed += 0.03 * theirs if of_memory else 0.0
    far = abs(mean - theirs) > allowed
    return [f"{who}: {mean:.1f} against {theirs:g}, {allowed:.1f} allowed"] if far else []


def checks(runs):
    """The table of small problems, and what is too far off."""
    lines = [f"| {runs} runs | here | authors' code | second implementation |", "|---|---|---|---|"]
    wrong = []
    for who, (algorithm, network, means, horizon, authors, second) in CHECKS.items():
        if who.endswith("order"):
            regret = in_order(algorithm, network, means, horizon, runs)
        else:
            regret = posse.simulate(
                posse.Bandit.bernoulli(means), network, algorithm, horizon=horizon, runs=runs,
                seed=SEED, record=1, threads=os.cpu_count(),
            ).regret[:, -1]  # fmt: skip
        mean = regret.mean()
        error = regret.std(ddof=1) / math.sqrt(runs)
        cells = [
            format_number(mean, error),
            format_number(*authors) if authors else "",
            format_number(*second),
        ]
        lines.append(f"| {who}, {network.graph} {network.n_agents} | {' | '.join(cells)} |")
        for known in (authors, second):
            wrong += off(who, mean, error, known, False) if known else []
    return lines, wrong


def study(runs=100):
    """Both tables of docs/rivals.md; the page promises that known values hold."""
    lines, wrong = checks(4 * runs)
    heads = [f"{where} | known | numbers sent" for where in WHERE]
    lines += ["", f"| regret, {runs} runs | {' | '.join(heads)} | constants |", "|---" * 8 + "|"]
    for who, (algorithm, *known) in KNOWN.items():
        source = getattr(algorithm, "source", None)
        row = []
        for (where, network), theirs in zip(WHERE.items(), known, strict=True):
            result = posse.simulate(
                BANDIT, network, algorithm, horizon=HORIZON, runs=runs, seed=SEED, record=1,
                keep="messages", threads=os.cpu_count(),
            )  # fmt: skip
            regret = result.regret[:, -1]
            mean = regret.mean()
            error = regret.std(ddof=1) / math.sqrt(runs)
            sent = result.numbers_sent[:, -1].mean() / HORIZON
            row += [
                format_number(mean, error),
                format_number(*theirs),
                f"{sent:.2g}" if sent < 1 else f"{sent:.0f}",
            ]
            wrong += off(f"{who}, {where}", mean, error, theirs, source in ("abstract", "memory"))
        lines.append(f"| {who} | {' | '.join(row)} | {MARKS.get(source, '')} |")
    return "\n".join(lines), wrong
