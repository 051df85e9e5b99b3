"""Random small problems, as odd as the front door admits: neither engine breaks, and they agree.

The comparison in law errs with probability 1e-3 in all if all is well.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

import posse
from posse import networks
from posse.families import Bernoulli, Bounded, Exponential, Gaussian, Poisson, get_optional
from posse.lab.compiled.registry import POSTERIOR_KERNELS, REWARD_KERNELS

ENGINES = ("reference", "compiled")
FAMILIES = ("gaussian", "bernoulli", "bounded", "poisson", "exponential")
OTHERS = {
    cls.name: cls for cls in POSTERIOR_KERNELS if cls in REWARD_KERNELS and cls.name not in FAMILIES
}


def power_of_ten(low, high):
    return st.floats(low, high).map(lambda exponent: 10.0**exponent)


@st.composite
def bandits(draw, extreme=True):
    """K arms of any compiled family; means and priors from the sensible to the absurd."""
    n_arms = draw(st.integers(2, 8))
    name = draw(st.sampled_from((*FAMILIES, *OTHERS)))
    shape = power_of_ten(-3, 4) if extreme else power_of_ten(-0.5, 1)
    if name in OTHERS:  # nothing is known of its fields: its own prior, and arms of any level
        level = st.floats(1e-3, 0.999) if extreme else st.floats(0.1, 0.9)
        levels = draw(st.lists(level, min_size=n_arms, max_size=n_arms))
        family = OTHERS[name]()
        return posse.Bandit(family, family.mean_quantile(family.prior()[:, None], levels))
    if name == "gaussian":
        sigma, prior_sd = draw(power_of_ten(-3, 3)), draw(power_of_ten(-3, 3))
        scale = draw(power_of_ten(-3, 3)) if extreme else sigma
        offset = draw(st.floats(-1e6, 1e6)) if extreme else 0.0
        means = draw(st.lists(st.floats(-3, 3), min_size=n_arms, max_size=n_arms))
        prior_mean = draw(st.floats(-1e6, 1e6)) if extreme else 0.0
        family = Gaussian(sigma, prior_mean, prior_sd if extreme else sigma)
        return posse.Bandit(family, [offset + scale * mean for mean in means])
    if name in ("bernoulli", "bounded"):
        ends = st.sampled_from([1e-9, 0.5, 1 - 1e-9])
        inside = st.floats(0.001, 0.999)
        means = draw(st.lists(st.one_of(inside, ends) if extreme else inside,
                              min_size=n_arms, max_size=n_arms))  # fmt: skip
        alpha, beta = draw(shape), draw(shape)
        if name == "bernoulli":
            return posse.Bandit(Bernoulli(alpha, beta), means)
        concentration = draw(power_of_ten(-2, 4) if extreme else power_of_ten(0, 1))
        return posse.Bandit(Bounded(alpha, beta, concentration), means)
    size = power_of_ten(-6, 6) if extreme else power_of_ten(-0.5, 0.5)
    means = draw(st.lists(size, min_size=n_arms, max_size=n_arms))
    rate = draw(power_of_ten(-4, 4) if extreme else power_of_ten(-0.5, 0.5))
    if name == "poisson":
        return posse.Bandit(Poisson(draw(shape), rate), means)
    return posse.Bandit(Exponential(1 + draw(shape), rate), means)


@st.composite
def problems(draw, extreme=True):
    """A bandit, a network of 1 to 12 agents with any dynamics, and an algorithm."""
    bandit = draw(bandits(extreme))
    n_agents = draw(st.integers(1, 12))
    graphs = [networks.complete, networks.cycle, networks.path]
    graphs += [networks.star] if n_agents > 1 else []
    network = draw(st.sampled_from(graphs))(n_agents)
    dynamics = draw(st.sampled_from(["static", "lazy", "gossip", "failing", "realised"]))
    p = draw(st.floats(0, 0.99))
    network = {
        "static": lambda: network,
        "lazy": lambda: network.weighted("lazy"),
        "gossip": network.gossip,
        "failing": lambda: network.failing(p),
        "realised": lambda: network.failing(p, normalise="realised"),
    }[dynamics]()
    site_sds = power_of_ten(-3, 3)
    log_powers = st.sampled_from([0.0, 0.0, 1.0, 5.0, 30.0, 100.0])
    policies = [posse.ThompsonSampling(), posse.Greedy(), posse.BayesUCB(draw(log_powers))]
    policies += [posse.RandUCB()]
    policy = draw(st.sampled_from(policies))
    kind = draw(
        st.sampled_from(
            ["decentralized"] * 4 + ["isolated", "centralized", "tree", "push-sum", "partial"]
        )
    )
    if kind == "isolated":
        return bandit, network, posse.Isolated(policy)
    if kind == "centralized":
        return bandit, network, posse.Centralized(policy)
    if kind == "tree" and dynamics != "gossip":
        return bandit, network, posse.Tree(policy)
    # partial pooling needs a family whose mean determines the variance of a reward
    if kind == "partial" and get_optional(bandit.family, "variance")(np.ones(1)) is not None:
        return bandit, network, posse.PartialPooling(policy, site_sd=draw(st.none() | site_sds))
    if kind == "push-sum":
        learning_rate = draw(st.sampled_from([None, "learnt", 2.0]))
        return bandit, network, posse.PushSum(policy, learning_rate=learning_rate)
    rate = draw(st.none() | (power_of_ten(-3, 4) if extreme else power_of_ten(0, 1)))
    return bandit, network, posse.Decentralized(policy, learning_rate=rate)


def assert_sound(result, bandit, horizon):
    """No NaN, no negative or shrinking regret, as many pulls as rounds, regret that fits them."""
    means = np.array(bandit.means)
    gaps = means.max() - means
    assert np.isfinite(result.regret).all()
    assert (result.regret[:, 0] >= 0).all()
    rounding = 1e-12 * np.abs(means).max() * horizon
    assert (np.diff(result.regret, axis=1) >= -rounding).all()
    assert (result.pulls >= 0).all()
    assert (result.pulls.sum(axis=2) == horizon).all()
    np.testing.assert_allclose(
        result.regret[:, -1], (result.pulls @ gaps).mean(axis=1), rtol=1e-9, atol=rounding
    )


@pytest.mark.parametrize("n_problems", [100, pytest.param(400, marks=pytest.mark.long)])
@pytest.mark.parametrize("engine", ENGINES)
def test_no_problem_breaks_an_engine(engine, n_problems):
    @settings(
        max_examples=n_problems, deadline=None, derandomize=True, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(problem=problems(), horizon=st.integers(1, 30), seed=st.integers(0, 2**70))
    def play(problem, horizon, seed):
        bandit, network, algorithm = problem
        result = posse.simulate(
            bandit, network, algorithm, horizon=horizon, runs=2, seed=seed, engine=engine, threads=1
        )
        assert result.engine == engine
        assert_sound(result, bandit, horizon)

    play()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("bandit", "network", "algorithm"),
    [
        # what broke the compiled engine once
        (
            posse.Bandit(Gaussian(1e-3, 0.0, 1e3), [0.0, 1e-3, 2e-3]),
            networks.complete(6).failing(0.4),
            posse.Decentralized(posse.ThompsonSampling(), learning_rate=1e4),
        ),
        (
            posse.Bandit(Bernoulli(1e-9, 1e-9), [0.3, 0.5]),
            networks.cycle(5),
            posse.Decentralized(posse.ThompsonSampling(), learning_rate=1e4),
        ),
        (
            posse.Bandit(Poisson(), [1e12, 1e15, 1e18]),
            networks.cycle(3),
            posse.Decentralized(posse.BayesUCB()),
        ),
        (
            posse.Bandit(Bounded(concentration=1e-3), [0.3, 0.5]),
            networks.complete(1).gossip(),
            posse.Decentralized(posse.BayesUCB(100.0)),
        ),
    ],
)
def test_no_corner_breaks_an_engine(engine, bandit, network, algorithm):
    result = posse.simulate(
        bandit, network, algorithm, horizon=40, runs=20, seed=0, engine=engine, threads=1
    )
    assert_sound(result, bandit, 40)


N_PROBLEMS, RUNS, HORIZON = 80, 300, 20


def fixed_problems(extreme):
    """The same problems in every run of the tests."""
    kept = []

    @settings(
        max_examples=N_PROBLEMS // 2, deadline=None, derandomize=True, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(problem=problems(extreme))
    def collect(problem):
        kept.append(problem)

    collect()
    return kept


@pytest.mark.long
@pytest.mark.parametrize(
    "extreme", [False, pytest.param(True, marks=pytest.mark.long)], ids=["sensible", "extreme"]
)
def test_engines_agree_in_law(extreme):
    """Regret and pulls of the best arms, problem by problem, by the test of Kolmogorov and Smirnov:
    where outcomes repeat it errs on the safe side, so the error rate is at most 1e-3 in all."""
    wrong = {}
    for number, (bandit, network, algorithm) in enumerate(fixed_problems(extreme)):
        means = np.array(bandit.means)
        outcomes = []
        for i, engine in enumerate(ENGINES):
            result = posse.simulate(
                bandit, network, algorithm,
                horizon=HORIZON, runs=RUNS, record=1, seed=2 * number + i, engine=engine, threads=1,
            )  # fmt: skip
            on_best = result.pulls[:, :, means == means.max()].sum(axis=(1, 2))
            # the engines add up in different orders: what differs by rounding is the same
            regret = np.round(result.regret[:, -1] / max(np.ptp(means) * HORIZON, 1e-300), 9)
            outcomes.append((regret, on_best))
        for ours, theirs in zip(*outcomes, strict=True):
            p_value = stats.ks_2samp(ours, theirs, method="asymp").pvalue
            if p_value < 1e-3 / (2 * N_PROBLEMS):
                wrong[number] = (bandit, network, algorithm, p_value)
    assert wrong == {}
