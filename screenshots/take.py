"""`make screenshots`: take the pictures of README and docs, and check the pages.

The exit code is 1 after a serious finding of axe-core, a message on a console, or a page whose
memory grows.
"""

from __future__ import annotations

import base64
import io
import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from screenshots import axe, pages
from screenshots.shop import TOKEN
from tests.browsing import chromium, console, scheme, screen, until
from tests.live.http.page.feeding import feed, size

DOCS = Path(__file__).parent.parent / "docs"
MEMORY = Path("/dev/shm")
WIDE = 1440
NARROW = 375
LARGEST = 350_000  # bytes of a picture
HOUR = 3600  # changes: one a second
GROWTH = 10e6  # bytes


@dataclass(frozen=True)
class Picture:
    """A file of docs/, and how it is taken."""

    name: str
    width: int
    scheme: str
    height: int | None = None  # pixels from the top; None: all of them


class Studio:
    """A browser, and the problems of the pages that it showed."""

    def __init__(self, browser: Any, source: str) -> None:
        self.browser = browser
        self._axe_source = source
        self.problems: list[str] = []

    def open_page(
        self,
        url: str,
        selector: str,
        width: int,
        colours: str,
        scale: float = 1.0,
        height: int | None = None,
    ) -> None:
        """Open a page and wait for a selector; height: of the window, by default of the page."""
        screen(self.browser, width)
        scheme(self.browser, colours)
        self.browser.get("about:blank")
        self.browser.get(url)
        until(lambda: self.browser.find_elements("css selector", selector), f"{url}: no {selector}")
        page_height = self.browser.execute_script("return document.documentElement.scrollHeight")
        screen(self.browser, width, height or page_height, scale)
        time.sleep(1.5)  # until animations end and the stream has started

    def check_page(self, name: str) -> None:
        """Collect the findings of axe-core and the messages of the console."""
        for finding in axe.find_violations(self.browser, self._axe_source):
            print(f"  {name}: {finding}")
            if finding.is_serious:
                self.problems.append(f"{name}: {finding.rule}")
        self.problems += [f"{name}: {message}" for message in console(self.browser)]

    def take_picture(self, url: str, selector: str, picture: Picture) -> None:
        """Write a picture, at a scale that keeps its file small."""
        for scale in (1.5, 1.0):
            self.open_page(url, selector, picture.width, picture.scheme, scale, picture.height)
            answer = self.browser.execute_cdp_cmd("Page.captureScreenshot", {})
            data = reduce_colours(base64.b64decode(answer["data"]))
            if len(data) <= LARGEST:
                break
        (DOCS / picture.name).write_bytes(data)
        print(f"docs/{picture.name}: {len(data) / 1000:.0f} kB, scale {scale}")


@dataclass(frozen=True)
class Page:
    """A page: how to open it, the selector of its last part, and its pictures."""

    open: Callable[[Path], AbstractContextManager[str]]
    selector: str  # of the part that is drawn last
    pictures: tuple[Picture, ...]
    check_more: Callable[[Studio, str], None] | None = None


def reduce_colours(data: bytes) -> bytes:
    """Reduce a PNG to 256 colours."""
    from PIL import Image

    image = Image.open(io.BytesIO(data)).convert("RGB")
    small = io.BytesIO()
    image.quantize(256, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return small.getvalue()


def measure_first_paint(browser: Any, url: str) -> float:
    """Measure the median time in milliseconds until the first contentful paint."""
    script = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
    times = []
    for _ in range(7):
        browser.get("about:blank")
        browser.get(url)
        times.append(until(lambda: browser.execute_script(script)))
    return statistics.median(times)


def measure_growth(browser: Any) -> tuple[float, int]:
    """Measure by how many bytes and nodes an hour of changes makes the page of an agent grow."""
    feed(browser, 0, 121)
    heap_before, nodes_before = size(browser)
    feed(browser, 121, 121 + HOUR)
    heap_after, nodes_after = size(browser)
    return heap_after - heap_before, int(nodes_after - nodes_before)


def check_agent_page(studio: Studio, url: str) -> None:
    """Check operators' controls, a lost connection and an hour of changes."""
    print(
        f"first paint on loopback: {measure_first_paint(studio.browser, url):.0f} ms (at most 300)"
    )
    for width in (WIDE, NARROW):
        for colours in ("light", "dark"):
            studio.open_page(url, "#chart .curve", width, colours)
            studio.browser.execute_script("sessionStorage.setItem('token', arguments[0])", TOKEN)
            studio.open_page(url, ".can-write #chart .curve", width, colours)
            studio.browser.execute_script("document.getElementById('write').open = true")
            studio.check_page(f"operators, {colours}, {width}")
            studio.browser.execute_script("sessionStorage.clear()")
            studio.browser.execute_script("dispatchEvent(new Event('pagehide'))")  # ends its stream
            until(lambda: studio.browser.find_elements("css selector", ".is-stale"))
            studio.check_page(f"stale, {colours}, {width}")
    studio.open_page(url, "#chart .curve", WIDE, "light")
    grown, nodes = measure_growth(studio.browser)
    print(f"an hour of changes: {grown / 1e6:+.1f} MB (at most 10), {nodes:+d} nodes")
    if grown > GROWTH or nodes > 50:
        studio.problems.append("the page grows while it is watched")


PAGES = {
    "agent": Page(
        pages.open_agent_page,
        "#chart .curve",
        (
            Picture("page-light.png", WIDE, "light"),
            Picture("page-dark.png", WIDE, "dark"),
            Picture("page-narrow.png", NARROW, "light"),
        ),
        check_agent_page,
    ),
    "swarm": Page(pages.open_swarm_page, "#regret .curve", (Picture("swarm.png", WIDE, "light"),)),
    "report": Page(pages.open_report, "h1", (Picture("report.png", WIDE, "light", 1050),)),
}


def main(names: list[str]) -> int:
    """Take the pictures of these pages, or of all; return the exit code."""
    logging.disable(logging.WARNING)  # of agents in simulated trouble
    parent = MEMORY if os.access(MEMORY, os.W_OK) else None
    with (
        tempfile.TemporaryDirectory(dir=parent) as folder,
        chromium(Path(folder) / "chromium") as browser,
    ):
        studio = Studio(browser, axe.install_axe(Path(folder) / "npm"))
        for name in names or PAGES:
            page = PAGES[name]
            with page.open(Path(folder) / name) as url:
                for picture in page.pictures:
                    studio.take_picture(url, page.selector, picture)
                for width in (WIDE, NARROW):
                    for colours in ("light", "dark"):
                        studio.open_page(url, page.selector, width, colours)
                        studio.check_page(f"{name}, {colours}, {width}")
                if page.check_more is not None:
                    page.check_more(studio, url)
                browser.get("about:blank")  # before its server stops
        for problem in studio.problems:
            print(f"PROBLEM {problem}", file=sys.stderr)
        return 1 if studio.problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
