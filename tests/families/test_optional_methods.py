"""What every registered family says of itself, against its own statistic, likelihood and rewards.

Nothing here knows a family by name: a wrong power, divergence, sub-Gaussian constant, weight or
parameter of a new entry of FAMILIES fails by itself.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import optimize, special

from posse.families import (
    FAMILIES,
    Gaussian,
    OptionalMethods,
    from_count_and_total,
    get_optional,
    to_count_and_total,
)
from posse.live.agent.evidence import Evidence

LEVELS = (np.arange(20_000) + 0.5) / 20_000


class Strata:
    """A generator whose uniforms are evenly spread, so that an average is a quadrature."""

    def random(self, size):
        assert size == LEVELS.shape
        return LEVELS

    def standard_normal(self, size):
        return special.ndtri(self.random(size))


def rewards_of(family, mean):
    """Rewards at 20,000 levels of their law: (L,)."""
    return family.draw_rewards(np.full(LEVELS.shape, mean), Strata())


def that_say(name):
    """The registered families that have an ability."""
    every = {
        key: cls.example() if hasattr(cls, "example") else cls() for key, cls in FAMILIES.items()
    }
    return [pytest.param(each, id=key) for key, each in every.items() if get_optional(each, name)]


@pytest.mark.parametrize("family", that_say("powers"))
def test_powers_are_those_of_the_statistic(family, with_random_prior):
    """At start, and so here for every family, and each wrong set of powers is refused."""
    family = with_random_prior(family, np.random.default_rng(1))
    low, high = max(family.rewards.low, -3.0), min(family.rewards.high, 4.0)
    Evidence.for_family(family, (low, high))
    wrong = {(1,), (2,), (0,), (1, 2), (1, 3), (2, 4), (0, 2), (1, 2, 3)} - {family.powers}
    for powers in wrong:
        other = type("Other", (type(family),), {"powers": powers})
        with pytest.raises(ValueError, match=f"powers of family '{family.name}' must"):
            Evidence.for_family(other(**dataclasses.asdict(family)), (low, high))


@pytest.mark.parametrize("powers", [(-1,), (1, 1), (1.5,), ("1",)])
def test_powers_that_are_none_are_refused(powers):
    other = type("Other", (Gaussian,), {"powers": powers})
    with pytest.raises(ValueError, match="powers must be different whole numbers from 0, got"):
        Evidence.for_family(other(), (0, 1))


@pytest.mark.parametrize("family", that_say("divergence"))
def test_divergences_are_expected_log_likelihood_ratios(family, with_random_prior, typical_means):
    """E_p[log f(Y | p) - log f(Y | q)], against the nearest law where there is a nuisance."""
    generator = np.random.default_rng(2)
    for _ in range(3):
        family = with_random_prior(family, generator)
        p, q = typical_means(family, generator, 2)
        rewards = rewards_of(family, p)

        def likelihood(mean, rewards=rewards, family=family):
            if len(family.parameters) == 1:
                return family.reward_log_density(rewards, mean).mean()
            best = optimize.minimize_scalar(
                lambda x: -family.reward_log_density(rewards, mean, np.exp(x)).mean(),
                bounds=(-12, 12), method="bounded", options={"xatol": 1e-9},
            )  # fmt: skip
            return -best.fun

        expected = likelihood(p) - likelihood(q)
        # 20,000 levels cut a tail of 1/40,000 on each side: a quadrature to some parts in 1000
        assert family.divergence(p, q) == pytest.approx(expected, rel=5e-3)


@pytest.mark.parametrize("family", that_say("subgaussian"))
def test_rewards_are_subgaussian(family, with_random_prior, typical_means):
    """E exp(l (Y - mean)) is at most exp(l^2 s^2 / 2)."""
    family = with_random_prior(family, np.random.default_rng(3))
    means = typical_means(family, np.random.default_rng(4), 20)
    slack = []
    for mean in means:
        centred = rewards_of(family, mean) - mean
        for slope in np.array([-1.0, -0.3, 0.3, 1.0]) / family.subgaussian:
            bound = (slope * family.subgaussian) ** 2 / 2
            slack.append((np.log(np.exp(slope * centred).mean()) - bound) / bound)
    assert max(slack) < 1e-3


@pytest.mark.parametrize("family", that_say("kernel"))
def test_the_kernels_count_and_total(family, with_random_prior, learnt):
    """One reward adds its weight times 1, y and perhaps y^2 to the sums; the map goes back."""
    generator = np.random.default_rng(5)
    family = with_random_prior(family, generator)
    rewards = np.array([0.0, 0.25, 1.0])
    sums = to_count_and_total(family, family.statistic(rewards))
    weight = get_optional(family, "observation_weight")
    for power, added in enumerate(sums):
        np.testing.assert_allclose(added, weight * rewards**power, rtol=1e-15, atol=1e-16)
    assert len(sums) == 1 + max(family.powers)
    belief = learnt(family, generator, (2, 3))
    np.testing.assert_allclose(
        from_count_and_total(family, to_count_and_total(family, belief)), belief, rtol=1e-14
    )


@pytest.mark.parametrize("family", that_say("reward_kernel"))
def test_reward_kernels_exist(family):
    from posse.lab.compiled.kernels import rewards

    assert callable(getattr(rewards, family.reward_kernel))
    assert isinstance(get_optional(family, "reward_parameter"), float)


@pytest.mark.parametrize("family", that_say("kernel"))
def test_belief_kernels_exist(family):
    from posse.lab.compiled import posteriors

    assert posteriors.POSTERIORS[family.kernel].name == family.kernel


def test_edges_ascend_within_the_means(family):
    edges = get_optional(family, "edges")
    assert np.all(np.diff(edges) > 0)
    assert len(edges) == 0 or (edges[0], edges[-1]) == family.means[:2]


def test_a_class_without_the_base_has_the_defaults():
    class Plain:
        powers = (1,)

    said = {
        name: get_optional(Plain(), name)
        for name in vars(OptionalMethods)
        if not name.startswith("_")
    }
    assert said.pop("powers") == (1,)
    assert len(said.pop("edges")) == 0
    assert said.pop("variance")(np.ones(2)) is None
    assert callable(said.pop("site_unit"))
    assert said == {
        "anchored": False,
        "assumption": "",
        "quantiles_cross_once": False,
        "kernel": None,
        "reward_kernel": None,
        "divergence": None,
        "subgaussian": None,
        "unit": None,
        "observation_weight": 1.0,
        "shape_offset": 0.0,
        "reward_parameter": 0.0,
        "site_spread": 1.0,
    }
    with pytest.raises(AttributeError):
        get_optional(Plain(), "powres")
