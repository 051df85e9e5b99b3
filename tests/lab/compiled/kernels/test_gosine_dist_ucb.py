"""The rivals' kernels: round by round the state and the choice of the reference algorithms.

The reference is led by the kernels' arms and rewards, as in test_baselines.py.
"""

import dataclasses

import numpy as np
import pytest

import posse
from posse import networks

RUNS, HORIZON, N_ARMS = 3, 30, 4  # three runs: the fixture's
MEANS = [0.1, 0.9, 0.5, 0.4]
BANDITS = {
    "gaussian": posse.Bandit.gaussian(MEANS, sigma=0.7),
    "bounded": posse.Bandit(posse.families.Bounded(), MEANS),
    "exponential": posse.Bandit.exponential(MEANS),
}
NETWORKS = {
    "cycle": networks.cycle(7),
    "star": networks.star(5).weighted("lazy"),
    "complete": networks.complete(3),
    "one agent": networks.complete(1),
}
CASES = [  # all graphs with one family, all families on one graph
    (bandit, index, graph)
    for bandit in BANDITS
    for index in ("published", "kl")
    for graph in NETWORKS
    if bandit == "gaussian" or graph == "cycle"
    if (bandit, index) != ("exponential", "published")
]


def rounds(play, bandit, network, algorithm, prepare=lambda state, rows, t: state):
    """Each round: t, the kernels' rows after it, its arms, and the reference's state before it."""
    problem = posse.algorithms.Problem(
        network.n_agents, N_ARMS, HORIZON, bandit.family, network, RUNS
    )
    state = algorithm.init(problem)
    for t in range(1, HORIZON + 1):
        _, rows = play(bandit, network, algorithm, t)
        arms = rows.arms.reshape(RUNS, -1).astype(np.intp)
        state = prepare(state, rows, t)
        yield t, rows, arms, state
        rewards = rows.rewards[: arms.size].reshape(arms.shape)
        state = algorithm.learn(state, arms, rewards, None)


@pytest.mark.parametrize(("bandit", "index", "graph"), CASES)
def test_dist_ucb(play, bandit, index, graph):
    network, algorithm = NETWORKS[graph], posse.DistUCB(index=index)
    agreed = 0
    for t, rows, arms, state in rounds(play, BANDITS[bandit], network, algorithm):
        own = rows.store.reshape(RUNS, network.n_agents, 4, N_ARMS)
        np.testing.assert_array_equal(own[:, :, 0] - np.eye(N_ARMS)[arms], state.counts)
        if t > N_ARMS:
            kept = (rows.other if rows.flipped else rows.state).reshape(RUNS, -1, 2, N_ARMS)
            np.testing.assert_allclose(kept[:, :, 0], state.estimates, atol=1e-12)
            np.testing.assert_array_equal(kept[:, :, 1], state.largest)
        lags = state.counts <= state.largest - N_ARMS if t > N_ARMS else np.zeros_like(own[:, :, 0])
        behind = lags.any(axis=-1)
        np.testing.assert_array_equal(
            np.take_along_axis(lags, arms[..., None], axis=-1)[..., 0], behind
        )
        chosen = algorithm.choose(state, t, np.random.default_rng(0))
        one = dataclasses.replace(state, largest=state.counts)  # nothing lags: the index decides
        np.testing.assert_array_equal(
            np.where(behind, chosen, algorithm.choose(one, t, np.random.default_rng(0))), chosen
        )
        np.testing.assert_array_equal(arms[~behind], chosen[~behind])
        agreed += np.count_nonzero(~behind)
    assert agreed > 0.5 * HORIZON * RUNS * network.n_agents


@pytest.mark.parametrize(("bandit", "index", "graph"), CASES)
def test_gosine(play, bandit, index, graph):
    network, algorithm = NETWORKS[graph], posse.GosInE(index=index)
    n_agents, changed = network.n_agents, 0

    def prepare(state, rows, t):
        """The kernels' sets, if the rules allow them."""
        nonlocal changed
        store = rows.store.reshape(RUNS, n_agents, N_ARMS + 3)
        upper, lower = np.moveaxis(store[..., N_ARMS : N_ARMS + 2].astype(np.intp), -1, 0)
        if not state.ended:
            np.testing.assert_array_equal([upper, lower], [state.upper, state.lower])
            return state
        played = state.counts - state.earlier
        np.testing.assert_array_equal(store[..., :N_ARMS], state.counts)
        for run in range(RUNS):
            for i in range(n_agents):
                u, v = state.upper[run, i], state.lower[run, i]
                u, v = (v, u) if played[run, i, v] > played[run, i, u] else (u, v)
                assert upper[run, i] == u
                heard = {
                    arm
                    for j in network.neighbours(i)
                    for arm in np.flatnonzero(played[run, j] == played[run, j].max())
                }
                new = {arm for arm in heard if not state.active_arms[run, i, arm]}
                assert lower[run, i] in (new | {v} if new != heard or not heard else new)
                changed += lower[run, i] != v
        return dataclasses.replace(
            state, upper=upper, lower=lower, earlier=state.counts, ended=False
        )

    for t, _, arms, state in rounds(play, BANDITS[bandit], network, algorithm, prepare):
        unseen = state.active_arms & (state.counts == 0)
        chosen = algorithm.choose(state, t, np.random.default_rng(0))
        surely = ~unseen.any(axis=-1)
        np.testing.assert_array_equal(arms[surely], chosen[surely])
        tied = np.take_along_axis(unseen, arms[..., None], axis=-1)[..., 0]
        np.testing.assert_array_equal(tied, ~surely)
    assert changed > 0 or n_agents < 5


@pytest.mark.parametrize("graph", ["star", "complete"])
@pytest.mark.parametrize("algorithm", [posse.GosInE("kl"), posse.DistUCB(), posse.DistUCB("kl")])
def test_engines_agree_in_law(algorithm, graph):
    """Rewards that tie, too: mean regret within 4 standard errors, 6e-5 a case, 4e-4 in all."""
    bandit, runs = posse.Bandit.bernoulli(MEANS), {"horizon": 150, "runs": 150, "record": 1}
    one, other = (
        posse.simulate(
            bandit, NETWORKS[graph], algorithm, engine=engine, seed=seed, keep="messages", **runs
        )
        for engine, seed in (("compiled", 1), ("reference", 2))
    )
    error = np.hypot(one.summary().standard_error, other.summary().standard_error)
    assert abs(one.summary().mean - other.summary().mean) <= 4 * error
    np.testing.assert_allclose(one.numbers_sent, other.numbers_sent, rtol=1e-12)
