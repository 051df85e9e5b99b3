"""What many tests need: examples of all registered things, beliefs that have learnt, a browser."""

from __future__ import annotations

import dataclasses
import gc
import os
import secrets
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from posse.families import FAMILIES, get_optional
from posse.policies import POLICIES
from tests.browsing import opened
from tests.effort import QUADRATURE, limit_count

# A deadline would time the machine, which may be busy. By default every run tries the same
# examples, so that no command of the README depends on luck. HYPOTHESIS_PROFILE=random tries new
# ones: a failure prints the line that repeats it, and the end of the run the seed of all.
settings.register_profile("repeatable", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("random", deadline=None, derandomize=False, print_blob=True)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "repeatable")
settings.load_profile(PROFILE)


@pytest.hookimpl(tryfirst=True)  # before hypothesis reads the option
def pytest_configure(config: pytest.Config) -> None:
    """Draw the seed of a random run, which workers of xdist then share."""
    if PROFILE == "random" and config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(secrets.randbits(32))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print how to repeat a random run."""
    if PROFILE == "random":
        seed = config.option.hypothesis_seed
        terminalreporter.write_line(
            f"random examples: HYPOTHESIS_PROFILE=random pytest --hypothesis-seed={seed}"
        )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without the garbage collector, and let it forget what was there before them.

    Looking through 12,000 tests and all libraries again and again took a third of the time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


COSTLY_LAWS = {
    "test_within_1e7_of_the_fine_rule",
    "test_along_a_path_of_rewards",
    "test_many_arms",
    "test_against_samples",
    "test_frequencies_are_the_probabilities_of_being_best",
    "test_against_independent_quadrature",
    "test_the_quick_rule",
    "test_arms_are_chosen_as_often_as_their_quantile_is_highest",
    "test_variances_are_those_of_the_density",
}


def pytest_itemcollected(item: pytest.Item) -> None:
    """What needs a browser is long, without a mark, and so are laws of families by quadrature."""
    costly = getattr(item, "originalname", "") in COSTLY_LAWS
    costly = costly and any(f"[{name}" in item.name for name in QUADRATURE)
    if costly or "browser" in getattr(item, "fixturenames", ()):
        item.add_marker("long")


PROBABILITIES = {"conversion"}  # fields of families
FLOAT = ("float", float)  # a field's type, annotated lazily or not


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One Chromium for all pages that a process tests."""
    yield from opened(tmp_path_factory.mktemp("chromium"))


def _example_of(cls: Any) -> Any:
    return cls.example() if hasattr(cls, "example") else cls()


@pytest.fixture(scope="session")
def example_of() -> Callable[[Any], Any]:
    """The class's own test instance, or its defaults."""
    return _example_of


@pytest.fixture(scope="session", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> Any:
    """Every registered family in turn."""
    return _example_of(FAMILIES[request.param])


@pytest.fixture(scope="session", params=POLICIES)
def policy(request: pytest.FixtureRequest) -> Any:
    """Every registered policy in turn."""
    return _example_of(POLICIES[request.param])


@pytest.fixture(scope="session")
def with_random_prior() -> Callable[..., Any]:
    """The family with every float field redrawn on (1.1, 5), a probability on (1/5, 1/1.1)."""

    def redrawn(family: Any, generator: np.random.Generator) -> Any:
        fields = [
            field.name for field in dataclasses.fields(family) if field.type in ("float", float)
        ]
        values = {name: float(generator.uniform(1.1, 5.0)) for name in fields}
        inverted = {name: 1.0 / values[name] for name in PROBABILITIES & values.keys()}
        return dataclasses.replace(family, **values | inverted)

    return redrawn


@pytest.fixture(scope="session")
def typical_means() -> Callable[..., np.ndarray]:
    """Random means well inside the family's range, of the given shape."""

    def draw(family: Any, generator: np.random.Generator, shape: Any) -> np.ndarray:
        low, high = family.means.low, family.means.high
        if np.isfinite(high):
            return generator.uniform(low + 0.1 * (high - low), high - 0.1 * (high - low), shape)
        if np.isfinite(low):
            return low + generator.uniform(0.3, 3.0, shape)
        return generator.uniform(-2.0, 2.0, shape)

    return draw


@pytest.fixture(scope="session")
def mean_grid() -> Callable[..., np.ndarray]:
    """Means across the family's range, (G,); a family on cells is asked at their centres."""

    def points(family: Any) -> np.ndarray:
        if len(get_optional(family, "edges")):
            return ((family.edges[:-1] + family.edges[1:]) / 2)[:: family.points // 16]
        low, high = family.means.low, family.means.high
        if np.isfinite(high):
            return low + (high - low) * np.linspace(0.02, 0.98, 25)
        if np.isfinite(low):
            return low + np.geomspace(0.05, 20.0, 25)
        return np.linspace(-5.0, 5.0, 25)

    return points


@pytest.fixture(scope="session")
def learnt(typical_means: Any) -> Callable[..., np.ndarray]:
    """A belief (D, *shape) after `pulls` rewards of random means for each entry."""

    def belief(
        family: Any, generator: np.random.Generator, shape: tuple[int, ...], pulls: int = 12
    ) -> np.ndarray:
        means = np.broadcast_to(typical_means(family, generator, shape), (pulls, *shape))
        evidence = family.statistic(family.draw_rewards(means, generator)).sum(axis=1)
        prior = family.prior()
        return prior.reshape(-1, *[1] * len(shape)) + evidence

    return belief


@pytest.fixture(scope="session")
def doubly_stochastic() -> Callable[..., np.ndarray]:
    """A random doubly stochastic matrix, not symmetric: a mixture of permutations (Birkhoff)."""

    def matrix(generator: np.random.Generator, n_agents: int) -> np.ndarray:
        shares = generator.dirichlet(np.ones(2 * n_agents))
        permutations = [np.eye(n_agents)[generator.permutation(n_agents)] for _ in shares]
        return np.tensordot(shares, permutations, axes=1)

    return matrix


@pytest.fixture(scope="session")
def race() -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    """P(arm is best), (K,), and E[best mean - mean of arm], (K,), from distribution functions only.

    Stieltjes sums over fine cells, cut at 20,000 quantiles: each cell's mass of arm k times the
    others' mean chance of lying below, and the integral of F_k (1 - others).
    """

    def exact(family: Any, belief: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        from scipy.special import ndtr

        if len(get_optional(family, "edges")):  # linear inside each cell: a few cuts there suffice
            cuts = np.arange(6 * family.points + 1) / 6
            edges = np.interp(cuts, np.arange(family.points + 1), family.edges)
        else:
            levels = ndtr(np.linspace(-8.0, 8.0, max(401, 20_000 // belief.shape[-1])))
            # quantiles that take long are taken at some levels, with even steps between
            between = -(-len(levels) // limit_count(family, len(levels), 200_000))
            some = family.mean_quantile(belief[:, None, :], levels[::between, None])
            steps = np.diff(some, axis=0) / between
            edges = np.unique([*(some[:-1] + i * steps for i in range(between)), some[1:]])
        below = family.mean_cdf(belief[:, None, :], edges[:, None])  # (edges, K)
        n_arms = belief.shape[-1]
        others = np.stack(
            [np.delete(below, arm, axis=1).prod(axis=1) for arm in range(n_arms)], axis=1
        )
        middle = (others[1:] + others[:-1]) / 2
        best = (np.diff(below, axis=0) * middle).sum(axis=0)
        behind = below * (1.0 - others)
        loss = (np.diff(edges)[:, None] * (behind[1:] + behind[:-1]) / 2).sum(axis=0)
        return best, loss

    return exact
