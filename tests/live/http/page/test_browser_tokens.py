"""Tokens typed into the page: who may look, who may write, and where a token stays."""

import pytest

from tests.live.http.page.watching import OPERATORS, one, world

TOKEN = "application's"


@pytest.fixture(scope="module")
def closed(tmp_path_factory):
    """Berlin, which shows its numbers to nobody without a token; and paris beside it."""
    settings = {name: one(name) for name in ("berlin", "paris")}
    with world(tmp_path_factory.mktemp("closed"), **settings) as made:
        made.visit("berlin", "default", 5)
        made.tick(3)
        made.serve("berlin", token=TOKEN, operator_token=OPERATORS)
        yield made


def typed(page, token):
    """Type a token into the page as people do."""
    from selenium.webdriver.common.keys import Keys

    if not page.run("document.getElementById('write').open"):
        page.find("#write summary").click()
    page.find("#secret").send_keys(token, Keys.ENTER)
    page.wait("!document.getElementById('secret').value")


def test_without_a_token_there_is_nothing_to_see(closed, watch):
    page = watch(closed.urls["berlin"])
    page.shows("#notice", "This agent needs a token.")
    assert page.text("#mode") == "token"
    assert page.run("document.getElementById('write').open")
    assert page.run("document.getElementById('content').hidden")
    for name in ("berlin", "paris", "red", "green", "default"):
        assert name not in page.text("main")
        assert name not in page.run("document.title")
    typed(page, "a guess")
    page.shows("#mode", "wrong token")
    assert page.run("document.getElementById('content').hidden")
    typed(page, TOKEN)
    page.is_drawn()
    page.shows("#mode", "read-only")
    assert page.texts("#notice > *") == []
    assert [each for each in page.shown("button") if each in ("Pin", "Pause")] == []


def test_the_token_stays_in_the_tab(closed, watch):
    page = watch(closed.urls["berlin"])
    page.shows("#mode", "token")
    typed(page, TOKEN)
    page.is_drawn()
    assert page.run("Object.values(sessionStorage)") == [TOKEN]
    assert page.run("[document.cookie, localStorage.length]") == ["", 0]
    assert TOKEN not in page.run("location.href")
    assert TOKEN not in page.run("document.documentElement.outerHTML")
    page.browser.refresh()
    page.is_drawn()
    typed(page, "")  # is how to forget it
    page.shows("#notice", "Token")
    assert page.run("sessionStorage.length") == 0
    page.browser.refresh()
    page.shows("#notice", "Token")


def test_operators_pin_pause_and_resume(closed, watch):
    page = watch(closed.urls["berlin"])
    page.shows("#mode", "token")
    typed(page, TOKEN)
    page.shows("#told", "This token allows reading")
    page.is_drawn()
    assert page.shown(".arms button") == []
    typed(page, OPERATORS)
    page.shows("#mode", "operator")
    controls = closed.nodes["berlin"].experiment().control_status
    assert page.shown(".arms button") == ["Pin", "Pause"] * 2
    red = '.arms tr[data-key="red"]'
    for button, state in [
        ("pause", (None, ["red"])),
        ("resume", (None, [])),
        ("pin", ("red", [])),
        ("resume", (None, [])),
    ]:
        page.find(f"{red} button[data-act={button}]").click()
        page.wait(f"!document.querySelector('{red} button[data-act={button}]')")
        now = controls()
        assert (now["pinned"], now["paused"]) == state
        badge = "pinned" if state[0] else "paused" if state[1] else "new"
        page.shows(f"{red} .badge", badge)


def test_an_order_that_is_refused_is_told(closed, watch):
    page = watch(closed.urls["paris"])
    page.is_drawn()
    typed(page, "a guess")  # which reads as well as no token does, but is wrong
    page.shows("#mode", "wrong token")
    page.shows("#told", "Wrong token: it is not the operators'. You can still read.")
    typed(page, OPERATORS)
    page.shows("#mode", "operator")
    page.run("sessionStorage.setItem('token', 'changed meanwhile')")
    page.allowed.append("401")
    page.find('.arms tr[data-key="red"] button[data-act=pin]').click()
    page.shows("#told", "not the operators' token")
    assert closed.nodes["paris"].experiment().control_status()["pinned"] is None
