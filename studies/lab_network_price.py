"""Regret against the cost of a network: eleven tables and hypotheses written before their runs.

    .venv/bin/python studies/run.py lab_network_price                  # all tables
    .venv/bin/python studies/run.py lab_network_price --only sizes     # one
    .venv/bin/python studies/run.py lab_network_price --runs 20 --show # a look, nothing is written

Parts are kept in results/network-price, so that a study that was interrupted goes on. All cells are
written to results/network-price/cells.csv. The cells are in network_price_cells.py, the hypotheses
in three files network_price_hypotheses*.md and, as code, in network_price_hypotheses.py.
"""

from __future__ import annotations

import csv
import math
import sys
from dataclasses import replace
from pathlib import Path

import network_price_cells as cells
import numpy as np
from network_price_hypotheses import (
    HYPOTHESES,
    RESAMPLES,
    Row,
    compare_weights,
    correlate_cost,
    correlate_term,
    count_ordered_pairs,
    fit_slope,
    group_rows,
    judge,
    resample_graphs,
)
from network_price_plots import FIGURES, draw_law, draw_limits
from scipy.stats import beta

import posse
from posse import networks
from posse.lab.jobs.results_cache import PartStore
from posse.lab.jobs.scheduler import complete_jobs

__all__ = ["FIGURES", "TABLES", "study"]

RESULTS = Path(__file__).parent.parent / "results" / "network-price"
SEED = 1
PLANNED = 200  # runs a cell of the plan, on which verdicts depend
RUNS = 800  # runs a cell of the tables: those of the plan and more
PLANS = {"unequal": "later", "late": "later", "scale": "scale"}  # the file of a table's hypotheses
MORE = {"varying": 3200}  # H5 was still close with 800

# Runs ----------------------------------------------------------------------------------------


def play(cell, runs):
    """Penalty of every run in pulls per agent, (R,), from stored parts where they are there."""
    central = posse.Centralized(cell.policy)
    # the floor does not use the network, so all merges of a bandit and size share its runs
    floor = networks.complete(cell.network.n_agents)
    regrets = [
        load_or_play(replace(cell, network=network, algorithm=algorithm), runs)
        for network, algorithm in ((cell.network, cell.algorithm), (floor, central))
    ]
    return (regrets[0] - regrets[1]) / cell.gap


def load_or_play(cell, runs):
    """Final regret of every run, (R,)."""
    experiment = posse.Experiment(
        cell.bandit, cell.network, {"it": cell.algorithm}, cell.horizon,
        runs=runs, seed=SEED, record=2,
    )  # fmt: skip
    store = PartStore(RESULTS / "parts")
    (job,) = experiment.jobs().values()
    complete_jobs([job], store)
    return store.load_result(job).regret[:, -1]


def measure(table, runs):
    """Play all cells of a table."""
    rows = []
    for cell in table:
        cost = cells.compute_cost(cell)
        row = Row(cell, cost, cells.theorem_term(cell), play(cell, runs))
        rows.append(row)
        print(
            f"{cell.graph}, {cell.merge}, T = {cell.horizon}: S2 {row.cost:.2f}, penalty "
            f"{row.mean:.2f} ± {row.error:.2f}",
            file=sys.stderr,
            flush=True,
        )
    return rows


# Tables --------------------------------------------------------------------------------------


def format_table(first, head, lines):
    """A table in Markdown."""
    rows = [[first, *head], ["---"] * (len(head) + 1), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def format_penalty(row):
    """A penalty and its standard error."""
    return f"{row.mean:.1f} ± {row.error:.1f}"


def format_slope(rows):
    """A slope and its standard error."""
    slope, error = fit_slope(rows)
    return f"{slope:.2f} ± {error:.2f}"


HEAD = ["cells", "rank correlation with S2 (95% over graphs)", "with ln N / gap", "slope on S2"]


def describe(rows):
    """Correlations and the slope of some rows, as fields of a table."""
    has_terms = not any(math.isnan(row.term) for row in rows)
    term = f"{correlate_term(rows):.2f}" if has_terms else "-"
    return [str(len(rows)), format_correlation(rows), term, format_slope(rows)]


def format_correlation(rows):
    """The correlation with S2; from ten graphs on with an interval over the choice of graphs."""
    text = f"{correlate_cost(rows):.2f}"
    if len(group_rows(rows, lambda row: row.cell.graph)) < 10:
        return text
    generator = np.random.default_rng(1)
    drawn = [correlate_cost(resample_graphs(rows, generator)) for _ in range(RESAMPLES)]
    low, high = np.quantile(drawn, (0.025, 0.975))
    return f"{text} ({low:.2f} to {high:.2f})"


def summarise_groups(first, rows, key):
    """One line for each group and one for all."""
    lines = [[str(name), *describe(group)] for name, group in group_rows(rows, key).items()]
    return format_table(first, HEAD, [*lines, ["all", *describe(rows)]])


def list_cells(rows, key):
    """The S2 and the penalty of every cell: a line for each graph, a column for each key."""
    columns = list(group_rows(rows, key))
    lines = []
    for graph, group in group_rows(rows, lambda row: row.cell.graph).items():
        texts = {key(row): f"{row.cost:.2f}: {format_penalty(row)}" for row in group}
        lines.append([graph, *(texts.get(column, "-") for column in columns)])
    return format_table("S2: penalty", [str(column) for column in columns], lines)


def report_graphs(rows):
    """Static graphs by weights."""
    summary = summarise_groups("weights", rows, lambda row: row.cell.merge)
    return f"{summary}\n\n{list_cells(rows, lambda row: row.cell.merge)}"


def report_merges(rows):
    """Merges of one graph."""
    summary = summarise_groups("merge", rows, lambda row: row.cell.merge)
    # N S2 of these two is the mean number of rounds for which an observation is missing
    waits = [
        replace(row, cost=row.cell.network.n_agents * row.cost)
        for row in rows
        if row.cell.merge in ("Tree", "flooding")
    ]
    slope, error = fit_slope(waits)
    delay = (
        f"Tree and flooding: {slope:.3f} ± {error:.3f} pulls for each round of mean delay, N S2."
    )
    return f"{summary}\n\n{delay}\n\n{list_cells(rows, lambda row: row.cell.merge)}"


def split_name(row):
    """The graph and the dynamics of a row of the third table."""
    return row.cell.graph.rsplit(", ", 1)


def report_varying(rows):
    """Networks by their dynamics."""
    summary = summarise_groups("dynamics", rows, lambda row: split_name(row)[1])
    # a line for each graph: its name is that of the cell without its dynamics
    named = [
        replace(row, cell=replace(row.cell, graph=graph, merge=dynamics))
        for row, (graph, dynamics) in zip(rows, map(split_name, rows), strict=True)
    ]
    return f"{summary}\n\n{list_cells(named, lambda row: row.cell.merge)}"


def report_sizes(rows):
    """Penalties by graph and size."""
    named = [replace(row, cell=replace(row.cell, graph=row.cell.graph.split()[0])) for row in rows]
    summary = format_table("", HEAD, [["all", *describe(rows)]])
    return f"{summary}\n\n{list_cells(named, lambda row: row.cell.network.n_agents)}"


def name_bandit(row):
    """The name of a bandit with different gaps, or its family, gap and arms."""
    names = {repr(bandit): name for name, bandit in cells.UNEQUAL.items()}
    return names.get(repr(row.cell.bandit), row.bandit)


def report_bandits(rows):
    """Penalties and slopes by bandit."""
    lines = []
    for name, group in group_rows(rows, name_bandit).items():
        right, significant = count_ordered_pairs(group)
        penalties = [format_penalty(row) for row in group]
        lines.append([name, *penalties, f"{right} of {significant}", format_slope(group)])
    return format_table("penalty", [*cells.FOUR, "pairs in order", "slope"], lines)


def report_horizons(rows):
    """The penalty over S2 by horizon, with its standard error."""
    lines = []
    graphs = group_rows(rows, lambda row: row.cell.graph)
    for name, group in graphs.items():
        ratios = [f"{row.mean / row.cost:.2f} ± {row.error / row.cost:.2f}" for row in group]
        lines.append([name, *ratios])
    head = [f"T = {row.cell.horizon:,}" for row in next(iter(graphs.values()))]
    return format_table("penalty / S2", head, lines)


def report_policies(rows):
    """Bayes-UCB in one line."""
    summary = format_table("policy", HEAD, [["Bayes-UCB", *describe(rows)]])
    return f"{summary}\n\n{list_cells(rows, lambda row: 'Bayes-UCB')}"


def report_weights(rows):
    """Least-squares against Metropolis weights."""
    lines = []
    for name, (metropolis, least) in group_rows(rows, lambda row: row.cell.graph).items():
        mean, half = compare_weights(metropolis, least)
        costs = f"{metropolis.cost:.2f} and {least.cost:.2f}"
        lines.append([name, costs, f"{mean:+.2f} ({mean - half:+.2f} to {mean + half:+.2f})"])
    head = ["S2 of Metropolis and least-squares", "difference of regret, paired, 95%"]
    return format_table("", head, lines)


def report_scale(rows):
    """The penalty in regret over the formula, by bandit and graph."""
    lines = []
    graphs = list(group_rows(rows, lambda row: row.cell.graph))
    for group in group_rows(rows, lambda row: repr(row.cell.bandit)).values():
        bandit = group[0].cell.bandit
        pattern = "equal" if len(set(bandit.means)) == 2 else "even"
        name = f"{bandit.n_arms}, {bandit.family.sigma:g}, {group[0].cell.gap:.1f}, {pattern}"
        lines.append([name, *(format_ratio(row) for row in group)])
    return format_table("arms, sigma, mean gap, gaps", graphs, lines)


def format_ratio(row):
    """The penalty in regret over the formula, and its standard error."""
    return f"{row.regret / row.scale:.2f} ± {row.error * row.cell.gap / row.scale:.2f}"


TABLES = {
    "graphs": (cells.list_graphs, report_graphs),
    "merges": (cells.list_merges, report_merges),
    "varying": (cells.list_varying, report_varying),
    "sizes": (cells.list_sizes, report_sizes),
    "bandits": (cells.list_bandits, report_bandits),
    "horizons": (cells.list_horizons, report_horizons),
    "policies": (cells.list_policies, report_policies),
    "weights": (cells.list_weights, report_weights),
    "unequal": (cells.list_unequal, report_bandits),
    "late": (cells.list_late, report_horizons),
    "scale": (cells.list_scale, report_scale),
}

# Verdicts ------------------------------------------------------------------------------------


def report_verdicts(measured):
    """A table of the hypotheses: as planned and, if there are more, by all runs."""
    head = ["table", "claim", "as planned", "by all runs"]
    lines = []
    confirmed = {}
    for hypothesis in HYPOTHESES:
        if hypothesis.table not in measured:
            continue
        rows = measured[hypothesis.table]
        planned = judge(hypothesis, [replace(row, penalty=row.penalty[:PLANNED]) for row in rows])
        confirmed.setdefault(PLANS.get(hypothesis.table, "first"), []).append(planned.holds)
        line = [hypothesis.name, hypothesis.table, hypothesis.claim, str(planned)]
        runs = len(rows[0].penalty)
        line.append(f"{judge(hypothesis, rows)}, {runs} runs" if runs > PLANNED else "-")
        lines.append(line)
        print(" | ".join(line), file=sys.stderr, flush=True)
    shares = "; ".join(format_share(plan, verdicts) for plan, verdicts in confirmed.items())
    share = (
        f"Confirmed as planned, with {PLANNED} runs a cell or as many as there are (95% intervals "
        f"as if hypotheses were independent): {shares}."
    )
    return format_table("", head, lines) + f"\n\n{share}"


def format_share(plan, verdicts):
    """How many hypotheses of a plan were confirmed, with an interval of the share."""
    low, high = find_share_interval(sum(verdicts), len(verdicts))
    return f"{plan} plan {sum(verdicts)} of {len(verdicts)} ({low:.0%} to {high:.0%})"


def find_share_interval(successes, trials):
    """The 95% interval of Clopper and Pearson."""
    low = beta.ppf(0.025, successes, trials - successes + 1) if successes > 0 else 0.0
    high = beta.ppf(0.975, successes + 1, trials - successes) if successes < trials else 1.0
    return float(low), float(high)


def write_cells(measured):
    """All cells of some tables as a file."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    with (RESULTS / "cells.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["table", "graph", "merge", "bandit", "T", "S2", "term", "penalty", "se"])
        for table, rows in measured.items():
            for row in rows:
                cell = row.cell
                writer.writerow([table, cell.graph, cell.merge, cell.bandit, cell.horizon,
                                 row.cost, row.term, row.mean, row.error])  # fmt: skip


def study(runs=None, only=None):
    """The tables of the page; a hypothesis may fail, which breaks no promise."""
    chosen = TABLES if only is None else {only: TABLES[only]}
    measured = {
        name: measure(list_table(), runs or MORE.get(name, RUNS))
        for name, (list_table, _) in chosen.items()
    }
    parts = ["**Hypotheses**", report_verdicts(measured)]
    for name, (_, report) in chosen.items():
        rows = measured[name]
        title = f"**{name.capitalize()}**, {len(rows[0].penalty)} runs a cell"
        parts += [title, report(rows)]
    write_cells(measured)
    if only is None:
        law = [row for name in ("graphs", "merges", "varying", "sizes") for row in measured[name]]
        draw_law(law)
        draw_limits([*measured["horizons"], *measured["late"]], measured["bandits"])
    return "\n\n".join(parts), []
