"""The public face is a contract: these lines run as they stand."""

import subprocess
import sys

import matplotlib
import pytest

matplotlib.use("Agg")


def test_the_contract_runs_verbatim(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # fmt: off
    import posse

    bandit  = posse.Bandit.gaussian([0.5] + [0.1] * 16, sigma=1.0)
    network = posse.networks.cycle(100)                 # weights: I - (D - A) / (max degree + 1)
    ts      = posse.Decentralized(posse.ThompsonSampling())
    ucb     = posse.Decentralized(posse.BayesUCB())
    alone   = posse.Isolated(posse.ThompsonSampling())

    result = posse.simulate(bandit, network, ts, horizon=1000, runs=200, seed=7)
    result.times
    result.regret
    result.pulls
    result.summary()
    result.to_xarray(); result.to_dataframe(); result.save("r.nc"); posse.load("r.nc")  # noqa: E702
    result.plot()

    comparison = posse.compare(bandit, network, {"dec-TS": ts, "dec-Bayes-UCB": ucb, "alone": alone},
                               horizon=1000, runs=200, seed=7)
    comparison["dec-TS"].regret;  comparison.plot();  comparison.table()  # noqa: B018, E702
    # fmt: on

    assert result.regret.shape == (200, 1000)
    assert result.pulls.shape == (200, 100, 17)
    assert result.times[0] == 1
    assert result.times[-1] == 1000
    assert (comparison["dec-TS"].regret == result.regret).all()
