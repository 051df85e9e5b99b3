"""A name for all that the numbers of a job depend on, the source that makes them among it.

Ours counts whole (`source_hash`); of parts by others, the module that defines them and what it
imports from beside itself or from its own package. Other libraries count by no more than what
`versions` tells.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sys
import sysconfig
import weakref
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

from posse.lab import described
from posse.lab.settings import not_rerunnable, versions
from posse.lab.source import is_hashed, source_hash
from posse.lab.work.jobs import Job

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
        "bandit": described.bandit(s.bandit),
        "network": described.network(s.network),
        "algorithm": described.algorithm(s.algorithm),
        "horizon": s.horizon,
        "seed": s.seed,
        "times": s.times.tolist(),
        "keep": list(s.keep),
        "engine": job.engine,
    }
    for path, part in not_rerunnable(data).items():
        raise ValueError(
            f"{path}: {part} has no name by which a file could tell it from others: define it in a "
            "module, as a function or a frozen dataclass of plain fields"
        )
    data["versions"] = versions()
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
