"""The table of bounds: every row by hand, and which rows apply."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

import posse
from posse import networks, theory

BERNOULLI = posse.Bandit.bernoulli([0.6, 0.5, 0.2])
GAUSSIAN = posse.Bandit.gaussian([0.6, 0.5, 0.2], sigma=2.0)


def test_rows_by_hand() -> None:
    network = networks.star(9)
    table = theory.bounds(BERNOULLI, network, 400, epsilon=0.25)
    assert list(table.columns) == ["regret", "low", "high", "kind", "source"]
    regret = table.regret
    assert list(regret.index) == ["Lai-Robbins", "Theorem 1", "UCB1 alone", "DDUCB", "prediction"]
    assert regret["Lai-Robbins"] == pytest.approx(theory.lai_robbins(BERNOULLI, 9) * math.log(400))
    terms = theory.theorem_1([0.6, 0.5, 0.2], 9, network.spectral_gap, 400, 0.25)
    assert regret["Theorem 1"] == pytest.approx(terms.explicit)
    assert "no finite-time bound" in table.kind["Theorem 1"]
    # gaps 0.1 and 0.4
    inverse = 1 / 0.1 + 1 / 0.4
    assert regret["UCB1 alone"] == pytest.approx(
        8 * math.log(400) * inverse + (1 + math.pi**2 / 3) * 0.5
    )
    rounds = math.ceil(math.log(2 * 9 * 22) / math.sqrt(2 * math.log(1 / (8 / 9))))
    whole = (
        32 * (1 + 1 / 11) * 0.25 * math.log(9 * 400) * inverse + (9 * (6 * rounds + 1) + 4) * 0.5
    )
    assert regret["DDUCB"] == pytest.approx(whole / 9)
    prediction = theory.predicted_regret(BERNOULLI, network, 400)
    assert regret["prediction"] == prediction.final
    assert table.low["prediction"] == prediction.quantile(0.05)[-1]
    assert table.high["prediction"] == prediction.quantile(0.95)[-1]
    assert np.isnan(table.low["DDUCB"])
    assert (table.source != "").all()


def test_rows_that_do_not_apply_are_left_out() -> None:
    rows = theory.bounds(GAUSSIAN, networks.star(9).gossip(), 50).index
    assert list(rows) == ["Lai-Robbins", "prediction"]
    rows = theory.bounds(GAUSSIAN, networks.star(9), 50).index
    assert list(rows) == ["Lai-Robbins", "DDUCB", "prediction"]
    # no closed form of E[W(t)]
    realised = networks.cycle(5).failing(0.2, normalise="realised")
    assert "Theorem 1" not in theory.bounds(BERNOULLI, realised, 20).index
    unknown = posse.Bandit(posse.families.GaussianUnknownVariance(), [0.5, 0.1])
    assert "prediction" not in theory.bounds(unknown, networks.cycle(5), 20).index


def test_a_simulation_is_the_last_row() -> None:
    summary = SimpleNamespace(mean=3.0, low=2.5, high=3.5)
    table = theory.bounds(GAUSSIAN, networks.cycle(5), 20, summary)
    assert table.iloc[-1][["regret", "low", "high"]].tolist() == [3.0, 2.5, 3.5]
    assert table.index[-1] == "simulated"


def test_bounds_refuse() -> None:
    with pytest.raises(ValueError, match="horizon must be a whole number at least 1, got 0"):
        theory.bounds(GAUSSIAN, networks.cycle(5), 0)
    with pytest.raises(ValueError, match="epsilon must be a finite number above 0"):
        theory.bounds(GAUSSIAN, networks.cycle(5), 5, epsilon=0)
    for bandit in (GAUSSIAN.drifting(every=9), posse.Bandit.gaussian([0.5, 0.1], site_sd=1.0)):
        with pytest.raises(ValueError, match="bounds needs fixed means"):
            theory.bounds(bandit, networks.cycle(5), 5)
