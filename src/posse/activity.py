"""Activity: which agents play in a round, because others sleep, play seldom, join late or leave.

An agent that does not play makes no observation of its own in that round. With `relays` it still
merges and passes messages on; otherwise it is cut off from the network for the round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from posse import rules, validation
from posse.networks import Network
from posse.randomness import IntArray, create_generator

BoolArray = NDArray[np.bool_]

__all__ = ["ACTIVITIES", "Activity", "Asleep", "Custom", "Rates", "Shifts"]


class Activity(Protocol):
    """Who plays, as a frozen dataclass; `posse.activity.Custom` takes a function of one's own."""

    @property
    def relays(self) -> bool:
        """Whether an agent that does not play still merges and passes messages on."""

    def check_agents(self, n_agents: int) -> None:
        """Refuse a number of agents that the activity does not fit."""

    def draw_plays(
        self, generator: np.random.Generator, t: int, n_rounds: int, n_agents: int
    ) -> BoolArray:
        """Draw who plays in rounds t, t + 1, ... of one run: (n_rounds, N).

        Drawn in parts from one generator, the rounds are the same as drawn at once.
        """


@dataclass(frozen=True)
class Asleep:
    """Every agent sleeps with probability p, independently in every round.

    p:      at least 0, below 1
    relays: whether an agent that sleeps still merges and passes messages on

    >>> posse.activity.Asleep(0.5)
    Asleep(p=0.5, relays=True)
    """

    p: float
    relays: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", validation.validate_number("p", self.p, at_least=0, below=1))
        _check_flag("relays", self.relays)

    def check_agents(self, n_agents: int) -> None:
        """Accept any number of agents."""

    def draw_plays(
        self, generator: np.random.Generator, t: int, n_rounds: int, n_agents: int
    ) -> BoolArray:
        """Draw one uniform for every agent and round: (n_rounds, N)."""
        # a uniform may be exactly 0: with >= an agent of p = 0 always plays
        return np.asarray(generator.random((n_rounds, n_agents)) >= self.p)


@dataclass(frozen=True)
class Rates:
    """Agent i plays with probability rates[i], independently in every round.

    rates:  one number for each agent, from 0 (only relays) to 1 (always plays)
    relays: whether an agent that does not play still merges and passes messages on

    >>> posse.activity.Rates([1.0, 0.5, 0.1])
    Rates(rates=(1.0, 0.5, 0.1), relays=True)
    """

    rates: tuple[float, ...]
    relays: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        numbers = _list_numbers("rates", self.rates)
        rates = [validation.validate_number("rates", x, at_least=0, at_most=1) for x in numbers]
        if not any(rates):
            raise ValueError("rates must not all be 0: nobody would ever play")
        object.__setattr__(self, "rates", tuple(rates))
        _check_flag("relays", self.relays)

    def check_agents(self, n_agents: int) -> None:
        """Refuse another number of rates than of agents."""
        _check_length("rates", self.rates, n_agents)

    def draw_plays(
        self, generator: np.random.Generator, t: int, n_rounds: int, n_agents: int
    ) -> BoolArray:
        """Draw one uniform for every agent and round: (n_rounds, N)."""
        return np.asarray(generator.random((n_rounds, n_agents)) < np.array(self.rates))


@dataclass(frozen=True)
class Shifts:
    """Agent i plays from round joins[i] to round leaves[i], and is away before and after.

    joins:  the first round of each agent; 1 for an agent that is there from the start
    leaves: the last round of each agent; None, or a round beyond the horizon: it stays
    relays: whether an agent that is away still merges and passes messages on. With False it starts
            from the prior when it joins, and what it knows is lost to others when it leaves.
    copies: whether an agent that joins takes over the belief of a random neighbour who played in
            the round before; for `posse.Decentralized` with relays=False. The evidence of that
            neighbour then counts twice: beliefs become too certain, because the learning rate N
            assumes that the sum of all beliefs is conserved.

    >>> posse.activity.Shifts([1, 1, 500], leaves=[300, 1000, 1000])
    Shifts(joins=(1, 1, 500), leaves=(300, 1000, 1000), relays=True, copies=False)
    """

    joins: tuple[int, ...]
    leaves: tuple[int, ...] | None = None
    relays: bool = field(default=True, kw_only=True)
    copies: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        joins = [
            validation.validate_integer("joins", t, at_least=1)
            for t in _list_numbers("joins", self.joins)
        ]
        object.__setattr__(self, "joins", tuple(joins))
        _check_flag("relays", self.relays)
        _check_flag("copies", self.copies)
        if self.copies and self.relays:
            raise ValueError(
                "copies needs relays=False: an agent that relays while it is away has merged all "
                "along, and joins with what its neighbours know"
            )
        if self.leaves is None:
            return
        leaves = [
            validation.validate_integer("leaves", t, at_least=1)
            for t in _list_numbers("leaves", self.leaves)
        ]
        _check_length("leaves", leaves, len(joins))
        if any(last < first for first, last in zip(joins, leaves, strict=True)):
            raise ValueError("leaves must not be before joins: an agent leaves after it joined")
        object.__setattr__(self, "leaves", tuple(leaves))

    def check_agents(self, n_agents: int) -> None:
        """Refuse another number of rounds than of agents."""
        _check_length("joins", self.joins, n_agents)

    def draw_plays(
        self, generator: np.random.Generator, t: int, n_rounds: int, n_agents: int
    ) -> BoolArray:
        """Compare the rounds with those of every agent; nothing is drawn: (n_rounds, N)."""
        rounds = np.arange(t, t + n_rounds)[:, None]
        plays = rounds >= np.array(self.joins)
        if self.leaves is not None:
            plays = plays & (rounds <= np.array(self.leaves))
        return np.asarray(plays)


@dataclass(frozen=True)
class Custom:
    """A function says who plays: `function(t, n_agents, generator)` returns a mask (agents,).

    function: called once for every round t = 1, 2, ... of every run, with that run's own generator;
              it must depend on its arguments only, so that a run is the same whenever it is played
    relays:   whether an agent that does not play still merges and passes messages on
    """

    function: Callable[[int, int, np.random.Generator], Any]
    relays: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.function, type) or not callable(self.function):
            raise ValueError(
                "function must be one of (t, n_agents, generator) that returns who plays, "
                f"(agents,), got {validation.format_value(self.function)}"
            )
        _check_flag("relays", self.relays)

    def check_agents(self, n_agents: int) -> None:
        """Accept any number of agents."""

    def draw_plays(
        self, generator: np.random.Generator, t: int, n_rounds: int, n_agents: int
    ) -> BoolArray:
        """Call the function for every round: (n_rounds, N)."""
        plays = np.empty((n_rounds, n_agents), dtype=bool)
        for nth in range(n_rounds):
            mask = np.asarray(self.function(t + nth, n_agents, generator))
            if mask.shape != (n_agents,) or mask.dtype != bool:
                raise ValueError(
                    f"activity: {validation.format_value(self.function)} must return a bool for "
                    f"each of the {n_agents} agents, got {mask.dtype} {mask.shape} in round "
                    f"{t + nth}"
                )
            plays[nth] = mask
        return plays


# Activities by their names in files.
ACTIVITIES: dict[str, Any] = {
    "asleep": Asleep,
    "rates": Rates,
    "shifts": Shifts,
    "custom": Custom,
}
rules.accept_rules(*ACTIVITIES.values())


class PlayMasks:
    """Who plays in a block of runs, in consecutive rounds from 1 on.

    Every run draws from its own stream, which no other purpose uses: an activity changes neither
    means nor rewards nor networks, and both engines play the same masks.
    """

    def __init__(self, activity: Activity, seed: int, runs: Sequence[int], n_agents: int) -> None:
        self._activity = activity
        self._generators = [create_generator(seed, run, "activity") for run in runs]
        self._n_agents = n_agents
        self._next_round = 1

    def draw_rounds(self, n_rounds: int) -> BoolArray:
        """Draw who plays in the next rounds: (n_rounds, R, N)."""
        t = self._next_round
        self._next_round += n_rounds
        return np.stack(
            [
                self._activity.draw_plays(generator, t, n_rounds, self._n_agents)
                for generator in self._generators
            ],
            axis=1,
        )


def copies_beliefs(activity: Activity | None) -> bool:
    """Whether agents that join copy the belief of a neighbour."""
    return isinstance(activity, Shifts) and activity.copies


class JoinSources:
    """Whose belief those who join copy, in every run of a block: a random neighbour who played.

    A neighbour counts if it played in the round before; without one the joiner keeps the prior.
    """

    def __init__(self, activity: Any, network: Network, seed: int, runs: Sequence[int]) -> None:
        self._shifts: Shifts = activity
        self._network = network
        self._generators = [create_generator(seed, run, "activity") for run in runs]

    def draw_round(self, t: int) -> tuple[IntArray, IntArray, IntArray]:
        """Draw run (0 to R - 1), joiner and source of every copy of round t: (n,) each."""
        n_agents = self._network.n_agents
        joiners = np.flatnonzero(np.array(self._shifts.joins) == t)
        copies = []
        if len(joiners):
            (before,) = self._shifts.draw_plays(self._generators[0], t - 1, 1, n_agents)
            for joiner in joiners:
                neighbours = self._network.neighbours(int(joiner))
                sources = neighbours[before[neighbours]]
                copies += [
                    (run, joiner, generator.choice(sources))
                    for run, generator in enumerate(self._generators)
                    if len(sources)
                ]
        table = np.array(copies, dtype=np.int64).reshape(-1, 3)
        return table[:, 0], table[:, 1], table[:, 2]


def check_activity(activity: Any, n_agents: int, seed: int, run: int, horizon: int) -> None:
    """Refuse an activity that does not fit the agents, or a function that fails at once."""
    if activity is None:
        return
    check_activity_type(activity)
    activity.check_agents(n_agents)
    if not isinstance(activity, Custom):
        return
    # drawn twice from the same stream, a function must give the same rounds
    n_rounds = min(3, horizon)
    try:
        first, second = (PlayMasks(activity, seed, [run], n_agents) for _ in range(2))
        repeats = np.array_equal(first.draw_rounds(n_rounds), second.draw_rounds(n_rounds))
    except ValueError:
        raise  # its message is for users already
    except Exception as error:  # user code may raise anything
        raise ValueError(
            f"activity: {validation.format_value(activity.function)} failed: "
            f"{type(error).__name__}: {error}"
        ) from error
    if not repeats:
        raise ValueError(
            f"activity: {validation.format_value(activity.function)} must draw from the generator "
            "it is given and keep nothing: the same agents must play whenever a run is played"
        )


def check_activity_type(activity: Any) -> None:
    """Refuse an object that is no activity."""
    if type(activity) not in ACTIVITIES.values():
        raise ValueError(
            "activity must be one such as posse.activity.Asleep(0.5), and "
            "posse.activity.Custom(function) for a function of your own, "
            f"got {validation.format_value(activity)}"
        )


def _list_numbers(name: str, values: Any) -> list[Any]:
    """List numbers that are given for each agent."""
    if isinstance(values, str) or np.ndim(values) != 1 or len(values) == 0:
        raise ValueError(
            f"{name} must be a list with one number for each agent, "
            f"got {validation.format_value(values)}"
        )
    return np.asarray(values).tolist() if isinstance(values, np.ndarray) else list(values)


def _check_length(name: str, values: Sequence[Any], n_agents: int) -> None:
    if len(values) != n_agents:
        raise ValueError(
            f"{name} must have one number for each of the {n_agents} agents, got {len(values)}"
        )


def _check_flag(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, got {value!r}")
