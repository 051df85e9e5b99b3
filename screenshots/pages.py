"""The pages of the screenshots: each context manager yields the address of one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from screenshots.shop import Shop

if TYPE_CHECKING:
    from posse.live.demo.page import Demonstration

EXPERIMENT = Path(__file__).parent.parent / "experiments" / "demo.toml"


@contextmanager
def open_agent_page(folder: Path) -> Iterator[str]:
    """Serve an agent of a shop after two weeks."""
    shop = Shop(folder)
    try:
        shop.play_story()
        shop.run_in_background()
        with shop.serve_agent("berlin") as server:
            yield server.url
    finally:
        shop.close()


@contextmanager
def open_swarm_page(folder: Path) -> Iterator[str]:
    """Serve a demonstration of eight agents in memory, with some faults."""
    from posse.live.demo.page import Demonstration, default_scenario
    from posse.live.demo.page.app import serve_page

    folder.mkdir()
    show = Demonstration(folder, default_scenario(8, 4), in_memory=True, seed=3)
    with serve_page(show, 0) as server:
        try:
            show.start()
            show.set_pace(False, 4.0).result(60)
            wait_for_time(show, 48)
            for button, agent in (("kill", "lyon"), ("lie", "porto"), ("differ", "rome")):
                show.press_button(button, agent).result(60)
                wait_for_time(show, show.ring.newest["time"] + 8)
            show.press_button("cut", link=("oslo", "wien")).result(60)
            wait_for_time(show, show.ring.newest["time"] + 16)
            show.set_pace(False, 1.0).result(60)
            yield f"{server.url}/"
        finally:
            show.stop()


def wait_for_time(show: Demonstration, seconds: float) -> None:
    """Wait until the clock of a demonstration shows a time; a busy machine slows it down."""
    while show.ring.newest["time"] < seconds:
        time.sleep(0.1)


@contextmanager
def open_report(folder: Path) -> Iterator[str]:
    """Write the report of experiments/demo.toml."""
    import posse

    experiment = posse.read_experiment(EXPERIMENT)
    yield experiment.run().report(folder, experiment.title).as_uri()
