"""The public face is a contract: these lines run as they stand."""

import subprocess
import sys

import matplotlib
import numpy as np
import pytest

import posse

matplotlib.use("Agg")

CONTRACT = """
import posse

bandit  = posse.Bandit.gaussian([0.5] + [0.1] * 16, sigma=1.0)
network = posse.networks.cycle(100)                 # weights: I - (D - A) / (max degree + 1)
ts      = posse.Decentralized(posse.ThompsonSampling())
ucb     = posse.Decentralized(posse.BayesUCB())
alone   = posse.Isolated(posse.ThompsonSampling())

result = posse.simulate(bandit, network, ts, horizon=1000, runs=200, seed=7)
result.times          # (len,) 1-based rounds recorded; all of them unless record= says otherwise
result.regret         # ndarray (runs, len(times)): cumulative pseudo-regret, averaged over agents
result.pulls          # ndarray (runs, agents, arms): how often each agent played each arm
result.summary()      # a small frozen dataclass: mean, standard error, 95% interval at the horizon
result.to_xarray(); result.to_dataframe(); result.save("r.nc"); posse.load("r.nc")
result.plot()         # a matplotlib Axes

comparison = posse.compare(bandit, network, {"dec-TS": ts, "dec-Bayes-UCB": ucb, "alone": alone},
                           horizon=1000, runs=200, seed=7)
comparison["dec-TS"].regret;  comparison.plot();  comparison.table()      # a DataFrame
"""


def test_the_contract_runs_verbatim(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(CONTRACT, "contract", "exec"), names)
    result, comparison = names["result"], names["comparison"]
    assert result.regret.shape == (200, 1000)
    assert result.pulls.shape == (200, 100, 17)
    np.testing.assert_array_equal(result.times, np.arange(1, 1001))
    np.testing.assert_array_equal(comparison["dec-TS"].regret, result.regret)
    np.testing.assert_array_equal(posse.load("r.nc").regret, result.regret)
    table = comparison.table()
    assert list(table.index) == ["dec-TS", "dec-Bayes-UCB", "alone"]
    assert table.loc["dec-TS", "regret"] < table.loc["alone", "regret"] / 5


def test_every_public_name_exists_and_nothing_else_does():
    for name in posse.__all__:
        assert getattr(posse, name) is not None
    assert set(posse.__all__) <= set(dir(posse))
    with pytest.raises(AttributeError, match=r"no attribute 'nonsense'$"):
        posse.nonsense  # noqa: B018
    with pytest.raises(AttributeError, match="did you mean 'ThompsonSampling'"):
        posse.ThompsonSamplng  # noqa: B018


@pytest.mark.parametrize(
    "make",
    [
        lambda: posse.Decentralized(posse.ThompsonSampling(), family=None, learning_rate=None),
        lambda: posse.Isolated(posse.Greedy(), family=None),
        lambda: posse.Centralized(posse.Greedy(), family=None),
        lambda: posse.BayesUCB(log_power=0.0),
        lambda: posse.families.Bernoulli(alpha=1, beta=1),
        lambda: posse.families.Gaussian(sigma=1, prior_mean=0, prior_sd=1),
        lambda: posse.families.Bounded(concentration=5),
        lambda: posse.Bandit(posse.families.Poisson(), [1.0, 2.0]),
        lambda: posse.networks.grid(rows=2, columns=3),
        lambda: posse.networks.regular_ring(agents=7, k=2),
        lambda: posse.networks.erdos_renyi(20, 0.5, seed=1),
        lambda: posse.networks.cycle(5).weighted("lazy"),
        lambda: posse.networks.cycle(5).gossip(),
        lambda: posse.networks.cycle(5).failing(0.3),
        lambda: posse.bandits.UniformMeans(20, 0.0, 1.0),
    ],
)
def test_values_print_compare_and_hash(make):
    first, second = make(), make()
    assert first == second
    assert hash(first) == hash(second)
    assert repr(first) == repr(second)
    assert first is not second


def test_importing_posse_loads_nothing_heavy():
    heavy = [
        "numpy",
        "scipy",
        "networkx",
        "pandas",
        "xarray",
        "matplotlib",
        "numba",
        "pydantic",
        "typer",
        "rich",
    ]
    code = f"import sys, posse; print([m for m in {heavy} if m in sys.modules])"
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert shown.stdout.strip() == "[]"


def test_simulating_loads_no_plots_tables_or_graphs():
    heavy = ["networkx", "pandas", "xarray", "matplotlib", "pydantic", "typer", "rich"]
    code = (
        "import sys, posse\n"
        "posse.simulate(posse.Bandit.gaussian([0, 1]), posse.networks.cycle(3),"
        " posse.Decentralized(posse.ThompsonSampling()), horizon=3, runs=1)\n"
        f"print([m for m in {heavy} if m in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert shown.stdout.strip() == "[]"
