"""Golden traces: short runs of every combination of kernels, as they were when last looked at.

Pulls are compared exactly, regret and beliefs to 1e-9 (machines round differently).  They change
whenever the random numbers or their use change, which readers of published numbers want to know:

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
from posse.lab.blocks import Simulation
from posse.lab.compiled import engine, thompson

FILE = Path(__file__).with_name("golden.json")
SEED, RUNS, TIMES = 2026, 2, np.array([1, 3, 10, 40])
BANDITS = {
    "gaussian": posse.Bandit(Gaussian(sigma=0.8), [0.1, 0.7, 0.4]),
    "bernoulli": posse.Bandit(Bernoulli(0.5, 2.0), [0.2, 0.7, 0.5]),
    "bounded": posse.Bandit(Bounded(concentration=1.5), [0.2, 0.7, 0.5]),
    "poisson": posse.Bandit(Poisson(0.6), [0.5, 2.0, 40.0]),
    "exponential": posse.Bandit(Exponential(), [0.5, 2.0, 1.0]),
}
POLICIES = {
    "thompson": (posse.ThompsonSampling(), "EAGER"),
    "thompson, lazily": (posse.ThompsonSampling(), "ALWAYS_LAZY"),
    "thompson, eagerly": (posse.ThompsonSampling(), "ALWAYS_EAGER"),
    "bayes-ucb": (posse.BayesUCB(), "EAGER"),
    "greedy": (posse.Greedy(), "EAGER"),
}
SETTINGS = {
    "static": (networks.cycle(5), posse.Decentralized),
    "complete": (networks.complete(4), posse.Decentralized),
    "gossip": (networks.cycle(5).gossip(), posse.Decentralized),
    "failing": (networks.complete(4).failing(0.3), posse.Decentralized),
    "failing often": (networks.star(5).weighted("metropolis").failing(0.6), posse.Decentralized),
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
}
NAMES = [", ".join(names) for names in itertools.product(BANDITS, POLICIES, SETTINGS)]
NAMES += BASELINES


def rounded(values):
    """Lists of numbers of 12 digits."""
    return np.vectorize(lambda x: float(f"{x:.12g}"))(values).tolist()


def trace(name):
    """What a short run of these kernels does, as plain data."""
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

    class Kept(engine.Rows):
        def __post_init__(self):
            super().__post_init__()
            kept.append(self)

    with mock.patch.object(engine, "Rows", Kept):
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


def test_the_file_holds_these_traces_and_no_others(golden):
    assert list(golden) == NAMES


if __name__ == "__main__":
    # one trace a line: what changes is seen in a diff
    lines = [f"{json.dumps(name)}: {json.dumps(trace(name))}" for name in NAMES]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(NAMES)} traces written to {FILE}")
