"""Regret against the cost of a network: eight tables, whose hypotheses are in a file beside this.

    .venv/bin/python studies/run.py lab_network_price                  # all tables
    .venv/bin/python studies/run.py lab_network_price --only sizes     # one

Parts are kept in results/network-price, so that a study that was interrupted goes on. All cells are
written to results/network-price/cells.csv. network_price_hypotheses.md was written before any run.
"""

from __future__ import annotations

import csv
import itertools
import math
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

import posse
from posse import networks, theory
from posse.lab.jobs.results_cache import PartStore
from posse.lab.jobs.scheduler import complete_jobs

HERE = Path(__file__).parent.parent
RESULTS = HERE / "results" / "network-price"
SEED = 1
RULES = ("max-degree", "metropolis", "lazy", "least-squares")
TS = posse.ThompsonSampling()
CLIQUE = list(itertools.combinations(range(15), 2))
BARBELL = networks.from_edges(
    [*CLIQUE, *((i + 19, j + 19) for i, j in CLIQUE), *((i, i + 1) for i in range(14, 19))]
)
GRAPHS = {
    "cycle 36": networks.cycle(36),
    "cycle 100": networks.cycle(100),
    "path 36": networks.path(36),
    "path 64": networks.path(64),
    "star 36": networks.star(36),
    "star 100": networks.star(100),
    "grid 64": networks.grid(8, 8),
    "ring 2 x 2, 64": networks.regular_ring(64, 2),
    "hypercube 64": networks.hypercube(6),
    "attachment 1, 48": networks.barabasi_albert(48, 1, seed=11),
    "attachment 2, 60": networks.barabasi_albert(60, 2, seed=11),
    "random 50": networks.erdos_renyi(50, 0.1, seed=13),
    "small world 80": networks.watts_strogatz(80, 4, 0.1, seed=11),
    "barbell 34": BARBELL,
}
FOUR = ("cycle 36", "star 36", "grid 64", "attachment 1, 48")


@dataclass(frozen=True)
class Cell:
    """One merge on one network, with one bandit and horizon."""

    graph: str
    merge: str
    network: networks.Network
    algorithm: object
    bandit: posse.Bandit
    horizon: int
    policy: object = TS

    @property
    def gap(self):
        """The gap of all arms but the best."""
        return float(self.bandit.gaps.max())


def create_bandit(family="gaussian", gap=0.4, arms=17):
    """One good arm of mean 0.5, all others a gap below; Bernoulli arms lie around one half."""
    if family == "gaussian":
        return posse.Bandit.gaussian([0.5] + [0.5 - gap] * (arms - 1))
    return posse.Bandit.bernoulli([0.5 + gap / 2] + [0.5 - gap / 2] * (arms - 1))


BANDIT = create_bandit()


def create_cell(graph, network, rule="max-degree", bandit=BANDIT, horizon=500, policy=TS):
    """Algorithm 1 on a network with weights by a rule."""
    if rule != "max-degree":
        network = network.weighted(rule)
    return Cell(graph, rule, network, posse.Decentralized(policy), bandit, horizon, policy)


# Tables --------------------------------------------------------------------------------------


def list_graphs():
    """Static graphs with four weight rules."""
    return [create_cell(name, net, rule) for name, net in GRAPHS.items() for rule in RULES]


def list_merges():
    """Other merges on the same graphs."""
    cells = [create_cell(name, network) for name, network in GRAPHS.items()]
    others = {"Tree": posse.Tree(TS), "flooding": posse.Flooding(TS)}
    push_sum = getattr(posse, "PushSum", None)
    if push_sum is not None:
        others["push-sum"] = push_sum(TS)
    for name, network in GRAPHS.items():
        cells += [
            Cell(name, merge, network, algorithm, BANDIT, 500)
            for merge, algorithm in others.items()
        ]
    if push_sum is not None:
        for seed in (1, 2, 3):
            network = create_directed(40, 3, seed)
            cells.append(
                Cell(f"directed 40, {seed}", "push-sum", network, push_sum(TS), BANDIT, 500)
            )
    return cells


def create_directed(agents, out_degree, seed):
    """A strongly connected directed graph: a ring, and random links besides."""
    generator = np.random.default_rng(seed)
    edges = {(i, (i + 1) % agents) for i in range(agents)}
    for i in range(agents):
        others = [j for j in range(agents) if j not in (i, (i + 1) % agents)]
        edges |= {(i, int(j)) for j in generator.choice(others, out_degree - 1, replace=False)}
    return networks.from_edges(sorted(edges), directed=True)


def list_varying():
    """Failing links and gossip."""
    graphs = {name: GRAPHS[name] for name in ("cycle 36", "grid 64", "star 36", "attachment 1, 48")}
    graphs["complete 36"] = networks.complete(36)
    cells = []
    for name, network in graphs.items():
        for p in (0.5, 0.8):
            cells.append(create_cell(f"{name}, failing {p}", network.failing(p)))
        cells.append(create_cell(f"{name}, gossip", network.gossip()))
    return cells


def list_sizes():
    """The same graphs from 9 to 400 agents."""
    cells = []
    for agents in (9, 25, 64, 144, 400):
        side = math.isqrt(agents)
        graphs = {
            "cycle": networks.cycle(agents),
            "star": networks.star(agents),
            "grid": networks.grid(side, side),
            "attachment": networks.barabasi_albert(agents, 1, seed=11),
        }
        cells += [create_cell(f"{name} {agents}", network) for name, network in graphs.items()]
    return cells


def list_bandits():
    """Four graphs under 24 bandits."""
    return [
        create_cell(name, GRAPHS[name], bandit=create_bandit(family, gap, arms), horizon=1000)
        for family in ("gaussian", "bernoulli")
        for gap in (0.1, 0.2, 0.4, 0.8)
        for arms in (2, 5, 17)
        for name in FOUR
    ]


def list_horizons():
    """Four graphs, from 50 to 3000 rounds."""
    names = ("cycle 100", "star 36", "path 64", "attachment 1, 48")
    horizons = (50, 100, 300, 1000, 3000)
    return [create_cell(name, GRAPHS[name], horizon=t) for name in names for t in horizons]


def list_policies():
    """Bayes-UCB on the static graphs."""
    policy = posse.BayesUCB()
    return [create_cell(name, network, policy=policy) for name, network in GRAPHS.items()]


def list_weights():
    """Least-squares against Metropolis weights."""
    rules = ("metropolis", "least-squares")
    return [create_cell(name, network, rule) for name, network in GRAPHS.items() for rule in rules]


# Costs ---------------------------------------------------------------------------------------


def compute_cost(cell):
    """S2 of a cell, cut at its horizon, by the weights of its merge."""
    if cell.merge == "push-sum":
        return push_sum_cost(cell.network, cell.horizon)
    if cell.merge in ("Tree", "flooding"):
        return distance_cost(cell.network, cell.merge == "Tree")
    return theory.network_cost(cell.network, cell.horizon).total


def push_sum_cost(network, rounds):
    """(1/N) sum over t of ||((A^t)_ij / pi_i - 1) / N||^2, A the equal splits of all agents."""
    n_agents = network.n_agents
    shares = np.eye(n_agents)
    sender, receiver = network.edges.T
    shares[receiver, sender] = 1.0
    if not getattr(network, "is_directed", False):
        shares[sender, receiver] = 1.0
    shares /= shares.sum(axis=0)
    values, vectors = np.linalg.eig(shares)
    mass = np.real(vectors[:, np.argmax(values.real)])
    mass = mass / mass.sum()
    power = np.eye(n_agents)
    total = 0.0
    for _ in range(rounds):
        power = shares @ power
        total += float((((power / mass[:, None] - 1) / n_agents) ** 2).sum())
    return total / n_agents


def distance_cost(network, tree):
    """Sum over pairs of max(d - 1, 0) / N^3: 1/N once an observation has arrived, 0 before."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import shortest_path

    edges = networks.spanning_tree(network) if tree else network.edges
    ones = np.ones(len(edges))
    n_agents = network.n_agents
    links = coo_array((ones, (edges[:, 0], edges[:, 1])), shape=(n_agents, n_agents))
    distances = shortest_path(links, directed=False, unweighted=True)
    return float(np.maximum(distances - 1, 0).sum()) / n_agents**3


def theorem_term(cell):
    """ln N / (1 - lambda_2); NaN for merges without doubly stochastic weights."""
    if cell.merge in ("push-sum", "Tree", "flooding"):
        return math.nan
    return math.log(cell.network.n_agents) / cell.network.spectral_gap


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


@dataclass(frozen=True)
class Row:
    """A cell with what was measured."""

    cell: Cell
    cost: float
    term: float
    penalty: np.ndarray  # (R,)

    @property
    def mean(self):
        """The mean penalty."""
        return float(self.penalty.mean())

    @property
    def error(self):
        """Its standard error."""
        return float(self.penalty.std(ddof=1) / len(self.penalty) ** 0.5)


def measure(cells, runs):
    """Play all cells."""
    rows = []
    for cell in cells:
        rows.append(Row(cell, compute_cost(cell), theorem_term(cell), play(cell, runs)))
        row = rows[-1]
        print(
            f"{cell.graph}, {cell.merge}: S2 {row.cost:.2f}, penalty {row.mean:.2f} ± "
            f"{row.error:.2f}",
            file=sys.stderr,
            flush=True,
        )
    return rows


# Statistics ----------------------------------------------------------------------------------


def fit_slope(rows):
    """Slope of penalty on S2 through the origin, and its standard error from residuals."""
    cost = np.array([row.cost for row in rows])
    penalty = np.array([row.mean for row in rows])
    slope = float(cost @ penalty / (cost @ cost))
    residuals = penalty - slope * cost
    error = math.sqrt(float(residuals @ residuals) / max(len(rows) - 1, 1) / float(cost @ cost))
    return slope, error


def rank_correlation(rows, key):
    """Spearman's correlation of the penalty with a number of the rows."""
    pairs = [(key(row), row.mean) for row in rows if not math.isnan(key(row))]
    return float(spearmanr(*zip(*pairs, strict=True)).statistic)


def count_ordered_pairs(rows):
    """Pairs whose penalties differ significantly, and how many of them S2 orders rightly."""
    significant = 0
    right = 0
    for first, second in itertools.combinations(rows, 2):
        apart = second.mean - first.mean
        # different networks share only the seed, so the errors add up
        if abs(apart) > 1.96 * math.hypot(first.error, second.error):
            significant += 1
            right += (second.cost - first.cost) * apart > 0
    return right, significant


def group_rows(rows, key):
    """Rows by a key, in order of first appearance."""
    groups = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def describe(rows):
    """Correlations and the slope of some rows, as cells."""
    slope, error = fit_slope(rows)
    by_term = [row for row in rows if not math.isnan(row.term)]
    term = f"{rank_correlation(rows, lambda row: row.term):.2f}" if len(by_term) > 2 else "-"
    by_cost = f"{rank_correlation(rows, lambda row: row.cost):.2f}" if len(rows) > 2 else "-"
    return [str(len(rows)), by_cost, term, f"{slope:.2f} ± {error:.2f}"]


HEAD = ["cells", "rank correlation with S2", "with ln N / gap", "slope on S2"]


def format_table(first, head, lines):
    """A table in Markdown."""
    rows = [[first, *head], ["---"] * (len(head) + 1), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def summarise_groups(first, rows, key):
    """One line for each group and one for all."""
    groups = group_rows(rows, key)
    lines = [[str(name), *describe(group)] for name, group in groups.items()]
    return format_table(first, HEAD, [*lines, ["all", *describe(rows)]])


def judge(text, holds):
    """A verdict on a hypothesis."""
    return f"{text}: **{'confirmed' if holds else 'not confirmed'}**."


def report_graphs(rows):
    """H1 and H2."""
    slope, _ = fit_slope(rows)
    by_cost = rank_correlation(rows, lambda row: row.cost)
    by_term = rank_correlation(rows, lambda row: row.term)
    return summarise_groups("weights", rows, lambda row: row.cell.merge), [
        judge(f"H1, correlation {by_cost:.2f} against {by_term:.2f}",
              by_cost >= 0.9 and by_cost >= by_term + 0.15),
        judge(f"H2, slope {slope:.2f}", 0.6 <= slope <= 1.3),
    ]  # fmt: skip


def report_merges(rows):
    """H3 and H4."""
    counts = [
        count_ordered_pairs(group) for group in group_rows(rows, lambda r: r.cell.graph).values()
    ]
    right = sum(count[0] for count in counts)
    significant = sum(count[1] for count in counts)
    share = right / max(significant, 1)
    verdicts = [judge(f"H3, {right} of {significant} significant pairs in order", share >= 0.8)]
    pushed = [row for row in rows if row.cell.merge == "push-sum"]
    if pushed:
        slope, _ = fit_slope(pushed)
        verdicts.append(judge(f"H4, slope of push-sum {slope:.2f}", 0.4 <= slope <= 1.6))
    return summarise_groups("merge", rows, lambda row: row.cell.merge), verdicts


def report_varying(rows):
    """H5; the slope of static graphs is that of the same graphs with max-degree weights."""
    static = measure(
        [create_cell(name, GRAPHS[name]) for name in (*FOUR, "path 36", "cycle 100")],
        len(rows[0].penalty),
    )
    ratio = fit_slope(rows)[0] / fit_slope(static)[0]
    by_cost = rank_correlation(rows, lambda row: row.cost)
    kinds = summarise_groups("dynamics", rows, lambda row: row.cell.graph.split(", ")[-1])
    text = f"H5, correlation {by_cost:.2f}, slope {ratio:.2f} times that of static graphs"
    return kinds, [judge(text, by_cost >= 0.9 and 1 / 1.4 <= ratio <= 1.4)]


def report_sizes(rows):
    """H6."""
    by_cost = rank_correlation(rows, lambda row: row.cost)
    graphs = group_rows(rows, lambda row: row.cell.graph.split()[0])
    grows = all(
        first.mean < second.mean
        for name in ("cycle", "star")
        for first, second in itertools.pairwise(graphs[name])
    )
    lines = [
        [name, *(f"{row.mean:.1f} ± {row.error:.1f} ({row.cost:.1f})" for row in group)]
        for name, group in graphs.items()
    ]
    sizes = [str(row.cell.network.n_agents) for row in graphs["cycle"]]
    growth = "grow" if grows else "do not always grow"
    text = f"H6, correlation {by_cost:.2f}, penalties of cycles and stars {growth} with N"
    return format_table("penalty (S2)", sizes, lines), [judge(text, by_cost >= 0.9 and grows)]


def report_bandits(rows):
    """H7 and H8."""

    def name_bandit(row):
        bandit = row.cell.bandit
        return f"{bandit.family.name}, gap {row.cell.gap:.1f}, {bandit.n_arms} arms"

    groups = group_rows(rows, name_bandit)
    lines = []
    ordered = 0
    for name, group in groups.items():
        right, significant = count_ordered_pairs(group)
        ordered += right == significant
        slope, error = fit_slope(group)
        penalties = [f"{row.mean:.1f} ± {row.error:.1f}" for row in group]
        lines.append([name, *penalties, f"{right} of {significant}", f"{slope:.2f} ± {error:.2f}"])
    slopes = [fit_slope(group)[0] for group in groups.values()]
    gaps = [group[0].cell.gap for group in groups.values()]
    rise = float(spearmanr(gaps, slopes).statistic)
    head = [*FOUR, "pairs in order", "slope"]
    within = min(slopes) >= 0 and max(slopes) <= 1.7
    return format_table("penalty", head, lines), [
        judge(f"H7, {ordered} of {len(groups)} bandits in order", ordered >= 0.8 * len(groups)),
        judge(
            f"H8, slopes from {min(slopes):.2f} to {max(slopes):.2f}, correlation with the gap "
            f"{rise:.2f}",
            within and rise > 0,
        ),
    ]


def report_horizons(rows):
    """H9."""
    graphs = group_rows(rows, lambda row: row.cell.graph)
    lines = []
    holds = True
    for name, group in graphs.items():
        ratios = {row.cell.horizon: row.mean / row.cost for row in group}
        early = max(ratio for horizon, ratio in ratios.items() if horizon <= 300)
        holds &= early == max(ratios.values()) and ratios[3000] < early
        lines.append([name, *(f"{ratio:.2f}" for ratio in ratios.values())])
    head = [f"T = {row.cell.horizon}" for row in next(iter(graphs.values()))]
    return format_table("penalty / S2", head, lines), [judge("H9", holds)]


def report_policies(rows):
    """H10."""
    by_cost = rank_correlation(rows, lambda row: row.cost)
    return format_table("policy", HEAD, [["Bayes-UCB", *describe(rows)]]), [
        judge(f"H10, correlation {by_cost:.2f}", by_cost >= 0.8)
    ]


def report_weights(rows):
    """H11."""
    lines = []
    lower = 0
    higher = 0
    graphs = group_rows(rows, lambda row: row.cell.graph)
    for name, (metropolis, least) in graphs.items():
        apart = (least.penalty - metropolis.penalty) * least.cell.gap
        error = 1.96 * apart.std(ddof=1) / len(apart) ** 0.5
        lower += apart.mean() < -error
        higher += apart.mean() > error
        costs = f"{metropolis.cost:.2f} and {least.cost:.2f}"
        ends = f"{apart.mean() - error:+.2f} to {apart.mean() + error:+.2f}"
        lines.append([name, costs, f"{apart.mean():+.2f} ({ends})"])
    text = f"H11, significantly lower on {lower} and higher on {higher} of {len(graphs)} graphs"
    return format_table(
        "", ["S2 of Metropolis and least-squares", "difference of regret, paired, 95%"], lines
    ), [judge(text, higher == 0 and lower >= len(graphs) / 3)]


TABLES = {
    "graphs": (list_graphs, report_graphs),
    "merges": (list_merges, report_merges),
    "varying": (list_varying, report_varying),
    "sizes": (list_sizes, report_sizes),
    "bandits": (list_bandits, report_bandits),
    "horizons": (list_horizons, report_horizons),
    "policies": (list_policies, report_policies),
    "weights": (list_weights, report_weights),
}


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


def study(runs=200, only=None):
    """The tables of docs/network-price.md; a hypothesis may fail, which breaks no promise."""
    chosen = TABLES if only is None else {only: TABLES[only]}
    measured = {}
    parts = []
    for name, (list_cells, report) in chosen.items():
        measured[name] = measure(list_cells(), runs)
        table, verdicts = report(measured[name])
        parts += [f"**{name.capitalize()}**, {runs} runs a cell", table, " ".join(verdicts)]
    write_cells(measured)
    return "\n\n".join(parts), []
