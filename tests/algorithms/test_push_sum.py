"""PushSum: what ratio consensus conserves, what it tends to, and what it equals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import posse
from posse import networks
from posse.algorithms import Centralized, Decentralized, Problem, PushSum
from posse.algorithms.algorithm import ArrivedRewards
from posse.algorithms.push_sum import LEAST_MASS
from posse.families import Bernoulli, Gaussian
from posse.lab.compiled.kernels import push_sum
from posse.networks import as_matrix
from posse.networks.operators import GossipPush
from posse.randomness import Streams

TS, GREEDY = posse.ThompsonSampling(), posse.Greedy()
RUNS, N_ARMS = 3, 4
ONE_WAY = networks.from_edges([(0, 1), (1, 2), (2, 0), (2, 3), (3, 0)], directed=True)
STATIC = [
    networks.star(7),
    networks.path(6),
    networks.barabasi_albert(40, 1, seed=1),  # sparse
    networks.grid(3, 4).weighted("metropolis"),
    ONE_WAY,
    networks.random_directed(40, 2, seed=2),
    networks.from_matrix([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]]),
]
CHANGING = [
    networks.star(7).failing(0.5),
    networks.barabasi_albert(40, 1, seed=1).failing(0.4),
    networks.star(7).failing(0.5, normalise="realised"),
    networks.path(5).gossip(),
    ONE_WAY.failing(0.4),
    ONE_WAY.failing(0.4, normalise="realised"),
    ONE_WAY.gossip(),
    networks.random_directed(40, 2, seed=2).failing(0.3),
]


def dense(matrix):
    return matrix.toarray() if hasattr(matrix, "toarray") else np.asarray(matrix)


def equal_split(receives):
    """P of the agents (i, j) of which i receives from j, written out."""
    n_agents = len(receives)
    p = np.zeros((n_agents, n_agents))
    for j in range(n_agents):
        receivers = [i for i in range(n_agents) if i != j and receives[i, j]]
        for i in [*receivers, j]:
            p[i, j] = 1 / (len(receivers) + 1)
    return p


def links_of(network):
    """Whether i receives from j, over all links."""
    receives = np.zeros((network.n_agents,) * 2, dtype=bool)
    for sender, receiver in network.edges:
        receives[receiver, sender] = True
        if not network.is_directed:
            receives[sender, receiver] = True
    return receives


def expected_shares(network, weights):
    """P(t) in each run, from the sentences of the documentation: (RUNS, N, N)."""
    n_agents = network.n_agents
    drawn = np.broadcast_to(as_matrix(weights, n_agents, RUNS), (RUNS, n_agents, n_agents))
    shares = []
    for w in drawn:
        works = (w > 0) & ~np.eye(n_agents, dtype=bool)
        if getattr(network.dynamics, "normalise", "") != "full":
            # a directed link of gossip alone leaves the degree at 1: one half is pushed
            shares.append(equal_split(works))
            continue
        p = np.where(works, equal_split(links_of(network)), 0.0)
        shares.append(p + np.diag(1 - p.sum(axis=0)))  # a lost share stays at the sender
    return np.array(shares)


def play(algorithm, network, family=None, rounds=12, seed=0):
    """States before round 1 and after each round, with the arms, rewards and W(t) of the round."""
    family = family or Gaussian()
    generator = np.random.default_rng(seed)
    problem = Problem(network.n_agents, N_ARMS, rounds, family, network, RUNS)
    draw, source = network.sampler(RUNS), Streams.for_runs(seed, range(RUNS), "network")
    state = algorithm.init(problem)
    for t in range(1, rounds + 1):
        arms = generator.integers(0, N_ARMS, (RUNS, network.n_agents))
        rewards = family.draw_rewards(np.full(arms.shape, 0.4), generator)
        weights = draw(source, t)
        state = algorithm.learn(state, arms, rewards, weights)
        yield state, arms, rewards, weights


@pytest.mark.parametrize("network", [*STATIC, *CHANGING], ids=str)
def test_a_plain_recursion_has_the_same_beliefs(network):
    """x = P (x + evidence), y = P y, belief = prior + N x / y, matrix by matrix."""
    family, n_agents = Gaussian(sigma=2.0, prior_mean=0.5, prior_sd=3.0), network.n_agents
    x, y = np.zeros((2, RUNS, n_agents, N_ARMS)), np.ones((RUNS, n_agents))
    u = np.zeros((RUNS, n_agents))
    u[:, 0] = 1.0
    learnt = play(PushSum(GREEDY, learning_rate="learnt"), network, family)
    for state, arms, rewards, weights in play(PushSum(GREEDY), network, family):
        played = np.eye(N_ARMS)[arms]
        p = expected_shares(network, weights)
        if network.dynamics == networks.Static():
            p = np.broadcast_to(dense(network.shares), (RUNS, n_agents, n_agents))
            np.testing.assert_allclose(p[0].sum(axis=0), 1, rtol=1e-12)
        x = p @ (x + np.stack([played * rewards[..., None], played]) / 4)
        y = (p @ y[..., None])[..., 0]
        u = (p @ u[..., None])[..., 0]
        prior = np.array([0.5 / 9, 1 / 9]).reshape(2, 1, 1, 1)
        expected = prior + n_agents * x / y[..., None]
        np.testing.assert_allclose(state.belief, expected, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(state.mass[..., 0], y, rtol=1e-12)
        reached = np.where(u > 0, u, y)[..., None]
        np.testing.assert_allclose(next(learnt)[0].belief, prior + x / reached, rtol=1e-9)


@pytest.mark.parametrize("network", [*STATIC, *CHANGING], ids=str)
def test_evidence_and_mass_are_conserved(network):
    total = np.zeros((RUNS, N_ARMS))
    for state, arms, _, _ in play(PushSum(TS, learning_rate="learnt"), network):
        total = total + np.eye(N_ARMS)[arms].sum(axis=1)
        np.testing.assert_allclose(state.evidence[1].sum(axis=1), total, rtol=1e-12)
        np.testing.assert_allclose(state.mass.sum(axis=1), network.n_agents, rtol=1e-12)
        np.testing.assert_allclose(state.unit_mass.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("network", STATIC, ids=str)
def test_beliefs_tend_to_those_of_one_agent_with_all_rewards(network):
    """And the masses to the stationary distribution of P, never below their bound."""
    matrix = dense(network.shares)
    values, vectors = np.linalg.eig(matrix)
    stationary = np.abs(vectors[:, np.argmax(values.real)].real)
    algorithm = PushSum(GREEDY, learning_rate="learnt")
    state = None
    for state, arms, rewards, _ in play(algorithm, network, rounds=1):  # noqa: B007
        pooled = np.eye(N_ARMS)[arms].sum(axis=1)
    evidence = state.evidence
    bound = stationary / stationary.max()
    for _ in range(1000):
        state = algorithm._push_shares(state, state.evidence, None)
        assert (state.mass[..., 0] >= bound * (1 - 1e-9)).all()
    np.testing.assert_allclose(state.evidence.sum(axis=2), evidence.sum(axis=2), rtol=1e-9)
    expected = stationary / stationary.sum() * network.n_agents
    np.testing.assert_allclose(state.mass[0, :, 0], expected, rtol=1e-4)
    for agent in range(network.n_agents):
        np.testing.assert_allclose(state.belief[1, :, agent] - 1, pooled, rtol=1e-3, atol=1e-4)


def test_on_a_complete_graph_it_is_centralized():
    network = networks.complete(6).weighted("lazy")  # weights do not count
    central = play(Centralized(GREEDY), network)
    learnt = play(PushSum(GREEDY, learning_rate="learnt"), network)
    for state, *_ in play(PushSum(GREEDY), network):
        expected = next(central)[0].belief
        np.testing.assert_allclose(state.belief, expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(next(learnt)[0].belief, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "network",
    [
        networks.cycle(7),
        networks.torus(3, 5).failing(0.4),
        networks.path(5).gossip(),
        networks.complete(4).failing(0.3),
    ],
    ids=str,
)
def test_with_equal_degrees_or_gossip_of_pairs_it_is_algorithm_1(network):
    usual = play(Decentralized(GREEDY), network)
    for state, *_ in play(PushSum(GREEDY), network):
        np.testing.assert_allclose(state.belief, next(usual)[0].belief, rtol=1e-12, atol=1e-12)


def test_links_both_ways_are_an_undirected_network():
    star = networks.star(6)
    both = networks.from_edges([*star.edges, *star.edges[:, ::-1]], directed=True)
    np.testing.assert_array_equal(dense(both.shares), dense(star.shares))
    directed = play(PushSum(GREEDY), both)
    for state, *_ in play(PushSum(GREEDY), star):
        np.testing.assert_allclose(state.belief, next(directed)[0].belief, rtol=1e-12)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.permutations(range(5)), st.integers(0, 100))
def test_relabelling_agents_relabels_beliefs(order, seed):
    order = np.array(order)  # new agent -> old agent
    label = np.argsort(order)
    network = networks.random_directed(5, 2, seed=seed)
    relabelled = networks.from_edges(label[network.edges], directed=True)
    generator = np.random.default_rng(seed)
    algorithm = PushSum(GREEDY)
    state, other = (
        algorithm.init(Problem(5, N_ARMS, 9, Gaussian(), one)) for one in (network, relabelled)
    )
    for _ in range(4):
        arms = generator.integers(0, N_ARMS, (1, 5))
        rewards = generator.standard_normal((1, 5))
        state = algorithm.learn(state, arms, rewards, None)
        other = algorithm.learn(other, arms[:, order], rewards[:, order], None)
    np.testing.assert_allclose(other.belief, state.belief[:, :, order], rtol=1e-10, atol=1e-12)


UNDERFLOW = "the mass of an agent fell below 1e-100, .*more links in, or fewer out"


def test_a_mass_that_underflows_is_named():
    """Agent 0 gives half of its mass away in every round, and receives nothing."""
    algorithm = PushSum(TS)
    state = algorithm.init(Problem(4, N_ARMS, 9, Gaussian(), ONE_WAY.gossip(), 1))
    push = GossipPush(np.array([0]), np.array([1]))
    while state.mass[0, 0, 0] / 2 > LEAST_MASS:
        state = algorithm._push_shares(state, state.evidence, push)
    with pytest.raises(ValueError, match=UNDERFLOW):
        algorithm._push_shares(state, state.evidence, push)


@pytest.mark.parametrize("network", [ONE_WAY, ONE_WAY.failing(0.5), ONE_WAY.gossip()], ids=str)
def test_kernels_name_it_too(network, monkeypatch):
    """With masses that start at the limit."""
    start = push_sum.create_store
    monkeypatch.setattr(push_sum, "create_store", lambda *sizes: 1.1 * LEAST_MASS * start(*sizes))
    with pytest.raises(ValueError, match=UNDERFLOW):
        posse.simulate(
            posse.Bandit.gaussian([0.5, 0.1]), network, PushSum(TS), horizon=20, runs=2, seed=0,
            engine="compiled",
        )  # fmt: skip


@pytest.mark.parametrize("half_life", [None, 3.0])
def test_delayed_rewards_count_as_rewards_when_they_arrive_at_once(half_life):
    network = networks.star(5)
    algorithm = PushSum(GREEDY, half_life=half_life)
    problem = Problem(5, N_ARMS, 9, Gaussian(), network, RUNS)
    state = late = algorithm.init(problem)
    generator = np.random.default_rng(1)
    run, agent = np.indices((RUNS, 5))
    for t in range(1, 6):
        arms = generator.integers(0, N_ARMS, (RUNS, 5))
        rewards = generator.standard_normal((RUNS, 5))
        now = np.full(arms.size, t)
        arrived = ArrivedRewards(
            t, run.ravel(), agent.ravel(), arms.ravel(), rewards.ravel(), now
        )  # fmt: skip
        state = algorithm.learn(state, arms, rewards, None)
        late = algorithm.learn_delayed(late, arms, arrived, None)
        np.testing.assert_allclose(late.belief, state.belief, rtol=1e-12)


def test_evidence_fades_by_its_half_life():
    network = networks.complete(4)
    (first, *_), *_ = play(PushSum(GREEDY, half_life=2.0), network, rounds=1)
    arms = np.zeros((RUNS, 4), dtype=int)
    second = PushSum(GREEDY, half_life=2.0).learn(first, arms, np.zeros(arms.shape), None)
    before, after = first.belief[1] - 1, second.belief[1] - 1
    np.testing.assert_allclose(after[..., 1:], before[..., 1:] / 2**0.5, rtol=1e-12)


def test_counted_open_pulls_stay_in_the_domain():
    bandit = posse.Bandit.bernoulli([0.6, 0.3]).delayed(mean=5)
    result = posse.simulate(
        bandit, networks.star(6), PushSum(TS, open="count"), horizon=60, runs=4, keep="beliefs"
    )
    assert result.beliefs.min() >= 1.0
    assert result.summary().high < 0.3 * 60 / 2


@pytest.mark.parametrize("network", [networks.star(5), ONE_WAY, ONE_WAY.gossip()], ids=str)
def test_a_link_carries_the_evidence_and_the_masses(network):
    links = {"star": 8, "from_edges": 5}[network.graph]
    links = 1 if network.dynamics == networks.Gossip() else links
    for learning_rate, masses in ((None, 1), ("learnt", 2)):
        result = posse.simulate(
            posse.Bandit.gaussian([0.5, 0.1, 0.2]), network,
            PushSum(TS, learning_rate=learning_rate), horizon=3, runs=2, keep="messages",
            engine="reference",
        )  # fmt: skip
        expected = links * (2 * 3 + masses) * np.arange(1, 4) / network.n_agents
        np.testing.assert_allclose(result.numbers_sent, [expected, expected])


@pytest.mark.parametrize("bad", [0, -1.0, np.nan, "M", "learned", True])
def test_a_learning_rate_that_is_neither_positive_nor_learnt_is_refused(bad):
    with pytest.raises(ValueError, match="learning_rate"):
        PushSum(TS, learning_rate=bad)


def test_agents_that_cannot_reach_others_are_refused():
    with pytest.warns(UserWarning, match="not checked"):
        network = networks.from_matrix([[1.0, 0.0], [0.5, 0.5]], check=False)
    bandit = posse.Bandit.bernoulli([0.6, 0.3])
    with pytest.raises(ValueError, match="needs a strongly connected network"):
        posse.simulate(bandit, network, PushSum(TS), horizon=3, runs=1)
    with pytest.raises(ValueError, match=r"strongly connected .*2 components: add links"):
        networks.from_edges([(0, 1)], directed=True)


def test_the_price_of_a_hub():
    """Star of 36, T = 500: PushSum has 1.04 times the regret of centralized, dec-TS 1.57."""
    bandit = posse.Bandit.gaussian([0.5] + [0.1] * 16)
    algorithms = {"push": PushSum(TS), "dec": Decentralized(TS), "all": Centralized(TS)}
    played = posse.compare(
        bandit, networks.star(36), algorithms, horizon=500, runs=100, seed=1, record=1
    )
    mean = {name: result.regret[:, -1].mean() for name, result in played.items()}
    assert mean["push"] < 1.15 * mean["all"]
    assert mean["dec"] > 1.35 * mean["all"]


def test_bernoulli_beliefs_are_those_of_pooled_rewards():
    """One round by hand: a star of three, Beta(1, 1)."""
    network = networks.star(3)
    problem = Problem(3, 2, 10, Bernoulli(), network)
    algorithm = PushSum(TS)
    arms, rewards = np.array([[0, 1, 0]]), np.array([[1.0, 0.0, 0.0]])
    state = algorithm.learn(algorithm.init(problem), arms, rewards, network.weights)
    # the hub gives thirds and receives halves: y = 1/3 + 1/2 + 1/2 = 4/3; a leaf 1/2 + 1/3 = 5/6
    np.testing.assert_allclose(state.mass[0, :, 0], [4 / 3, 5 / 6, 5 / 6])
    alpha, beta = state.belief[:, 0]
    np.testing.assert_allclose(alpha[:, 0], [1 + 3 / 3 / (4 / 3), 1 + 1 / (5 / 6), 1 + 1 / (5 / 6)])
    np.testing.assert_allclose(beta[0], [1 + 3 / 2 / (4 / 3), 1 + 3 / 2 / (4 / 3)])
    np.testing.assert_allclose(beta[1], [1, 1 + 3 / 2 / (5 / 6)])
    np.testing.assert_allclose(beta[2], [1 + 3 / 2 / (5 / 6), 1])
