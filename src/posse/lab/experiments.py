"""Experiments as data: a bandit, a network, some algorithms and how long to run them.

An experiment file holds one experiment as TOML (`read_experiment`, `write_experiment`); the
settings of a result give back its experiment (`experiment_of`). Files name functions
as 'module:function'.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from posse import notebook_tables, validation
from posse.activity import Activity, check_activity_type
from posse.algorithms import Algorithm
from posse.bandits import AnyBandit
from posse.lab import run_ranges as ranges
from posse.lab import simulation as keeping
from posse.lab.atomic_files import atomic_write
from posse.lab.comparisons import Comparison
from posse.lab.jobs import dry_run_jobs
from posse.lab.results import Result
from posse.lab.simulation import Job, check_record
from posse.lab.simulator import (
    check_regret,
    compare,
    expand_engines,
    plan_jobs,
    resolve_sizes,
    resolve_world,
)
from posse.networks import Network
from posse.rules import resolve_rules
from posse.serialization import toml
from posse.serialization.decode import from_data
from posse.serialization.encode import find_repr_only, to_data

T = TypeVar("T")


@dataclass(frozen=True)
class Experiment:
    """The arguments of `posse.compare` as data: algorithms by name, one bandit and network.

    horizon: rounds, or a rule of N and K such as "100*N"; `n_rounds` is its value.
    single: whether it stands for `posse.simulate` of its one algorithm: `run` then returns a
    Result instead of a Comparison of one.
    """

    bandit: AnyBandit
    network: Network
    algorithms: Mapping[str, Algorithm] = field(hash=False)
    horizon: int | str
    runs: int | range = 100
    seed: int = 0
    record: int | str | tuple[int | str, ...] | None = None
    title: str = ""
    engine: str | Mapping[str, str] = field(default="auto", hash=False)
    keep: tuple[str, ...] = ()
    single: bool = False
    activity: Activity | None = None
    regret: str = "own"

    def __post_init__(self) -> None:
        if not isinstance(self.algorithms, Mapping) or not self.algorithms:
            raise ValueError("algorithms must hold at least one, as a table [algorithms.NAME]")
        for name in self.algorithms:
            if not isinstance(name, str) or not name.strip() or not name.isprintable():
                raise ValueError(f"algorithms must have printable names, got {name!r}")
        if not isinstance(self.single, bool) or (self.single and len(self.algorithms) > 1):
            raise ValueError(
                f"single must be False, or True for one algorithm, got {self.single!r} for "
                f"{len(self.algorithms)}"
            )
        sizes = self.sizes
        # Rules stay: in a sweep their values depend on the cell.
        bandit, activity, record = resolve_world(self.bandit, self.activity, self.record, sizes)
        check_record(record, sizes["T"])
        runs = ranges.parse_runs(self.runs)
        bandit.check_runs(runs.stop)
        bandit.check_agents(self.network.n_agents)
        check_regret(self.regret, bandit)
        if activity is not None:
            check_activity_type(activity)
            activity.check_agents(self.network.n_agents)
        fields = {
            "algorithms": MappingProxyType(dict(self.algorithms)),
            "horizon": self.horizon if isinstance(self.horizon, str) else sizes["T"],
            "runs": ranges.simplify_runs(runs),
            "seed": validation.validate_integer("seed", self.seed, at_least=0),
            "record": _plain_record(self.record),
            "engine": _merge_engines(expand_engines(self.engine, self.algorithms)),
            "keep": keeping.validate_keep(self.keep),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        # A mapping proxy cannot be pickled.
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        plain = {
            key: dict(value) if isinstance(value, MappingProxyType) else value
            for key, value in values.items()
        }
        return Experiment, tuple(plain.values())

    def _repr_html_(self) -> str:
        named = {f"algorithm {name}": value for name, value in self.algorithms.items()}
        shown = ("bandit", "network", "horizon", "runs", "seed", "engine")
        values = {name: getattr(self, name) for name in shown}
        return notebook_tables.render_fields(self.title or "Experiment", values | named)

    @property
    def n_rounds(self) -> int:
        """The number of rounds: the horizon, or the value of its rule."""
        return self.sizes["T"]

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes that rules may depend on: N agents, K arms, T rounds."""
        return resolve_sizes(self.bandit, self.network, self.horizon)

    def resolve(self) -> Experiment:
        """Return the experiment with the values of all rules in their place."""
        sizes = self.sizes
        bandit, activity, record = resolve_world(self.bandit, self.activity, self.record, sizes)
        return dataclasses.replace(
            self,
            bandit=bandit,
            network=resolve_rules(self.network, {"N": sizes["N"]}),
            algorithms={
                name: resolve_rules(algorithm, sizes) for name, algorithm in self.algorithms.items()
            },
            horizon=sizes["T"],
            activity=activity,
            record=record,
        )

    @property
    def n_runs(self) -> int:
        """The number of runs."""
        return len(ranges.parse_runs(self.runs))

    def jobs(self) -> dict[str, Job]:
        """Validate the experiment, with a dry run of user-defined parts, and return its jobs."""
        jobs = plan_jobs(
            self.bandit,
            self.network,
            self.algorithms,
            horizon=self.horizon,
            runs=self.runs,
            seed=self.seed,
            engine=self.engine,
            record=self.record,
            keep=self.keep,
            activity=self.activity,
            regret=self.regret,
        )
        dry_run_jobs(jobs)
        return jobs

    def run(
        self,
        *,
        engine: str | Mapping[str, str] | None = None,
        threads: int | None = None,
        progress: bool = False,
    ) -> Comparison | Result:
        """Compare the algorithms, or simulate the one algorithm of a single experiment.

        engine: replaces the engine of the experiment
        """
        comparison = self.compare(engine=engine, threads=threads, progress=progress)
        return next(iter(comparison.values())) if self.single else comparison

    def compare(
        self,
        *,
        engine: str | Mapping[str, str] | None = None,
        threads: int | None = None,
        progress: bool = False,
    ) -> Comparison:
        """Run `posse.compare`, for a single algorithm too."""
        return compare(
            self.bandit,
            self.network,
            self.algorithms,
            horizon=self.horizon,
            runs=self.runs,
            seed=self.seed,
            engine=self.engine if engine is None else engine,
            threads=threads,
            record=self.record,
            keep=self.keep,
            activity=self.activity,
            regret=self.regret,
            progress=progress,
        )


def read_experiment(path: str | os.PathLike[str]) -> Experiment:
    """Read an experiment from a TOML file; an error names the key at fault.

    Modules that the file names may be installed, or be in the folder of the file.
    """
    return build_from_file(path, experiment_from_toml)


def build_from_file(path: str | os.PathLike[str], build: Callable[[str], T]) -> T:
    """Read a text file and build a value of it; modules in its folder can be imported."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ValueError(f"there is no file {path}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text file (TOML is UTF-8)") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    with _import_from(Path(path).parent):
        try:
            return build(text)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None


def experiment_from_toml(text: str) -> Experiment:
    """Build the experiment that TOML text describes."""
    data = toml.parse_toml(text)
    if "sweep" in data:
        raise ValueError(
            "the table [sweep] makes it a sweep: posse sweep runs it, posse.read_sweep reads it"
        )
    return from_data(Experiment, data)


def experiment_to_toml(experiment: Experiment) -> str:
    """Write an experiment as TOML text; `experiment_from_toml` reads an equal one from it."""
    e = experiment
    head: dict[str, Any] = {"title": e.title, "horizon": e.horizon}
    head |= {"runs": ranges.encode_runs(ranges.parse_runs(e.runs)), "seed": e.seed}
    for name, default in {
        "record": None,
        "engine": "auto",
        "keep": (),
        "single": False,
        "regret": "own",
    }.items():
        if (value := getattr(e, name)) != default:
            head[name] = to_data(value)
    tables: dict[tuple[str, ...], Any] = {}
    tables["bandit",] = to_data(e.bandit)
    tables["network",] = to_data(e.network)
    if e.activity is not None:
        tables["activity",] = to_data(e.activity)
    for name, algorithm in e.algorithms.items():
        tables["algorithms", name] = to_data(algorithm)
    for path, table in tables.items():
        _refuse_repr_only(".".join(path), table)
    sections = [toml.format_section(path, _shorten_table(table)) for path, table in tables.items()]
    text = "\n\n".join([toml.format_section((), head), *sections]) + "\n"
    # Read back at once: a file that gives another experiment would be found out years later.
    if experiment_from_toml(text) != experiment:
        raise ValueError("this experiment would not come back the same from a TOML file")
    return text


def write_experiment(experiment: Experiment, path: str | os.PathLike[str]) -> None:
    """Write an experiment to a TOML file, atomically."""
    text = experiment_to_toml(experiment)
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def experiment_of(result: Result | Comparison) -> Experiment:
    """Rebuild the experiment of a result from its settings (without the title).

    It names the engines that the result ran on, so that a rerun gives the same numbers.
    """
    if not isinstance(result, Result | Comparison):
        raise ValueError(
            f"result must be a Result or a Comparison, got {validation.format_value(result)}"
        )
    single = isinstance(result, Result)
    results = {"algorithm": result} if isinstance(result, Result) else dict(result)
    first = next(iter(results.values()))
    shared_keys = ("bandit", "network", "horizon", "runs", "seed")
    for name, own_result in results.items():
        if lacking := [
            key for key in (*shared_keys, "algorithm") if key not in own_result.settings
        ]:
            raise ValueError(f"{name!r} cannot be rerun: its settings lack {', '.join(lacking)}")
        if differ := [
            key
            for key in (*shared_keys, "activity", "regret")
            if own_result.settings.get(key) != first.settings.get(key)
        ]:
            raise ValueError(
                f"{name!r} and {next(iter(results))!r} cannot be rerun as one experiment: they "
                f"differ in {' and '.join(differ)}"
            )
    # record=None is shorter than the list of all rounds, and equal to it.
    activity = first.settings.get("activity")
    every_round = len(first.times) == first.horizon
    shared = {key: first.settings[key] for key in shared_keys}
    algorithms = {name: own_result.settings["algorithm"] for name, own_result in results.items()}
    for path, part in find_repr_only(
        {**shared, "activity": activity, "algorithms": algorithms}
    ).items():
        raise ValueError(
            f"{path} cannot be rerun: the file only shows {part}; "
            "define it in a module, as a function or a frozen dataclass of plain fields"
        )
    data = {
        **shared,
        **({} if every_round else {"record": first.times.tolist()}),
        "algorithms": algorithms,
        "engine": _merge_engines({name: own_result.engine for name, own_result in results.items()}),
        "keep": first.settings.get("keep", []),
        **({"activity": activity} if activity is not None else {}),
        **({"regret": first.settings["regret"]} if "regret" in first.settings else {}),
        "single": single,
    }
    return from_data(Experiment, data)


@contextmanager
def _import_from(folder: Path) -> Iterator[None]:
    """Let modules of a folder be imported, after all others, so that none hides a library."""
    place = str(folder.resolve())
    if place in sys.path:
        yield
        return
    sys.path.append(place)
    try:
        yield
    finally:
        sys.path.remove(place)


def _merge_engines(engines: Mapping[str, str]) -> str | Mapping[str, str]:
    """Write one name where all algorithms have the same engine."""
    names = set(engines.values())
    return names.pop() if len(names) == 1 else MappingProxyType(dict(engines))


def _plain_record(record: Any) -> Any:
    """Encode `record=` as plain numbers."""
    rounds = to_data(record)
    return tuple(rounds) if isinstance(rounds, list) else rounds


def _shorten_table(table: Mapping[str, Any]) -> dict[str, Any]:
    """Replace tables that hold only a name by that name."""
    shortened = {}
    for key, item in table.items():
        if isinstance(item, Mapping):
            item = item["name"] if list(item) == ["name"] else _shorten_table(item)
        shortened[key] = item
    return shortened


def _refuse_repr_only(path: str, data: Any) -> None:
    """Refuse functions and classes that cannot be imported by name."""
    for part in find_repr_only(data).values():
        raise ValueError(
            f"{path}: {part} cannot be written to a file: define it in a module, as a function or "
            "a frozen dataclass of plain fields"
        )
