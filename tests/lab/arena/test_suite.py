"""The suite is fixed: what it holds, and that it can be played."""

import math
from pathlib import Path

import numpy as np
import pytest

from posse import theory
from posse.bandits import NormalMeans
from posse.lab.arena import suite as suites
from posse.networks import Gossip, LinkFailure

P17 = [0.5] + [0.1] * 16
SMALL = [0.5, 0.47, 0.45, 0.45, 0.45]
DRAWN = NormalMeans(100, 0.0, 0.5)

# number: (family, means, graph, agents, horizon)
SUITE = {
    1: ("gaussian", P17, "cycle", 100, 5000),
    2: ("gaussian", P17, "grid", 100, 5000),
    3: ("gaussian", P17, "complete", 64, 5000),
    4: ("gaussian", P17, "star", 36, 2000),
    5: ("gaussian", P17, "path", 64, 5000),
    6: ("gaussian", P17, "watts_strogatz", 300, 2000),
    7: ("gaussian", SMALL, "grid", 36, 5000),
    8: ("gaussian", SMALL, "star", 32, 5000),
    9: ("gaussian", [0.1, 0.08, 0.06, 0.05], "erdos_renyi", 30, 5000),
    10: (
        "bernoulli",
        [0.03, 0.025, 0.02, 0.02, 0.015, 0.015, 0.01, 0.01],
        "erdos_renyi",
        50,
        5000,
    ),
    11: ("bernoulli", [0.02, 0.01, 0.01], "path", 8, 20000),
    12: ("gaussian", np.linspace(0, 1, 60), "watts_strogatz", 25, 2000),
    13: ("gaussian", DRAWN, "barabasi_albert", 60, 3000),
    14: ("bernoulli", [0.5, 0.48] + [0.3] * 6, "barabasi_albert", 48, 3000),
    15: ("gaussian", [1, 0.98] + [0] * 8, "cycle", 30, 5000),
    16: ("gaussian", np.linspace(0, 1.8, 10), "complete", 16, 2000),
    17: ("bernoulli", [0.6] * 3 + [0.5] * 9, "grid", 40, 3000),
    18: ("gaussian", [0.5] * 9 + [0], "cycle", 40, 2000),
    19: ("poisson", [3, 2.7, 2.5, 2.5, 2], "torus", 36, 3000),
    20: ("exponential", [1, 0.9, 0.8, 0.7, 0.6], "hypercube", 32, 3000),
    21: ("gaussian", P17, "complete", 36, 2000),
    22: ("gaussian", P17, "cycle", 36, 2000),
    23: ("bernoulli", [0.9, 0.8, 0.7, 0.6], "path", 4, 3000),
    24: ("gaussian", [10.5] + [10.1] * 4, "random_geometric", 100, 3000),
}
ARGUMENTS = {
    2: {"rows": 10, "columns": 10},
    6: {"agents": 300, "k": 4, "p": 0.1, "seed": 0},
    7: {"rows": 6, "columns": 6},
    9: {"agents": 30, "p": 0.12, "seed": 0},
    10: {"agents": 50, "p": 0.1, "seed": 0},
    12: {"agents": 25, "k": 4, "p": 0.1, "seed": 0},
    13: {"agents": 60, "m": 2, "seed": 0},
    14: {"agents": 48, "m": 1, "seed": 0},
    17: {"rows": 5, "columns": 8},
    19: {"rows": 6, "columns": 6},
    20: {"dimension": 5},
    24: {"agents": 100, "radius": 0.18, "seed": 0},
}


def test_the_suite_is_the_24_instances():
    instances = suites.load_suite().instances
    assert [instance.number for instance in instances] == list(SUITE)
    assert len({instance.name for instance in instances}) == 24
    for instance in instances:
        family, means, graph, agents, horizon = SUITE[instance.number]
        assert instance.bandit.family.name == family
        if isinstance(means, NormalMeans):
            assert instance.bandit.means == means
        else:
            np.testing.assert_allclose(instance.bandit.means, means, atol=5.1e-5)
        network = instance.network
        assert (network.graph, network.n_agents, instance.horizon) == (graph, agents, horizon)
        expected = ARGUMENTS.get(instance.number, {"agents": agents})
        assert dict(network.arguments) == expected
        dynamics = {21: Gossip(), 22: LinkFailure(0.5)}.get(instance.number)
        assert dynamics is None or network.dynamics == dynamics
        assert network.rule == "max-degree"
        assert len(instance.name) <= 24


def test_sigma_is_one_and_the_prior_misplaced_only_where_said():
    for instance in suites.load_suite().instances:
        family = instance.bandit.family
        if family.name == "gaussian":
            assert (family.sigma, family.prior_mean, family.prior_sd) == (1, 0, 1)


def test_instances_are_chosen_by_number():
    numbers = [instance.number for instance in suites.choose_instances("1, 4,7-9")]
    assert numbers == [1, 4, 7, 8, 9]
    assert suites.choose_instances(None) == suites.load_suite().instances
    assert suites.format_numbers(suites.choose_instances("4,1")) == "1,4"
    for text in ("25", "0", "3-2", "a", "", "1,,2"):
        with pytest.raises(ValueError, match="instances must"):
            suites.choose_instances(text)


def test_the_lower_bound_is_that_of_the_theory():
    (instance,) = suites.choose_instances("7")
    means = np.array([SMALL, SMALL])
    slope = theory.lai_robbins(instance.bandit, 36)
    assert suites.lai_robbins_bound(instance, means, 5000) == pytest.approx(slope * math.log(5000))
    # by the definition: 2 sigma^2 / gap ln T / N
    plain = sum(2 / (0.5 - mean) for mean in SMALL[1:]) * math.log(5000) / 36
    assert suites.lai_robbins_bound(instance, means, 5000) == pytest.approx(plain)


def test_the_lower_bound_of_an_arm_is_never_more_than_playing_it_always():
    (instance,) = suites.choose_instances("13")
    means = np.array([[0.0, -1e-6], [0.0, -1.0]])
    arm = 2 / 60 * math.log(3000)
    assert suites.lai_robbins_bound(instance, means, 3000) == pytest.approx((3000e-6 + arm) / 2)


def test_the_page_of_the_arena_lists_the_instances_as_they_are():
    page = (Path(__file__).parents[3] / "docs" / "arena.md").read_text("utf-8")
    for each in suites.load_suite().instances:
        row = each.number, each.name, each.arms, each.graph, each.horizon, each.why
        assert f"| {' | '.join(map(str, row))} |" in page
