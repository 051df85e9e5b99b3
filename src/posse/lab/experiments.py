"""Experiments as data: a bandit, a network, some algorithms and how long to run them.

A TOML file holds one (`read_experiment`, `write_experiment`), and a saved result gives its own
back (`experiment_of`). Functions in files are named 'module:function'.
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

from posse import validation
from posse.algorithms import Algorithm
from posse.bandits import AnyBandit
from posse.lab import run_ranges as ranges
from posse.lab import simulation as keeping
from posse.lab.atomic_files import atomic_write
from posse.lab.comparisons import Comparison
from posse.lab.jobs.scheduler import try_out
from posse.lab.recording import check_record
from posse.lab.results import Result
from posse.lab.simulation import Job
from posse.lab.simulator import compare, engine_of_each, jobs_of
from posse.networks import Network
from posse.serialization import toml
from posse.serialization.decode import from_data
from posse.serialization.encode import find_repr_only, to_data

T = TypeVar("T")


@dataclass(frozen=True)
class Experiment:
    """Algorithms by name on one bandit and network; the rest is as in `posse.compare`.

    single: whether it stands for `posse.simulate` of its one algorithm, so that it runs to a
    Result and not to a Comparison of one.
    """

    bandit: AnyBandit
    network: Network
    algorithms: Mapping[str, Algorithm] = field(hash=False)
    horizon: int
    runs: int | range = 100
    seed: int = 0
    record: int | tuple[int, ...] | None = None
    title: str = ""
    engine: str | Mapping[str, str] = field(default="auto", hash=False)
    keep: tuple[str, ...] = ()
    single: bool = False

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
        horizon = validation.validate_integer("horizon", self.horizon, at_least=1)
        check_record(self.record, horizon)
        runs = ranges.runs_of(self.runs)
        self.bandit.check_runs(runs.stop)
        self.bandit.check_agents(self.network.n_agents)
        fields = {
            "algorithms": MappingProxyType(dict(self.algorithms)),
            "horizon": horizon,
            "runs": ranges.plain(runs),
            "seed": validation.validate_integer("seed", self.seed, at_least=0),
            "record": _plain(self.record),
            "engine": _engine(engine_of_each(self.engine, self.algorithms)),
            "keep": keeping.checked(self.keep),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        # a mapping proxy cannot be pickled
        given = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        plain = {
            key: dict(value) if isinstance(value, MappingProxyType) else value
            for key, value in given.items()
        }
        return Experiment, tuple(plain.values())

    @property
    def n_runs(self) -> int:
        """The number of runs."""
        return len(ranges.runs_of(self.runs))

    def jobs(self) -> dict[str, Job]:
        """What is to be played, by name: checked, and strangers' parts tried out."""
        jobs = jobs_of(
            self.bandit,
            self.network,
            self.algorithms,
            horizon=self.horizon,
            runs=self.runs,
            seed=self.seed,
            engine=self.engine,
            record=self.record,
            keep=self.keep,
        )
        try_out(jobs)
        return jobs

    def run(
        self,
        *,
        engine: str | Mapping[str, str] | None = None,
        threads: int | None = None,
        progress: bool = False,
    ) -> Comparison | Result:
        """Compare the algorithms, or simulate the one algorithm of a single experiment.

        engine: in place of the experiment's own.
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
        """Compare the algorithms, as `posse.compare` does; a single one too."""
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
            progress=progress,
        )


def read_experiment(path: str | os.PathLike[str]) -> Experiment:
    """Read a TOML file; what is wrong with it is said in one sentence that names the key.

    Modules of functions may be installed, or lie beside the file.
    """
    return read_file(path, experiment_from_toml)


def read_file(path: str | os.PathLike[str], build: Callable[[str], T]) -> T:
    """What a file's text describes; modules beside it can be imported meanwhile."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ValueError(f"there is no file {path}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text file (TOML is UTF-8)") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    with _importable(Path(path).parent):
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
    """Describe an experiment in TOML, from which `experiment_from_toml` makes an equal one."""
    e = experiment
    head: dict[str, Any] = {"title": e.title, "horizon": e.horizon}
    head |= {"runs": ranges.to_setting(ranges.runs_of(e.runs)), "seed": e.seed}
    for name, default in {"record": None, "engine": "auto", "keep": (), "single": False}.items():
        if (value := getattr(e, name)) != default:
            head[name] = to_data(value)
    tables: dict[tuple[str, ...], Any] = {}
    tables["bandit",] = to_data(e.bandit)
    tables["network",] = to_data(e.network)
    for name, algorithm in e.algorithms.items():
        tables["algorithms", name] = to_data(algorithm)
    for path, table in tables.items():
        _refuse_repr_only(".".join(path), table)
    sections = [toml.format_section(path, _short(table)) for path, table in tables.items()]
    text = "\n\n".join([toml.format_section((), head), *sections]) + "\n"
    if experiment_from_toml(text) != experiment:
        raise ValueError("this experiment would not come back the same from a TOML file")
    return text


def write_experiment(experiment: Experiment, path: str | os.PathLike[str]) -> None:
    """Write a TOML file, wholly or not at all."""
    text = experiment_to_toml(experiment)
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def experiment_of(result: Result | Comparison) -> Experiment:
    """Read back, from the settings of a result, the experiment that gave it (without its title).

    It runs on the engines that gave the result, to the same numbers.
    """
    if not isinstance(result, Result | Comparison):
        raise ValueError(
            f"result must be a Result or a Comparison, got {validation.format_value(result)}"
        )
    single = isinstance(result, Result)
    results = {"algorithm": result} if isinstance(result, Result) else dict(result)
    first = next(iter(results.values()))
    made_by = ("bandit", "network", "horizon", "runs", "seed")
    for name, each in results.items():
        if lacking := [key for key in (*made_by, "algorithm") if key not in each.settings]:
            raise ValueError(
                f"{name!r} cannot be rerun: its settings do not tell {', '.join(lacking)}"
            )
        if differ := [key for key in made_by if each.settings[key] != first.settings[key]]:
            raise ValueError(
                f"{name!r} and {next(iter(results))!r} cannot be rerun as one experiment: they "
                f"differ in {' and '.join(differ)}"
            )
    every_round = len(first.times) == first.horizon
    shared = {key: first.settings[key] for key in made_by}
    algorithms = {name: each.settings["algorithm"] for name, each in results.items()}
    for path, part in find_repr_only({**shared, "algorithms": algorithms}).items():
        raise ValueError(
            f"{path} cannot be rerun: the file only shows {part}; "
            "define it in a module, as a function or a frozen dataclass of plain fields"
        )
    data = {
        **shared,
        **({} if every_round else {"record": first.times.tolist()}),
        "algorithms": algorithms,
        "engine": _engine({name: each.engine for name, each in results.items()}),
        "keep": first.settings.get("keep", []),
        "single": single,
    }
    return from_data(Experiment, data)


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Find modules in a folder too, after all others, so that none of its files hides a library."""
    place = str(folder.resolve())
    if place in sys.path:
        yield
        return
    sys.path.append(place)
    try:
        yield
    finally:
        sys.path.remove(place)


def _engine(engines: Mapping[str, str]) -> str | Mapping[str, str]:
    """One engine where all have the same."""
    names = set(engines.values())
    return names.pop() if len(names) == 1 else MappingProxyType(dict(engines))


def _plain(record: Any) -> Any:
    """Rounds to record as plain numbers."""
    rounds = to_data(record)
    return tuple(rounds) if isinstance(rounds, list) else rounds


def _short(table: Mapping[str, Any]) -> dict[str, Any]:
    """Write a value without fields by its name alone."""
    short = {}
    for key, item in table.items():
        if isinstance(item, Mapping):
            item = item["name"] if list(item) == ["name"] else _short(item)
        short[key] = item
    return short


def _refuse_repr_only(path: str, data: Any) -> None:
    """Refuse functions and classes that a file could not name."""
    for part in find_repr_only(data).values():
        raise ValueError(
            f"{path}: {part} cannot be written to a file: define it in a module, as a function or "
            "a frozen dataclass of plain fields"
        )
