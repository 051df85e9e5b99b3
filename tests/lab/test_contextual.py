"""Bandits with contexts in the lab: what agents meet, what is charged, and who may play.

Statistical tests have fixed seeds; correct code fails one with probability below 1e-6.
"""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

import posse
from posse import beliefs
from posse.algorithms import ALGORITHMS
from posse.contexts import Category, Contexts
from posse.families import Bernoulli, Gaussian, Linear, Logistic
from posse.lab.experiments import experiment_from_toml, experiment_to_toml
from posse.randomness import create_generator

TS = posse.ThompsonSampling()
SHOP = Contexts({"country": ["de", "fr", "it"], "basket": (0, 500)})
BANDIT = posse.ContextualBandit(Linear(prior_sd=0.3), SHOP, posse.NormalWeights(n_arms=4, sd=0.3))
CLICKS = posse.ContextualBandit(
    Logistic(rate=0.2), SHOP, posse.NormalWeights(3, 0.5, intercept=-1.4, intercept_sd=0.3)
)
SHARED = posse.ContextualBandit(
    Linear(sigma=0.5, shared=True), posse.bandits.UnitFeatures(6, 3), posse.NormalWeights(6, 1.0)
)
WORLDS = {"linear": BANDIT, "logistic": CLICKS, "shared": SHARED}
CYCLE = posse.networks.cycle(4)
WHO = {
    "decentralized": posse.Decentralized(TS),
    "isolated": posse.Isolated(TS),
    "centralized": posse.Centralized(TS),
    "flooding": posse.Flooding(TS),
    "tree": posse.Tree(TS),
    "push-sum": posse.PushSum(TS),
    "event-triggered": posse.EventTriggered(TS),
}
short = {"horizon": 12, "runs": 3, "seed": 5}


def ones(generator, size):
    """One feature, the intercept."""
    return np.ones((*size, 1))


def uneven(generator, size):
    """Two features for the agents it is tried with, three for more."""
    return np.ones((*size, 2 if size[1] == 2 else 3))


def by_itself(generator, size):
    """Drawn from nothing that was given."""
    return np.random.default_rng().random((*size, 2))


@dataclasses.dataclass(frozen=True)
class Watching(posse.Isolated):
    """Keeps what it was shown in a list that the test holds."""

    seen: tuple = ()  # (list,)

    def choose(self, state, t, generator, contexts=None):
        """Note the contexts."""
        self.seen[0].append(contexts)
        return super().choose(state, t, generator, contexts)


# What agents meet --------------------------------------------------------------------------------


@pytest.mark.parametrize("world", WORLDS)
def test_regret_is_against_the_best_arm_for_the_context_that_the_agent_met(world):
    """Charged again by hand, from the streams alone."""
    bandit, seen = WORLDS[world], []
    result = posse.simulate(
        bandit, CYCLE, Watching(TS, seen=(seen,)), keep=("agents", "means"), **short
    )
    order = result.arm_order  # (R, K)
    d, n_rows = bandit.family.features, 1 if bandit.family.shared else bandit.n_arms
    assert len(seen) == 12
    for run in range(3):
        theta = bandit.theta(create_generator(5, run, "means"), (n_rows, d))
        visits = create_generator(5, run, "contexts")
        pulls = np.zeros((4, bandit.n_arms))
        regret = np.zeros(4)
        for t in range(12):
            x = bandit.contexts(visits, (4,))
            if bandit.family.shared:
                means = x @ theta[0]  # (N, K)
                np.testing.assert_array_equal(seen[t][run], x[:, order[run]])
            else:
                means = x @ theta.T
                np.testing.assert_array_equal(seen[t][run], x)
            if world == "logistic":
                means = 1 / (1 + np.exp(-means))
            np.testing.assert_allclose(result.means[run, t], means, rtol=1e-12)
            charged = np.diff(result.agent_regret[run], axis=1, prepend=0)[:, t]
            gaps = means.max(axis=1, keepdims=True) - means
            played = np.abs(gaps - charged[:, None]).argmin(axis=1)
            np.testing.assert_allclose(gaps[range(4), played], charged, atol=1e-12)
            pulls[range(4), played] += 1
            regret += charged
        np.testing.assert_array_equal(result.pulls[run], pulls)
        np.testing.assert_allclose(result.regret[run, -1], regret.mean())


def test_all_algorithms_meet_the_same_visits_and_runs_are_the_same_in_whatever_block():
    comparison = posse.compare(BANDIT, CYCLE, WHO, keep=("means",), **short)
    for result in comparison.values():
        np.testing.assert_array_equal(result.means, comparison["isolated"].means)
    options = {"horizon": 40, "seed": 5, "keep": ("means", "beliefs")}
    for bandit in WORLDS.values():
        many = posse.simulate(bandit, CYCLE, WHO["decentralized"], runs=30, threads=2, **options)
        few = posse.simulate(bandit, CYCLE, WHO["decentralized"], runs=range(7, 9), **options)
        np.testing.assert_array_equal(few.regret, many.regret[7:9])
        np.testing.assert_array_equal(few.means, many.means[7:9])
        np.testing.assert_array_equal(few.beliefs, many.beliefs[7:9])


@pytest.mark.parametrize("name", WHO)
def test_a_context_that_says_nothing_leaves_the_plain_bandit_to_the_bit(name):
    one = posse.ContextualBandit(Linear(sigma=0.8), ones, [[0.5], [0.3], [0.1]])
    plain = posse.Bandit.gaussian([0.5, 0.3, 0.1], sigma=0.8)
    network = CYCLE if name == "tree" else CYCLE.failing(0.3)
    options = {"horizon": 60, "runs": 4, "engine": "reference", "keep": ("beliefs", "messages")}
    with_one = posse.simulate(one, network, WHO[name], **options)
    without = posse.simulate(plain, network, WHO[name], **options)
    np.testing.assert_array_equal(with_one.regret, without.regret)
    np.testing.assert_array_equal(with_one.pulls, without.pulls)
    np.testing.assert_array_equal(with_one.beliefs, without.beliefs)
    if name not in ("centralized", "flooding"):  # who tell the context too
        np.testing.assert_array_equal(with_one.numbers_sent, without.numbers_sent)


@pytest.mark.parametrize("world", WORLDS)
def test_the_complete_graph_is_one_agent_with_all_data(world):
    bandit, complete = WORLDS[world], posse.networks.complete(4)
    options = {"horizon": 30, "runs": 3, "record": [30], "keep": ("beliefs",)}
    kept = [
        posse.simulate(bandit, complete, algorithm, **options).beliefs
        for algorithm in (WHO["decentralized"], WHO["centralized"], WHO["flooding"])
    ]
    np.testing.assert_allclose(kept[1], kept[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(kept[2], kept[0], rtol=1e-9, atol=1e-12)


def test_tree_and_flooding_hold_the_same_on_a_path():
    """All within reach, each observation once, linearised around what the agent acted on."""
    path = posse.networks.path(4)
    options = {"horizon": 25, "runs": 3, "keep": ("beliefs",)}
    for bandit in WORLDS.values():
        tree, flooding = (
            posse.simulate(bandit, path, algorithm, **options).beliefs
            for algorithm in (WHO["tree"], WHO["flooding"])
        )
        np.testing.assert_allclose(tree, flooding, rtol=1e-9, atol=1e-9)


def test_sharing_helps_and_ignoring_contexts_does_not():
    algorithms = {
        "dec": WHO["decentralized"],
        "alone": WHO["isolated"],
        "ignored": posse.Centralized(TS, family=Gaussian(prior_sd=0.3)),
    }
    segments = Contexts({"segment": list("abcde")})
    bandit = dataclasses.replace(BANDIT, contexts=segments, family=Linear(prior_sd=0.3))
    network = posse.networks.complete(8)
    comparison = posse.compare(bandit, network, algorithms, horizon=250, runs=8, record=1)
    regret = {name: result.regret.mean() for name, result in comparison.items()}
    assert regret["dec"] < 0.5 * regret["alone"]
    assert regret["dec"] < 0.8 * regret["ignored"]


# Dynamics, forgetting, delays, messages ----------------------------------------------------------


@pytest.mark.parametrize("world", WORLDS)
def test_every_dynamics_forgetting_and_delays_play(world):
    bandit, networks = WORLDS[world], (CYCLE.gossip(), CYCLE.failing(0.5))
    for network in (*networks, posse.networks.erdos_renyi(4, 0.7, seed="run")):
        for algorithm in (WHO["decentralized"], WHO["flooding"]):
            assert posse.simulate(bandit, network, algorithm, **short).regret.shape == (3, 12)
    for name, algorithm in WHO.items():
        faded = dataclasses.replace(algorithm, half_life=5.0)
        assert posse.simulate(bandit, CYCLE, faded, **short).regret.shape == (3, 12), name
        late = bandit.delayed(mean=3, never=0.1)
        assert posse.simulate(late, CYCLE, faded, **short).regret.shape == (3, 12), name


@pytest.mark.parametrize("name", WHO)
@pytest.mark.parametrize("world", WORLDS)
def test_rewards_that_come_at_once_are_those_without_a_delay(world, name):
    bandit = WORLDS[world]
    options = {"horizon": 20, "runs": 2, "keep": ("beliefs",)}
    plain = posse.simulate(bandit, CYCLE, WHO[name], **options)
    late = posse.simulate(bandit.delayed(mean=0), CYCLE, WHO[name], **options)
    np.testing.assert_array_equal(plain.pulls, late.pulls)
    np.testing.assert_allclose(plain.beliefs, late.beliefs, rtol=1e-12)


def test_a_late_reward_counts_where_its_visit_was():
    """One agent by hand: the statistic of the context of the pull, when the reward comes."""
    bandit = BANDIT.delayed(lambda generator, size: np.full(size, 2))
    seen, family = [], BANDIT.family
    one = posse.networks.complete(1)
    algorithm = Watching(TS, seen=(seen,))
    options = {"horizon": 6, "runs": 1, "seed": 5, "keep": ("beliefs",)}
    with pytest.warns(UserWarning, match="cannot be rerun|can be saved but not rerun"):
        result = posse.simulate(bandit, one, algorithm, **options)
    start = np.broadcast_to(family.prior()[None, :, None], (1, 20, 4))
    gained = np.diff(result.beliefs[0, :, :, 0], axis=0, prepend=start)
    np.testing.assert_array_equal(gained[:2], 0)
    for t in range(2, 6):
        x = seen[t - 2][0, 0]
        rows, columns = np.triu_indices(family.features)
        gram = np.outer(x, x)[rows, columns]
        total = gained[t].sum(axis=-1)  # over arms: one of them
        np.testing.assert_allclose(total[family.features :], gram, atol=1e-12)
        assert np.count_nonzero(np.abs(gained[t]).sum(axis=0) > 1e-12) == 1


def test_messages_are_beliefs_or_observations_with_their_features():
    d, n_arms = 5, 4
    coordinates = d + d * (d + 1) // 2
    expected = {
        "decentralized": 2 * coordinates * n_arms,
        "isolated": 0,
        "centralized": 3 * (2 + d),
        "tree": 6 / 4 * coordinates * n_arms,
    }
    for name, numbers in expected.items():
        result = posse.simulate(BANDIT, CYCLE, WHO[name], keep=("messages",), **short)
        np.testing.assert_allclose(result.numbers_sent[:, -1], 12 * numbers)
    shared = posse.simulate(SHARED, CYCLE, WHO["decentralized"], keep=("messages",), **short)
    np.testing.assert_allclose(shared.numbers_sent[:, -1], 12 * 2 * 9)
    clicks = posse.simulate(CLICKS, CYCLE, WHO["centralized"], keep=("messages",), **short)
    np.testing.assert_allclose(clicks.numbers_sent[:, -1], 12 * 3 * (3 + d))
    rounds = posse.simulate(BANDIT, CYCLE, WHO["flooding"], keep=("messages",), **short)
    # of each observation both neighbours hear at once, and who is opposite of one or both of them
    assert rounds.numbers_sent[0, 0] == 2 * (2 + d)
    assert rounds.numbers_sent[0, 2] - rounds.numbers_sent[0, 1] == 4 * (2 + d)


def test_beliefs_that_are_kept_can_be_read_at_any_context(tmp_path):
    for bandit in WORLDS.values():
        result = posse.simulate(bandit, CYCLE, WHO["decentralized"], keep=("beliefs",), **short)
        result.save(tmp_path / "r.nc")
        loaded = posse.load(tmp_path / "r.nc")
        np.testing.assert_array_equal(loaded.beliefs, result.beliefs)
        belief = loaded.beliefs[0, -1, :, 0]  # (D, K)
        x = bandit.contexts(np.random.default_rng(0), (1, 1))[0, 0]
        summary = posse.summarise(bandit.family.at_mean, bandit.family.at_context(belief, x))
        assert summary.probability_best.sum() == pytest.approx(1)


# Plain data --------------------------------------------------------------------------------------

TOML = """
title = ""
horizon = 20
runs = 2
seed = 0

[bandit]
family = {name = "linear", prior_sd = 0.3}
theta = {name = "normal", n_arms = 5, sd = 0.3}
contexts = {country = ["de", "fr", "it"], basket = {low = 0, high = 500}}

[network]
graph = "cycle"
agents = 4

[algorithms.dec-TS]
name = "decentralized"
policy = "thompson-sampling"

[algorithms.wider]
name = "decentralized"
policy = "thompson-sampling"
family = {name = "linear", prior_sd = 2.0}

[algorithms.ignored]
name = "decentralized"
policy = "thompson-sampling"
family = "gaussian"
"""


def test_experiments_come_back_from_toml_and_from_results(tmp_path):
    experiment = experiment_from_toml(TOML)
    assert experiment.bandit == posse.ContextualBandit(
        Linear(prior_sd=0.3), SHOP, posse.NormalWeights(5, 0.3)
    )
    assert experiment_from_toml(experiment_to_toml(experiment)) == experiment
    comparison = experiment.run()
    comparison.save(tmp_path / "c.nc")
    again = posse.experiment_of(posse.load(tmp_path / "c.nc"))
    for name, result in again.run().items():
        np.testing.assert_array_equal(result.regret, comparison[name].regret)


def _theta(rng, *shape):
    return rng.normal(size=shape).tolist()


@pytest.mark.parametrize(
    "bandit",
    [
        *WORLDS.values(),
        posse.ContextualBandit(
            Logistic(rate=0.03, prior_sd=0.4),
            Contexts({"s": Category(("a", "b"), shares=(0.9, 0.1)), "name": "flag"}),
            _theta(np.random.default_rng(0), 7, 3, 4),
        ).delayed(mean=3),
        posse.ContextualBandit(Linear(), ones, [[0.5], [0.3]]),
        posse.ContextualBandit(Linear(shared=True), posse.bandits.UnitFeatures(4, 2), [[1.0, 2.0]]),
    ],
    ids=lambda bandit: f"{bandit.family.name}-{bandit.n_arms}",
)
def test_bandits_come_back_from_plain_data(bandit):
    result = posse.simulate(bandit, CYCLE, WHO["isolated"], horizon=3, runs=2)
    experiment = posse.experiment_of(result)
    assert experiment.bandit == bandit
    assert hash(experiment.bandit) == hash(bandit)
    assert experiment_from_toml(experiment_to_toml(experiment)) == experiment
    np.testing.assert_array_equal(experiment.run().regret, result.regret)


def test_a_lambda_is_shown_but_not_rerun():
    bandit = posse.ContextualBandit(Linear(), lambda g, size: np.ones((*size, 2)), np.eye(2))
    with pytest.warns(UserWarning, match="can be saved but not rerun"):
        result = posse.simulate(bandit, CYCLE, WHO["isolated"], horizon=3, runs=1)
    with pytest.raises(ValueError, match=r"bandit.contexts cannot be rerun"):
        posse.experiment_of(result)


def test_keys_of_contexts_can_be_swept(tmp_path):
    experiment = experiment_from_toml(TOML)
    sweep = posse.sweep(
        experiment,
        {
            "bandit.theta.sd": [0.1, 0.5],
            "bandit.family.prior_sd": [0.3],
            "bandit.contexts.basket.high": [100, 500],
            "algorithms.*.learning_rate": [2],
        },
        folder=tmp_path,
    )
    table = sweep.table()
    assert len(table) == 12
    assert table.groupby("bandit.theta.sd")["regret"].mean().is_monotonic_increasing


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            '"linear", prior_sd = 0.3',
            '"liner"',
            "bandit.family.name: 'liner' is unknown: did you mean 'linear'?",
        ),
        ('{name = "linear", prior_sd = 0.3}', '"gaussian"', "bandit.family: 'gaussian' is unknown"),
        ('{name = "linear", prior_sd = 0.3}', '"logistic"', "bandit.family.rate: is missing"),
        ("prior_sd = 0.3", "prior_sd = -1", "bandit.family.prior_sd: must be a finite number"),
        ("prior_sd = 0.3", "features = 3", "bandit: features is 3 in Linear, but contexts have 5"),
        ('"normal"', '"uniform"', "bandit.theta.name: 'uniform' is unknown"),
        ("low = 0", "lo = 0", "bandit.contexts: contexts.basket must have a kind"),
        ('"fr"', '"de"', "bandit.contexts: contexts.country must be different names"),
        ("theta =", "means = [1, 2]\ntheta =", "bandit: key 'means' is unknown"),
        ('theta = {name = "normal", n_arms = 5, sd = 0.3}', "", "bandit.theta: is missing"),
        ('family = "gaussian"', 'family = "guassian"', "algorithms.ignored.family: 'guassian' is"),
        ("prior_sd = 2.0", "shared = true", "the family of algorithm 'wider' shares one theta"),
    ],
)
def test_mistakes_in_files_get_a_sentence(old, new, sentence):
    assert TOML.count(old) == 1
    with pytest.raises(ValueError, match=re.escape(sentence)) as refused:
        experiment_from_toml(TOML.replace(old, new)).run()
    assert "\n" not in str(refused.value)


# At the door -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(set(ALGORITHMS) - set(WHO)))
def test_who_knows_no_contexts_is_refused_before_round_1(name, example_of):
    algorithm = example_of(ALGORITHMS[name])
    with pytest.raises(ValueError, match=f"is {type(algorithm).__name__}, which knows no contexts"):
        posse.simulate(BANDIT, CYCLE, algorithm, **short)


def test_an_own_algorithm_without_contexts_is_refused_unless_its_family_is_plain():
    @dataclasses.dataclass(frozen=True)
    class Own(posse.Isolated):
        def learn(self, state, arms, rewards, weights):
            return super().learn(state, arms, rewards, weights)

    with pytest.raises(ValueError, match="Own, which knows no contexts: use Decentralized"):
        posse.simulate(BANDIT, CYCLE, Own(TS), **short)
    with pytest.warns(UserWarning, match="can be saved but not rerun"):
        result = posse.simulate(BANDIT, CYCLE, Own(TS, family=Gaussian()), **short)
    plain = posse.simulate(BANDIT, CYCLE, posse.Isolated(TS, family=Gaussian()), **short)
    np.testing.assert_array_equal(result.regret, plain.regret)


def test_contexts_are_for_the_reference_engine():
    with pytest.raises(ValueError, match="engine 'compiled' has no kernel for contexts"):
        posse.simulate(BANDIT, CYCLE, WHO["isolated"], engine="compiled", **short)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: dataclasses.replace(BANDIT, family=Gaussian()),
            "family must be one with contexts",
        ),
        (lambda: dataclasses.replace(BANDIT, contexts=3), "contexts must be posse.Contexts"),
        (
            lambda: dataclasses.replace(BANDIT, contexts=lambda g, size: np.ones(size)),
            "contexts <function",
        ),
        (
            lambda: dataclasses.replace(BANDIT, contexts=lambda g: 1),
            "contexts: <function",
        ),
        (
            lambda: posse.ContextualBandit(Linear(shared=True), SHOP, posse.NormalWeights(3)),
            "contexts must have a row for each arm",
        ),
        (
            lambda: dataclasses.replace(SHARED, theta=posse.NormalWeights(5)),
            "contexts have features of 6 arms, but theta is of 5",
        ),
        (lambda: dataclasses.replace(BANDIT, theta=np.ones((4, 3))), "theta must be weights of 5"),
        (lambda: dataclasses.replace(BANDIT, theta=np.ones((1, 5))), "theta must be of at least 2"),
        (lambda: dataclasses.replace(SHARED, theta=np.ones((2, 3))), "theta must be one row"),
        (lambda: dataclasses.replace(BANDIT, theta="x"), "theta must be numbers, got 'x'"),
        (lambda: dataclasses.replace(BANDIT, delay=3), "delay must be one such as"),
        (lambda: BANDIT.gaps, "gaps differ from visit to visit"),
        (lambda: posse.NormalWeights(1), "n_arms must be a whole number at least 2"),
        (lambda: posse.NormalWeights(2, sd=-1), "sd must be a finite number at least 0"),
        (
            lambda: posse.simulate(
                dataclasses.replace(BANDIT, theta=np.ones((2, 4, 5))), CYCLE, WHO["tree"], **short
            ),
            "runs is 3, but theta is given for 2 runs only",
        ),
        (
            lambda: posse.simulate(
                posse.Bandit.gaussian([1, 2]), CYCLE, posse.Isolated(TS, family=Linear()), **short
            ),
            "the family of algorithm is 'linear', which needs contexts",
        ),
        (
            lambda: posse.simulate(
                BANDIT, CYCLE, posse.Isolated(TS, family=Linear(features=3)), **short
            ),
            "features is 3 in Linear, but contexts have 5 columns",
        ),
        (
            lambda: posse.simulate(BANDIT, CYCLE, posse.Isolated(TS, family=Bernoulli()), **short),
            "family 'bernoulli' learns from rewards in [0, 1], but",
        ),
        (
            lambda: posse.simulate(BANDIT, CYCLE, WHO["decentralized"], keep=("signs",), **short),
            "keep: signs are not kept with contexts",
        ),
        (
            lambda: posse.simulate(
                CLICKS.delayed(mean=2), CYCLE, posse.Isolated(TS, open="count"), **short
            ),
            "open='count' of algorithm is undefined with contexts",
        ),
        (
            lambda: posse.simulate(
                posse.ContextualBandit(Linear(), by_itself, np.ones((2, 2))),
                CYCLE,
                WHO["isolated"],
                **short,
            ),
            "contexts <function by_itself",
        ),
    ],
)
def test_mistakes_are_refused_with_a_sentence(call, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}") as refused:
        call()
    assert "\n" not in str(refused.value)


def test_contexts_of_another_shape_in_a_later_round_are_refused():
    bandit = posse.ContextualBandit(Linear(), uneven, np.ones((2, 2)))
    with pytest.raises(ValueError, match="as they did at first, got"):
        posse.simulate(bandit, CYCLE, WHO["isolated"], **short)


def test_a_belief_of_one_theta_is_one_for_all_arms():
    result = posse.simulate(SHARED, CYCLE, WHO["decentralized"], keep=("beliefs",), **short)
    kept = result.beliefs
    np.testing.assert_array_equal(kept, np.broadcast_to(kept[..., :1], kept.shape))
    assert beliefs.prior(SHARED.family, 1, 1).shape == (9, 1, 1)


def test_drawn_weights_have_the_moments_they_were_asked_for():
    weights = posse.NormalWeights(2, sd=0.5, intercept=-3.0, intercept_sd=0.2)
    drawn = np.stack([weights(np.random.default_rng(seed), (2, 3)) for seed in range(4000)])
    np.testing.assert_allclose(drawn.mean(axis=(0, 1)), [-3.0, 0, 0], atol=0.04)
    np.testing.assert_allclose(drawn.std(axis=(0, 1)), [0.2, 0.5, 0.5], rtol=0.05)
    same = posse.NormalWeights(2, sd=0.5)(np.random.default_rng(0), (2, 3))
    np.testing.assert_array_equal(same, 0.5 * np.random.default_rng(0).standard_normal((2, 3)))


def test_an_own_family_is_shown_but_not_rerun_where_no_file_can_name_it():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Own(Linear):
        pass

    bandit = dataclasses.replace(BANDIT, family=Own(prior_sd=0.3))
    with pytest.warns(UserWarning, match="can be saved but not rerun"):
        result = posse.simulate(bandit, CYCLE, WHO["isolated"], **short)
    plain = posse.simulate(BANDIT, CYCLE, WHO["isolated"], **short)
    np.testing.assert_array_equal(result.regret, plain.regret)
    with pytest.raises(ValueError, match=r"bandit\.family cannot be rerun"):
        posse.experiment_of(result)
