"""Dynamics of one's own: told the round, checked once, written and read like everything else."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import posse
from posse import import_strings, networks
from posse.networks import Network
from posse.networks.operators import GossipPairs
from posse.randomness import Streams

RING, LINE = networks.cycle(6), networks.path(6)


def every_second(t: int) -> bool:
    return t % 2 == 0


@dataclass(frozen=True)
class Schedule:
    """The ring in the rounds given, silence in all others."""

    rounds: tuple[int, ...] = (2, 4)
    when: Callable[[int], bool] | None = None

    def sampler(self, network: Network, n_runs: int) -> Any:
        weights, silence = np.asarray(network.weights), np.eye(network.n_agents)
        up = self.when or self.rounds.__contains__
        return lambda randomness, t: weights if up(t) else silence


@dataclass(frozen=True)
class Averaged(Schedule):
    def expected_links(self, network: Network) -> Any:
        return network.link_weights / 2


class Plain:
    """No dataclass, and a function that is not told the round."""

    def __init__(self, weights: Any) -> None:
        self.weights = weights

    def sampler(self, network: Network, n_runs: int) -> Any:
        return lambda randomness: self.weights


def streams(n_runs: int) -> Streams:
    return Streams.for_runs(1, range(n_runs), "network")


def seen(network: Network, n_runs: int, *t: int) -> Any:
    """W of the next round, (R, N, N), by mixing the identity."""
    eye = np.broadcast_to(np.eye(network.n_agents), (n_runs, *2 * (network.n_agents,))).copy()
    return network.sampler(n_runs)(streams(n_runs), *t) @ eye


def test_own_dynamics_are_told_the_round() -> None:
    draw, source = RING.varying(Schedule()).sampler(2), streams(2)
    silent = [np.array_equal(draw(source, t), np.eye(6)) for t in range(1, 6)]
    assert silent == [True, False, True, False, True]
    counted = RING.varying(Schedule()).sampler(2)
    assert [np.array_equal(counted(source), np.eye(6)) for _ in range(5)] == silent


@pytest.mark.parametrize("network", [RING, RING.gossip(), RING.failing(0.3)], ids=str)
def test_every_sampler_takes_the_round_or_counts(network: Network) -> None:
    told, counts = network.sampler(3), network.sampler(3)
    first, second = streams(3), streams(3)
    eye = np.broadcast_to(np.eye(6), (3, 6, 6)).copy()
    for t in (1, 2, 3):
        np.testing.assert_array_equal(told(first, t) @ eye, counts(second) @ eye)


W = np.asarray(LINE.weights)
KINDS = {
    "dense": W,
    "matrix": W.view(np.matrix),  # whose constructor warns
    "of each run": np.stack([W, np.eye(6)]),
    "sparse": sp.csr_array(W),
    "coo": sp.coo_matrix(W),
    "operator": GossipPairs(np.array([0, 1]), np.array([3, 2])),
}


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_any_kind_of_weights_mixes(kind: str) -> None:
    weights = KINDS[kind]
    network = RING.varying(Plain(weights))
    mixed = seen(network, 2)
    if kind == "operator":
        assert mixed[0, 0, 3] == mixed[1, 2, 1] == 0.5
    else:
        own = weights if kind == "of each run" else np.stack(2 * [W])
        np.testing.assert_allclose(mixed, own, rtol=0, atol=1e-15)
    x = np.random.default_rng(0).normal(size=(2, 2, 6, 3))
    np.testing.assert_allclose(network.sampler(2)(streams(2)) @ x, mixed @ x, atol=1e-14)


class Doubling:
    """An operator that is not stochastic."""

    def __matmul__(self, x: Any) -> Any:
        return 2 * x


class Swapping:
    """Rows sum to 1, columns do not: agent 0 copies agent 1."""

    def __matmul__(self, x: Any) -> Any:
        return np.concatenate([x[..., 1:2, :], x[..., 1:, :]], axis=-2)


class Cutting:
    def __matmul__(self, x: Any) -> Any:
        return x[..., 1:, :]


ROWS_ONLY = np.full((6, 6), 0.0)
ROWS_ONLY[:, 0] = 1.0
ALMOST = W.copy()
ALMOST[0, 0] += 1e-8
NEGATIVE = np.eye(6)
NEGATIVE[:2, :2] = [[2, -1], [-1, 2]]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.eye(5), r"shape \(6, 6\), or \(2, 6, 6\) for each run's own, got \(5, 5\)"),
        (np.zeros((3, 6, 6)), r"got \(3, 6, 6\)"),
        (sp.eye_array(7), r"got \(7, 7\)"),
        (W.tolist(), r"an array, a sparse matrix or an operator with @, got \[\["),
        (None, "operator with @, got None"),
        (ROWS_ONLY, "must give doubly stochastic weights .* but a row or column is off by 5"),
        (ROWS_ONLY.T, "but a row or column is off by 5"),
        (sp.csr_array(ROWS_ONLY), "off by 5; doubly_stochastic = False in its class admits"),
        (np.stack([W, ALMOST]), "off by 1e-08"),
        (NEGATIVE, "but an entry is negative"),
        (sp.csr_array(NEGATIVE), "but an entry is negative"),
        (np.full((6, 6), np.nan), "a row or column is off by nan"),
        (Doubling(), "off by"),
        (Swapping(), "off by"),
        (Cutting(), r"keep the shape \(2, 6, 2\) of what they mix, got \(2, 5, 2\)"),
        (sp.linalg.aslinearoperator(W), "its weights cannot mix agents by @"),
    ],
)
def test_weights_that_cannot_be_are_refused_in_the_first_round(weights: Any, message: str) -> None:
    draw = RING.varying(Plain(weights)).sampler(2)
    with pytest.raises(ValueError, match=f"dynamics Plain.*{message}"):
        draw(streams(2), 1)


def test_dynamics_may_say_that_they_are_not_doubly_stochastic() -> None:
    class Leader(Plain):
        doubly_stochastic = False

    network = RING.varying(Leader(ROWS_ONLY))
    np.testing.assert_array_equal(seen(network, 1)[0], ROWS_ONLY)
    with pytest.raises(ValueError, match=r"got \(5, 5\)"):
        seen(RING.varying(Leader(np.eye(5))), 1)


def test_what_is_no_dynamics_is_refused() -> None:
    for wrong in (Schedule, "gossip", 3, np.eye(6)):
        with pytest.raises(ValueError, match="dynamics must be one such as"):
            RING.varying(wrong)
    with pytest.raises(ValueError, match="dynamics do not chain"):
        RING.gossip().varying(Schedule())


def test_a_check_of_ones_own_is_asked() -> None:
    class OnRings(Plain):
        def check(self, network: Network) -> None:
            if network.graph != "cycle":
                raise ValueError("only rings")

    RING.varying(OnRings(W))
    with pytest.raises(ValueError, match="only rings"):
        LINE.varying(OnRings(W))


def test_expected_weights_are_known_if_the_dynamics_say_them() -> None:
    unknown, known = RING.varying(Schedule()), RING.varying(Averaged())
    for name in ("expected_weights", "spectral_gap", "second_eigenvalue"):
        with pytest.raises(ValueError, match=r"expected weights of cycle.* give Schedule a method"):
            getattr(unknown, name)
    np.testing.assert_allclose(known.spectral_gap, RING.spectral_gap / 2, rtol=1e-12)


@pytest.mark.parametrize(
    "dynamics", [Schedule(), Schedule((3,)), Averaged(when=every_second)], ids=["a", "b", "c"]
)
def test_a_dataclass_travels_as_plain_data(dynamics: Schedule) -> None:
    network = RING.varying(dynamics)
    data = json.loads(json.dumps(network.to_data()))
    assert data["dynamics"]["name"].endswith(f":{type(dynamics).__name__}")
    assert Network.from_data(data) == network
    assert hash(Network.from_data(data)) == hash(network)
    np.testing.assert_array_equal(seen(Network.from_data(data), 1, 4), seen(network, 1, 4))


def test_what_has_no_name_is_written_by_its_repr_and_not_read_back() -> None:
    @dataclass(frozen=True)
    class Local(Schedule):
        pass

    for dynamics in (Plain(W), Local()):
        data = RING.varying(dynamics).to_data()
        shown = repr(dynamics).split(" at 0x")[0][:90]  # short, and alike in every process
        assert list(data["dynamics"]) == [import_strings.REPR_ONLY]
        assert data["dynamics"][import_strings.REPR_ONLY].startswith(shown)
        assert " at 0x" not in data["dynamics"][import_strings.REPR_ONLY]
        with pytest.raises(ValueError, match="was saved by its repr alone and cannot be built"):
            Network.from_data(data)
    odd = RING.varying(Schedule(when=lambda t: True)).to_data()["dynamics"]
    assert list(odd["when"]) == [import_strings.REPR_ONLY]


def test_what_the_main_script_defines_is_of_no_use_to_another_program() -> None:
    code = """
import dataclasses, posse
from posse.networks import cycle
@dataclasses.dataclass(frozen=True)
class Mine:
    def sampler(self, network, n_runs):
        return lambda randomness: network.weights
print(cycle(6).varying(Mine()).to_data()["dynamics"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str({import_strings.REPR_ONLY: "Mine()"})


@pytest.mark.parametrize(
    ("dynamics", "message"),
    [
        ({"name": "posse.nowhere:Thing"}, "'posse.nowhere:Thing' cannot be imported"),
        ({"name": "posse.networks:Thing"}, "module 'posse.networks' has no 'Thing'"),
        ({"name": "posse.networks:cycle"}, "name must be that of a frozen dataclass"),
        ({"name": f"{__name__}:Schedule", "round": 3}, "Schedule cannot be built of round"),
        ({"name": "posse.families:Gaussian"}, "dynamics must be one such as"),
        ({"name": "posse.networks.graphs:_validate_agents"}, "must be that of a frozen dataclass"),
        ({"name": "posse.validation:FrozenArray"}, "must be that of a frozen dataclass"),
    ],
)
def test_bad_names_are_refused(dynamics: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Network.from_data({"graph": "cycle", "agents": 6, "dynamics": dynamics})


TS = posse.ThompsonSampling()


@pytest.mark.parametrize(
    "algorithm", [posse.Decentralized(TS, learning_rate=1), posse.Flooding(TS)], ids=["dec", "fl"]
)
def test_a_simulation_on_them_keeps_its_result(algorithm: Any) -> None:
    """Agents that never talk until round 3 play as isolated ones until then."""
    bandit = posse.Bandit.bernoulli([0.7, 0.4])
    same = {"horizon": 6, "runs": 3, "seed": 2, "engine": "reference"}
    late = RING.varying(Schedule((3, 4)))
    ours = posse.simulate(bandit, late, algorithm, **same)
    alone = posse.simulate(bandit, RING, posse.Isolated(TS), **same)
    np.testing.assert_array_equal(ours.regret[:, :3], alone.regret[:, :3])
    assert ours.settings["network"] == late.to_data()


def test_weights_are_checked_in_every_round():
    class Fading:
        def sampler(self, network, n_runs):
            return lambda randomness, t: np.eye(network.n_agents) * (1 if t < 3 else 0.5)

    draw = networks.path(3).varying(Fading()).sampler(2)
    assert draw(None) is not None
    assert draw(None) is not None
    with pytest.raises(ValueError, match=r"doubly stochastic .* off by 0.5"):
        draw(None)


def test_an_array_of_text_is_refused():
    class Words:
        def sampler(self, network, n_runs):
            return lambda randomness: np.full((3, 3), "a")

    with pytest.raises(ValueError, match="dynamics Words: its weights cannot mix agents by @"):
        networks.path(3).varying(Words()).sampler(1)(None)
