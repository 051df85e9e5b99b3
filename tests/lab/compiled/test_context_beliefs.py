"""Kernels of simulations with contexts, against the plain parts and NumPy's linalg."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import posse
from posse.families import Linear, Logistic
from posse.lab.compiled.context_beliefs import (
    CompiledLinear,
    CompiledSparseWeights,
    compile_bandit,
    compile_family,
    compile_weights,
)
from posse.lab.reference import engine
from posse.networks import as_operator

FAMILIES = [Linear(sigma=0.7, prior_sd=0.5), Logistic(rate=0.2)]


def draw_beliefs(family, between, n_arms, seed):
    """Beliefs after up to 30 observations at random contexts, sharp and vague: (D, ..., K)."""
    generator = np.random.default_rng(seed)
    cells = (*between, n_arms)
    belief = np.broadcast_to(
        family.prior().reshape(-1, *[1] * len(cells)), (len(family.prior()), *cells)
    ).copy()
    for _ in range(30):
        x = generator.uniform(-2, 2, (*cells, family.features))
        weight = generator.exponential(5.0, cells) * (generator.random(cells) < 0.6)
        belief += family.normal_equations(x, weight, generator.normal(0, 3, cells))
    return belief


@pytest.mark.parametrize("features", [1, 2, 5, 8])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_values_are_those_of_numpy_to_the_bit_and_those_of_linalg(family, features):
    family = family.with_features(features)
    compiled = compile_family(family)
    generator = np.random.default_rng(1)
    for between, n_arms in (((3, 7), 5), ((1, 1), 2), ((2, 50), 3)):
        belief = draw_beliefs(family, between, n_arms, 2)
        x = generator.uniform(-1, 1, (*between, features))
        got = compiled.at_context(belief, x)
        np.testing.assert_array_equal(got, family.at_context(belief, x))
        shift, precision = family.unpack_matrices(belief)
        columns = np.broadcast_to(x[..., None, :], shift.shape)[..., None]
        solved = np.linalg.solve(precision, np.concatenate([shift[..., None], columns], axis=-1))
        mean, variance = np.moveaxis((columns * solved).sum(axis=-2), -1, 0)
        np.testing.assert_allclose(got[0] / got[1], mean, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(1 / got[1], variance, rtol=1e-8)


def test_a_context_without_features_has_no_variance_and_arms_may_have_features():
    family = Linear().with_features(3)
    compiled = compile_family(family)
    belief = draw_beliefs(family, (2,), 4, 3)
    nothing = np.zeros((2, 3))
    np.testing.assert_array_equal(
        compiled.at_context(belief, nothing), family.at_context(belief, nothing)
    )
    of_arms = np.random.default_rng(4).normal(size=(2, 4, 3))
    np.testing.assert_array_equal(
        compiled.at_context(belief, of_arms), family.at_context(belief, of_arms)
    )


def test_beliefs_may_be_protected():
    family = Linear().with_features(3)
    belief = draw_beliefs(family, (2, 1), 4, 5)
    x = np.ones((2, 1, 3))
    belief.setflags(write=False)
    x.setflags(write=False)
    np.testing.assert_array_equal(
        compile_family(family).at_context(belief, x), family.at_context(belief, x)
    )


@pytest.mark.parametrize("features", [1, 2, 8])
def test_normal_equations_are_those_of_numpy_to_the_bit_and_outer_products(features):
    family = Linear().with_features(features)
    generator = np.random.default_rng(6)
    x = generator.normal(size=(3, 5, features))
    weight, target = generator.exponential(size=(2, 3, 5))
    got = compile_family(family).normal_equations(x, weight, target)
    np.testing.assert_array_equal(got, family.normal_equations(x, weight, target))
    shift, precision = family.unpack_matrices(got)
    np.testing.assert_allclose(shift, x * target[..., None], rtol=1e-14)
    outer = np.einsum("rni,rnj,rn->rnij", x, x, weight)
    np.testing.assert_allclose(precision, outer, rtol=1e-14)


# stretches of equal agents, and rows of one to eight links
NETWORKS = [
    posse.networks.cycle(9),
    posse.networks.cycle(150),
    posse.networks.grid(3, 4),
    posse.networks.star(8),
    posse.networks.erdos_renyi(12, 0.3, seed=1),
]


@pytest.mark.parametrize("n_arms", [1, 5, 17])
@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_a_merge_is_that_of_scipy_to_the_bit_and_the_dense_product(network, n_arms):
    plain = as_operator(csr_array(network.weights))
    compiled = compile_weights(plain)
    assert type(compiled) is CompiledSparseWeights
    generator = np.random.default_rng(7)
    n_agents = network.n_agents
    belief = generator.normal(size=(3, 2, n_agents, n_arms))
    np.testing.assert_array_equal(compiled @ belief, plain @ belief)
    dense = plain.weights.toarray()
    np.testing.assert_allclose(compiled @ belief, dense @ belief, atol=1e-13)
    # with an observation of every agent
    arms = generator.integers(0, n_arms, 2 * n_agents)
    evidence = generator.normal(size=(3, 2 * n_agents))
    updated = belief.copy()
    for pull, arm in enumerate(arms):
        updated[:, pull // n_agents, pull % n_agents, arm] += evidence[:, pull]
    columns = np.arange(2 * n_agents) * n_arms + arms
    merged = compiled.merge_evidence(belief, columns, evidence)
    np.testing.assert_array_equal(merged, plain @ updated)


def test_a_compiled_merge_counts_its_links_as_the_plain_one():
    weights = compile_weights(as_operator(csr_array(posse.networks.grid(3, 4).weights)))
    np.testing.assert_array_equal(posse.networks.count_links_in_use(weights, 2), [34, 34])


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_true_means_are_those_of_numpy_to_the_bit_and_the_matrix_product(family):
    contexts = posse.Contexts({"age": (-1, 1), "place": ["a", "b", "c"]})
    bandit = posse.ContextualBandit(family, contexts, posse.NormalWeights(3, 0.5))
    generator = np.random.default_rng(8)
    x = generator.normal(size=(2, 7, 5))
    theta = generator.normal(size=(2, 3, 5))
    got = compile_bandit(bandit).means(x, theta)
    np.testing.assert_array_equal(got, bandit.means(x, theta))
    predictor = np.einsum("rnd,rkd->rnk", x, theta)
    np.testing.assert_allclose(got, bandit.family.inverse_link(predictor), rtol=1e-11)


def test_only_the_families_themselves_are_replaced():
    class Own(Linear):
        """A family of a user, who may have changed its values at contexts."""

    assert type(compile_family(Linear(sigma=2.0))) is CompiledLinear
    assert compile_family(Linear(sigma=2.0)).sigma == 2.0
    own = Own()
    assert compile_family(own) is own


CONTEXTS = posse.Contexts({"age": (-1, 1), "place": ["a", "b", "c"]})
TS = posse.ThompsonSampling()
AGENTS = 31  # enough that W is sparse
SETTINGS = {
    "decentralized": (posse.Decentralized(TS), {}),
    "rates": (posse.Decentralized(TS, learning_rate=tuple(range(1, AGENTS + 1))), {}),
    "half-life": (posse.Decentralized(TS, half_life=100), {}),
    "asleep": (posse.Decentralized(TS), {"activity": posse.activity.Asleep(0.3)}),
    "bayes-ucb": (posse.Decentralized(posse.BayesUCB()), {}),
    "event-triggered": (posse.EventTriggered(TS), {}),
    "centralized": (posse.Centralized(TS), {}),
    "flooding": (posse.Flooding(TS), {}),
    "push-sum": (posse.PushSum(TS), {}),
}


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
@pytest.mark.parametrize("setting", SETTINGS)
def test_runs_are_the_same_to_the_bit(family, setting, late, monkeypatch):
    bandit = posse.ContextualBandit(family, CONTEXTS, posse.NormalWeights(3, 0.5))
    bandit = bandit.delayed(mean=2) if late else bandit
    algorithm, options = SETTINGS[setting]

    def play():
        return posse.simulate(
            bandit, posse.networks.cycle(AGENTS), algorithm,
            horizon=20, runs=3, seed=2, keep=("beliefs",), threads=1, **options,
        )  # fmt: skip

    monkeypatch.setattr(engine, "COMPILED_FROM", 0)
    compiled = play()
    monkeypatch.setattr(engine, "COMPILED_FROM", 10**9)
    plain = play()
    np.testing.assert_array_equal(compiled.regret, plain.regret)
    np.testing.assert_array_equal(compiled.pulls, plain.pulls)
    np.testing.assert_array_equal(compiled.beliefs, plain.beliefs)


def test_features_of_arms_and_one_theta_for_all_arms_are_the_same_to_the_bit(monkeypatch):
    bandit = posse.ContextualBandit(
        Linear(shared=True), posse.bandits.UnitFeatures(4, 3), posse.NormalWeights(4)
    )
    network = posse.networks.cycle(AGENTS)
    results = []
    for least in (0, 10**9):
        monkeypatch.setattr(engine, "COMPILED_FROM", least)
        algorithm = posse.Decentralized(TS)
        results.append(posse.simulate(bandit, network, algorithm, horizon=20, runs=3, seed=2))
    np.testing.assert_array_equal(results[0].regret, results[1].regret)


def test_every_thread_has_a_block_of_runs():
    bandit = posse.ContextualBandit(Linear(), CONTEXTS, posse.NormalWeights(3, 0.5))
    simulation = posse.lab.simulation.Simulation(
        bandit, posse.networks.cycle(4), posse.Decentralized(TS), 20, 0, np.arange(1, 21)
    )
    blocks = engine.split_into_blocks(simulation, range(5), threads=2, compiled=True)
    assert blocks == [range(3), range(3, 5)]
