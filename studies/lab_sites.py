"""Sites that differ: partial pooling beside pooling and isolation, what is shown, and the alarm."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import numpy as np
from numba import njit

import posse
from posse import sites
from posse.algorithms import Problem
from posse.families import (
    Bernoulli,
    Gaussian,
    Poisson,
    from_count_and_total,
    get_optional,
    to_count_and_total,
)
from posse.sites import GRID, SURE, Sites

SEED = 12
TS = posse.ThompsonSampling()
SHARE = 0.02  # looks are at rounds that grow by this share


@njit
def likelihoods(pulls, total, mean, variance, ratio):
    """`Sites.log_likelihood` in plain loops: (R, N, K) twice, (R, K) twice, (T, R, K)."""
    n_taus, n_runs, n_arms = ratio.shape
    found = np.zeros(ratio.shape)
    for run in range(n_runs):
        for arm in range(n_arms):
            for tau in range(n_taus):
                r = ratio[tau, run, arm]
                noise = 1.0
                weight = 0.0
                middle = 0.0
                squares = 0.0
                for site in range(pulls.shape[1]):
                    n = pulls[run, site, arm]
                    if n > 0:
                        capped = 1.0 / (1.0 + r * n)
                        apart = total[run, site, arm] - n * mean[run, arm]
                        noise *= capped
                        weight += capped * n
                        middle += capped * apart
                        squares += capped * apart * apart / n
                if weight > 0:
                    squares = (squares - middle**2 / weight) / variance[run, arm]
                    found[tau, run, arm] = (np.log(noise / weight) - squares) / 2
    return found


@njit
def mixtures(pulls, total, prior_count, prior_total, variance, ratio, weights):
    """Count and mean of `Sites.belief` in plain loops: (R, N, K) each."""
    n_taus, n_runs, n_arms = ratio.shape
    n_sites = pulls.shape[1]
    count = np.empty(pulls.shape)
    mean = np.empty(pulls.shape)
    first = np.empty(n_sites)
    second = np.empty(n_sites)
    spread = np.empty(n_sites)
    for run in range(n_runs):
        for arm in range(n_arms):
            first[:] = 0.0
            second[:] = 0.0
            spread[:] = 0.0
            for tau in range(n_taus):
                r = ratio[tau, run, arm]
                weight = weights[tau, run, arm]
                heard = 0.0
                summed = 0.0
                for site in range(n_sites):
                    capped = 1.0 / (1.0 + r * pulls[run, site, arm])
                    heard += capped * pulls[run, site, arm]
                    summed += capped * total[run, site, arm]
                for site in range(n_sites):
                    n = pulls[run, site, arm]
                    s = total[run, site, arm]
                    capped = 1.0 / (1.0 + r * n)
                    others = heard - capped * n
                    shared = 1.0 / (1.0 + r * others)
                    a = prior_count + n + others * shared
                    m = (prior_total + s + (summed - capped * s) * shared) / a
                    first[site] += weight * m
                    second[site] += weight * m * m
                    spread[site] += weight / a
            for site in range(n_sites):
                between = max(second[site] - first[site] ** 2, 0.0) / variance[run, arm]
                count[run, site, arm] = 1.0 / (spread[site] + between)
                mean[run, site, arm] = first[site]
    return count, mean


class Reading:
    """What `Sites` says of evidence (2, R, N, K), ten times as fast for many runs."""

    def __init__(self, family, evidence):
        self.family = family
        self.weight = get_optional(family, "observation_weight")
        self.prior_count, self.prior_total = (
            to_count_and_total(family, family.prior()) / self.weight
        ).tolist()
        self.pulls, self.total = to_count_and_total(family, evidence) / self.weight
        count = self.pulls.sum(axis=1)
        total = self.total.sum(axis=1)
        self.mean = (self.prior_total + total) / (self.prior_count + count)
        self.variance = family.variance(self.mean)
        sds = (
            GRID[:, None, None] * get_optional(family, "site_spread") * family.site_unit(self.mean)
        )
        self.ratio = sds**2 / self.variance
        self.likelihood = likelihoods(self.pulls, self.total, self.mean, self.variance, self.ratio)

    def belief(self):
        """As agents act on it."""
        prior = self.prior_count, self.prior_total
        weights = sites.compute_site_sd_probabilities(self.likelihood)
        count, mean = mixtures(self.pulls, self.total, *prior, self.variance, self.ratio, weights)
        return from_count_and_total(self.family, self.weight * np.stack([count, count * mean]))


class Fast(posse.PartialPooling):
    """Partial pooling that reads by loops; the first reading of many is compared with `Sites`."""

    def pool_evidence(self, family, evidence):
        """Equal to that of `posse.PartialPooling` but for rounding."""
        found = Reading(family, evidence).belief()
        few = slice(None), slice(0, 2)
        np.testing.assert_allclose(
            found[few], super().pool_evidence(family, evidence[few]), rtol=1e-6
        )
        return found


ALGORITHMS = {"pooled": posse.Centralized(TS), "alone": posse.Isolated(TS), "partial": Fast(TS)}


@dataclass(frozen=True)
class Cell:
    """A world: N sites, the means of arms, how they differ; what the ratio may be at most."""

    world: str
    label: str
    family: object
    base: tuple[float, ...]
    n_sites: int
    horizon: int
    tau: float
    bound: float
    only: int | None = None  # the one arm that differs
    odd: bool = False  # one site has the others' arms in reverse

    @property
    def looks(self):
        """When intervals are looked at: a 20th of the rounds at first, or a 15th."""
        return (1000, 4000, self.horizon) if self.horizon > 5000 else (100, 400, self.horizon)

    def means(self, runs):
        """(R, N, K)."""
        generator = np.random.default_rng([SEED, self.n_sites, round(1000 * self.tau)])
        z = generator.standard_normal((runs, self.n_sites, len(self.base)))
        if self.only is not None:
            z[..., [k for k in range(len(self.base)) if k != self.only]] = 0
        if isinstance(self.family, Gaussian):
            means = np.array(self.base) + self.tau * z
        else:
            means = np.array(self.base) * np.exp(self.tau * z)
        if self.odd:
            means[:, 0] = means[:, 0, ::-1]
        return np.minimum(means, 0.95) if isinstance(self.family, Bernoulli) else means


def cells():
    """Those of Gaussian arms and of rare conversions, then counts and an odd one out."""
    five = (0.5, 0.4, 0.3, 0.2, 0.1)
    rare = (0.05, 0.04, 0.03, 0.02)

    def bound(tau, gap):  # at tau below the gap nobody promises anything, tau known or not
        return 1.4 if tau == 0 else 1.15 if tau >= gap else 1.45

    found = []
    for n, horizon in ((3, 1500), (8, 1500), (16, 1000)):
        world = f"Gaussian, N = {n}"
        for tau in (0, 0.05, 0.1, 0.2, 0.5):
            one = bound(tau, 0.1)
            found.append(Cell(world, f"tau = {tau}", Gaussian(), five, n, horizon, tau, one))
        if n > 3:
            for tau, arm, which in ((0.4, 0, "best"), (0.5, 4, "worst")):
                label = f"tau = {tau}, {which} arm only"
                found.append(Cell(world, label, Gaussian(), five, n, horizon, tau, 1.15, arm))
    for n in (3, 8):
        for tau in (0, 0.1, 0.3, 0.6):
            found.append(
                Cell(f"rare conversions, N = {n}", f"tau = {tau:.0%}", Bernoulli(1, 19), rare, n,
                     20_000, tau, bound(tau, 0.2))
            )  # fmt: skip
    for tau in (0, 0.1, 0.3):
        found.append(
            Cell("counts, N = 5", f"tau = {tau:.0%}", Poisson(), (2.0, 1.8, 1.5, 1.2), 5, 1500, tau,
                 bound(tau, 0.1))
        )  # fmt: skip
    rates = (0.35, 0.3, 0.2, 0.1)
    # of three sites one in reverse is no draw of any law between sites: as far as it can be
    for n, one in ((3, 1.3), (12, 1.15)):
        found.append(
            Cell(f"rates, N = {n}", "one site in reverse", Bernoulli(), rates, n, 2000, 0, one,
                 odd=True)
        )  # fmt: skip
    return found


def play(cell, algorithm, means, seed, look):
    """Regret of each run, (R,); look(t, evidence) is called with that of each site."""
    runs, n_sites, n_arms = means.shape
    network = posse.networks.complete(n_sites)
    state = algorithm.init(Problem(n_sites, n_arms, cell.horizon, cell.family, network, runs))
    choices, noise = (np.random.default_rng([SEED, seed, part]) for part in (1, 2))
    gaps = means.max(axis=-1, keepdims=True) - means
    evidence = np.zeros_like(state.belief)
    cells_of = evidence.reshape(2, -1)
    place = np.arange(0, means.size, n_arms).reshape(runs, n_sites)
    regret = np.zeros(runs)
    due = 10
    for t in range(1, cell.horizon + 1):
        arms = algorithm.choose(state, t, choices)
        played = place + arms
        rewards = cell.family.draw_rewards(means.reshape(-1)[played], noise)
        state = algorithm.learn(state, arms, rewards, None)
        cells_of[:, played] += cell.family.statistic(rewards)
        regret += gaps.reshape(-1)[played].mean(axis=1)
        if t >= due or t in cell.looks:
            look(t, evidence)
            due = max(t + 1, int(t * (1 + SHARE)))
    return regret


class Alarm:
    """Whether agents that take sites for alike are ever told that they are not, by two rules."""

    def __init__(self, cell, runs):
        self.family = cell.family
        self.whole = np.zeros(runs, dtype=bool)  # by the probability that all arms are alike
        self.by_arm = np.zeros(runs, dtype=bool)  # by that of any arm

    def __call__(self, t, evidence):
        """Look at the evidence of each site."""
        likelihood = Reading(self.family, evidence).likelihood
        self.whole |= sites.compute_probability_all_alike(likelihood) < SURE
        self.by_arm |= sites.compute_site_sd_probabilities(likelihood)[0].min(axis=-1) < SURE


class Cover:
    """How often shown 95% intervals hold the truth, of all arms, best arms and network means."""

    def __init__(self, cell, means):
        self.cell = cell
        self.means = means
        self.looks = {}

    def __call__(self, t, evidence):
        """Look, three times."""
        if t not in self.cell.looks:
            return
        family = self.cell.family
        found = Sites(self.cell.family, evidence)
        shown = found.site_beliefs(for_display=True)
        network = found.network_belief()
        inside = self.inside(family, shown, self.means)
        best = np.take_along_axis(inside, self.means.argmax(axis=-1)[..., None], axis=-1)
        middle = self.inside(family, network, self.means.mean(axis=1))
        acted = self.inside(family, found.site_beliefs(), self.means)
        self.looks[t] = [each.mean() for each in (inside, best, middle, acted)]

    @staticmethod
    def inside(family, belief, truth):
        """Whether the 95% interval holds the truth."""
        low, high = (family.mean_quantile(belief, level) for level in (0.025, 0.975))
        return (low <= truth) & (truth <= high)


def ratio_of(ours, theirs):
    """The ratio of means over paired runs and its upper 95% bound (delta method)."""
    ratio = ours.mean() / theirs.mean()
    error = (ours - ratio * theirs).std(ddof=1) / len(ours) ** 0.5 / theirs.mean()
    return ratio, ratio + 1.645 * error


def try_cell(cell, runs, at_once=200):
    """Regrets (R,) by algorithm, alarms, and coverages at each look."""
    regrets = {name: [] for name in ALGORITHMS}
    alarms = []
    covers = []
    every = cell.means(runs)
    for start in range(0, runs, at_once):
        means = every[start : start + at_once]
        alarm = Alarm(cell, len(means))
        cover = Cover(cell, means)
        for name, algorithm in ALGORITHMS.items():
            look = {"pooled": alarm, "partial": cover}.get(name, lambda t, evidence: None)
            regrets[name].append(play(cell, algorithm, means, start + cell.n_sites, look))
        alarms.append(np.stack([alarm.whole, alarm.by_arm]))
        covers.append([(len(means), *cover.looks[t]) for t in sorted(cover.looks)])
    sizes = np.array(covers)[:, :, 0]
    covered = (np.array(covers)[:, :, 1:] * sizes[..., None]).sum(axis=0) / runs  # (looks, 4)
    found = {name: np.concatenate(each) for name, each in regrets.items()}
    return found, np.concatenate(alarms, axis=1).mean(axis=1), covered


def study(runs=400):
    """The tables of docs/sites.md: regret, what is shown, and the alarm."""
    regret = [
        "| world | | pooled | alone | partial | to the better of both | at most (95%) |",
        "|---|---|---|---|---|---|---|",
    ]
    shown = [
        "| world | | a site's means, at three times | best arm of a site | network mean "
        "| as acted on |",
        "|---|---|---|---|---|---|",
    ]
    alarms = ["| world | | alarms | by any arm |", "|---|---|---|---|"]
    broken = []
    for cell in cells():
        start = time.monotonic()
        regrets, alarm, covered = try_cell(cell, runs)
        mean = {name: each.mean() for name, each in regrets.items()}
        error = {name: each.std(ddof=1) / runs**0.5 for name, each in regrets.items()}
        better = min(("pooled", "alone"), key=mean.__getitem__)
        ratio, upper = ratio_of(regrets["partial"], regrets[better])
        cells_ = " | ".join(f"{mean[name]:.1f} ± {error[name]:.1f}" for name in ALGORITHMS)
        regret.append(f"| {cell.world} | {cell.label} | {cells_} | {ratio:.2f} | {upper:.2f} |")
        columns = [" / ".join(f"{each:.1%}" for each in column) for column in covered.T]
        shown.append(f"| {cell.world} | {cell.label} | {' | '.join(columns)} |")
        alarms.append(f"| {cell.world} | {cell.label} | {alarm[0]:.1%} | {alarm[1]:.1%} |")
        where = f"{cell.world}, {cell.label}"
        if upper >= cell.bound:
            broken.append(f"{where}: ratio up to {upper:.2f}, not below {cell.bound}")
        if not 0.90 <= covered[:, 0].min() <= covered[:, 0].max() <= 0.98:
            broken.append(f"{where}: shown intervals cover {columns[0]}")
        if cell.tau == 0 and not cell.odd and alarm[0] > 0.05:
            broken.append(f"{where}: false alarms in {alarm[0]:.1%}")
        took = time.monotonic() - start
        print(f"{where}: {regret[-1]} {shown[-1]} {alarms[-1]} {took:.0f} s", file=sys.stderr,
              flush=True)  # fmt: skip
    head = f"{runs} paired runs, seed {SEED}; regret per agent at T, one-sided bound of the ratio."
    text = [head, "", *regret, "", "Coverage of 95% intervals:", "", *shown, ""]
    return "\n".join([*text, "Alarms, of agents that pool:", "", *alarms]), broken
