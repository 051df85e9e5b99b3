"""What the baselines promise at the door: forced pulls, networks, sigma and parameters."""

import numpy as np
import pytest

import posse
from posse import networks

MEANS = [0.9, 0.5, 0.4, 0.1, 0.0]
BANDIT = posse.Bandit.gaussian(MEANS)
BASELINES = {
    "coop-UCB": posse.CoopUCB,
    "coop-UCB2": posse.CoopUCB2,
    "coop-UCL": posse.CoopUCL,
    "DDUCB": posse.DDUCB,
}
VARIANTS = ("accelerated", "unaccelerated", "practical")
EVERY = {name: kind() for name, kind in BASELINES.items()} | {
    f"DDUCB {variant}": posse.DDUCB(variant=variant) for variant in VARIANTS[1:]
}
STATIC_ONLY = ["coop-UCB", "DDUCB"]
VARYING = {"gossip": networks.cycle(5).gossip(), "failing": networks.cycle(5).failing(0.3)}


@pytest.mark.parametrize("engine", ["compiled", "reference"])
@pytest.mark.parametrize("name", EVERY)
class TestForcedPulls:
    def test_after_k_rounds_every_agent_has_pulled_every_arm_once(self, name, engine):
        result = posse.simulate(
            BANDIT, networks.cycle(6), EVERY[name], horizon=5, runs=3, seed=1, engine=engine
        )
        np.testing.assert_array_equal(result.pulls, 1)
        np.testing.assert_allclose(result.regret[:, -1], sum(BANDIT.gaps), rtol=1e-12)

    def test_uncharged_they_are_free_and_nothing_else_changes(self, name, engine):
        kind = type(EVERY[name])
        variant = {"variant": EVERY[name].variant} if kind is posse.DDUCB else {}
        charged, free = (
            posse.simulate(
                BANDIT,
                networks.path(4),
                kind(charge_initial=charge, **variant),
                horizon=60,
                runs=4,
                seed=2,
                engine=engine,
                record=[2, 5, 6, 17, 60],
            )
            for charge in (True, False)
        )
        np.testing.assert_array_equal(free.regret[:, :2], 0.0)
        np.testing.assert_allclose(
            free.regret[:, 2:], charged.regret[:, 2:] - sum(BANDIT.gaps), rtol=1e-9, atol=1e-9
        )
        np.testing.assert_array_equal(free.pulls, charged.pulls)
        assert (charged.regret[:, 1] > 0).all()

    def test_a_horizon_within_them_is_fine(self, name, engine):
        result = posse.simulate(
            BANDIT, networks.path(3), EVERY[name], horizon=3, runs=2, seed=1, engine=engine
        )
        np.testing.assert_array_equal(result.pulls.sum(axis=-1), 3)
        assert result.pulls.max() == 1


@pytest.mark.parametrize("name", STATIC_ONLY)
class TestStaticNetworksOnly:
    @pytest.mark.parametrize("engine", ["compiled", "reference"])
    @pytest.mark.parametrize(("how", "word"), [("gossip", "(?i)gossip"), ("failing", "(?i)fail")])
    def test_networks_that_vary_are_refused_by_name(self, name, how, word, engine):
        with pytest.raises(ValueError, match=word):
            posse.simulate(BANDIT, VARYING[how], BASELINES[name](), horizon=20, engine=engine)

    def test_weights_that_are_not_symmetric_are_refused(self, name):
        network = networks.from_matrix([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]])
        with pytest.raises(ValueError, match="symmetric"):
            posse.simulate(BANDIT, network, BASELINES[name](), horizon=20)

    def test_weights_that_never_mix_are_refused(self, name):
        network = networks.from_matrix([[0.0, 1.0], [1.0, 0.0]])  # second eigenvalue -1
        with pytest.raises(ValueError, match="second eigenvalue below 1"):
            posse.simulate(BANDIT, network, BASELINES[name](), horizon=20)


@pytest.mark.parametrize("name", BASELINES)
class TestSigma:
    @pytest.mark.parametrize(
        "bandit", [posse.Bandit.poisson([1.0, 2.0]), posse.Bandit.exponential([1.0, 2.0])], ids=str
    )
    def test_it_must_be_given_where_the_family_does_not_say(self, name, bandit):
        with pytest.raises(ValueError, match="sigma"):
            posse.simulate(bandit, networks.cycle(4), BASELINES[name](), horizon=10)
        posse.simulate(bandit, networks.cycle(4), BASELINES[name](sigma=1.5), horizon=10, runs=2)

    @pytest.mark.parametrize(
        ("bandit", "sigma"),
        [
            (posse.Bandit.bernoulli([0.2, 0.5, 0.7]), 0.5),
            (posse.Bandit(posse.families.Bounded(), [0.2, 0.5, 0.7]), 0.5),
            (posse.Bandit.gaussian([0.2, 0.5, 0.7], sigma=3.0), 3.0),
        ],
        ids=str,
    )
    def test_by_default_it_is_the_familys_own(self, name, bandit, sigma):
        default, given = (
            posse.simulate(bandit, networks.path(3), algorithm, horizon=80, runs=3, seed=3)
            for algorithm in (BASELINES[name](), BASELINES[name](sigma=sigma))
        )
        np.testing.assert_array_equal(default.regret, given.regret)


NOT_POSITIVE = [0, -1.0, np.nan, np.inf, "2", True]


@pytest.mark.parametrize("bad", NOT_POSITIVE)
@pytest.mark.parametrize(
    ("name", "field"),
    [(name, "exploration") for name in ("coop-UCB", "coop-UCB2", "DDUCB")]
    + [(name, "sigma") for name in BASELINES]
    + [("DDUCB", "epsilon"), ("coop-UCL", "prior_sd")],
)
def test_what_is_not_a_positive_number_is_refused(name, field, bad):
    with pytest.raises(ValueError, match=field):
        BASELINES[name](**{field: bad})


@pytest.mark.parametrize("bad", [np.nan, np.inf, "0", None])
def test_a_prior_mean_that_is_not_a_number_is_refused(bad):
    with pytest.raises(ValueError, match="prior_mean"):
        posse.CoopUCL(prior_mean=bad)


@pytest.mark.parametrize("bad", [1.0, 1.5])
def test_an_epsilon_of_one_or_more_is_refused(bad):
    with pytest.raises(ValueError, match="epsilon"):
        posse.DDUCB(epsilon=bad)


def test_an_unknown_variant_gets_a_suggestion():
    with pytest.raises(ValueError, match=r"variant.*did you mean 'accelerated'"):
        posse.DDUCB(variant="acelerated")
