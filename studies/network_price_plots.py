"""The figures of docs/network-price.md: the law, and where it fails."""

from __future__ import annotations

import math

from matplotlib.figure import Figure
from network_price_hypotheses import fit_slope, group_rows

from posse.lab.plots import COLOURS, style_axes
from posse.networks import Gossip, LinkFailure

FIGURES: dict[str, Figure] = {}  # by the name of a file in docs; `studies/run.py` writes them
MARKS = "osD^v"


def create_panels(file, titles):
    """Two axes side by side, on white so that a dark page shows them as well."""
    figure = Figure(figsize=(9.6, 4.2), dpi=100, layout="constrained", facecolor="white")
    FIGURES[file] = figure
    panels = figure.subplots(1, 2)
    for axes, title in zip(panels, titles, strict=True):
        style_axes(axes)
        axes.set_title(title, loc="left", fontsize=11)
    return panels


def name_kind(row):
    """The kind of a merge, for colours."""
    if isinstance(row.cell.network.dynamics, Gossip):
        return "dec-TS, gossip"
    if isinstance(row.cell.network.dynamics, LinkFailure):
        return "dec-TS, failing links"
    if row.cell.merge == "push-sum":
        return "push-sum"
    if row.cell.merge in ("Tree", "flooding"):
        return "Tree, flooding"
    return "dec-TS, static"


def draw_law(rows):
    """Penalty against S2 and against ln N / gap, of all cells with one bandit and horizon."""
    left, right = create_panels(
        "network-price-law.png",
        ("Penalty against the cost S2", "Penalty against ln N / (1 - $\\lambda_2$)"),
    )
    for number, (kind, group) in enumerate(group_rows(rows, name_kind).items()):
        style = {
            "fmt": MARKS[number], "color": COLOURS[number], "ms": 4.5, "alpha": 0.75, "lw": 0.8,
            "label": kind,
        }  # fmt: skip
        for axes, key in ((left, "cost"), (right, "term")):
            shown = [row for row in group if not math.isnan(getattr(row, key))]
            axes.errorbar(
                [getattr(row, key) for row in shown],
                [row.mean for row in shown],
                yerr=[1.96 * row.error for row in shown],
                **style,
            )
    ends = [0.0, max(row.cost for row in rows)]
    left.plot(ends, ends, color="0.5", lw=1, zorder=0, label="penalty = S2")
    left.set_xscale("symlog", linthresh=0.5)
    left.set_xlim(-0.02, 2 * ends[1])
    right.set_xscale("log")
    terms = [row.term for row in rows if not math.isnan(row.term)]
    right.set_xlim(min(terms) / 2, 2 * max(terms))
    left.set_xlabel("S2")
    right.set_xlabel("the network term of Theorem 1")
    for axes in (left, right):
        axes.set_yscale("symlog", linthresh=0.5)
        axes.set_ylim(-1, 2 * max(row.mean for row in rows))
        axes.set_ylabel("penalty, pulls per agent")
    left.legend(fontsize=8, frameon=False, loc="lower right")


def draw_limits(by_horizon, by_bandit):
    """Penalty over S2 by horizon, and slopes by gap."""
    left, right = create_panels(
        "network-price-limits.png",
        ("The penalty is a transient", "The slope depends on gaps and arms"),
    )
    graphs = group_rows(by_horizon, lambda row: row.cell.graph)
    for number, (name, group) in enumerate(graphs.items()):
        points = {row.cell.horizon: row for row in group}
        times = sorted(points)
        left.errorbar(
            times,
            [points[t].mean / points[t].cost for t in times],
            yerr=[1.96 * points[t].error / points[t].cost for t in times],
            color=COLOURS[number], marker=MARKS[number % len(MARKS)], ms=4.5, lw=1.2, label=name,
        )  # fmt: skip
    bandits = group_rows(
        by_bandit, lambda row: (row.cell.bandit.family.name, row.cell.bandit.n_arms)
    )
    for number, ((family, arms), rows) in enumerate(bandits.items()):
        gaps = group_rows(rows, lambda row: row.cell.gap)
        fits = [fit_slope(group) for group in gaps.values()]
        right.errorbar(
            list(gaps),
            [slope for slope, _ in fits],
            yerr=[1.96 * error for _, error in fits],
            color=COLOURS[number % 3], marker="os"[number // 3], ms=4.5, lw=1.2,
            ls=("-", "--")[number // 3], label=f"{family}, {arms} arms",
        )  # fmt: skip
    for axes, label in ((left, "rounds T"), (right, "gap")):
        axes.set_xscale("log")
        axes.axhline(0, color="0.5", lw=0.8, zorder=0)
        axes.set_xlabel(label)
        axes.legend(fontsize=8, frameon=False)
    left.set_xlim(40, 12_500)
    right.set_xlim(0.09, 0.9)
    right.set_xticks([0.1, 0.2, 0.4, 0.8], ["0.1", "0.2", "0.4", "0.8"])
    right.minorticks_off()
    left.set_ylabel("penalty / S2")
    right.set_ylabel("slope of penalty on S2, T = 1000")
