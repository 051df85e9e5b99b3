"""What swarms are made of: samples, counts, and agents in memory that die and come back."""

import signal
import subprocess

import pytest

from posse.live.demo import (
    Count,
    Swarm,
    agent_settings,
    create_memory_sites,
    create_process_sites,
    largest_gap,
)
from posse.live.demo.site import Sample
from posse.live.http.metrics import render_metrics

PULL = 2**20
MEANS = {"red": 0.7, "green": 0.3}


@pytest.fixture
def sites(tmp_path):
    made = create_memory_sites(
        tmp_path, [(0, 1)], agent_settings(2, list(MEANS), "origins"), loss=0.0
    )
    yield made
    for site in made:
        site.stop()


def test_a_sample_reads_the_metrics_of_a_node(node):
    node.reward(node.decide().id, 1.0)
    node.receive("b", b"no message")
    node.counts.add("sent", 3)
    assert Sample.parse_metrics(render_metrics(node)) == Sample(
        here=1.0, in_network=1.0, sent=3, received=1, refused=1, connected=0, neighbours=1
    )


@pytest.mark.parametrize(
    ("own", "exact", "lost"),
    [
        ({"red": (PULL, 2 * PULL)}, True, 0),
        ({"red": (PULL, 5, -5, 2 * PULL)}, True, 0),  # signs between
        ({"red": (PULL, PULL)}, False, 1),
        ({"red": (2 * PULL, 3 * PULL)}, False, -1),
        ({"red": (0, 2 * PULL)}, False, 0),
        ({"blue": (PULL, 2 * PULL)}, False, 0),
        ({"red": (PULL + 1, 2 * PULL)}, False, 0),
    ],
)
def test_a_count_is_exact_or_says_how_many_are_lost(own, exact, lost):
    count = Count("a", {"red": (1, 2)}, own, own)
    assert (count.is_exact, count.lost) == (exact, lost)


def test_how_far_agents_are_apart():
    one = Count("a", {}, {"red": (0, 3)}, {"red": (0, 10)})
    two = Count("b", {}, {"red": (0, 7)}, {"red": (2, 10)})
    assert largest_gap([one]) == 7
    assert largest_gap([one, two]) == 2
    assert largest_gap([]) == 0


def test_what_was_acknowledged_survives_a_crash(sites):
    site = sites[0]
    site.start()
    decision = site.pull()
    assert site.update(decision, 1.0)
    own = site.read_evidence()["own"]
    site.kill()
    with pytest.raises(ConnectionError, match="is down"):
        site.pull()
    assert not site.take_sample()
    site.start()
    assert site.take_sample()
    assert site.read_evidence()["own"] == own
    assert not site.update(decision, 1.0)  # known


def test_an_answer_of_the_dead_is_none(sites, monkeypatch):
    site = sites[0]
    site.start()
    decision, only = site.pull(), site.node.experiment()
    reward = only.reward

    def dies(*given):
        site.kill()
        site.start()
        return reward(*given)

    monkeypatch.setattr(only, "reward", dies)
    with pytest.raises((ConnectionError, RuntimeError)):
        site.update(decision, 1.0)
    assert site.read_evidence()["own"] == {}
    assert site.update(decision, 1.0)


def test_only_agents_that_answer_are_killed(sites):
    swarm = Swarm(sites, MEANS)
    sites[1].start()
    assert swarm.kill_random_agent() is sites[1]
    assert swarm.kill_random_agent([sites[1]]) is None
    assert [site.restarts for site in sites] == [0, 1]


def test_what_no_visitor_should_see_is_told(sites, monkeypatch):
    swarm = Swarm(sites, MEANS)
    swarm.start()
    monkeypatch.setattr(type(sites[0]), "update", lambda *_: int("conflict"))
    swarm.send_visitors()
    for thread in swarm.threads:  # which end by themselves
        thread.join(60)
    swarm.stop()
    assert len(swarm.failures) == 2
    assert "agent-0" in "".join(swarm.failures)


def test_a_process_that_cannot_start_says_why(tmp_path):
    settings = agent_settings(2, ["red", "red"], "origins")
    site = create_process_sites(tmp_path, [(0, 1)], settings)[0]
    site.start()
    with pytest.raises(ValueError, match=r"agent-0 does not answer: .*one or more different names"):
        site.wait_until_ready()
    site.stop()


@pytest.mark.skipif(not hasattr(subprocess, "_fork_exec"), reason="it starts processes otherwise")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_while_a_process_starts_does_not_lose_it(number, tmp_path, monkeypatch):
    site = create_process_sites(tmp_path, [(0, 1)], agent_settings(2, list(MEANS), "origins"))[0]
    fork = subprocess._fork_exec

    def interrupted(*given):
        pid = fork(*given)
        signal.raise_signal(number)
        return pid

    monkeypatch.setattr(subprocess, "_fork_exec", interrupted)
    monkeypatch.setattr(subprocess, "_USE_POSIX_SPAWN", False)  # Python 3.13 prefers it
    before = signal.signal(number, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            site.start()
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)
    assert site.process is not None
    site.stop()
    assert site.process.returncode is not None
