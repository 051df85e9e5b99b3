"""Agents in memory behind servers, and what somebody sees who looks at their pages."""

from contextlib import ExitStack, contextmanager

import httpx
import pytest

from posse.live.http import page as sections
from posse.live.http import page as streams
from posse.live.http import serve_node
from tests.browsing import console, requests, screen, until
from tests.live.several import Several, table

START = 1_800_000_000.0  # on the agents' clock, which tests move by hand
NEWS = 0.1  # seconds between two looks of an agent at itself, while somebody watches
OPERATORS = "operators'"
BLANK = "about:blank"


class World(Several):
    """Agents on a line, each with a server; their clock stands still unless told to go on."""

    def __init__(self, folder, seed=0, **faults):
        super().__init__(folder, seed, **faults)
        self.now = START
        self._servers = ExitStack()
        self.urls = {}

    def serve(self, name, address="127.0.0.1:0", **options):
        server = self._servers.enter_context(serve_node(self.nodes[name], address, **options))
        self.urls[name] = server.url
        return server

    def close(self):
        self._servers.close()
        super().close()


@contextmanager
def world(folder, **settings):
    """Agents by name with the data of each, all of them served, and looked at often."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (sections, streams):
            patch.setattr(module, "REFRESH_SECONDS", NEWS)
        patch.setattr(sections, "MAX_CORE_SHARE", 1.0)
        made = World(folder).start(**settings)
        try:
            for name in settings:
                made.serve(name, operator_token=OPERATORS)
            yield made
        finally:
            made.close()


def one(name, **settings):
    """The data of an agent with one experiment."""
    return {**table(name, **settings), "experiments": {"default": {}}}


class Page:
    """The page of an agent in a browser."""

    def __init__(self, browser, url):
        self.browser, self.url = browser, url
        self.allowed = []  # parts of what the console may be told
        browser.get(BLANK)
        console(browser), requests(browser)  # of whoever was here before
        screen(browser, 1440)
        browser.get(url)

    def run(self, script, *given):
        return self.browser.execute_script(f"return {script}", *given)

    def wait(self, script, *given):
        """What a script says once that is true."""
        return until(lambda: self.run(script, *given), lambda: f"{script}\n{self.text('body')}")

    def text(self, selector):
        """All that an element says, joined as it is read."""
        return self.run(
            "document.querySelector(arguments[0])?.textContent.replace(/\\s+/g, ' ').trim()",
            selector,
        )

    def texts(self, selector):
        return self.run(
            "[...document.querySelectorAll(arguments[0])].map((each) => each.textContent.trim())",
            selector,
        )

    def shown(self, selector):
        """What such elements say, of those that can be seen."""
        return self.run(
            "[...document.querySelectorAll(arguments[0])].filter((each) => each.checkVisibility())"
            ".map((each) => each.textContent.trim())",
            selector,
        )

    def tip(self, selector):
        return self.run("document.querySelector(arguments[0]).dataset.tip", selector)

    def shows(self, selector, *words):
        """Wait until an element says all of these."""
        until(
            lambda: all(word in (self.text(selector) or "") for word in words),
            lambda: f"{words} not in: {self.text(selector)}",
        )

    def find(self, selector):
        return self.browser.find_element("css selector", selector)

    def press(self, *keys):
        from selenium.webdriver import ActionChains

        ActionChains(self.browser, duration=0).send_keys(*keys).perform()

    def is_drawn(self):
        return self.wait("!document.getElementById('content').hidden")

    @property
    def is_stale(self):
        return self.run("document.body.classList.contains('is-stale')")

    def overflow(self):
        """Pixels by which the page is wider than its window."""
        return self.run("document.documentElement.scrollWidth - innerWidth")

    def leave(self):
        """Forget its token and go; it told the console nothing, and asked nobody but its agent."""
        if self.browser.current_url == BLANK:
            return
        told, asked = console(self.browser), requests(self.browser)
        self.run("sessionStorage.clear()")  # last: what it asks from now on has no token
        self.browser.get(BLANK)
        told = [said for said in told if not any(part in said for part in self.allowed)]
        assert not told, told
        assert asked, "the log of requests is empty"
        own = self.url.partition("#")[0].rstrip("/")
        strangers = [url for url in asked if not url.startswith(f"{own}/")]
        assert not strangers, strangers


@pytest.fixture
def watch(browser):
    """Open the page of an agent, which is to be quiet in the end."""
    made = []

    def look(url):
        made.append(Page(browser, url))
        return made[-1]

    yield look
    made[-1].leave()


def asks(url):
    """What its interface says of the only experiment, by route."""
    with httpx.Client(base_url=url, trust_env=False) as http:
        found = {}
        for route in ("arms", "audit", "verdict", "sites", "network", "experiments", "controls"):
            answer = http.get(f"/v1/{route}")
            found[route] = answer.json() if answer.status_code == 200 else None
        return found
