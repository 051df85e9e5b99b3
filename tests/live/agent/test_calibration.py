"""What people are shown is calibrated: 95% intervals that hold the mean in 92% to 98% of cases."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from posse import networks
from posse.live.agent.factory import make_evidence
from posse.live.ledger.sums import PER_UNIT

STUDIES = Path(__file__).parents[3] / "studies"
here = SimpleNamespace(**runpy.run_path(str(STUDIES / "live_calibration.py")))
# For standard errors of about 1% over runs. Seeds are fixed; `make study` has ten times as many.
RUNS = {"origins": 600, "flows": 300}


@pytest.mark.parametrize("exchange", ["origins", pytest.param("flows", marks=pytest.mark.long)])
def test_shown_intervals_cover_the_mean(exchange):
    """Of the best arm, and over all arms, early and late: within 3 errors, 1% of seeds fail."""
    seeds = range(RUNS[exchange] // here.AT_ONCE)
    shares = np.concatenate([here.coverage(exchange, 16, seed) for seed in seeds], axis=2)
    for now, (shown, acted_on) in zip(here.TIMES, shares, strict=True):
        for arms, each in (("best arm", shown[:, 0]), ("all arms", shown.mean(axis=1))):
            mean, error = here.estimate(each)
            least, most = here.LOW - 3 * error, here.HIGH + 3 * error
            assert least <= mean <= most, f"t = {now}, {arms}: {mean:.1%} ± {error:.1%}"
            assert error < 0.012
        if exchange == "flows":  # why the belief that agents act on is not the one to be shown
            assert acted_on[:, 0].mean() < here.LOW


@pytest.mark.parametrize(
    ("exchange", "n_agents", "rounds"),
    [
        ("origins", 16, 100),
        ("flows", 16, 100),
        pytest.param("origins", 100, 15, marks=pytest.mark.long),
        pytest.param("flows", 100, 15, marks=pytest.mark.long),
    ],
)
def test_arrays_hold_what_real_agents_hold(exchange, n_agents, rounds):
    """Fed with the same pulls; from it come the intervals that the agents show and act on."""
    network, evidence = networks.cycle(n_agents), here.evidence_of(exchange)
    real = here.travel.live.LiveNetwork(
        network, here.MEANS, here.FAMILY, exchange, seed=3, reward_range=here.REWARD_RANGE
    )
    held_by_agents = make_evidence(exchange, here.FAMILY, here.REWARD_RANGE, None)
    agents = list(real.agents.values())
    arrays = here.travel.TRAVEL[exchange](network, [agent.exchange.identity for agent in agents])
    shape = (n_agents, len(here.MEANS), len(evidence.bounds))
    before = np.zeros(shape)
    for _ in range(rounds):
        real.round()
        own = array([closed(held_by_agents, agent.exchange.own()) for agent in agents], shape)
        held = arrays.step(own - before)
        before = own
    # a step of flows is whole quanta, and an agent's evidence N times as much
    within = 0.0 if exchange == "origins" else 4 * rounds * n_agents / PER_UNIT
    expected = array([closed(held_by_agents, agent.exchange.evidence()) for agent in agents], shape)
    np.testing.assert_allclose(held, expected, rtol=0.0, atol=within)
    shown, acted_on = here.intervals(evidence, held)
    for i, agent in enumerate(agents[:4]):
        arms = agent.arms().values()
        ends = [arm.low for arm in arms], [arm.high for arm in arms]
        np.testing.assert_allclose(ends, shown[:, i], atol=1e-3)
        ends = [here.FAMILY.mean_quantile(agent.belief, level) for level in (0.025, 0.975)]
        np.testing.assert_allclose(ends, acted_on[:, i], atol=1e-3)


def closed(evidence, ledger):
    """The part of closed decisions, which is all of it."""
    return {arm: evidence.closed_part(quanta) for arm, quanta in ledger.items()}


def array(ledgers, shape):
    """Agents' ledgers as pulls (N, K, D)."""
    values = np.zeros(shape)
    for i, ledger in enumerate(ledgers):
        for arm, quanta in ledger.items():
            values[i, "abcde".index(arm)] = np.array(quanta) / PER_UNIT
    return values
