"""[context] in agent.toml: read, refused in sentences, and the same for all of a network."""

import logging
import re
import tomllib
from pathlib import Path

import pytest

from posse.contexts import Contexts
from posse.live.agent.verdicts import Stop
from posse.live.config.agent_settings import read_settings, settings_from_data
from posse.live.config.experiment_settings import experiment_from_data, find_conflict
from posse.live.exchange.origins import Origins
from tests.live.several import Several, table
from tests.live.visits import SCHEMA, TABLES

LOGISTIC = {"arms": ["red", "green"], "family": TABLES["logistic"], "context": SCHEMA}
TOML = """
name = "berlin"
arms = ["short", "long"]
family = {name = "logistic", rate = 0.03, prior_sd = 0.5}
reward_window = 3600
default_reward = 0

[context]
country = ["de", "fr", "it"]            # categories: one column each
returning = "flag"                      # true or false
basket = {low = 0, high = 500}          # a number in a range
hour = {low = 0, high = 24, optional = true}

[experiments.checkout]

[experiments.basket]
family = {name = "linear", sigma = 20, prior_mean = 30, prior_sd = 10}
reward_range = [0, 500]
default_reward = 5

[experiments.basket.context]
country = ["de", "fr", "it", "at"]

[experiments.banner]
family = "bernoulli"                    # the context above is not for it
"""


def test_a_file_with_contexts(tmp_path):
    file = tmp_path / "agent.toml"
    file.write_text(TOML)
    read = read_settings(file).experiments
    assert read["checkout"].context == Contexts(SCHEMA)
    assert read["checkout"].family.rate == 0.03
    countries = ("de", "fr", "it", "at")
    assert read["basket"].context.columns[1:] == tuple(f"country={each}" for each in countries)
    assert read["basket"].make_agent().family.features == 5
    assert read["banner"].context is None
    agent = read["checkout"].make_agent()
    assert agent.context.n_features == agent.family.features == 8
    assert isinstance(agent.exchange, Origins)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"context": None, "family": "bernoulli"}, "^context must be a table such as"),
        ({"context": {}}, r"^context must be a table such as country = \[\"de\", \"fr\"\], got {}"),
        ({"context": 3}, "^context must be a table such as"),
        ({"family": "bernoulli"}, "^context does not go with family 'bernoulli'"),
        ({"family": {"name": "logistic"}}, "^family.rate is missing"),
        ({"family": {"name": "logistic", "rate": 3}}, "^family.rate must be"),
        ({"family": {"name": "logstic", "rate": 0.1}}, "did you mean 'logistic'"),
        ({"context": {"country": []}}, r"^context\.country must be different names"),
        ({"context": {"country": ["de", "de"]}}, r"^context\.country must be different names"),
        ({"context": {"country": "de"}}, r"^context\.country must be a list of categories"),
        ({"context": {"basket": {"low": 0}}}, r"^context\.basket high is missing"),
        ({"context": {"basket": {"low": 3, "high": 3}}}, r"^context\.basket high must be"),
        ({"context": {"basket": {"low": 0, "hihg": 3}}}, r"^context\.basket key 'hihg' is unknown"),
        ({"context": {"a\nb": "flag"}}, "^context: contexts: names must be printable text"),
        ({"context": {"x" * 201: "flag"}}, "names must have at most 200 characters"),
        ({"context": {"f": [str(n) for n in range(64)]}}, "^context: contexts have 65 columns.*64"),
        (
            {"arms": [f"arm{n}" for n in range(300)]},
            "^context has 8 columns and there are 300 arms",
        ),
        ({"exchange": "flows"}, "^contexts need exchange 'origins': flows give no honest"),
        ({"sites": "differ"}, "make the site a category of the context instead$"),
        ({"stop": {}}, "^stop does not go with a context, .* see expected_loss instead$"),
        ({"default_reward": 2, "reward_window": 5}, "^default_reward: reward must be"),
        ({"family": TABLES["linear"]}, "^reward_range must be given for family 'linear'"),
    ],
)
def test_a_mistake_is_refused_at_the_start_in_a_sentence_that_names_the_key(changes, words):
    data = {**LOGISTIC, **changes}
    with pytest.raises(ValueError, match=words) as told:
        experiment_from_data(data)
    assert "\n" not in str(told.value)


def test_the_sentences_of_worlds():
    family = experiment_from_data(LOGISTIC).family
    plain = {"sites": "alike", "half_life": None, "stop": None}
    assert find_conflict(family, "origins", **plain) is None
    assert find_conflict(family, "origins", **{**plain, "half_life": 3600.0}) is None
    assert "need exchange 'origins'" in find_conflict(family, "flows", **plain)
    assert "its own best arm" in find_conflict(family, "origins", **{**plain, "stop": Stop()})
    assert "category of the context" in find_conflict(family, "origins", **{**plain, "sites": 0.1})


def test_names_that_are_markup_are_names():
    odd = {"<b>x</b>": ["<script>", "a b"], "ja/nein": "flag"}
    agent = experiment_from_data({**LOGISTIC, "context": odd}).make_agent()
    assert agent.encode_context({"<b>x</b>": "<script>", "ja/nein": True}).x.tolist() == [
        1,
        1,
        0,
        1,
    ]


def test_another_schema_needs_another_experiment(tmp_path):
    both = {name: table(name, ["default"], **LOGISTIC) for name in "ab"}
    world = Several(tmp_path).start(**both)
    try:
        other = {**LOGISTIC, "context": {**SCHEMA, "more": "flag"}}
        with pytest.raises(ValueError, match=r"^context of the experiment default cannot change"):
            world.nodes["a"].reload(world.read_settings(table("a", ["default"], **other)))
        world.nodes["a"].stop()
        with pytest.raises(ValueError, match="another"):
            world.open_node(table("a", ["default"], **other))
    finally:
        world.close()


def test_another_schema_at_a_neighbour_is_refused_and_shown(tmp_path):
    other = {**LOGISTIC, "context": {**SCHEMA, "country": ["de", "fr", "at"]}}
    world = Several(tmp_path).start(
        a=table("a", ["default"], **LOGISTIC), b=table("b", ["default"], **other)
    )
    try:
        context = {"country": "de", "returning": False, "basket": 3}
        only = world.nodes["a"].experiment()
        only.reward(only.decide(context=context).id, 1.0)
        world.tick(4)
        assert world.nodes["b"].network()["refused"]["fingerprint_mismatch"] > 0
        assert world.pulls("b", "default") == 0
    finally:
        world.close()


@pytest.mark.parametrize(
    ("columns", "tick", "warned"), [(40, 0.1, True), (40, 10.0, False), (3, 0.1, False)]
)
def test_who_would_fill_the_network_is_told(columns, tick, warned, tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    context = {f"f{n}": "flag" for n in range(columns)}
    data = table("a", ["default"], **{**LOGISTIC, "context": context}, tick_seconds=tick)
    near = {"neighbours": dict.fromkeys("bcdefg", "")}
    world = Several(tmp_path).start(a={**data, **near}, b=table("b", ["plain"]))
    world.close()
    assert ("raise tick_seconds" in caplog.text) is warned


def test_the_page_says_so():
    page = (Path(__file__).parents[3] / "docs" / "contexts-live.md").read_text()
    (block,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (settings,) = settings_from_data(tomllib.loads(block)).experiments.values()
    assert settings.make_agent().context.n_features == 10
    for wish in ({"exchange": "flows"}, {"sites": "differ"}, {"stop": {}}):
        with pytest.raises(ValueError, match=r"context") as refused:
            experiment_from_data({**LOGISTIC, **wish})
        assert f". {refused.value}\n" in page


def test_top_level_settings_of_one_experiment():
    settings = settings_from_data({"name": "a", **LOGISTIC})
    assert settings.experiments["default"].context == Contexts(SCHEMA)
