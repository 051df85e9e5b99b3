"""The page in a real browser: numbers of the API, buttons, the past, keys, wide and narrow."""

import httpx
import pytest

from posse.live.demo.page.app import serve_page
from tests.browsing import (
    all_of,
    console,
    requests,
    scheme,
    screen,
    texts,
    until,
)

BLANK = "about:blank"
ENTER, SPACE = "\ue007", " "  # as the browser's driver has it


class Page:
    """The page as somebody sees it, and the swarm's own word for it."""

    def __init__(self, browser, show, server):
        self.browser, self.show, self.url = browser, show, server.url
        browser.get(BLANK)
        console(browser), requests(browser)  # what others left
        screen(browser, 1440)
        scheme(browser, "light")

    def open(self):
        self.browser.get(self.url)
        until(lambda: self.visible("#content"), "it is drawn")

    def find(self, selector):
        return self.browser.find_element("css selector", selector)

    def visible(self, selector):
        return self.find(selector).is_displayed()

    def text(self, selector):
        return self.find(selector).text

    def view(self):
        return httpx.get(f"{self.url}/v1/view", trust_env=False).json()

    def pick(self, selector, key=ENTER):
        found = self.find(selector)
        self.browser.execute_script("arguments[0].focus()", found)
        found.send_keys(key)
        until(lambda: self.find(selector).get_attribute("aria-pressed") == "true", selector)

    def press(self, id_, before, after):
        """Press a button, which names what it does, and then what undoes it."""
        assert self.text(id_) == before
        self.find(id_).click()
        until(lambda: self.text(id_) == after, f"{id_} becomes {after}")

    def set_slider(self, value):
        script = "arguments[0].value = arguments[1];"
        script += "arguments[0].dispatchEvent(new Event('input', {bubbles: true}))"
        self.browser.execute_script(script, self.find("#slider"), value)


@pytest.fixture
def page(browser, show):
    with serve_page(show, 0) as server:
        yield Page(browser, show, server)
        browser.get(BLANK)  # or it would go on asking


def numbers(page):
    return [int(text.replace(",", "")) for text in texts(page.browser, "#count b")]


def test_a_visitor_breaks_the_swarm_and_looks_at_its_past(page):
    page.open()
    until(lambda: page.view()["audit"][0] > 20, "visits")
    page.press("#play", "Pause", "Play")
    view = page.view()

    # numbers are those of the API
    assert numbers(page) == view["audit"]
    assert view["audit"][0] == sum(view["audit"][1:])
    lines = all_of(page.browser, "#agents tbody tr")
    rows = [[cell.text for cell in all_of(line, "th, td")] for line in lines]
    assert [row[0] for row in rows] == view["agents"]
    assert [int(row[3]) for row in rows] == view["visits"]
    assert [int(row[4]) for row in rows] == view["behind"]
    assert [float(row[5]) for row in rows] == pytest.approx(view["regret"], abs=0.051)
    assert texts(page.browser, "#legend b") == ["T", "P", "Q"]

    # every button, on what was picked by keys
    page.pick("[data-key='agent rome']")
    page.press("#kill", "Kill rome", "Start rome")
    assert "killed" in page.find("[data-key='agent rome']").get_attribute("class")
    assert not page.find("#stop").is_enabled()
    assert "counted by every running agent" in page.text("#count")
    page.press("#kill", "Start rome", "Kill rome")
    page.press("#stop", "Stop rome", "Resume rome")
    page.press("#stop", "Resume rome", "Stop rome")
    page.pick("[data-key='agent paris']", SPACE)
    page.press("#lie", "Make paris lie", "Let paris be honest")
    page.press("#differ", "Other visitors at paris", "Same visitors at paris")
    assert texts(page.browser, ".tag") == ["lies", "differs"]
    page.pick("[data-key='link berlin–paris']")
    page.press("#cut", "Cut berlin–paris", "Restore berlin–paris")
    assert texts(page.browser, ".cutmark") == ["cut"]
    page.press("#lose", "Lose 20% of messages", "Lose no messages")
    page.find("#agent").click()
    until(lambda: len(all_of(page.browser, ".node")) == 5, "one more agent")
    page.find("#arm").click()
    until(lambda: len(texts(page.browser, "#legend b")) == 4, "one more arm")
    view = page.view()
    assert view["states"] == ["runs"] * 5
    assert (view["lies"], view["differs"]) == ([False, True, False, False, False],) * 2
    assert (view["cut"], view["loss"]) == ([0], 0.2)
    assert texts(page.browser, "#log li span:last-child")[:3] == [
        "video added: 33% convert", "oslo joins lyon and berlin", "20% of messages are lost",
    ]  # fmt: skip

    # the past is for looking
    page.set_slider(0)
    assert page.visible("#past")
    assert page.text("#lead h1").startswith("At 0:00: ")
    assert len(all_of(page.browser, ".node")) == 4
    assert not any(each.is_enabled() for each in all_of(page.browser, "#doings button"))
    page.find("#now").click()
    assert not page.visible("#past")
    assert len(all_of(page.browser, ".node")) == 5
    before = page.view()["time"]
    page.press("#play", "Play", "Pause")
    until(lambda: page.view()["time"] > before + 0.5, "time goes on")
    until(lambda: all_of(page.browser, ".msg"), "messages travel")

    # narrow and dark: nothing sticks out
    screen(page.browser, 375)
    scheme(page.browser, "dark")
    wide = page.browser.execute_script("return document.documentElement.scrollWidth")
    assert wide <= 375
    asked = requests(page.browser)
    assert len(asked) > 10
    assert [each for each in asked if not each.startswith(f"{page.url}/")] == []

    # the end
    page.show.stop()
    until(lambda: page.text("#alive") == "ended", "the end is shown")
    assert page.text("#lead h1").startswith("The swarm has ended: ")
    assert console(page.browser) == []


def test_who_wants_less_motion_finds_it_paused_and_a_swarm_that_is_gone_is_said_to_be(page):
    media = [{"name": "prefers-reduced-motion", "value": "reduce"}]
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    try:
        page.open()
        until(lambda: page.text("#play") == "Play", "it is paused")
        assert page.view()["paused"]
        assert page.text("#alive") == "paused"
        page.show.ring.close()  # without a last word
        until(lambda: page.text("#alive") == "no answer", "nobody answers")
        assert "No answer" in page.text("#notice")
        assert not page.find("#kill").is_enabled()
    finally:
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
