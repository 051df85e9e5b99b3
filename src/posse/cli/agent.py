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

from posse.cli.common import (
    catch_user_errors,
    listen_for_stop,
    print_line,
    raise_file_limit,
    require_live_extra,
)

if TYPE_CHECKING:
    from posse.live.config.agent_settings import Settings
    from posse.live.node import Node

EXAMPLES = """Examples:

posse agent agent.toml

posse agent /etc/posse/berlin.toml

posse agent berlin.toml paris.toml rome.toml"""

log = logging.getLogger(__name__)

CHECK_SECONDS = 0.1  # seconds between two looks at processes


def agent(
    files: Annotated[list[Path], typer.Argument(metavar="AGENT.toml", help="An agent's settings.")],
) -> None:
    """Run a live agent: it answers its application over HTTP and learns with its neighbours.

    SIGTERM and Ctrl-C end it cleanly, SIGHUP reads its file again; a crash loses nothing that was
    acknowledged. Of several files, each is run in a process of its own; one that dies is started
    again, and the others go on.
    """
    if len(files) > 1:
        _supervise_agents(files)
    else:
        _run_agent(files[0])


def _run_agent(file: Path) -> None:
    node: Node | None = None

    def reload_settings() -> None:
        if node is not None:
            with suppress(Exception):  # the log has it
                _reload_settings(file, node)

    with (
        catch_user_errors(),
        require_live_extra(),
        listen_for_stop(reload_settings) as wait_for_stop,
    ):
        from posse.live import logs
        from posse.live.config.agent_settings import read_settings
        from posse.live.process import make_node

        settings = read_settings(file)
        logs.set_up(settings.name, settings.log)
        raise_file_limit()
        with _name_file_in_errors(file):
            new_node = make_node(settings, file.resolve().parent)
        try:
            with ExitStack() as servers:
                with _name_file_in_errors(file):
                    new_node.start()
                    url = _open_servers(new_node, settings, file, servers)
                node = new_node  # from now on it can be reloaded
                _report_state(settings, f"{settings.name} answers at {url}")
                for experiment in new_node.experiments.values():
                    experiment.say_silence()
                gc.freeze()  # what is here stays, and a look through all of it takes long
                wait_for_stop()
        finally:
            new_node.stop()
    _report_state(settings, f"{settings.name} stopped")


def _open_servers(node: Node, settings: Settings, file: Path, servers: ExitStack) -> str:
    """Open the addresses that the settings name; the one where the application asks."""
    from posse.live.config.http_settings import door
    from posse.live.http import serve, serve_probe

    door_settings = door(settings, file.resolve().parent)
    server = serve(
        node,
        door_settings.address,
        door_settings.hosts,
        token=door_settings.token,
        operator_token=door_settings.operator_token,
        reload=lambda: _reload_settings(file, node),
        certificate=door_settings.certificate,
        key=door_settings.key,
        insecure=settings.insecure_http,
    )
    servers.enter_context(server)
    if settings.probe:
        servers.enter_context(serve_probe(node, settings.probe))
    return server.url


def _reload_settings(file: Path, node: Node) -> str:
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


def _report_state(settings: Settings, line: str) -> None:
    """Say how it stands: to people on stdout, to machines in the log."""
    if settings.log == "json":
        log.info("%s", line)
    else:
        print_line(line)


@contextmanager
def _name_file_in_errors(file: Path) -> Iterator[None]:
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


def _supervise_agents(files: list[Path]) -> None:
    """Look after some agents until told to stop, or until all were stopped."""
    with catch_user_errors(), require_live_extra():
        from posse.live import logs
        from posse.live.config.agent_settings import read_settings

        for file in files:  # what is wrong from the start is said, before any is started
            read_settings(file)
        logs.set_up("posse agent")
    children = Supervisor(files)
    with listen_for_stop(lambda: children.send_signal(signal.SIGHUP)) as wait_for_stop:
        try:
            while children.check_children() and not wait_for_stop(CHECK_SECONDS):
                pass
        finally:
            children.stop_all()


# Some agents under one command: whichever dies is started again, and the others go on.

# seconds before one is started again, twice as many each time
FIRST_DELAY = 1.0
LONGEST_DELAY = 60.0
STEADY_SECONDS = 60.0  # seconds after which one that ran is taken for sound again


class Process(Protocol):
    """What is needed of subprocess.Popen."""

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""

    def send_signal(self, sig: int) -> None:
        """Send it a signal, unless it has ended."""

    def wait(self) -> int:
        """Wait for its end."""


def start_agent(file: Path) -> Process:
    """Run the agent of a file in a process of its own."""
    return subprocess.Popen([sys.executable, "-m", "posse", "agent", str(file)])


@dataclass
class _Child:
    file: Path
    process: Process | None = None
    started_at: float = 0.0  # when it was started
    restart_at: float = 0.0  # when it is to be started, unless it runs
    delay: float = FIRST_DELAY
    stopped: bool = False  # it ended well, by itself: somebody told it to


@dataclass
class Supervisor:
    """Agent processes, restarted with exponential back-off when they die."""

    files: Sequence[Path]
    start_process: Callable[[Path], Process] = start_agent
    clock: Callable[[], float] = time.monotonic
    _children: list[_Child] = field(init=False)

    def __post_init__(self) -> None:
        self._children = [_Child(file) for file in self.files]

    def check_children(self) -> bool:
        """Start what is due, and name what died; whether any is left to look after."""
        for child in self._children:
            now = self.clock()
            if child.process is not None and (code := child.process.poll()) is not None:
                self._handle_exit(child, code, now)
            if child.process is None and not child.stopped and now >= child.restart_at:
                self._start_child(child, now)
        return not all(child.stopped for child in self._children)

    def send_signal(self, number: int) -> None:
        """Send a signal to those that run."""
        for child in self._children:
            if child.process is not None:
                child.process.send_signal(number)

    def stop_all(self) -> None:
        """End all of them, and wait until they have."""
        self.send_signal(signal.SIGTERM)
        for child in self._children:
            if child.process is not None:
                child.process.wait()

    def _start_child(self, child: _Child, now: float) -> None:
        try:
            child.process = self.start_process(child.file)
            child.started_at = now
        except OSError as error:  # such as no more processes
            self._schedule_restart(child, now, f"{child.file} could not be started ({error})")

    def _handle_exit(self, child: _Child, code: int, now: float) -> None:
        child.process = None
        if code == 0:
            child.stopped = True
            log.warning("%s was stopped, and is not started again", child.file)
            return
        if now - child.started_at >= STEADY_SECONDS:
            child.delay = FIRST_DELAY
        how = f"exit code {code}" if code > 0 else f"killed by {_signal_name(-code)}"
        self._schedule_restart(child, now, f"{child.file} died ({how})")

    def _schedule_restart(self, child: _Child, now: float, reason: str) -> None:
        log.error("%s: it is started again in %g s", reason, child.delay)
        child.restart_at = now + child.delay
        child.delay = min(LONGEST_DELAY, 2 * child.delay)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
