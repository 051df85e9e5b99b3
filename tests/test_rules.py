"""Rules: arithmetic over N, K and T, where a number stands, and nothing else of Python."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import posse
from posse import rules
from posse.lab.experiments import experiment_from_toml, experiment_to_toml
from posse.lab.sweeps.sweep import plan_sweep

SIZES = {"N": 25, "K": 4, "T": 1000}
TS = posse.ThompsonSampling()
BANDIT = posse.Bandit.bernoulli([0.7, 0.5])
X = np.arange(24.0).reshape(2, 4, 3)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("N", 25),
        ("2*N", 50),
        ("sqrt(N)", 5),
        ("log(T)/N", math.log(1000) / 25),
        ("-N + K**2 // 3", -20),
        ("max(1, round(N / 10))", 2),
        ("min(N, K) * exp(0 * T)", 4),
        ("ceil(T / 3) - floor(log2(K))", 332),
        (" abs(-N) ", 25),
    ],
)
def test_they_are_arithmetic(text, value):
    assert rules.evaluate_rule("rate", text, SIZES) == pytest.approx(value, rel=1e-15)
    assert rules.is_rule(text)


@given(st.integers(1, 50), st.integers(2, 9), st.integers(1, 10**6))
def test_they_agree_with_python(n, k, t):
    # an oracle: Python's own evaluation of the same text
    for text in ("sqrt(N)*K", "log(T + 1)/N", "(N - K)*2 + T/7"):
        names = {"N": n, "K": k, "T": t, "sqrt": math.sqrt, "log": math.log}
        expected = eval(text, {"__builtins__": {}}, names)
        assert rules.evaluate_rule("rate", text, {"N": n, "K": k, "T": t}) == pytest.approx(
            expected, rel=1e-14
        )


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')", "N.real", "[N]", "N if N else K", "lambda N: N",
        "N*True", "N and K", "N < K", "'N'", "N; K", "f(N)", "sqrt(x=N)", "sqrt()", "N[0]", "M",
        "3", "", "N**", "N*1j", "N@K", "(N := 3)", "sqrt", "N" * 200, "*N", "{N}", "f'{N}'",
        3, None, True,
    ],
)  # fmt: skip
def test_nothing_else_of_python_is_reached(text):
    assert not rules.is_rule(text)
    with pytest.raises(ValueError, match=r"^rate") as caught:
        rules.parse_rule("rate", text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["9**9**9*N", "log(N - 25)", "sqrt(-N)", "1/(N - 25)", "(-N)**0.5"]
)
def test_a_rule_without_a_finite_value_says_for_which_sizes(text):
    with pytest.raises(ValueError, match="has no finite value for N = 25, K = 4, T = 1000"):
        rules.evaluate_rule("rate", text, SIZES)


def test_a_simulation_plays_the_number():
    network = posse.networks.cycle(9)

    def play(rate, horizon=20):
        algorithm = posse.Decentralized(TS, learning_rate=rate)
        return posse.simulate(
            BANDIT, network, algorithm, horizon=horizon, runs=2, engine="reference"
        )

    by_rule = play("sqrt(N)")
    assert by_rule.settings["algorithm"]["learning_rate"] == 3
    assert (by_rule.regret == play(3.0).regret).all()
    assert (by_rule.regret != play(9.0).regret).any()
    assert play("N", horizon="2*N + K").horizon == 20
    for rate, sentence in (
        ("-N", "algorithm: learning_rate must be a finite number above 0, got -9"),
        ("sqrt(M)", "learning_rate: a rule knows N (agents), K (arms) and T (rounds), not M"),
    ):
        with pytest.raises(ValueError, match=re.escape(sentence)):
            play(rate)
    with pytest.raises(ValueError, match="horizon must be a whole number"):
        play(1.0, horizon="N/2")
    with pytest.raises(ValueError, match="horizon may depend on N and K only, got '2\\*T'"):
        play(1.0, horizon="2*T")


@pytest.mark.parametrize("site_sd", ["x", [0.1, "x"]])
def test_a_wrong_rule_is_refused_under_the_name_that_the_user_wrote(site_sd):
    with pytest.raises(ValueError, match=r"^site_sd: a rule knows N"):
        posse.Bandit.gaussian([0.5, 0.1], site_sd=site_sd)
    bandit = posse.Bandit.gaussian([0.5, 0.1], site_sd="1/(N - 3)")
    with pytest.raises(ValueError, match=r"site_sd: '1/.N - 3.' has no finite value for N = 3"):
        posse.simulate(bandit, posse.networks.cycle(3), posse.Isolated(TS), horizon=2)


def test_rules_inside_policies_and_drift():
    bandit = BANDIT.drifting(every="T/4")
    algorithm = posse.Isolated(posse.BayesUCB(log_power="K"), half_life="T/2")
    settings = posse.simulate(
        bandit, posse.networks.cycle(3), algorithm, horizon=40, runs=1
    ).settings
    assert settings["bandit"]["drift"]["every"] == 10
    assert settings["algorithm"]["half_life"] == 20
    assert settings["algorithm"]["policy"]["log_power"] == 2
    window = posse.SlidingWindowUCB(window="T/4")
    result = posse.simulate(BANDIT, posse.networks.cycle(3), window, horizon=40, runs=1)
    assert result.settings["algorithm"]["window"] == 10


def test_networks_know_their_own_n():
    by_rule = posse.networks.erdos_renyi(20, "5*log(N)/N", seed=3)
    p = 5 * math.log(20) / 20
    assert by_rule.edges.tolist() == posse.networks.erdos_renyi(20, p, seed=3).edges.tolist()
    assert repr(by_rule) == "erdos_renyi(agents=20, p='5*log(N)/N', seed=3)"
    ring = posse.networks.regular_ring(12, "N/4")
    assert ring.spectral_gap == posse.networks.regular_ring(12, 3).spectral_gap
    with pytest.raises(ValueError, match="p may depend on N only"):
        posse.networks.erdos_renyi(20, "1/T", seed=3)


def test_an_experiment_keeps_the_rule_and_files_have_it():
    experiment = posse.Experiment(
        BANDIT.drifting(every="T/4"),
        posse.networks.erdos_renyi(12, "3*log(N)/N", seed="run"),
        {"sqrt N": posse.Decentralized(TS, learning_rate="sqrt(N)")},
        horizon="2*N",
        runs=2,
    )
    text = experiment_to_toml(experiment)
    assert 'learning_rate = "sqrt(N)"' in text
    assert 'horizon = "2*N"' in text
    assert experiment_from_toml(text) == experiment
    assert experiment.sizes == {"N": 12, "K": 2, "T": 24}
    result = experiment.run()["sqrt N"]
    assert result.horizon == 24
    assert result.settings["algorithm"]["learning_rate"] == pytest.approx(math.sqrt(12))


def test_a_wrong_rule_in_a_file_names_its_key():
    text = experiment_to_toml(
        posse.Experiment(
            BANDIT, posse.networks.cycle(4), {"a": posse.Decentralized(TS, learning_rate=2.0)}, 5
        )
    )
    with pytest.raises(ValueError, match=r"algorithms\.a\.learning_rate: .*'sqrt\(M\)'"):
        experiment_from_toml(text.replace("2.0", '"sqrt(M)"'))


# Every number that can stand in a world: the rule, its value for N = 4, K = 2, T = 40 (K = 4 where
# the means are drawn), and the number that the settings of a result must have.
FAMILY = posse.families.Gaussian(sigma="sqrt(N)", prior_mean="1/K", prior_sd="T/10")
WORLDS = {
    "family": (posse.Bandit(FAMILY, [0.5, 0.1]), {}, posse.families.Gaussian(2, 0.5, 4)),
    "means": (posse.Bandit.gaussian([0.5, "1/N"]), {}, (0.5, 0.25)),
    "drawn means": (
        posse.Bandit.bernoulli(posse.bandits.UniformMeans("N", low="1/T", high="2/K")),
        {},
        posse.bandits.UniformMeans(4, 0.025, 0.5),
    ),
    "sites": (
        posse.Bandit.gaussian([0.5, 0.1], site_sd="1/N"),
        {},
        posse.bandits.SiteMeans((0.5, 0.1), 0.25),
    ),
    "sites by arm": (
        posse.Bandit.gaussian([0.5, 0.1], site_sd=["1/N", 0.5]),
        {},
        posse.bandits.SiteMeans((0.5, 0.1), (0.25, 0.5)),
    ),
    "delay": (
        BANDIT.delayed(mean="T/4", never="1/N"),
        {},
        posse.bandits.GeometricDelay(10, 0.25),
    ),
    "asleep": (
        BANDIT,
        {"activity": posse.activity.Asleep("1/N")},
        posse.activity.Asleep(0.25),
    ),
    "rates": (
        BANDIT,
        {"activity": posse.activity.Rates([1, "1/N", "1/K", "10/T"])},
        posse.activity.Rates([1, 0.25, 0.5, 0.25]),
    ),
    "shifts": (
        BANDIT,
        {"activity": posse.activity.Shifts([1, 1, 1, "T/2"], leaves=["T", "T", 20, "T"])},
        posse.activity.Shifts([1, 1, 1, 20], leaves=[40, 40, 20, 40]),
    ),
}


@pytest.mark.parametrize("name", WORLDS)
def test_rules_stand_for_every_number_of_a_world(name):
    bandit, options, expected = WORLDS[name]
    experiment = posse.Experiment(
        bandit,
        posse.networks.cycle(4).failing("1/N"),
        {"a": posse.Decentralized(TS)},
        40,
        runs=1,
        record=("T/2", "T"),
        **options,
    )
    # the file keeps the rules, the values are those that one would compute by hand
    assert experiment_from_toml(experiment_to_toml(experiment)) == experiment
    assert hash(experiment.bandit) == hash(bandit)
    numbers = experiment.resolve()
    parts = (numbers.bandit.family, numbers.bandit.means, numbers.bandit.delay, numbers.activity)
    assert expected in parts
    assert rules.find_rules(numbers) == {}
    assert numbers.network == posse.networks.cycle(4).failing(0.25)
    assert numbers.record == (20, 40)
    # and they are what is played, bit for bit
    played, by_hand = experiment.compare(engine="reference"), numbers.compare(engine="reference")
    assert (played["a"].regret == by_hand["a"].regret).all()
    assert played["a"].settings == by_hand["a"].settings


def test_a_family_of_an_algorithm_and_a_bandit_with_contexts_take_rules():
    own = posse.Isolated(TS, family=posse.families.Gaussian(prior_sd="1/N"))
    bandit = posse.ContextualBandit(
        posse.families.Linear(prior_sd="1/N"),
        posse.bandits.UnitFeatures("2*N", features=3),
        posse.NormalWeights("2*N", sd="K/T"),
    )
    network = posse.networks.cycle(2)
    result = posse.simulate(bandit, network, own, horizon="5*K", runs=1, record="T/4")
    assert result.settings["algorithm"]["family"]["prior_sd"] == 0.5
    assert result.settings["bandit"]["family"]["prior_sd"] == 0.5
    assert result.settings["bandit"]["theta"]["n_arms"] == 4
    assert result.settings["bandit"]["theta"]["sd"] == 0.2
    assert result.settings["horizon"] == 20
    assert len(result.times) == 5
    given = posse.ContextualBandit(
        posse.families.Linear(prior_sd="1/N"),
        posse.bandits.UnitFeatures(2, features=3),
        [[0.1, 0.2, 0.3], [0.3, 0.2, 0.1]],
    )
    assert given.n_arms == 2
    posse.simulate(given, network, posse.Decentralized(TS), horizon=5, runs=1)


def test_a_network_with_a_rule_for_its_links_is_that_with_the_number():
    directed = posse.networks.random_directed(4, 2, seed=1)
    network = posse.networks.cycle(4)
    for full in (network, directed):
        draws = [
            full.failing(p).sampler(2)(np.random.default_rng(1)) @ X for p in ("1/N", 0.25, 0.5)
        ]
        assert (draws[0] == draws[1]).all()
        assert (draws[0] != draws[2]).any()
    assert network.failing("1/N").spectral_gap == network.failing(0.25).spectral_gap
    costs = [posse.theory.network_cost(network.failing(p)).total for p in ("1/N", 0.25)]
    assert costs[0] == costs[1]


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: posse.Bandit.gaussian([0.5, 0.1], sigma="-N"), "bandit: sigma must be .*got -4"),
        (lambda: posse.Bandit.bernoulli([0.5, "N"]), "bandit: means: arm 1 has mean 4.0"),
        (lambda: BANDIT.delayed(mean="-T"), "bandit: mean must be .* at least 0, got -40"),
        (
            lambda: posse.Bandit.bernoulli(posse.bandits.UniformMeans("K")),
            "n_arms may depend on N only, got 'K'",
        ),
        (
            lambda: posse.Bandit.bernoulli(posse.bandits.UniformMeans("N/3")),
            "n_arms must be a whole number at least 2, got 1.3",
        ),
        (lambda: posse.families.Gaussian(sigma="sqrt(M)"), r"sigma: a rule knows N .*, not M"),
        (lambda: posse.activity.Asleep("often"), r"p: a rule knows N .*, not often"),
        (lambda: posse.bandits.UniformMeans("2"), "n_arms must be a number or a rule of N"),
        (lambda: posse.networks.cycle(4).failing("N"), "p must be .* below 1, got 4"),
        (lambda: posse.networks.cycle(4).failing("1/T"), "p may depend on N only"),
    ],
)
def test_a_wrong_rule_is_refused_in_one_sentence(build, sentence):
    def play():
        posse.simulate(build(), posse.networks.cycle(4), posse.Decentralized(TS), horizon=40)

    with pytest.raises(ValueError, match=f"^{sentence}") as caught:
        play()
    assert "\n" not in str(caught.value)


def test_a_wrong_rule_of_activity_or_record_is_refused():
    network = posse.networks.cycle(4)
    for options, sentence in (
        ({"activity": posse.activity.Asleep("N")}, "activity: p must be .* got 4"),
        ({"record": "T/7"}, "record must be a whole number at least 1, got 5.7"),
        ({"record": ["T/2", "2*T"]}, "record must be a number of points, or increasing"),
        ({"record": "M"}, "record: a rule knows N"),
    ):
        for play in (posse.simulate, posse.Experiment):
            algorithm = posse.Decentralized(TS)
            argument = algorithm if play is posse.simulate else {"a": algorithm}
            with pytest.raises(ValueError, match=f"^{sentence}"):
                play(BANDIT, network, argument, horizon=40, **options)


def test_outside_of_experiments_they_are_refused():
    family = posse.families.Gaussian(sigma="N")
    with pytest.raises(ValueError, match=r"^family: sigma must be a number here, got 'N'"):
        posse.verdict(family, np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"^bandit: means must be a number here, got '1/N'"):
        _ = posse.Bandit.gaussian([0.5, "1/N"]).gaps
    log = {"arm": [0, 1], "probability": [0.5, 0.5], "reward": [0.0, 1.0]}
    with pytest.raises(ValueError, match=r"^family: sigma must be a number here, got 'N'"):
        posse.replay(log, TS, family)


def test_a_sweep_over_numbers_of_a_world_shows_the_rule_and_its_value(tmp_path):
    experiment = posse.Experiment(
        posse.Bandit.gaussian([0.5, 0.1]).delayed(mean=2),
        posse.networks.cycle(4).failing(0.1),
        {"a": posse.Decentralized(TS)},
        20,
        runs=2,
        engine="reference",
    )
    grid = {
        "network.agents": [4, 5],
        "bandit.family.sigma": [1, "sqrt(N)"],
        "bandit.delay.mean": ["T/N"],
        "network.dynamics.p": ["1/N"],
    }
    cells = plan_sweep(experiment, grid, folder=tmp_path).plan
    assert [cell.labels["bandit.family.sigma"] for cell in cells] == [1, "sqrt(N)"] * 2
    assert [cell.played["bandit.family.sigma"] for cell in cells] == [1, 2, 1, math.sqrt(5)]
    assert [cell.played["bandit.delay.mean"] for cell in cells] == [5, 5, 4, 4]
    settings = cells[-1].jobs["a"].settings
    assert settings["bandit"]["family"]["sigma"] == math.sqrt(5)
    assert settings["bandit"]["delay"]["mean"] == 4
    assert settings["network"]["dynamics"]["p"] == 0.2


def test_a_word_that_an_algorithm_knows_is_no_rule():
    for rate in ("learnt", "N"):
        algorithm = posse.PushSum(TS, learning_rate=rate)
        assert rules.find_rules(algorithm) == ({"learning_rate": "N"} if rate == "N" else {})
