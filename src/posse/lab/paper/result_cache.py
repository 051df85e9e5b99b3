"""Results of curves on disk, a part of the runs a file, so that nothing is computed twice.

A folder is named by a hash of all that its numbers depend on, the source that makes them among it,
but the number of runs: more runs only add files. A part is written whole or not at all, so whatever
stops the program costs one part.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posse.lab import simulation as lab
from posse.lab import storage
from posse.lab.blocks import Simulation, in_parts
from posse.lab.joining import concat
from posse.lab.results import Result
from posse.lab.settings import to_data
from posse.lab.source import source_hash

# Agent-steps of a part: some seconds.
_PART = 100_000_000
_MOST_RUNS = 250


@dataclass
class ResultCache:
    """A folder of results; `notes` collects what went wrong with stored ones."""

    folder: Path
    threads: int
    notes: list[str] = field(default_factory=list)

    def result(self, simulation: Simulation, runs: int, advance: Callable[[int], None]) -> Result:
        """All runs: those stored are read, the others computed and stored part by part.

        advance: told the number of runs at a time.
        """
        steps = simulation.network.n_agents * simulation.horizon
        size = max(1, min(_MOST_RUNS, _PART // steps))
        parts = []
        for part in in_parts(range(runs), size):
            parts.append(self._part(simulation, part))
            advance(len(part))
        return concat(parts)

    def _part(self, simulation: Simulation, runs: range) -> Result:
        path = self.folder / digest(simulation) / f"{runs.start:06d}-{runs.stop - 1:06d}.nc"
        if path.exists():
            try:
                stored = storage.load(path)
                if isinstance(stored, Result) and stored.runs == len(runs):
                    return stored
                raise ValueError(f"{path} does not hold these runs")
            except ValueError as error:
                self.notes.append(f"{error}; computed again")
        result = lab.simulate_some(simulation, runs, self.threads, lambda steps: None)
        path.parent.mkdir(parents=True, exist_ok=True)
        result.save(path)
        return result


def digest(simulation: Simulation) -> str:
    """A name for all that the numbers of a simulation depend on."""
    s = simulation
    data: dict[str, Any] = {
        "bandit": to_data(s.bandit),
        "network": to_data(s.network),
        "algorithm": to_data(s.algorithm),
        "horizon": s.horizon,
        "seed": s.seed,
        "times": s.times.tolist(),
        "source": source_hash(),
    }
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:20]
