"""One agent of a swarm, seen from outside: started, visited, killed and asked for its counts."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from posse.live.agent.agent import Decision
from posse.live.exchange.ledger import Ledger
from posse.live.exchange.quanta import PER_UNIT
from posse.live.experiment.experiment import DEFAULT

START_SECONDS = 60.0  # an agent that does not answer by then has failed


class Visitor(Protocol):
    """Who asks an agent for decisions and tells it how they went."""

    def pull(self) -> Decision:
        """Ask which arm to play."""

    def update(self, decision: Decision, reward: float) -> bool:
        """Say how it went; once this returns, the reward is acknowledged."""


@dataclass(frozen=True)
class Sample:
    """What an agent says of itself at one moment."""

    here: float = 0.0  # pulls
    in_network: float = 0.0
    sent: int = 0  # messages
    received: int = 0
    refused: int = 0
    connected: int = 0  # neighbours
    neighbours: int = 0

    @classmethod
    def parse_metrics(cls, metrics: str) -> Sample:
        """From the text of /metrics."""
        sums: defaultdict[str, float] = defaultdict(float)
        neighbours = 0
        for line in metrics.splitlines():
            if not line.startswith("#"):
                key, _, value = line.rpartition(" ")
                name, _, labels = key.removeprefix("posse_").partition("{")
                neighbours += name == "neighbour_connected"
                sums[labels if name == "messages_total" else name] += float(value)
        return cls(
            here=sums["pulls_here"],
            in_network=sums["pulls_in_network"],
            sent=int(sums['direction="sent"}']),
            received=int(sums['direction="received"}']),
            refused=int(sums["refusals_total"]),
            connected=int(sums["neighbour_connected"]),
            neighbours=neighbours,
        )


@dataclass(frozen=True)
class Count:
    """What visitors of one experiment were told, what the agent has, and what it holds of all."""

    name: str
    acknowledged: dict[str, tuple[int, int]]  # by arm: the sum of rewards, how many
    own: Ledger  # in quanta
    network: Ledger
    experiment: str = DEFAULT

    @property
    def lost(self) -> int:
        """How many acknowledged rewards the agent does not have; below 0, how many too many."""
        return sum(count for _, count in self.acknowledged.values()) - count_pulls(self.own)

    @property
    def is_exact(self) -> bool:
        """Whether the agent has what it acknowledged, arm by arm, in whole quanta."""
        acknowledged = {
            arm: (s * PER_UNIT, n * PER_UNIT) for arm, (s, n) in self.acknowledged.items()
        }
        return acknowledged == {arm: (values[0], values[-1]) for arm, values in self.own.items()}


def count_pulls(ledger: Ledger) -> int:
    """How many pulls this is the evidence of, rounded down."""
    return sum(values[-1] for values in ledger.values()) // PER_UNIT


class AgentSite(ABC):
    """An agent that can be started, visited, killed and asked; and what its visitors did."""

    def __init__(self, name: str, experiments: Sequence[str] = (DEFAULT,)) -> None:
        self.name = name
        self.experiments = tuple(experiments)
        self.restarts = 0
        self.regret = 0.0
        self.visits: Counter[str] = Counter()  # by arm
        # acknowledged, by experiment and arm: their sum, and their number
        self.reward_sums: Counter[tuple[str, str]] = Counter()
        self.reward_counts: Counter[tuple[str, str]] = Counter()
        self.sample = Sample()
        self.answers = False  # when it was last asked

    @abstractmethod
    def start(self) -> None:
        """Start it, without waiting until it answers."""

    @abstractmethod
    def kill(self) -> None:
        """End it as a power failure would."""

    @abstractmethod
    def stop(self) -> None:
        """End it cleanly, or else."""

    def request_stop(self) -> None:  # noqa: B027 (where stopping takes no time, there is no need)
        """Let it begin to end, so that many end at the same time."""

    @abstractmethod
    def open_visitor(self, experiment: str) -> AbstractContextManager[Visitor]:
        """Somebody who visits an experiment."""

    @abstractmethod
    def read_evidence(self, experiment: str) -> dict[str, Ledger]:
        """In quanta, of an experiment: its own, and what it holds of all."""

    @abstractmethod
    def read_metrics(self) -> str:
        """Its counters, as Prometheus reads them."""

    def find_problem(self) -> str | None:
        """Why it will never answer, if that is known."""
        return None

    @property
    def acknowledged(self) -> int:
        """The rewards that visitors were told it has."""
        return self.reward_counts.total()

    def add_acknowledged(self, arm: str, reward: int, experiment: str = DEFAULT) -> None:
        """Note that a visitor was told so."""
        self.reward_sums[experiment, arm] += reward
        self.reward_counts[experiment, arm] += 1

    def take_sample(self) -> bool:
        """Take a sample; whether it answers."""
        try:
            self.sample = Sample.parse_metrics(self.read_metrics())
            self.answers = True
        except Exception:  # whatever it is, this one does not answer now
            self.answers = False
        return self.answers

    def wait_until_ready(self) -> None:
        """Wait until it answers."""
        deadline = time.monotonic() + START_SECONDS
        while not self.take_sample():
            problem = self.find_problem()
            if problem is not None or time.monotonic() > deadline:
                raise ValueError(f"{self.name} does not answer: {problem or 'it takes too long'}")
            time.sleep(0.05)

    def collect_counts(self) -> list[Count]:
        """What was acknowledged, and what is there, of each experiment."""
        return [self._count_experiment(experiment) for experiment in self.experiments]

    def _count_experiment(self, experiment: str) -> Count:
        acknowledged = {
            arm: (self.reward_sums[name, arm], n)
            for (name, arm), n in self.reward_counts.items()
            if name == experiment
        }
        evidence = self.read_evidence(experiment)
        return Count(self.name, acknowledged, evidence["own"], evidence["held"], experiment)
