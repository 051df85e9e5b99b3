"""The compiled engine against the reference, in law, on every compiled combination.

Regret at two horizons, by Wilcoxon's rank statistic, for each family, policy and kind of dynamics;
the other networks and algorithms with one family.  Together all statistics of this file err with
probability 1e-3 at most if all is well (Bonferroni over their number).
"""

import zlib

import numpy as np
import pytest
from scipy import stats

import posse
from posse import networks
from posse.bandits import RandomWalk
from posse.families import Bernoulli, Bounded, Exponential, Gaussian, Poisson
from posse.lab.compiled.registry import (
    BAYESIAN_ALGORITHMS,
    MERGE_KERNELS,
    POLICY_KERNELS,
    POSTERIOR_KERNELS,
    REWARD_KERNELS,
)
from tests.combinations import all_combinations

TS, UCB, GREEDY = posse.ThompsonSampling(), posse.BayesUCB(), posse.Greedy()
COMPILED = POSTERIOR_KERNELS.keys() & REWARD_KERNELS.keys()
CHOSEN = {
    "gaussian": posse.Bandit(Gaussian(sigma=0.8), [0.1, 0.7, 0.4, 0.3]),
    "bernoulli": posse.Bandit(Bernoulli(), [0.2, 0.7, 0.5, 0.3]),
    "bounded": posse.Bandit(Bounded(concentration=1.5), [0.2, 0.7, 0.5, 0.3]),
    "poisson": posse.Bandit(Poisson(), [0.5, 2.0, 1.5, 1.0]),
    "exponential": posse.Bandit(Exponential(), [0.5, 2.0, 1.5, 1.0]),
}
BANDITS = CHOSEN | {  # of any other family that has kernels, arms that its prior expects
    cls.name: posse.Bandit(cls(), cls().mean_quantile(cls().prior()[:, None], [0.2, 0.8, 0.6, 0.4]))
    for cls in sorted(COMPILED, key=str)
    if cls not in {type(bandit.family) for bandit in CHOSEN.values()}
}
ALL_POLICIES = {
    "thompson": TS,
    "bayes-ucb": UCB,
    "greedy": GREEDY,
    "rand-ucb": posse.RandUCB(0.3, 2.0),
    "uniform": posse.Uniform(),
    "top-two": posse.TopTwo(0.4),
}
DYNAMICS = {
    "static": (networks.cycle(6), posse.Decentralized),
    "gossip": (networks.cycle(6).gossip(), posse.Decentralized),
    "failing": (networks.complete(6).failing(0.3), posse.Decentralized),
}
OTHERS = {  # with the family whose reference is fastest
    "sparse and larger": (networks.star(8).weighted("metropolis"), posse.Decentralized),
    "complete": (networks.complete(6), posse.Decentralized),
    "failing often": (networks.cycle(6).failing(0.7), posse.Decentralized),
    "realised": (networks.star(6).failing(0.3, normalise="realised"), posse.Decentralized),
    "isolated": (networks.cycle(6), posse.Isolated),
    "centralized": (networks.cycle(6), posse.Centralized),
    "flooding": (networks.path(5), posse.Flooding),
    "tree": (networks.grid(2, 3), posse.Tree),
    "failing tree": (networks.grid(2, 3).failing(0.5), posse.Tree),
    "push-sum": (networks.star(6), posse.PushSum),
    "partial pooling": (networks.cycle(6), posse.PartialPooling),
    "directed": (networks.random_directed(6, 2, seed=1), posse.PushSum),
    "directed gossip": (networks.random_directed(6, 2, seed=1).gossip(), posse.PushSum),
    "failing push-sum": (networks.star(6).failing(0.5), posse.PushSum),
}
MISSPECIFIED = {
    "bernoulli rewards, gaussian belief": (BANDITS["bernoulli"], Gaussian(0.5, 0.5, 0.5)),
    "bounded rewards, bernoulli belief": (BANDITS["bounded"], Bernoulli(0.4, 0.6)),
    "poisson rewards, gaussian belief": (BANDITS["poisson"], Gaussian(1.5, 1.0, 2.0)),
    "poisson rewards, exponential belief": (BANDITS["poisson"], Exponential(1.5, 1.0)),
    "exponential rewards, poisson belief": (BANDITS["exponential"], Poisson(0.3, 0.3)),
}
# RandUCB meets every kind of dynamics with some family, and every family, not both at once: its
# reference takes long, and merges do not know who chooses.
SETTINGS = {
    (bandit, policy): list(DYNAMICS) if policy != "rand-ucb" else [list(DYNAMICS)[number % 3]]
    for number, bandit in enumerate(BANDITS)
    for policy in ALL_POLICIES
}
# Worlds beyond the paper's; what beliefs become there is replayed exactly in test_worlds.
BERNOULLI, SEVERAL = BANDITS["bernoulli"], posse.Bandit.gaussian([0.1, 0.9, 0.4, 0.3], site_sd=0.3)
WORLDS = {
    "half-life": (BERNOULLI, "static", {"half_life": 10}),
    "half-life, failing": (BANDITS["gaussian"], "failing", {"half_life": 10}),
    "rotation, half-life": (BERNOULLI.drifting(every=20), "failing", {"half_life": 10}),
    "walk of sites": (SEVERAL.drifting(RandomWalk(0.3, 30.0)), "gossip", {}),
    "delays, wait": (BANDITS["gaussian"].delayed(mean=8, never=0.1), "static", {}),
    "delays, count": (BERNOULLI.delayed(mean=8, never=0.1), "gossip", {"open": "count"}),
    "delays, count, half-life": (
        BERNOULLI.delayed(mean=8), "push-sum", {"open": "count", "half_life": 20}
    ),
}  # fmt: skip
TIMES = np.array([20, 80])
RUNS = {"reference": 200, "compiled": 2_000}  # the reference is what takes time
N_STATISTICS = len(TIMES) * (
    sum(map(len, SETTINGS.values()))
    + len(ALL_POLICIES) * len(OTHERS)
    + len(MISSPECIFIED)
    + len(WORLDS)
)
LIMIT = stats.norm.isf(1e-3 / 2 / (N_STATISTICS + len(BANDITS) * len(ALL_POLICIES)))


def z_scores(bandit, network, algorithm, name, other=None, ours="compiled"):
    """Wilcoxon's rank statistic of the regret at each of TIMES; each engine has its own seed.

    Ranks, not means: a few runs of a hundred have most of the regret, and means of 200 runs so
    skewed are far from normal, by an amount that the rounding of another processor changes.
    other: the algorithm of the compiled engine if it is not the same one. ours: the engine that is
    compared with the reference.
    """
    seed = zlib.crc32(name.encode())
    regrets = [
        posse.simulate(
            bandit, network, other if other and engine == "compiled" else algorithm,
            horizon=int(TIMES[-1]), runs=runs, record=TIMES, seed=seed + runs,
            engine=ours if engine == "compiled" else engine, threads=1,
        ).regret
        for engine, runs in RUNS.items()
    ]  # fmt: skip
    first, second = RUNS.values()
    ranks = stats.rankdata(np.concatenate(regrets), axis=0)  # ties share theirs
    difference = ranks[:first].mean(axis=0) - ranks[first:].mean(axis=0)
    return difference / (ranks.std(axis=0) * np.sqrt(1 / first + 1 / second))


# In `make test`: every policy, and every kind of belief, with the families whose reference is fast.
QUICK = {
    ("gaussian", "thompson"),
    ("bernoulli", "rand-ucb"),
    ("poisson", "greedy"),
    ("exponential", "bayes-ucb"),
}


@pytest.mark.parametrize(
    ("bandit", "policy"),
    [pytest.param(*pair, marks=[] if pair in QUICK else pytest.mark.long) for pair in SETTINGS],
)
def test_regret(bandit, policy):
    scores = {}
    for setting in SETTINGS[bandit, policy]:
        network, algorithm = DYNAMICS[setting]
        name = f"{bandit} {policy} {setting}"
        scores[name] = z_scores(BANDITS[bandit], network, algorithm(ALL_POLICIES[policy]), name)
    assert {name: z for name, z in scores.items() if np.abs(z).max() > LIMIT} == {}
    # all settings of a combination leaning to one side would be a small but common error
    together = np.array(list(scores.values()))[:, -1].sum() / len(scores) ** 0.5
    assert abs(together) < LIMIT


@all_combinations(setting=list(OTHERS), policy=list(ALL_POLICIES))
def test_regret_on_other_networks(setting, policy):
    network, algorithm = OTHERS[setting]
    algorithm = algorithm(ALL_POLICIES[policy])
    z = z_scores(BANDITS["gaussian"], network, algorithm, f"{setting} {policy}")
    assert np.abs(z).max() < LIMIT


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[] if case.startswith("bernoulli") else pytest.mark.long)
        for case in MISSPECIFIED
    ],
)
def test_regret_with_a_wrong_model(case):
    bandit, model = MISSPECIFIED[case]
    algorithm = posse.Decentralized(TS, model, learning_rate=2.0)
    assert np.abs(z_scores(bandit, networks.cycle(6), algorithm, case)).max() < LIMIT


@pytest.mark.parametrize(
    "world",
    [
        pytest.param(world, marks=[] if world == "half-life" else pytest.mark.long)
        for world in WORLDS
    ],
)
def test_regret_in_other_worlds(world):
    bandit, setting, options = WORLDS[world]
    network, algorithm = (DYNAMICS | OTHERS)[setting]
    z = z_scores(bandit, network, algorithm(TS, **options), world, ours="auto")
    assert np.abs(z).max() < LIMIT


def test_every_compiled_part_is_here():
    assert {type(bandit.family) for bandit in BANDITS.values()} == COMPILED
    assert {type(policy) for policy in ALL_POLICIES.values()} == set(POLICY_KERNELS)
    assert {type(network.dynamics) for network, _ in DYNAMICS.values()} == set(MERGE_KERNELS)
    used = {type(make(TS)) for _, make in (DYNAMICS | OTHERS).values()}
    assert used == set(
        BAYESIAN_ALGORITHMS
    )  # what the others do is replayed exactly in test_baselines


@pytest.mark.parametrize(
    "bandit",
    [pytest.param(name, marks=[] if name == "bernoulli" else pytest.mark.long) for name in BANDITS],
)
def test_a_wrong_engine_would_be_found(bandit):
    """One that learns at half the rate: half the weight of every observation."""
    network = networks.cycle(6)
    right, wrong = posse.Decentralized(TS), posse.Decentralized(TS, learning_rate=3.0)
    assert np.abs(z_scores(BANDITS[bandit], network, right, bandit, wrong)).max() > LIMIT
