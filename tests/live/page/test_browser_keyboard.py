"""The page without a mouse: all is reached, every number has its sentence, and nothing jumps."""

import pytest

from .watching import OPERATORS, world

ARMS = {"arms": ["red", "green", "blue"], "family": "bernoulli", "stop": {"error": 0.05}}
STOPS = "a[href], button:not(:disabled), select:not(:disabled), input, summary, [tabindex='0']"


@pytest.fixture(scope="module")
def page(tmp_path_factory, browser):
    """Berlin's, for who may write; some minutes old, with events."""
    from .watching import Page

    settings = {
        name: {"name": name, "store": f"{name}.db", "experiments": {"one": ARMS, "two": ARMS}}
        for name in ("berlin", "paris", "rome")
    }
    with world(tmp_path_factory.mktemp("keyboard"), **settings) as made:
        for name in made.nodes:
            made.visit(name, "one", 30)
            made.visit(name, "one", 20, reward=0.0)
        made.nodes["berlin"].pause("one", "blue")
        made.tick(2)
        for _ in range(4):
            made.now += 59
            made.tick()
        opened = Page(browser, made.urls["berlin"])
        opened.world = made
        opened.is_drawn()
        opened.run("sessionStorage.setItem('token', arguments[0])", OPERATORS)
        browser.refresh()
        opened.shows("#mode", "may write")
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
    grids = page.run("document.querySelectorAll('[data-grid]').length")
    assert grids >= 5  # the first line, answers, arms, sites, the picture and the table of agents
    seen = set()
    for _ in range(100):
        page.press(keys.TAB)
        found = page.run(
            "(() => { const at = document.activeElement; window.unreached.delete(at);"
            " const ring = at.matches(':focus-visible');"
            " const grid = at.closest('[data-grid]');"
            " const all = [...document.querySelectorAll('[data-grid]')];"
            " return [at.tagName, ring, grid ? all.indexOf(grid) : null, at.closest('#chart') !== null,"
            " window.unreached.size]; })()"
        )
        if found[0] == "BODY":
            break
        assert found[1], "the focus cannot be seen"
        seen |= {("grid", found[2]), ("chart", found[3])}
    unreached = page.run("[...window.unreached].map((each) => each.outerHTML.slice(0, 100))")
    assert unreached == []
    assert {("grid", i) for i in range(grids)} <= seen
    assert ("chart", True) in seen


def test_arrows_reach_every_number_and_escape_hides_its_sentence(page, keys):
    lost = page.run(
        """(() => {
          const lost = [];
          for (const each of document.querySelectorAll("[data-tip]")) {
            if (each.closest("[data-grid], #chart") || !each.checkVisibility()) continue;
            if (each.tabIndex < 0) lost.push(each.outerHTML);
          }
          for (const grid of document.querySelectorAll("[data-grid]")) {
            const cells = [...grid.querySelectorAll("[data-tip]")].filter((e) => e.checkVisibility());
            const queue = [cells.find((each) => each.tabIndex === 0)];
            const reached = new Set(queue);
            while (queue.length) {
              const from = queue.pop();
              for (const key of ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"]) {
                from.focus();
                from.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
                const to = document.activeElement;
                if (!reached.has(to)) { reached.add(to); queue.push(to); }
              }
            }
            const read = new Set([...reached].map((each) => each.dataset.tip));  // a link has it twice
            for (const each of cells) if (!read.has(each.dataset.tip)) lost.push(each.outerHTML);
          }
          return lost;
        })()"""
    )
    assert not lost, "\n".join(lost)
    for selector in ("#strip [tabindex='0']", "#lead [tabindex='0']"):
        page.run("document.activeElement.blur()")
        page.run("document.querySelector(arguments[0]).focus()", selector)
        page.press(keys.ARROW_RIGHT)
        sentence = page.run("document.activeElement.dataset.tip")
        assert page.text("#tip") == sentence
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


def test_the_focus_is_kept_while_the_page_changes(page, keys):
    for selector in (
        '.arms tr[data-key="green"] button[data-act=pin]',
        '.arms tr[data-key="green"] td.rate',
        ".heat .box",
        "#chart svg",
        "#experiment",
    ):
        page.run(
            "(window.held = document.querySelector(arguments[0])).focus()",
            selector,
        )
        for _ in range(3):
            before = page.text("#counted")
            page.world.visit("berlin", "one")
            page.world.now += 20
            page.world.tick()
            page.wait("document.getElementById('counted').textContent !== arguments[0]", before)
        assert page.run("document.activeElement === window.held && window.held.isConnected"), selector


def test_the_token_is_typed_and_an_arm_is_paused_without_a_mouse(page, keys):
    page.run("document.querySelector('#write summary').focus()")
    page.press(keys.ENTER)
    assert page.run("document.getElementById('write').open")
    page.press(keys.TAB, OPERATORS, keys.ENTER)
    page.wait("!document.getElementById('write').open")
    page.run("document.querySelector('.arms tr[data-key=green] button[data-act=pause]').focus()")
    page.press(keys.SPACE)
    page.wait("document.querySelector('.arms tr[data-key=green] button[data-act=resume]')")
    assert page.run("document.activeElement.dataset.act") == "resume"
    page.press(keys.SPACE)
    page.wait("document.querySelector('.arms tr[data-key=green] button[data-act=pause]')")
