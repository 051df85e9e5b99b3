"""Jobs: simulations as work that can be cut into parts, done anywhere and kept."""

from __future__ import annotations

from dataclasses import dataclass

from posse.lab import ranges
from posse.lab.blocks import Simulation
from posse.lab.keep import numbers_a_run
from posse.lab.recording import axes

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
