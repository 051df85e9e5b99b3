"""KL and Hellinger between beliefs of every family, against quadrature of the densities."""

import itertools

import numpy as np
import pytest
from scipy import special, stats

import posse
from posse.families import CONTEXTUAL, FAMILIES, VARIATIONAL, get_optional

# nuisance parameters by name: from the real line into their range, and the derivative
NUISANCES = {
    "precision": (np.exp, np.exp),
    "conversion": (special.expit, lambda x: special.expit(x) * special.expit(-x)),
}


def place_means(family, *beliefs):
    """Gauss-Legendre nodes and weights of the mean that cover all beliefs (D,)."""
    lower = np.concatenate([np.geomspace(1e-13, 0.05, 40), np.linspace(0.05, 0.5, 20)[1:]])
    levels = np.concatenate([lower, 1 - lower[-2::-1]])
    edges = [family.mean_quantile(belief[:, None], levels) for belief in beliefs]
    edges = np.unique(np.concatenate([*edges, get_optional(family, "edges")]))
    nodes, weights = np.polynomial.legendre.leggauss(6)
    half = np.diff(edges)[:, None] / 2
    return (edges[:-1, None] + half * (1 + nodes)).ravel(), (half * weights).ravel()


def integrate(family, belief, other):
    """KL and the Hellinger distance by quadrature over all parameters."""
    means, weights = place_means(family, belief, other)
    if len(family.parameters) == 1:
        log_p, log_q = (family.log_density(q[:, None], means) for q in (belief, other))
    else:
        inside, slope = NUISANCES[family.parameters[1]]
        line = np.linspace(-25.0, 25.0, 801)
        means = means[:, None]
        weights = weights[:, None] * slope(line) * (line[1] - line[0])
        nuisance = inside(line)
        log_p, log_q = (
            family.log_density(q[:, None, None], means, nuisance) for q in (belief, other)
        )
    p = np.exp(log_p)
    kl = np.sum(weights * p * (log_p - log_q), where=p > 0)
    affinity = np.sum(weights * np.exp((log_p + log_q) / 2))
    return kl, np.sqrt(max(1 - affinity, 0.0))


@pytest.mark.parametrize("seed", range(2))
def test_they_are_integrals_of_the_densities(family, learnt, with_random_prior, seed):
    generator = np.random.default_rng(seed)
    family = with_random_prior(family, generator)
    belief = learnt(family, generator, ())
    other = learnt(family, generator, (), pulls=5 + 4 * seed)
    kl, hellinger = integrate(family, belief, other)
    assert family.kl(belief, other) == pytest.approx(kl, rel=1e-6)
    assert family.hellinger(belief, other) == pytest.approx(hellinger, rel=1e-6)


def gaussians():
    """Families whose beliefs are normal in several parameters, with two beliefs each."""
    generator = np.random.default_rng(3)
    for name, kind in (VARIATIONAL | CONTEXTUAL).items():
        example = kind.example() if hasattr(kind, "example") else kind()
        family = example.with_features(3) if name in CONTEXTUAL else example
        prior = family.prior()
        d = next(d for d in range(1, 9) if d + d * (d + 1) // 2 == len(prior))
        beliefs = []
        for _ in range(2):
            root = generator.normal(size=(d, d + 2)) / 2
            added = np.concatenate([generator.normal(size=d), (root @ root.T)[np.triu_indices(d)]])
            beliefs.append(prior + added)
        yield pytest.param(family, *beliefs, d, id=name)


@pytest.mark.parametrize(("family", "belief", "other", "d"), list(gaussians()))
def test_normal_beliefs_in_several_parameters_by_gauss_hermite(family, belief, other, d):
    laws = []
    for q in (belief, other):
        precision = np.zeros((d, d))
        precision[np.triu_indices(d)] = q[d:]
        precision = precision + np.triu(precision, 1).T
        covariance = np.linalg.inv(precision)
        laws.append(stats.multivariate_normal(covariance @ q[:d], covariance))
    nodes, weights = np.polynomial.hermite_e.hermegauss(30)
    z = np.array(list(itertools.product(nodes, repeat=d)))
    weight = np.prod(list(itertools.product(weights, repeat=d)), axis=1) / (2 * np.pi) ** (d / 2)
    theta = laws[0].mean + z @ np.linalg.cholesky(laws[0].cov).T
    log_ratio = (laws[0].logpdf(theta) - laws[1].logpdf(theta)).reshape(-1)
    assert family.kl(belief, other) == pytest.approx(weight @ log_ratio, rel=1e-9)
    affinity = weight @ np.exp(-log_ratio / 2)
    assert family.hellinger(belief, other) == pytest.approx(np.sqrt(1 - affinity), rel=1e-6)


def test_logit_normal_beliefs():
    family = posse.families.LogitNormal()
    belief, other = np.array([0.5, 2.0]), np.array([-1.0, 3.0])
    kl, hellinger = integrate(family, belief, other)
    assert family.kl(belief, other) == pytest.approx(kl, rel=1e-7)
    assert family.hellinger(belief, other) == pytest.approx(hellinger, rel=1e-7)


@pytest.mark.parametrize("name", FAMILIES | VARIATIONAL)
def test_shapes_and_beliefs_that_are_the_same(name, example_of):
    family = example_of((FAMILIES | VARIATIONAL)[name])
    belief = posse.beliefs.prior(family, (2, 3), 4)
    moved = belief.copy()
    rewards = np.full((2, 3), 0.5)
    arms = np.full((2, 3), 1)
    moved = posse.beliefs.observe(belief, arms, rewards, family, 2.0)
    for distance in (family.kl, family.hellinger):
        np.testing.assert_allclose(distance(belief, belief), np.zeros((2, 3, 4)), atol=1e-7)
        moves = distance(moved, belief)
        assert (moves[..., 1] > 0).all()
        np.testing.assert_allclose(np.delete(moves, 1, axis=-1), 0.0, atol=1e-7)
