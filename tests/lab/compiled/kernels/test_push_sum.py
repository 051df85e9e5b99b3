"""The kernels of PushSum: round by round the beliefs of the reference, and P(t) read off masses.

Statistical tests reject with probability 1e-5 each if all is well.
"""

import numpy as np
import pytest
from scipy import stats

import posse
from posse import networks
from posse.lab.compiled.jit import KERNELS
from posse.lab.compiled.kernels import push_sum
from posse.lab.compiled.network_arrays import build_network_arrays
from posse.lab.compiled.philox import U64, key_of
from posse.lab.compiled.registry import plan_kernels
from posse.lab.simulation import Simulation
from tests.lab.compiled.kernels.test_baselines import BANDIT, pairs, rounds

ERROR_RATE = 1e-5
TS = posse.ThompsonSampling()
ONE_WAY = networks.from_edges([(0, 1), (1, 2), (2, 0), (2, 3), (3, 0)], directed=True)
RATES = {"known": None, "learnt": "learnt", "given": 2.5}
NETWORKS = {
    "star": networks.star(5).weighted("metropolis"),
    "long path": networks.path(30),  # agent 0 is long in reaching the other end
    "directed": ONE_WAY,
    "complete": networks.complete(4).weighted("lazy"),
    "cycle": networks.cycle(6).weighted("lazy"),
    "lopsided": networks.from_matrix([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]]),
}


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("name", NETWORKS)
def test_beliefs_are_those_of_the_reference(play, name, rate):
    """After a round, without its own reward: what the reference held before it."""
    network = NETWORKS[name]
    algorithm = posse.PushSum(posse.RandUCB(), learning_rate=RATES[rate])
    weight = algorithm.resolve_learning_rate(
        Simulation(BANDIT, network, algorithm, 1, 0, np.array([1])).build_problem(1)
    )
    horizon = 8 if rate != "learnt" else 14
    for _, rows, arms, state in rounds(play, network, algorithm, horizon):
        plan = rows.plan
        if plan.shared:
            precision, shift = np.moveaxis(rows.state.reshape(3, 1, 2, 3), 2, 0)
            added = np.full(arms.shape, plan.rate)
        else:
            current = rows.other if rows.flipped else rows.state
            precision, shift = pairs(current, network)
            added = np.full(arms.shape, weight / 0.7**2)
        played = np.eye(3)[arms] * added[..., None]
        rewards = rows.rewards[: arms.size].reshape(arms.shape)[..., None]
        if plan.shared:  # one row has the rewards of all agents
            played, rewards = played.sum(axis=1, keepdims=True), None
            np.testing.assert_allclose(precision - played, state.belief[1][:, :1], rtol=1e-10)
            continue
        np.testing.assert_allclose(precision - played, state.belief[1], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(shift - played * rewards, state.belief[0], rtol=1e-9, atol=1e-9)


def push(network, masses, evidence, t=2, n_runs=1, learnt=False):
    """One call of the kernel on masses (2, N) and evidence (N, 2 K), the same in every run.

    Rows are prior + evidence / divisor, the prior (0.25, 0.5); returns masses, evidence and
    evidence / divisor by run.
    """
    algorithm = posse.PushSum(TS, learning_rate="learnt" if learnt else 1.0)
    simulation = Simulation(BANDIT, network, algorithm, 5, 0, np.array([5]))
    plan = plan_kernels(simulation)
    arrays = build_network_arrays(network, plan)
    prior = np.repeat([0.25, 0.5], evidence.shape[1] // 2)
    arrays.constants[[push_sum.PRIOR, push_sum.PRIOR + 1]] = 0.25, 0.5
    arrays.constants[push_sum.RATE] = 0.0  # no observations
    n_agents = network.n_agents
    divisor = np.where(masses[1] > 0, masses[1], masses[0]) if learnt else masses[0]
    rows = prior + evidence / divisor[:, None]
    state = np.tile(rows.reshape(-1), n_runs)
    out = np.full(state.size, np.nan)
    store = np.append(np.tile([*masses.reshape(-1), *np.zeros(n_agents)], n_runs), 1.0)
    moved = KERNELS[plan.merge](
        out, state, arrays.offsets, arrays.neighbours, arrays.weights, arrays.links,
        arrays.constants, np.zeros(arrays.n_words, np.uint64),
        np.zeros(n_runs * n_agents, np.uint32), np.zeros(n_runs * n_agents), store,
        U64(0), U64(n_runs * n_agents), U64(n_agents), U64(evidence.shape[1] // 2),
        U64(0), U64(t), *key_of(3),
    )  # fmt: skip
    after = store[:-1].reshape(n_runs, 3, n_agents)[:, :2]
    rows = (out if moved else state).reshape(n_runs, n_agents, -1)
    divisor = np.where(after[:, 1] > 1e-90, after[:, 1], after[:, 0]) if learnt else after[:, 0]
    return after, (rows - prior) * divisor[..., None], rows - prior


CHANGING = {
    "star": networks.star(6).failing(0.4),
    "realised": networks.star(6).failing(0.4, normalise="realised"),
    "directed": ONE_WAY.failing(0.3),
    "directed, realised": ONE_WAY.failing(0.3, normalise="realised"),
    "directed gossip": ONE_WAY.gossip(),
}


@pytest.mark.parametrize("name", CHANGING)
def test_shares_of_a_round(name):
    """Evidence of one agent alone shows its column of P(t); links fail as often as they should."""
    network, n_runs = CHANGING[name], 600
    n_agents = network.n_agents
    generator = np.random.default_rng(1)
    masses = np.stack([generator.uniform(0.5, 2, n_agents), np.zeros(n_agents)])
    masses[1, 0] = 1.0
    unit = np.zeros((n_agents, n_agents + n_agents % 2))
    unit[:, :n_agents] = np.eye(n_agents)
    after, evidence, _ = push(network, masses, unit, n_runs=n_runs)
    p = evidence[:, :, :n_agents]  # unit evidence of j arrives at i as P(t)_ij
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(after[:, 0], p @ masses[0], rtol=1e-10)
    sender, receiver = network.edges.T
    if not network.is_directed:
        np.testing.assert_array_equal(p[:, 1:, 0] > 0.01, p[:, 0, 1:] > 0.01)
    works = p[:, receiver, sender] > 0.01
    if name == "directed gossip":
        assert (works.sum(axis=1) == 1).all()
        assert stats.chisquare(works.sum(axis=0)).pvalue > ERROR_RATE
        np.testing.assert_allclose(p[:, receiver, sender], works / 2, atol=1e-12)
        return
    chance = 1 - network.dynamics.p
    assert stats.binomtest(int(works.sum()), works.size, chance).pvalue > ERROR_RATE
    links = np.zeros((n_runs, n_agents, n_agents), dtype=bool)
    links[:, receiver, sender] = works
    if not network.is_directed:
        links |= np.swapaxes(links, 1, 2)
    full = networks.Static() == network.dynamics or network.dynamics.normalise == "full"
    share = 1 / (1 + (network.degrees if full else links.sum(axis=1, keepdims=True)))
    expected = np.where(links, share, 0.0)
    expected[:, np.arange(n_agents), np.arange(n_agents)] = 1 - expected.sum(axis=1)
    np.testing.assert_allclose(p, expected, atol=1e-12)


@pytest.mark.parametrize("name", ["star", "directed", "directed gossip"])
def test_evidence_that_is_absent_stays_absent_where_n_is_learnt(name):
    """Agents that u has just reached divide by tiny numbers; the prior must cancel exactly."""
    network = CHANGING[name]
    n_agents = network.n_agents
    masses = np.stack([np.ones(n_agents), np.zeros(n_agents)])
    masses[1, 0] = 1e-60
    evidence = np.zeros((n_agents, 4))
    evidence[:, 1] = evidence[:, 3] = np.arange(1, n_agents + 1)
    after, moved, divided = push(network, masses, evidence, n_runs=200, learnt=True)
    assert (after[:, 1] > 0).sum(axis=1).max() > 1
    np.testing.assert_allclose(after[:, 1].sum(axis=1), 1e-60, rtol=1e-9)
    np.testing.assert_allclose(divided[..., [0, 2]], 0.0, atol=1e-12)
    np.testing.assert_allclose(moved[..., 1].sum(axis=1), evidence[:, 1].sum(), rtol=1e-9)
