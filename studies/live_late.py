"""Coverage of the 95% intervals that live agents show where successes are reported, and late."""

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
RATES = np.array([0.02, 0.025, 0.03, 0.04])
# of each agent, in a round
AGENTS = 3
VISITS = 100
# rounds; a success comes after up to the window
WINDOW = 60
HORIZON = 180
TIMES = (70, 90, 120, 180)
CLOSED = 100  # decisions from which on an arm's interval is looked at
# what is shown must lie between
LOW = 0.92
HIGH = 0.98
EXCHANGES = ("origins", "flows")
PRIORS = {"Beta(1, 1)": families.Bernoulli(), "Beta(1, 30)": families.Bernoulli(1.0, 30.0)}
AT_ONCE = 50  # runs, with the same identities


def evidence_of(exchange, family):
    """What travels under an exchange, closed decisions apart."""
    return Evidence.for_family(family, None, SIGNS if exchange == "flows" else 0, closed=True)


def play(exchange, family, seed):
    """Thompson sampling: yields what agents hold (N, runs, K, D) at TIMES.

    As `posse.live.experiment.reward_window` counts: a decision when it is made, a success when it
    comes, both once more when the window has closed.
    """
    generator = np.random.default_rng([seed, EXCHANGES.index(exchange)])
    signs = evidence_of(exchange, family).signs
    shape = AGENTS, AT_ONCE, len(RATES)
    identities = [str(number) for number in generator.permutation(AGENTS)]
    network = travel.TRAVEL[exchange](networks.cycle(AGENTS), identities)
    held = np.zeros((*shape, signs + 4))
    pulls, successes = np.zeros((2, HORIZON, *shape), dtype=np.int64)
    heard = np.zeros((HORIZON + WINDOW, *shape))
    for now in range(HORIZON):
        count = np.maximum(held[..., -1], 0)
        power = np.clip(held[..., 0], 0, count)
        belief = np.stack([power, count - power]) + family.prior()[:, None, None, None]
        many = np.broadcast_to(belief[:, None], (2, VISITS, *shape))
        arms = family.sample_mean(many, generator).argmax(axis=-1)
        pulls[now] = (arms[..., None] == np.arange(len(RATES))).sum(axis=0)
        successes[now] = generator.binomial(pulls[now], RATES)
        late = generator.multinomial(successes[now], np.full(WINDOW, 1 / WINDOW))
        heard[now : now + WINDOW] += np.moveaxis(late, -1, 0)
        fresh = np.zeros((*shape, signs + 4))
        fresh[..., 0] = heard[now]
        fresh[..., -1] = pulls[now]
        if now >= WINDOW:
            closed = pulls[now - WINDOW]
            fresh[..., 1] = successes[now - WINDOW]
            fresh[..., 2] = closed
            up = generator.binomial(closed[..., None], 0.5, (*shape, signs))
            fresh[..., 3:-1] = 2 * up - closed[..., None]
        held = network.step(fresh)
        if now + 1 in TIMES:
            yield held


def covered(family, statistics, shape):
    """Whether the 95% intervals of statistics (..., D) hold the true rates."""
    belief = (np.array(statistics) + family.prior()).T
    low, high = family.mean_quantile(belief, np.array([[0.025], [0.975]])).reshape(2, *shape)
    return (low <= RATES) & (high >= RATES)


def coverage(exchange, prior, seed):
    """Of each run (times, runs, 2): the share of shown intervals with the truth; acted on."""
    family = PRIORS[prior]
    evidence = evidence_of(exchange, family)
    plain = Evidence.for_family(family, None, evidence.signs)
    shares = []
    for held in play(exchange, family, seed):
        quanta = np.rint(held * PER_UNIT).astype(int).reshape(-1, held.shape[-1]).tolist()
        closed = [evidence.closed_part(each) for each in quanta]
        acted = [plain.statistic((each[0], *each[3:])) for each in quanta]
        shown = [plain.statistic(each, plain.effective_count(each)) for each in closed]
        enough = (held[..., 2] >= CLOSED).astype(float)
        enough[:, enough.sum(axis=(0, 2)) == 0] = np.nan  # runs without any
        both = (covered(family, s, held.shape[:-1]) for s in (shown, acted))
        shares.append(np.stack([(c * enough).sum((0, 2)) / enough.sum((0, 2)) for c in both], -1))
    return np.array(shares)


def estimate(shares):
    """Mean and standard error over runs, which are independent; agents of one run are not."""
    shares = shares[~np.isnan(shares)]
    return np.mean(shares), np.std(shares, ddof=1) / len(shares) ** 0.5


def study(runs=2000):
    """The table of docs/calibration.md, and the rows outside of LOW to HIGH."""
    lines = [
        "| exchange | prior | windows since the start | shown (closed) | acted on (open, too) |",
        "|---|---|---|---|---|",
    ]
    wrong = []
    for exchange, prior in itertools.product(EXCHANGES, PRIORS):
        with Pool() as pool:
            jobs = [(exchange, prior, seed) for seed in range(math.ceil(runs / AT_ONCE))]
            shares = np.concatenate(pool.starmap(coverage, jobs, chunksize=1), axis=1)
        for now, both in zip(TIMES, shares, strict=True):
            estimates = [estimate(values) for values in both.T]
            cells = [f"{mean:.1%} ± {error:.1%}" for mean, error in estimates]
            lines.append(f"| {exchange} | {prior} | {now / WINDOW:.2f} | {' | '.join(cells)} |")
            if not LOW <= estimates[0][0] <= HIGH:
                wrong.append(f"{lines[-1]} is not between {LOW:.0%} and {HIGH:.0%}")
    return "\n".join(lines), wrong
