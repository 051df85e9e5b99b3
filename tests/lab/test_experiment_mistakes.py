"""Every mistake in an experiment file gets one sentence that names the file and the key."""

import pytest

import posse
from posse.algorithms import ALGORITHMS
from posse.families import FAMILIES
from posse.lab.experiments import experiment_from_toml, read_experiment
from posse.policies import POLICIES

GOOD = """
title = "good"
horizon = 10
runs = 2

[bandit]
family = "gaussian"
means = [0.5, 0.1]

[network]
graph = "cycle"
agents = 4

[algorithms.dec-TS]
name = "decentralized"
policy = "thompson-sampling"
"""
POLICY = 'policy = "thompson-sampling"'
FAMILY = 'family = "gaussian"'
POLICY_NAMES = ", ".join(POLICIES)
FAMILY_NAMES = ", ".join(FAMILIES)

MISTAKES = [
    # names
    (POLICY, 'policy = "thomson"', "algorithms.dec-TS.policy: 'thomson' is unknown: did you mean "
     f"'thompson-sampling'? allowed are {POLICY_NAMES}"),
    (POLICY, 'policy = {name = "thomson"}', "algorithms.dec-TS.policy.name: 'thomson' is unknown: "
     f"did you mean 'thompson-sampling'? allowed are {POLICY_NAMES}"),
    (FAMILY, 'family = "gausian"', "bandit.family: 'gausian' is unknown: did you mean 'gaussian'? "
     f"allowed are {FAMILY_NAMES}"),
    (FAMILY, "family = {sigma = 1.0}", "bandit.family.name: is missing: allowed are "
     f"{FAMILY_NAMES}"),
    (FAMILY, "family = 3", "bandit.family: must be a name or a table with a name, got 3"),
    ('"decentralized"', '"dezentral"', "algorithms.dec-TS.name: 'dezentral' is unknown: did you "
     f"mean 'decentralized'? allowed are {', '.join(ALGORITHMS)}"),
    ('"cycle"', '"cycel"', "network.graph: 'cycel' is unknown: did you mean 'cycle'? allowed are "),
    ("agents = 4", 'agents = 4\nweights = "metro"', "network.weights: 'metro' is unknown: did you "
     "mean 'metropolis'? allowed are max-degree"),
    ("agents = 4", 'agents = 4\ndynamics = "gosip"', "network.dynamics: 'gosip' is unknown: did "
     "you mean 'gossip'? allowed are "),
    # keys
    ("horizon", "horizn", "key 'horizn' is unknown: did you mean 'horizon'? allowed are bandit"),
    ("means", "maens", "bandit: key 'maens' is unknown: did you mean 'means'? allowed are site_sd"),
    ("agents", "agnts", "network: cycle argument 'agnts' is unknown: did you mean 'agents'?"),
    ("policy", "polcy", "algorithms.dec-TS: key 'polcy' is unknown: did you mean 'policy'? "),
    (FAMILY, 'family = {name = "gaussian", sgma = 1}', "bandit.family: key 'sgma' is unknown: did "
     "you mean 'sigma'? allowed are name, sigma, prior_mean, prior_sd"),
    # missing
    ("horizon = 10", "", "horizon: is missing"),
    (POLICY, "", "algorithms.dec-TS.policy: is missing"),
    (FAMILY, "", "bandit.family: is missing"),
    ('name = "decentralized"', "", "algorithms.dec-TS.name: is missing: allowed are "),
    ('graph = "cycle"', "", "network.graph: is missing"),
    ("agents = 4", "", "network: cycle needs agents"),
    ("[0.5, 0.1]", '"uniform"', "bandit.means.n_arms: is missing"),
    (FAMILY, FAMILY + '\ndrift = {name = "rotation"}', "bandit.drift.every: is missing"),
    (FAMILY, FAMILY + '\ndrift = {name = "rotate", every = 5}', "bandit.drift.name: 'rotate' is "
     "unknown: did you mean 'rotation'? allowed are rotation, random-walk, sines"),
    (FAMILY, FAMILY + "\ndrift = 500", "bandit.drift: must be a name or a table with a name, got"),
    (FAMILY, FAMILY + '\ndrift = {name = "rotation", every = 0}', "bandit.drift.every: must be a "
     "whole number at least 1, got 0"),
    (FAMILY, FAMILY + '\ndrift = {name = "sines", amplitude = 1, period = "day"}',
     "bandit.drift.period: a rule knows N (agents), K (arms) and T (rounds), not day"),
    (FAMILY, FAMILY + "\nsite_sd = -0.1", "bandit.site_sd: must be a finite number at least 0"),
    (FAMILY, FAMILY + '\nsite_sd = "much"', "bandit.site_sd: a rule knows N (agents), K (arms) and "
     "T (rounds), not much"),
    (FAMILY, FAMILY + "\nsite_sd = [0.1]", "bandit.site_sd: must be one number, or one for each"),
    ("[0.5, 0.1]", "[[[0.5, 0.1]], [[0.5, 0.1]]]", "means are given for 1 agents, but the network "
     "has 4 agents"),
    # types
    ("agents = 4", 'agents = "ten"', "network.agents: must be a whole number "
     "at least 1 and at most 100000000, got 'ten'"),
    ("horizon = 10", 'horizon = "ten"', "horizon: a rule knows N (agents), K (arms) and "
     "T (rounds), not ten"),
    ("runs = 2", "runs = true", "runs: must be a whole number at least 1, got True"),
    ("runs = 2", "runs = {start = 3}", "runs: must be a number or a table of start and stop, got"),
    ("runs = 2", "runs = {start = 3, stop = 3}", "runs.stop must be a whole number at least 4"),
    ("runs = 2", 'engine = "compield"', "engine: 'compield' is unknown: did you mean 'compiled'?"),
    ("runs = 2", 'engine = {dec-T = "auto"}', "engine: algorithm 'dec-T' is unknown: did you mean"),
    ("runs = 2", 'keep = ["agnts"]', "keep: 'agnts' is unknown: did you mean 'agents'?"),
    ("runs = 2", "single = 1", "single: must be true or false, got 1"),
    ('"good"', "3", "title: must be text, got 3"),
    (FAMILY, 'family = {name = "gaussian", sigma = "x"}', "bandit.family.sigma: a rule knows N "
     "(agents), K (arms) and T (rounds), not x, got 'x'"),
    (POLICY, POLICY + "\nlearning_rate = []", "algorithms.dec-TS.learning_rate: must be a number, "
     "got []"),
    ("[0.5, 0.1]", '[0.5, "x"]', "bandit.means: must be numbers, got [0.5, 'x']"),
    ("[algorithms.dec-TS]", "[algorithms]", "algorithms.name.policy: is missing"),
    # values that a constructor refuses
    (FAMILY, 'family = {name = "gaussian", sigma = -1.0}', "bandit.family.sigma: must be a finite "
     "number at least 1e-30 and at most 1e+30, got -1.0"),
    (POLICY, POLICY + "\nlearning_rate = 0", "algorithms.dec-TS.learning_rate: must be a finite "),
    ("0.1]", "inf]", "bandit.means: arm 1 has mean inf, but gaussian means must be numbers in "),
    ("horizon = 10", "horizon = 0", "horizon: must be a whole number at least 1 and "),
    ("runs = 2", "seed = -1", "seed: must be a whole number at least 0, got -1"),
    ("runs = 2", "record = [3, 2]", "record: must be a number of points, or increasing whole "),
    ("[0.5, 0.1]", "[[0.5, 0.1]]", "runs: is 2, but means are given for 1 runs only"),
    # TOML
    ("runs = 2", "runs 2", "invalid TOML: Expected '=' after a key in a key/value pair (at "
     "line 4, column 6)"),
    ("runs = 2", "horizon = 3", "invalid TOML: Cannot overwrite a value (at line 4"),
]  # fmt: skip


@pytest.mark.parametrize(("good", "bad", "sentence"), MISTAKES, ids=[m[2][:40] for m in MISTAKES])
def test_mistakes_get_one_sentence_with_their_key(tmp_path, good, bad, sentence):
    assert good in GOOD
    path = tmp_path / "x.toml"
    path.write_text(GOOD.replace(good, bad, 1))
    with pytest.raises(ValueError, match=r"x\.toml: ") as error:
        read_experiment(path)
    assert str(error.value).startswith(f"{path}: {sentence}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("algorithms", "sentence"),
    [
        ("", "algorithms: is missing"),
        ("[algorithms]", "algorithms: must hold at least one, as a table [algorithms.NAME]"),
        ('[algorithms." "]\nname = "isolated"\npolicy = "greedy"', "algorithms: must have print"),
        ('[algorithms."a.b"]\nname = "isolated"', 'algorithms."a.b".policy: is missing'),
    ],
)
def test_mistakes_about_all_algorithms(algorithms, sentence):
    text = GOOD[: GOOD.index("[algorithms")] + algorithms
    with pytest.raises(ValueError, match="algorithms") as error:
        experiment_from_toml(text)
    assert str(error.value).startswith(sentence)


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "latin.toml").write_bytes(b"title = '\xe9'")
    for name, sentence in (
        ("none.toml", "there is no file "),
        (".", "cannot be read: Is a directory"),
        ("latin.toml", "is not a text file"),
    ):
        with pytest.raises(ValueError, match=sentence):
            read_experiment(tmp_path / name)


def test_braces_and_line_breaks_in_values_do_no_harm():
    text = GOOD.replace('"gaussian"', '{name = "gaussian", sigma = {a = "{b}\\n%s"}}')
    with pytest.raises(ValueError, match=r"^bandit\.family\.sigma: must be a number, got \{'a'"):
        experiment_from_toml(text)
    with pytest.raises(ValueError, match=r"bandit\.means: must be numbers") as error:
        experiment_from_toml(GOOD.replace("0.5,", '"{0} {x}\\n",'))
    assert "{0} {x}" in str(error.value)


def test_what_has_no_experiment():
    with pytest.raises(ValueError, match="result must be a Result or a Comparison, got None"):
        posse.experiment_of(None)
    made_by_hand = posse.Result([1], [[0.0]], [[[1, 0]]], "mine", {"seed": 3})
    with pytest.raises(ValueError, match="settings lack bandit, network, horizon, runs, algorithm"):
        posse.experiment_of(made_by_hand)


@pytest.mark.parametrize("name", ["", " ", "a\nb", 3])
def test_names_that_no_experiment_could_have_are_refused_before_the_first_round(name):
    with pytest.raises(ValueError, match="algorithm names must be printable text"):
        posse.compare(
            posse.Bandit.bernoulli([0.5, 0.4]),
            posse.networks.path(2),
            {name: posse.Isolated(posse.ThompsonSampling())},
            horizon=1,
        )
