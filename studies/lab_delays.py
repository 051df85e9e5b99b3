"""Regret where rewards come late: open pulls that count as failures, or that wait."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import numpy as np

import posse
from posse.lab.simulation import draw_arm_orders

SEED = 13
TS = posse.ThompsonSampling()
# bandit, rounds, horizon: the mean delay, or the window
WORLDS = {
    "rare": (posse.Bandit.bernoulli([0.05, 0.04, 0.03, 0.02]), 200, 2000),
    "moderate": (posse.Bandit.bernoulli([0.7, 0.6, 0.5, 0.4, 0.3]), 100, 1000),
}
ONE = posse.networks.complete(1)
CYCLE = posse.networks.cycle(16)
WHO = {
    "one agent": (posse.Isolated, ONE),
    "16, Algorithm 1": (posse.Decentralized, CYCLE),
    "16, origins": (posse.Centralized, CYCLE),
}
# the last arm is the new one
NEW = (0.03, 0.04, 0.01)
WINDOW = 300
SETTLED_PULLS = 3000


@dataclass(frozen=True)
class UpTo:
    """Delays from 0 to so many rounds, all alike."""

    longest: int

    def __call__(self, generator, size):
        """Rounds, (R, N)."""
        return np.floor((self.longest + 1) * generator.random(size))


@dataclass(frozen=True)
class Fixed:
    """A delay of so many rounds."""

    rounds: int

    def __call__(self, generator, size):
        """Rounds, (R, N)."""
        return np.full(size, self.rounds)


def delays(reports, rounds):
    """When rewards are heard if open pulls count, and if they wait.

    Where successes only are reported, a failure that counts from the start needs no report; who
    waits knows of either when the window closes.
    """
    if reports == "all":
        mean = posse.bandits.GeometricDelay(rounds)
        return mean, mean
    return UpTo(rounds // 2), Fixed(rounds)


@dataclass(frozen=True)
class Settled(posse.Isolated):
    """Isolated agents that know all arms but the last from many pulls, which paid their means.

    orders: the caller's arms as they are played, for each run.
    """

    orders: tuple[tuple[int, ...], ...] = field(default=(), kw_only=True)

    def init(self, problem):
        """The prior, and what is settled."""
        start = super().init(problem)
        means = np.array(NEW)[np.array(self.orders)]  # (R, K)
        pulls = np.where(means == NEW[-1], 0, SETTLED_PULLS)
        evidence = np.stack([pulls * means, pulls * (1 - means)])  # (2, R, K)
        return start.with_belief(start.belief + evidence[:, :, None, :])


def simulate(bandit, network, algorithm, horizon, runs):
    """A result, with beliefs at the end."""
    return posse.simulate(
        bandit, network, algorithm, horizon=horizon, runs=runs, seed=SEED, record=[horizon],
        keep=("beliefs",), threads=os.cpu_count(),
    )  # fmt: skip


def regret(values):
    """Mean and standard error over runs, and the worst of them."""
    error = values.std(ddof=1) / len(values) ** 0.5
    return f"{values.mean():.1f} ± {error:.1f} ({values.max():.0f})"


def coverage(bandit, result):
    """The share of 95% intervals of what is acted on that hold the mean at the end."""
    belief = np.moveaxis(result.beliefs[:, -1], 1, 0)  # (D, R, N, K)
    low, high = (bandit.family.mean_quantile(belief, level) for level in (0.025, 0.975))
    return f"{((low <= bandit.means) & (bandit.means <= high)).mean():.2f}"


def new_arm(reports, runs):
    """The share of visits that a new arm gets in its first window, (R,), by what is open."""
    bandit = posse.Bandit.bernoulli(NEW)
    orders = tuple(map(tuple, draw_arm_orders(SEED, range(runs), len(NEW)).tolist()))
    shares = []
    for mode, delay in zip(MODES, (Fixed(0), *delays(reports, WINDOW)), strict=True):
        algorithm = Settled(TS, open=mode, orders=orders)
        result = simulate(bandit.delayed(delay), ONE, algorithm, WINDOW, runs)
        shares.append(result.pulls[:, 0, -1] / WINDOW)
    return shares


MODES = (None, "count", "wait")


def study(runs=60):
    """The table of docs/delays.md, and what is not as that page says."""
    lines = [
        f"| {runs} runs | reported | | without delay | open counts as 0 | open waits "
        "| coverage of both |",
        "|---|---|---|---|---|---|---|",
    ]
    wrong = []
    for world, (bandit, rounds, horizon) in WORLDS.items():
        for row_name, (kind, network) in WHO.items():
            at_once = simulate(bandit, network, kind(TS), horizon, runs)
            for reports in ("all", "successes"):
                count, wait = (
                    simulate(bandit.delayed(delay), network, kind(TS, open=mode), horizon, runs)
                    for delay, mode in zip(delays(reports, rounds), MODES[1:], strict=True)
                )
                cells = [regret(values.regret[:, -1]) for values in (at_once, count, wait)]
                covered = f"{coverage(bandit, count)}, {coverage(bandit, wait)}"
                lines.append(
                    f"| {world} | {reports} | {row_name} | {' | '.join(cells)} | {covered} |"
                )
                if reports == "all" and count.regret[:, -1].mean() < wait.regret[:, -1].mean():
                    wrong.append(f"{lines[-1]}: who hears all had better wait")
    for reports in ("all", "successes"):
        shares = new_arm(reports, runs)
        cells = [f"{values.mean():.3f} ± {values.std(ddof=1) / runs**0.5:.3f}" for values in shares]
        lines.append(
            f"| a new arm's share of visits | {reports} | one agent | {' | '.join(cells)} | |"
        )
        if not shares[1].mean() < shares[2].mean() / 2:
            wrong.append("a new arm must get fewer visits where open pulls count")
    return "\n".join(lines), wrong
