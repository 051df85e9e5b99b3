"""The cells of the study of regret against the cost of a network, table by table.

network_price_hypotheses.md, network_price_hypotheses_later.md and network_price_hypotheses_scale.md
say what is expected of them.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

import posse
from posse import networks, theory

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
UNEQUAL = {
    "evenly spread": posse.Bandit.gaussian(np.linspace(0.5, -0.3, 17)),
    "near pair": posse.Bandit.gaussian([0.5, 0.45] + [0.1] * 15),
    "two levels": posse.Bandit.gaussian([0.5] + [0.3] * 8 + [0.1] * 8),
    "small gaps": posse.Bandit.gaussian([0.5, 0.47] + [0.45] * 3),
    "wide": posse.Bandit.gaussian(np.linspace(1.8, 0, 10)),
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
        """The mean gap of all arms but the best."""
        gaps = self.bandit.gaps
        return float(gaps[gaps > 0].mean())


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
    others = {
        "Tree": posse.Tree(TS),
        "flooding": posse.Flooding(TS),
        "push-sum": posse.PushSum(TS),
    }
    for name, network in GRAPHS.items():
        cells += [
            Cell(name, merge, network, algorithm, BANDIT, 500)
            for merge, algorithm in others.items()
        ]
    for seed in (1, 2, 3):
        network = create_directed(40, 3, seed)
        cells.append(
            Cell(f"directed 40, {seed}", "push-sum", network, others["push-sum"], BANDIT, 500)
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
    """Failing links and gossip, and static graphs with which H5 compares their slope."""
    graphs = {name: GRAPHS[name] for name in ("cycle 36", "grid 64", "star 36", "attachment 1, 48")}
    graphs["complete 36"] = networks.complete(36)
    cells = []
    for name, network in graphs.items():
        for p in (0.5, 0.8):
            cells.append(create_cell(f"{name}, failing {p}", network.failing(p)))
        cells.append(create_cell(f"{name}, gossip", network.gossip()))
    cells += [
        create_cell(f"{name}, static", GRAPHS[name]) for name in (*FOUR, "path 36", "cycle 100")
    ]
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


def list_unequal():
    """Four graphs under five bandits with different gaps."""
    return [
        create_cell(name, GRAPHS[name], bandit=bandit, horizon=1000)
        for bandit in UNEQUAL.values()
        for name in FOUR
    ]


def list_late():
    """Four graphs, up to 10,000 rounds."""
    return [
        create_cell(name, GRAPHS[name], horizon=t) for name in FOUR for t in (1000, 3000, 10_000)
    ]


def list_scale():
    """Other graphs and bandits than those in which the scale of the penalty was found."""
    names = ("cycle 100", "path 64", "star 100", "attachment 2, 60")
    bandits = []
    for arms in (3, 9, 33):
        for sigma, gap in ((0.5, 0.2), (1.0, 0.3), (2.0, 0.6)):
            equal = [0.5] + [0.5 - gap] * (arms - 1)
            # gaps of c, 2c ... (K - 1) c, whose mean is the gap
            even = np.linspace(0.5, 0.5 - 2 * gap * (arms - 1) / arms, arms)
            bandits += [posse.Bandit.gaussian(means, sigma=sigma) for means in (equal, even)]
    return [
        create_cell(name, GRAPHS[name], bandit=bandit, horizon=1000)
        for bandit in bandits
        for name in names
    ]


# Costs ---------------------------------------------------------------------------------------


def compute_cost(cell):
    """S2 of a cell, cut at its horizon, by the weights of its merge."""
    if cell.merge == "push-sum":
        return theory.network_cost(cell.network, cell.horizon, merge="push-sum").total
    if cell.merge in ("Tree", "flooding"):
        return distance_cost(cell.network, cell.merge == "Tree")
    return theory.network_cost(cell.network, cell.horizon).total


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
