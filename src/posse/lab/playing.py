"""Some runs of a simulation on an engine, and the result that they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from numpy.typing import NDArray

from posse.lab import described, ranges, reference
from posse.lab.blocks import Block, Simulation, in_parts, play_blocks
from posse.lab.compiled import plan
from posse.lab.progress import Bars
from posse.lab.results import Result
from posse.lab.settings import versions

Run = Callable[..., Block]


def simulate_some(
    simulation: Simulation,
    runs: range,
    threads: int,
    advance: Callable[[int], None],
    engine: str | None = None,
) -> Result:
    """Some of the runs of a simulation, such as runs 100 to 199; on an engine, or that which fits.

    Run r depends on the simulation and on r only, so runs can be played anywhere and joined.
    """
    engine = engine or ("reference" if plan.missing(simulation) else "compiled")
    block = play_some(simulation, runs, threads, advance, engine)
    return result_of(simulation, runs, engine, block)


def play_some(
    simulation: Simulation,
    runs: range,
    threads: int,
    advance: Callable[[int], None],
    engine: str,
) -> Block:
    """The numbers of some runs, which can be played elsewhere; `result_of` says what they are."""
    run = runner(engine, [of_run(simulation, runs[0])], Bars())
    return play(simulation, runs, run, threads, advance)


def result_of(simulation: Simulation, runs: range, engine: str, block: Block) -> Result:
    """The result that the numbers of some runs are."""
    return made_of(simulation, block, settings_of(simulation, runs, engine))


def of_run(simulation: Simulation, run: int) -> Simulation:
    """The simulation on the graph of one run."""
    network = simulation.network.of_run(simulation.seed, run)
    return dataclasses.replace(simulation, network=network)


def runner(engine: str, simulations: Iterable[Simulation], bars: Bars) -> Run:
    """The engine's `run`; kernels that were never used before are compiled first."""
    if engine == "reference":
        return reference.run
    from posse.lab.compiled import engine as compiled

    compiled.prepare(simulations, bars.compiling)
    return compiled.run


def play(
    simulation: Simulation, runs: range, run: Run, threads: int, advance: Callable[[int], None]
) -> Block:
    """Some runs on an engine; where each run has a graph of its own, each is a block of its own."""
    if not simulation.network.is_recipe:
        return run(simulation, runs, threads, advance)
    return play_blocks(
        lambda part, go_on: run(of_run(simulation, part[0]), part, 1, go_on),
        in_parts(runs, 1),
        threads,
        advance,
    )


def made_of(simulation: Simulation, block: Block, settings: dict[str, Any]) -> Result:
    """The result of some runs."""
    arrays: list[NDArray[Any]] = [block.regret, block.pulls, *block.kept.values()]
    for array in arrays:
        array.setflags(write=False)  # so that a Result need not copy it
    return Result(
        simulation.times, block.regret, block.pulls, settings["engine"], settings, block.kept
    )


def settings_of(simulation: Simulation, runs: range, engine: str) -> dict[str, Any]:
    """All that a rerun needs, as plain data."""
    s = simulation
    return {
        "bandit": described.bandit(s.bandit),
        "network": described.network(s.network),
        "algorithm": described.algorithm(s.algorithm),
        "horizon": s.horizon,
        "runs": ranges.to_setting(runs),
        "seed": s.seed,
        "engine": engine,
        **({"keep": list(s.keep)} if s.keep else {}),
        "versions": versions(),
    }
