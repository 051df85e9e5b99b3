"""`simulate` and `compare`: validate the parts, choose engines, play the runs, build results.

Run r depends on the simulation and on r only, so that runs can be played anywhere and joined.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posse.activity import Activity, check_activity
from posse.algorithms import ALGORITHMS, Algorithm, ForcedStart
from posse.bandits import AnyBandit, Bandit
from posse.lab import run_ranges as ranges
from posse.lab import validation
from posse.lab.comparisons import Comparison
from posse.lab.compiled import registry
from posse.lab.progress import Bars, progress_bar
from posse.lab.reference import check_world, run
from posse.lab.results import Result
from posse.lab.simulation import (
    REGRETS,
    Block,
    Job,
    Simulation,
    count_recorded_rounds,
    play_blocks,
    recorded_rounds,
    resolve_model,
    split_runs,
    validate_keep,
)
from posse.networks import Network
from posse.rules import evaluate_rule, resolve_rules
from posse.validation import validate_choice, validate_integer

# An engine's `run(simulation, runs, threads, advance)`.
EngineRun = Callable[..., Block]


def simulate_runs(
    simulation: Simulation,
    runs: range,
    threads: int,
    advance: Callable[[int], None],
    engine: str | None = None,
) -> Result:
    """Play some runs of a simulation, such as runs 100 to 199, and build their result.

    engine: the compiled one where every part has a kernel, unless given
    """
    engine = engine or ("reference" if registry.missing_kernel(simulation) else "compiled")
    block = play_runs(simulation, runs, threads, advance, engine)
    return build_result(Job(simulation, runs, engine), runs, block)


def play_runs(
    simulation: Simulation,
    runs: range,
    threads: int,
    advance: Callable[[int], None],
    engine: str,
) -> Block:
    """Play some runs; a worker does this, and `build_result` makes a Result of what it returns."""
    engine_run = load_engine(engine, [simulation.with_graph_of(runs[0])], Bars())
    return play_on(engine_run, simulation, runs, threads, advance)


def load_engine(engine: str, simulations: Iterable[Simulation], bars: Bars) -> EngineRun:
    """Import an engine and compile the kernels that no earlier simulation has compiled."""
    if engine == "reference":
        return run
    # Numba takes a second to import, which the reference engine does not need.
    from posse.lab.compiled import engine as compiled

    compiled.compile_kernels(simulations, bars.announce_compilation)
    return compiled.run


def play_on(
    engine_run: EngineRun,
    simulation: Simulation,
    runs: range,
    threads: int,
    advance: Callable[[int], None],
) -> Block:
    """Play some runs on an engine; where every run has a fresh graph, a run is a block."""
    if not simulation.network.is_recipe:
        return engine_run(simulation, runs, threads, advance)
    return play_blocks(
        lambda part, go_on: engine_run(simulation.with_graph_of(part[0]), part, 1, go_on),
        split_runs(runs, 1),
        threads,
        advance,
    )


def build_result(job: Job, runs: range, block: Block) -> Result:
    """Make a Result of the arrays of some runs of a job."""
    arrays: list[NDArray[Any]] = [block.regret, block.pulls, *block.kept.values()]
    for array in arrays:
        array.setflags(write=False)  # so that a Result need not copy it
    settings = job.settings_of_runs(runs)
    return Result(job.simulation.times, block.regret, block.pulls, job.engine, settings, block.kept)


ENGINES = ("auto", "compiled", "reference")
# Only the library's algorithms are asked to `check(problem)`: in a user-defined class a method of
# that name may mean anything.
_CHECKING = (ForcedStart, *ALGORITHMS.values())


def simulate(
    bandit: AnyBandit,
    network: Network,
    algorithm: Algorithm,
    *,
    horizon: int | str,
    runs: int | range = 100,
    seed: int | None = 0,
    engine: str = "auto",
    threads: int | None = None,
    record: int | ArrayLike | None = None,
    keep: Iterable[str] = (),
    activity: Activity | None = None,
    regret: str = "own",
    progress: bool = False,
) -> Result:
    """Play one algorithm for some runs; equal seeds give equal numbers, whatever the threads.

    Where a number stands in the bandit, the algorithm, the activity, the horizon or `record`, a
    rule of the number of agents N, of arms K and of rounds T may stand, such as
    learning_rate="sqrt(N)"; in a network, a rule of N.

    runs:   a number of runs, or some of them such as range(100, 200), which `posse.concat` joins.
    seed:   None draws a random one, which the settings of the result contain.
    engine: "compiled", "reference", or "auto": compiled where every part has a kernel.
    record: None records every round, n records n log-spaced rounds, an array those rounds.
    keep:   arrays to store besides regret and pulls: "agents" (agent_regret), "means",
            "messages" (numbers_sent), "beliefs", "signs" (for `posse.calibrate`).
    activity: who plays in a round, such as `posse.activity.Asleep(0.5)`; None: all agents.
    regret: where means differ between agents: "own" is against the best arm of each agent,
            "global" against the best arm of the average over agents, by that average.

    With a half_life below the mixing time 1/gap of the network, beliefs of Algorithm 1 are more
    certain than their evidence: keep="beliefs" without "signs" then warns.

    >>> bandit, network = posse.Bandit.bernoulli([0.7, 0.5, 0.3]), posse.networks.cycle(5)
    >>> dec_ts = posse.Decentralized(posse.ThompsonSampling())
    >>> result = posse.simulate(bandit, network, dec_ts, horizon=100, runs=10, seed=7)
    >>> result.regret.shape, result.pulls.shape
    ((10, 100), (10, 5, 3))
    """
    task = _Task.validate(
        bandit, network, horizon, runs, seed, threads, record, keep, activity, regret
    )
    validate_choice("engine", engine, ENGINES)
    entry = _Entry("simulating", "algorithm", "", algorithm, engine)
    (result,) = task.play([entry], progress, dry_run=False)
    return result


def compare(
    bandit: AnyBandit,
    network: Network,
    algorithms: Mapping[str, Algorithm],
    *,
    horizon: int | str,
    runs: int | range = 100,
    seed: int | None = 0,
    engine: str | Mapping[str, str] = "auto",
    threads: int | None = None,
    record: int | ArrayLike | None = None,
    keep: Iterable[str] = (),
    activity: Activity | None = None,
    regret: str = "own",
    progress: bool = False,
) -> Comparison:
    """`simulate` once per algorithm with the same seed: common random numbers.

    The engine is chosen for every algorithm by itself, so that its numbers do not depend on the
    other algorithms; a dict requests engines by name. Algorithms on different engines face the same
    means and graphs but other rewards; engine="reference" gives all the same rewards.

    >>> algorithms = {
    ...     "dec-TS": posse.Decentralized(posse.ThompsonSampling()),
    ...     "alone": posse.Isolated(posse.ThompsonSampling()),
    ... }
    >>> bandit, network = posse.Bandit.bernoulli([0.7, 0.5, 0.3]), posse.networks.cycle(5)
    >>> comparison = posse.compare(bandit, network, algorithms, horizon=100, runs=10, seed=7)
    >>> bool(comparison["dec-TS"].regret.mean() < comparison["alone"].regret.mean())
    True
    """
    task = _Task.validate(
        bandit, network, horizon, runs, seed, threads, record, keep, activity, regret
    )
    results = task.play(_build_entries(algorithms, engine), progress, dry_run=True)
    return Comparison(dict(zip(algorithms, results, strict=True)))


def plan_jobs(
    bandit: AnyBandit,
    network: Network,
    algorithms: Mapping[str, Algorithm],
    *,
    horizon: int | str,
    runs: int | range = 100,
    seed: int = 0,
    engine: str | Mapping[str, str] = "auto",
    record: int | ArrayLike | None = None,
    keep: Iterable[str] = (),
    activity: Activity | None = None,
    regret: str = "own",
) -> dict[str, Job]:
    """Validate what `compare` would play and return it as jobs, by name of algorithm."""
    task = _Task.validate(bandit, network, horizon, runs, seed, 1, record, keep, activity, regret)
    entries = _build_entries(algorithms, engine)
    jobs = task.plan_jobs(entries)
    task.warn_short_half_life(jobs)
    return {entry.bar: job for entry, job in zip(entries, jobs, strict=True)}


def expand_engines(engine: Any, algorithms: Iterable[str]) -> dict[str, str]:
    """Give every algorithm the engine requested for it: one for all, or a table by name.

    Algorithms that the table does not name get "auto".
    """
    if not isinstance(engine, Mapping):
        return dict.fromkeys(algorithms, validate_choice("engine", engine, ENGINES))
    names = list(algorithms)
    for name, requested in engine.items():
        validate_choice("engine: algorithm", name, names)
        validate_choice(f"engine: {name}", requested, ENGINES)
    return {name: engine.get(name, "auto") for name in names}


def check_regret(regret: Any, bandit: AnyBandit) -> None:
    """Refuse an unknown regret, and the global one of bandits without means of arms."""
    if validate_choice("regret", regret, REGRETS) == "global" and not isinstance(bandit, Bandit):
        raise ValueError(
            f"regret 'global' is for a posse.Bandit, whose arms have means, got "
            f"{type(bandit).__name__}: use 'own'"
        )


@dataclass(frozen=True)
class _Entry:
    """An algorithm of a call with its names: on the progress bar and in error messages."""

    bar: str
    label: str
    prefix: str
    algorithm: Algorithm
    engine: str  # as requested: "auto" too


def _build_entries(algorithms: Any, engine: Any) -> list[_Entry]:
    """Validate the dict of algorithms of a comparison."""
    if not isinstance(algorithms, Mapping) or not algorithms:
        raise ValueError(f"algorithms must be a dict from names to algorithms, got {algorithms!r}")
    for name in algorithms:
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise ValueError(f"algorithm names must be printable text, got {name!r}")
    engines = expand_engines(engine, algorithms)
    return [
        _Entry(name, f"algorithm {name!r}", f"{name}: ", algorithm, engines[name])
        for name, algorithm in algorithms.items()
    ]


@dataclass(frozen=True)
class _Task:
    """The validated arguments that all algorithms of a call share."""

    bandit: AnyBandit
    network: Network
    horizon: int
    runs: range
    seed: int
    threads: int
    times: NDArray[np.int64]
    keep: tuple[str, ...]
    activity: Activity | None
    regret: str

    @classmethod
    def validate(
        cls,
        bandit: Any,
        network: Any,
        horizon: Any,
        runs: Any,
        seed: Any,
        threads: Any,
        record: Any,
        keep: Any,
        activity: Any,
        regret: Any,
    ) -> _Task:
        """Refuse arguments that cannot be simulated, in one sentence."""
        validation.check_types(bandit, network)
        sizes = resolve_sizes(bandit, network, horizon)
        horizon = sizes["T"]
        bandit, activity, record = resolve_world(bandit, activity, record, sizes)
        network = resolve_rules(network, {"N": sizes["N"]})
        validation.check_problem(bandit, network)
        runs = ranges.parse_runs(runs)
        keep = validate_keep(keep)
        # Sizes come first: listing the rounds, or drawing the means, may itself need more memory
        # than there is.
        validation.check_size(bandit, network, len(runs), count_recorded_rounds(record, horizon))
        validation.check_run(bandit, network)
        seed = secrets.randbits(32) if seed is None else validate_integer("seed", seed, at_least=0)
        threads = os.cpu_count() or 1 if threads is None else threads
        threads = validate_integer("threads", threads, at_least=1)
        bandit.check_runs(runs.stop)
        validation.check_means(bandit, seed, runs)
        check_activity(activity, network.n_agents, seed, runs[0], horizon)
        check_regret(regret, bandit)
        times = recorded_rounds(record, horizon)
        return cls(bandit, network, horizon, runs, seed, threads, times, keep, activity, regret)

    def play(self, entries: Sequence[_Entry], progress: bool, dry_run: bool) -> list[Result]:
        """Play all algorithms; all are validated before the first round of any.

        dry_run: whether user-defined parts play a short dry run first, so that a mistake in one
        does not cost the runs of the others
        """
        jobs = self.plan_jobs(entries)
        validation.warn_not_rerunnable([job.settings for job in jobs], stacklevel=3)
        self.warn_short_half_life(jobs)
        if dry_run:
            for entry, job in zip(entries, jobs, strict=True):
                validation.dry_run(entry.label, job)
        results = []
        total = len(self.runs) * self.horizon
        with progress_bar([entry.bar for entry in entries], total=total, show=progress) as bars:
            # All kernels are compiled before the first round, so that the user waits for them once.
            engine_runs = {
                engine: load_engine(
                    engine,
                    [
                        job.simulation.with_graph_of(self.runs[0])
                        for job in jobs
                        if job.engine == engine
                    ],
                    bars,
                )
                for engine in dict.fromkeys(job.engine for job in jobs)
            }
            for entry, job in zip(entries, jobs, strict=True):
                engine_run = engine_runs[job.engine]
                advance = bars.start_bar(entry.bar)
                block = play_on(engine_run, job.simulation, self.runs, self.threads, advance)
                results.append(build_result(job, self.runs, block))
        return results

    def warn_short_half_life(self, jobs: Iterable[Job]) -> None:
        """Warn where stored beliefs will be more certain than their evidence."""
        for job in jobs:
            network = job.simulation.with_graph_of(self.runs[0]).network
            algorithm = job.simulation.algorithm
            validation.warn_short_half_life(algorithm, network, self.keep, stacklevel=4)

    def plan_jobs(self, entries: Sequence[_Entry]) -> list[Job]:
        """Validate every algorithm and choose its engine."""
        entries = [self._resolve_entry(entry) for entry in entries]
        for entry in entries:
            validation.check_algorithm(entry.label, entry.algorithm, self.bandit, self.keep)
            validation.check_direction(entry.label, entry.algorithm, self.network)
            validation.check_idle(
                entry.label, entry.algorithm, self.activity, self.network, self.keep
            )
        models = [resolve_model(entry.algorithm, self.bandit) for entry in entries]
        validation.check_size(
            self.bandit, self.network, len(self.runs), len(self.times), self.keep, models
        )
        for entry, model in zip(entries, models, strict=True):
            validation.check_run(self.bandit, self.network, entry.algorithm, model)
        # A random graph that is hardly ever connected is refused here, after 100 draws; later runs
        # draw far more often, so that bad luck does not end a simulation after hours.
        self.network.of_run(self.seed, self.runs[0], most_draws=100)
        simulations = [self._build_simulation(entry) for entry in entries]
        check_world(simulations[0].with_graph_of(self.runs[0]), self.runs[0])
        engines = _choose_engines(entries, simulations)
        return [
            Job(simulation, self.runs, engine)
            for simulation, engine in zip(simulations, engines, strict=True)
        ]

    def _resolve_entry(self, entry: _Entry) -> _Entry:
        """Replace the rules of an algorithm by their values."""
        sizes = resolve_sizes(self.bandit, self.network, self.horizon)
        try:
            return replace(entry, algorithm=resolve_rules(entry.algorithm, sizes))
        except ValueError as error:
            raise ValueError(f"{entry.label}: {error}") from None

    def _build_simulation(self, entry: _Entry) -> Simulation:
        algorithm: Any = entry.algorithm
        simulation = Simulation(
            self.bandit,
            self.network,
            algorithm,
            self.horizon,
            self.seed,
            self.times,
            self.keep,
            self.activity,
            self.regret,
        )
        if isinstance(algorithm, _CHECKING) and hasattr(algorithm, "check_problem"):
            algorithm.check_problem(simulation.with_graph_of(self.runs[0]).build_problem(1))
        return simulation


def resolve_sizes(bandit: AnyBandit, network: Network, horizon: Any) -> dict[str, int]:
    """Return N, K and T, on which rules depend; K may be a rule of N, and T one of N and K."""
    sizes = {"N": network.n_agents}
    n_arms: Any = bandit.n_arms
    if isinstance(n_arms, str):
        n_arms = evaluate_rule("n_arms", n_arms, sizes)
        n_arms = validate_integer("n_arms", n_arms, at_least=2)
    sizes["K"] = n_arms
    if isinstance(horizon, str):
        horizon = evaluate_rule("horizon", horizon, sizes)
    sizes["T"] = validate_integer("horizon", horizon, at_least=1, at_most=2**31 - 1)
    return sizes


def resolve_world(
    bandit: Any, activity: Any, record: Any, sizes: Mapping[str, int]
) -> tuple[AnyBandit, Activity | None, Any]:
    """Replace the rules of a bandit, an activity and `record=` by their values."""
    parts = []
    for name, part in (("bandit", bandit), ("activity", activity)):
        try:
            parts.append(resolve_rules(part, sizes))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    rounds = list(record) if isinstance(record, list | tuple) else [record]
    values = [evaluate_rule("record", x, sizes) if isinstance(x, str) else x for x in rounds]
    return parts[0], parts[1], values if isinstance(record, list | tuple) else values[0]


def _choose_engines(entries: Sequence[_Entry], simulations: Sequence[Simulation]) -> list[str]:
    """Choose the engine requested, or for "auto" the compiled one where all parts have kernels."""
    engines = []
    reasons = []
    for entry, simulation in zip(entries, simulations, strict=True):
        lacking = None if entry.engine == "reference" else registry.missing_kernel(simulation)
        if lacking and entry.engine == "compiled":
            reasons.append(f"{entry.prefix}{lacking}")
        engines.append("reference" if lacking or entry.engine == "reference" else "compiled")
    if reasons:
        raise ValueError(
            f"engine 'compiled' has no kernel for {'; '.join(reasons)}: "
            "use 'auto' or 'reference', or see posse.lab.compiled_parts()"
        )
    return engines
