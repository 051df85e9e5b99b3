"""A certificate that ends while agents are connected, in processes as they run."""

import time
from datetime import timedelta

import pytest

from posse.live import Client
from posse.live.demo import agent_settings, create_process_sites
from tests.live.loopback import issue_for, wait_until

LIFETIME = timedelta(seconds=20)  # time to start and connect, on a machine that does much else


@pytest.fixture
def pair(tmp_path):
    sites = create_process_sites(tmp_path, [(0, 1)], agent_settings(2, ["red", "green"], "origins"))
    issue_for(tmp_path / "certs", "agent-1", LIFETIME, "agent-1")
    try:
        for site in sites:
            site.start()
        for site in sites:
            site.wait_until_ready()
        yield sites
    finally:
        for site in sites:
            site.stop()


@pytest.mark.long
def test_a_link_ends_when_its_certificate_does(pair):
    """The other end hangs up, and hears no more of what this one learns."""
    with Client(pair[0].url) as lasting, Client(pair[1].url) as ending:

        def reward():
            ending.update(ending.pull(), 1.0)

        def held():
            return sum(arm["pulls_in_network"] for arm in lasting.arms().values())

        def connected():
            return lasting.network()["neighbours"]["agent-1"]["connected"]

        reward()
        wait_until(lambda: held() == 1)
        assert connected()
        wait_until(lambda: not connected(), "the link outlived its certificate")
        reward()
        for _ in range(20):  # ticks
            assert held() == 1
            assert not connected()
            time.sleep(0.1)
