"""`posse inspect`: the numbers against the library, and which options a graph takes."""

import pytest

import posse
from posse import Bandit, networks, theory
from posse.cli import inspect
from posse.networks import EXAMPLES, GRAPHS
from tests.cli.calling import said


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")


@pytest.fixture
def shown(capsys):
    """A function from arguments to the exit code and what was printed."""

    def call(*arguments):
        return said(capsys, "inspect", *arguments)

    return call


def options_of(name):
    return [
        word
        for key, value in EXAMPLES[name].items()
        for word in (f"--{inspect.OPTIONS.get(key, key)}", value)
    ]


def test_the_names_in_the_help_are_those_of_the_registry():
    assert set(inspect.NAMES) == set(GRAPHS) - {"from_edges"}  # whose links no option can hold


@pytest.mark.parametrize("name", inspect.NAMES)
def test_every_graph_can_be_inspected(name, shown):
    network = networks.Network(name, tuple(EXAMPLES[name].items()))
    code, out, err = shown(name, *options_of(name))
    assert (code, err) == (0, "")
    facts = dict(line.split("  ", 1) for line in out.splitlines())
    facts = {key: value.strip() for key, value in facts.items()}
    assert facts["network"] == repr(network)
    assert int(facts["agents"]) == network.n_agents
    assert int(facts["edges"]) == len(network.edges)
    degree = "out-degree" if network.is_directed else "degree"
    assert facts[degree].startswith(f"{network.degrees.min()} to {network.degrees.max()}, ")
    assert "Theorem" not in out
    if network.is_directed:
        assert "spectral gap" not in facts
        return
    assert float(facts["spectral gap"]) == pytest.approx(network.spectral_gap, rel=1e-4)
    assert float(facts["second eigenvalue"]) == pytest.approx(network.second_eigenvalue, abs=1e-9)
    mixing = theory.mixing_time(network.n_agents, network.second_eigenvalue)
    assert facts["mixing time"].startswith(f"{mixing} rounds")
    cost = theory.network_cost(network).total
    assert float(facts["cost"].split()[1]) == pytest.approx(cost, rel=0.05, abs=1e-9)
    assert "Theorem" not in out


def test_weights_and_dynamics(shown):
    for options, network in (
        (["--weights", "metropolis"], networks.star(5).weighted("metropolis")),
        (["--gossip"], networks.star(5).gossip()),
        (["--failing", 0.3], networks.star(5).failing(0.3)),
    ):
        code, out, _ = shown("star", "--agents", 5, *options)
        assert code == 0
        assert repr(network) in out
        assert f"{network.spectral_gap:.6g}" in out


def test_the_cost_stands_beside_that_of_a_cycle(shown):
    assert (
        "about 16 pulls per agent; a cycle of 36 would cost 4" in shown("star", "--agents", 36)[1]
    )
    cycle = shown("cycle", "--agents", 36)[1]
    assert "about 4 pulls per agent" in cycle
    assert "would cost" not in cycle
    assert "about 24,999 pulls" in shown("path", "--agents", 100000)[1]
    # eigenvalues of so many agents would take long
    large = shown("random_regular", "--agents", 1100, "--degree", 3)
    assert large[0] == 0
    assert "cost" not in large[1]


def test_hyphens_will_do(shown):
    assert shown("regular-ring", "--agents", 9, "--k", 2)[0] == 0


def test_the_theory_of_given_means(shown):
    options = ("--means", "0.5,0.1,0.1", "--horizon", 500, "--epsilon", 0.25)
    code, out, _ = shown("cycle", "--agents", 10, *options)
    assert code == 0
    gap = networks.cycle(10).spectral_gap
    assert theory.theorem_1([0.5, 0.1, 0.1], 10, gap, 500, 0.25).describe() in out
    assert f"{theory.lai_robbins_constant([0.5, 0.1, 0.1], 10):.4g} per agent" in out
    assert "not a finite-time bound by themselves" in out
    bandit = Bandit.bernoulli([0.5, 0.1, 0.1])
    table = theory.bounds(bandit, networks.cycle(10), 500, epsilon=0.25)
    for name, row in table.iterrows():
        (line,) = (line for line in out.splitlines() if line.startswith(f"│ {name} "))
        assert row.source in line
    assert "simulated" not in out


def test_bounds_of_gaussian_rewards_beside_a_simulation(shown):
    options = ("--means", "0.5,0.1", "--sigma", 2, "--horizon", 30, "--simulate", 4)
    code, out, _ = shown("cycle", "--agents", 5, *options)
    assert code == 0
    assert f"{theory.lai_robbins(Bandit.gaussian([0.5, 0.1], sigma=2.0), 5):.4g} per agent" in out
    assert "Theorem 1" not in out
    (line,) = (line for line in out.splitlines() if "simulated" in line)
    dec_ts = posse.Decentralized(posse.ThompsonSampling())
    result = posse.simulate(
        Bandit.gaussian([0.5, 0.1], sigma=2.0), networks.cycle(5), dec_ts,
        horizon=30, runs=4, seed=0,
    )  # fmt: skip
    assert f"{result.summary().mean:.3g}" in line


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["cycle"], "cycle needs --agents"),
        (["grid"], "grid needs --rows and --columns"),
        (["erdos_renyi"], "erdos_renyi needs --agents and --p"),
        (["watts_strogatz"], "watts_strogatz needs --agents, --k and --p"),
        (["cycle", "--agents", 5, "--k", 2], "cycle does not take --k: it takes --agents"),
        (
            ["star", "--agents", 5, "--graph-seed", 2, "--p", 0.1],
            "star does not take --p and --graph-seed: it takes --agents",
        ),
        (["cycel"], "graph 'cycel' is unknown: did you mean 'cycle'? allowed are complete, "),
        (["from_edges"], "graph 'from_edges' is unknown: "),
        (
            ["cycle", "--agents", 0],
            "agents must be a whole number at least 1 and at most 100000000, got 0",
        ),
        (["star", "--agents", 5, "--weights", "metro"], "weights 'metro' is unknown: did you mean"),
        (["star", "--agents", 5, "--gossip", "--failing", 0.1], "dynamics do not chain"),
        (["star", "--agents", 5, "--failing", 1], "p must be a finite number"),
        (["star", "--agents", 5, "--means", "a,b"], "--means must be numbers separated by commas"),
        (["star", "--agents", 5, "--means", ""], "--means must be numbers separated by commas"),
        (["star", "--agents", 5, "--means", "1,2"], "means: arm 1 has mean 2.0, but bernoulli"),
        (["star", "--agents", 5, "--means", "0.5"], "means must hold at least 2 arms"),
        (["star", "--agents", 5, "--sigma", 1], "--sigma needs --means"),
        (["star", "--agents", 5, "--simulate", 1], "--simulate needs --means"),
        (["star", "--agents", 5, "--means", "1,0", "--sigma", 0], "sigma must be a finite number"),
        (["star", "--agents", 5, "--means", "1,0", "--simulate", 0], "runs must be a whole number"),
        (["star", "--agents", 5, "--means", "1,0", "--epsilon", 0], "epsilon must be"),
        (["erdos_renyi", "--agents", 30, "--p", 0.01], "erdos_renyi(agents=30, p=0.01"),
    ],
)
def test_mistakes(arguments, sentence, shown):
    code, out, err = shown(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"posse: {sentence}")
    assert err.count("\n") == 1
