"""`posse router`: forward messages between agents that cannot connect to each other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from posse.cli.common import catch_user_errors, listen_for_stop, print_line, require_live_extra

EXAMPLES = """Examples:

posse router hub --listen 0.0.0.0:7447 --agent berlin --agent paris

posse router hub --agent berlin --agent paris --certificates /etc/posse/certs"""


def router(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name in its certificate.")],
    agent: Annotated[list[str], typer.Option(help="Name of an agent; may be repeated.")],
    listen: Annotated[
        str, typer.Option(help="Address at which agents connect.")
    ] = "127.0.0.1:7447",
    certificates: Annotated[Path, typer.Option(help="Folder of the certificates.")] = Path("certs"),
    network: Annotated[
        str, typer.Option(help="Name of the network in the agents' files.")
    ] = "default",
) -> None:
    """Run a router for agents that name it in their files; it accepts each under its own name only.

    It stores nothing: while it is down agents continue alone, and catch up when it is back.
    """
    with catch_user_errors(), require_live_extra(), listen_for_stop() as wait_for_stop:
        from posse.live.messaging.transport.zenoh import Router
        from posse.live.security import CertificateFiles

        files = CertificateFiles.in_folder(certificates, name)
        running = Router(name, agent, listen=listen, files=files, network=network)
        print_line(f"{name} listens on {listen}")
        wait_for_stop()
        running.close()
    print_line(f"{name} stopped")
