"""One agent of a demonstration, seen from outside: start, visit, kill and count."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from posse.live.agent import Decision
from posse.live.exchange import DEFAULT
from posse.live.ledger import PER_UNIT, Ledger

START_SECONDS = 60.0  # an agent that does not answer in this time has failed


class Visitor(Protocol):
    """A visitor's application: requests decisions and reports rewards."""

    def pull(self) -> Decision:
        """Request a decision."""

    def update(self, decision: Decision, reward: float) -> bool:
        """Report the reward of a decision; once this returns, it is acknowledged."""


@dataclass(frozen=True)
class Sample:
    """Metrics of an agent at one moment."""

    here: float = 0.0  # pulls
    in_network: float = 0.0
    sent: int = 0  # messages
    received: int = 0
    refused: int = 0
    connected: int = 0  # neighbours
    neighbours: int = 0

    @classmethod
    def parse_metrics(cls, metrics: str) -> Sample:
        """Parse the text of /metrics."""
        sums: defaultdict[str, float] = defaultdict(float)
        neighbours = 0
        for line in metrics.splitlines():
            if not line.startswith("#"):
                key, _, value = line.rpartition(" ")
                name, _, labels = key.removeprefix("posse_").partition("{")
                # Messages are told apart by direction; other metrics are summed over arms and
                # labels.
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
    """Acknowledged rewards of one experiment at one agent, its own evidence and the network's."""

    name: str
    acknowledged: dict[str, tuple[int, int]]  # by arm: sum and number of rewards
    own: Ledger  # in quanta
    network: Ledger
    experiment: str = DEFAULT

    @property
    def lost(self) -> int:
        """Acknowledged rewards missing in the own evidence; negative if there are too many."""
        return sum(count for _, count in self.acknowledged.values()) - count_pulls(self.own)

    @property
    def is_exact(self) -> bool:
        """Whether the own evidence equals the acknowledged rewards, arm by arm, in whole quanta."""
        # In whole numbers: any tolerance could hide one reward that is lost or counted twice.
        acknowledged = {
            arm: (s * PER_UNIT, n * PER_UNIT) for arm, (s, n) in self.acknowledged.items()
        }
        return acknowledged == {arm: (values[0], values[-1]) for arm, values in self.own.items()}


def count_pulls(ledger: Ledger) -> int:
    """Count the pulls in evidence, rounded down."""
    return sum(values[-1] for values in ledger.values()) // PER_UNIT


class AgentSite(ABC):
    """An agent that can be started, visited and killed, with the record of its visitors."""

    def __init__(self, name: str, experiments: Sequence[str] = (DEFAULT,)) -> None:
        self.name = name
        self.experiments = tuple(experiments)
        self.restarts = 0
        self.regret = 0.0
        self.visits: Counter[str] = Counter()  # by arm
        # of acknowledged rewards, by experiment and arm
        self.reward_sums: Counter[tuple[str, str]] = Counter()
        self.reward_counts: Counter[tuple[str, str]] = Counter()
        self.sample = Sample()
        self.answers = False  # at the last sample

    @abstractmethod
    def start(self) -> None:
        """Start the agent without waiting until it answers."""

    @abstractmethod
    def kill(self) -> None:
        """End the agent as a power failure would."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the agent cleanly, or kill it if it does not stop."""

    def request_stop(self) -> None:  # noqa: B027 (only needed where stopping takes time)
        """Let the agent begin to stop, so that many agents stop at the same time."""

    @abstractmethod
    def open_visitor(self, experiment: str) -> AbstractContextManager[Visitor]:
        """Return a visitor of an experiment."""

    @abstractmethod
    def read_evidence(self, experiment: str) -> dict[str, Ledger]:
        """Return the own and the network's evidence of an experiment, in quanta."""

    @abstractmethod
    def read_metrics(self) -> str:
        """Return the metrics in the Prometheus text format."""

    def find_problem(self) -> str | None:
        """Return why the agent will never answer, if that is known."""
        return None

    @property
    def acknowledged(self) -> int:
        """Number of rewards that were acknowledged to visitors."""
        return self.reward_counts.total()

    def add_acknowledged(self, arm: str, reward: int, experiment: str = DEFAULT) -> None:
        """Record that a reward was acknowledged to a visitor."""
        self.reward_sums[experiment, arm] += reward
        self.reward_counts[experiment, arm] += 1

    def take_sample(self) -> bool:
        """Sample the metrics; return whether the agent answers."""
        try:
            self.sample = Sample.parse_metrics(self.read_metrics())
            self.answers = True
        except Exception:  # whatever the reason, it does not answer now
            self.answers = False
        return self.answers

    def wait_until_ready(self) -> None:
        """Wait until the agent answers."""
        deadline = time.monotonic() + START_SECONDS
        while not self.take_sample():
            problem = self.find_problem()
            if problem is not None or time.monotonic() > deadline:
                raise ValueError(
                    f"{self.name} does not answer: {problem or f'no answer in {START_SECONDS:g} s'}"
                )
            time.sleep(0.05)

    def collect_counts(self) -> list[Count]:
        """Return acknowledged rewards and evidence of each experiment."""
        return [self._count_experiment(experiment) for experiment in self.experiments]

    def _count_experiment(self, experiment: str) -> Count:
        acknowledged = {
            arm: (self.reward_sums[name, arm], n)
            for (name, arm), n in self.reward_counts.items()
            if name == experiment
        }
        evidence = self.read_evidence(experiment)
        return Count(self.name, acknowledged, evidence["own"], evidence["held"], experiment)
