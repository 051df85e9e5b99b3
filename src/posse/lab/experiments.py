"""Experiments as data: a bandit, a network, some algorithms and how long to run them.

A TOML file holds one (`read_experiment`, `write_experiment`), and a saved result gives its own
back (`experiment_of`). Functions in files are named 'module:function'.
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from posse import checks
from posse.algorithms import Algorithm
from posse.bandits import Bandit
from posse.lab import toml
from posse.lab.decode import from_data
from posse.lab.files import atomic_write
from posse.lab.results import Comparison, Result
from posse.lab.settings import has_unnamed, to_data
from posse.lab.simulation import compare, recorded_rounds
from posse.networks import Network


@dataclass(frozen=True)
class Experiment:
    """Algorithms by name on one bandit and network; `record` as in `posse.simulate`."""

    bandit: Bandit
    network: Network
    algorithms: Mapping[str, Algorithm] = field(hash=False)
    horizon: int
    runs: int = 100
    seed: int = 0
    record: int | tuple[int, ...] | None = None
    title: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.algorithms, Mapping) or not self.algorithms:
            raise ValueError("algorithms must hold at least one, as a table [algorithms.NAME]")
        for name in self.algorithms:
            if not isinstance(name, str) or not name.strip() or not name.isprintable():
                raise ValueError(f"algorithms must have printable names, got {name!r}")
        horizon = checks.whole("horizon", self.horizon, at_least=1)
        if self.record is not None:
            recorded_rounds(self.record, horizon)
        runs = checks.whole("runs", self.runs, at_least=1)
        self.bandit.check_runs(runs)
        fields = {
            "algorithms": MappingProxyType(dict(self.algorithms)),
            "horizon": horizon,
            "runs": runs,
            "seed": checks.whole("seed", self.seed, at_least=0),
            "record": _plain(self.record),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        # a mapping proxy cannot be pickled
        fields = (self.horizon, self.runs, self.seed, self.record, self.title)
        return Experiment, (self.bandit, self.network, dict(self.algorithms), *fields)

    def run(
        self, *, engine: str = "auto", threads: int | None = None, progress: bool = False
    ) -> Comparison:
        """Compare the algorithms, as `posse.compare` does."""
        return compare(
            self.bandit,
            self.network,
            self.algorithms,
            horizon=self.horizon,
            runs=self.runs,
            seed=self.seed,
            engine=engine,
            threads=threads,
            record=self.record,
            progress=progress,
        )


def read_experiment(path: str | os.PathLike[str]) -> Experiment:
    """Read a TOML file; what is wrong with it is said in one sentence that names the key.

    Modules of functions may be installed, or lie beside the file.
    """
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
            return experiment_from_toml(text)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None


def experiment_from_toml(text: str) -> Experiment:
    """Build the experiment that TOML text describes."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"this is not TOML: {error}") from None
    return from_data(Experiment, data)


def experiment_to_toml(experiment: Experiment) -> str:
    """Describe an experiment in TOML, from which `experiment_from_toml` makes an equal one."""
    e = experiment
    head = {"title": e.title, "horizon": e.horizon, "runs": e.runs, "seed": e.seed}
    if e.record is not None:
        head["record"] = to_data(e.record)
    tables: dict[tuple[str, ...], Any] = {}
    tables["bandit",] = to_data(e.bandit)
    tables["network",] = to_data(e.network)
    for name, algorithm in e.algorithms.items():
        tables["algorithms", name] = to_data(algorithm)
    for path, table in tables.items():
        _refuse_unnamed(".".join(path), table)
    sections = [toml.section(path, _short(table)) for path, table in tables.items()]
    text = "\n\n".join([toml.section((), head), *sections]) + "\n"
    if experiment_from_toml(text) != experiment:
        raise ValueError("this experiment would not come back the same from a TOML file")
    return text


def write_experiment(experiment: Experiment, path: str | os.PathLike[str]) -> None:
    """Write a TOML file, wholly or not at all."""
    text = experiment_to_toml(experiment)
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def experiment_of(result: Result | Comparison) -> Experiment:
    """Read back, from the settings of a result, the experiment that gave it (without its title)."""
    results = result if isinstance(result, Comparison) else {"algorithm": result}
    first = next(iter(results.values()))
    every_round = len(first.times) == first.horizon
    shared = {key: first.settings[key] for key in ("bandit", "network", "horizon", "runs", "seed")}
    algorithms = {name: each.settings["algorithm"] for name, each in results.items()}
    record = {} if every_round else {"record": first.times.tolist()}
    return from_data(Experiment, {**shared, **record, "algorithms": algorithms})


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


def _refuse_unnamed(path: str, data: Any) -> None:
    """Refuse functions and classes that a file could not name."""
    if has_unnamed(data):
        raise ValueError(
            f"{path}: a lambda or local function cannot be written to a file: define it in a module"
        )
    if "'__main__:" in repr(data):
        raise ValueError(
            f"{path}: a function of the main script cannot be written to a file: "
            "move it to a module of its own"
        )
