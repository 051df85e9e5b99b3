"""What is gone is marked: a neighbour that is killed, and the agent of the page itself."""

import time

import pytest

from posse.live.demo import agent_settings, create_process_sites
from posse.live.http import serve_node
from tests.live.http.page.watching import one, world

TICK = 0.5  # seconds


@pytest.fixture
def two(tmp_path):
    """Two agents in processes of their own, joined by zenoh over TLS."""
    settings = agent_settings(2, ["red", "green"], "origins", TICK)
    sites = create_process_sites(tmp_path, [(0, 1)], settings)
    for site in sites:
        site.start()
    yield sites
    for site in sites:
        site.stop()


def test_a_neighbour_that_is_gone_is_marked_after_two_ticks(tmp_path, watch):
    with world(tmp_path, berlin=one("berlin"), paris=one("paris")) as made:
        made.tick(2)
        page = watch(made.urls["berlin"])
        page.shows("#lead p", "All 2 agents are reachable.")
        made.nodes.pop("paris").stop()
        made.tick(2)
        assert made.nodes["berlin"].network()["agents"]["paris"]["state"] == "down"
        page.wait("document.querySelector('.net [data-agent=\"paris\"].lost')")
        page.wait("document.querySelector('.net .wire.down')")


def test_a_killed_process_is_marked(two, watch):
    # how many seconds that takes is the machine's: the ticks are counted above
    here, there = two
    here.wait_until_ready()
    page = watch(here.url)
    node = f'.net [data-agent="{there.name}"]'
    page.wait(f"document.querySelector('{node}:not(.lost)')")
    page.shows("#lead p", "All 2 agents are reachable.")
    page.shows(f'.agents tr[data-key="{there.name}"]', "ago")  # there were news of it
    there.kill()
    page.wait(f"document.querySelector('{node}.lost')")
    page.shows("h1", f"1 of 2 agents reachable: {there.name} was last seen")
    page.shows(f'.agents tr[data-key="{there.name}"]', "missing")
    page.wait("document.querySelector('.net .wire.down')")


def test_a_page_without_news_says_so_and_comes_back_by_itself(tmp_path, watch):
    with world(tmp_path, berlin=one("berlin"), paris=one("paris")) as made:
        made.tick(2)
        server = serve_node(made.nodes["berlin"], "127.0.0.1:0")
        page = watch(server.url)
        page.is_drawn()
        page.shows("#alive", "live")
        assert not page.is_stale
        page.allowed.append("net::ERR_")
        stopped = time.monotonic()
        server.stop()
        page.wait("document.body.classList.contains('is-stale')")
        assert time.monotonic() - stopped > 2.5
        page.shows("#notice", "No update from this agent for", "The page shows")
        assert page.run("getComputedStyle(document.querySelector('main')).filter") == "grayscale(1)"
        assert page.text("#alive").startswith("no update for ")
        made.visit("berlin", "default", 3)
        with serve_node(made.nodes["berlin"], server.url.removeprefix("http://")):
            page.wait("!document.body.classList.contains('is-stale')")
            page.shows("#counted", "3")
            assert page.texts("#notice > *") == []
