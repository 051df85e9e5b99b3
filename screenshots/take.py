"""`make screenshots`: pictures of the pages for README and docs, and what is wrong with them.

Serious findings of axe-core, a message on a console and a page that grows end it with code 1.
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
WIDE, NARROW = 1440, 375
LARGEST = 350_000  # bytes of a picture
HOUR, GROWTH = 3600, 10e6  # changes, bytes


@dataclass(frozen=True)
class Picture:
    """A file of docs/, and how it is taken."""

    name: str
    width: int
    scheme: str
    height: int | None = None  # pixels from the top; None: all of them


class Studio:
    """A browser, and what axe-core thinks of what it shows."""

    def __init__(self, browser: Any, source: str) -> None:
        self.browser, self._source = browser, source
        self.problems: list[str] = []

    def show(
        self,
        url: str,
        drawn: str,
        width: int,
        colours: str,
        scale: float = 1.0,
        height: int | None = None,
    ) -> None:
        """Open a page in a window as high as it is, or of this height."""
        screen(self.browser, width)
        scheme(self.browser, colours)
        self.browser.get("about:blank")
        self.browser.get(url)
        until(lambda: self.browser.find_elements("css selector", drawn), f"{url}: no {drawn}")
        high = self.browser.execute_script("return document.documentElement.scrollHeight")
        screen(self.browser, width, height or high, scale)
        time.sleep(1.5)  # what moves comes to rest, and what is live is live

    def judge(self, name: str) -> None:
        """Ask axe-core and the console."""
        for each in axe.findings(self.browser, self._source):
            print(f"  {name}: {each}")
            if each.serious:
                self.problems.append(f"{name}: {each.rule}")
        self.problems += [f"{name}: {said}" for said in console(self.browser)]

    def take(self, url: str, drawn: str, picture: Picture) -> None:
        """Write a picture, at a scale that keeps it small."""
        for scale in (1.5, 1.0):
            self.show(url, drawn, picture.width, picture.scheme, scale, picture.height)
            taken = self.browser.execute_cdp_cmd("Page.captureScreenshot", {})
            data = reduced(base64.b64decode(taken["data"]))
            if len(data) <= LARGEST:
                break
        (DOCS / picture.name).write_bytes(data)
        print(f"docs/{picture.name}: {len(data) / 1000:.0f} kB, scale {scale}")


@dataclass(frozen=True)
class Page:
    """A page: how it is opened, when it is drawn, and its pictures."""

    open: Callable[[Path], AbstractContextManager[str]]
    drawn: str  # a selector of what comes last
    pictures: tuple[Picture, ...]
    more: Callable[[Studio, str], None] | None = None  # what else is looked at


def reduced(data: bytes) -> bytes:
    """A PNG with 256 colours."""
    from PIL import Image

    image = Image.open(io.BytesIO(data)).convert("RGB")
    small = io.BytesIO()
    image.quantize(256, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return small.getvalue()


def first_paint(browser: Any, url: str) -> float:
    """Milliseconds until something of a page is seen, the median of some visits."""
    script = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
    seen = []
    for _ in range(7):
        browser.get("about:blank")
        browser.get(url)
        seen.append(until(lambda: browser.execute_script(script)))
    return statistics.median(seen)


def an_hour(browser: Any) -> tuple[float, int]:
    """Bytes and nodes by which an hour of changes makes the page of an agent larger."""
    feed(browser, 0, 121)
    heap, nodes = size(browser)
    feed(browser, 121, 121 + HOUR)
    grown, others = size(browser)
    return grown - heap, int(others - nodes)


def of_agent(studio: Studio, url: str) -> None:
    """What only the page of an agent has: a first paint, operators, silence, an hour of news."""
    print(f"first paint on loopback: {first_paint(studio.browser, url):.0f} ms (at most 300)")
    for width in (WIDE, NARROW):
        for colours in ("light", "dark"):
            studio.show(url, "#chart .curve", width, colours)
            studio.browser.execute_script("sessionStorage.setItem('token', arguments[0])", TOKEN)
            studio.show(url, ".can-write #chart .curve", width, colours)
            studio.browser.execute_script("document.getElementById('write').open = true")
            studio.judge(f"operators, {colours}, {width}")
            studio.browser.execute_script("sessionStorage.clear()")
            studio.browser.execute_script("dispatchEvent(new Event('pagehide'))")  # ends its stream
            until(lambda: studio.browser.find_elements("css selector", ".is-stale"))
            studio.judge(f"stale, {colours}, {width}")
    studio.show(url, "#chart .curve", WIDE, "light")
    grown, nodes = an_hour(studio.browser)
    print(f"an hour of changes: {grown / 1e6:+.1f} MB (at most 10), {nodes:+d} nodes")
    if grown > GROWTH or nodes > 50:
        studio.problems.append("the page grows while it is watched")


PAGES = {
    "agent": Page(
        pages.agent,
        "#chart .curve",
        (
            Picture("page-light.png", WIDE, "light"),
            Picture("page-dark.png", WIDE, "dark"),
            Picture("page-narrow.png", NARROW, "light"),
        ),
        of_agent,
    ),
    "swarm": Page(pages.swarm, "#regret .curve", (Picture("swarm.png", WIDE, "light"),)),
    "report": Page(pages.report, "h1", (Picture("report.png", WIDE, "light", 1050),)),
}


def main(names: list[str]) -> int:
    """Take the pictures of these pages, or of all; the exit code."""
    logging.disable(logging.WARNING)  # what agents say of made-up troubles
    where = MEMORY if os.access(MEMORY, os.W_OK) else None
    with (
        tempfile.TemporaryDirectory(dir=where) as place,
        chromium(Path(place) / "chromium") as browser,
    ):
        studio = Studio(browser, axe.install(Path(place) / "npm"))
        for name in names or PAGES:
            page = PAGES[name]
            with page.open(Path(place) / name) as url:
                for picture in page.pictures:
                    studio.take(url, page.drawn, picture)
                for width in (WIDE, NARROW):
                    for colours in ("light", "dark"):
                        studio.show(url, page.drawn, width, colours)
                        studio.judge(f"{name}, {colours}, {width}")
                if page.more is not None:
                    page.more(studio, url)
                browser.get("about:blank")  # before its server goes
        for problem in studio.problems:
            print(f"PROBLEM {problem}", file=sys.stderr)
        return 1 if studio.problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
