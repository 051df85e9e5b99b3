"""What a worker does, be it a thread, a process or another machine: play the runs of a part."""

from __future__ import annotations

import functools
import os
import pickle
import platform
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata

import posse
from posse.lab.blocks import Block, Simulation
from posse.lab.playing import play_some
from posse.lab.source import source_hash

PROCESSOR = "processor (NUMBA_CPU_NAME=generic makes all alike)"
_stopped: set[str] = set()  # the work that nobody waits for any more, for workers in this process


class WorkersDiffer(ValueError):
    """A worker that would give other numbers than the rest."""


class PartFailed(RuntimeError):
    """What went wrong in another process, in words: it may be of a kind that cannot be sent."""


@dataclass(frozen=True)
class Part:
    """Some runs to be played, as they are sent to a worker."""

    simulation: Simulation | bytes  # bytes for other processes, see `packing`
    runs: range
    engine: str
    work: str = ""  # the call of `complete` that it is for
    threads: int = 1
    versions: Mapping[str, str] = field(default_factory=dict)  # those that the worker must have


def play(part: Part) -> tuple[Block, float]:
    """The numbers of the runs of a part, and the seconds they took."""
    there = about(PROCESSOR in part.versions) if part.versions else {}
    if differing := differences(part.versions, there):
        worker = f"{socket.gethostname()}, process {os.getpid()}"
        raise WorkersDiffer(f"worker {worker} would give other numbers: {differing}")
    if not isinstance(part.simulation, bytes):
        return _play(part, part.simulation)
    try:
        return _play(part, _unpacked(part.simulation))
    except ValueError as error:
        raise ValueError(str(error)) from error
    except Exception as error:  # whatever a user's part may raise
        raise PartFailed(f"{type(error).__name__}: {error}") from error


def _play(part: Part, simulation: Simulation) -> tuple[Block, float]:
    def go_on(steps: int) -> None:
        if part.work in _stopped:
            raise KeyboardInterrupt

    start = time.perf_counter()
    try:
        block = play_some(simulation, part.runs, part.threads, go_on, part.engine)
    except SystemExit as error:  # of a user's part, which would end us without a word
        raise PartFailed(f"SystemExit: {error}") from error
    return block, time.perf_counter() - start


def stop(work: str) -> None:
    """Let the threads of this process leave the parts of some work."""
    _stopped.add(work)


@functools.lru_cache(maxsize=2)  # parts of one simulation come together
def _unpacked(packed: bytes) -> Simulation:
    simulation: Simulation = pickle.loads(packed)
    return simulation


@functools.cache
def versions() -> dict[str, str]:
    """All that numbers depend on but the processor: what workers must have as we do."""
    return {
        "posse": posse.__version__,
        "source of posse": source_hash()[:12],
        "python": ".".join(platform.python_version_tuple()[:2]),
        **{name: metadata.version(name) for name in ("numpy", "scipy", "numba")},
    }


def about(compiled: bool) -> dict[str, str]:
    """What a worker tells of itself; its processor where kernels are to be compiled for it."""
    if not compiled:
        return versions()
    from posse.lab.compiled import cache

    return versions() | {PROCESSOR: cache.target()}


def differences(here: Mapping[str, str], there: Mapping[str, str]) -> str:
    """A phrase that names what a worker has otherwise; empty if nothing."""
    return ", ".join(
        f"{name} is {there.get(name, 'unknown')}, not {wanted}"
        for name, wanted in here.items()
        if there.get(name) != wanted
    )
