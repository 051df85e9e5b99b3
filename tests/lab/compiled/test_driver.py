"""The driver: what it did, replayed with the reference's two equations to 1e-12.

A run of t rounds is the start of a run of t + 1 rounds, so its last arms and rewards, taken for
t = 1, 2, ..., are the whole story; the beliefs must be what `observe` and `merge` make of it.
"""

import numpy as np
import pytest

import posse
from posse import beliefs, families, networks
from posse.activity import Custom, PlayMasks
from posse.families import Bernoulli, Bounded, Exponential, Gaussian, Poisson
from posse.lab.compiled.kernels import merge
from posse.lab.compiled.network_arrays import build_network_arrays
from posse.lab.compiled.philox import U64, key_of
from posse.lab.compiled.records import IDLE
from posse.lab.compiled.registry import POSTERIOR_KERNELS, plan_kernels
from posse.lab.simulation import Simulation

SEED, HORIZON, RUNS = 5, 12, 3  # the seed and runs of the fixture `play`
NETWORKS = {
    "cycle": networks.cycle(5),
    "star": networks.star(6).weighted("metropolis"),
    "complete": networks.complete(4),
    "complete, lazy": networks.complete(4).weighted("lazy"),
    "gossip": networks.grid(2, 3).gossip(),
    "failing": networks.regular_ring(7, 2).failing(0.3),
    "failing, complete": networks.complete(5).failing(0.3),
    "failing often": networks.cycle(6).failing(0.7),
    "realised": networks.star(5).failing(0.4, normalise="realised"),
    "one agent": networks.complete(1),
    "one agent, gossip": networks.complete(1).gossip(),
    "one agent, failing": networks.path(1).failing(0.5),
}
MEANS = [0.1, 0.9, 0.5]
BANDITS = {
    "gaussian": posse.Bandit(Gaussian(sigma=0.7, prior_mean=0.3, prior_sd=2.0), [0.1, 0.9, 0.5]),
    "bernoulli": posse.Bandit(Bernoulli(2.0, 0.5), [0.1, 0.9, 0.5]),
    "bounded": posse.Bandit(Bounded(1.0, 3.0, concentration=2.0), [0.1, 0.9, 0.5]),
    "poisson": posse.Bandit(Poisson(0.5, 2.0), [0.4, 3.0, 1.0]),
    "exponential": posse.Bandit(Exponential(3.0, 0.2), [0.4, 3.0, 1.0]),
}
# and whatever else the table has, as it is by default
BANDITS |= {
    family.__name__: posse.Bandit(family(), MEANS)
    for family in POSTERIOR_KERNELS
    if family not in {type(bandit.family) for bandit in BANDITS.values()}
}
TS = posse.ThompsonSampling()


def belief_of(rows, family, n_agents):
    """The kernels' state in the family's coordinates: (D, runs, N, K)."""
    state = rows.other if rows.flipped else rows.state
    n_arms, n_planes = len(rows.means) // RUNS, len(rows.plan.prior)
    sums = state.reshape(RUNS, -1, n_planes, n_arms)  # one row an agent, or one for all
    sums = np.broadcast_to(sums, (RUNS, n_agents, n_planes, n_arms)).transpose(2, 0, 1, 3)
    return families.from_count_and_total(family, sums)


def weights_of_round(network, t):
    """W(t) of each run, from the merge kernel applied to unit rows: (runs, N, N)."""
    n_agents = network.n_agents
    simulation = Simulation(BANDITS["gaussian"], network, posse.Decentralized(TS), 1, SEED, [1])
    plan = plan_kernels(simulation)
    if plan.merge == "merge_nothing":
        w = network.weights
        return np.broadcast_to(w, (RUNS, n_agents, n_agents))
    links = build_network_arrays(network, plan)
    units = np.zeros((RUNS, n_agents, n_agents + n_agents % 2))
    units[:, :, :n_agents] = np.eye(n_agents)
    state, out = units.reshape(-1).copy(), np.empty(units.size)
    moved = getattr(merge, plan.merge)(
        out, state, links.offsets, links.neighbours, links.weights, links.links, links.constants,
        np.zeros(links.n_words, np.uint64), np.zeros(RUNS * n_agents, np.uint32), np.zeros(0),
        np.zeros(0),
        U64(0), U64(RUNS * n_agents), U64(n_agents),
        U64(units.shape[2] // 2), U64(0), U64(t), *key_of(SEED),
    )  # fmt: skip
    return (out if moved else state).reshape(units.shape)[:, :, :n_agents]


def replay(play, bandit, network, algorithm):
    """Check every round of a run, and that the pulls and the regret add up."""
    n_agents, family = network.n_agents, algorithm.family or bandit.family
    expected = beliefs.prior(family, (RUNS, n_agents), bandit.n_arms)
    pulls, regret = np.zeros((RUNS, n_agents, bandit.n_arms)), np.zeros(RUNS)
    means = np.array(bandit.means)
    for t in range(1, HORIZON + 1):
        result, rows = play(bandit, network, algorithm, t)
        arms = rows.arms.reshape(RUNS, n_agents).astype(np.intp)
        rewards = rows.rewards[: arms.size].reshape(arms.shape)
        if isinstance(algorithm, posse.Decentralized):
            if t > 1:
                expected = beliefs.merge(expected, weights_of_round(network, t))
            rate = algorithm.learning_rate or n_agents
            expected = beliefs.observe(expected, arms, rewards, family, rate)
        elif isinstance(algorithm, posse.Isolated):
            expected = beliefs.observe(expected, arms, rewards, family, 1.0)
        else:
            expected = beliefs.observe(expected, arms, rewards, family, n_agents)
            expected = np.broadcast_to(expected.mean(axis=2, keepdims=True), expected.shape)
        got = belief_of(rows, family, n_agents)
        if rows.plan.shared:  # one row for all: already merged
            of_all = expected.mean(axis=2, keepdims=True)
            np.testing.assert_allclose(got, np.broadcast_to(of_all, got.shape), rtol=1e-12)
        else:
            np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14)
        played = np.take_along_axis(rows.order, arms, axis=1)  # in the caller's order
        np.add.at(pulls, (np.arange(RUNS)[:, None], np.arange(n_agents), played), 1)
        regret += (means.max() - means[played]).mean(axis=1)
        np.testing.assert_array_equal(result.pulls, pulls)
        np.testing.assert_allclose(result.regret[:, -1], regret, rtol=1e-12)
        assert result.regret.shape == (RUNS, t)


def sleep_by_chance(t, n_agents, generator):
    """Some agents sleep, and all of them in round 3."""
    return (generator.random(n_agents) < 0.6) & (t != 3)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_agents_that_sleep_add_nothing(play, network):
    """The running-consensus identity with the statistics of those who play."""
    family = Gaussian(sigma=0.7, prior_mean=0.3, prior_sd=2.0)
    who = Custom(sleep_by_chance)
    n_agents = network.n_agents
    masks = PlayMasks(who, SEED, range(RUNS), n_agents).draw_rounds(HORIZON)
    counts = sums = np.zeros((RUNS, n_agents, 3))
    for t in range(1, HORIZON + 1):
        _, rows = play(BANDITS["gaussian"], network, posse.Decentralized(TS), t, who)
        arms = rows.arms.reshape(RUNS, n_agents)
        np.testing.assert_array_equal(arms == IDLE, ~masks[t - 1])
        if t > 1:
            weights = weights_of_round(network, t)
            counts = weights @ counts
            sums = weights @ sums
        rewards = rows.rewards[: arms.size].reshape(arms.shape)
        played = np.arange(3) == arms[..., None]
        counts = counts + played
        sums = sums + played * rewards[..., None]
        precision = 1 / 2.0**2 + n_agents * counts / 0.7**2
        expected = np.stack([0.3 / 2.0**2 + n_agents * sums / 0.7**2, precision])
        if rows.plan.shared:
            expected = expected.mean(axis=2, keepdims=True)
        got = belief_of(rows, family, n_agents)
        np.testing.assert_allclose(got, np.broadcast_to(expected, got.shape), rtol=1e-11)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_every_kind_of_network(play, network):
    replay(play, BANDITS["gaussian"], network, posse.Decentralized(TS))


@pytest.mark.parametrize("bandit", BANDITS.values(), ids=BANDITS)
@pytest.mark.parametrize(
    "algorithm",
    [
        posse.Decentralized(TS, learning_rate=0.37),
        posse.Decentralized(posse.BayesUCB()),
        posse.Isolated(posse.Greedy()),
        posse.Centralized(TS),
        posse.Centralized(posse.BayesUCB()),
    ],
    ids=lambda a: f"{a.name}-{a.policy.name}",
)
def test_every_family_and_algorithm(play, bandit, algorithm):
    replay(play, bandit, networks.cycle(5), algorithm)


def test_another_model_than_the_bandits(play):
    replay(play, BANDITS["bernoulli"], networks.cycle(4), posse.Decentralized(TS, Gaussian(0.5)))
    replay(play, BANDITS["poisson"], networks.cycle(4), posse.Decentralized(TS, Exponential(2.5)))


@pytest.mark.parametrize("record", [None, 5, [3, 4, 11], [40]])
def test_recording_some_rounds_does_not_change_them(record):
    options = {"horizon": 40, "runs": 4, "seed": 2, "engine": "compiled"}
    full = posse.simulate(
        BANDITS["gaussian"], NETWORKS["cycle"], posse.Decentralized(TS), **options
    )
    some = posse.simulate(
        BANDITS["gaussian"], NETWORKS["cycle"], posse.Decentralized(TS), record=record, **options
    )
    np.testing.assert_array_equal(some.regret, full.regret[:, some.times - 1])
    np.testing.assert_array_equal(some.pulls, full.pulls)
    assert some.times[-1] == 40
