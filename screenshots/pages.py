"""The pages that pictures are taken of, each at an address while it is open."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from screenshots.shop import Shop

EXPERIMENT = Path(__file__).parent.parent / "experiments" / "demo.toml"


@contextmanager
def agent(folder: Path) -> Iterator[str]:
    """An agent of a shop, after two weeks."""
    shop = Shop(folder)
    try:
        shop.play()
        shop.go_on()
        with shop.serve("berlin") as server:
            yield server.url
    finally:
        shop.end()


@contextmanager
def swarm(folder: Path) -> Iterator[str]:
    """A swarm of eight in memory in which some things go wrong."""
    from posse.live.demo.page import Demonstration, default_scenario
    from posse.live.demo.page.app import serve_page

    folder.mkdir()
    show = Demonstration(folder, default_scenario(8, 4), in_memory=True, seed=3)
    with serve_page(show, 0) as server:
        try:
            show.start()
            show.set_pace(False, 4.0).result(60)
            time.sleep(12)
            for button, one in (("kill", "lyon"), ("lie", "porto"), ("differ", "rome")):
                show.press_button(button, one).result(60)
                time.sleep(2)
            show.press_button("cut", link=("oslo", "wien")).result(60)
            time.sleep(4)
            show.set_pace(False, 1.0).result(60)
            yield f"{server.url}/"
        finally:
            show.stop()


@contextmanager
def report(folder: Path) -> Iterator[str]:
    """The report of the demonstration's experiment."""
    import posse

    experiment = posse.read_experiment(EXPERIMENT)
    yield experiment.run().report(folder, experiment.title).as_uri()
