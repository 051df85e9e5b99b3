"""`keep=` on the compiled engine: per-agent regret, true means, messages and beliefs."""

import dataclasses

import numpy as np
import pytest

import posse
from posse import beliefs, families, networks
from posse.lab.compiled import engine
from posse.lab.compiled import registry as plan
from posse.lab.simulation import Simulation

TS = posse.ThompsonSampling()
DEC = posse.Decentralized(TS)
MEANS = [0.2, 0.7, 0.5]
BERNOULLI = posse.Bandit.bernoulli(MEANS)
NETWORKS = {
    "cycle": networks.cycle(5),
    "complete": networks.complete(4),
    "star": networks.star(6).weighted("metropolis"),
    "gossip": networks.grid(2, 3).gossip(),
    "failing": networks.cycle(6).failing(0.4),
    "one agent": networks.complete(1),
}


def play(network, algorithm, keep, *, bandit=BERNOULLI, horizon=12, runs=3, times=None, **sizes):
    times = np.arange(1, horizon + 1) if times is None else np.array(times)
    simulation = Simulation(bandit, network, algorithm, horizon, 4, times, keep)
    assert plan.missing_kernel(simulation) is None
    return engine.Engine(simulation).run(range(runs), 1, lambda steps: None)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize(
    "algorithm",
    [DEC, posse.Centralized(TS), posse.Isolated(TS), posse.CoopUCB2()],
    ids=lambda algorithm: algorithm.name,
)
class TestAgents:
    def test_their_mean_is_the_regret(self, network, algorithm):
        bandit = posse.Bandit.gaussian(MEANS)
        block = play(network, algorithm, ("agents", "means"), bandit=bandit)
        agents = block.kept["agents"]
        assert agents.shape == (3, network.n_agents, 12)
        np.testing.assert_allclose(agents.mean(axis=1), block.regret, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(block.kept["means"], np.tile(MEANS, (3, 1)))
        gaps = max(MEANS) - np.array(MEANS)
        if not getattr(algorithm, "charge_initial", True):
            return
        np.testing.assert_allclose(agents[:, :, -1], block.pulls @ gaps, rtol=1e-12, atol=1e-12)


def test_keeping_changes_nothing_else():
    for network in NETWORKS.values():
        plain = play(network, DEC, ())
        kept = play(network, DEC, ("agents", "means", "messages", "beliefs"), times=[3, 7, 12])
        np.testing.assert_array_equal(plain.pulls, kept.pulls)
        np.testing.assert_array_equal(plain.regret[:, [2, 6, 11]], kept.regret)


@pytest.mark.parametrize("family", plan.POSTERIOR_KERNELS, ids=lambda family: family.__name__)
def test_beliefs_are_what_observing_and_merging_make_of_the_prior(family):
    """Driven round by round: arms from the pulls, rewards from the belief itself."""
    network, model = networks.cycle(5), family()
    bandit = posse.Bandit(model, MEANS)
    block = play(network, DEC, ("beliefs",), bandit=bandit, times=range(1, 13))
    pulls = np.zeros((3, 5, 3))
    before = beliefs.prior(model, (3, 5), 3)
    kept = block.kept["beliefs"]
    assert kept.shape == (3, 12, len(model.prior()), 5, 3)
    for t in range(1, 13):
        now = play(network, DEC, (), bandit=bandit, horizon=t).pulls
        arms = (now - pulls).argmax(axis=2)
        after = np.moveaxis(kept[:, t - 1], 1, 0)
        # what was observed: the beliefs before they were merged, by W's inverse
        updated = np.linalg.solve(np.asarray(network.weights), after)
        count, total, *_ = families.to_count_and_total(model, updated - before)
        played = np.take_along_axis(total / np.where(count == 0, 1, count), arms[..., None], 2)
        rewards = np.clip(played[..., 0], *model.rewards[:2])  # but for rounding
        expected = beliefs.observe(before, arms, rewards, model, 5.0)
        np.testing.assert_allclose(
            beliefs.merge(expected, network.weights), after, rtol=1e-7, atol=1e-7
        )
        before, pulls = after, now


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_beliefs_agree_with_the_reference_in_mean(network):
    """3 standard errors and a half at each of 60 places at most: errs once in 50 networks."""
    moments = []
    for name in ("reference", "compiled"):
        result = posse.simulate(
            BERNOULLI, network, DEC, horizon=10, runs=600, record=[4, 10], seed=3, engine=name,
            keep="beliefs",
        )  # fmt: skip
        assert result.engine == name
        values = result.beliefs.sum(axis=2).mean(axis=2)  # (runs, times, K): mass of each arm
        moments.append((values.mean(axis=0), values.var(axis=0) / len(values)))
    (a, var_a), (b, var_b) = moments
    assert np.all(np.abs(a - b) < 3.5 * np.sqrt(var_a + var_b) + 1e-9)


def sent(network, algorithm, name, runs=3, horizon=12):
    return posse.simulate(
        BERNOULLI, network, algorithm, horizon=horizon, runs=runs, engine=name, keep="messages"
    ).numbers_sent


@pytest.mark.parametrize("name", ["cycle", "complete", "star", "gossip", "one agent"])
@pytest.mark.parametrize(
    "algorithm",
    [
        DEC,
        posse.Centralized(TS),
        posse.Isolated(TS),
        posse.Flooding(TS),
        posse.Tree(TS),
        posse.PushSum(TS),
        posse.PushSum(TS, learning_rate="learnt"),
        posse.CoopUCB2(),
    ],
    ids=lambda algorithm: f"{algorithm.name} {getattr(algorithm, 'learning_rate', '')}",
)
def test_messages_are_those_of_the_reference(name, algorithm):
    network = NETWORKS[name]
    simulation = Simulation(BERNOULLI, network, algorithm, 1, 0, np.array([1]))
    if plan.missing_kernel(simulation):
        return
    np.testing.assert_allclose(
        sent(network, algorithm, "compiled"), sent(network, algorithm, "reference")
    )


def test_messages_over_failing_links_are_counted_as_they_happen():
    network = networks.cycle(6).failing(0.4)
    got = sent(network, DEC, "compiled", runs=200, horizon=40)
    per_round = np.diff(got, axis=1) * 6 / (2 * 2 * 3)  # links alive, of 6
    assert set(np.unique(np.round(per_round, 9))) <= set(range(7))
    assert per_round.mean() == pytest.approx(3.6, abs=5 * (6 * 0.24 / per_round.size) ** 0.5)


def test_a_big_network_keeps_the_same(monkeypatch):
    keep = ("agents", "means", "messages", "beliefs")
    network = networks.cycle(100)
    whole = play(network, DEC, keep, times=[3, 7, 12], runs=2)
    monkeypatch.setattr(engine, "BIG_NETWORK", 50)
    monkeypatch.setattr(engine, "TILE_ROWS", 16)
    cut = play(network, DEC, keep, times=[3, 7, 12], runs=2)
    for name in keep:
        np.testing.assert_array_equal(whole.kept[name], cut.kept[name])


def test_a_family_of_ones_own_has_the_kernels_it_names_itself():
    """A kernel of the parent would not know what was changed."""

    @dataclasses.dataclass(frozen=True)
    class Inheriting(families.Bernoulli):
        name = "inheriting"

    @dataclasses.dataclass(frozen=True)
    class Naming(families.Bernoulli):
        kernel = "BETA"
        reward_kernel = "draw_bernoulli"

    assert plan.posterior_kernel(Inheriting) is plan.reward_kernel(Inheriting) is None
    assert plan.posterior_kernel(Naming) == "BETA"
    assert plan.reward_kernel(Naming) == "draw_bernoulli"
    block = play(networks.cycle(3), DEC, (), bandit=posse.Bandit(Naming(), MEANS))
    usual = play(networks.cycle(3), DEC, ())
    np.testing.assert_array_equal(block.pulls, usual.pulls)
