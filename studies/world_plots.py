"""The plots of docs/which-world.md: what it costs to take the world for another than it is."""

from __future__ import annotations

import math
import os

import numpy as np
from lab_false_winners import BERNOULLI, GAUSSIAN, experiment
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

import posse
from posse.lab.plots import COLOURS, style_axes

SEED = 12
TS = posse.ThompsonSampling()
FIGURES: dict[str, Figure] = {}  # by the name of a file in docs; `studies/run.py` writes them
HALF_LIVES = (3, 10, 30, 100, 300, 1000, None)
SPREADS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)
# visits
WINDOW = 1000
LONG = 3000
RATE = 0.03
ENOUGH = 100  # closed decisions, before which nothing is drawn of them
PULLS = 10_000


def axes_of(file, title, x, y):
    """Axes of a figure, on white so that a dark page shows it as well."""
    figure = Figure(figsize=(7.2, 3.6), dpi=100, layout="constrained", facecolor="white")
    FIGURES[file] = figure
    axes = figure.add_subplot()
    style_axes(axes)
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    return axes


def band(axes, x, values, label, colour, *, quantiles=False, marker="", dash="-"):
    """The mean over runs of values (runs, x), in its 95% interval or the middle 95% of runs."""
    mean = values.mean(axis=0)
    if quantiles:
        low, high = np.quantile(values, [0.025, 0.975], axis=0)
    else:
        error = 1.96 * values.std(axis=0, ddof=1) / len(values) ** 0.5
        low = mean - error
        high = mean + error
    look = {"color": COLOURS[colour], "marker": marker, "markersize": 4, "linestyle": dash}
    axes.plot(x, mean, label=label, **look)
    axes.fill_between(x, low, high, color=COLOURS[colour], alpha=0.2, linewidth=0)
    return mean


def regret(bandit, network, algorithm, horizon, runs):
    """Of each run at the end."""
    result = posse.simulate(
        bandit, network, algorithm, horizon=horizon, runs=runs, seed=SEED, record=[horizon],
        threads=os.cpu_count(),
    )  # fmt: skip
    return result.regret[:, -1]


def drift(runs):
    """Regret by half-life, where arms rotate and where nothing drifts."""
    worlds = {
        "the best arm changes every 500 rounds": posse.Bandit.gaussian(
            [0.8, 0.4, 0.2, 0.0, 0.0]
        ).drifting(every=500),
        "nothing drifts": posse.Bandit.gaussian([0.5, 0.4, 0.3, 0.2, 0.1]),
    }
    network = posse.networks.cycle(16)
    title = "Forgetting: too slow costs where arms change, too fast always"
    axes = axes_of(
        "world-drift.png", title, "half-life, rounds", "regret per agent after 3000 rounds"
    )
    places = range(len(HALF_LIVES))
    lines = []
    for colour, (name, bandit) in enumerate(worlds.items()):
        found = [
            regret(bandit, network, posse.Decentralized(TS, half_life=each), 3000, runs)
            for each in HALF_LIVES
        ]
        mean = band(axes, places, np.stack(found, axis=1), name, colour, marker="o")
        lines.append((f"{name}: regret by half-life 3 to never", [f"{m:.0f}" for m in mean], mean))
    axes.set_xticks(places, [str(h or "never") for h in HALF_LIVES])
    axes.margins(x=0.03)
    axes.set_ylim(0)
    axes.legend(frameon=False)
    best = [HALF_LIVES[int(mean.argmin())] for *_, mean in lines]
    wrong = [] if best[0] in (10, 30, 100) and best[1] is None else [f"the best half-lives: {best}"]
    return lines, wrong


def sites(runs):
    """Regret of pooling, isolation and partial pooling by how far sites differ."""
    algorithms = {
        'pooled: sites = "alike"': posse.Centralized(TS),
        "each alone": posse.Isolated(TS),
        'partial: sites = "differ"': posse.PartialPooling(TS),
    }
    title = "8 sites: partial pooling is near the better of both, wherever that is"
    axes = axes_of(
        "world-sites.png", title,
        "standard deviation between sites (the two best arms are 0.1 apart)",
        "regret per agent after 1500 rounds",
    )  # fmt: skip
    lines = []
    for colour, (name, algorithm) in zip((1, 2, 0), algorithms.items(), strict=True):
        found = [
            regret(
                posse.Bandit.gaussian([0.5, 0.4, 0.3, 0.2, 0.1], site_sd=sd),
                posse.networks.complete(8), algorithm, 1500, runs,
            )
            for sd in SPREADS
        ]  # fmt: skip
        mean = band(axes, SPREADS, np.stack(found, axis=1), name, colour, marker="o")
        lines.append((f"{name}: regret by spread 0 to 0.5", [f"{m:.0f}" for m in mean], mean))
    axes.set_yscale("log")
    axes.set_yticks([20, 50, 100, 200, 500], ["20", "50", "100", "200", "500"])
    axes.minorticks_off()
    axes.margins(x=0.03)
    axes.legend(frameon=False)
    pooled, alone, partial = (mean for *_, mean in lines)
    ratio = (partial / np.minimum(pooled, alone)).max()
    return lines, [f"partial pooling loses {ratio:.2f} times the better"] if ratio > 1.5 else []


def late_run(generator, looks):
    """Three means of one arm at each look: as they were heard, closed (shown) and acted on."""
    family = posse.families.Bernoulli()
    naive = posse.Agent(["offer"], family)
    agent = posse.Agent(["offer"], family, silent_default=0.0)
    success = generator.random(LONG) < RATE
    heard = np.arange(LONG) + np.where(success, generator.random(LONG) * WINDOW, WINDOW)
    events = sorted(
        [(t, 0, i) for i, t in enumerate(range(LONG))]
        + [(t, 1, i) for i, t in enumerate(heard.tolist())]
        + [(t + WINDOW, 2, i) for i, t in enumerate(range(LONG))]
        + [(t, 3, i) for i, t in enumerate(looks)]
    )
    made = {}
    shown = []
    for t, what, i in events:
        if t > LONG:
            break
        if what == 0:
            made[i] = agent.count_decision("offer", 0.0)
        elif what == 1:
            naive.learn("offer", float(success[i]))
            if success[i]:
                agent.correct_reward("offer", 0.0, 1.0, made[i])
        elif what == 2:
            agent.close_decision("offer", float(success[i]), made[i])
        else:
            acted = float(family.posterior_mean(agent.belief)[0])
            closed = agent.arms()["offer"]
            mean = closed.mean if closed.pulls_here >= ENOUGH else math.nan
            shown.append((naive.arms()["offer"].mean, mean, acted))
    return shown


def late(runs):
    """The shown rate over time where only successes are reported."""
    generator = np.random.default_rng(SEED)
    looks = np.arange(50, LONG + 1, 50).tolist()
    found = np.array([late_run(generator, looks) for _ in range(runs)])  # (runs, looks, 3)
    title = "Only successes are reported, within the window: what is shown of a rate of 3%"
    axes = axes_of("world-late.png", title, "windows since the start (one is 1000 visits)", "rate")
    names = (
        "successes when heard, failures when the window closes",
        "closed decisions, as agents show",
        "open ones count as failures, as agents act",
    )
    lines = []
    windows = np.array(looks) / WINDOW
    for colour, which in ((1, 0), (0, 1), (2, 2)):
        mean = band(axes, windows, found[..., which], names[which], colour, quantiles=True)
        at = [int(np.searchsorted(windows, w - 1e-9)) for w in (0.5, 1, 1.25, 1.5, 2, 3)]
        lines.append(
            (f"{names[which]}: rate after 0.5, 1, 1.25, 1.5, 2 and 3 windows",
             ["none" if math.isnan(mean[i]) else f"{mean[i]:.1%}" for i in at], mean)
        )  # fmt: skip
    axes.axhline(RATE, color="0.3", linewidth=1, linestyle=(0, (4, 3)))
    axes.annotate("the truth", (0.7, RATE), va="bottom", fontsize=9, color="0.3")
    axes.set_yscale("log")
    axes.set_yticks([0.01, 0.03, 0.1, 0.3, 1], ["1%", "3%", "10%", "30%", "100%"])
    axes.minorticks_off()
    axes.legend(frameon=False)
    end = lines[1][2][-1]
    return lines, [] if abs(end - RATE) < 0.01 else [f"closed decisions show {end:.3f}"]


def stopping(runs):
    """In how many experiments between equal arms somebody has stopped at a false winner."""
    title = "Two equal arms, looked at after every pull: false winners so far"
    axes = axes_of(
        "world-stopping.png",
        title,
        "pulls, of both arms together",
        "experiments with a false winner",
    )
    times = np.geomspace(10, PULLS, 200)
    lines = []
    wrong = []
    for rule, fraction in (("P(best) ≥ 95%, Thompson Sampling", 0.0), ("verdict, top-two", 0.5)):
        for name, kind, mean, dash in (
            ("Gaussian", GAUSSIAN, 0.3, "-"), ("rates of 3%", BERNOULLI, 0.03, "--")
        ):  # fmt: skip
            found = [experiment(kind, fraction, [mean] * 2, PULLS, [SEED, r]) for r in range(runs)]
            if fraction:
                stops = [math.inf if winner is None else winner[0] for winner, _ in found]
            else:
                stops = [sure[0] or math.inf for _, sure in found]
            share = (np.array(stops)[:, None] <= times).mean(axis=0)
            look = {"color": COLOURS[0 if fraction else 1], "linestyle": dash}
            axes.plot(times, share, label=f"{rule}, {name}", **look)
            shown = [f"{share[np.searchsorted(times, t - 1e-6)]:.1%}" for t in (100, 1000, PULLS)]
            lines.append(
                (f"{rule}, {name}: false winners by 100, 1000, 10,000 pulls", shown, share)
            )
            if fraction and share[-1] > 0.05:
                wrong.append(f"{name}: the verdict is false in {share[-1]:.1%}")
    axes.axhline(0.05, color="0.3", linewidth=1, linestyle=(0, (4, 3)))
    axes.annotate(
        "promised: at most 5%", (11, 0.055), ha="left", va="bottom", fontsize=9, color="0.3"
    )
    axes.set_xscale("log")
    axes.set_xticks([10, 100, 1000, PULLS], ["10", "100", "1000", "10,000"])
    axes.set_ylim(-0.01, 1)
    axes.yaxis.set_major_formatter(PercentFormatter(1, 0))
    axes.legend(frameon=False, loc="upper left")
    return lines, wrong


def study(runs=40):
    """The numbers behind the plots of docs/which-world.md, which are drawn in FIGURES."""
    rows = [f"| seed {SEED} | runs | |", "|---|---|---|"]
    wrong = []
    for draw, many in ((late, runs), (sites, runs), (drift, runs // 2), (stopping, 10 * runs)):
        lines, broken = draw(max(2, many))
        rows += [f"| {name} | {many} | {', '.join(cells)} |" for name, cells, _ in lines]
        wrong += broken
    return "\n".join(rows), wrong
