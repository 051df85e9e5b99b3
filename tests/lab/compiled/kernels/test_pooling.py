"""The kernel of partial pooling against `posse.sites.Sites`, the plain formula in NumPy."""

import numpy as np
import pytest

import posse
from posse import networks
from posse.families import (
    Bernoulli,
    Bounded,
    Exponential,
    Gaussian,
    Poisson,
    from_count_and_total,
    get_optional,
    to_count_and_total,
)
from posse.lab.compiled.jit import KERNELS
from posse.lab.compiled.network_arrays import build_network_arrays
from posse.lab.compiled.philox import U64
from posse.lab.compiled.registry import missing_kernel, plan_kernels
from posse.lab.simulation import Simulation
from posse.sites import Sites

FAMILIES = [
    Gaussian(sigma=1.7, prior_mean=0.4, prior_sd=0.6),
    Gaussian(sigma=1e-3, prior_mean=0.0, prior_sd=1e3),  # tau^2 / V up to 1e12
    Bernoulli(1, 19),
    Bounded(2, 3),
    Poisson(1.5, 0.5),
    Exponential(3, 2),
]
TS = posse.ThompsonSampling()


def plan_pooling(family, n_sites, n_arms, **options):
    bandit = posse.Bandit(family, np.linspace(0.2, 0.6, n_arms))
    algorithm = posse.PartialPooling(TS, **options)
    network = networks.complete(n_sites)
    return Simulation(bandit, network, algorithm, 50, 1, np.array([50]))


def call_kernel(simulation, store, arms, rewards, t):
    """Call the kernel for all runs in the store; returns the rows of the state (R, N, 2, K)."""
    n_sites = simulation.network.n_agents
    n_arms = simulation.bandit.n_arms
    plan = plan_kernels(simulation)
    arrays = build_network_arrays(simulation.network, plan)
    state = np.zeros(arms.size * 2 * n_arms)
    KERNELS[plan.merge](
        np.zeros(0), state, arrays.offsets, arrays.neighbours, arrays.weights, arrays.links,
        arrays.constants, np.zeros(8, np.uint64), arms, rewards, store,
        U64(0), U64(arms.size), U64(n_sites), U64(n_arms), U64(0), U64(t), U64(1), U64(2),
    )  # fmt: skip
    return state.reshape(-1, n_sites, 2, n_arms)


def draw_rounds(generator, n_runs, n_sites, n_arms, apart):
    """Pulls and sums of rewards before the last round (R, N, 2, K), and the last round's."""
    size = (n_runs, n_sites, n_arms)
    # many arms without a pull, few pulls and many
    pulls = np.floor(10.0 ** generator.uniform(-0.7, 4, size))
    pulls[:, :, -1] = 0.0
    means = 0.4 * np.exp(apart * generator.standard_normal(size))
    totals = pulls * np.minimum(means, 0.9) * generator.uniform(0.9, 1.1, size)
    arms = generator.integers(0, n_arms - 1, (n_runs, n_sites))
    return np.stack([pulls, totals], axis=2), arms, generator.uniform(0.1, 0.9, arms.shape)


def fill_store(evidence, next_refresh=0.0):
    """The store of the kernel: the evidence of a run, then its next pooling."""
    n_runs, n_sites = evidence.shape[:2]
    rest = np.zeros((n_runs, n_sites))
    rest[:, 0] = next_refresh
    return np.concatenate([evidence.reshape(n_runs, -1), rest], axis=1).reshape(-1)


def add_round(evidence, arms, rewards):
    """The evidence (R, N, 2, K) with the arms and rewards (R, N) of a round."""
    run, site = np.ogrid[: arms.shape[0], : arms.shape[1]]
    joined = evidence.copy()
    joined[run, site, 0, arms] += 1.0
    joined[run, site, 1, arms] += rewards
    return joined


def pool_plainly(family, evidence, site_sd):
    """The beliefs of `Sites`, as (R, N, 2, K) counts and totals."""
    weight = get_optional(family, "observation_weight")
    statistics = from_count_and_total(family, weight * np.moveaxis(evidence, 2, 0))
    return np.moveaxis(
        to_count_and_total(family, Sites(family, statistics, site_sd).site_beliefs()), 0, 2
    )


@pytest.mark.parametrize("site_sd", [None, 0.0, 0.3, 1e9])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_beliefs_are_those_of_the_plain_formula(family, site_sd):
    for seed, (n_sites, n_arms, apart) in enumerate([(1, 2, 0.0), (5, 3, 0.0), (21, 6, 0.4)]):
        simulation = plan_pooling(family, n_sites, n_arms, site_sd=site_sd)
        generator = np.random.default_rng([seed, 5])
        evidence, arms, rewards = draw_rounds(generator, 3, n_sites, n_arms, apart)
        pooled = call_kernel(
            simulation,
            fill_store(evidence),
            arms.astype(np.uint32).reshape(-1),
            rewards.reshape(-1),
            t=9,
        )
        plain = pool_plainly(family, add_round(evidence, arms, rewards), site_sd)
        np.testing.assert_allclose(pooled, plain, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("refresh", [0.0, 0.01, 0.3])
def test_evidence_is_pooled_in_the_rounds_of_the_reference(refresh):
    family = Bernoulli()
    algorithm = posse.PartialPooling(TS, refresh=refresh)
    simulation = plan_pooling(family, 2, 2, refresh=refresh)
    state = algorithm.init(simulation.build_problem(1))
    store = fill_store(np.zeros((1, 2, 2, 2)))
    arms = np.array([[0, 1]])
    rewards = np.array([[1.0, 0.0]])
    for t in range(1, 400):
        before = state.others_belief
        state = algorithm.learn(state, arms, rewards, None)
        rows = call_kernel(
            simulation, store, arms.astype(np.uint32).reshape(-1), rewards.reshape(-1), t + 1
        )
        assert bool(rows.any()) == (state.others_belief is not before), t
        if rows.any():
            beliefs = from_count_and_total(family, np.moveaxis(rows, 2, 0))
            np.testing.assert_allclose(beliefs, state.belief, rtol=1e-12)


def test_a_game_holds_the_beliefs_of_its_own_evidence(play):
    """Between poolings agents add their own rewards to the others' evidence, and nothing else."""
    bandit = posse.Bandit.bernoulli([0.5, 0.3, 0.2], site_sd=0.5)
    _, rows = play(bandit, networks.cycle(4), posse.PartialPooling(TS, refresh=0.0), 40)
    evidence = rows.store.reshape(3, -1)[:, : 4 * 6].reshape(3, 4, 2, 3)
    # the state was pooled after round 39, and has gained the rewards of round 40
    pooled = pool_plainly(bandit.family, evidence, None)
    last_round = rows.arms.reshape(3, 4).astype(int), rows.rewards[:12].reshape(3, 4)
    np.testing.assert_allclose(
        rows.state.reshape(3, 4, 2, 3), add_round(pooled, *last_round), rtol=1e-12
    )
    pulls = add_round(evidence, *last_round)[:, :, 0]
    np.testing.assert_array_equal(pulls, rows.pulls.reshape(3, 4, 3))


def test_a_family_whose_variance_is_not_quadratic_stays_on_the_reference_engine():
    class Cubic(Gaussian):
        kernel = "GAUSSIAN"
        reward_kernel = "draw_gaussian"

        def variance(self, means):
            return 1.0 + means**3

    assert missing_kernel(plan_pooling(Gaussian(), 2, 2)) is None
    assert missing_kernel(plan_pooling(Cubic(), 2, 2)) == "the variance of family Cubic"
