"""Parts of the user's that fail do so before the first round of any algorithm, in a sentence."""

import numpy as np
import pytest

import posse
from posse import networks
from posse.families import Gaussian, Interval

BANDIT = posse.Bandit.bernoulli([0.7, 0.4])
NETWORK = networks.path(3)
SIZE = {"horizon": 5, "runs": 3, "seed": 3, "threads": 1}
pytestmark = pytest.mark.filterwarnings("ignore:.*not rerun")


class Counting:
    """Plays arm 0 and counts how many rounds it played beyond those that are tried out."""

    def __init__(self):
        self.rounds = []

    def init(self, problem):
        return problem

    def choose(self, state, t, generator):
        self.rounds.append(t)
        return np.zeros((state.n_runs, state.n_agents), dtype=int)

    def learn(self, state, arms, rewards, weights):
        return state

    def numbers_sent(self, state, t, links):
        return links


class NoTime(Counting):
    def choose(self, state):
        return 0


class Forgetful(Counting):
    def choose(self, state, t, generator):
        return super().choose(state[0], t, generator)

    def init(self, problem):
        return [problem]

    def learn(self, state, arms, rewards, weights):
        state.append(rewards)


class OneNumber(Counting):
    def numbers_sent(self, state, t, links):
        return 1.0


class Flat:
    def scores(self, belief, family, t, horizon, generator):
        return np.zeros(2)


class Optimist:
    def scores(self, belief, family, t, horizon, generator):
        return family.sample_mean(belief, generator) + 1 / t


def compare(algorithm=None, bandit=BANDIT, network=NETWORK, **options):
    """How far the algorithm before this one was played, and what was said."""
    first = Counting()
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        posse.compare(
            bandit, network, {"first": first, "x": algorithm or Counting()}, **SIZE, **options
        )
    return max(first.rounds, default=0), str(refused.value)


@pytest.mark.parametrize(
    ("algorithm", "sentence"),
    [
        (NoTime(), "algorithm 'x' failed in its first 2 rounds: TypeError: NoTime.choose() takes"),
        (Forgetful(), "algorithm 'x' failed in its first 2 rounds: TypeError: 'NoneType'"),
        (posse.Isolated(Flat()), "algorithm 'x' failed in its first 2 rounds: IndexError"),
    ],
)
def test_algorithms(algorithm, sentence):
    played, said = compare(algorithm)
    assert sentence in said
    assert played <= 2


def test_what_is_to_be_kept():
    played, said = compare(OneNumber(), keep=("messages",))
    assert "OneNumber.numbers_sent must give 2 numbers" in said
    assert played <= 2
    played, said = compare(keep=("beliefs",))
    assert "beliefs need a state with .belief" in said
    assert played <= 2


def law(draw):
    class Law:
        name, means, rewards = "law", Interval(0, 1), Interval(0, 1, closed=True)

        def draw_rewards(self, means, generator):
            return draw(means, generator)

    return Law()


@pytest.mark.parametrize(
    ("draw", "sentence"),
    [
        (lambda means, generator: 1.0, "'law' must draw a reward for each mean, in shape (2, 3)"),
        (lambda means, generator: means[:, :1], "got (2, 1)"),
        (lambda means, generator: means * np.nan, "must draw finite rewards in [0, 1], got nan"),
        (lambda means, generator: means + 5, "must draw finite rewards in [0, 1], got 5."),
        (lambda means, generator: generator.standard_t(3), "AttributeError"),
    ],
)
def test_laws_of_rewards(draw, sentence):
    _, said = compare(bandit=posse.Bandit(law(draw), [0.3, 0.6]))
    assert sentence in said


def test_rewards_are_looked_at_in_every_round():
    drawn = []

    def late(means, generator):
        drawn.append(1)
        return means * (np.nan if len(drawn) > 8 else 1)

    _, said = compare(bandit=posse.Bandit(law(late), [0.3, 0.6]))
    assert "must draw finite rewards" in said


def test_true_and_false_are_rewards():
    coins = law(lambda means, generator: generator.random(means.shape) < means)
    agents = posse.Decentralized(posse.ThompsonSampling(), family=Gaussian())
    assert posse.simulate(posse.Bandit(coins, [0.3, 0.6]), NETWORK, agents, **SIZE).runs == 3


class Standing:
    def sampler(self, network):
        return lambda randomness: np.eye(3)


def test_dynamics():
    played, said = compare(network=NETWORK.varying(Standing()))
    assert "TypeError: Standing.sampler() takes 2" in said
    assert played == 0


def test_means_must_come_from_the_generator_alone():
    own = np.random.default_rng(0)
    _, said = compare(bandit=posse.Bandit.bernoulli(lambda generator: own.random(2)))
    assert "must draw from the generator it is given and nothing else" in said


def test_nothing_is_used_up():
    mine = posse.Isolated(Optimist())
    alone = posse.simulate(BANDIT, NETWORK, mine, **SIZE)
    beside = posse.compare(BANDIT, NETWORK, {"first": Counting(), "mine": mine}, **SIZE)
    assert (beside["mine"].pulls == alone.pulls).all()


def test_pulls_are_those_charged_whatever_learn_does_to_its_arguments():
    class Overwriting(Counting):
        def learn(self, state, arms, rewards, weights):
            arms[:] = 1
            return state

    kept = posse.simulate(BANDIT, NETWORK, Counting(), **SIZE)
    given = posse.simulate(BANDIT, NETWORK, Overwriting(), **SIZE)
    assert (given.pulls == kept.pulls).all()
    assert (given.regret == kept.regret).all()


def test_one_alone_is_told_in_a_sentence_too():
    with pytest.raises(ValueError, match="algorithm 'x' failed in its first 2 rounds"):
        posse.compare(BANDIT, NETWORK, {"x": NoTime()}, **SIZE)
