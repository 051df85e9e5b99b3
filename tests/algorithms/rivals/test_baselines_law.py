"""The baselines in law: the oracle's regret at the paper's size, relabelling, both engines."""

import numpy as np
import pytest

import posse
from posse import networks
from posse.policies import ThompsonSampling

BANDIT = posse.Bandit.gaussian([0.9, 0.5, 0.4, 0.1, 0.0])
SEVENTEEN = posse.Bandit.gaussian([0.5] + [0.1] * 16)
EVERY = {
    "coop-UCB": posse.CoopUCB(),
    "coop-UCB2": posse.CoopUCB2(),
    "coop-UCL": posse.CoopUCL(),
    "DDUCB": posse.DDUCB(),
    "DDUCB unaccelerated": posse.DDUCB(variant="unaccelerated"),
    "DDUCB practical": posse.DDUCB(variant="practical"),
}
FLOODING = posse.Flooding(ThompsonSampling())
ACCEPTING = {"coop-UCB2": posse.CoopUCB2(), "coop-UCL": posse.CoopUCL(), "flooding": FLOODING}
VARYING = {"gossip": networks.cycle(5).gossip(), "failing": networks.cycle(5).failing(0.3)}


def assert_same_mean(one, other, errors=4):
    """Two samples within so many standard errors of their difference."""
    gap = abs(one.mean() - other.mean())
    error = np.sqrt(one.var(ddof=1) / len(one) + other.var(ddof=1) / len(other))
    assert gap <= errors * error, f"{one.mean():.3f} against {other.mean():.3f} +- {error:.3f}"


# Mean regret at t = 800, its standard error over 200 runs of baselines_oracle.py, and the runs here
PUBLISHED_SIZE = [
    ("cycle", posse.CoopUCB(), 264.4, 0.13, 4),
    ("cycle", posse.CoopUCB(exploration=2.0), 282.2, 0.07, 4),
    ("cycle", posse.CoopUCB2(), 13.9, 0.08, 10),
    ("cycle", posse.CoopUCL(), 13.3, 0.08, 10),
    ("cycle", posse.DDUCB(variant="accelerated"), 75.9, 2.21, 20),
    ("cycle", posse.DDUCB(variant="unaccelerated"), 284.0, 0.70, 20),
    ("cycle", posse.DDUCB(variant="practical"), 67.8, 0.41, 20),
    ("grid", posse.CoopUCB(), 157.1, 0.17, 4),
    ("grid", posse.CoopUCB(exploration=2.0), 198.6, 0.15, 4),
    ("grid", posse.CoopUCB2(), 13.1, 0.06, 10),
    ("grid", posse.CoopUCL(), 12.1, 0.06, 10),
    ("grid", posse.DDUCB(variant="accelerated"), 117.3, 2.79, 20),
    ("grid", posse.DDUCB(variant="unaccelerated"), 151.7, 2.39, 20),
    ("grid", posse.DDUCB(variant="practical"), 29.3, 0.51, 20),
]


@pytest.mark.parametrize("engine", ["compiled", pytest.param("reference", marks=pytest.mark.long)])
@pytest.mark.parametrize(("network", "algorithm", "expected", "error", "runs"), PUBLISHED_SIZE)
def test_regret_is_the_oracles(network, algorithm, expected, error, runs, engine):
    """Within 4 standard errors: 6e-5 a case, 2e-3 in all."""
    network = networks.cycle(100) if network == "cycle" else networks.grid(10, 10)
    result = posse.simulate(
        SEVENTEEN, network, algorithm, horizon=800, runs=runs, seed=5, engine=engine, record=1
    )
    allowed = 4 * error * np.sqrt(1 + 200 / runs)  # the oracle's spread, for both samples
    assert abs(result.regret[:, -1].mean() - expected) <= allowed


@pytest.mark.parametrize("how", VARYING)
@pytest.mark.parametrize("name", ACCEPTING)
def test_networks_that_vary_are_accepted_by_the_others(name, how):
    """And help, far beyond any error: alone an agent has five times fewer rewards."""
    runs = {"horizon": 300, "runs": 20, "seed": 4}
    together = posse.simulate(BANDIT, VARYING[how], ACCEPTING[name], **runs)
    alone = posse.simulate(BANDIT, VARYING[how], posse.Isolated(ThompsonSampling()), **runs)
    assert together.summary().mean < alone.summary().mean


@pytest.mark.parametrize("name", [*EVERY, "flooding"])
def test_relabelling_the_agents_leaves_the_law_of_regret(name):
    """Within 4 standard errors, 6e-5 a case."""
    algorithm = EVERY.get(name, FLOODING)
    network, order = networks.grid(2, 3), [3, 1, 5, 0, 4, 2]
    relabelled = networks.from_matrix(np.asarray(network.weights)[np.ix_(order, order)])
    runs = {"horizon": 100, "runs": 100, "record": 1}
    before = posse.simulate(BANDIT, network, algorithm, seed=6, **runs)
    after = posse.simulate(BANDIT, relabelled, algorithm, seed=7, **runs)
    assert_same_mean(before.regret[:, -1], after.regret[:, -1])


@pytest.mark.parametrize("network", [networks.complete(5), networks.complete(1)], ids=str)
@pytest.mark.parametrize("name", [*EVERY, "flooding"])
def test_all_together_and_all_alone(name, network):
    algorithm = EVERY.get(name, FLOODING)
    result = posse.simulate(BANDIT, network, algorithm, horizon=400, runs=20, seed=8)
    uniform_regret = 400 * np.mean(BANDIT.gaps)
    assert result.summary().high < uniform_regret / 2
    np.testing.assert_array_equal(result.pulls.sum(axis=-1), 400)


ENGINE_CASES = [(name, networks.grid(2, 3)) for name in EVERY] + [
    (name, network) for name in ("coop-UCB2", "coop-UCL") for network in VARYING.values()
]


@pytest.mark.parametrize(("name", "network"), ENGINE_CASES, ids=str)
def test_engines_agree_in_law(name, network):
    """Mean regret within 4 standard errors at two rounds: 1e-4 a case, 1e-3 in all."""
    runs = {"horizon": 150, "runs": 200, "record": [30, 150]}
    compiled = posse.simulate(BANDIT, network, EVERY[name], engine="compiled", seed=9, **runs)
    reference = posse.simulate(BANDIT, network, EVERY[name], engine="reference", seed=10, **runs)
    for at in range(2):
        assert_same_mean(compiled.regret[:, at], reference.regret[:, at])
