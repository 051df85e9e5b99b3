"""EventTriggered: conservation, Algorithm 1 at threshold 0, fewer messages, refusals."""

import itertools

import numpy as np
import pytest

import posse
from posse import networks
from posse.algorithms import Problem
from posse.families import FAMILIES, VARIATIONAL
from posse.randomness import Streams

N_ARMS = 3
NETWORKS = {
    "path": networks.path(6),
    "star": networks.star(6).weighted("metropolis"),
    "complete": networks.complete(6),
    "gossip": networks.cycle(6).gossip(),
    "failing": networks.grid(2, 3).failing(0.4),
    "realised": networks.complete(6).failing(0.4, normalise="realised"),
    "one": networks.complete(1),
}


def rounds_of(algorithm, network, family, rounds=12, n_runs=2):
    """Play random arms; give the round, the state before and after, and W(t)."""
    generator = np.random.default_rng(1)
    problem = Problem(network.n_agents, N_ARMS, rounds, family, network, n_runs)
    draw = network.sampler(n_runs)
    source = Streams.for_runs(3, range(n_runs), "network")
    state = algorithm.init(problem)
    for t in range(1, rounds + 1):
        arms = generator.integers(N_ARMS, size=(n_runs, network.n_agents))
        rewards = family.draw_rewards(np.array([0.3, 0.5, 0.7])[arms], generator)
        weights = draw(source, t)
        before, state = state, algorithm.learn(state, arms, rewards, weights)
        yield t, before, state, arms, rewards, weights


def triggered(threshold, **options):
    return posse.EventTriggered(posse.ThompsonSampling(), threshold=threshold, **options)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("threshold", [0.0, 0.3, 1e9])
def test_the_sum_of_beliefs_grows_by_the_evidence_alone(network, threshold):
    family = posse.families.Gaussian(sigma=0.5)
    for _, before, after, arms, rewards, _ in rounds_of(triggered(threshold), network, family):
        observed = posse.beliefs.observe(before.belief, arms, rewards, family, before.learning_rate)
        np.testing.assert_allclose(
            after.belief.sum(axis=2), observed.sum(axis=2), rtol=1e-12, atol=1e-12
        )


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_threshold_0_is_algorithm_1_in_beliefs_and_messages(network):
    family = posse.families.Bernoulli()
    algorithms = [triggered(0.0), posse.Decentralized(posse.ThompsonSampling())]
    histories = [rounds_of(algorithm, network, family) for algorithm in algorithms]
    for (t, _, ours, _, _, weights), (_, _, theirs, _, _, _) in zip(*histories, strict=True):
        np.testing.assert_allclose(ours.belief, theirs.belief, rtol=1e-12)
        links = networks.count_links_in_use(weights, 2, network.n_agents)
        counts = [
            algorithm.numbers_sent(state, t, links)
            for algorithm, state in zip(algorithms, (ours, theirs), strict=True)
        ]
        np.testing.assert_array_equal(*counts)


def test_a_link_is_used_when_one_of_its_ends_has_moved():
    """A plain version: loops over links, with its own memory of what was last told."""
    network = networks.path(5).failing(0.3)
    family = posse.families.Poisson()
    told = {}
    used = []
    for t, before, after, arms, rewards, weights in rounds_of(
        triggered(0.4), network, family, rounds=25
    ):
        updated = posse.beliefs.observe(before.belief, arms, rewards, family, 5.0)
        belief = updated.copy()
        dense = np.broadcast_to(networks.as_matrix(weights, 5, 2), (2, 5, 5))
        n_used = np.zeros(2)
        for run, (i, j) in itertools.product(range(2), network.edges.tolist()):
            prior = posse.beliefs.prior(family, 1, N_ARMS)[:, 0]
            moves = [
                family.kl(updated[:, run, end], told.get((run, end, far), prior)).sum()
                for end, far in ((i, j), (j, i))
            ]
            if max(moves) >= 0.4 and dense[run, i, j] > 0:
                step = dense[run, i, j] * (updated[:, run, j] - updated[:, run, i])
                belief[:, run, i] += step
                belief[:, run, j] -= step
                told[run, i, j] = updated[:, run, i]
                told[run, j, i] = updated[:, run, j]
                n_used[run] += 2
        np.testing.assert_allclose(after.belief, belief, rtol=1e-12)
        sent = triggered(0.4).numbers_sent(after, t, np.zeros(2, dtype=int))
        np.testing.assert_array_equal(sent, n_used * 2 * N_ARMS)
        used.append(n_used.sum())
    # some rounds use some links, and few use all: the comparison is not empty
    assert 0 < np.mean(used) < 12


@pytest.mark.parametrize("name", FAMILIES | VARIATIONAL)
def test_every_family_can_trigger(name, example_of):
    family = example_of((FAMILIES | VARIATIONAL)[name])
    result = posse.simulate(
        posse.Bandit(family, [0.5, 0.7]),
        networks.cycle(4),
        triggered(1.0),
        horizon=12,
        runs=2,
        keep=("messages",),
    )
    assert 0 < result.numbers_sent[:, -1].mean() < 12 * 2 * 2 * len(family.prior())


def test_messages_fall_with_the_threshold_and_regret_is_that_of_algorithm_1():
    """100 runs; two means within 4 standard errors of their difference (error rate 1e-4)."""
    bandit = posse.Bandit.bernoulli([0.7, 0.5, 0.3])
    options = {"horizon": 150, "runs": 100, "seed": 4, "keep": ("messages",), "record": 2}
    algorithms = {"0": triggered(0.0), "0.1": triggered(0.1), "1": triggered(1.0)}
    comparison = posse.compare(
        bandit,
        networks.cycle(9),
        algorithms | {"dec": posse.Decentralized(posse.ThompsonSampling())},
        **options,
    )
    sent = [comparison[name].numbers_sent[:, -1].mean() for name in ("dec", "0", "0.1", "1")]
    assert sent[0] == sent[1] == 150 * 2 * 2 * 3
    assert sent[1] > 1.3 * sent[2] > 1.3**2 * sent[3]
    summaries = [comparison[name].summary() for name in ("dec", "0", "0.1")]
    for summary in summaries[1:]:
        error = np.hypot(summary.standard_error, summaries[0].standard_error)
        assert abs(summary.mean - summaries[0].mean) < 4 * error


def test_delays_contexts_half_lives_and_files():
    bandit = posse.Bandit.bernoulli([0.7, 0.5])
    small = {"horizon": 8, "runs": 2}
    delayed = posse.simulate(
        bandit.delayed(mean=2), networks.path(4), triggered(0.1, open="count"), **small
    )
    assert delayed.regret.shape == (2, 8)
    result = posse.simulate(bandit, networks.path(4), triggered(0.1, half_life=5), **small)
    again = posse.experiment_of(result)
    assert again.algorithms["algorithm"] == triggered(0.1, half_life=5)
    np.testing.assert_array_equal(again.run().regret, result.regret)
    family = posse.families.Linear(sigma=0.5)
    contexts = posse.Contexts({"site": ["a", "b"]})
    contextual = posse.ContextualBandit(family, contexts, posse.NormalWeights(2, 1.0))
    posse.simulate(contextual, networks.path(4), triggered(0.1), **small)


def test_refusals():
    bandit = posse.Bandit.bernoulli([0.7, 0.5])
    with pytest.raises(ValueError, match="threshold must be a finite number at least 0"):
        triggered(-0.1)
    lopsided = networks.from_matrix([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]])
    with pytest.raises(ValueError, match="EventTriggered needs symmetric weights"):
        posse.simulate(bandit, lopsided, triggered(0.1), horizon=2, runs=1)
    with pytest.raises(ValueError, match="signs are kept of Decentralized"):
        posse.simulate(bandit, networks.path(4), triggered(0.1), horizon=2, runs=1, keep=("signs",))

    class Plain:
        name = "plain"
        rewards = posse.families.Interval(0.0, 1.0, closed=True)

        def statistic(self, rewards):
            return np.stack([rewards, 1 - rewards])

    problem = Problem(4, 2, 10, posse.families.Bernoulli(), networks.path(4))
    with pytest.raises(ValueError, match="method kl"):
        triggered(0.1, family=Plain()).check_problem(problem)
