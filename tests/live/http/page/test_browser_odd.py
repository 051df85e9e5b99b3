"""Odd circumstances: hidden tabs, crowds, proxies, wrong clocks, experiments that go away."""

import http.client
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from posse.live.http import page as streams
from tests.browsing import until
from tests.live.http.page.watching import world

PREFIX = "/agents/berlin"
ARMS = {"arms": ["red", "green"], "family": "bernoulli"}
AHEAD = """
const real = Date;
window.Date = class extends real {
  constructor(...given) { super(...(given.length ? given : [real.now() + 3600e3])); }
  static now() { return real.now() + 3600e3; }
};"""


def data(name, experiments):
    tables = dict.fromkeys(experiments, ARMS)
    return {"name": name, "store": f"{name}.db", "experiments": tables}


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    settings = {name: data(name, ("one", "two")) for name in ("berlin", "paris")}
    with world(tmp_path_factory.mktemp("odd"), **settings) as made:
        made.visit("berlin", "one", 5)
        made.tick(3)
        yield made


def viewers(url):
    text = httpx.get(f"{url}/metrics", trust_env=False).text
    (line,) = (each for each in text.splitlines() if each.startswith("posse_page_viewers "))
    return int(line.split()[1])


def test_a_tab_that_nobody_sees_has_no_stream(two, watch):
    page = watch(two.urls["berlin"])
    page.is_drawn()
    assert viewers(page.url) == 1
    first = page.browser.current_window_handle
    page.browser.switch_to.new_window("tab")
    try:
        until(lambda: viewers(page.url) == 0)
        two.visit("berlin", "one")
    finally:
        page.browser.close()
        page.browser.switch_to.window(first)
    page.shows("#counted", str(two.nodes["berlin"].experiment("one").audit().counted))
    assert not page.is_stale


def test_one_viewer_too_many_asks_instead(two, watch, monkeypatch):
    monkeypatch.setattr(streams, "MAX_VIEWERS", 0)
    page = watch(two.urls["berlin"])
    page.allowed.append("503")
    page.is_drawn()
    page.shows("#alive", "polled, ")
    assert not page.is_stale


def test_ages_are_by_the_clock_of_the_agent(two, watch, browser):
    script = {"source": AHEAD}
    added = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", script)
    try:
        two.now = two.nodes["berlin"].network()["agents"]["paris"]["heard"] + 37
        page = watch(two.urls["berlin"])
        page.is_drawn()
        assert page.run("Date.now() - performance.timeOrigin") > 3500e3
        assert page.texts('.agents tr[data-key="paris"] td')[0] == "37 s ago"
        page.shows("#alive", "live, 0.")
    finally:
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)


@contextmanager
def proxy(url):
    """A reverse proxy that has the agent under a path of its own."""
    host = url.removeprefix("http://")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            if not self.path.startswith(f"{PREFIX}/"):
                self.send_error(404)
                return
            agent = http.client.HTTPConnection(host, timeout=30)
            agent.request("GET", self.path.removeprefix(PREFIX), headers={"Host": host})
            answer = agent.getresponse()
            self.send_response(answer.status)
            for name in ("content-type", "content-security-policy"):
                if value := answer.headers[name]:
                    self.send_header(name, value)
            self.end_headers()
            try:
                while part := answer.read1(65536):
                    self.wfile.write(part)
            except OSError:
                pass  # the browser has left
            finally:
                agent.close()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{PREFIX}"
    finally:
        server.shutdown()
        thread.join()
        server.socket.close()


def test_behind_a_reverse_proxy_all_addresses_are_relative(two, watch):
    with proxy(two.urls["berlin"]) as url:
        page = watch(f"{url}/")
        page.is_drawn()
        page.shows("#alive", "live")
        page.find("#experiment option[value=two]").click()
        page.shows("#notes", f"{url}/v1/experiments/two/decisions")
        page.find("[data-scale=month]").click()
        page.find(".brand").click()
        page.shows("h1", "leads")
        page.leave()  # before its server goes


def test_an_experiment_that_goes_away_while_it_is_watched(two, watch):
    node = two.nodes["paris"]
    page = watch(f"{two.urls['paris']}/#two")
    page.shows("#notes", "/two/decisions")
    page.allowed.append("404")
    node.reload(two.read_settings(data("paris", ["one"])))
    page.shows("#notice", "Gone", "unknown experiment 'two': this agent runs one")
    assert viewers(two.urls["paris"]) == 0
    page.find("#notice a").click()
    page.shows("#who", "paris")
    page.wait("document.title === 'paris / one: posse'")


def test_before_the_first_visit_nothing_of_the_prior_is_drawn(two, watch):
    page = watch(f"{two.urls['berlin']}/#two")
    page.is_drawn()
    two.now += 120
    two.tick(3)
    page.shows("#chart-empty", "No visits yet")
    assert page.shown("#chart .curve, #chart .layer, #chart .gridline") == []
    assert page.texts('.arms [data-name="likely best"]') == ["–", "–"]
    two.visit("berlin", "two", 2)
    two.now += 120
    two.tick(3)
    page.wait("document.querySelector('#chart .gridline')")
    assert "–" not in page.texts('.arms [data-name="likely best"]')


def test_events_of_one_experiment_leave_with_it(two, watch):
    two.nodes["berlin"].experiment("one").pause("red", "Ada", "only here")
    page = watch(f"{two.urls['berlin']}/#one")
    page.shows("#events", "Ada: only here")
    never = "(path, given) => path.includes('history') ? new Promise(() => {}) : real(path, given)"
    page.browser.execute_script(
        f"const real = fetch; window.fetch = {never}; location.hash = 'two'"
    )
    page.wait("!document.getElementById('events').textContent.includes('Ada')")
    two.nodes["berlin"].experiment("one").resume()


def test_an_agent_that_says_nothing_of_itself_is_neither_there_nor_gone(tmp_path, watch):
    """As one of an older Posse, whose evidence comes by way of others."""
    settings = {name: data(name, ("one",)) for name in ("berlin", "paris", "rome")}
    with world(tmp_path, **settings) as made:
        made.nodes["rome"].presence.make_messages = lambda *_: []
        made.visit("rome", "one", 3)
        made.tick(6)
        page = watch(made.urls["berlin"])
        page.is_drawn()
        heard, behind, visits, _ = page.texts('.agents tr[data-key="rome"] td')
        assert (heard, behind, visits) == ("evidence only Forget", "–", "3")
        assert page.texts(".net .lost") == []
        page.shows("#strip", "2 of 3 agents")
        page.shows("#lead p", "2 of 3 agents are reachable; of the others only their evidence")
        page.leave()


def test_an_address_that_is_no_name(two, watch):
    page = watch(f"{two.urls['berlin']}/#%")
    page.shows("#notice", "no such experiment")
