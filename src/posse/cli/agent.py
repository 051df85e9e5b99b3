"""`posse agent`: run one live agent, or supervise several, each in its own process."""

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
    from posse.live.config import AgentSettings
    from posse.live.node import Node

EXAMPLES = """Examples:

posse agent agent.toml

posse agent /etc/posse/berlin.toml

posse agent berlin.toml paris.toml rome.toml"""

log = logging.getLogger(__name__)

CHECK_SECONDS = 0.1  # seconds between two checks of the processes


def agent(
    files: Annotated[list[Path], typer.Argument(metavar="AGENT.toml", help="An agent's settings.")],
) -> None:
    """Run a live agent: it answers its application over HTTP and learns with its neighbours.

    SIGTERM and Ctrl-C stop it cleanly, SIGHUP reads its file again; a crash loses nothing that was
    acknowledged. With several files, every agent runs in its own process; an agent that dies is
    restarted while the others keep running.
    """
    if len(files) > 1:
        _supervise_agents(files)
    else:
        _run_agent(files[0])


def _run_agent(file: Path) -> None:
    # Set once the agent serves: a SIGHUP during the start has nothing to reload yet.
    node: Node | None = None

    def reload_settings() -> None:
        if node is not None:
            with suppress(Exception):  # _reload_settings has logged it
                _reload_settings(file, node)

    with (
        catch_user_errors(),
        require_live_extra(),
        listen_for_stop(reload_settings) as wait_for_stop,
    ):
        from posse.live import process as logs
        from posse.live.config import read_settings
        from posse.live.process import make_node

        settings = read_settings(file)
        logs.set_up_logging(settings.name, settings.log)
        # Before any socket: the server derives its number of connections from this limit.
        raise_file_limit()
        with _name_file_in_errors(file):
            new_node = make_node(settings, file.resolve().parent)
        try:
            with ExitStack() as servers:
                with _name_file_in_errors(file):
                    new_node.start()
                    url = _open_servers(new_node, settings, file, servers)
                node = new_node  # from now on SIGHUP can reload it
                _report_state(settings, f"{settings.name} answers at {url}")
                for experiment in new_node.experiments.values():
                    experiment.log_reward_window()
                gc.freeze()  # these objects stay: scanning them in every collection would take long
                wait_for_stop()
        finally:
            # After a failed start, too: it releases the lock on the store.
            new_node.stop()
    _report_state(settings, f"{settings.name} stopped")


def _open_servers(node: Node, settings: AgentSettings, file: Path, servers: ExitStack) -> str:
    """Open the HTTP servers of the settings; return the URL for the application."""
    from posse.live.config import read_http_settings
    from posse.live.http import serve_node, serve_probe

    door_settings = read_http_settings(settings, file.resolve().parent)
    server = serve_node(
        node,
        door_settings.address,
        door_settings.hosts,
        origins=door_settings.origins,
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
    """Apply the changes of a settings file; a bad file changes nothing and is logged."""
    from posse.live.reload import reload_from

    try:
        return reload_from(file, node)
    except Exception as error:
        # A bad file needs one line. Anything else is a bug, and its traceback is needed.
        if not isinstance(error, (ValueError, OSError)):
            log.exception("%s could not be reloaded", file)
        else:
            log.error("%s rejected, still running with the old settings: %s", file, error)
        raise


def _report_state(settings: AgentSettings, line: str) -> None:
    """Report a change of state: on stdout for people, in the log for machines."""
    if settings.log == "json":
        log.info("%s", line)
    else:
        print_line(line)


@contextmanager
def _name_file_in_errors(file: Path) -> Iterator[None]:
    """Prefix errors with the settings file, and explain a lack of threads."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    except BaseException as error:
        # Python's message for it, and the exception that zenoh's Rust code makes of it
        if "start new thread" not in str(error) and type(error).__name__ != "PanicException":
            raise
        raise ValueError(
            f"{file}: the system cannot start another thread: raise its limits of tasks and "
            "memory (ulimit -u, ulimit -v, TasksMax)"
        ) from None


def _supervise_agents(files: list[Path]) -> None:
    """Supervise several agents until a stop signal, or until all of them were stopped."""
    with catch_user_errors(), require_live_extra():
        from posse.live import process as logs
        from posse.live.config import read_settings

        for file in files:  # refuse a bad file before any agent starts
            read_settings(file)
        logs.set_up_logging("posse agent")
    children = Supervisor(files)
    with listen_for_stop(lambda: children.send_signal(signal.SIGHUP)) as wait_for_stop:
        try:
            while children.check_children() and not wait_for_stop(CHECK_SECONDS):
                pass
        finally:
            children.stop_all()


# Supervision of several agents under one command.

# seconds before a restart; the delay doubles after every failure
FIRST_DELAY = 1.0
LONGEST_DELAY = 60.0
STEADY_SECONDS = 60.0  # seconds of running after which the delay starts from FIRST_DELAY again


class Process(Protocol):
    """The part of subprocess.Popen that the supervisor uses."""

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while the process runs."""

    def send_signal(self, sig: int) -> None:
        """Send a signal to the process unless it has ended."""

    def wait(self) -> int:
        """Wait until the process ends; return its exit code."""


def start_agent(file: Path) -> Process:
    """Start the agent of a settings file in its own process."""
    return subprocess.Popen([sys.executable, "-m", "posse", "agent", str(file)])


@dataclass
class _Child:
    file: Path
    process: Process | None = None
    started_at: float = 0.0  # when the process was started
    restart_at: float = 0.0  # when to start it next, unless it runs
    delay: float = FIRST_DELAY
    stopped: bool = False  # exit code 0: an operator stopped it


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
        """Start the processes that are due and log those that died; False if all were stopped."""
        for child in self._children:
            now = self.clock()
            if child.process is not None and (code := child.process.poll()) is not None:
                self._handle_exit(child, code, now)
            if child.process is None and not child.stopped and now >= child.restart_at:
                self._start_child(child, now)
        return not all(child.stopped for child in self._children)

    def send_signal(self, number: int) -> None:
        """Send a signal to all running processes."""
        for child in self._children:
            if child.process is not None:
                child.process.send_signal(number)

    def stop_all(self) -> None:
        """Stop all processes and wait until they have ended."""
        # All are signalled before the first one is awaited, so that they stop at the same time.
        self.send_signal(signal.SIGTERM)
        for child in self._children:
            if child.process is not None:
                child.process.wait()

    def _start_child(self, child: _Child, now: float) -> None:
        try:
            child.process = self.start_process(child.file)
            child.started_at = now
        except OSError as error:  # for example: no more processes
            self._schedule_restart(
                child, now, f"agent {child.file.stem} could not be started ({error})"
            )

    def _handle_exit(self, child: _Child, code: int, now: float) -> None:
        child.process = None
        # Only a stop on request ends with 0; a restart would be against the operator's will.
        if code == 0:
            child.stopped = True
            log.warning("agent %s was stopped; it is not restarted", child.file.stem)
            return
        # It ran well for a while, so this failure does not continue the previous one.
        if now - child.started_at >= STEADY_SECONDS:
            child.delay = FIRST_DELAY
        how = f"ended (exit code {code})" if code > 0 else f"was killed ({_signal_name(-code)})"
        self._schedule_restart(child, now, f"agent {child.file.stem} {how}")

    def _schedule_restart(self, child: _Child, now: float, reason: str) -> None:
        log.error("%s; restarting in %g s", reason, child.delay)
        child.restart_at = now + child.delay
        child.delay = min(LONGEST_DELAY, 2 * child.delay)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
