"""Which engine runs: the compiled one where all parts have kernels, and the result says which."""

import dataclasses

import numpy as np
import pytest
from scipy import special

import posse
from posse import algorithms, families, lab, networks, policies
from posse.algorithms.bayesian import BayesianAlgorithm
from posse.families import Gaussian, Grid
from posse.networks.dynamics import DYNAMICS

BANDIT = posse.Bandit.gaussian([0.2, 0.6, 0.1])
NETWORK = networks.cycle(4)
TS = posse.ThompsonSampling()
DEC_TS = posse.Decentralized(TS)


class MyPolicy(posse.ThompsonSampling):
    """A kernel of the parent would not know what was changed."""


class MyFamily(Gaussian):
    """The same, where it changes the law that the kernel stands for."""

    def sample_mean(self, belief, generator):
        return super().sample_mean(belief, generator)

    def draw_rewards(self, means, generator):
        return super().draw_rewards(means, generator)


class MyAlgorithm(posse.Decentralized):
    """The same."""


def grid():
    return Grid(lambda y, theta: -((y - theta) ** 2) / 2, lambda theta: theta, (-3.0, 3.0))


def drawing_grid():
    return dataclasses.replace(grid(), draw=lambda means, uniforms: means + special.ndtri(uniforms))


UNSUPPORTED = {
    "a grid": (BANDIT, posse.Decentralized(TS, grid())),
    "a policy of one's own": (BANDIT, posse.Decentralized(MyPolicy())),
    "a family of one's own": (BANDIT, posse.Decentralized(TS, MyFamily())),
    "an algorithm of one's own": (BANDIT, MyAlgorithm(TS)),
    "a bandit of one's own": (posse.Bandit(MyFamily(), [0.0, 1.0]), posse.Isolated(TS, Gaussian())),
    "a bandit on a grid": (
        posse.Bandit(drawing_grid(), [0.0, 1.0]),
        posse.Isolated(TS, Gaussian()),
    ),
}


def simulate(bandit, algorithm, **options):
    return posse.simulate(bandit, NETWORK, algorithm, horizon=5, runs=2, **options)


@pytest.mark.parametrize(("bandit", "algorithm"), UNSUPPORTED.values(), ids=UNSUPPORTED)
class TestWithoutKernels:
    def test_compiled_refuses_in_one_sentence(self, bandit, algorithm):
        with pytest.raises(ValueError, match="engine 'compiled' has no kernel for") as refusal:
            simulate(bandit, algorithm, engine="compiled")
        message = str(refusal.value)
        assert "\n" not in message
        assert "compiled_parts" in message
        parts = (algorithm, algorithm.policy, algorithm.family, bandit.family)
        assert any(type(part).__name__ in message for part in parts)

    def test_auto_falls_back_on_the_reference(self, bandit, algorithm):
        auto = simulate(bandit, algorithm)
        reference = simulate(bandit, algorithm, engine="reference")
        assert auto.engine == reference.engine == "reference"
        np.testing.assert_array_equal(auto.regret, reference.regret)


class TestWithKernels:
    def test_auto_is_compiled(self):
        auto, compiled = simulate(BANDIT, DEC_TS), simulate(BANDIT, DEC_TS, engine="compiled")
        assert auto.engine == compiled.engine == "compiled"
        np.testing.assert_array_equal(auto.regret, compiled.regret)
        assert simulate(BANDIT, DEC_TS, engine="reference").engine == "reference"

    def test_another_engine_is_refused(self):
        with pytest.raises(ValueError, match="engine 'fast' is unknown"):
            simulate(BANDIT, DEC_TS, engine="fast")

    def test_means_drawn_afresh_are_those_of_the_reference(self):
        """Streams of means and of the order of arms are shared by the engines."""
        bandit = posse.Bandit(Gaussian(), posse.bandits.UniformMeans(5))
        algorithm = posse.Isolated(posse.Greedy())
        by_engine = [
            posse.simulate(bandit, networks.complete(1), algorithm, horizon=1, runs=50, engine=e)
            for e in ("compiled", "reference")
        ]
        gaps = [{round(float(r), 12) for r in result.regret[:, 0] if r > 0} for result in by_engine]
        assert gaps[0] & gaps[1]  # the same five gaps a run: one arm in five is the same


ALL = {"dec": DEC_TS, "alone": posse.Isolated(TS), "all": posse.Centralized(TS)}


class TestCompare:
    def test_equals_simulate_of_each(self):
        comparison = posse.compare(BANDIT, NETWORK, ALL, horizon=20, runs=3, seed=4)
        for name, algorithm in ALL.items():
            alone = posse.simulate(BANDIT, NETWORK, algorithm, horizon=20, runs=3, seed=4)
            assert comparison[name].engine == "compiled"
            np.testing.assert_array_equal(comparison[name].regret, alone.regret)

    def test_each_has_its_own_engine(self):
        some = {**ALL, "mine": posse.Decentralized(MyPolicy())}
        comparison = posse.compare(BANDIT, NETWORK, some, horizon=5, runs=2)
        assert {comparison[name].engine for name in ALL} == {"compiled"}
        assert comparison["mine"].engine == "reference"

    def test_compiled_names_what_is_missing(self):
        some = {"fine": DEC_TS, "mine": posse.Decentralized(MyPolicy())}
        with pytest.raises(ValueError, match=r"mine: policy MyPolicy") as refusal:
            posse.compare(BANDIT, NETWORK, some, horizon=5, runs=2, engine="compiled")
        assert "fine" not in str(refusal.value)


class TestCompiledParts:
    def test_names_things_that_exist(self):
        where = {
            "algorithms": algorithms,
            "policies": policies,
            "families": families,
            "rewards": families,
            "dynamics": networks,
        }
        parts = lab.compiled_parts()
        assert set(parts) == set(where)
        for kind, names in parts.items():
            assert names
            assert len(set(names)) == len(names)
            for name in names:
                assert isinstance(getattr(where[kind], name), type)

    def test_lists_what_was_promised(self):
        parts = lab.compiled_parts()
        families_named = {"Bernoulli", "Bounded", "Gaussian", "Poisson", "Exponential"}
        families_named.add("GaussianUnknownVariance")
        assert families_named <= set(parts["families"])
        assert families_named <= set(parts["rewards"])
        assert {"ThompsonSampling", "BayesUCB", "Greedy"} <= set(parts["policies"])
        assert {"Decentralized", "Isolated", "Centralized"} <= set(parts["algorithms"])
        assert {cls.__name__ for cls in DYNAMICS.values()} == set(parts["dynamics"])

    def test_everything_listed_does_run_compiled(self):
        parts = lab.compiled_parts()
        for family in parts["families"]:
            for policy in parts["policies"]:
                for algorithm in parts["algorithms"]:
                    bandit = posse.Bandit(getattr(families, family)(), [0.2, 0.6])
                    cls = getattr(algorithms, algorithm)
                    variance = bandit.family.variance(np.ones(1))
                    if cls is algorithms.PartialPooling and variance is None:  # it refuses these
                        continue
                    bayesian = issubclass(cls, BayesianAlgorithm)
                    chosen = cls(getattr(policies, policy)()) if bayesian else cls(sigma=1.0)
                    assert simulate(bandit, chosen, engine="compiled").engine == "compiled"
