"""`posse agent`: one live agent, until it is told to stop; or some, each a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from posse.cli.errors import live, mistakes
from posse.cli.running import say, told

EXAMPLES = """Examples:

posse agent agent.toml

posse agent /etc/posse/berlin.toml

posse agent berlin.toml paris.toml rome.toml"""


def agent(
    files: Annotated[list[Path], typer.Argument(metavar="AGENT.toml", help="An agent's settings.")],
) -> None:
    """Run a live agent: it answers its application over HTTP and learns with its neighbours.

    SIGTERM and Ctrl-C end it cleanly; a crash loses nothing that was acknowledged. Of several
    files, each is run in a process of its own.
    """
    if len(files) > 1:
        raise typer.Exit(_run_all(files))
    _run(files[0])


def _run(file: Path) -> None:
    with mistakes(), live(), told() as stopped:
        from posse.live.lean import import_special

        import_special()
        from posse.live.http import serve
        from posse.live.process import make_node
        from posse.live.settings import read_settings

        settings = read_settings(file)
        with _of(file):
            node = make_node(settings, file.resolve().parent)
        try:
            with _of(file):
                node.start()
                server = serve(node, settings.http, settings.http_hosts)
            with server:
                say(f"{settings.name} answers at {server.url}")
                stopped()
        finally:
            node.stop()
    say(f"{settings.name} stopped")


@contextmanager
def _of(file: Path) -> Iterator[None]:
    """Say in which file the mistake is: there may be several."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def _run_all(files: list[Path]) -> int:
    """Start them, and end all when told to or when one of them ends; how that one ended."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        with told() as stopped:
            for file in files:
                command = [sys.executable, "-m", "posse", "agent", str(file)]
                started.append(subprocess.Popen(command))
            while not stopped(0.1) and all(process.poll() is None for process in started):
                pass
        failed = [process.returncode for process in started if process.poll()]
    finally:  # also if one of them cannot be started
        for process in started:
            process.terminate()
        for process in started:
            process.wait()
    return abs(failed[0]) if failed else 0
