"""Simulation, Block and Job: what engines play, what they return, and how work is cut.

A `Simulation` is one algorithm on one bandit and network. An engine is a function
`run(simulation, runs, threads, advance) -> Block`. A `Job` is a range of runs of a simulation on
one engine. Also here: the arrays that `keep=` stores and the rounds that `record=` selects.
"""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from posse.activity import Activity
from posse.algorithms import Algorithm, Problem
from posse.bandits import AnyBandit, Bandit, Dataset, Environment, SiteMeans
from posse.effective_samples import SIGNS
from posse.families import Model, is_contextual
from posse.lab import run_ranges as ranges
from posse.networks import AwakeLinks, Network
from posse.randomness import FloatArray, create_generator
from posse.serialization import encode
from posse.validation import validate_choice, validate_integer


class KeptArray(NamedTuple):
    """A kind of array that `keep=` stores: the property of Result that reads it, and its axes."""

    attribute: str
    dims: tuple[str, ...]  # a name that occurs in two arrays is one axis of one length


KEEP: dict[str, KeptArray] = {
    "agents": KeptArray("agent_regret", ("run", "agent", "time")),
    # without the agent axis where all agents have the same means, without time where none drifts
    "means": KeptArray("means", ("run", "time", "agent", "arm")),
    "messages": KeptArray("numbers_sent", ("run", "time")),
    "beliefs": KeptArray("beliefs", ("run", "time", "coordinate", "agent", "arm")),
    "signs": KeptArray("signs", ("run", "time", "sketch", "agent", "arm")),
}
# All arrays beside regret and pulls: plays are recorded whenever not all agents play.
RECORDED = {**KEEP, "plays": KeptArray("plays", ("run", "time"))}


def validate_keep(keep: Any) -> tuple[str, ...]:
    """Validate names of KEEP: without repetition, in the order of KEEP; a str is one name."""
    if isinstance(keep, str):
        keep = (keep,)
    if not isinstance(keep, Iterable):
        raise ValueError(f'keep must be names such as ("agents", "means"), got {keep!r}')
    names = {validate_choice("keep", name, KEEP) for name in keep}
    return tuple(name for name in KEEP if name in names)


def count_coordinates(family: Any) -> int:
    """Count the coordinates of a belief; a family without beliefs counts as 2, as most have."""
    return len(family.prior()) if hasattr(family, "prior") else 2


def select_dims(name: str, drifts: bool, per_agent: bool) -> tuple[str, ...]:
    """Select the axes of a kept array: true means need time if they drift, and maybe agents."""
    absent = {"time": not drifts, "agent": not per_agent} if name == "means" else {}
    return tuple(dim for dim in RECORDED[name].dims if not absent.get(dim))


def infer_dims(name: str, n_axes: int, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Infer the axes of a result's array from its settings and its number of axes.

    Three axes of true means are ambiguous, (run, time, arm) or (run, agent, arm): the settings
    tell whether means drift.
    """
    bandit = settings.get("bandit")
    changing = ("drift", "contexts", "dataset", "draw")
    drifts = isinstance(bandit, Mapping) and any(key in bandit for key in changing)
    return select_dims(name, drifts, per_agent=n_axes > 2 + drifts)


def count_numbers_per_run(name: str, sizes: Mapping[str, int], bandit: AnyBandit) -> int:
    """Count the numbers that one run stores under a name of RECORDED.

    sizes: of all axes except that of runs, by name
    """
    changes = bandit.drift is not None or not isinstance(bandit, Bandit)
    dims = select_dims(name, changes, bandit.per_agent)
    return math.prod(sizes[dim] for dim in dims[1:])


def axis_sizes(bandit: AnyBandit, network: Network, points: int, model: Model) -> dict[str, int]:
    """Give the size of every axis of a kept array, for an algorithm with this reward model."""
    return {
        "time": points,
        "agent": network.n_agents,
        "arm": bandit.n_arms,
        "coordinate": count_coordinates(model),
        "sketch": 1 + SIGNS,
    }


# Recorded rounds: `record=`.


def count_recorded_rounds(record: Any, horizon: int) -> int:
    """Count the rounds recorded, at most, without listing them.

    The list itself may not fit into memory, so that its size is checked first.
    """
    count = horizon if record is None else record if np.ndim(record) == 0 else np.size(record)
    return int(count) if isinstance(count, int | np.integer) and count < horizon else horizon


def check_record(record: Any, horizon: int) -> None:
    """Refuse a `record=` that is neither a number of rounds nor a list of rounds."""
    if record is None:
        return
    if np.ndim(record) == 0:
        validate_integer("record", record, at_least=1)
        return
    rounds = np.asarray(record)
    valid = rounds.ndim == 1 and rounds.size > 0 and np.issubdtype(rounds.dtype, np.integer)
    if isinstance(record, list | tuple):  # among numbers NumPy takes True for 1
        valid = valid and not any(isinstance(item, bool | np.bool_) for item in record)
    if not valid or np.any(np.diff(rounds) <= 0) or rounds[0] < 1 or rounds[-1] > horizon:
        raise ValueError(
            f"record must be a number of points, or increasing whole rounds from 1 to {horizon}"
        )


def recorded_rounds(record: Any, horizon: int) -> NDArray[np.int64]:
    """List the rounds to record, in ascending order; the last is the horizon."""
    check_record(record, horizon)
    if record is None:
        return np.arange(1, horizon + 1)
    if np.ndim(record) == 0:
        count = int(record)
        if count >= horizon:
            return np.arange(1, horizon + 1)
        if count == 1:
            return np.array([horizon])
        spaced = np.round(np.geomspace(1, horizon, count)).astype(np.int64)
        # Early rounds coincide after rounding. The running maximum of x[i] - i pushes every round
        # past the one before it, and moves no other.
        steps = np.arange(count)
        return np.maximum.accumulate(spaced - steps) + steps
    rounds = np.asarray(record)
    ends = rounds if rounds[-1] == horizon else np.append(rounds, horizon)
    return ends.astype(np.int64)


# What every engine plays, and what it returns.

Advance = Callable[[int], None]
T = TypeVar("T", bound=np.generic)


# The best arm that regret compares with: each agent's own, or that of the average over agents.
REGRETS = ("own", "global")


@dataclass(frozen=True)
class Simulation:
    """One algorithm on one bandit and network, validated."""

    bandit: AnyBandit
    network: Network
    algorithm: Algorithm
    horizon: int
    seed: int
    times: NDArray[np.int64]  # (len,) the rounds to record
    keep: tuple[str, ...] = ()  # names of KEEP
    activity: Activity | None = None  # None: all agents play in every round
    regret: str = "own"  # one of REGRETS

    @cached_property
    def model(self) -> Model:
        """The reward model of the algorithm: its own family, else the bandit's."""
        return resolve_model(self.algorithm, self.bandit)

    @cached_property
    def reads_contexts(self) -> bool:
        """Whether `choose` and `learn` of the algorithm take contexts."""
        return is_contextual(self.model)

    @property
    def cuts_off_sleepers(self) -> bool:
        """Whether agents that do not play are cut off from the network."""
        return self.activity is not None and not self.activity.relays

    @property
    def uncharged_rounds(self) -> int:
        """The number of initial rounds whose regret is not charged (`charge_initial=False`)."""
        uncharged = getattr(self.algorithm, "uncharged_rounds", lambda n_arms: 0)
        return int(uncharged(self.bandit.n_arms))

    def build_problem(self, n_runs: int) -> Problem:
        """Build the problem that `algorithm.init` is given, for a block of runs."""
        return Problem(
            n_agents=self.network.n_agents,
            n_arms=self.bandit.n_arms,
            horizon=self.horizon,
            family=self.bandit.family,
            network=self._problem_network,
            n_runs=n_runs,
        )

    @cached_property
    def _problem_network(self) -> Network:
        """The network as algorithms know it: where sleepers are cut off, its links come and go."""
        if not self.cuts_off_sleepers:
            return self.network
        dynamics: Any = AwakeLinks(self.network.dynamics)
        return dataclasses.replace(self.network, dynamics=dynamics)

    def with_graph_of(self, run: int) -> Simulation:
        """The same simulation on the graph that one run draws, where graphs are random."""
        network = self.network.of_run(self.seed, run)
        return dataclasses.replace(self, network=network)

    def true_means(self, runs: Sequence[int]) -> FloatArray:
        """Draw the initial means of some runs: (R, M, K), M = 1 where all agents share them."""
        bandit = self.bandit
        n_arms = self.bandit.n_arms
        assert isinstance(bandit, Bandit)  # the means of all others change from round to round
        means = [
            bandit.means_of_run(run, create_generator(self.seed, run, "means")) for run in runs
        ]
        if any(drawn.shape[-1] != n_arms for drawn in means):
            raise ValueError(f"means: every run must have {n_arms} arms, as the first draw had")
        # Sites have a stream of their own, so that their heterogeneity does not change the means of
        # the arms.
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
        """Draw the means of some runs (R, M, K) in a random order of arms, and that order (R, K).

        The order is random because in many instances arm 0 is the best: an algorithm that broke
        ties by position would look better than it is.
        """
        orders = self.arm_orders(runs)
        return in_played_order(self.true_means(runs), orders), orders

    def arm_orders(self, runs: Sequence[int]) -> NDArray[np.intp]:
        """Draw the order of the arms in every run, (R, K); data of the user keep their own."""
        n_arms = self.bandit.n_arms
        if isinstance(self.bandit, Dataset | Environment):
            return np.tile(np.arange(n_arms), (len(runs), 1))
        return draw_arm_orders(self.seed, runs, n_arms)


def resolve_model(algorithm: Any, bandit: AnyBandit) -> Model:
    """Find an algorithm's reward model; a contextual one gets the features of the bandit."""
    family = getattr(algorithm, "family", None) or bandit.family
    if is_contextual(family) and is_contextual(bandit.family):
        return family.with_features(bandit.family.features)
    model: Model = family
    return model


@dataclass(frozen=True)
class Block:
    """The arrays of some runs (R of them), arms in the caller's order.

    A run is the same in whatever block it is played, so that blocks can be concatenated.
    """

    regret: FloatArray  # (R, len)
    pulls: NDArray[np.int32]  # (R, N, K)
    kept: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # by names of RECORDED

    @classmethod
    def concatenate(cls, blocks: Sequence[Block]) -> Block:
        """Join blocks in the order given; a single block is not copied."""
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


def draw_arm_orders(seed: int, runs: Sequence[int], n_arms: int) -> NDArray[np.intp]:
    """Draw the caller's arm that the algorithm sees as arm 0, 1, ... in every run: (R, K)."""
    return np.stack(
        [create_generator(seed, run, "permutation").permutation(n_arms) for run in runs]
    )


def in_played_order(values: FloatArray, order: NDArray[np.intp]) -> FloatArray:
    """Relabel the arms of an array (R, M, K) by the order (R, K) of every run."""
    return np.take_along_axis(values, order[:, None, :], axis=-1)


def in_callers_order(values: NDArray[T], order: NDArray[np.intp]) -> NDArray[T]:
    """Undo the relabelling of arms in an array (R, ..., K), by the order (R, K) of every run."""
    position = np.argsort(order, axis=1)  # the inverse permutation
    between = [1] * (values.ndim - 2)
    return np.take_along_axis(values, position.reshape(len(order), *between, -1), axis=-1)


def split_runs(runs: range, size: int) -> list[range]:
    """Split runs into parts of a given size; the last may be shorter."""
    return [runs[first : first + size] for first in range(0, len(runs), size)]


def play_blocks(
    play: Callable[[range, Advance], Block],
    parts: Sequence[range],
    threads: int,
    advance: Advance,
) -> Block:
    """Play blocks on a pool of threads and join them.

    Threads suffice: kernels, and NumPy's loops, release the interpreter lock.
    """
    stopped = threading.Event()

    def go_on(steps: int) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt  # another block failed: leave this one too
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
    return Block.concatenate(outcomes)


# Jobs: simulations as work that is cut into parts, computed anywhere and stored.

# Agent-steps of one thread in a second: a rough guess, replaced by what the first part took.
_STEPS_PER_SECOND = {"compiled": 20e6, "reference": 1e6}
# A part takes some seconds: long enough that sending it costs nothing, short enough that losing
# it costs little.
PART_SECONDS = 5.0
MAX_RUNS_PER_PART = 250
_MAX_BYTES_PER_PART = 64e6  # of the arrays that a worker sends back


@dataclass(frozen=True, eq=False)  # compared by identity, since it holds arrays
class Job:
    """A range of runs of one simulation on one engine, validated."""

    simulation: Simulation
    runs: range
    engine: str  # "compiled" or "reference"

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All that a rerun needs, as plain data.

        Computed once a job: the digest is made of it, and every stored file is compared with it.
        """
        s = self.simulation
        return {
            "bandit": encode.encode_bandit(s.bandit),
            "network": encode.encode_network(s.network),
            "algorithm": encode.encode_algorithm(s.algorithm),
            "horizon": s.horizon,
            "runs": ranges.encode_runs(self.runs),
            "seed": s.seed,
            "engine": self.engine,
            **({"keep": list(s.keep)} if s.keep else {}),
            **({} if s.activity is None else {"activity": encode.encode_activity(s.activity)}),
            **({} if s.regret == "own" else {"regret": s.regret}),
            "versions": encode.collect_versions(),
        }

    def settings_of_runs(self, runs: range) -> dict[str, Any]:
        """Give the settings of some of the runs."""
        return self.settings | {"runs": ranges.encode_runs(runs)}

    @property
    def steps(self) -> int:
        """The agent-steps of all runs, to which time is proportional."""
        return len(self.runs) * self.steps_per_run

    @property
    def steps_per_run(self) -> int:
        """The agent-steps of one run."""
        return self.simulation.network.n_agents * self.simulation.horizon

    @property
    def seconds_per_run(self) -> float:
        """The estimated seconds of one run on one thread."""
        return self.steps_per_run / _STEPS_PER_SECOND[self.engine]

    @property
    def bytes_per_run(self) -> int:
        """The bytes of one run: its curve, pulls and kept arrays."""
        s = self.simulation
        sizes = axis_sizes(s.bandit, s.network, len(s.times), s.model)
        names = s.keep if s.activity is None else (*s.keep, "plays")
        kept = sum(count_numbers_per_run(name, sizes, s.bandit) for name in names)
        return 8 * (len(s.times) + kept) + 4 * sizes["agent"] * sizes["arm"]

    @property
    def part_size(self) -> int:
        """The number of runs in a part."""
        return self.count_runs_within(PART_SECONDS, self.seconds_per_run)

    def count_runs_within(self, seconds: float, seconds_per_run: float) -> int:
        """Count the runs that fit into some seconds and into the memory of a worker."""
        within_memory = _MAX_BYTES_PER_PART / self.bytes_per_run
        within_time = seconds / seconds_per_run
        return max(1, int(min(MAX_RUNS_PER_PART, within_memory, within_time)))

    def describe_runs(self, runs: range) -> str:
        """Describe some runs, for messages."""
        s = self.simulation
        return f"{s.algorithm!r} on {s.network!r}, {ranges.describe_runs(runs)}"
