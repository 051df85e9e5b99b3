"""The page without a mouse: all is reached, every number has its sentence, and nothing jumps."""

import pytest

from tests.live.http.page.watching import OPERATORS, Page, world

ARMS = {"arms": ["red", "green", "blue"], "family": "bernoulli", "stop": {"error": 0.05}}
STOPS = "a[href], button:not(:disabled), select:not(:disabled), input, summary, [tabindex='0']"
FOCUS = """(() => {
  const at = document.activeElement;
  window.unreached.delete(at);
  const grids = [...document.querySelectorAll("[data-grid]")];
  return {
    body: at === document.body,
    seen: at.matches(":focus-visible"),
    grid: grids.indexOf(at.closest("[data-grid]")),
    chart: at.closest("#chart") !== null,
  };
})()"""
# sentences that neither Tab nor arrow keys lead to
UNREAD = """(() => {
  const visible = (each) => each.checkVisibility();
  const tips = [...document.querySelectorAll("[data-tip]")].filter(visible);
  const lost = tips.filter((each) => !each.closest("[data-grid], #chart") && each.tabIndex < 0);
  for (const grid of document.querySelectorAll("[data-grid]")) {
    const cells = tips.filter((each) => grid.contains(each));
    const queue = [cells.find((each) => each.tabIndex === 0)];
    const reached = new Set(queue);
    while (queue.length) {
      const from = queue.pop();
      for (const key of ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"]) {
        from.focus();
        from.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
        const to = document.activeElement;
        if (!reached.has(to)) queue.push(to);
        reached.add(to);
      }
    }
    const read = new Set([...reached].map((each) => each.dataset.tip)); // a link has its own twice
    lost.push(...cells.filter((each) => !read.has(each.dataset.tip)));
  }
  return lost.map((each) => each.outerHTML);
})()"""


@pytest.fixture(scope="module")
def berlin(tmp_path_factory):
    """Some minutes old, with a pause among its events."""
    settings = {
        name: {"name": name, "store": f"{name}.db", "experiments": {"one": ARMS, "two": ARMS}}
        for name in ("berlin", "paris", "rome")
    }
    with world(tmp_path_factory.mktemp("keyboard"), **settings) as made:
        for name in made.nodes:
            made.visit(name, "one", 12)
            made.visit(name, "one", 8, reward=0.0)
        made.nodes["berlin"].pause("one", "blue")
        made.tick(2)
        for _ in range(4):
            made.now += 59
            made.tick()
        yield made


@pytest.fixture(scope="module")
def page(berlin, browser):
    """For who may write."""
    opened = Page(browser, berlin.urls["berlin"])
    opened.is_drawn()
    opened.run("sessionStorage.setItem('token', arguments[0])", OPERATORS)
    browser.refresh()
    opened.shows("#mode", "operator")
    opened.wait("document.querySelector('#chart svg path.curve')")
    yield opened
    opened.leave()


@pytest.fixture
def keys():
    from selenium.webdriver.common.keys import Keys

    return Keys


def test_tab_reaches_everything(page, keys):
    page.run("document.activeElement.blur()")
    page.run(
        "(window.unreached = new Set([...document.querySelectorAll(arguments[0])]"
        ".filter((each) => each.checkVisibility()))).size",
        STOPS,
    )
    grids, charts = set(), set()
    for _ in range(100):
        page.press(keys.TAB)
        at = page.run(FOCUS)
        if at["body"]:
            break
        assert at["seen"], "the focus cannot be seen"
        grids.add(at["grid"])
        charts.add(at["chart"])
    unreached = page.run("[...window.unreached].map((each) => each.outerHTML.slice(0, 100))")
    assert unreached == []
    # the first line, the four answers, arms, sites, the picture and the table of the network
    assert page.run("document.querySelectorAll('[data-grid]').length") == 6
    assert grids >= set(range(6))
    assert True in charts


def test_arrows_reach_every_number_and_escape_hides_its_sentence(page, keys):
    unread = page.run(UNREAD)
    assert not unread, "\n".join(unread)
    for place in ("#strip", "#lead"):
        page.run("document.activeElement.blur()")
        page.run("document.querySelector(arguments[0]).focus()", f"{place} [tabindex='0']")
        page.press(keys.ARROW_RIGHT)
        assert page.text("#tip") == page.run("document.activeElement.dataset.tip")
        assert page.run("document.activeElement.getAttribute('aria-describedby')") == "tip"
        assert page.run("!document.getElementById('tip').hidden")
        page.press(keys.ESCAPE)
        assert page.run("document.getElementById('tip').hidden")


def test_the_chart_is_read_by_arrows(page, keys):
    page.run("document.querySelector('#chart svg').focus()")
    page.press(keys.ARROW_LEFT)
    first = page.text("#chart .readout")
    assert "converts, all sites" in first
    page.press(keys.ARROW_LEFT)
    assert page.text("#chart .readout") != first
    page.press(keys.HOME)
    page.press(keys.PAGE_DOWN)
    assert page.run("!document.querySelector('#chart .readout').hidden")


def test_the_focus_is_kept_while_the_page_changes(berlin, page):
    for selector in (
        '.arms tr[data-key="green"] button[data-act=pin]',
        '.arms tr[data-key="green"] td.rate',
        ".heat .box",
        "#chart svg",
        "#experiment",
    ):
        page.run("(window.held = document.querySelector(arguments[0])).focus()", selector)
        for _ in range(2):
            before = page.text("#counted")
            berlin.visit("berlin", "one")
            berlin.now += 40  # so that the past changes, too
            berlin.tick()
            page.wait("document.getElementById('counted').textContent !== arguments[0]", before)
        assert page.run("window.held.isConnected"), selector
        assert page.run("document.activeElement === window.held"), selector


def test_the_token_is_typed_and_an_arm_is_paused_without_a_mouse(page, keys):
    page.run("document.querySelector('#write summary').focus()")
    page.press(keys.ENTER)
    assert page.run("document.getElementById('write').open")
    page.press(keys.TAB, OPERATORS, keys.ENTER)
    page.wait("!document.getElementById('write').open")
    page.run("document.querySelector('.arms tr[data-key=green] button[data-act=pause]').focus()")
    page.press(keys.SPACE)
    assert page.run("document.activeElement.id") == "by"
    page.press(keys.ENTER)
    page.wait("document.querySelector('.arms tr[data-key=green] button[data-act=resume]')")
    assert page.run("document.activeElement.dataset.act") == "resume"
    page.press(keys.SPACE)
    page.press(keys.ENTER)
    page.wait("document.querySelector('.arms tr[data-key=green] button[data-act=pause]')")
