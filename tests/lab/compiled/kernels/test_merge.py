"""Merge kernels: W(t) is read off by merging unit rows, and compared with the network's.

Statistical tests reject with probability 1e-5 each if all is well.
"""

import dataclasses

import numpy as np
import pytest
from scipy import stats

import posse
from posse import networks
from posse.lab.compiled.kernels import merge
from posse.lab.compiled.network_arrays import build_network_arrays
from posse.lab.compiled.philox import U64, key_of
from posse.lab.compiled.records import IDLE
from posse.lab.compiled.registry import plan_kernels
from posse.lab.simulation import Simulation
from posse.networks import EXAMPLES, WEIGHT_RULES, as_matrix, cut_off_sleepers
from posse.networks.graphs import DIRECTED

ERROR_RATE = 1e-5
GRAPHS = {
    name: getattr(networks, name)(**kwargs)
    for name, kwargs in EXAMPLES.items()
    if name not in DIRECTED  # those have shares: test_push_sum.py
}
TS, UCB = posse.ThompsonSampling(), posse.BayesUCB()


def kernel_plan(network, policy=TS):
    bandit = posse.Bandit.gaussian([0.0, 1.0])
    algorithm = posse.Decentralized(policy)
    return plan_kernels(Simulation(bandit, network, algorithm, 5, 0, np.array([5])))


def kernel_and_links(network, as_static=False, policy=TS):
    plan = kernel_plan(network, policy)
    if as_static:  # also where the engine has a shortcut, as on complete graphs
        plan = dataclasses.replace(plan, merge="merge_static", shared=False)
    return getattr(merge, plan.merge), build_network_arrays(network, plan)


def merged(network, rows, t=2, first_run=0, seed=0, as_static=False, policy=TS):
    """One call of the merge kernel on rows (runs, N, 2 K): the new rows."""
    kernel, links = kernel_and_links(network, as_static, policy)
    n_runs, n_agents, width = rows.shape
    state, out = rows.reshape(-1).copy(), np.full(rows.size, np.nan)
    moved = kernel(
        out, state, links.offsets, links.neighbours, links.weights, links.links, links.constants,
        np.zeros(links.n_words, np.uint64), np.zeros(n_runs * n_agents, np.uint32), np.zeros(0),
        np.zeros(0), U64(0), U64(n_runs * n_agents), U64(n_agents), U64(width // 2),
        U64(first_run), U64(t), *key_of(seed),
    )  # fmt: skip
    return (out if moved else state).reshape(rows.shape)


def matrices(network, n_runs=1, **options):
    """W(t) of some runs, (runs, N, N): unit row i comes back as column i of W."""
    n_agents = network.n_agents
    units = np.zeros((n_agents, n_agents + n_agents % 2))
    units[:, :n_agents] = np.eye(n_agents)
    rows = np.broadcast_to(units, (n_runs, *units.shape))
    return merged(network, rows, **options)[:, :, :n_agents]


def dense(weights):
    return weights.toarray() if hasattr(weights, "toarray") else np.asarray(weights)


def assert_doubly_stochastic(w):
    np.testing.assert_allclose(w.sum(axis=-1), 1, atol=1e-14)
    np.testing.assert_allclose(w.sum(axis=-2), 1, atol=1e-14)
    assert w.min() > -1e-16


@pytest.mark.parametrize("rule", WEIGHT_RULES)
@pytest.mark.parametrize("network", GRAPHS.values(), ids=GRAPHS)
def test_static_weights_are_the_networks(network, rule):
    network = network.weighted(rule)
    for w in matrices(network, n_runs=2, as_static=True):
        np.testing.assert_allclose(w, dense(network.weights), rtol=1e-15, atol=0)


@pytest.mark.parametrize("n_agents", [2, 3, 7, 40, 65, 130])
def test_static_weights_of_larger_and_irregular_networks(n_agents, doubly_stochastic):
    """Asymmetric W of any number of links a row; and stretches of equal rows cut anywhere."""
    generator = np.random.default_rng(n_agents)
    shift = np.roll(np.eye(n_agents), 1, axis=0)  # keeps it connected
    asymmetric = 0.9 * doubly_stochastic(generator, n_agents) + 0.1 * shift
    some = [networks.from_matrix(asymmetric), networks.star(n_agents), networks.path(n_agents)]
    if n_agents >= 7:
        sparse = 0.3 * np.eye(n_agents)[generator.permutation(n_agents)] + 0.7 * shift
        some += [networks.from_matrix(sparse), networks.regular_ring(n_agents, 2)]
    for network in some:
        for w in matrices(network, n_runs=3, as_static=True):
            np.testing.assert_allclose(w, dense(network.weights), rtol=1e-15, atol=0)


def test_a_merge_equals_the_core():
    """Random rows, sparse and dense weights: posse.beliefs.merge to 1e-12."""
    generator = np.random.default_rng(0)
    for network in (networks.grid(9, 13), networks.erdos_renyi(80, 0.2, seed=1)):
        rows = generator.gamma(0.5, 100.0, (2, network.n_agents, 6))
        expected = posse.beliefs.merge(rows, network.weights)
        np.testing.assert_allclose(merged(network, rows), expected, rtol=1e-12)


def test_any_part_of_the_rows_can_be_merged_alone():
    """Tiles: rows 10 to 30 of a cycle of 50 as they are in the whole, and no others touched."""
    network = networks.cycle(50)
    kernel, links = kernel_and_links(network)
    rows = np.random.default_rng(1).normal(size=(1, 50, 4))
    out = np.full(rows.size, np.nan)
    kernel(
        out, rows.reshape(-1), links.offsets, links.neighbours, links.weights, links.links,
        links.constants, np.zeros(links.n_words, np.uint64), np.zeros(50, np.uint32), np.zeros(0),
        np.zeros(0),
        U64(10), U64(30), U64(50), U64(2), U64(0), U64(2), U64(0), U64(0),
    )  # fmt: skip
    out = out.reshape(rows.shape)
    np.testing.assert_array_equal(out[0, 10:30], merged(network, rows)[0, 10:30])
    assert np.isnan(out[0, :10]).all()
    assert np.isnan(out[0, 30:]).all()


@pytest.mark.parametrize("name", ["complete", "cycle", "star", "grid", "erdos_renyi"])
class TestGossip:
    def test_averages_one_linked_pair_each_link_equally_often(self, name):
        network = GRAPHS[name].gossip()
        edges = [tuple(edge) for edge in network.edges.tolist()]
        drawn = dict.fromkeys(edges, 0)
        n_runs, n_rounds = 200, 20
        for t in range(2, 2 + n_rounds):
            for w in matrices(network, n_runs, t=t):
                moved = np.flatnonzero(np.diag(w) != 1)
                i, j = map(int, moved)
                exact = np.eye(network.n_agents)
                exact[np.ix_(moved, moved)] = 0.5
                np.testing.assert_array_equal(w, exact)
                drawn[i, j] += 1
        assert stats.chisquare(list(drawn.values())).pvalue > ERROR_RATE

    def test_mean_weights_are_the_networks(self, name):
        network = GRAPHS[name].gossip()
        mean = matrices(network, 4_000).mean(axis=0)
        # each entry is an average of 4,000 values in [0, 1/2] or [1/2, 1]: five deviations
        assert np.abs(mean - dense(network.expected_weights)).max() < 5 * 0.25 / 4_000**0.5


def assert_links_fail(w, network, p):
    """Each link of each run is there with its full weight or not at all, as often as p says."""
    i, j = network.edges.T
    links, full = w[:, i, j], network.link_weights
    alive = links > full / 2
    np.testing.assert_allclose(links, np.where(alive, full, 0.0), rtol=0, atol=1e-14)
    np.testing.assert_allclose(links, w[:, j, i], rtol=0, atol=1e-14)
    n_alive = alive.sum(axis=0)
    n_runs = len(w)
    assert stats.binomtest(int(n_alive.sum()), alive.size, 1 - p).pvalue > ERROR_RATE
    worst = min(stats.binomtest(int(n), n_runs, 1 - p).pvalue for n in n_alive)
    assert worst > ERROR_RATE / len(full)
    # links fail independently: the number alive in a round is binomial
    spread = alive.sum(axis=1).var(ddof=1) * (n_runs - 1) / (len(full) * p * (1 - p))
    assert ERROR_RATE / 2 < stats.chi2.sf(spread, n_runs - 1) < 1 - ERROR_RATE / 2
    if len(full) > 1:
        agree = (alive[:, 1:] == alive[:, :-1]).sum()
        chance = p**2 + (1 - p) ** 2
        z = (agree - chance * alive[:, 1:].size) / (alive[:, 1:].size * chance) ** 0.5
        assert abs(z) < 6


@pytest.mark.parametrize("p", [0.1, 0.49, 0.5, 0.8])
@pytest.mark.parametrize("name", GRAPHS)
class TestLinkFailure:
    @pytest.mark.parametrize("rule", WEIGHT_RULES)
    def test_links_are_there_or_not(self, name, p, rule):
        network = GRAPHS[name].weighted(rule).failing(p)
        w = matrices(network, 600, t=7)
        assert_doubly_stochastic(w)
        outside = np.ones((network.n_agents,) * 2, bool)
        i, j = network.edges.T
        outside[i, j] = outside[j, i] = False
        np.fill_diagonal(outside, False)
        assert np.abs(w[:, outside]).max(initial=0.0) < 1e-15
        assert_links_fail(w, network, p)
        limit = 6 * (np.max(network.link_weights) ** 2 * network.max_degree / 600) ** 0.5
        assert np.abs(w.mean(axis=0) - dense(network.expected_weights)).max() < limit

    def test_normalised_by_the_realised_degree(self, name, p):
        network = GRAPHS[name].failing(p, normalise="realised")
        w = matrices(network, 200, t=7)
        assert_doubly_stochastic(w)
        i, j = network.edges.T
        links = w[:, i, j]
        adjacency = np.where(w > 1e-12, 1.0, 0.0) * (1 - np.eye(network.n_agents))
        weight = 1 / (1 + adjacency.sum(axis=1).max(axis=1))  # (runs,)
        expected = np.where(links > 1e-12, weight[:, None], 0.0)
        np.testing.assert_allclose(links, expected, rtol=1e-12)
        assert stats.binomtest(int((links > 0).sum()), links.size, 1 - p).pvalue > ERROR_RATE


@pytest.mark.parametrize("p", [0.2, 0.7])
def test_links_fail_on_weights_without_a_diagonal(p):
    """An agent that keeps nothing for itself keeps what failed links did not carry."""
    ring = (np.roll(np.eye(6), 1, axis=0) + np.roll(np.eye(6), -1, axis=0)) / 2
    for matrix in (ring, (1 - np.eye(4)) / 3):
        network = networks.from_matrix(matrix).failing(p)
        w = matrices(network, 600)
        assert_doubly_stochastic(w)
        assert_links_fail(w, network, p)


@pytest.mark.parametrize("p", [0.3, 0.45, 0.7])
def test_an_agent_cut_off_keeps_its_own_belief(p):
    """To 1e-12 of its own size, however much more its neighbours have seen: a prior precision of

    1e-6 beside 1e10 must not drown in the rounding of what did not arrive (it could turn negative).
    """
    network = networks.complete(4).failing(p)
    w = matrices(network, 400)
    rows = np.full((400, 4, 2), 1e10)
    rows[:, 0] = 1e-6
    got = merged(network, rows)
    assert got.min() > 0
    alone = np.isclose(w[:, 0, 0], 1.0, rtol=0, atol=1e-12)
    assert alone.sum() > 3
    np.testing.assert_allclose(got[alone, 0], 1e-6, rtol=1e-12)


def test_rounds_runs_and_seeds_draw_different_networks():
    network = networks.complete(12).failing(0.5)
    some = [
        matrices(network, 2, t=2),
        matrices(network, 2, t=3),
        matrices(network, 2, seed=1),
        matrices(network, 2, first_run=2),
    ]
    flat = np.concatenate(some).reshape(8, -1)
    assert len(np.unique(flat, axis=0)) == 8
    # run 2 is run 2, whether it is the first of its block or the third
    np.testing.assert_array_equal(matrices(network, 3)[2], matrices(network, 1, first_run=2)[0])


def test_one_agent_merges_with_nobody():
    rows = np.random.default_rng(0).random((3, 1, 4))
    for network in (networks.complete(1), networks.cycle(1).failing(0.5), networks.path(1)):
        np.testing.assert_allclose(merged(network, rows), rows, rtol=1e-15)


@pytest.mark.parametrize("policy", [TS, UCB])
@pytest.mark.parametrize("p", [0.3, 0.7])
def test_what_never_arrived_leaves_no_trace(p, policy):
    """Agent 0 alone has tried arm 1. Whoever does not hear of it holds both arms equal, to the
    last digit where an index is chosen by: rounding must not break its ties."""
    network = networks.complete(7).failing(p)
    rows = np.full((200, 7, 4), 1 / 3)
    rows[:, 0, 1] += 7.0
    after = merged(network, rows, policy=policy)
    weights = matrices(network, n_runs=200, policy=policy)
    deaf = abs(weights[:, :, 0]) < 1e-12
    assert 100 < deaf.sum() < 1100
    np.testing.assert_allclose(after[deaf][:, 1], after[deaf][:, 0], rtol=1e-12)
    if policy is UCB:
        np.testing.assert_array_equal(after[deaf][:, 1], after[deaf][:, 0])


@pytest.mark.parametrize("rule", ["max-degree", "lazy", "metropolis"])
def test_a_merge_among_those_awake_equals_the_networks_own(rule):
    """Rows below, at and beyond a chunk; few awake (in place) and many; a run with all awake."""
    generator = np.random.default_rng(1)
    for graph in (networks.cycle(9), networks.star(14), networks.erdos_renyi(12, 0.4, seed=2)):
        network = graph.weighted(rule)
        n_agents = network.n_agents
        plan = dataclasses.replace(kernel_plan(network), merge="merge_awake", shared=False)
        arrays = build_network_arrays(network, plan)
        for n_arms in (3, 4, 6, 17):
            for p in (0.15, 0.5, 0.9, 1.0):
                rows = generator.random((6, n_agents, 2 * n_arms)) + 1.0
                awake = generator.random((6, n_agents)) >= p
                awake[2] = True
                arms = np.where(awake, 0, IDLE).astype(np.uint32).reshape(-1)
                state, out = rows.reshape(-1).copy(), np.full(rows.size, np.nan)
                moved = merge.merge_awake(
                    out, state, arrays.offsets, arrays.neighbours, arrays.weights, arrays.links,
                    arrays.constants, np.zeros(arrays.n_words, np.uint64), arms, np.zeros(0),
                    np.zeros(0), U64(0), U64(arms.size), U64(n_agents), U64(n_arms), U64(0), U64(2),
                    *key_of(0),
                )  # fmt: skip
                assert moved == (2 * awake.sum() >= awake.size)
                got = (out if moved else state).reshape(rows.shape)
                weights = as_matrix(
                    cut_off_sleepers(network, network.weights, awake), n_agents, len(rows)
                )
                np.testing.assert_allclose(got, weights @ rows, rtol=1e-12)
                np.testing.assert_array_equal(got[~awake], rows[~awake])
