"""`simulate` and `compare`: the lab's front door."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posse import checks
from posse.algorithms.algorithm import Algorithm
from posse.bandits import Bandit
from posse.lab import reference
from posse.lab.blocks import Block, Simulation
from posse.lab.compiled import plan
from posse.lab.progress import Bars, progress_bar
from posse.lab.results import Comparison, Result
from posse.lab.settings import to_data, versions
from posse.networks.network import Network

ENGINES = ("auto", "compiled", "reference")


def simulate(
    bandit: Bandit,
    network: Network,
    algorithm: Algorithm,
    *,
    horizon: int,
    runs: int = 100,
    seed: int | None = 0,
    engine: str = "auto",
    threads: int | None = None,
    record: int | ArrayLike | None = None,
    progress: bool = False,
) -> Result:
    """Play one algorithm for some runs; the same seed gives the same numbers on any machine load.

    record: None keeps every round, n keeps n log-spaced rounds, an array keeps those rounds.
    seed: None draws a fresh one, which the result remembers.
    """
    comparison = compare(
        bandit,
        network,
        {"": algorithm},
        horizon=horizon,
        runs=runs,
        seed=seed,
        engine=engine,
        threads=threads,
        record=record,
        progress=progress,
    )
    return comparison[""]


def compare(
    bandit: Bandit,
    network: Network,
    algorithms: Mapping[str, Algorithm],
    *,
    horizon: int,
    runs: int = 100,
    seed: int | None = 0,
    engine: str = "auto",
    threads: int | None = None,
    record: int | ArrayLike | None = None,
    progress: bool = False,
) -> Comparison:
    """`simulate` once per algorithm with the same seed: common random numbers."""
    _check_problem(bandit, network, algorithms)
    horizon = checks.whole("horizon", horizon, at_least=1, at_most=2**31 - 1)
    runs = checks.whole("runs", runs, at_least=1)
    _check_size(record, horizon, runs, network.n_agents * bandit.n_arms)
    seed = secrets.randbits(32) if seed is None else checks.whole("seed", seed, at_least=0)
    checks.choice("engine", engine, ENGINES)
    threads = os.cpu_count() or 1 if threads is None else threads
    threads = checks.whole("threads", threads, at_least=1)
    bandit.check_runs(runs)
    times = recorded_rounds(record, horizon)

    simulations = {
        name: Simulation(bandit, network, algorithm, horizon, seed, times)
        for name, algorithm in algorithms.items()
    }
    engine = _engine_for(engine, simulations)
    results = {}
    with progress_bar(simulations, total=runs * horizon, show=progress) as bars:
        run = _runner(engine, simulations.values(), bars)
        for name, simulation in simulations.items():
            results[name] = _play(
                simulation, range(runs), run, engine, threads, bars.advance_of(name)
            )
    return Comparison(results)


def simulate_some(
    simulation: Simulation, runs: range, threads: int, advance: Callable[[int], None]
) -> Result:
    """Some of the runs of a simulation, such as runs 100 to 199; on the engine that fits."""
    engine = _engine_for("auto", {"": simulation})
    return _play(simulation, runs, _runner(engine, [simulation], Bars()), engine, threads, advance)


def _play(
    simulation: Simulation,
    runs: range,
    run: Callable[..., Block],
    engine: str,
    threads: int,
    advance: Callable[[int], None],
) -> Result:
    """The result of some runs."""
    block = run(simulation, runs, threads, advance)
    settings = _settings(simulation, len(runs))
    return Result(simulation.times, block.regret, block.pulls, engine, settings)


def _check_size(record: Any, horizon: int, runs: int, cells: int) -> None:
    """Refuse at once what no memory could hold at the end."""
    points = horizon if record is None else record if np.ndim(record) == 0 else np.size(record)
    points = points if isinstance(points, int) and points < horizon else horizon
    gigabytes = runs * (8 * points + 4 * cells) / 1e9
    if gigabytes > 100:
        raise ValueError(
            f"runs is {runs}, whose curves and pulls take {gigabytes:.3g} GB: "
            "take fewer runs, or keep fewer rounds with record="
        )


def _engine_for(engine: str, simulations: Mapping[str, Simulation]) -> str:
    """One engine for all: the compiled one where every part of every simulation has a kernel."""
    if engine == "reference":
        return engine
    lacking = {name: plan.missing(simulation) for name, simulation in simulations.items()}
    reasons = [f"{name}: {what}".removeprefix(": ") for name, what in lacking.items() if what]
    if reasons and engine == "compiled":
        raise ValueError(
            f"engine 'compiled' has no kernel for {'; '.join(reasons)}: "
            "use 'auto' or 'reference', or see posse.lab.compiled_parts()"
        )
    return "reference" if reasons else "compiled"


def _runner(engine: str, simulations: Iterable[Simulation], bars: Bars) -> Callable[..., Block]:
    """The engine's `run`; kernels that were never used before are compiled first."""
    if engine == "reference":
        return reference.run
    from posse.lab.compiled import engine as compiled

    compiled.prepare(simulations, bars.compiling)
    return compiled.run


def recorded_rounds(record: int | ArrayLike | None, horizon: int) -> NDArray[np.int64]:
    """The rounds to record, ascending and ending at the horizon."""
    if record is None:
        return np.arange(1, horizon + 1)
    if np.ndim(record) == 0:
        points = checks.whole("record", record, at_least=1)
        if points >= horizon:
            return np.arange(1, horizon + 1)
        if points == 1:
            return np.array([horizon])
        spaced = np.round(np.geomspace(1, horizon, points)).astype(np.int64)
        # early rounds coincide after rounding: push each past the one before it
        steps = np.arange(points)
        return np.maximum.accumulate(spaced - steps) + steps
    rounds = np.asarray(record)
    valid = rounds.ndim == 1 and rounds.size > 0 and np.issubdtype(rounds.dtype, np.integer)
    if not valid or np.any(np.diff(rounds) <= 0) or rounds[0] < 1 or rounds[-1] > horizon:
        raise ValueError(
            f"record must be a number of points, or increasing whole rounds from 1 to {horizon}"
        )
    ends = rounds if rounds[-1] == horizon else np.append(rounds, horizon)
    return ends.astype(np.int64)


def _check_problem(bandit: Any, network: Any, algorithms: Any) -> None:
    """Refuse what is not a bandit, a network or an algorithm, and rewards nobody can learn from."""
    if not isinstance(bandit, Bandit):
        raise ValueError(f"bandit must be a posse.Bandit, got {bandit!r}")
    if not isinstance(network, Network):
        raise ValueError(
            f"network must be a network such as posse.networks.cycle(10), got {network!r}"
        )
    if not isinstance(algorithms, Mapping) or not algorithms:
        raise ValueError(f"algorithms must be a dict of name to algorithm, got {algorithms!r}")
    for name, algorithm in algorithms.items():
        if not isinstance(name, str) or not name.isprintable():
            raise ValueError(f"algorithm names must be printable text, got {name!r}")
        checks.capable(
            f"algorithm {name!r}" if name else "algorithm",
            algorithm,
            ["init", "choose", "learn"],
            "posse.Decentralized(posse.ThompsonSampling())",
        )
        model = getattr(algorithm, "family", None) or bandit.family
        if not model.rewards.covers(bandit.family.rewards):
            raise ValueError(
                f"family {model.name!r} learns from rewards in {model.rewards}, but the bandit's "
                f"{bandit.family.name!r} rewards lie in {bandit.family.rewards}"
            )


def _settings(simulation: Simulation, runs: int) -> dict[str, Any]:
    s = simulation
    return {
        "bandit": to_data(s.bandit),
        "network": to_data(s.network),
        "algorithm": to_data(s.algorithm),
        "horizon": s.horizon,
        "runs": runs,
        "seed": s.seed,
        "versions": versions(),
    }
