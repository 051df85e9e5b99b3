"""Rewards with outliers and of two kinds of visitors: variational beliefs against plain ones.

Sixteen agents on a cycle, five arms. Finished parts are kept in results/complex, so that a study
that was interrupted goes on.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy import integrate, stats
from scipy.special import ndtri

import posse
from posse import beliefs, theory
from posse.families import Gaussian, Grid, Interval, MixtureOfNormals, StudentT, Variational
from posse.lab.jobs.results_cache import PartStore
from posse.lab.jobs.scheduler import complete_jobs

RESULTS = Path(__file__).parent.parent / "results" / "complex"
SEED = 29
MEANS = (0.5, 0.4, 0.3, 0.2, 0.1)
HORIZON = 1000
TIMES = (30, 100, HORIZON)  # rounds with beliefs
CYCLE = posse.networks.cycle(16)
TS = posse.ThompsonSampling()
REAL_LINE = Interval(-np.inf, np.inf)


# Rewards


def draw_kinds(shares, generator, size):
    """The kind of each reward and a standard normal variate, both from one uniform."""
    ends = np.cumsum(shares)
    uniform = generator.random(size)
    kind = np.minimum(np.searchsorted(ends, uniform, side="right"), len(shares) - 1)
    within = (uniform - (ends - shares)[kind]) / np.asarray(shares)[kind]
    return kind, ndtri(np.clip(within, 2.0**-54, 1 - 2.0**-53))


@dataclass(frozen=True)
class Outliers:
    """Most rewards have little noise, some have ten times as much."""

    shares: tuple[float, ...] = (0.9, 0.1)
    sigmas: tuple[float, ...] = (0.5, 5.0)
    name = "outliers"
    means = REAL_LINE
    rewards = REAL_LINE

    def draw_rewards(self, means, generator):
        """mean + sigma z, sigma by the kind of the reward."""
        kind, z = draw_kinds(self.shares, generator, means.shape)
        return means + np.array(self.sigmas)[kind] * z


@dataclass(frozen=True)
class Visitors:
    """Browsers and buyers; what separates them depends on the arm: distance + slope (mean - 0.3).

    Their average is the mean of the arm.
    """

    distance: float = 2.0
    slope: float = 2.0
    sigma: float = 0.5
    shares: tuple[float, ...] = (0.7, 0.3)
    name = "visitors"
    means = REAL_LINE
    rewards = REAL_LINE

    def draw_rewards(self, means, generator):
        """mean + offset of the kind + sigma z."""
        kind, z = draw_kinds(self.shares, generator, means.shape)
        offset = np.array([-self.shares[1], self.shares[0]])[kind]
        return means + offset * (self.distance + self.slope * (means - 0.3)) + self.sigma * z


# Beliefs


@dataclass(frozen=True)
class Contaminated(Variational):
    """The noise of Outliers, known: a variational family of our own."""

    shares: tuple[float, ...] = (0.9, 0.1)
    sigmas: tuple[float, ...] = (0.5, 5.0)
    name = "contaminated"

    def prior(self):
        """N(0, 1)."""
        return np.array([0.0, 1.0])

    def reward_log_density(self, rewards, mean, *nuisance):
        """The log of the sum over kinds of noise."""
        residual = np.asarray(rewards) - np.asarray(mean)
        terms = [
            np.log(share / sigma) - (residual / sigma) ** 2 / 2
            for share, sigma in zip(self.shares, self.sigmas, strict=True)
        ]
        return np.logaddexp.reduce(terms)

    def local_factor(self, rewards, at):
        """The expected precision of each reward, by the probability of each kind of noise."""
        mean, variance = at[0] / at[1], 1 / at[1]
        spreads = [sigma**2 + variance for sigma in self.sigmas]
        joint = np.array([
            share / np.sqrt(spread) * np.exp(-((rewards - mean) ** 2) / (2 * spread))
            for share, spread in zip(self.shares, spreads, strict=True)
        ])  # fmt: skip
        weight = np.tensordot(1 / np.square(self.sigmas), joint / joint.sum(axis=0), axes=1)
        return (weight * rewards)[None], weight[None], self.known * weight[None, None]

    @cached_property
    def known(self):
        """The Fisher information as a share of the expected precision of a reward."""

        def density(y):
            return sum(
                share * stats.norm.pdf(y, 0, sigma)
                for share, sigma in zip(self.shares, self.sigmas, strict=True)
            )

        def squared_slope(y):
            slope = sum(
                share * stats.norm.pdf(y, 0, sigma) * y / sigma**2
                for share, sigma in zip(self.shares, self.sigmas, strict=True)
            )
            return slope**2 / density(y)

        information = 2 * integrate.quad(squared_slope, 0, 60, points=[0.5, 1, 2, 3, 5, 10])[0]
        return information / (np.array(self.shares) @ (1 / np.square(self.sigmas)))


CONTAMINATED = Contaminated()
STUDENT = StudentT(sigma=0.5, degrees=3.0)  # guessed, not fitted to these rewards


def contaminated_log_likelihood(reward, theta):
    """Of the noise of Outliers."""
    return CONTAMINATED.reward_log_density(reward, theta)


def student_log_likelihood(reward, theta):
    """Of the noise that STUDENT believes in."""
    return STUDENT.reward_log_density(reward, theta)


def identity(theta):
    """The mean is the parameter."""
    return theta


@dataclass(frozen=True)
class Exact(Grid):
    """The exact posterior under the prior N(0, 1)."""

    def prior(self):
        """The log-density of N(0, 1)."""
        return -(self.centres**2) / 2


# Worlds: the bandit and, by name, algorithms and the most runs of each

TRUE_SD = float(np.sqrt(0.9 * 0.5**2 + 0.1 * 5**2))
EXACT = Exact(contaminated_log_likelihood, identity, (-1.5, 2.5), points=400)


def visitors_families(distance, sigma):
    """A Gaussian and a mixture with the same prior of the mean."""
    shares, prior_sd = np.array([0.7, 0.3]), distance / 4  # the default of the mixture
    sd = float(np.sqrt(sigma**2 + shares.prod() * distance**2))
    gaussian = Gaussian(sd, 0.3 * distance, float(prior_sd * np.sqrt(shares @ shares)))
    return gaussian, MixtureOfNormals((0.7, 0.3), (0.0, distance), sigma)


def visitors_algorithms(distance, sigma):
    """Both families on the network, the mixture also alone."""
    gaussian, mixture = visitors_families(distance, sigma)
    return {
        "Gaussian, true variance": (posse.Decentralized(TS, gaussian), 1.0),
        "`MixtureOfNormals`": (posse.Decentralized(TS, mixture), 1.0),
        "`MixtureOfNormals`, alone": (posse.Isolated(TS, mixture), 0.25),
    }


WORLDS = {
    "Outliers": (
        posse.Bandit(Outliers(), MEANS),
        {
            "Gaussian, true variance": (posse.Decentralized(TS, Gaussian(TRUE_SD)), 1.0),
            "Gaussian, ignores outliers": (posse.Decentralized(TS, Gaussian(0.5)), 1.0),
            "`StudentT(0.5, degrees=3)`": (posse.Decentralized(TS, STUDENT), 1.0),
            "variational, noise known": (posse.Decentralized(TS, CONTAMINATED), 1.0),
            "exact posterior on a grid": (posse.Decentralized(TS, EXACT), 0.25),
            "`StudentT`, alone": (posse.Isolated(TS, STUDENT), 0.25),
        },
    ),
    "Two kinds of visitors": (
        posse.Bandit(Visitors(), MEANS), visitors_algorithms(distance=2.0, sigma=0.5)
    ),
    "Two kinds that overlap": (
        posse.Bandit(Visitors(1.0, 1.0, 1.0), MEANS), visitors_algorithms(distance=1.0, sigma=1.0)
    ),
}  # fmt: skip


def load_or_play(bandit, algorithm, runs):
    """The result of so many runs, from its parts where they are there."""
    experiment = posse.Experiment(
        bandit, CYCLE, {"algorithm": algorithm}, HORIZON, runs, SEED, record=TIMES,
        engine="reference", keep=("beliefs",),
    )  # fmt: skip
    store = PartStore(RESULTS)
    jobs = experiment.jobs()
    complete_jobs(list(jobs.values()), store)
    return store.load_result(jobs["algorithm"])


def measure_coverage(result, family):
    """The share of 95% intervals that hold the mean, in each run: (times, R)."""
    belief = np.moveaxis(result.beliefs, 2, 0)  # (D, R, times, N, K)
    low, high = (family.mean_quantile(belief, level) for level in (0.025, 0.975))
    inside = (low <= np.array(MEANS)) & (np.array(MEANS) <= high)
    return inside.mean(axis=(2, 3)).T


def count_swaps(result, family):
    """The share of beliefs whose kinds are not in the order of their prior means."""
    locations, _ = family.locations(np.moveaxis(result.beliefs, 2, 0))
    return float((locations[0] > locations[1]).mean())


def make_row(name, result, family):
    """One row of a table: regret with its tail, and coverage by round."""
    final = result.regret[:, -1]
    mean = posse.lab.mean_interval(final)
    coverage = measure_coverage(result, family)
    cells = [
        name, str(len(final)), f"{mean.mean:.2f} ({mean.low:.2f} to {mean.high:.2f})",
        f"{np.quantile(final, 0.95):.1f}", f"{final.max():.0f}",
        *(f"{values.mean():.0%}" for values in coverage),
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


# How far approximate beliefs are from exact ones

ALPHAS = (-1.0, 0.0, 1.0)
DIVERGENCE_TIMES = (1, 10, 100, HORIZON)


def measure_divergences(family, log_likelihood, runs):
    """The divergences of all beliefs in a run of the network: (alphas, times, R N K).

    Agents act by the approximate beliefs; exact ones learn from the same rewards and are merged by
    the same weights.
    """
    exact = Exact(log_likelihood, identity, (-6.0, 6.0), points=4096)
    bandit, generator = Outliers(), np.random.default_rng(SEED)
    belief = beliefs.prior(family, (runs, CYCLE.n_agents), len(MEANS))
    exact_belief = beliefs.prior(exact, (runs, CYCLE.n_agents), len(MEANS))
    found = []
    for t in range(1, HORIZON + 1):
        arms = posse.policies.choose(TS, belief, family, t, HORIZON, generator)
        rewards = bandit.draw_rewards(np.array(MEANS)[arms], generator)
        belief, exact_belief = (
            beliefs.merge(
                beliefs.observe(before, arms, rewards, model, CYCLE.n_agents), CYCLE.weights
            )
            for before, model in ((belief, family), (exact_belief, exact))
        )
        if t in DIVERGENCE_TIMES:
            found.append([
                theory.alpha_divergence(exact, exact_belief, family, belief, alpha).ravel()
                for alpha in ALPHAS
            ])  # fmt: skip
    return np.moveaxis(np.array(found), 0, 1)


def divergence_table(runs):
    """The table of divergences, and those that are not small at the end."""
    lines = [
        f"| median, 95% quantile ({runs} runs) | alpha | "
        + " | ".join(f"t = {t}" for t in DIVERGENCE_TIMES) + " |",
        "|---" * (2 + len(DIVERGENCE_TIMES)) + "|",
    ]  # fmt: skip
    wrong = []
    for name, family, log_likelihood in (
        ("`StudentT(0.5, degrees=3)`", STUDENT, student_log_likelihood),
        ("variational, noise known", CONTAMINATED, contaminated_log_likelihood),
    ):
        for alpha, by_time in zip(
            ALPHAS, measure_divergences(family, log_likelihood, runs), strict=True
        ):
            cells = [f"{np.median(d):.3f}, {np.quantile(d, 0.95):.2f}" for d in by_time]
            lines.append(f"| {name} | {alpha:g} | {' | '.join(cells)} |")
            if np.median(by_time[-1]) > 0.1:
                wrong.append(f"{lines[-1]}: the median is to be at most 0.1 at the end")
    return "\n".join(lines), wrong


def study(runs=400):
    """The tables of docs/complex-rewards.md, and what is not as that page says."""
    tables = []
    wrong = []
    for world, (bandit, algorithms) in WORLDS.items():
        start = time.process_time()
        heads = " | ".join(f"coverage, t = {t}" for t in TIMES)
        lines = [
            f"**{world}**, T = {HORIZON}", "",
            f"| | runs | regret of an agent (95%) | p95 | max | {heads} |",
            "|---" * (5 + len(TIMES)) + "|",
        ]  # fmt: skip
        regret = {}
        for name, (algorithm, share) in algorithms.items():
            result = load_or_play(bandit, algorithm, max(2, round(share * runs)))
            lines.append(make_row(name, result, algorithm.family))
            regret[name] = result.regret[:, -1].mean()
            if isinstance(algorithm.family, MixtureOfNormals) and (
                swapped := count_swaps(result, algorithm.family)
            ):
                wrong.append(f"{world}, {name}: {swapped:.2%} of beliefs have exchanged kinds")
        tables.append("\n".join(lines))
        print(f"{world}: {time.process_time() - start:.0f} s of CPU", file=sys.stderr)
        if world == "Outliers" and regret["`StudentT(0.5, degrees=3)`"] > 0.4 * min(
            regret["Gaussian, true variance"], regret["Gaussian, ignores outliers"]
        ):
            wrong.append("with outliers, StudentT is to have at most 0.4 of a Gaussian's regret")
        if (
            world == "Two kinds of visitors"
            and regret["`MixtureOfNormals`"] > 0.6 * (regret["Gaussian, true variance"])
        ):
            wrong.append("with two kinds, the mixture is to have at most 0.6 of the regret")
    table, complaints = divergence_table(max(2, runs // 100))
    return "\n\n".join([*tables, table]), wrong + complaints
