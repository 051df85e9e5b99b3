"""Jobs: simulations as work that can be cut into parts, done anywhere and kept."""

from __future__ import annotations

from dataclasses import dataclass

from posse.lab.blocks import Simulation

# Agent-steps of a part: some seconds, so that handing it about costs nothing and losing it little.
_STEPS = 100_000_000
_MOST_RUNS = 250


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
    def part_size(self) -> int:
        """How many runs a part should hold."""
        return max(1, min(_MOST_RUNS, _STEPS // self.steps_a_run))
