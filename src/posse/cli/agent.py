"""`posse agent`: one live agent, until it is told to stop; or some, each a process of its own."""

from __future__ import annotations

import gc
import logging
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from posse.cli.common import live, mistakes, raise_descriptors, say, told

if TYPE_CHECKING:
    from posse.live.config.agent_settings import Settings
    from posse.live.node import Node

EXAMPLES = """Examples:

posse agent agent.toml

posse agent /etc/posse/berlin.toml

posse agent berlin.toml paris.toml rome.toml"""

log = logging.getLogger(__name__)

LOOK = 0.1  # seconds between two looks at processes


def agent(
    files: Annotated[list[Path], typer.Argument(metavar="AGENT.toml", help="An agent's settings.")],
) -> None:
    """Run a live agent: it answers its application over HTTP and learns with its neighbours.

    SIGTERM and Ctrl-C end it cleanly, SIGHUP reads its file again; a crash loses nothing that was
    acknowledged. Of several files, each is run in a process of its own; one that dies is started
    again, and the others go on.
    """
    if len(files) > 1:
        _run_all(files)
    else:
        _run(files[0])


def _run(file: Path) -> None:
    node: Node | None = None

    def reload() -> None:
        if node is not None:
            with suppress(Exception):  # the log has it
                _reload(file, node)

    with mistakes(), live(), told(reload) as stopped:
        from posse.live import logs
        from posse.live.config.agent_settings import read_settings
        from posse.live.process import make_node

        settings = read_settings(file)
        logs.set_up(settings.name, settings.log)
        raise_descriptors()
        with _of(file):
            made = make_node(settings, file.resolve().parent)
        try:
            with ExitStack() as open_:
                with _of(file):
                    made.start()
                    url = _serve(made, settings, file, open_)
                node = made  # from now on it can be reloaded
                _tell(settings, f"{settings.name} answers at {url}")
                for experiment in made.experiments.values():
                    experiment.say_silence()
                gc.freeze()  # what is here stays, and a look through all of it takes long
                stopped()
        finally:
            made.stop()
    _tell(settings, f"{settings.name} stopped")


def _serve(node: Node, settings: Settings, file: Path, open_: ExitStack) -> str:
    """Open the addresses that the settings name; the one where the application asks."""
    from posse.live.config.http_settings import door
    from posse.live.http import serve_node, serve_probe

    front = door(settings, file.resolve().parent)
    server = serve_node(
        node,
        front.address,
        front.hosts,
        token=front.token,
        operator_token=front.operator_token,
        reload=lambda: _reload(file, node),
        certificate=front.certificate,
        key=front.key,
        insecure=settings.insecure_http,
    )
    open_.enter_context(server)
    if settings.probe:
        open_.enter_context(serve_probe(node, settings.probe))
    return server.url


def _reload(file: Path, node: Node) -> str:
    """Take in what has changed in a file; a bad one changes nothing, and the log says why."""
    from posse.live.config.reload import reload_from

    try:
        return reload_from(file, node)
    except Exception as error:
        if not isinstance(error, (ValueError, OSError)):
            log.exception("%s could not be read again", file)
        else:
            log.error("%s is not taken in, nothing has changed: %s", file, error)
        raise


def _tell(settings: Settings, line: str) -> None:
    """Say how it stands: to people on stdout, to machines in the log."""
    if settings.log == "json":
        log.info("%s", line)
    else:
        say(line)


@contextmanager
def _of(file: Path) -> Iterator[None]:
    """Say in which file the mistake is: there may be several; and what the system lacks."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    except BaseException as error:
        # Python's word for it, and what zenoh's Rust makes of the same
        if "start new thread" not in str(error) and type(error).__name__ != "PanicException":
            raise
        raise ValueError(
            f"{file}: the system has no room for one more thread: raise its limits of tasks and "
            "memory (ulimit -u, ulimit -v, TasksMax)"
        ) from None


def _run_all(files: list[Path]) -> None:
    """Look after some agents until told to stop, or until all were stopped."""
    with mistakes(), live():
        from posse.live import logs
        from posse.live.config.agent_settings import read_settings

        for file in files:  # what is wrong from the start is said, before any is started
            read_settings(file)
        logs.set_up("posse agent")
    children = Supervisor(files)
    with told(lambda: children.pass_on(signal.SIGHUP)) as stopped:
        try:
            while children.look() and not stopped(LOOK):
                pass
        finally:
            children.stop()


# Some agents under one command: whichever dies is started again, and the others go on.

# seconds before one is started again, twice as many each time
FIRST = 1.0
LONGEST = 60.0
STEADY = 60.0  # seconds after which one that ran is taken for sound again


class Process(Protocol):
    """What is needed of subprocess.Popen."""

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""

    def send_signal(self, sig: int) -> None:
        """Send it a signal, unless it has ended."""

    def wait(self) -> int:
        """Wait for its end."""


def start(file: Path) -> Process:
    """Run the agent of a file in a process of its own."""
    return subprocess.Popen([sys.executable, "-m", "posse", "agent", str(file)])


@dataclass
class _Child:
    file: Path
    process: Process | None = None
    since: float = 0.0  # when it was started
    again: float = 0.0  # when it is to be started, unless it runs
    delay: float = FIRST
    done: bool = False  # it ended well, by itself: somebody told it to


@dataclass
class Supervisor:
    """Agent processes, restarted with exponential back-off when they die."""

    files: Sequence[Path]
    start: Callable[[Path], Process] = start
    clock: Callable[[], float] = time.monotonic
    _children: list[_Child] = field(init=False)

    def __post_init__(self) -> None:
        self._children = [_Child(file) for file in self.files]

    def look(self) -> bool:
        """Start what is due, and name what died; whether any is left to look after."""
        for child in self._children:
            now = self.clock()
            if child.process is not None and (code := child.process.poll()) is not None:
                self._ended(child, code, now)
            if child.process is None and not child.done and now >= child.again:
                self._start(child, now)
        return not all(child.done for child in self._children)

    def pass_on(self, number: int) -> None:
        """Send a signal to those that run."""
        for child in self._children:
            if child.process is not None:
                child.process.send_signal(number)

    def stop(self) -> None:
        """End all of them, and wait until they have."""
        self.pass_on(signal.SIGTERM)
        for child in self._children:
            if child.process is not None:
                child.process.wait()

    def _start(self, child: _Child, now: float) -> None:
        try:
            child.process = self.start(child.file)
            child.since = now
        except OSError as error:  # such as no more processes
            self._put_off(child, now, f"{child.file} could not be started ({error})")

    def _ended(self, child: _Child, code: int, now: float) -> None:
        child.process = None
        if code == 0:
            child.done = True
            log.warning("%s was stopped, and is not started again", child.file)
            return
        if now - child.since >= STEADY:
            child.delay = FIRST
        how = f"exit code {code}" if code > 0 else f"killed by {_name(-code)}"
        self._put_off(child, now, f"{child.file} died ({how})")

    def _put_off(self, child: _Child, now: float, what: str) -> None:
        log.error("%s: it is started again in %g s", what, child.delay)
        child.again = now + child.delay
        child.delay = min(LONGEST, 2 * child.delay)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
