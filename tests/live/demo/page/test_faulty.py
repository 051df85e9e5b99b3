"""A transport with faults carries what they let through, and notes what it was given."""

import random

import pytest

from posse.live.demo.fault_injection import MAX_NOTED, FaultInjector, Faults
from posse.live.messaging.transport.memory import MemoryNetwork


@pytest.fixture
def ends():
    """Two agents on a link, with the interference of the first; what each has heard."""
    network, heard = MemoryNetwork([("a", "b")]), {"a": [], "b": []}
    interference = FaultInjector(random.Random(1))
    one, other = interference.wrap_transport(network.transport("a")), network.transport("b")
    for name, transport in (("a", one), ("b", other)):
        transport.start(lambda peer, payload, name=name: heard[name].append(payload))
    return interference, one, other, heard, network


def test_without_faults_everything_passes(ends):
    interference, one, other, heard, network = ends
    one.send("b", b"to")
    other.send("a", b"fro")
    network.step()
    assert heard == {"a": [b"fro"], "b": [b"to"]}
    assert interference.drain_sent() == [("b", True)]
    assert interference.drain_sent() == []
    assert one.connected() == {"b": True}
    assert one.refusals is not None
    one.close()
    assert other.connected() == {"a": False}


def test_a_cut_link_carries_nothing_either_way(ends):
    interference, one, other, heard, network = ends
    interference.faults = Faults(cut=frozenset("b"))
    one.send("b", b"to")
    assert network.under_way == 0
    other.send("a", b"fro")
    network.step()
    assert heard == {"a": [], "b": []}
    assert interference.drain_sent() == [("b", False)]
    assert one.connected() == {"b": False}


def test_who_is_deaf_still_sends(ends):
    interference, one, other, heard, network = ends
    interference.faults = Faults(deaf=True)
    one.send("b", b"to")
    other.send("a", b"fro")
    network.step()
    assert heard == {"a": [], "b": [b"to"]}


def test_some_get_lost_and_few_are_noted(ends):
    interference, one, _, _, network = ends
    interference.faults = Faults(loss=0.5)
    for _ in range(2 * MAX_NOTED):
        one.send("b", b"to")
    assert 800 < network.under_way < 1200
    passed = [ok for _, ok in interference.drain_sent()]
    assert len(passed) == MAX_NOTED
    assert 400 < sum(passed) < 600
