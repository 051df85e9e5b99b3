"""Tokens typed into the page: who may look, who may write, and where a token stays."""

import pytest

from tests.browsing import until
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
    page.shows("#notice", "Wrong token", "This agent does not know the token.")
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
        page.shows("#confirm h2", f"{button.capitalize()} red at berlin only?")
        page.find("#confirm .sure").click()
        page.wait(f"!document.querySelector('{red} button[data-act={button}]')")
        now = controls()
        assert (now["pinned"], now["paused"]) == state
        badge = "pinned" if state[0] else "paused" if state[1] else "new"
        page.shows(f"{red} .badge", badge)


def test_an_order_is_confirmed_with_its_scope_by_whom_and_why(closed, watch):
    from selenium.webdriver.common.keys import Keys

    page = watch(closed.urls["paris"])
    page.is_drawn()
    typed(page, OPERATORS)
    page.shows("#mode", "operator")
    experiment = closed.nodes["paris"].experiment()
    pin = '.arms tr[data-key="green"] button[data-act=pin]'
    for leave in (
        lambda: page.find("#confirm [value=cancel]").click(),
        lambda: page.press(Keys.ESCAPE),
    ):
        page.find(pin).click()
        page.shows("#confirm", "Pin green at paris only?", "Every visitor there gets this arm")
        leave()
        page.wait("!document.getElementById('confirm').open")
    assert experiment.control_status()["pinned"] is None
    page.find(pin).click()
    page.press("Ada ", Keys.TAB, "broken <b>on</b> phones", Keys.ENTER)
    page.shows("#notes", "green gets every visit here", "by Ada: broken <b>on</b> phones.")
    record = experiment.control_status()["here"]
    assert (record["by"], record["reason"]) == ("Ada", "broken <b>on</b> phones")
    # the page shows an order as soon as it holds, which may be before its event is written
    until(lambda: experiment.events(), "no event")
    assert "Ada" in experiment.events()[-1].text
    page.find(pin.replace("=pin", "=resume")).click()
    assert page.run("document.getElementById('by').value") == "Ada"  # asked once
    assert page.run("document.getElementById('reason').value") == ""
    page.press(Keys.ENTER)
    page.wait("!document.querySelector('#notes .note')")
    assert experiment.control_status()["pinned"] is None


def test_the_order_of_an_operator_of_the_network_names_all_sites(closed, watch):
    page = watch(closed.urls["paris"])
    page.is_drawn()
    typed(page, OPERATORS)
    page.shows("#mode", "operator")
    question = """
        const done = arguments[0];
        import(new URL("assets/orders.js", location.href)).then(({ confirmOrder }) => {
          const states = { paris: "here", oslo: "up", rome: "down" };
          const entries = Object.entries(states).map(([name, state]) => [name, { state }]);
          const network = { agents: Object.fromEntries(entries) };
          const view = { agent: { name: "paris" }, controls: { operator: true }, network };
          done(confirmOrder(view, "pause", { arm: "red" }, () => {}));
        });"""
    page.browser.execute_async_script(question)
    page.shows("#confirm", "Pause red at all 3 sites?", "1 of these sites is not reachable now")


def test_an_agent_that_left_is_forgotten_in_headlines_and_drawings(tmp_path, watch):
    with world(tmp_path, **{name: one(name) for name in ("berlin", "paris", "rome")}) as made:
        for name in made.urls:
            made.visit(name, "default", 3)
        made.tick(4)
        gone = made.nodes.pop("rome")
        gone.stop()
        made.tick(200)
        page = watch(made.urls["berlin"])
        page.is_drawn()
        page.shows("h1", "2 of 3 agents reachable: rome was last seen")
        assert page.shown(".agents button") == []
        typed(page, OPERATORS)
        page.shows("#mode", "operator")
        assert page.shown(".agents button") == ["Forget"]
        page.find(".agents button").click()
        page.shows("#confirm", "Forget rome at berlin only?", "Its visits still count")
        page.find("#confirm .sure").click()
        page.wait("!document.querySelector('.net [data-agent=rome]')")
        page.shows("#lead p", "All 2 agents are reachable.")
        assert "rome" not in page.text("#lead") + page.text("#network")
        page.shows('.heat tr[data-key="rome"] th', "left")  # its visits are still there
        assert page.text('.arms tr[data-key="red"]')


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
    page.find("#confirm .sure").click()
    page.shows("#told", "not the operators' token")
    assert closed.nodes["paris"].experiment().control_status()["pinned"] is None
