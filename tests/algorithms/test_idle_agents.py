"""Laws of agents that sleep, for the algorithms whose `learn` takes the arm IDLE.

`tests/lab/test_activity.py` has those of the Bayesian algorithms, which learn by `learn_delayed`.
"""

import dataclasses

import numpy as np
import pytest

import posse
from posse import activity
from posse.activity import PlayMasks
from posse.algorithms import ALGORITHMS, CONTEXTUAL, IDLE, Problem
from posse.families import Bernoulli
from posse.networks import AwakeLinks, cut_off_sleepers

RIVALS = {
    name: cls
    for name, cls in {**ALGORITHMS, **CONTEXTUAL}.items()
    if getattr(cls, "accepts_idle", False)
}
VARIANTS = {
    "partial-pooling": posse.PartialPooling(posse.ThompsonSampling(), refresh=0.5),
    "ucb-network, all hops": posse.UCBNetwork(hops="diameter"),
    "ucb-network, two hops": posse.UCBNetwork(hops=2),
    "dducb, unaccelerated": posse.DDUCB(variant="unaccelerated"),
    "dducb, practical": posse.DDUCB(variant="practical"),
    "lin-ucb, all data": posse.LinUCB(data="all"),
}
BANDIT = posse.Bandit.bernoulli([0.7, 0.5, 0.2])
VISITS = posse.ContextualBandit(
    posse.families.Linear(sigma=0.3),
    posse.Contexts({"x": (0, 1)}),
    np.array([[0.5, 0.1], [0.2, 0.9]]),
)
NETWORK = posse.networks.path(5).weighted("metropolis")
HORIZON, RUNS = 40, 4


def example_of(cls):
    return cls.example() if hasattr(cls, "example") else cls()


EVERY = {name: example_of(cls) for name, cls in RIVALS.items()} | VARIANTS
every_rival = pytest.mark.parametrize("algorithm", EVERY.values(), ids=EVERY)


def simulate(algorithm, who=None, runs=RUNS, **options):
    bandit = VISITS if type(algorithm) in CONTEXTUAL.values() else BANDIT
    return posse.simulate(
        bandit, NETWORK, algorithm, horizon=HORIZON, runs=runs, seed=3, engine="reference",
        activity=who, **options,
    )  # fmt: skip


def some_play(t, n_agents, generator):
    """Agent 0 sleeps in odd rounds, agent 4 always, the others by chance."""
    plays = generator.random(n_agents) < 0.6
    plays[0] = t % 2 == 0
    plays[4] = False
    return plays


def list_activities(algorithm, function=some_play):
    """Both kinds of sleep, where the algorithm can play both."""
    kinds = (True,) if getattr(algorithm, "needs_fixed_links", False) else (True, False)
    return [activity.Custom(function, relays=relays) for relays in kinds]


def test_the_rivals_are_there():
    assert len(RIVALS) >= 15
    assert all(
        getattr(cls, "accepts_idle", False) or hasattr(cls, "learn_delayed")
        for cls in {**ALGORITHMS, **CONTEXTUAL}.values()
    )


@every_rival
def test_nobody_asleep_is_the_simulation_without_activity_bit_for_bit(algorithm):
    without = simulate(algorithm)
    with_all = simulate(algorithm, activity.Asleep(0.0))
    np.testing.assert_array_equal(with_all.regret, without.regret)
    np.testing.assert_array_equal(with_all.pulls, without.pulls)


@every_rival
def test_only_those_who_play_pull_and_runs_do_not_affect_each_other(algorithm):
    for who in list_activities(algorithm):
        result = simulate(algorithm, who)
        masks = PlayMasks(who, 3, range(RUNS), 5).draw_rounds(HORIZON)
        np.testing.assert_array_equal(result.pulls.sum(axis=2), masks.sum(axis=0))
        assert not result.pulls[:, 4].any()  # it never plays
        alone = simulate(algorithm, who, runs=range(2, 3))
        np.testing.assert_array_equal(alone.pulls[0], result.pulls[2])
        np.testing.assert_array_equal(alone.regret[0], result.regret[2])


def half_play(t, n_agents, generator):
    return generator.random(n_agents) < 0.5


@pytest.mark.parametrize("name", [name for name in RIVALS if name not in CONTEXTUAL])
def test_agents_that_sleep_half_the_time_still_learn(name):
    """They play the best arm more often than by chance: 5 standard errors, 1e-6 if they did not."""
    for who in list_activities(EVERY[name], half_play):
        result = simulate(EVERY[name], who, runs=60)
        assert (result.pulls.sum(axis=1) > 0).all()
        shares = result.pulls[..., 0].sum(axis=1) / result.pulls.sum(axis=(1, 2))
        assert shares.mean() - 1 / 3 > 5 * shares.std() / np.sqrt(60)


def draw_history(rounds, n_runs=2, n_arms=3, seed=1):
    """Arms with IDLE where an agent sleeps, rewards that are 0 there, and who is awake."""
    generator = np.random.default_rng(seed)
    shape = (rounds, n_runs, 5)
    awake = generator.random(shape) < 0.6
    arms = np.where(awake, generator.integers(0, n_arms, shape), IDLE)
    return arms, np.where(awake, generator.random(shape), 0.0), awake


def learn_history(algorithm, arms, rewards, weights, network=NETWORK):
    problem = Problem(5, 3, 50, Bernoulli(), network, n_runs=arms.shape[1])
    state = algorithm.init(problem)
    for arms_t, rewards_t, weights_t in zip(arms, rewards, weights, strict=True):
        state = algorithm.learn(state, arms_t, rewards_t, weights_t)
    return state


def count_own(arms, rewards):
    """Counts and sums of the own pulls: (rounds, R, N, K) each, round by round."""
    played = np.arange(3) == arms[..., None]
    return 1.0 * played, played * rewards[..., None]


@pytest.mark.parametrize("relays", [True, False])
def test_running_consensus_conserves_the_evidence_of_those_who_play(relays):
    arms, rewards, awake = draw_history(20)
    weights = [
        NETWORK.weights if relays else cut_off_sleepers(NETWORK, NETWORK.weights, awake_t)
        for awake_t in awake
    ]
    played, paid = count_own(arms, rewards)
    for algorithm in (posse.CoopUCB2(), posse.CoopUCL()):
        state = learn_history(algorithm, arms, rewards, weights)
        np.testing.assert_allclose(state.counts.sum(axis=1), played.sum(axis=(0, 2)), rtol=1e-12)
        np.testing.assert_allclose(state.totals.sum(axis=1), paid.sum(axis=(0, 2)), rtol=1e-12)
    # those who sleep in the last round, and are cut off, keep what they have
    if not relays:
        before = learn_history(algorithm, arms[:-1], rewards[:-1], weights[:-1])
        np.testing.assert_array_equal(state.counts[~awake[-1]], before.counts[~awake[-1]])


def test_dducb_and_dist_ucb_conserve_what_they_average():
    arms, rewards, _ = draw_history(23)
    played, paid = count_own(arms, rewards)
    weights = [NETWORK.weights] * len(arms)
    state = learn_history(posse.DDUCB(variant="unaccelerated"), arms, rewards, weights)
    known = (state.mixing + state.fresh).sum(axis=2)
    np.testing.assert_allclose(known, [played.sum(axis=(0, 2)), paid.sum(axis=(0, 2))], rtol=1e-9)
    state = learn_history(posse.DistUCB(), arms, rewards, weights)
    counts, totals = played.sum(axis=0), paid.sum(axis=0)
    np.testing.assert_array_equal(state.counts, counts)
    means = totals / np.maximum(counts, 1)
    np.testing.assert_allclose(state.estimates.sum(axis=1), means.sum(axis=1), rtol=1e-9)


HOPS = np.abs(np.subtract.outer(np.arange(5), np.arange(5)))


@pytest.mark.parametrize("hops", [1, 2, None])
def test_observations_of_those_who_play_travel_a_hop_a_round(hops):
    """By distance where sleepers relay; entry by entry along working links where they do not."""
    arms, rewards, awake = draw_history(12)
    played, paid = count_own(arms, rewards)
    algorithm = posse.UCBNetwork(hops=hops)
    state = learn_history(algorithm, arms, rewards, [NETWORK.weights] * 12)
    for i in range(5):
        known = [
            (played[: 12 - max(HOPS[i, j], 1) + 1, :, j], paid[: 12 - max(HOPS[i, j], 1) + 1, :, j])
            for j in range(5)
            if HOPS[i, j] <= (hops or 5)
        ]
        np.testing.assert_array_equal(state.counts[:, i], sum(n.sum(axis=0) for n, _ in known))
        np.testing.assert_allclose(state.totals[:, i], sum(s.sum(axis=0) for _, s in known))
    cut = dataclasses.replace(NETWORK, dynamics=AwakeLinks(NETWORK.dynamics))
    weights = [cut_off_sleepers(NETWORK, NETWORK.weights, awake_t) for awake_t in awake]
    state = learn_history(algorithm, arms, rewards, weights, cut)
    for run in range(2):
        knows = np.zeros((12, 5, 5), bool)  # (round of the observation, source, agent)
        for t in range(12):
            knows[t] |= np.eye(5, dtype=bool)
            links = awake[t, run][:, None] & awake[t, run] & (HOPS == 1)
            young = slice(max(0, t + 1 - (hops or 12)), t + 1)
            knows[young] |= (knows[young] @ links.astype(int)) > 0
        counts = np.einsum("tsa,tsk->ak", knows[:12].astype(float), played[:, run])
        np.testing.assert_array_equal(state.counts[run], counts)


def test_own_evidence_is_that_of_the_rounds_played():
    arms, rewards, _ = draw_history(9)
    played, paid = count_own(arms, rewards)
    weights = [NETWORK.weights] * 9
    sums = {"counts": played.sum(axis=0), "totals": paid.sum(axis=0)}
    ages = 0.5 ** np.arange(8, -1, -1)[:, None, None, None]
    expected = {
        posse.GosInE(): sums,
        posse.SlidingWindowUCB(window=4): {
            "counts": played[-4:].sum(axis=0), "totals": paid[-4:].sum(axis=0),
        },
        posse.DiscountedUCB(half_life=1.0): {
            "counts": (ages * played).sum(axis=0), "totals": (ages * paid).sum(axis=0),
        },
    }  # fmt: skip
    for algorithm, fields in expected.items():
        state = learn_history(algorithm, arms, rewards, weights)
        for name, values in fields.items():
            np.testing.assert_allclose(getattr(state, name), values, rtol=1e-12, atol=1e-12)
    pooled = learn_history(posse.PartialPooling(posse.ThompsonSampling()), arms, rewards, weights)
    successes, failures = sums["totals"], sums["counts"] - sums["totals"]
    np.testing.assert_allclose(pooled.evidence, [successes, failures], rtol=1e-12)


def test_a_regression_learns_from_the_visits_of_those_who_play():
    """The sums of x y, visit by visit; those of FedLinUCB are at the server or with the agents."""
    generator = np.random.default_rng(2)
    arms, rewards, awake = draw_history(10, n_arms=2)
    contexts = generator.random((10, 2, 5, 2))
    problem = Problem(5, 2, 50, VISITS.family, NETWORK, n_runs=2)
    for algorithm in (posse.LinUCB(), posse.FedLinUCB()):
        state = algorithm.init(problem)
        for t in range(10):
            state = algorithm.learn(state, arms[t], rewards[t], None, contexts=contexts[t])
        shift = np.zeros((2, 2, 5, 2))  # (features, R, N, K)
        for t, run, agent in zip(*np.nonzero(awake), strict=True):
            x = contexts[t, run, agent]
            shift[:, run, agent, arms[t, run, agent]] += x * rewards[t, run, agent]
        if isinstance(algorithm, posse.LinUCB):
            np.testing.assert_allclose(state.equations[:2], shift, rtol=1e-12, atol=1e-12)
        else:
            known = (state.server + state.unsent.sum(axis=2, keepdims=True))[:2, :, 0]
            np.testing.assert_allclose(known, shift.sum(axis=2), rtol=1e-12, atol=1e-12)


RELABELLED = (
    "coop-ucb", "coop-ucb2", "coop-ucl", "dducb", "dist-ucb", "discounted-ucb",
    "sliding-window-ucb", "ucb-network", "comex", "coop-se", "partial-pooling",
)  # fmt: skip


@pytest.mark.parametrize("name", RELABELLED)
def test_other_numbers_for_the_agents_change_nothing_but_the_numbers(name):
    """Exactly, given the arms and the rewards: states of (R, N, K) are in the new order."""
    order = np.array([3, 1, 4, 0, 2])  # new agent -> old agent
    arms, rewards, _ = draw_history(20)
    matrix = np.asarray(NETWORK.weights)[np.ix_(order, order)]
    renamed = posse.networks.from_matrix(matrix)
    states = [
        learn_history(EVERY[name], arms, rewards, [NETWORK.weights] * 20),
        learn_history(EVERY[name], arms[..., order], rewards[..., order], [matrix] * 20, renamed),
    ]
    compared = 0
    for field in dataclasses.fields(states[0]):
        first, second = (np.asarray(getattr(state, field.name), dtype=object) for state in states)
        if first.shape[-3:] == (2, 5, 3):
            compared += 1
            np.testing.assert_allclose(
                first.astype(float)[..., order, :], second.astype(float), rtol=1e-9, atol=1e-12
            )
    assert compared > 0


def test_followers_and_stages_outlast_sleep():
    """A follower repeats the last arm of a leader that sleeps; DDUCB chooses when it wakes."""
    arms = np.array([[[1, 2, 0, 1, 2]], [[IDLE, IDLE, IDLE, IDLE, 0]]])
    rewards = np.zeros(arms.shape)
    algorithm = posse.FollowYourLeader()
    state = learn_history(algorithm, arms, rewards, [NETWORK.weights] * 2)
    followed = arms[0][:, state.leaders]
    followed = np.where(arms[1][:, state.leaders] == IDLE, followed, arms[1][:, state.leaders])
    np.testing.assert_array_equal(state.followed, followed)
    dducb = posse.DDUCB(variant="unaccelerated")
    forced = np.repeat(np.arange(3), 5).reshape(3, 1, 5)
    first = np.array([[[2, IDLE, 2, 2, 2]]])
    arms = np.concatenate([forced, first])
    state = learn_history(dducb, arms, np.zeros(arms.shape), [NETWORK.weights] * 4)
    assert dducb.stage_length(NETWORK) > 1
    chosen = dducb.choose(state, 5, np.random.default_rng(1))
    np.testing.assert_array_equal(chosen[0, [0, 2, 3, 4]], 2)
    assert chosen[0, 1] in range(3)
    # who has played in the stage keeps its arm over a nap; of equal indices a new choice is arm 0
    later = np.concatenate([arms, [[[IDLE, IDLE, 2, 2, 2]]]])
    state = learn_history(dducb, later, np.zeros(later.shape), [NETWORK.weights] * 5)
    np.testing.assert_array_equal(
        dducb.choose(state, 6, np.random.default_rng(1))[0, [0, 1]], [2, 0]
    )


def test_nobody_learns_while_the_leader_of_dpe2_sleeps():
    arms, rewards, _ = draw_history(15)
    leader = posse.DPE2().find_leader(NETWORK)
    weights = [NETWORK.weights] * 15
    awake = learn_history(posse.DPE2(), arms, rewards, weights)
    played, paid = count_own(arms, rewards)
    np.testing.assert_array_equal(awake.counts, played[:, :, leader].sum(axis=0))
    np.testing.assert_allclose(awake.totals, paid[:, :, leader].sum(axis=0), rtol=1e-12)
    arms = np.concatenate([arms, np.full((2, 2, 5), IDLE)])
    asleep = learn_history(posse.DPE2(), arms, np.zeros(arms.shape), weights + weights[:2])
    for name in ("counts", "candidates", "index", "renewed"):
        np.testing.assert_array_equal(getattr(asleep, name), getattr(
            learn_history(posse.DPE2(), arms[:15], np.zeros((15, 2, 5)), weights), name
        ))  # fmt: skip


def test_what_has_no_meaning_is_refused():
    for algorithm in (
        posse.CoopUCB(),
        posse.DDUCB(),
        posse.DistUCB(),
        posse.GosInE(),
        posse.DPE2(),
    ):
        with pytest.raises(ValueError, match="needs links that do not change: use relays=True"):
            simulate(algorithm, activity.Asleep(0.5, relays=False))
    with pytest.raises(ValueError, match=r"charge_initial of .* must be True where agents sleep"):
        simulate(posse.CoopUCB2(charge_initial=False), activity.Asleep(0.5))
    for name in ("ucb-network", "comex", "coop-se", "follow-your-leader", "partial-pooling"):
        with pytest.raises(ValueError, match=r"messages of .* are not counted where agents sleep"):
            simulate(EVERY[name], activity.Asleep(0.5), keep="messages")
    with pytest.raises(ValueError, match="where agents sleep"):
        posse.simulate(
            BANDIT, NETWORK, posse.CoopUCB2(), horizon=5, engine="compiled",
            activity=activity.Asleep(0.5),
        )  # fmt: skip
