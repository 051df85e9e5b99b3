"""DPE2, GosInE, Dist-UCB and Tree play the arms of plain scripts written from their words alone.

Both are given the same rewards and the same uniforms. The scripts know nothing of arrays.
"""

import numpy as np
import pytest

import posse
from posse import networks
from posse.algorithms import Problem
from posse.networks.operators import as_matrix
from posse.randomness import Streams
from tests.algorithms.oracles import dist_ucb, dpe2, gosine, tree

HORIZON, N_ARMS = 70, 4
FAMILIES = {
    "gaussian": posse.families.Gaussian(sigma=0.8),
    "bernoulli": posse.families.Bernoulli(),
    "poisson": posse.families.Poisson(),
    "exponential": posse.families.Exponential(),
}
MEANS = np.array([0.3, 0.6, 0.8, 0.5])
GRAPHS = [
    networks.path(5),
    networks.star(4),
    networks.complete(3),
    networks.grid(2, 3),
    networks.barabasi_albert(9, 2, seed=1),
    networks.complete(1),
]


class Noted:
    """A generator whose uniforms are written down."""

    def __init__(self, seed):
        self.source, self.drawn = np.random.default_rng(seed), []

    def random(self, size):
        self.drawn.append(self.source.random(size))
        return self.drawn[-1]


def referee(algorithm, network, family, seed, horizon=HORIZON):
    """What the reference plays: arms, a function for rewards, and the uniforms of each round.

    Those of a round as a list of arrays, what `prepare` drew before what `choose` did; then W(t).
    """
    problem = Problem(network.n_agents, N_ARMS, horizon, family, network)
    generator = np.random.default_rng(seed)
    table = family.draw_rewards(
        np.broadcast_to(MEANS, (horizon, network.n_agents, N_ARMS)), generator
    )
    noted, uniforms, played, weights = Noted(seed), [], [], []
    draw, source = network.sampler(1), Streams.for_runs(seed, [0], "network")
    state = algorithm.init(problem)
    for t in range(1, horizon + 1):
        noted.drawn = []
        if hasattr(algorithm, "prepare"):
            state = algorithm.prepare(state, t, noted)
        arms = algorithm.choose(state, t, noted)
        rewards = np.take_along_axis(table[t - 1], arms[0][:, None], axis=-1)[None, :, 0]
        weights.append(draw(source, t))
        state = algorithm.learn(state, arms, rewards, weights[-1])
        uniforms.append([each.ravel() for each in noted.drawn])
        played.append(arms[0].tolist())
    return played, lambda t, i, arm: table[t - 1, i, arm], uniforms, weights


def around(network):
    return [network.neighbours(i).tolist() for i in range(network.n_agents)]


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("network", GRAPHS, ids=str)
def test_dpe2(network, name):
    family = FAMILIES[name]
    played, reward, uniforms, _ = referee(posse.DPE2(), network, family, seed=3)
    assert played == dpe2.play(
        around(network), N_ARMS, HORIZON, reward, lambda t: uniforms[t - 1][0][0],
        family=name, sigma=getattr(family, "sigma", None),
    )  # fmt: skip
    assert len({arm for arms in played for arm in arms}) == N_ARMS


@pytest.mark.parametrize("index", ["published", "kl"])
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("network", GRAPHS, ids=str)
def test_gosine(network, name, index):
    family, sigma = FAMILIES[name], 0.3 if index == "published" else None
    algorithm = posse.GosInE(index=index, sigma=sigma)
    played, reward, uniforms, _ = referee(algorithm, network, family, seed=4)
    assert played == gosine.play(
        around(network), N_ARMS, HORIZON, reward,
        lambda t, i: uniforms[t - 1][-1][i],
        lambda t, i: uniforms[t - 1][0][i],
        lambda t, i: uniforms[t - 1][1][i],
        family=name, sigma=sigma or getattr(family, "sigma", None), kl=index == "kl",
    )  # fmt: skip


# averages of whole numbers tie but for rounding, which is each program's own
@pytest.mark.parametrize("index", ["published", "kl"])
@pytest.mark.parametrize("name", ["gaussian", "exponential"])
@pytest.mark.parametrize("network", GRAPHS, ids=str)
def test_dist_ucb(network, name, index):
    family, sigma = FAMILIES[name], 0.3 if index == "published" else None
    algorithm = posse.DistUCB(index=index, sigma=sigma)
    played, reward, uniforms, _ = referee(algorithm, network, family, seed=5)
    assert played == dist_ucb.play(
        around(network), N_ARMS, HORIZON, reward, lambda t, i: uniforms[t - 1][-1][i],
        family=name, sigma=sigma or getattr(family, "sigma", None), kl=index == "kl",
    )  # fmt: skip


SCORES = {
    "gaussian": lambda seen: sum(seen) / 0.8**2 / (1 + len(seen) / 0.8**2),  # prior N(0, 1)
    "bernoulli": lambda seen: (1 + sum(seen)) / (2 + len(seen)),  # prior Beta(1, 1)
}


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize(
    "network", [*GRAPHS, networks.path(4).failing(0.4), networks.grid(2, 3).failing(0.3)], ids=str
)
def test_tree(network, name):
    algorithm = posse.Tree(posse.Greedy())
    played, reward, uniforms, weights = referee(algorithm, network, FAMILIES[name], seed=6)
    links = []
    for each in weights:
        matrix = as_matrix(each, network.n_agents).reshape(network.n_agents, -1)
        links.append({(i, j) for i, j in zip(*np.nonzero(matrix), strict=True) if i < j})
    branches = branches_of(algorithm, network, FAMILIES[name])
    assert played == tree.play(
        branches, links, N_ARMS, reward, lambda t, i: uniforms[t - 1][-1][i], SCORES[name]
    )


def branches_of(algorithm, network, family):
    """The tree, which its words leave open; that it spans, breadth first from somewhere."""
    channels = algorithm.init(Problem(network.n_agents, N_ARMS, 5, family, network)).channels
    branches = [[] for _ in range(network.n_agents)]
    if channels is not None:
        pairs = zip(channels.receiver % network.n_agents, channels.sender, strict=True)
        for listener, speaker in pairs:
            branches[int(listener)].append(int(speaker) % network.n_agents)
    assert sum(map(len, branches)) == 2 * (network.n_agents - 1)
    nearest = [
        dpe2.hops_from(branches, root) == dpe2.hops_from(around(network), root)
        for root in range(network.n_agents)
    ]
    assert any(nearest)
    return branches
