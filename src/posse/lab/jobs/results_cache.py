"""A hash of the source that numbers come from, so that kept numbers are not those of older code."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import re
import secrets
import sys
import sysconfig
import time
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

import numpy as np

import posse
from posse.lab import storage
from posse.lab.atomic_files import TEMPORARY
from posse.lab.concatenation import concat, some_runs
from posse.lab.results import Result
from posse.lab.run_ranges import words
from posse.lab.simulation import Job
from posse.lab.simulator import settings_of
from posse.serialization import encode
from posse.serialization.encode import collect_versions, find_repr_only

# What shows numbers or carries them about but does not make them.
_SHOWING = (
    *("live", "cli", "interop"),
    *("lab/paper", "lab/report", "lab/arena", "lab/sweeps", "lab/jobs"),
    *("lab/plots.py", "lab/comparisons.py", "lab/progress.py"),
)


@cache
def source_hash(folder: Path | None = None) -> str:
    """A hash of every Python file of the core, the lab and its engines: names and contents."""
    folder = _ours() if folder is None else folder
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder).as_posix()
        if _makes_numbers(name):
            content = path.read_bytes()
            found.update(f"{name} {len(content)}\n".encode() + content)
    return found.hexdigest()


def is_hashed(path: Path) -> bool:
    """Whether `source_hash` has seen a file."""
    return path.is_relative_to(_ours()) and _makes_numbers(path.relative_to(_ours()).as_posix())


def _makes_numbers(name: str) -> bool:
    return not any(name == each or name.startswith(f"{each}/") for each in _SHOWING)


def _ours() -> Path:
    return Path(posse.__file__).parent


# A name for all that the numbers of a job depend on, the source that makes them among it.
#
# Ours counts whole (`source_hash`); of parts by others, the module that defines them and what it
# imports from beside itself or from its own package. Other libraries count by no more than what
# `versions` tells.

VERSION = 1  # of what is hashed: parts of another version lie in other folders, and are left alone
_KNOWN: weakref.WeakKeyDictionary[Job, str] = weakref.WeakKeyDictionary()


def digest(job: Job) -> str:
    """The name of a job's numbers, whatever its runs; refused where a part cannot be named."""
    if job not in _KNOWN:
        _KNOWN[job] = _digest(job)
    return _KNOWN[job]


def _digest(job: Job) -> str:
    s = job.simulation
    data: dict[str, Any] = {
        "version": VERSION,
        "bandit": encode.encode_bandit(s.bandit),
        "network": encode.encode_network(s.network),
        "algorithm": encode.encode_algorithm(s.algorithm),
        "horizon": s.horizon,
        "seed": s.seed,
        "times": s.times.tolist(),
        "keep": list(s.keep),
        "engine": job.engine,
    }
    for path, part in find_repr_only(data).items():
        raise ValueError(
            f"{path}: {part} has no name by which a file could tell it from others: define it in a "
            "module, as a function or a frozen dataclass of plain fields"
        )
    data["versions"] = collect_versions()
    data["source"] = source_hash()
    data["other sources"] = other_sources(data)
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:20]


def other_sources(data: Any) -> dict[str, str]:
    """Hashes of the modules behind all names 'module:part' in plain data, and of their like."""
    waiting = {name: _file_of(name) for name in _modules_named(data)}
    found: dict[str, str] = {}
    while waiting:
        name, path = waiting.popitem()
        if name in found or path is None or is_hashed(path):
            continue
        stat = path.stat()
        found[name], imported = _read(path, name, stat.st_mtime_ns, stat.st_size)
        for other in imported:
            file = _file_of(other) or _file_beside(other, name, path)
            if file and (_root(other) == _root(name) or not _is_installed(file)):
                waiting[other] = file
    return found


def _modules_named(data: Any) -> Iterator[str]:
    if isinstance(data, Mapping):
        data = list(data.values())
    if isinstance(data, list | tuple):
        for item in data:
            yield from _modules_named(item)
    elif isinstance(data, str) and ":" in data:
        module = data.partition(":")[0]
        if module in sys.modules:
            yield module


def _file_of(name: str) -> Path | None:
    file = getattr(sys.modules.get(name), "__file__", None)
    path = Path(file) if file else None
    return path if path and path.is_file() else None


def _file_beside(other: str, name: str, path: Path) -> Path | None:
    """The file of a module that is not imported yet, in the folder that another was found in."""
    folders = name.count(".") + (path.name == "__init__.py")
    place = path.parents[folders].joinpath(*other.split("."))
    candidates = (place.with_suffix(".py"), place / "__init__.py")
    return next((file for file in candidates if file.is_file()), None)


@cache
def _read(path: Path, name: str, _changed: int, _size: int) -> tuple[str, tuple[str, ...]]:
    """The hash of a module's file, and the modules that it may import."""
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if path.suffix != ".py":
        return found, ()
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    names: list[str] = []
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.Import):
            # 'import a.b' runs a as well
            names += [".".join(each) for alias in node.names for each in _heads(alias.name)]
        elif isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (node.module or "")
            origin = resolve_name(origin, package) if node.level else origin
            names += [origin, *(f"{origin}.{each.name}" for each in node.names)]
    return found, tuple(dict.fromkeys(names))


def _heads(name: str) -> list[list[str]]:
    parts = name.split(".")
    return [parts[: i + 1] for i in range(len(parts))]


def _root(name: str) -> str:
    return name.partition(".")[0]


def _is_installed(file: Path) -> bool:
    """Whether a file belongs to Python or to an installed library."""
    return any(file.is_relative_to(each) for each in _installed())


@cache
def _installed() -> tuple[Path, ...]:
    """Where Python and installed libraries are."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple({Path(sysconfig.get_path(name)) for name in names})


# A folder of results, some runs a file, so that nothing is computed twice.
#
# A job's folder is named by a hash of all that its numbers depend on, the source that makes them
# among it, but the number of runs: more runs only add files. A file is written whole or not at
# all, under a name that tells its runs; files may overlap, as two processes at work on one folder
# leave them. Every file is read before it counts: what is damaged, or holds something else, is
# set aside.

_NAME = re.compile(r"(\d{6,})-(\d{6,})\.nc")
DAMAGED = ".damaged"
# Nobody takes an hour to write a file of some runs: whoever began it was killed.
_ABANDONED = 3600.0


class NotKept(ValueError):
    """A folder that cannot be written to, as on a full disk: no fault of what was computed."""


@dataclass
class PartStore:
    """Results of jobs on disk; `notes` collects what went wrong with stored ones."""

    folder: Path
    notes: list[str] = field(default_factory=list)
    _read: dict[Path, tuple[int, int]] = field(default_factory=dict, repr=False)

    def missing(self, job: Job) -> list[range]:
        """The runs of a job that no sound file holds, as ranges in order."""
        self._clean(job)
        gaps = []
        first = job.runs.start
        for held in [*self._held(job), range(job.runs.stop, job.runs.stop)]:
            if first < held.start:
                gaps.append(range(first, min(held.start, job.runs.stop)))
            first = max(first, min(held.stop, job.runs.stop))
        return gaps

    def keep(self, job: Job, result: Result) -> None:
        """Write some runs of a job."""
        path = self._place(job) / _name(result.run_numbers)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            result.save(path)
        except OSError as error:
            raise self._refusal(error) from error

    def result(self, job: Job) -> Result:
        """All runs of a job, which must be there."""
        parts = []
        first = job.runs.start
        for held in self._held(job):
            wanted = range(max(first, held.start), min(held.stop, job.runs.stop))
            if wanted.start != first or not wanted:
                continue  # a gap before it, or nothing new in it
            path = self._place(job) / _name(held)
            try:
                part = _sound(job, path, held)
            except ValueError:  # damaged since it was read
                self._read.pop(path, None)
                return self.result(job)
            parts.append(some_runs(part, wanted))
            first = wanted.stop
        if first < job.runs.stop:
            lacking = words(self.missing(job)[0])
            raise ValueError(f"{self._place(job)} lacks {lacking}, which are to be computed first")
        return concat(parts)

    def check_writable(self) -> None:
        """Refuse a folder that cannot be written to: before hours of work, not after them."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            probe = self.folder / f"{TEMPORARY}{secrets.token_hex(8)}"
            try:
                probe.touch()
            finally:
                probe.unlink(missing_ok=True)
        except OSError as error:
            raise self._refusal(error) from error

    def _held(self, job: Job) -> list[range]:
        """The runs of each sound file, by their first, the longest first."""
        found = []
        for path in self._place(job).glob("*.nc"):
            runs = _runs_of(path)
            if runs and self._is_sound(job, path, runs):
                found.append(runs)
        return sorted(found, key=lambda runs: (runs.start, -runs.stop))

    def _is_sound(self, job: Job, path: Path, runs: range) -> bool:
        """Whether a file holds these runs of a job; it is read once unless it changes."""
        try:
            stat = path.stat()
            mark = (stat.st_mtime_ns, stat.st_size)
            if self._read.get(path) != mark:
                _sound(job, path, runs)
                self._read[path] = mark
        except FileNotFoundError:  # another process has set it aside
            return False
        except ValueError as error:
            if not path.exists():
                return False
            self.notes.append(f"{error}; computed again")
            with contextlib.suppress(OSError):  # it is not used, wherever it stays
                path.replace(path.with_name(path.name + DAMAGED))
            return False
        return True

    def _clean(self, job: Job) -> None:
        """Remove what killed writers left behind."""
        for path in self._place(job).glob(f"{TEMPORARY}*"):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < time.time() - _ABANDONED:
                    path.unlink()

    def _place(self, job: Job) -> Path:
        return self.folder / digest(job)

    def _refusal(self, error: OSError) -> NotKept:
        return NotKept(
            f"{self.folder} cannot be written to: {error.strerror or error}; "
            "parts that are there already are kept"
        )


def _sound(job: Job, path: Path, runs: range) -> Result:
    """What a file holds, if it is these runs of the job."""
    result = storage.load(path)
    if not isinstance(result, Result) or not _is_of(job, result) or result.run_numbers != runs:
        raise ValueError(f"{path} does not hold {words(runs)} of this simulation")
    return result


def _is_of(job: Job, result: Result) -> bool:
    """Whether a result is of a job's simulation, which its settings tell."""
    told = json.dumps(result.settings, sort_keys=True)
    expected = settings_of(job.simulation, result.run_numbers, job.engine)
    return told == json.dumps(expected, sort_keys=True) and np.array_equal(
        result.times, job.simulation.times
    )


def _name(runs: range) -> str:
    return f"{runs.start:06d}-{runs.stop - 1:06d}.nc"


def _runs_of(path: Path) -> range | None:
    """The runs that a file's name tells, if it is one of ours."""
    found = _NAME.fullmatch(path.name)
    runs = range(int(found[1]), int(found[2]) + 1) if found else range(0)
    return runs if runs and _name(runs) == path.name else None
