"""Predicted regret: the closure against a plain version, known limits and one simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import lambertw
from scipy.stats import gamma, norm

import posse
from posse import networks, theory
from posse.families import Bernoulli, Exponential, Gaussian, Poisson
from posse.summary import summarise
from posse.theory import prediction
from posse.theory.network_costs import compute_decay, split_cost

P17 = posse.Bandit.gaussian([0.5] + [0.1] * 16)


@pytest.mark.parametrize("family", [Gaussian(sigma=2.0), Bernoulli(), Poisson(), Exponential()])
def test_chances_are_those_of_thompson_sampling(family: object) -> None:
    # three classes, of which the second has two arms, with very different numbers of observations
    means = np.array([0.3, 0.4, 0.6])
    counts = np.array([[3.0, 20.0, 800.0], [0.0, 1.0, 5.0], [50.0, 50.0, 40.0]])
    belief = family.prior()[:, None, None] + counts * family.statistic(np.tile(means, (3, 1)))
    chances = prediction._choose_classes(family, belief, np.array([1, 2, 1]))
    for row, chance in enumerate(chances):
        expected = summarise(family, belief[:, row][:, [0, 1, 1, 2]]).probability_best
        np.testing.assert_allclose(chance, expected[[0, 1, 3]], atol=4e-3)
        assert chance @ [1, 2, 1] == pytest.approx(1)


def follow_plainly(
    means: list[float], n_agents: int, decay: np.ndarray, kappa_best: float, luck: float
) -> list[float]:
    """The closure for Gaussian arms of sigma 1, arm by arm and sum by sum: regret by round."""
    best, horizon = max(means), len(decay) - 1
    history: list[list[float]] = []  # p of every round
    regret, curve = 0.0, []
    for t in range(horizon):
        posterior = []
        for k, mean in enumerate(means):
            c = sum(p[k] for p in history)
            q = sum(p[k] * decay[t - tau] for tau, p in enumerate(history))
            if c == 0:
                posterior.append((0.0, 1.0))
                continue
            kappa = kappa_best if mean == best else 0.25
            n = 1 / (1 / (n_agents * c) + kappa * (q / c**2 - 1 / (n_agents * c)))
            shift = luck / math.sqrt(max(n_agents * c, 1)) if mean == best else 0.0
            posterior.append((n * (mean + shift) / (1 + n), 1 / math.sqrt(1 + n)))
        x = np.linspace(-8, 8, 4001)
        chances = []
        for k in range(len(means)):
            others = [norm.cdf(x, *posterior[j]) for j in range(len(means)) if j != k]
            chances.append(np.trapezoid(norm.pdf(x, *posterior[k]) * np.prod(others, axis=0), x))
        history.append([chance / sum(chances) for chance in chances])
        regret += sum(p * (best - mean) for p, mean in zip(history[-1], means, strict=True))
        curve.append(regret)
    return curve


def test_closure_is_that_of_the_docstring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "STEPS", 1000)  # every round is a step
    means = [0.5, 0.1, 0.1, 0.3]
    network = networks.path(5)
    decay = compute_decay(network, 12)
    own = split_cost(network).own
    assert prediction._fit_kappa(split_cost(network)) == pytest.approx(2 - own)
    predicted = theory.predicted_regret(posse.Bandit.gaussian(means), network, 12)
    assert predicted.times.tolist() == list(range(1, 13))
    for lane in (0, 4, 9):
        plain = follow_plainly(means, 5, decay, 2 - own, prediction.LUCK[lane])
        np.testing.assert_allclose(predicted.by_luck[:, lane], plain, rtol=5e-3)


def test_steps_change_little(monkeypatch: pytest.MonkeyPatch) -> None:
    coarse = theory.predicted_regret(P17, networks.cycle(36), 200)
    monkeypatch.setattr(prediction, "STEPS", 1000)
    fine = theory.predicted_regret(P17, networks.cycle(36), 200)
    assert coarse.final == pytest.approx(fine.final, rel=0.01)
    assert len(coarse.times) < len(fine.times)


def test_shares_of_the_cost() -> None:
    # a leaf of a large star keeps what it sees; on a cycle the neighbours share it
    assert split_cost(networks.star(60)).own > 0.95
    assert split_cost(networks.cycle(60)).own < 0.2
    assert split_cost(networks.star(60)).random == 0
    # gossip of random pairs: E[W] alone would cost half, since E[W^2] = E[W]
    assert split_cost(networks.complete(60).gossip()).random == pytest.approx(0.5, abs=0.02)
    assert split_cost(networks.complete(5)) == (0, 0)
    assert split_cost(networks.complete(1)) == (0, 0)
    # own share by brute force
    weights = np.asarray(networks.path(5).weights)
    power, own, total = np.eye(5), 0.0, 0.0
    for _ in range(400):
        power = power @ weights
        own += float(((power.diagonal() - 0.2) ** 2).sum())
        total += float(((power - 0.2) ** 2).sum())
    assert split_cost(networks.path(5)).own == pytest.approx(own / total)


def test_complete_graph_follows_its_closed_form() -> None:
    """Sum of gap/(2 N d) LambertW((N T d / sqrt(2 pi))^2): the pulls at which P(best) balances."""
    divergence = 0.4**2 / 2
    argument = (64 * 800 * divergence / math.sqrt(2 * math.pi)) ** 2
    expected = 16 * 0.4 / (2 * 64 * divergence) * float(lambertw(argument).real)
    predicted = theory.predicted_regret(P17, networks.complete(64), 800)
    assert predicted.final == pytest.approx(expected, rel=0.03)
    # 400 simulated runs gave 7.63 +- 0.05
    assert predicted.final == pytest.approx(7.63, rel=0.05)


def test_prediction_is_near_a_simulation() -> None:
    bandit, network = posse.Bandit.bernoulli([0.7, 0.4, 0.4]), networks.path(6)
    dec_ts = posse.Decentralized(posse.ThompsonSampling())
    result = posse.simulate(
        bandit, network, dec_ts, horizon=150, runs=150, seed=5, engine="reference", record=2
    )
    summary = result.summary()
    predicted = theory.predicted_regret(bandit, network, 150)
    assert summary.standard_error < 0.05 * summary.mean
    assert predicted.final == pytest.approx(summary.mean, rel=0.2)


def test_push_sum_is_predicted_by_its_own_weights() -> None:
    """On a star, where dec-TS pays for the hub: 150 runs, a standard error below 2%."""
    network = networks.star(36)
    push_sum = posse.PushSum(posse.ThompsonSampling())
    result = posse.simulate(P17, network, push_sum, horizon=200, runs=150, seed=5, record=2)
    summary = result.summary()
    predicted = theory.predicted_regret(P17, network, 200, merge="push-sum")
    assert summary.standard_error < 0.02 * summary.mean
    assert predicted.final == pytest.approx(summary.mean, rel=0.1)
    # the prediction for dec-TS would be far off
    assert theory.predicted_regret(P17, network, 200).final > 1.3 * summary.mean


def test_push_sum_is_dec_ts_where_degrees_are_equal() -> None:
    for network in (networks.cycle(12), networks.complete(5), networks.complete(1)):
        average = theory.predicted_regret(P17, network, 100)
        pushed = theory.predicted_regret(P17, network, 100, merge="push-sum")
        # shares of the cost are cut at the horizon for push-sum
        assert pushed.final == pytest.approx(average.final, rel=1e-3)


def test_slow_networks_cost_more_and_quantiles_are_ordered() -> None:
    finals = [
        theory.predicted_regret(P17, network, 300).final
        for network in (
            networks.complete(36),
            networks.grid(6, 6),
            networks.cycle(36),
            networks.star(36),
            networks.complete(36).gossip(),
        )
    ]
    assert finals == sorted(finals)
    predicted = theory.predicted_regret(P17, networks.cycle(36).failing(0.5), 300)
    assert predicted.times[-1] == predicted.horizon == 300
    assert (np.diff(predicted.mean) > 0).all()
    low, median, high = (predicted.quantile(level)[-1] for level in (0.05, 0.5, 0.95))
    assert low < median < high
    assert low < predicted.final < high
    assert f"at round 300: {predicted.final:.3g}" in str(predicted)


def test_spread_is_that_of_the_docstring() -> None:
    """The lucks of all arms add up, each as resistors in parallel: late and early."""
    counts = np.array([[20.0, 30.0, 90.0], [1.0, 2.0, 50.0]])
    gaps, arms = np.array([0.4, 0.1, 0.0]), np.array([3, 1, 1])
    spread = prediction._spread_runs(np.full(3, 4.0), gaps, 10, counts, arms)
    for lane, row in enumerate(counts):
        total = 0.0
        for c, gap, count in zip(row[:2], gaps[:2], arms[:2], strict=True):
            pulls = 10 * c  # of the network
            late = (2 * 2.0 * math.sqrt(pulls) / gap) ** 2
            total += count * (gap / 10) ** 2 / (1 / late + 1 / pulls**2)
        assert spread[lane] == pytest.approx(math.sqrt(total))


def test_quantiles_are_those_of_a_gamma_mixture() -> None:
    by_luck = np.linspace(14, 9, 10)[None]
    spread = np.linspace(4, 2, 10)[None]
    predicted = prediction.PredictedRegret(np.array([1]), np.array([11.0]), by_luck, spread)
    lucks = norm.ppf((np.arange(200) + 0.5) / 200)
    mean = np.interp(lucks, prediction.LUCK, by_luck[0])
    sd = np.interp(lucks, prediction.LUCK, spread[0])
    x = np.linspace(0, 40, 1001)
    below = gamma.cdf(x[:, None], (mean / sd) ** 2, scale=sd**2 / mean).mean(axis=1)
    for level in (0.05, 0.5, 0.95, 0.99):
        expected = np.interp(level, below, x)
        assert predicted.quantile(level)[0] == pytest.approx(expected, rel=0.02)


def test_quantiles_cover_simulated_runs() -> None:
    """Few arms, where runs differ most by the luck of bad arms; 95% of 400 runs, sd 1.1%."""
    bandit, network = posse.Bandit.gaussian([0.5, 0.2, 0.2, 0.1]), networks.cycle(12)
    dec_ts = posse.Decentralized(posse.ThompsonSampling())
    result = posse.simulate(bandit, network, dec_ts, horizon=300, runs=400, seed=5, record=2)
    final = result.regret[:, -1]
    predicted = theory.predicted_regret(bandit, network, 300)
    assert np.mean(final <= predicted.quantile(0.95)[-1]) == pytest.approx(0.95, abs=0.04)
    assert np.mean(final <= predicted.quantile(0.05)[-1]) == pytest.approx(0.05, abs=0.04)


def test_equal_arms_have_no_regret() -> None:
    predicted = theory.predicted_regret(posse.Bandit.gaussian([0.5, 0.5]), networks.cycle(4), 9)
    assert predicted.final == 0
    assert (predicted.quantile(0.95) == 0).all()


def test_one_agent_and_one_round() -> None:
    bandit = posse.Bandit.gaussian([0.5, 0.1])
    assert theory.predicted_regret(bandit, networks.complete(1), 1).final == pytest.approx(0.2)
    assert theory.predicted_regret(bandit, networks.complete(1), 100).final < 20


def test_weights_that_are_not_symmetric_are_sampled() -> None:
    rotation = np.roll(np.eye(6), 1, axis=0) / 2 + np.eye(6) / 2
    predicted = theory.predicted_regret(P17, networks.from_matrix(rotation), 50)
    # the same spectrum of W W^T as lazy weights of a cycle: a similar cost
    lazy = networks.from_matrix((rotation + rotation.T) / 2)
    assert predicted.final == pytest.approx(theory.predicted_regret(P17, lazy, 50).final, rel=0.1)


@pytest.mark.parametrize(
    ("bandit", "message"),
    [
        (P17.drifting(every=50), "needs a bandit without drift"),
        (P17.delayed(mean=3), "needs a bandit without delay"),
        (posse.Bandit.gaussian([0.5, 0.1], site_sd=0.1), "needs fixed means, one number per arm"),
        (posse.Bandit.gaussian([[0.5, 0.1]] * 3), "needs fixed means, one number per arm"),
        (
            posse.Bandit(posse.families.GaussianUnknownVariance(), [0.5, 0.1]),
            "variance the mean determines, which family 'gaussian-unknown-variance'",
        ),
    ],
)
def test_prediction_refuses(bandit: posse.Bandit, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        theory.predicted_regret(bandit, networks.cycle(4), 10)


def test_prediction_refuses_other_arguments() -> None:
    with pytest.raises(ValueError, match="horizon must be a whole number at least 1, got 0"):
        theory.predicted_regret(P17, networks.cycle(4), 0)
    with pytest.raises(ValueError, match="fresh graph in every run"):
        theory.predicted_regret(P17, networks.erdos_renyi(9, 0.5, seed="run"), 10)
    with pytest.raises(ValueError, match="merge 'pushsum' is unknown: did you mean 'push-sum'"):
        theory.predicted_regret(P17, networks.cycle(4), 10, merge="pushsum")
    with pytest.raises(ValueError, match=r'directed network has no .*: use merge="push-sum"'):
        theory.predicted_regret(P17, networks.random_directed(6, 2, seed=1), 10)
    with pytest.raises(ValueError, match="level must be a finite number above 0 and below 1"):
        theory.predicted_regret(P17, networks.cycle(4), 10).quantile(1)
