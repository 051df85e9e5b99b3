"""Delayed bandits: rewards arrive some rounds after their pull, in the engine and in files."""

import math

import numpy as np
import pytest

import posse
from posse import networks
from posse.algorithms import ALGORITHMS
from posse.bandits import GeometricDelay
from posse.bandits.delays import NEVER, draw_delays
from posse.lab.experiments import Experiment

TS = posse.ThompsonSampling()
KINDS = [posse.Decentralized, posse.Isolated, posse.Centralized, posse.Flooding]
BERNOULLI = posse.Bandit.bernoulli([0.5, 0.3, 0.1])
GAUSSIAN = posse.Bandit.gaussian([0.5, 0.3, 0.1])


def simulate(bandit, algorithm, **options):
    asked = {"horizon": 30, "runs": 5, "seed": 5, "engine": "reference", "keep": ("beliefs",)}
    return posse.simulate(bandit, networks.cycle(4), algorithm, **asked | options)


def three_rounds(generator, size):
    return np.full(size, 3)


def never_comes(generator, size):
    return np.full(size, -1)


def up_to_five(generator, size):
    return generator.integers(-1, 6, size)


# Delays -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mean", "never"), [(20.0, 0.0), (0.5, 0.3), (3.0, 0.1)])
def test_delays_are_geometric_with_the_share_that_never_comes(mean, never):
    """Fixed seed; each share of 100,000 within 4 standard errors, 6e-5 each."""
    rounds = GeometricDelay(mean, never)(np.random.default_rng(1), (1000, 100)).ravel()
    q = mean / (1 + mean)
    shares = {NEVER: never} | {d: (1 - never) * (1 - q) * q**d for d in (0, 1, 2, 10)}
    for value, share in shares.items():
        error = math.sqrt(share * (1 - share) / rounds.size)
        assert abs((rounds == value).mean() - share) <= 4 * error, value
    come = rounds[rounds != NEVER]
    assert abs(come.mean() - mean) <= 4 * math.sqrt(mean * (1 + mean) / come.size)


def test_whatever_is_negative_or_infinite_never_comes():
    given = np.array([[-3.0, np.inf, 0.0, 2.0, 1e300]])
    assert draw_delays(lambda g, size: given, None, (1, 5)).tolist() == [[-1, -1, 0, 2, 2**31]]


@pytest.mark.parametrize(
    "bad",
    [
        lambda generator, size: generator.random(size),
        lambda generator, size: np.full(size, np.nan),
        lambda generator, size: 3,
        lambda generator, size: "soon",
        lambda generator: 3,
        20,
        "geometric",
        GeometricDelay,
    ],
)
def test_what_gives_no_rounds_is_refused(bad):
    with pytest.raises(ValueError, match="delay"):
        BERNOULLI.delayed(bad)


@pytest.mark.parametrize(
    "given", [{}, {"delay": three_rounds, "mean": 3}, {"delay": three_rounds, "never": 0.1}]
)
def test_a_delay_is_given_once(given):
    with pytest.raises(ValueError, match=r"delay must be given, or mean: use delayed\(mean=20"):
        BERNOULLI.delayed(**given)


@pytest.mark.parametrize("bad", [{"mean": -1}, {"mean": 5, "never": 1.0}, {"mean": math.inf}])
def test_no_such_geometric_delay(bad):
    with pytest.raises(ValueError, match=r"(mean|never) must be"):
        BERNOULLI.delayed(**bad)


# The engine ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bandit", [BERNOULLI, GAUSSIAN])
def test_without_delay_all_is_as_ever(kind, bandit):
    """To the bit: nothing else draws from the stream of delays."""
    plain, at_once = (simulate(each, kind(TS)) for each in (bandit, bandit.delayed(mean=0)))
    np.testing.assert_array_equal(at_once.beliefs, plain.beliefs)
    np.testing.assert_array_equal(at_once.regret, plain.regret)
    np.testing.assert_array_equal(at_once.pulls, plain.pulls)


class Listener:
    """Plays arms in turn and writes down all that it hears."""

    def __init__(self):
        self.log = []

    def init(self, problem):
        return problem

    def choose(self, state, t, generator):
        return np.full((state.n_runs, state.n_agents), t % state.n_arms)

    def learn(self, state, arms, rewards, weights):
        self.log.append((arms, rewards))
        return state

    def learn_delayed(self, state, arms, heard, weights):
        self.log.append((arms, heard))
        return state


@pytest.mark.filterwarnings("ignore:.*can be saved but not rerun")
def test_every_reward_arrives_in_its_round():
    """The rewards of the undelayed bandit, each once, d rounds later, by a slow loop."""
    once, late = Listener(), Listener()
    simulate(BERNOULLI, once, keep=())
    simulate(BERNOULLI.delayed(up_to_five), late, keep=())
    streams = posse.randomness.Streams.for_runs(5, range(5), "delay")
    waits = [up_to_five(streams, (5, 4)) for _ in range(30)]
    due = {t: [] for t in range(1, 31)}
    for t, (arms, rewards) in enumerate(once.log, start=1):
        for run, agent in np.ndindex(5, 4):
            wait = int(waits[t - 1][run, agent])
            if wait >= 0 and t + wait <= 30:
                pull = (run, agent, int(arms[run, agent]), float(rewards[run, agent]), t)
                due[t + wait].append(pull)
    for t, (arms, heard) in enumerate(late.log, start=1):
        np.testing.assert_array_equal(arms, once.log[t - 1][0])
        assert heard.t == t
        columns = heard.run, heard.agent, heard.arm, heard.reward, heard.pull_round
        assert sorted(zip(*(x.tolist() for x in columns), strict=True)) == sorted(due[t])
        assert (heard.age == t - heard.pull_round).all()


def test_run_r_is_the_same_wherever_it_is_played():
    bandit, algorithm = BERNOULLI.delayed(mean=4, never=0.2), posse.Decentralized(TS)
    whole = simulate(bandit, algorithm)
    parts = [simulate(bandit, algorithm, runs=some) for some in (range(2), range(2, 5))]
    np.testing.assert_array_equal(posse.concat(parts).beliefs, whole.beliefs)


def test_nothing_that_is_open_at_the_end_is_ever_heard():
    never = simulate(BERNOULLI.delayed(never_comes), posse.Isolated(TS, open="count"))
    np.testing.assert_array_equal(never.beliefs[:, -1, 0], 1.0)  # no successes
    assert (never.beliefs[:, -1, 1].sum(axis=-1) == 3 + 30).all()  # and every pull a failure


# At the door --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [n for n, cls in ALGORITHMS.items() if not hasattr(cls, "learn_delayed")]
)
def test_other_algorithms_are_refused_before_the_first_round(name, example_of):
    algorithm = example_of(ALGORITHMS[name])
    with pytest.raises(ValueError, match=r"cannot learn from delayed rewards: "):
        simulate(BERNOULLI.delayed(mean=3), algorithm, keep=())


class Cautious(posse.Isolated):
    def learn(self, state, arms, rewards, weights):
        return super().learn(state, arms, 0.5 * rewards, weights)


class CautiousAlways(Cautious):
    def learn_delayed(self, state, arms, heard, weights):
        return state


@pytest.mark.filterwarnings("ignore:.*can be saved but not rerun")
def test_who_learns_in_another_way_must_hear_in_another_way():
    with pytest.raises(ValueError, match="which overrides learn: override learn_delayed"):
        simulate(BERNOULLI.delayed(mean=3), Cautious(TS))
    simulate(BERNOULLI, Cautious(TS))
    simulate(BERNOULLI.delayed(mean=3), CautiousAlways(TS))


def test_rewards_without_a_lowest_wait():
    late = GAUSSIAN.delayed(mean=3)
    with pytest.raises(ValueError, match=r"open='count' .*'gaussian' lie in .*use open='wait'"):
        simulate(late, posse.Isolated(TS, open="count"))
    simulate(late, posse.Isolated(TS))  # which waits
    counts, default, waits = (
        simulate(BERNOULLI.delayed(mean=3), posse.Isolated(TS, open=mode)).beliefs
        for mode in ("count", None, "wait")
    )
    np.testing.assert_array_equal(waits, default)
    assert not np.array_equal(counts, waits)
    # without a delay nothing is open
    simulate(GAUSSIAN, posse.Isolated(TS, open="count"))


def test_what_is_not_known_of_late_rewards_is_not_kept():
    late = BERNOULLI.delayed(mean=3)
    with pytest.raises(ValueError, match="signs are not kept of a delayed bandit"):
        simulate(late, posse.Decentralized(TS), keep=("signs",))
    with pytest.raises(ValueError, match="messages of algorithm are not counted for a delayed"):
        simulate(late, posse.Flooding(TS), keep=("messages",))
    assert simulate(late, posse.Decentralized(TS), keep=("messages",)).numbers_sent.size


def test_the_compiled_engine_says_what_it_lacks():
    late = BERNOULLI.delayed(mean=3)
    assert simulate(late, posse.Isolated(TS), engine="auto").engine == "compiled"
    assert simulate(late, posse.Tree(TS), engine="auto").engine == "compiled"
    assert simulate(late, posse.Flooding(TS), engine="auto").engine == "compiled"
    with pytest.raises(ValueError, match="no kernel for algorithm EventTriggered"):
        simulate(late, posse.EventTriggered(TS), engine="compiled")


# Files --------------------------------------------------------------------------------------


def test_a_delay_comes_back_from_toml(tmp_path):
    path = tmp_path / "late.toml"
    experiment = Experiment(
        BERNOULLI.delayed(mean=20, never=0.1),
        networks.cycle(4),
        {"dec": posse.Decentralized(TS, open="wait"), "alone": posse.Isolated(TS)},
        horizon=5,
        runs=2,
    )
    posse.write_experiment(experiment, path)
    text = path.read_text()
    assert 'delay = {name = "geometric", mean = 20.0, never = 0.1}' in text
    assert 'open = "wait"' in text
    assert posse.read_experiment(path) == experiment
    path.write_text(text.replace(", never = 0.1", "").replace("20.0", "20"))
    assert posse.read_experiment(path).bandit == BERNOULLI.delayed(mean=20)
    for wrong, what in {"mean = -1": "bandit.delay.mean", "men = 2": "bandit.delay"}.items():
        path.write_text(text.replace("mean = 20.0", wrong))
        with pytest.raises(ValueError, match=what):
            posse.read_experiment(path)


def test_a_result_knows_its_delay(tmp_path):
    result = simulate(BERNOULLI.delayed(mean=3), posse.Isolated(TS))
    result.save(tmp_path / "late.nc")
    again = posse.experiment_of(posse.load(tmp_path / "late.nc"))
    assert again.bandit == BERNOULLI.delayed(mean=3)
    np.testing.assert_array_equal(again.run().beliefs, result.beliefs)


def test_a_function_of_a_module_is_named_and_a_lambda_shown(tmp_path):
    (tmp_path / "slow_post.py").write_text("def week(generator, size):\n    return 7 * [[7]]\n")
    text = """
        horizon = 5
        [bandit]
        family = "bernoulli"
        means = [0.5, 0.3]
        delay = "slow_post:week"
        [network]
        graph = "cycle"
        agents = 4
        [algorithms.alone]
        name = "isolated"
        policy = "thompson"
    """
    (tmp_path / "named.toml").write_text(text)
    with pytest.raises(ValueError, match=r"delay.* must give whole rounds in shape"):
        posse.read_experiment(tmp_path / "named.toml")
    (tmp_path / "named.toml").write_text(text.replace("slow_post:week", "numpy:multiply"))
    with pytest.raises(ValueError, match=r"delay"):
        posse.read_experiment(tmp_path / "named.toml")
    with pytest.warns(UserWarning, match="can be saved but not rerun"):
        simulate(BERNOULLI.delayed(lambda g, size: np.zeros(size)), posse.Isolated(TS))
    simulate(BERNOULLI.delayed(three_rounds), posse.Isolated(TS))  # has a name
