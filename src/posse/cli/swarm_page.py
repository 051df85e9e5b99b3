"""`posse swarm --page`: the swarm in a browser, until Ctrl-C."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from posse.cli.running import say
from posse.cli.swarm_counts import say_counts

if TYPE_CHECKING:
    from posse.live.swarm.page import Show

LOOK = 0.2  # seconds between two looks at whether it is over


def run_page(show: Show, folder: Path, port: int, seconds: float | None) -> bool:
    """Serve the page until Ctrl-C, or for some seconds; then count. Whether it ended well."""
    from posse.live.swarm.page.app import serve

    with _log_to(folder / "swarm.log"), serve(show, port) as server:
        try:
            say(f"the swarm is shown at {server.url}/ (Ctrl-C ends it and counts)")
            show.start()
            _wait(show, seconds)
            say("settling: the last rewards, and evidence on its way")
            counts = show.settle()
        finally:
            show.stop()
    well = say_counts(show.swarm, counts, near=0)
    standings = show.audience.standings().values()
    regret, alone = (
        sum(values) / len(standings)
        for values in zip(*((each.regret, each.alone) for each in standings), strict=True)
    )
    typer.echo(f"regret per agent {regret:.1f}; alone with the same visitors they lose {alone:.1f}")
    return well


@contextmanager
def _log_to(file: Path) -> Iterator[None]:
    """Let agents in this process say there, and not in between, what they have to say."""
    from posse.live import logs

    with file.open("w") as stream:
        handler = logs.set_up("swarm", stream=stream)
        try:
            yield
        finally:
            logging.getLogger().removeHandler(handler)


def _wait(show: Show, seconds: float | None) -> None:
    end = None if seconds is None else time.monotonic() + seconds
    try:
        while end is None or time.monotonic() < end:
            if show.failure is not None:
                raise RuntimeError("the swarm's loop ended") from show.failure
            time.sleep(LOOK)
    except KeyboardInterrupt:
        say("")  # after the ^C that a terminal shows
