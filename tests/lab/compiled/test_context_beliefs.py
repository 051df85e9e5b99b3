"""Compiled values of beliefs at contexts, against the plain elimination and NumPy's linalg."""

import numpy as np
import pytest

import posse
from posse.families import Linear, Logistic
from posse.lab.compiled.context_beliefs import CompiledLinear, compile_family
from posse.lab.reference import engine

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


def test_only_the_families_themselves_are_replaced():
    class Own(Linear):
        """A family of a user, who may have changed its values at contexts."""

    assert type(compile_family(Linear(sigma=2.0))) is CompiledLinear
    assert compile_family(Linear(sigma=2.0)).sigma == 2.0
    own = Own()
    assert compile_family(own) is own


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
@pytest.mark.parametrize(
    "algorithm",
    [posse.Decentralized, posse.Centralized, posse.Flooding, posse.PushSum],
    ids=lambda algorithm: algorithm.name,
)
def test_runs_are_the_same_to_the_bit(family, algorithm, monkeypatch):
    contexts = posse.Contexts({"age": (-1, 1), "place": ["a", "b", "c"]})
    bandit = posse.ContextualBandit(family, contexts, posse.NormalWeights(3, 0.5))

    def play():
        return posse.simulate(
            bandit, posse.networks.cycle(4), algorithm(posse.ThompsonSampling()),
            horizon=20, runs=3, seed=2, keep=("beliefs",), threads=1,
        )  # fmt: skip

    monkeypatch.setattr(engine, "COMPILED_FROM", 0)
    compiled = play()
    monkeypatch.setattr(engine, "COMPILED_FROM", 10**9)
    plain = play()
    np.testing.assert_array_equal(compiled.regret, plain.regret)
    np.testing.assert_array_equal(compiled.beliefs, plain.beliefs)
