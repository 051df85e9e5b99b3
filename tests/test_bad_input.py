"""What people get wrong, or push too far: one sentence, at once, and never a wrong number."""

import numpy as np
import pytest

import posse
from posse import beliefs, networks
from posse.families import Bernoulli, Gaussian

BANDIT = posse.Bandit.gaussian([0.5, 0.1])
NETWORK = networks.cycle(4)
DEC_TS = posse.Decentralized(posse.ThompsonSampling())


class Scripted:
    """An algorithm that plays what it is told."""

    name = "scripted"

    def __init__(self, arms):
        self.arms = arms

    def init(self, problem):
        return None

    def choose(self, state, t, generator):
        return self.arms

    def learn(self, state, arms, rewards, weights):
        return state


class NotANumber:
    name = "nan"

    def scores(self, belief, family, t, horizon, generator):
        return np.full(belief.shape[1:], np.nan)


@pytest.mark.parametrize("engine", ["reference", "compiled"])
@pytest.mark.parametrize(
    "network",
    [networks.cycle(1), networks.cycle(1).gossip(), networks.cycle(1).failing(0.3)],
    ids=str,
)
def test_one_agent_alone_on_any_network(engine, network):
    result = posse.simulate(BANDIT, network, DEC_TS, horizon=5, runs=2, engine=engine)
    assert (result.pulls.sum(axis=2) == 5).all()


@pytest.mark.parametrize("p", [0.3, 0.7])
def test_links_fail_alike_in_both_engines_where_agents_give_themselves_nothing(p):
    """A zero diagonal has no place of its own in W; the two means within 4 standard errors."""
    network = networks.from_matrix((np.ones((3, 3)) - np.eye(3)) / 2).failing(p)
    bandit = posse.Bandit.gaussian([0.5, 0.1, 0.1])
    one, other = (
        posse.simulate(
            bandit, network, DEC_TS, horizon=200, runs=300, seed=5, record=1, engine=engine
        ).regret[:, -1]
        for engine in ("reference", "compiled")
    )
    error = np.sqrt((one.var(ddof=1) + other.var(ddof=1)) / 300)
    assert abs(one.mean() - other.mean()) < 4 * error


@pytest.mark.parametrize("engine", ["reference", "compiled"])
def test_poisson_rewards_of_large_means(engine):
    bandit = posse.Bandit.poisson([1e17, 0.9e17])
    result = posse.simulate(bandit, NETWORK, DEC_TS, horizon=20, runs=2, engine=engine)
    assert np.isfinite(result.regret).all()


def test_means_whose_squares_overflow_are_refused():
    with pytest.raises(ValueError, match="poisson means must be numbers in"):
        posse.Bandit.poisson([1e100, 1.0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"horizon": 10**12, "record": 10}, "horizon must be a whole number"),
        ({"horizon": 10**30, "record": 10}, "horizon must be a whole number"),
        ({"horizon": 5, "runs": 10**30}, "runs must end at"),
        ({"horizon": 2**31 - 1, "runs": 100}, "record="),
    ],
)
def test_what_no_memory_could_hold_is_refused_at_once(options, message):
    with pytest.raises(ValueError, match=message):
        posse.simulate(BANDIT, NETWORK, DEC_TS, **{"runs": 1, **options})


@pytest.mark.parametrize(
    "make",
    [
        lambda: networks.complete(10**12),
        lambda: networks.cycle(10**12),
        lambda: networks.grid(10**6, 10**6),
        lambda: networks.hypercube(30),
    ],
)
def test_networks_that_would_not_fit_are_refused_at_once(make):
    with pytest.raises(ValueError, match="at most"):
        make()


@pytest.mark.parametrize("sigma", [1e300, 1e-300])
def test_scales_whose_squares_overflow_are_refused(sigma):
    with pytest.raises(ValueError, match="sigma must be a finite number"):
        Gaussian(sigma=sigma)
    with pytest.raises(ValueError, match="prior_sd must be a finite number"):
        Gaussian(prior_sd=sigma)
    with pytest.raises(ValueError, match="gaussian means must be numbers in"):
        posse.Bandit.gaussian([1e308, -1e308])


def test_a_policy_whose_scores_are_not_numbers_is_refused():
    with pytest.raises(ValueError, match="not a number"):
        posse.simulate(BANDIT, NETWORK, posse.Isolated(NotANumber()), horizon=2, runs=1)


@pytest.mark.parametrize(
    "arms", [np.full((2, 4), -1), np.full((2, 4), 2), np.zeros((2, 4)), None, np.zeros((4, 2), int)]
)
def test_an_algorithm_whose_arms_do_not_exist_is_refused(arms):
    with pytest.raises(ValueError, match="algorithm Scripted must choose whole numbers"):
        posse.simulate(BANDIT, NETWORK, Scripted(arms), horizon=2, runs=2)


def test_an_arm_that_does_not_exist_is_named_with_its_agent_and_run():
    arms = np.zeros((2, 4), int)
    arms[1, 2] = -1
    with pytest.raises(ValueError, match="got -1 for agent 2 in run 1") as refused:
        posse.simulate(BANDIT, NETWORK, Scripted(arms), horizon=2, runs=2)
    assert refused.value.__notes__ == ["(in round 1, runs 0 to 1 side by side, Scripted)"]


@pytest.mark.parametrize(
    ("arms", "rewards", "message"),
    [
        ([0, 1, -1], [1.0, 0.0, 1.0], "arms must be whole numbers from 0 to 1"),
        ([0, 1, 5], [1.0, 0.0, 1.0], "arms must be whole numbers from 0 to 1"),
        ([0.0, 1.0, 1.0], [1.0, 0.0, 1.0], "arms must be whole numbers"),
        ([0, 1, 1], [1.0, 7.0, 1.0], r"rewards must be finite numbers in \[0, 1\]"),
        ([0, 1, 1], [1.0, np.nan, 1.0], "rewards must be finite numbers"),
        ([0, 1], [1.0, 0.0], "must have the shape"),
    ],
)
def test_an_observation_that_would_spoil_a_belief_is_refused(arms, rewards, message):
    belief = beliefs.prior(Bernoulli(), 3, 2)
    with pytest.raises(ValueError, match=message):
        beliefs.observe(belief, np.array(arms), np.array(rewards), Bernoulli(), 1.0)


def test_a_summary_is_of_one_agent():
    with pytest.raises(ValueError, match="belief must be that of one agent"):
        posse.summarise(Bernoulli(), beliefs.prior(Bernoulli(), 3, 2))


def test_a_function_of_means_that_fails_is_named():
    with pytest.raises(ValueError, match="failed when it drew means"):
        posse.Bandit.gaussian(lambda: 3)
    bandit = posse.Bandit.gaussian(lambda g: g.random(2 + int(g.integers(0, 2))))
    with pytest.raises(ValueError, match="every run must have"):
        posse.simulate(bandit, NETWORK, DEC_TS, horizon=2, runs=30)


@pytest.mark.parametrize("name", ["\n", 3])
def test_names_are_checked_before_the_work(name):
    with pytest.raises(ValueError, match="printable text"):
        posse.compare(BANDIT, NETWORK, {name: DEC_TS}, horizon=10**6, runs=1000)


def test_dollar_signs_are_no_formulas(tmp_path):
    result = posse.simulate(BANDIT, NETWORK, DEC_TS, horizon=5, runs=2)
    axes = posse.Comparison({r"a$\frac{$": result}).plot(title=r"b$\frac{$")
    axes.figure.savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 0
