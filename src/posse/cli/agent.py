"""`posse agent`: one live agent, until it is told to stop; or some, each a process of its own."""

from __future__ import annotations

import gc
import logging
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from posse.cli.errors import live, mistakes
from posse.cli.running import raise_descriptors, say, told
from posse.cli.supervision import Supervisor

if TYPE_CHECKING:
    from posse.live.node import Node
    from posse.live.setup.settings import Settings

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
        from posse.live.setup.process import make_node
        from posse.live.setup.settings import read_settings

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
    from posse.live.http import serve, serve_probe
    from posse.live.setup.doors import door

    front = door(settings, file.resolve().parent)
    server = serve(
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
    from posse.live.setup.reloading import reload_from

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
        from posse.live.setup.settings import read_settings

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
