"""A hash of the source that numbers come from, so that kept numbers are not those of older code."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import posse

# What shows numbers or carries them about but does not make them.
_SHOWING = (
    *("live", "cli", "interop"),
    *("lab/paper", "lab/pages", "lab/arena", "lab/sweeps", "lab/work"),
    *("lab/plots.py", "lab/html.py", "lab/progress.py"),
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
