"""How often an arm that `posse.verdict` calls good enough loses more than the tolerance.

Many experiments at once are played by Thompson Sampling and looked at every 100 visits, until an
arm is named. A rough screen by draws from the posterior decides where `posse.verdict` is asked. The
second table plays all arms equally often, and holds each forecast against the visits that the
winner then took.
"""

from __future__ import annotations

import numpy as np

import posse
from posse.stopping import LEAST_PULLS, forecast_pulls

SEED = 12
ERROR = 0.05
FAMILY = posse.families.Bernoulli()
EVERY = 100  # visits between two looks
HORIZON = 20_000
DRAWS = 400  # of the screen
RATES = {
    "2, 3, 4%": (0.02, 0.03, 0.04),
    "3, 3, 3, 4%": (0.03, 0.03, 0.03, 0.04),
    "5, 6%": (0.05, 0.06),
    "0.5, 0.7%": (0.005, 0.007),
    "30, 33, 36%": (0.30, 0.33, 0.36),
}
TOLERANCES = ("10%", 0.005)
FORECASTS = {"5, 3%": (0.05, 0.03), "4, 3, 2%": (0.04, 0.03, 0.02)}
MOST = 0.10  # of the experiments may name an arm that loses more than the tolerance


def play_until_named(rates, tolerance, runs):
    """Return the arm named in each run (-1: none) and after how many visits: each (runs,)."""
    rng = np.random.default_rng(SEED)
    true = np.array(rates)
    wins = np.ones((runs, len(true)))
    losses = np.ones((runs, len(true)))
    named = np.full(runs, -1)
    visits = np.full(runs, HORIZON)
    every_run = np.arange(runs)
    for visit in range(1, HORIZON + 1):
        arms = rng.beta(wins, losses).argmax(axis=1)
        rewarded = rng.random(runs) < true[arms]
        wins[every_run, arms] += rewarded
        losses[every_run, arms] += ~rewarded
        if visit % EVERY:
            continue
        for run in screen_runs(wins, losses, tolerance, named, rng):
            answer = posse.verdict(FAMILY, np.array([wins[run], losses[run]]), ERROR, tolerance)
            if answer.verdict != "keep-going":
                named[run] = answer.arm
                visits[run] = visit
        if (named >= 0).all():
            break
    return named, visits


def screen_runs(wins, losses, tolerance, named, rng):
    """Return the runs in which an arm may be named now."""
    waiting = np.flatnonzero((named < 0) & ((wins + losses - 2).min(axis=1) >= LEAST_PULLS))
    if not len(waiting):
        return waiting
    (a, b) = (wins[waiting], losses[waiting])
    means = rng.beta(a, b, size=(DRAWS, *a.shape))
    size = find_size(tolerance, (a - 1) / (a + b - 2))
    within = (means.max(axis=2, keepdims=True) - means <= size[:, None]).mean(axis=0).max(axis=1)
    return waiting[within >= 1 - ERROR]


def find_size(tolerance, rates):
    """Return the difference that a tolerance means in each run: (runs, K) -> (runs,)."""
    leader = rates.max(axis=-1)
    return 0.1 * leader if tolerance == "10%" else np.full(leader.shape, tolerance)


def follow_forecasts(rates, runs):
    """Return for each forecast of each run: (least, likely, most, the visits that it took)."""
    rng = np.random.default_rng(SEED)
    found = []
    for _ in range(runs):
        belief = np.ones((2, len(rates)))
        forecasts = []
        for visits in range(0, 100_000, 200 * len(rates)):
            answer = posse.verdict(FAMILY, belief, ERROR)
            if answer.verdict == "winner":
                found += [(*forecast, visits - at) for at, forecast in forecasts]
                break
            forecast = forecast_pulls(FAMILY, belief, answer.needed, answer.arm)
            if forecast is not None:
                most = np.inf if forecast.most is None else forecast.most
                forecasts.append((visits, (forecast.least, forecast.likely, most)))
            rewarded = rng.binomial(200, rates)
            belief += [rewarded, 200 - rewarded]
    return np.array(found)


def study(runs=400):
    """The tables of docs/stopping.md, and what in them breaks a promise."""
    wrong = []
    lines = [
        f"| {runs} experiments each, rates of the arms | tolerance | named | median visits | "
        "named arm loses more |",
        "|---|---|---|---|---|",
    ]
    for name, rates in RATES.items():
        for tolerance in TOLERANCES:
            named, visits = play_until_named(rates, tolerance, runs)
            true = np.array(rates)
            limit = 0.1 * true.max() if tolerance == "10%" else tolerance
            lost = true.max() - true[named[named >= 0]]
            share = float((lost > limit + 1e-12).sum() / runs)
            lines.append(
                f"| {name} | {tolerance} | {np.mean(named >= 0):.0%} | {np.median(visits):,.0f} | "
                f"{share:.1%} |"
            )
            if share > MOST:
                wrong.append(f"{name}, tolerance {tolerance}: {share:.1%} lose more")
    few = max(4, runs // 10)
    lines += [
        "",
        f"| {few} experiments each, rates of the arms | forecasts | within their bounds | "
        "without an upper bound | likely / true, median |",
        "|---|---|---|---|---|",
    ]
    for name, rates in FORECASTS.items():
        (least, likely, most, took) = follow_forecasts(rates, few).T
        inside = (least <= took) & (took <= most)
        lines.append(
            f"| {name} | {len(took):,} | {inside.mean():.0%} | {np.isinf(most).mean():.0%} | "
            f"{np.median(likely / took):.2f} |"
        )
    return "\n".join(lines), wrong
