"""`posse agent`: one live agent, until it is told to stop."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Annotated, Any

import typer

from posse.cli.errors import live, mistakes

EXAMPLES = """Examples:

posse agent agent.toml

posse agent /etc/posse/berlin.toml"""


def agent(
    file: Annotated[Path, typer.Argument(metavar="AGENT.toml", help="What the agent is.")],
) -> None:
    """Run a live agent: it answers its application over HTTP and learns with its neighbours.

    SIGTERM and Ctrl-C end it cleanly; a crash loses nothing that was acknowledged.
    """
    with mistakes(), live():
        from posse.live.http import serve
        from posse.live.process import make_node
        from posse.live.settings import read_settings

        settings = read_settings(file)
        told = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: told.set())
        node = make_node(settings, file.resolve().parent)
        server: Any = None
        try:
            node.start()
            server = serve(node, settings.http)
            typer.echo(f"{settings.name} answers at {server.url}")
            told.wait()
        finally:
            if server is not None:
                server.stop()
            node.stop()
    typer.echo(f"{settings.name} stopped")
