"""Rules: arithmetic over N, K and T, where a number stands, and nothing else of Python."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import posse
from posse import rules
from posse.lab.experiments import experiment_from_toml, experiment_to_toml

SIZES = {"N": 25, "K": 4, "T": 1000}
TS = posse.ThompsonSampling()
BANDIT = posse.Bandit.bernoulli([0.7, 0.5])


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
