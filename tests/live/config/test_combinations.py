"""Which settings go together: the whole matrix, each cell constructed or refused in a sentence."""

import itertools
from dataclasses import fields

import pytest

from posse import families
from posse.live.agent.verdicts import Stop
from posse.live.config.experiment_settings import (
    ExperimentSettings,
    experiment_from_data,
    find_conflict,
)

KNOWN = families.Bernoulli()
UNKNOWN = families.GaussianUnknownVariance()
KEYS = {each.name for each in fields(ExperimentSettings)}


def expected(family, exchange, sites, half_life, stop):
    """The sentence of a cell, worked out by hand from the pairs that do not go together."""
    if sites != "alike" and exchange == "flows":
        return "needs exchange 'origins': flows do not know evidence by site"
    if sites != "alike" and half_life:
        return "drifting means look like sites that differ"
    if sites != "alike" and family is UNKNOWN:
        return "needs a family with a known variance of rewards"
    if stop and half_life:
        return "drifting means have no lasting winner"
    if stop and family is UNKNOWN:
        return "with a nuisance parameter beside the mean there is no martingale to stop by"
    return None


CELLS = list(
    itertools.product(
        (KNOWN, UNKNOWN),
        ("origins", "flows"),
        ("alike", "differ", 0.2),
        (None, 3600.0),
        (None, Stop(0.05, 0.005)),
    )
)


@pytest.mark.parametrize("late", [{}, {"reward_window": 60.0, "default_reward": 0.0}])
@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: "-".join(map(str, cell[1:])))
def test_every_cell_is_constructed_or_refused_with_its_sentence(cell, late):
    family, exchange, sites, half_life, stop = cell
    wanted = expected(*cell)
    said = find_conflict(family, exchange, sites=sites, half_life=half_life, stop=stop)
    assert (said is None) == (wanted is None)
    assert wanted is None or wanted in said
    chosen = {"sites": sites, "half_life": half_life, "stop": stop}
    values = {
        "arms": ("red", "green"), "family": family, "exchange": exchange, **late,
        **({"reward_range": (-5.0, 5.0)} if family is UNKNOWN else {}),
        **{key: value for key, value in chosen.items() if key in KEYS},
    }  # fmt: skip
    told = {key: value for key, value in values.items() if key in chosen}
    told = {"sites": "alike", "half_life": None, "stop": None, **told}
    if wanted := expected(family, exchange, **told):
        with pytest.raises(ValueError, match=wanted):
            ExperimentSettings(**values)
    else:
        assert ExperimentSettings(**values).make_agent().choose()[0] in ("red", "green")


PLAIN = {"arms": ["red", "green"], "family": "bernoulli"}


def test_stop_from_plain_data():
    settings = experiment_from_data({**PLAIN, "stop": {"tolerance": 0.01}})
    assert settings.stop == Stop(error=0.05, tolerance=0.01)
    assert settings.make_agent().stop == settings.stop


@pytest.mark.parametrize(
    ("stop", "words"),
    [
        (0.05, "stop must be like"),
        ({"errors": 0.05}, "stop: key 'errors' is unknown: did you mean 'error'"),
        ({"error": 0}, "stop: error must be a finite number above 0 and below 1"),
        ({"error": 1.0}, "stop: error"),
        ({"tolerance": 0.0}, "stop: tolerance must be"),
        ({"tolerance": "5"}, "stop: tolerance must be a number above 0, or a share of the mean"),
    ],
)
def test_a_bad_stop_is_refused_by_name(stop, words):
    with pytest.raises(ValueError, match=words):
        experiment_from_data({**PLAIN, "stop": stop})


def test_a_share_needs_rewards_that_are_not_negative():
    stop = {"tolerance": "5%"}
    assert experiment_from_data({**PLAIN, "stop": stop}).make_agent().stop == Stop(tolerance="5%")
    signed = {"arms": ["a", "b"], "family": "gaussian", "reward_range": [-1, 1], "stop": stop}
    with pytest.raises(ValueError, match="give a number"):
        experiment_from_data(signed).make_agent()


def test_only_with_stop_does_the_window_keep_agents_apart():
    def fingerprint(**keys):
        return experiment_from_data({**PLAIN, **keys}).make_agent().fingerprint

    plain = fingerprint()
    assert fingerprint(reward_window=60) == plain
    ends = {fingerprint(stop={}, **keys) for keys in ({}, {"reward_window": 60.0})}
    assert len({plain, *ends}) == 3
    # how often people accept to be wrong is theirs alone
    assert fingerprint(stop={"error": 0.01}, reward_window=60) in ends
