"""LinUCB, alone and federated, plays the arms of a plain script, and says what it sends."""

import re

import numpy as np
import pytest

import posse
from posse.algorithms import CONTEXTUAL, Problem
from posse.families import Linear, Logistic
from tests.algorithms.oracles import lin_ucb

HORIZON, N_ARMS, N_AGENTS, D = 40, 3, 4, 3
NETWORK = posse.networks.cycle(N_AGENTS)
BANDIT = posse.ContextualBandit(
    Linear(sigma=0.5), posse.Contexts({"a": (-1, 1), "b": "flag"}), posse.NormalWeights(N_ARMS)
)
EVERY = {
    "own": posse.LinUCB(exploration=1.3, regularization=0.7),
    "all": posse.LinUCB("all", exploration=1.3, regularization=0.7),
    0.3: posse.FedLinUCB(0.3, exploration=1.3, regularization=0.7),
}


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("who", EVERY)
def test_the_arms_are_those_of_a_plain_script(who, shared):
    generator = np.random.default_rng(7)
    rows = (N_ARMS,) if shared else ()
    contexts = generator.normal(size=(HORIZON, N_AGENTS, *rows, D))
    rewards = generator.normal(size=(HORIZON, N_AGENTS, N_ARMS))
    uniforms = generator.random((HORIZON, N_AGENTS))

    class Given:
        """A generator of the uniforms of a round."""

        def random(self, size):
            return uniforms[self.t - 1][None]

    family = Linear(sigma=0.5, features=D, shared=shared)
    problem = Problem(N_AGENTS, N_ARMS, HORIZON, family, NETWORK)
    algorithm, given, played, sent = EVERY[who], Given(), [], []
    state = algorithm.init(problem)
    for t in range(1, HORIZON + 1):
        given.t = t
        arms = algorithm.choose(state, t, given, contexts[t - 1][None])
        reward = np.take_along_axis(rewards[t - 1], arms[0][:, None], axis=-1)[None, :, 0]
        state = algorithm.learn(state, arms, reward, NETWORK.weights, contexts[t - 1][None])
        played.append(arms[0].tolist())
        sent.append(float(algorithm.numbers_sent(state, t, np.array([8]))[0]))
    expected, talked = lin_ucb.play(
        N_AGENTS, N_ARMS, HORIZON,
        lambda t, i: contexts[t - 1, i],
        lambda t, i, arm: rewards[t - 1, i, arm],
        lambda t, i: uniforms[t - 1, i],
        width=1.3 * 0.5, ridge=0.7, shared=shared, who=who,
    )  # fmt: skip
    assert played == expected
    assert len({arm for arms in played for arm in arms}) == N_ARMS
    numbers = {"own": 0, "all": (2 + D) * N_AGENTS * (N_AGENTS - 1)}
    a_talk = 2 * (D + D * (D + 1) // 2) * (1 if shared else N_ARMS)
    assert sent == [numbers.get(who, a_talk * talks) for talks in talked]
    if who not in numbers:
        assert 0 < sum(talked) < HORIZON * N_AGENTS / 2


def test_a_threshold_of_0_is_all_data_and_a_large_one_is_own():
    options = {"horizon": 30, "runs": 3, "keep": ("messages",)}
    results = {
        name: posse.simulate(BANDIT, NETWORK, algorithm, **options)
        for name, algorithm in {
            "all": posse.LinUCB("all"),
            "eager": posse.FedLinUCB(0.0),
            "own": posse.LinUCB(),
            "silent": posse.FedLinUCB(1e300),
            "between": posse.FedLinUCB(),
        }.items()
    }
    np.testing.assert_array_equal(results["eager"].pulls, results["all"].pulls)
    np.testing.assert_array_equal(results["silent"].pulls, results["own"].pulls)
    sent = {name: result.numbers_sent[:, -1].mean() for name, result in results.items()}
    assert sent["silent"] == sent["own"] == 0 < sent["between"] < sent["eager"]


@pytest.mark.parametrize("name", CONTEXTUAL)
def test_runs_are_the_same_in_whatever_block_and_come_back_from_settings(name):
    algorithm = CONTEXTUAL[name]()
    many = posse.simulate(BANDIT, NETWORK, algorithm, horizon=25, runs=30, threads=2)
    few = posse.simulate(BANDIT, NETWORK, algorithm, horizon=25, runs=range(20, 22))
    np.testing.assert_array_equal(few.regret, many.regret[20:22])
    again = posse.experiment_of(few)
    assert again.algorithms["algorithm"] == algorithm
    np.testing.assert_array_equal(again.run().regret, few.regret)
    assert many.regret[:, -1].mean() < 0.6 * uniform_regret()


def uniform_regret():
    """What playing at random costs in 25 rounds, about: half of what a policy without data does."""
    algorithm = posse.Isolated(posse.ThompsonSampling(), family=posse.families.Gaussian(1e6))
    result = posse.simulate(BANDIT, NETWORK, algorithm, horizon=25, runs=30)
    return result.regret[:, -1].mean()


@pytest.mark.parametrize("name", CONTEXTUAL)
def test_help_says_what_every_argument_is(name):
    import inspect

    for argument in inspect.signature(CONTEXTUAL[name]).parameters:
        assert re.search(rf"^ *{argument}: ", CONTEXTUAL[name].__doc__, re.MULTILINE), argument


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: posse.LinUCB("some"), "data 'some' is unknown: allowed are own, all"),
        (lambda: posse.LinUCB(exploration=-1), "exploration must be a finite number at least 0"),
        (lambda: posse.LinUCB(regularization=0), "regularization must be a finite number above 0"),
        (lambda: posse.FedLinUCB(-1), "threshold must be a finite number at least 0"),
        (lambda: posse.FedLinUCB(sigma=0), "sigma must be a finite number above 0"),
        (
            lambda: posse.simulate(
                posse.Bandit.gaussian([1, 2]), NETWORK, posse.FedLinUCB(), horizon=2, runs=1
            ),
            "algorithm is FedLinUCB, which needs contexts: give a posse.ContextualBandit",
        ),
        (
            lambda: posse.simulate(
                BANDIT, NETWORK, posse.LinUCB(), horizon=2, runs=1, keep=("beliefs",)
            ),
            "keep: algorithm is LinUCB, which has no beliefs",
        ),
    ],
)
def test_mistakes_are_refused_with_a_sentence(call, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}"):
        call()


def test_the_noise_of_clicks_is_that_of_a_coin():
    family = Logistic(rate=0.1, features=2)
    state = posse.LinUCB().init(Problem(2, 2, 5, family, posse.networks.complete(2)))
    assert state.width == 0.5
