"""The rivals that learn by hearing play the arms of plain scripts, given rewards and uniforms."""

import numpy as np
import pytest

import posse
from posse import networks
from posse.algorithms import Problem
from posse.families import Bernoulli, Gaussian
from posse.networks.operators import as_matrix, count_links_in_use
from tests.algorithms.oracles import comex, coop_se, follow_your_leader, ucb_network

RUNS, HORIZON, MEANS = 2, 30, [0.2, 0.8, 0.55, 0.4]
NETWORKS = {
    "path": networks.path(6),
    "star": networks.star(5),
    "grid": networks.grid(2, 4),
    "tree": networks.barabasi_albert(9, 1, seed=3),
    "alone": networks.complete(1),
    "failing": networks.cycle(6).failing(0.4),
}
FAMILIES = {"gaussian": Gaussian(sigma=0.5), "bernoulli": Bernoulli()}
# Everywhere an index whose rewards never tie and one whose rewards do, all four on one
CASES = [
    (graph, family, index)
    for graph in NETWORKS
    for family in FAMILIES
    for index in ("published", "kl")
    if (family == "bernoulli") == (index == "kl") or graph == "tree"
]


class Given:
    """A generator that gives each round its uniforms, once."""

    def __init__(self, uniforms):
        self.uniforms, self.round = uniforms, 0

    def random(self, shape):
        assert shape == self.uniforms.shape[1:]
        return self.uniforms[self.round]


class World:
    """Rewards, uniforms and links of some rounds, for the algorithm and for the script."""

    def __init__(self, network, family, seed):
        generator = np.random.default_rng(seed)
        shape = (HORIZON, RUNS, network.n_agents)
        self.network, self.family = network, FAMILIES[family]
        self.noise = generator.standard_normal(shape)
        self.luck, self.uniforms = generator.random((2, *shape))
        draw = network.sampler(RUNS)
        self.weights = [draw(generator, t) for t in range(1, HORIZON + 1)]
        self.sigma = None if family == "bernoulli" else 0.5

    def reward(self, t, run, i, arm):
        if self.sigma is None:
            return 1.0 if self.luck[t, run, i] < MEANS[arm] else 0.0
        return MEANS[arm] + self.sigma * self.noise[t, run, i]

    def arms(self, algorithm):
        """What the algorithm plays, (T, R, N), and the numbers it says it sends, (T, R)."""
        n_agents = self.network.n_agents
        problem = Problem(n_agents, len(MEANS), HORIZON, self.family, self.network, RUNS)
        state, given = algorithm.init(problem), Given(self.uniforms)
        arms, sent = np.empty(self.noise.shape, int), np.empty((HORIZON, RUNS))
        for t in range(HORIZON):
            given.round = t
            arms[t] = algorithm.choose(state, t + 1, given)
            rewards = np.array(
                [
                    [self.reward(t, run, i, arm) for i, arm in enumerate(row)]
                    for run, row in enumerate(arms[t])
                ]
            )
            state = algorithm.learn(state, arms[t], rewards, self.weights[t])
            links = count_links_in_use(self.weights[t], RUNS, n_agents)
            sent[t] = algorithm.numbers_sent(state, t + 1, links)
        return arms, sent

    def script(self, play, *first, **options):
        """What a script plays in each run."""
        n_agents, each = self.network.n_agents, []
        for run in range(RUNS):
            links = []
            for weights in self.weights:
                matrix = np.broadcast_to(
                    as_matrix(weights, n_agents, RUNS), (RUNS, n_agents, n_agents)
                )[run]
                links.append(
                    [[j for j in np.flatnonzero(row) if j != i] for i, row in enumerate(matrix)]
                )
            each.append(
                play(
                    *first,
                    links,
                    len(MEANS),
                    lambda t, i, arm, run=run: self.reward(t, run, i, arm),
                    lambda t, i, run=run: self.uniforms[t, run, i],
                    scale=0.5,
                    **options,
                )
            )
        return each


def agree(arms, scripts):
    for run, expected in enumerate(scripts):
        np.testing.assert_array_equal(arms[:, run], expected)


@pytest.mark.parametrize(("graph", "family", "index"), CASES)
class TestTheSameArms:
    @pytest.mark.parametrize("hops", [1, 2, None])
    def test_ucb_network(self, graph, family, index, hops):
        world = World(NETWORKS[graph], family, seed=1)
        arms, _ = world.arms(posse.UCBNetwork(hops, index=index))
        agree(
            arms,
            world.script(ucb_network.play, hops=hops, kl=index == "kl", sigma=world.sigma),
        )

    def test_comex(self, graph, family, index):
        world = World(NETWORKS[graph], family, seed=2)
        arms, sent = world.arms(posse.ComEx(index=index))
        scripts = world.script(comex.play, kl=index == "kl", sigma=world.sigma)
        agree(arms, [played for played, _ in scripts])
        np.testing.assert_array_equal(sent.T, [numbers for _, numbers in scripts])

    def test_follow_your_leader(self, graph, family, index):
        network = NETWORKS[graph]
        neighbours = [list(network.neighbours(i)) for i in range(network.n_agents)]
        world = World(network, family, seed=3)
        arms, _ = world.arms(posse.FollowYourLeader(index=index))
        options = {"kl": index == "kl", "sigma": world.sigma}
        agree(arms, world.script(follow_your_leader.play, neighbours, **options))


@pytest.mark.parametrize(("family", "width"), [("gaussian", None), ("bernoulli", 0.02)])
@pytest.mark.parametrize("graph", NETWORKS)
def test_coop_se(graph, family, width):
    world = World(NETWORKS[graph], family, seed=4)
    algorithm = posse.CoopSE() if width is None else posse.CoopSE("gaussian", exploration=width)
    arms, _ = world.arms(algorithm)
    agree(arms, world.script(coop_se.play, horizon=HORIZON, c=width))
    assert width is None or len(np.unique(arms[-1])) < len(MEANS)  # some were given up
