"""Golden traces: short runs of every combination of kernels, as they were when last looked at.

Pulls are compared exactly, regret and beliefs to 1e-9: machines round differently, so the problems
are such that rounding decides no arm.  (Rewards that are whole numbers make equal indices; which of
them is larger must not hang on the order in which neighbours were added up.  So the links have
unequal weights, and a test nudges these.  No prior has a shape of 1, where samplers change over.)
The traces change whenever the random numbers or their use change, which readers of published
numbers want to know:

    .venv/bin/python tests/lab/compiled/test_golden.py      # writes golden.json anew
"""

import itertools
import json
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import posse
from posse import networks
from posse.families import Bernoulli, Bounded, Exponential, Gaussian, Poisson
from posse.lab.compiled import engine
from posse.lab.compiled.kernels import thompson
from posse.lab.simulation import Simulation

FILE = Path(__file__).with_name("golden.json")
SEED, RUNS, TIMES = 2026, 2, np.array([1, 3, 10, 40])
BANDITS = {
    "gaussian": posse.Bandit(Gaussian(sigma=0.8), [0.1, 0.7, 0.4]),
    "bernoulli": posse.Bandit(Bernoulli(0.5, 2.0), [0.2, 0.7, 0.5]),
    "bounded": posse.Bandit(Bounded(1.2, 1.4, concentration=1.5), [0.2, 0.7, 0.5]),
    "poisson": posse.Bandit(Poisson(0.6), [0.5, 2.0, 40.0]),
    "exponential": posse.Bandit(Exponential(), [0.5, 2.0, 1.0]),
}
POLICIES = {
    "thompson": (posse.ThompsonSampling(), "EAGER"),
    "thompson, lazily": (posse.ThompsonSampling(), "ALWAYS_LAZY"),
    "thompson, eagerly": (posse.ThompsonSampling(), "ALWAYS_EAGER"),
    "bayes-ucb": (posse.BayesUCB(), "EAGER"),
    "greedy": (posse.Greedy(), "EAGER"),
    "rand-ucb": (posse.RandUCB(), "EAGER"),
}
LINKS = [(0, 1, 0.21), (1, 2, 0.27), (2, 3, 0.17), (3, 4, 0.31), (0, 4, 0.23)]


def weighted(links, n_agents):
    """The symmetric W with these links."""
    matrix = np.zeros((n_agents, n_agents))
    for i, j, weight in links:
        matrix[i, j] = matrix[j, i] = weight
    return networks.from_matrix(matrix + np.diag(1 - matrix.sum(axis=1)))


RING = weighted(LINKS, 5)
STAR = weighted([(0, agent, weight) for agent, (_, _, weight) in enumerate(LINKS[:4], 1)], 5)
SETTINGS = {
    "static": (RING, posse.Decentralized),
    "complete": (networks.complete(4), posse.Decentralized),
    "gossip": (networks.cycle(5).gossip(), posse.Decentralized),
    "failing": (networks.complete(4).failing(0.3), posse.Decentralized),
    "failing often": (STAR.failing(0.6), posse.Decentralized),
    "realised": (networks.cycle(5).failing(0.3, normalise="realised"), posse.Decentralized),
    "isolated": (networks.cycle(3), posse.Isolated),
    "centralized": (networks.cycle(3), posse.Centralized),
}
BASELINES = {
    "coop-ucb": (networks.grid(2, 3), posse.CoopUCB(1.5)),
    "coop-ucb2": (networks.cycle(5), posse.CoopUCB2(1.5)),
    "coop-ucb2, gossip": (networks.cycle(5).gossip(), posse.CoopUCB2(1.5)),
    "coop-ucl, failing": (networks.complete(4).failing(0.3), posse.CoopUCL()),
    "dducb": (networks.cycle(5), posse.DDUCB()),
    "dducb, unaccelerated": (networks.cycle(5), posse.DDUCB(variant="unaccelerated")),
    "dducb, practical": (networks.star(5), posse.DDUCB(variant="practical")),
    "flooding": (networks.path(5), posse.Flooding(posse.ThompsonSampling())),
    "tree": (networks.grid(2, 3), posse.Tree(posse.RandUCB())),
    "tree, failing": (networks.grid(2, 3).failing(0.4), posse.Tree(posse.ThompsonSampling())),
    "push-sum": (networks.star(5), posse.PushSum(posse.ThompsonSampling())),
    "push-sum, learnt": (networks.path(5), posse.PushSum(posse.RandUCB(), learning_rate="learnt")),
    "push-sum, failing": (networks.star(5).failing(0.4), posse.PushSum(posse.ThompsonSampling())),
    "push-sum, directed gossip": (
        networks.random_directed(5, 2, seed=1).gossip(),
        posse.PushSum(posse.ThompsonSampling()),
    ),
}
NAMES = [", ".join(names) for names in itertools.product(BANDITS, POLICIES, SETTINGS)]
NAMES += BASELINES


def rounded(values):
    """Lists of numbers of 12 digits."""
    return np.vectorize(lambda x: float(f"{x:.12g}"))(values).tolist()


def trace(name, nudge=0.0):
    """What a short run of these kernels does, as plain data; nudge: by how much to change W."""
    if name in BASELINES:
        bandit, drawing = "gaussian", "EAGER"
        network, algorithm = BASELINES[name]
    else:
        bandit, *policy, setting = name.split(", ")
        algorithm_policy, drawing = POLICIES[", ".join(policy)]
        network, algorithm_class = SETTINGS[setting]
        algorithm = algorithm_class(algorithm_policy)
    simulation = Simulation(BANDITS[bandit], network, algorithm, int(TIMES[-1]), SEED, TIMES)
    kept = []
    build_arrays, noise = engine.build_network_arrays, np.random.default_rng(1)

    def nudged(network, plan):
        links = build_arrays(network, plan)
        noisy = links.weights * (1 + nudge * noise.standard_normal(links.weights.shape))
        return links._replace(weights=noisy)

    class Kept(engine.BlockState):
        def __post_init__(self):
            super().__post_init__()
            kept.append(self)

    with (
        mock.patch.object(engine, "BlockState", Kept),
        mock.patch.object(engine, "build_network_arrays", nudged),
    ):
        block = engine.Engine(simulation, int(getattr(thompson, drawing))).run(
            range(RUNS), 1, lambda steps: None
        )
    (rows,) = kept
    state = (rows.other if rows.flipped else rows.state).reshape(-1, 2, len(BANDITS[bandit].means))
    return {
        "pulls": block.pulls.tolist(),
        "regret": rounded(block.regret),
        "belief": rounded(state[[0, -1]]),  # of the first agent and the last one
    }


@pytest.fixture(scope="module")
def golden():
    return json.loads(FILE.read_text())


@pytest.mark.parametrize("name", NAMES)
def test_runs_are_as_they_were(golden, name):
    got, expected = trace(name), golden[name]
    assert got["pulls"] == expected["pulls"]
    np.testing.assert_allclose(got["regret"], expected["regret"], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(got["belief"], expected["belief"], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_rounding_decides_no_arm_of_these_problems(golden, name):
    assert trace(name, nudge=1e-13)["pulls"] == golden[name]["pulls"]


def test_the_file_holds_these_traces_and_no_others(golden):
    assert list(golden) == NAMES


if __name__ == "__main__":
    # one trace a line: what changes is seen in a diff
    lines = [f"{json.dumps(name)}: {json.dumps(trace(name))}" for name in NAMES]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(NAMES)} traces written to {FILE}")
