"""What `keep=` can keep of each run besides regret and pulls: the table of names."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.algorithms.algorithm import Algorithm, Problem
from posse.bandits import AnyBandit, ContextualBandit, SiteMeans
from posse.families.family import Model, is_contextual
from posse.lab import run_ranges as ranges
from posse.lab.recording import axes
from posse.networks.network import Network
from posse.randomness import FloatArray, create_generator


class Kept(NamedTuple):
    """A kind of array that a result may hold: the property it is read by, and its axes."""

    attribute: str
    dims: tuple[str, ...]  # those of one simulation are told by their names, the others are free


KEEP: dict[str, Kept] = {
    "agents": Kept("agent_regret", ("run", "agent", "time")),
    # without agents where all have the same, without time where nothing drifts
    "means": Kept("means", ("run", "time", "agent", "arm")),
    "messages": Kept("numbers_sent", ("run", "time")),
    "beliefs": Kept("beliefs", ("run", "time", "coordinate", "agent", "arm")),
    "signs": Kept("signs", ("run", "time", "sketch", "agent", "arm")),
}


def checked(keep: Any) -> tuple[str, ...]:
    """Names of KEEP, each once and in its order; one name may be given as plain text."""
    if isinstance(keep, str):
        keep = (keep,)
    if not isinstance(keep, Iterable):
        raise ValueError(f'keep must be names such as ("agents", "means"), got {keep!r}')
    names = {validation.validate_choice("keep", name, KEEP) for name in keep}
    return tuple(name for name in KEEP if name in names)


def coordinates_of(family: Any) -> int:
    """The number of coordinates of a belief; 2, as most have, for a family without beliefs."""
    return len(family.prior()) if hasattr(family, "prior") else 2


def dims_of(name: str, drifts: bool, per_agent: bool) -> tuple[str, ...]:
    """The axes of what is kept, given whether the true means drift and differ by agent."""
    absent = {"time": not drifts, "agent": not per_agent} if name == "means" else {}
    return tuple(dim for dim in KEEP[name].dims if not absent.get(dim))


def dims_in(name: str, n_axes: int, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The axes of an array of a result, told by its settings; three of means are of either kind."""
    bandit = settings.get("bandit")
    drifts = isinstance(bandit, Mapping) and ("drift" in bandit or "contexts" in bandit)
    return dims_of(name, drifts, per_agent=n_axes > 2 + drifts)


def numbers_a_run(name: str, sizes: Mapping[str, int], bandit: AnyBandit) -> int:
    """How many numbers one run keeps: sizes of the axes but that of runs, by name."""
    changes = bandit.drift is not None or isinstance(bandit, ContextualBandit)
    dims = dims_of(name, changes, bandit.per_agent)
    return math.prod(sizes[dim] for dim in dims[1:])


# Blocks of runs: what every engine plays, and what it gives back.
#
# An engine is a function `run(simulation, runs, threads, advance) -> Block`.

Advance = Callable[[int], None]
T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True)
class Simulation:
    """One algorithm on one bandit and network, validated and ready to run."""

    bandit: AnyBandit
    network: Network
    algorithm: Algorithm
    horizon: int
    seed: int
    times: NDArray[np.int64]  # (len,) the rounds to record
    keep: tuple[str, ...] = ()  # what to keep of each run besides regret and pulls

    @property
    def model(self) -> Model:
        """The family that the algorithm believes in: its own, else the bandit's."""
        return model_of(self.algorithm, self.bandit)

    @property
    def reads_contexts(self) -> bool:
        """Whether the algorithm is to be told the contexts: there are some, and it knows them."""
        return is_contextual(self.model)

    @property
    def uncharged_rounds(self) -> int:
        """How many rounds from the first on the algorithm does not want charged."""
        uncharged = getattr(self.algorithm, "uncharged_rounds", lambda n_arms: 0)
        return int(uncharged(self.bandit.n_arms))

    def problem(self, n_runs: int) -> Problem:
        """What the algorithm is told, for a block of runs."""
        return Problem(
            n_agents=self.network.n_agents,
            n_arms=self.bandit.n_arms,
            horizon=self.horizon,
            family=self.bandit.family,
            network=self.network,
            n_runs=n_runs,
        )

    def true_means(self, runs: Sequence[int]) -> FloatArray:
        """Each run's means before any drift: (R, M, K), M = 1 where all agents have the same."""
        bandit = self.bandit
        n_arms = self.bandit.n_arms
        assert not isinstance(bandit, ContextualBandit)  # which has them round by round
        means = [
            bandit.means_of_run(run, create_generator(self.seed, run, "means")) for run in runs
        ]
        if any(drawn.shape[-1] != n_arms for drawn in means):
            raise ValueError(f"means: every run must have {n_arms} arms, as the first draw had")
        if isinstance(bandit.means, SiteMeans):
            means = [
                bandit.means.draw_agent_means(
                    drawn,
                    self.network.n_agents,
                    bandit.family,
                    create_generator(self.seed, run, "sites"),
                )
                for run, drawn in zip(runs, means, strict=True)
            ]
        return np.stack([np.atleast_2d(drawn) for drawn in means])

    def true_arms(self, runs: Sequence[int]) -> tuple[FloatArray, NDArray[np.intp]]:
        """Each run's means (R, M, K) in a random order of arms, and that order (R, K).

        So position never matters, however ties are broken.
        """
        orders = arm_orders(self.seed, runs, self.bandit.n_arms)
        return in_played_order(self.true_means(runs), orders), orders


def model_of(algorithm: Any, bandit: AnyBandit) -> Model:
    """The family that an algorithm believes in, for as many features as the bandit's contexts."""
    own = getattr(algorithm, "family", None) or bandit.family
    if is_contextual(own) and is_contextual(bandit.family):
        return own.with_features(bandit.family.features)
    model: Model = own
    return model


@dataclass(frozen=True)
class Block:
    """The outcome of some runs, arms in the caller's order; the first axis of every array is R."""

    regret: FloatArray  # (R, len)
    pulls: NDArray[np.int32]  # (R, N, K)
    kept: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # by the names of `keep`

    @classmethod
    def joined(cls, blocks: Sequence[Block]) -> Block:
        """The runs of all of them, in order; of one block without a copy."""
        if len(blocks) == 1:
            return blocks[0]
        return cls(
            np.concatenate([block.regret for block in blocks]),
            np.concatenate([block.pulls for block in blocks]),
            {
                name: np.concatenate([block.kept[name] for block in blocks])
                for name in blocks[0].kept
            },
        )


def arm_orders(seed: int, runs: Sequence[int], n_arms: int) -> NDArray[np.intp]:
    """The caller's arm that is arm 0, 1, ... to the algorithm, in each run: (R, K)."""
    return np.stack(
        [create_generator(seed, run, "permutation").permutation(n_arms) for run in runs]
    )


def in_played_order(values: FloatArray, order: NDArray[np.intp]) -> FloatArray:
    """Relabel the arms of an array (R, M, K) by their order (R, K) in each run."""
    return np.take_along_axis(values, order[:, None, :], axis=-1)


def in_callers_order(values: NDArray[T], order: NDArray[np.intp]) -> NDArray[T]:
    """Undo the relabelling of arms in an array (R, ..., K), by their order (R, K) in each run."""
    position = np.argsort(order, axis=1)  # where each of the caller's arms was played
    between = [1] * (values.ndim - 2)
    return np.take_along_axis(values, position.reshape(len(order), *between, -1), axis=-1)


def in_parts(runs: range, size: int) -> list[range]:
    """Cut runs into parts of some size."""
    return [runs[first : first + size] for first in range(0, len(runs), size)]


def play_blocks(
    play: Callable[[range, Advance], Block],
    parts: Sequence[range],
    threads: int,
    advance: Advance,
) -> Block:
    """Blocks on a pool of threads; kernels let go of the interpreter where time is spent."""
    stopped = threading.Event()

    def go_on(steps: int) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt  # leave the block: nobody waits for it any more
        advance(steps)

    if threads == 1 or len(parts) == 1:
        outcomes = [play(part, go_on) for part in parts]
    else:
        with ThreadPoolExecutor(min(threads, len(parts))) as pool:
            try:
                outcomes = list(pool.map(play, parts, [go_on] * len(parts)))
            except BaseException:
                stopped.set()
                raise
    return Block.joined(outcomes)


# Jobs: simulations as work that can be cut into parts, done anywhere and kept.

# Agent-steps of one thread in a second, more or less, until somebody has measured.
_STEPS_A_SECOND = {"compiled": 20e6, "reference": 1e6}
# A part takes some seconds, so that handing it about costs nothing and losing it little.
SECONDS = 5.0
_MOST_RUNS = 250
_MOST_BYTES = 64e6  # what comes back of a part


@dataclass(frozen=True, eq=False)  # arrays inside: a job is itself alone
class Job:
    """Some runs of one simulation on one engine, checked and ready."""

    simulation: Simulation
    runs: range
    engine: str  # "compiled" or "reference"

    @property
    def steps(self) -> int:
        """The agent-steps of all its runs: what takes time."""
        return len(self.runs) * self.steps_a_run

    @property
    def steps_a_run(self) -> int:
        """The agent-steps of one run."""
        return self.simulation.network.n_agents * self.simulation.horizon

    @property
    def seconds_a_run(self) -> float:
        """A guess at what one run takes on one thread."""
        return self.steps_a_run / _STEPS_A_SECOND[self.engine]

    @property
    def bytes_a_run(self) -> int:
        """What one run leaves: curve, pulls, and what is kept besides."""
        s = self.simulation
        sizes = axes(s.bandit, s.network, len(s.times), s.model)
        kept = sum(numbers_a_run(name, sizes, s.bandit) for name in s.keep)
        return 8 * (len(s.times) + kept) + 4 * sizes["agent"] * sizes["arm"]

    @property
    def part_size(self) -> int:
        """How many runs a part should hold."""
        return self.runs_in(SECONDS, self.seconds_a_run)

    def runs_in(self, seconds: float, seconds_a_run: float) -> int:
        """How many runs fill some seconds, but not the memory of those who carry them."""
        most = min(_MOST_RUNS, _MOST_BYTES / self.bytes_a_run, seconds / seconds_a_run)
        return max(1, int(most))

    def called(self, runs: range) -> str:
        """Some of its runs, as a sentence names them."""
        s = self.simulation
        return f"{s.algorithm!r} on {s.network!r}, {ranges.words(runs)}"
