"""Coverage of the 95% intervals that live agents show, and of those they act on."""

from __future__ import annotations

import itertools
import math
import runpy
from multiprocessing import Pool
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from posse import families, networks
from posse.live.agent.evidence import SIGNS, Evidence
from posse.live.ledger.sums import PER_UNIT

travel = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("travel.py"))))
MEANS = np.array([0.5, 0.4, 0.3, 0.2, 0.1])
FAMILY = families.Gaussian()
REWARD_RANGE = (-10.0, 10.0)
TIMES = (10, 30, 100)
# what is shown must lie between
LOW = 0.92
HIGH = 0.98
EXCHANGES = ("origins", "flows")
SIZES = (16, 100)
ASKED = 8  # agents a run, evenly spaced: those between know nearly the same
AT_ONCE = 100  # runs, with the same identities


def evidence_of(exchange):
    """What travels under an exchange."""
    return Evidence.for_family(FAMILY, REWARD_RANGE, SIGNS if exchange == "flows" else 0)


def play(exchange, n_agents, seed, prior):
    """Thompson sampling on a cycle: yields means and what agents hold (N, runs, K, D) at TIMES."""
    generator = np.random.default_rng([seed, n_agents, prior])
    means = np.tile(MEANS, (AT_ONCE, 1))
    if prior:
        drawn = generator.normal(FAMILY.prior_mean, FAMILY.prior_sd, means.shape)
        means = np.sort(drawn)[:, ::-1]  # the best arm first, as above
    identities = [str(number) for number in generator.permutation(n_agents)]
    network = travel.TRAVEL[exchange](networks.cycle(n_agents), identities)
    signs = evidence_of(exchange).signs
    held = np.zeros((n_agents, AT_ONCE, len(MEANS), signs + 2))
    for now in range(1, max(TIMES) + 1):
        belief = held[..., [0, -1]].transpose(3, 0, 1, 2) + FAMILY.prior()[:, None, None, None]
        arms = FAMILY.sample_mean(belief, generator).argmax(axis=-1)
        fresh = np.ones((*arms.shape, signs + 2))
        fresh[..., 0] = FAMILY.draw_rewards(means[np.arange(AT_ONCE), arms], generator)
        fresh[..., 1:-1] = generator.choice([-1.0, 1.0], (*arms.shape, signs))
        held = network.step(fresh[..., None, :] * np.eye(len(MEANS))[arms][..., None])
        if now in TIMES:
            yield means, held


def intervals(evidence, held):
    """Low and high (2, ...) of what is held (..., D): the shown ones, and those acted on."""
    quanta = np.rint(held * PER_UNIT).astype(int).reshape(-1, held.shape[-1]).tolist()
    honest = [evidence.statistic(each, evidence.effective_count(each)) for each in quanta]
    tempered = [evidence.statistic(each) for each in quanta]
    return [
        FAMILY.mean_quantile(
            (np.array(statistics) + FAMILY.prior()).T, np.array([[0.025], [0.975]])
        ).reshape(2, *held.shape[:-1])
        for statistics in (honest, tempered)
    ]


def coverage(exchange, n_agents, seed, prior=False):
    """The share of agents (times, 2, runs, K) whose interval, shown or acted on, has the mean."""
    evidence = evidence_of(exchange)
    shares = []
    for means, held in play(exchange, n_agents, seed, prior):
        both = intervals(evidence, held[:: n_agents // ASKED][:ASKED])
        shares.append([((low <= means) & (means <= high)).mean(axis=0) for low, high in both])
    return np.array(shares)


def estimate(shares):
    """Mean and standard error over runs, which are independent; agents of one run are not."""
    return np.mean(shares), np.std(shares, ddof=1) / len(shares) ** 0.5


def study(runs=4000):
    """The table of docs/calibration.md, and the rows outside of LOW to HIGH."""
    lines = [
        "| exchange | N | t | shown, best arm | shown, all arms | acted on, best arm "
        "| acted on, all arms |",
        "|---|---|---|---|---|---|---|",
    ]
    wrong = []
    for exchange, n_agents in itertools.product(EXCHANGES, SIZES):
        with Pool() as pool:
            jobs = [(exchange, n_agents, seed) for seed in range(math.ceil(runs / AT_ONCE))]
            shares = np.concatenate(pool.starmap(coverage, jobs, chunksize=1), axis=2)
        for now, both in zip(TIMES, shares, strict=True):
            estimates = [
                estimate(values) for each in both for values in (each[:, 0], each.mean(axis=1))
            ]
            cells = [f"{mean:.1%} ± {error:.1%}" for mean, error in estimates]
            lines.append(f"| {exchange} | {n_agents} | {now} | {' | '.join(cells)} |")
            if not all(LOW <= mean <= HIGH for mean, _ in estimates[:2]):
                wrong.append(f"{lines[-1]} is not between {LOW:.0%} and {HIGH:.0%}")
    return "\n".join(lines), wrong
