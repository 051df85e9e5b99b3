"""What a worker does, be it a thread, a process or another machine: play the runs of a part."""

from __future__ import annotations

import functools
import os
import pickle
import platform
import site
import socket
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import posse
from posse.lab.jobs.results_cache import source_hash
from posse.lab.simulation import Block, Simulation
from posse.lab.simulator import play_some

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

    return versions() | {PROCESSOR: cache.processor_target()}


def differences(here: Mapping[str, str], there: Mapping[str, str]) -> str:
    """A phrase that names what a worker has otherwise; empty if nothing."""
    return ", ".join(
        f"{name} is {there.get(name, 'unknown')}, not {wanted}"
        for name, wanted in here.items()
        if there.get(name) != wanted
    )


# Simulations as bytes for other processes, with the source of modules that only we have.
#
# A stranger's algorithm lies in a file beside the user's, which no other machine has: its module
# is sent by value (cloudpickle, which comes with Dask). Without cloudpickle it is sent by name,
# which does for processes on this machine, as they look for modules where we do.


def pack(simulation: Simulation) -> bytes:
    """A simulation as bytes; refused in a sentence if one of its parts cannot be sent."""
    try:
        import cloudpickle
    except ModuleNotFoundError:
        dumps = pickle.dumps
    else:
        dumps = cloudpickle.dumps
        try:
            with _by_value(cloudpickle):
                return bytes(dumps(simulation))
        except Exception:  # such as a module that holds a lock: perhaps the worker has the module
            pass
    try:
        return dumps(simulation)
    except Exception as error:  # whatever a user's part may raise
        raise ValueError(
            f"{simulation.algorithm!r} on {simulation.network!r} cannot be sent to another "
            f"process ({type(error).__name__}: {error}): define its parts in a module"
        ) from error


@contextmanager
def _by_value(cloudpickle: Any) -> Iterator[None]:
    """While modules of the user's own are pickled with all that they define."""
    listed = cloudpickle.list_registry_pickle_by_value()
    ours = [module for module in own_modules() if module.__name__ not in listed]
    for module in ours:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in ours:
            cloudpickle.unregister_pickle_by_value(module)


def own_modules() -> list[ModuleType]:
    """The modules that are nobody's package: neither installed nor of Python itself nor ours."""
    installed = _installed()
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or name in ("__main__", "__mp_main__"):
            continue
        if name.partition(".")[0] == "posse" or getattr(module, "__name__", "") != name:
            continue
        parents = Path(file).resolve().parents
        if not any(folder in parents for folder in installed):
            found.append(module)
    return found


def _installed() -> set[Path]:
    """The folders of Python and of what is installed beside it."""
    folders = {*sysconfig.get_paths().values(), *site.getsitepackages(), site.getusersitepackages()}
    # the standard library of a virtual environment lies elsewhere; a whole prefix such as /usr
    # would be too much, as it may hold people's files
    return {
        Path(folder).resolve()
        for folder in folders
        if "python" in Path(folder).name.lower()
        or Path(folder).name in ("site-packages", "dist-packages", "Lib")
    }
