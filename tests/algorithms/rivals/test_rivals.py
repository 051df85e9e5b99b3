"""DPE2, GosInE and Dist-UCB: what they promise by hand, what they refuse, and known regrets."""

import dataclasses

import numpy as np
import pytest

import posse
from posse import networks
from posse.algorithms import Problem
from posse.algorithms.rivals.gosine import ends_phase
from posse.algorithms.rivals.message_passing import hop_distances
from posse.families import Bernoulli, Gaussian, Grid

BANDIT = posse.Bandit.gaussian([0.9, 0.5, 0.4, 0.1, 0.0])
RIVALS = {
    "DPE2": posse.DPE2(),
    "GosInE": posse.GosInE(),
    "GosInE KL": posse.GosInE(index="kl"),
    "DistUCB": posse.DistUCB(),
    "DistUCB KL": posse.DistUCB(index="kl"),
}
NETWORKS = [networks.path(6), networks.star(5), networks.cycle(7), networks.complete(1)]
RUNS = 3


def rounds_of(algorithm, network, family, means, horizon, runs=RUNS, seed=0):
    """(t, arms, rewards, state after the round), arms in the order given."""
    generator, means = np.random.default_rng(seed), np.asarray(means)
    problem = Problem(network.n_agents, len(means), horizon, family, network, runs)
    state = algorithm.init(problem)
    for t in range(1, horizon + 1):
        if hasattr(algorithm, "prepare"):
            state = algorithm.prepare(state, t, generator)
        arms = algorithm.choose(state, t, generator)
        rewards = family.draw_rewards(means[arms], generator)
        state = algorithm.learn(state, arms, rewards, None)
        yield t, arms, rewards, state


class TestDPE2:
    @pytest.mark.parametrize("network", NETWORKS, ids=str)
    def test_the_leaders_word_travels_one_hop_a_round_and_is_counted(self, network):
        algorithm, horizon = posse.DPE2(), 80
        leader = algorithm.find_leader(network)
        away = hop_distances(network)[leader]
        links = np.zeros(RUNS, int)
        best, sent = [np.zeros((RUNS,), int)], np.zeros(RUNS)
        for t, arms, _, state in rounds_of(algorithm, network, Gaussian(), [0.2, 0.5, 0.1], 80):
            best.append(state.best[:, 0])
            for agent in range(network.n_agents):
                if agent != leader:
                    said = best[max(0, t - max(0, away[agent] - 1))]
                    np.testing.assert_array_equal(arms[:, agent], said)
            sent += algorithm.numbers_sent(state, t, links)
        changes = np.diff(best, axis=0) != 0  # (rounds, R)
        expected = np.zeros(RUNS)
        for agent in range(network.n_agents):
            reached = changes[: horizon - away[agent]].sum(axis=0)
            expected += 2 * len(network.neighbours(agent)) * reached
        np.testing.assert_array_equal(sent, expected)
        assert network.n_agents == 1 or sent.all()

    def test_the_leader_is_the_centre_and_alone_learns(self):
        algorithm, network = posse.DPE2(), networks.path(5)
        assert algorithm.find_leader(network) == 2
        problem = Problem(5, 3, 50, Gaussian(), network, 1)
        arms, rewards = np.array([[0, 1, 2, 1, 0]]), np.array([[1.0, 2.0, 3.0, 4.0, 5.0]])
        state = algorithm.learn(algorithm.init(problem), arms, rewards, None)
        np.testing.assert_array_equal(state.counts, [[0, 0, 1]])
        np.testing.assert_array_equal(state.totals, [[0, 0, 3]])

    def test_the_leader_plays_the_best_then_all_candidates_by_falling_index(self):
        """Phases by hand: B is what lies above the mean of the old best arm, M included."""
        candidates, fresh, played = {1, 2, 3}, True, 0
        index = np.full(4, np.inf)
        for t, arms, _, state in rounds_of(
            posse.DPE2(), networks.complete(1), Gaussian(), [0.2, 0.5, 0.1, 0.4], 300, runs=1
        ):
            arm = arms[0, 0]
            assert t > 1 or arm == 0
            if candidates and not fresh:
                assert arm in candidates
                assert index[arm] == max(index[each] for each in candidates)
                candidates -= {arm}
            else:
                played = arm
            fresh = not candidates
            if fresh:
                counts, means = state.counts[0], state.totals[0] / state.counts[0]
                level = np.log(t) + 4 * np.log(np.log(t)) if t > 2 else 0.0
                index = means + np.sqrt(2 * level / counts)
                candidates = set(np.flatnonzero(index > means[played]))
                assert played in candidates
            np.testing.assert_array_equal(np.flatnonzero(state.candidates[0]), sorted(candidates))


class TestGosInE:
    def test_phases_end_after_cubes(self):
        assert [t for t in range(1, 1_000_001) if ends_phase(t)] == [j**3 for j in range(1, 101)]

    @pytest.mark.parametrize(("n_agents", "n_arms"), [(6, 10), (3, 10), (5, 4), (4, 2), (1, 3)])
    def test_every_arm_is_kept_by_somebody_for_good(self, n_agents, n_arms):
        size = -(-n_arms // n_agents)
        network, means = networks.complete(n_agents), np.linspace(1, 0, n_arms)
        for _, arms, _, state in rounds_of(posse.GosInE("kl"), network, Gaussian(), means, 70):
            kept = state.active_arms
            for agent in range(n_agents):
                own = {(agent * size + each) % n_arms for each in range(size)}
                assert set(np.flatnonzero(state.sticky[agent])) == own
                assert kept[:, agent, sorted(own)].all()
            assert (kept.sum(axis=-1) <= min(size + 2, n_arms)).all()
            assert np.take_along_axis(kept, arms[..., None], axis=-1).all()
        assert kept.any(axis=1).all()

    def test_one_phase_by_hand(self):
        """Two agents, 6 arms: each hears the other's favourite and drops the less played one."""
        algorithm, network = posse.GosInE(), networks.cycle(2)
        state = algorithm.init(Problem(2, 6, 100, Gaussian(), network, 1))
        np.testing.assert_array_equal(state.upper, [[3, 0]])
        np.testing.assert_array_equal(state.lower, [[4, 1]])
        rng = np.random.default_rng(0)
        plays = [[0, 3], [4, 5], [4, 0], [3, 0], [4, 5], [0, 5], [0, 5], [0, 5]]
        for t, arms in enumerate(plays, 1):
            state = algorithm.prepare(state, t, rng)
            state = algorithm.learn(state, np.array([arms]), np.ones((1, 2)), None)
            sent = algorithm.numbers_sent(state, t, np.array([2]))
            assert sent == (2 if t in (1, 8) else 0)
            if t == 2:  # agent 0 heard of arm 3, which it has; agent 1 of arm 0, likewise
                np.testing.assert_array_equal([state.upper, state.lower], [[[3, 0]], [[4, 1]]])
        state = algorithm.prepare(state, 9, rng)
        # 0 played 4 three times, 3 once: swap, and 5, unknown, replaces 3; 1 hears of 0 or 4
        np.testing.assert_array_equal(state.upper, [[4, 0]])
        assert state.lower[0, 0] == 5
        assert state.lower[0, 1] in (1, 4)
        again = algorithm.prepare(state, 10, rng)
        np.testing.assert_array_equal(again.lower, state.lower)

    @pytest.mark.parametrize("index", ["published", "kl"])
    def test_relabelling_arms_and_agents_with_their_shares_relabels_the_choice(self, index):
        """Arms are shared out by number, so the law holds for whoever keeps the same arms."""
        algorithm, network = posse.GosInE(index=index), networks.path(5)
        *_, (_, _, _, state) = rounds_of(algorithm, network, Gaussian(), [0.1, 0.3, 0.2, 0.4], 30)
        new_of, order = np.array([2, 0, 3, 1]), np.array([3, 1, 4, 0, 2])  # arms; agents
        old_of = np.argsort(new_of)
        relabelled = dataclasses.replace(
            state,
            counts=state.counts[:, order][..., old_of],
            totals=state.totals[:, order][..., old_of],
            sticky=state.sticky[order][:, old_of],
            upper=new_of[state.upper[:, order]],
            lower=new_of[state.lower[:, order]],
        )
        assert (state.counts[state.active_arms] > 0).all()  # nothing ties
        chosen, after = (
            algorithm.choose(each, 31, np.random.default_rng(0)) for each in (state, relabelled)
        )
        np.testing.assert_array_equal(after, new_of[chosen[:, order]])


class TestDistUCB:
    @pytest.mark.parametrize("network", NETWORKS, ids=str)
    @pytest.mark.parametrize("index", ["published", "kl"])
    def test_estimates_track_and_counts_spread(self, network, index):
        """The mean of z is the mean of x; m is the largest count, as many rounds ago as hops."""
        past, away = [], hop_distances(network)
        algorithm = posse.DistUCB(index=index)
        for t, arms, _, state in rounds_of(algorithm, network, Bernoulli(), [0.9, 0.4, 0.1], 60):
            past.append(state.counts)
            np.testing.assert_allclose(
                state.estimates.mean(axis=1), state.sample_means.mean(axis=1), atol=1e-13
            )
            if t <= 3:
                assert (arms == t - 1).all()
                continue
            for i in range(network.n_agents):
                heard = [past[max(2, t - 1 - away[i, j])][:, j] for j in range(network.n_agents)]
                np.testing.assert_array_equal(state.largest[:, i], np.max(heard, axis=0))
            assert (state.counts >= state.largest - 3 - away.max()).all()
        sent = algorithm.numbers_sent(state, 60, np.array([8, 10, 12]))
        np.testing.assert_array_equal(sent, [48, 60, 72])
        assert not algorithm.numbers_sent(state, 3, np.array([8, 10, 12])).any()

    def test_its_weights_are_its_own(self):
        """Metropolis', whatever the network's."""
        runs = {"horizon": 50, "runs": 4, "seed": 1, "engine": "reference"}
        lazy, plain = (
            posse.simulate(BANDIT, networks.star(5).weighted(rule), posse.DistUCB(), **runs)
            for rule in ("lazy", "metropolis")
        )
        np.testing.assert_array_equal(lazy.pulls, plain.pulls)


SPLIT = np.kron(np.eye(2), np.full((2, 2), 0.5))
LOPSIDED = networks.from_matrix([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]])


@pytest.mark.parametrize("name", RIVALS)
class TestRefusals:
    @pytest.mark.parametrize(
        ("network", "reason"),
        [
            (networks.cycle(5).gossip(), "needs a network that does not change, since .*Gossip"),
            (networks.cycle(5).failing(0.3), "needs a network that does not change, since .*Fail"),
            (LOPSIDED, "needs symmetric weights, since"),
        ],
        ids=["gossip", "failing", "lopsided"],
    )
    def test_networks_it_is_not_made_for(self, name, network, reason):
        with pytest.raises(ValueError, match=reason):
            posse.simulate(BANDIT, network, RIVALS[name], horizon=20)

    def test_networks_in_parts(self, name):
        with pytest.warns(UserWarning, match="matrix"):
            parts = networks.from_matrix(SPLIT, check=False)
        with pytest.raises(ValueError, match=r"needs a connected network, since .* of 2 parts"):
            posse.simulate(BANDIT, parts, RIVALS[name], horizon=20)

    def test_families_without_what_the_index_needs(self, name):
        algorithm, network = RIVALS[name], networks.cycle(4)
        if name in ("GosInE", "DistUCB"):
            poisson = posse.Bandit.poisson([1.0, 2.0])
            with pytest.raises(ValueError, match="sigma must be given"):
                posse.simulate(poisson, network, algorithm, horizon=20)
            given = type(algorithm)(sigma=1.5)
            posse.simulate(poisson, network, given, horizon=20, runs=1)
        else:
            grid = posse.Bandit(Grid.example(), [0.2, 0.5])
            with pytest.raises(ValueError, match="has no divergence"):
                posse.simulate(grid, network, algorithm, horizon=20)


@pytest.mark.parametrize("cls", [posse.GosInE, posse.DistUCB])
def test_fields_are_checked(cls):
    with pytest.raises(ValueError, match="index 'klucb' is unknown: did you mean 'kl'"):
        cls(index="klucb")
    with pytest.raises(ValueError, match="sigma must be"):
        cls(sigma=0)


# Mean regret per agent and its standard error: a second implementation beside the authors' code
KNOWN = {
    "DPE2": (posse.DPE2(), networks.path(6), [0.8, 0.6, 0.5, 0.4], 1500, 18.0, 0.6),
    "Dist-UCB1": (
        posse.DistUCB(charge_initial=False),
        networks.cycle(6),
        [0.8, 0.6, 0.5, 0.4],
        400,
        27.5,
        0.3,
    ),
    "GosInE": (posse.GosInE(), networks.complete(6), np.linspace(0.9, 0.1, 10), 512, 62.5, 1.2),
}


@pytest.mark.parametrize("name", KNOWN)
def test_regret_is_the_known_one(name):
    """Within 4 standard errors of both: 6e-5 a case; arms are shuffled."""
    algorithm, network, means, horizon, expected, error = KNOWN[name]
    bandit = posse.Bandit.bernoulli(means)
    result = posse.simulate(
        bandit, network, algorithm, horizon=horizon, runs=60, seed=4, record=1
    ).summary()
    allowed = 4 * np.hypot(error, result.standard_error)
    assert abs(result.mean - expected) <= allowed


def test_gosine_with_the_best_arms_in_front():
    """Whose arms they are matters: 57.2 +- 0.5 in this order, within 4 standard errors."""
    means, regret = np.linspace(0.9, 0.1, 10), np.zeros(60)
    network = networks.complete(6)
    for _, arms, _, _ in rounds_of(posse.GosInE(), network, Bernoulli(), means, 512, runs=60):
        regret += (0.9 - means[arms]).mean(axis=1)
    error = np.hypot(0.5, regret.std(ddof=1) / np.sqrt(60))
    assert abs(regret.mean() - 57.2) <= 4 * error
