"""The results cache: a folder of finished parts, found again by the digest of their job.

A digest covers all that the numbers of a job depend on: settings, versions, the source of the
library that makes numbers, and the source of user-defined modules. The number of runs is not among
it, so that more runs only add files.
"""

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
from posse.lab.concatenation import concat, select_runs
from posse.lab.results import Result
from posse.lab.run_ranges import describe_runs
from posse.lab.simulation import Job
from posse.serialization.encode import find_repr_only

# Code that displays or transports numbers but does not make them: it may change without a rerun.
_DISPLAY_ONLY = (
    *("live", "cli", "interop", "web"),
    *("lab/paper", "lab/report", "lab/arena", "lab/sweeps", "lab/jobs"),
    *("lab/plots.py", "lab/comparisons.py", "lab/progress.py"),
)


@cache
def hash_source(folder: Path | None = None) -> str:
    """Hash the names and contents of all Python files that make numbers."""
    folder = _package_folder() if folder is None else folder
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder).as_posix()
        if _makes_numbers(name):
            content = path.read_bytes()
            digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def is_hashed(path: Path) -> bool:
    """Whether `hash_source` covers a file."""
    return path.is_relative_to(_package_folder()) and _makes_numbers(
        path.relative_to(_package_folder()).as_posix()
    )


def _makes_numbers(name: str) -> bool:
    return not any(
        name == excluded or name.startswith(f"{excluded}/") for excluded in _DISPLAY_ONLY
    )


def _package_folder() -> Path:
    return Path(posse.__file__).parent


# Digests. The library's source is hashed as a whole (`hash_source`). Of a user-defined part, its
# module is hashed, and the modules that this imports from its own folder or package. Installed
# libraries are covered by their versions only.

VERSION = 1  # of the digest: parts of another version are in other folders, and are not touched
_DIGESTS: weakref.WeakKeyDictionary[Job, str] = weakref.WeakKeyDictionary()


def digest(job: Job) -> str:
    """Name the numbers of a job, whatever its runs; a part that cannot be imported is refused."""
    # Computed once a job: sweeps ask for the digest of every job many times.
    if job not in _DIGESTS:
        _DIGESTS[job] = _compute_digest(job)
    return _DIGESTS[job]


def _compute_digest(job: Job) -> str:
    parts = ("bandit", "network", "algorithm", "horizon", "seed", "engine")
    data: dict[str, Any] = {
        "version": VERSION,
        **{name: job.settings[name] for name in parts},
        "times": job.simulation.times.tolist(),
        "keep": list(job.simulation.keep),
    }
    for name in ("activity", "regret"):
        if name in job.settings:
            data[name] = job.settings[name]
    for path, part in find_repr_only(data).items():
        raise ValueError(
            f"{path}: {part} cannot be imported by name: define it in a module, as a function or a "
            "frozen dataclass of plain fields"
        )
    data["versions"] = job.settings["versions"]
    data["source"] = hash_source()
    data["other sources"] = hash_other_sources(data)
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:20]


def hash_other_sources(data: Any) -> dict[str, str]:
    """Hash the modules behind all names 'module:part' in plain data, and those they import."""
    waiting = {name: _find_file(name) for name in _find_named_modules(data)}
    hashes: dict[str, str] = {}
    while waiting:
        name, path = waiting.popitem()
        if name in hashes or path is None or is_hashed(path):
            continue
        stat = path.stat()
        hashes[name], imported = _read_imports(path, name, stat.st_mtime_ns, stat.st_size)
        for imported_name in imported:
            file = _find_file(imported_name) or _find_file_beside(imported_name, name, path)
            # Modules of the same package count even if installed. Other installed modules do not:
            # they change with their version.
            if file and (
                _top_package(imported_name) == _top_package(name) or not _is_installed(file)
            ):
                waiting[imported_name] = file
    return hashes


def _find_named_modules(data: Any) -> Iterator[str]:
    if isinstance(data, Mapping):
        data = list(data.values())
    if isinstance(data, list | tuple):
        for item in data:
            yield from _find_named_modules(item)
    elif isinstance(data, str) and ":" in data:
        module = data.partition(":")[0]
        if module in sys.modules:
            yield module


def _find_file(name: str) -> Path | None:
    file = getattr(sys.modules.get(name), "__file__", None)
    path = Path(file) if file else None
    return path if path and path.is_file() else None


def _find_file_beside(imported_name: str, name: str, path: Path) -> Path | None:
    """Find the file of a module that is not imported yet, relative to the one that imports it."""
    folders = name.count(".") + (path.name == "__init__.py")
    place = path.parents[folders].joinpath(*imported_name.split("."))
    candidates = (place.with_suffix(".py"), place / "__init__.py")
    return next((file for file in candidates if file.is_file()), None)


@cache
def _read_imports(path: Path, name: str, _changed: int, _size: int) -> tuple[str, tuple[str, ...]]:
    """Hash a module's file and list the modules that it imports; cached until the file changes."""
    content = path.read_bytes()
    file_hash = hashlib.sha256(content).hexdigest()
    if path.suffix != ".py":
        return file_hash, ()
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    names: list[str] = []
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.Import):
            # `import a.b` runs a too.
            names += [".".join(each) for alias in node.names for each in _list_packages(alias.name)]
        elif isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (node.module or "")
            origin = resolve_name(origin, package) if node.level else origin
            names += [origin, *(f"{origin}.{each.name}" for each in node.names)]
    return file_hash, tuple(dict.fromkeys(names))


def _list_packages(name: str) -> list[list[str]]:
    parts = name.split(".")
    return [parts[: i + 1] for i in range(len(parts))]


def _top_package(name: str) -> str:
    return name.partition(".")[0]


def _is_installed(file: Path) -> bool:
    """Whether a file belongs to Python or to an installed library."""
    return any(file.is_relative_to(folder) for folder in _installed_folders())


@cache
def _installed_folders() -> tuple[Path, ...]:
    """List the folders of Python and of installed libraries."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple({Path(sysconfig.get_path(name)) for name in names})


# The store: a folder for every digest, a file for every part. Files are written atomically, under
# a name that says which runs they hold. Files may overlap, since two processes may work on one
# folder. Every file is read before it counts; a damaged file, or one with other content, is renamed
# and computed again.

_PART_NAME = re.compile(r"(\d{6,})-(\d{6,})\.nc")
DAMAGED = ".damaged"
# A file that has been written for an hour is abandoned: its writer was killed.
_ABANDONED_SECONDS = 3600.0


class StoreUnwritable(ValueError):
    """The folder of the store cannot be written to, as on a full disk."""


@dataclass
class PartStore:
    """Stored parts of jobs, on disk; `notes` collects messages about damaged files."""

    folder: Path
    notes: list[str] = field(default_factory=list)
    _verified: dict[Path, tuple[int, int]] = field(default_factory=dict, repr=False)

    def find_missing(self, job: Job) -> list[range]:
        """Find the runs of a job that no intact file holds, as ranges in order."""
        self._remove_abandoned(job)
        gaps = []
        first = job.runs.start
        for stored in [*self._list_stored(job), range(job.runs.stop, job.runs.stop)]:
            if first < stored.start:
                gaps.append(range(first, min(stored.start, job.runs.stop)))
            first = max(first, min(stored.stop, job.runs.stop))
        return gaps

    def save_part(self, job: Job, result: Result) -> None:
        """Write a file of some runs of a job."""
        path = self._job_folder(job) / _name_part(result.run_numbers)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            result.save(path)
        except OSError as error:
            raise self._unwritable_error(error) from error

    def load_result(self, job: Job) -> Result:
        """Load all runs of a job; missing ones are refused."""
        parts = []
        first = job.runs.start
        for stored in self._list_stored(job):
            new_runs = range(max(first, stored.start), min(stored.stop, job.runs.stop))
            if new_runs.start != first or not new_runs:
                continue  # a gap before it, or no new runs in it
            path = self._job_folder(job) / _name_part(stored)
            try:
                part = _load_part(job, path, stored)
            except ValueError:  # damaged since it was verified
                self._verified.pop(path, None)
                return self.load_result(job)
            parts.append(select_runs(part, new_runs))
            first = new_runs.stop
        if first < job.runs.stop:
            lacking = describe_runs(self.find_missing(job)[0])
            raise ValueError(f"{self._job_folder(job)} lacks {lacking}: compute them first")
        return concat(parts)

    def check_writable(self) -> None:
        """Refuse a folder that cannot be written to, before hours of work and not after them."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            probe = self.folder / f"{TEMPORARY}{secrets.token_hex(8)}"
            try:
                probe.touch()
            finally:
                probe.unlink(missing_ok=True)
        except OSError as error:
            raise self._unwritable_error(error) from error

    def _list_stored(self, job: Job) -> list[range]:
        """List the runs of every intact file, by their first run, longer ranges first."""
        stored = []
        for path in self._job_folder(job).glob("*.nc"):
            runs = _parse_part_name(path)
            if runs and self._is_sound(job, path, runs):
                stored.append(runs)
        return sorted(stored, key=lambda runs: (runs.start, -runs.stop))

    def _is_sound(self, job: Job, path: Path, runs: range) -> bool:
        """Whether a file holds these runs of a job; it is read again only if it changes."""
        try:
            stat = path.stat()
            # The time of change and the size show whether a verified file has been replaced.
            mark = (stat.st_mtime_ns, stat.st_size)
            if self._verified.get(path) != mark:
                _load_part(job, path, runs)
                self._verified[path] = mark
        except FileNotFoundError:  # another process has renamed it
            return False
        except ValueError as error:
            if not path.exists():
                return False
            self.notes.append(f"{error}; computed again")
            with contextlib.suppress(OSError):  # it is not used, even if it cannot be renamed
                path.replace(path.with_name(path.name + DAMAGED))
            return False
        return True

    def _remove_abandoned(self, job: Job) -> None:
        """Remove temporary files of killed writers."""
        for path in self._job_folder(job).glob(f"{TEMPORARY}*"):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < time.time() - _ABANDONED_SECONDS:
                    path.unlink()

    def _job_folder(self, job: Job) -> Path:
        return self.folder / digest(job)

    def _unwritable_error(self, error: OSError) -> StoreUnwritable:
        return StoreUnwritable(
            f"{self.folder} cannot be written to: {error.strerror or error}; "
            "parts already stored are intact"
        )


def _load_part(job: Job, path: Path, runs: range) -> Result:
    """Load a file, and refuse one that does not hold these runs of the job."""
    result = storage.load(path)
    if not isinstance(result, Result) or not _belongs_to(job, result) or result.run_numbers != runs:
        raise ValueError(f"{path} does not hold {describe_runs(runs)} of this simulation")
    return result


def _belongs_to(job: Job, result: Result) -> bool:
    """Whether a result is of a job's simulation, by its settings and recorded rounds."""
    # As JSON, since the settings of a file have lost the difference of tuples and lists.
    stored = json.dumps(result.settings, sort_keys=True)
    expected = job.settings_of_runs(result.run_numbers)
    return stored == json.dumps(expected, sort_keys=True) and np.array_equal(
        result.times, job.simulation.times
    )


def _name_part(runs: range) -> str:
    return f"{runs.start:06d}-{runs.stop - 1:06d}.nc"


def _parse_part_name(path: Path) -> range | None:
    """Parse the runs in the name of a part; None of other files."""
    match = _PART_NAME.fullmatch(path.name)
    runs = range(int(match[1]), int(match[2]) + 1) if match else range(0)
    return runs if runs and _name_part(runs) == path.name else None
