"""Some runs of a simulation on an engine, and the result that they are."""

from __future__ import annotations

import dataclasses
import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posse import validation
from posse.algorithms import ALGORITHMS
from posse.algorithms.algorithm import Algorithm
from posse.algorithms.rivals.initial_pulls import ForcedStart
from posse.bandits import AnyBandit
from posse.lab import run_ranges as ranges
from posse.lab import simulation as keeping
from posse.lab import validation as parts
from posse.lab.comparisons import Comparison
from posse.lab.compiled import registry as plan
from posse.lab.progress import Bars, progress_bar
from posse.lab.recording import check_run, check_size, points, recorded_rounds
from posse.lab.reference import engine as reference
from posse.lab.reference import true_means as worlds
from posse.lab.results import Result
from posse.lab.simulation import Block, Job, Simulation, in_parts, model_of, play_blocks
from posse.lab.validation import rehearse
from posse.networks.network import Network
from posse.serialization import encode
from posse.serialization.encode import collect_versions

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
    engine = engine or ("reference" if plan.missing_kernel(simulation) else "compiled")
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
        "bandit": encode.encode_bandit(s.bandit),
        "network": encode.encode_network(s.network),
        "algorithm": encode.encode_algorithm(s.algorithm),
        "horizon": s.horizon,
        "runs": ranges.to_setting(runs),
        "seed": s.seed,
        "engine": engine,
        **({"keep": list(s.keep)} if s.keep else {}),
        "versions": collect_versions(),
    }


# `simulate` and `compare`: the lab's front door.

ENGINES = ("auto", "compiled", "reference")
# Whose `check(problem)` is asked: a stranger's may mean anything.
_CHECKING = (ForcedStart, *ALGORITHMS.values())


def simulate(
    bandit: AnyBandit,
    network: Network,
    algorithm: Algorithm,
    *,
    horizon: int,
    runs: int | range = 100,
    seed: int | None = 0,
    engine: str = "auto",
    threads: int | None = None,
    record: int | ArrayLike | None = None,
    keep: Iterable[str] = (),
    progress: bool = False,
) -> Result:
    """Play one algorithm for some runs; the same seed gives the same numbers on any machine load.

    runs:   a number of runs, or some of them such as range(100, 200), which `posse.concat` joins.
    seed:   None draws a fresh one, which the result remembers.
    engine: "compiled", "reference", or "auto": compiled where every part has a kernel.
    record: None keeps every round, n keeps n log-spaced rounds, an array keeps those rounds.
    keep:   what to keep of each run besides regret and pulls: "agents" (agent_regret), "means",
            "messages" (numbers_sent), "beliefs", "signs" (for `posse.calibrate`).

    With a half_life below the mixing time 1/gap of the network, beliefs of Algorithm 1 are surer
    than their evidence: whoever keeps beliefs without signs is warned.

    >>> bandit, network = posse.Bandit.bernoulli([0.7, 0.5, 0.3]), posse.networks.cycle(5)
    >>> dec_ts = posse.Decentralized(posse.ThompsonSampling())
    >>> result = posse.simulate(bandit, network, dec_ts, horizon=100, runs=10, seed=7)
    >>> result.regret.shape, result.pulls.shape
    ((10, 100), (10, 5, 3))
    """
    task = _Task.checked(bandit, network, horizon, runs, seed, threads, record, keep)
    validation.validate_choice("engine", engine, ENGINES)
    entry = _Entry("simulating", "algorithm", "", algorithm, engine)
    (result,) = task.results([entry], progress, try_out=False)
    return result


def compare(
    bandit: AnyBandit,
    network: Network,
    algorithms: Mapping[str, Algorithm],
    *,
    horizon: int,
    runs: int | range = 100,
    seed: int | None = 0,
    engine: str | Mapping[str, str] = "auto",
    threads: int | None = None,
    record: int | ArrayLike | None = None,
    keep: Iterable[str] = (),
    progress: bool = False,
) -> Comparison:
    """`simulate` once per algorithm with the same seed: common random numbers.

    The engine is chosen for each algorithm, so nobody's numbers depend on who stands beside; a dict
    gives each its own by name. Algorithms on different engines meet the same means and graphs but
    other rewards; engine="reference" gives all of them the same.

    >>> algorithms = {
    ...     "dec-TS": posse.Decentralized(posse.ThompsonSampling()),
    ...     "alone": posse.Isolated(posse.ThompsonSampling()),
    ... }
    >>> bandit, network = posse.Bandit.bernoulli([0.7, 0.5, 0.3]), posse.networks.cycle(5)
    >>> comparison = posse.compare(bandit, network, algorithms, horizon=100, runs=10, seed=7)
    >>> bool(comparison["dec-TS"].regret.mean() < comparison["alone"].regret.mean())
    True
    """
    task = _Task.checked(bandit, network, horizon, runs, seed, threads, record, keep)
    results = task.results(_entries(algorithms, engine), progress, try_out=True)
    return Comparison(dict(zip(algorithms, results, strict=True)))


def jobs_of(
    bandit: AnyBandit,
    network: Network,
    algorithms: Mapping[str, Algorithm],
    *,
    horizon: int,
    runs: int | range = 100,
    seed: int = 0,
    engine: str | Mapping[str, str] = "auto",
    record: int | ArrayLike | None = None,
    keep: Iterable[str] = (),
) -> dict[str, Job]:
    """What `compare` would play, checked as it checks, as jobs by name."""
    task = _Task.checked(bandit, network, horizon, runs, seed, 1, record, keep)
    entries = _entries(algorithms, engine)
    simulations, engines = task.planned(entries)
    task.warn_of_short_memory(simulations)
    return {
        entry.bar: Job(simulation, task.runs, its_engine)
        for entry, simulation, its_engine in zip(entries, simulations, engines, strict=True)
    }


def engine_of_each(engine: Any, algorithms: Iterable[str]) -> dict[str, str]:
    """The engine asked for by name of algorithm: one for all, or a table with "auto" elsewhere."""
    if not isinstance(engine, Mapping):
        return dict.fromkeys(algorithms, validation.validate_choice("engine", engine, ENGINES))
    names = list(algorithms)
    for name, each in engine.items():
        validation.validate_choice("engine: algorithm", name, names)
        validation.validate_choice(f"engine: {name}", each, ENGINES)
    return {name: engine.get(name, "auto") for name in names}


def _entries(algorithms: Any, engine: Any) -> list[_Entry]:
    """The algorithms of a comparison, refused in a sentence where they are none."""
    if not isinstance(algorithms, Mapping) or not algorithms:
        raise ValueError(f"algorithms must be a dict of name to algorithm, got {algorithms!r}")
    for name in algorithms:
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise ValueError(f"algorithm names must be printable text, got {name!r}")
    engines = engine_of_each(engine, algorithms)
    return [
        _Entry(name, f"algorithm {name!r}", f"{name}: ", algorithm, engines[name])
        for name, algorithm in algorithms.items()
    ]


@dataclass(frozen=True)
class _Entry:
    """An algorithm of a task, and how it is called on a progress bar and in sentences."""

    bar: str
    label: str
    prefix: str
    algorithm: Algorithm
    engine: str


@dataclass(frozen=True)
class _Task:
    """What all algorithms of a call share, checked."""

    bandit: AnyBandit
    network: Network
    horizon: int
    runs: range
    seed: int
    threads: int
    times: NDArray[np.int64]
    keep: tuple[str, ...]

    @classmethod
    def checked(
        cls,
        bandit: Any,
        network: Any,
        horizon: Any,
        runs: Any,
        seed: Any,
        threads: Any,
        record: Any,
        keep: Any,
    ) -> _Task:
        """Refuse in one sentence what cannot be simulated."""
        parts.check_problem(bandit, network)
        horizon = validation.validate_integer("horizon", horizon, at_least=1, at_most=2**31 - 1)
        runs = ranges.runs_of(runs)
        keep = keeping.checked(keep)
        check_size(bandit, network, len(runs), points(record, horizon))
        check_run(bandit, network)
        seed = (
            secrets.randbits(32)
            if seed is None
            else validation.validate_integer("seed", seed, at_least=0)
        )
        threads = os.cpu_count() or 1 if threads is None else threads
        threads = validation.validate_integer("threads", threads, at_least=1)
        bandit.check_runs(runs.stop)
        parts.check_means(bandit, seed, runs)
        times = recorded_rounds(record, horizon)
        return cls(bandit, network, horizon, runs, seed, threads, times, keep)

    def results(self, entries: Sequence[_Entry], progress: bool, try_out: bool) -> list[Result]:
        """The result of each algorithm; all are checked before the first round of any.

        try_out: whether to rehearse parts that are not ours, as nobody's runs should be lost.
        """
        simulations, engines = self.planned(entries)
        settings = [
            settings_of(simulation, self.runs, engine)
            for simulation, engine in zip(simulations, engines, strict=True)
        ]
        parts.warn_of_what_cannot_be_rerun(settings, stacklevel=3)
        self.warn_of_short_memory(simulations)
        if try_out:
            two = self.runs[: 1 if self.network.is_recipe else 2]
            for entry, simulation, engine in zip(entries, simulations, engines, strict=True):
                if engine == "reference":
                    rehearse(entry.label, of_run(simulation, two[0]), two)
        results = []
        total = len(self.runs) * self.horizon
        with progress_bar([entry.bar for entry in entries], total=total, show=progress) as bars:
            runners = {
                engine: runner(
                    engine,
                    [
                        of_run(simulation, self.runs[0])
                        for simulation, its in zip(simulations, engines, strict=True)
                        if its == engine
                    ],
                    bars,
                )
                for engine in dict.fromkeys(engines)
            }
            for k, simulation in enumerate(simulations):
                run = runners[engines[k]]
                advance = bars.advance_of(entries[k].bar)
                block = play(simulation, self.runs, run, self.threads, advance)
                results.append(made_of(simulation, block, settings[k]))
        return results

    def warn_of_short_memory(self, simulations: Iterable[Simulation]) -> None:
        """Say where beliefs that are kept will be surer than their evidence."""
        for simulation in simulations:
            of_first = of_run(simulation, self.runs[0]).network
            parts.warn_of_short_memory(simulation.algorithm, of_first, self.keep, stacklevel=4)

    def planned(self, entries: Sequence[_Entry]) -> tuple[list[Simulation], list[str]]:
        """The simulation of each algorithm and its engine; refused where one cannot be played."""
        for entry in entries:
            parts.check_algorithm(entry.label, entry.algorithm, self.bandit, self.keep)
        models = [model_of(entry.algorithm, self.bandit) for entry in entries]
        check_size(self.bandit, self.network, len(self.runs), len(self.times), self.keep, models)
        for entry, model in zip(entries, models, strict=True):
            check_run(self.bandit, self.network, entry.algorithm, model)
        # Refused here if hardly any draw is connected; later runs have the patience not to fail
        # by bad luck when others have been played.
        self.network.of_run(self.seed, self.runs[0], most_draws=100)
        simulations = [self._simulation(entry) for entry in entries]
        worlds.check_world(of_run(simulations[0], self.runs[0]), self.runs[0])
        return simulations, _engines(entries, simulations)

    def _simulation(self, entry: _Entry) -> Simulation:
        algorithm: Any = entry.algorithm
        simulation = Simulation(
            self.bandit, self.network, algorithm, self.horizon, self.seed, self.times, self.keep
        )
        if isinstance(algorithm, _CHECKING) and hasattr(algorithm, "check"):
            algorithm.check(of_run(simulation, self.runs[0]).problem(1))
        return simulation


def _engines(entries: Sequence[_Entry], simulations: Sequence[Simulation]) -> list[str]:
    """The engine of each: the one asked for, else the compiled one where all parts have kernels."""
    engines = []
    reasons = []
    for entry, simulation in zip(entries, simulations, strict=True):
        lacking = None if entry.engine == "reference" else plan.missing_kernel(simulation)
        if lacking and entry.engine == "compiled":
            reasons.append(f"{entry.prefix}{lacking}")
        engines.append("reference" if lacking or entry.engine == "reference" else "compiled")
    if reasons:
        raise ValueError(
            f"engine 'compiled' has no kernel for {'; '.join(reasons)}: "
            "use 'auto' or 'reference', or see posse.lab.compiled_parts()"
        )
    return engines
