"""The network in memory: each fault, and the same ones for the same seed."""

from collections import Counter

import pytest

from posse.live.messaging.transport import Transport
from posse.live.messaging.transport.memory import MemoryNetwork


def network(links=(("a", "b"),), **faults):
    """A network, its transports by name, and what each heard."""
    net = MemoryNetwork(links, **faults)
    heard = {name: [] for link in links for name in link}
    ends = {name: net.transport(name) for name in heard}
    for name, end in ends.items():
        end.start(lambda peer, payload, name=name: heard[name].append((peer, payload)))
    return net, ends, heard


def numbers(heard):
    return [int(payload) for _, payload in heard]


def send(ends, count):
    for i in range(count):
        ends["a"].send("b", str(i).encode())


def test_it_is_a_transport():
    end: Transport = MemoryNetwork([("a", "b")]).transport("a")
    assert end.connected() == {"b": False}


def test_both_ways_in_order_at_the_next_step():
    net, ends, heard = network()
    send(ends, 5)
    ends["b"].send("a", b"back")
    assert heard == {"a": [], "b": []}
    assert net.under_way == 6
    assert net.step() == 6
    assert numbers(heard["b"]) == [0, 1, 2, 3, 4]
    assert heard["a"] == [("b", b"back")]
    assert net.step() == 0


def test_an_answer_takes_a_step_of_its_own():
    net = MemoryNetwork([("a", "b")])
    a, b = net.transport("a"), net.transport("b")
    heard = []
    a.start(lambda peer, payload: heard.append(payload))
    b.start(lambda peer, payload: b.send(peer, payload + b"!"))
    a.send("b", b"x")
    assert net.step() == 1
    assert heard == []
    assert net.step() == 1
    assert heard == [b"x!"]


def test_loss():
    net, ends, heard = network(loss=0.3, seed=1)
    send(ends, 2000)
    net.step()
    assert 1300 < len(heard["b"]) < 1500
    assert net.lost == 2000 - len(heard["b"])
    assert numbers(heard["b"]) == sorted(numbers(heard["b"]))


def test_all_is_lost():
    net, ends, heard = network(loss=1)
    send(ends, 50)
    net.step()
    assert heard["b"] == []


def test_duplication():
    net, ends, heard = network(duplication=0.5, seed=2)
    send(ends, 1000)
    net.step()
    counts = Counter(Counter(numbers(heard["b"])).values())
    assert counts.keys() == {1, 2}
    assert 400 < counts[2] < 600


def test_delay_keeps_the_order_unless_asked():
    net, ends, heard = network(delay=(2, 5), seed=3)
    send(ends, 100)
    arrived = [net.step() for _ in range(6)]
    assert arrived[:2] == [0, 0]
    assert sum(arrived) == 100
    assert numbers(heard["b"]) == list(range(100))


@pytest.mark.parametrize("delay", [(0, 0), (0, 5)])
def test_reordering(delay):
    net, ends, heard = network(delay=delay, reorder=True, seed=4)
    send(ends, 100)
    for _ in range(6):
        net.step()
    assert numbers(heard["b"]) != list(range(100))
    assert sorted(numbers(heard["b"])) == list(range(100))


def test_the_same_seed_gives_the_same_faults():
    def story(seed):
        net, ends, heard = network(
            (("a", "b"), ("b", "c")),
            loss=0.2,
            delay=(0, 3),
            duplication=0.2,
            reorder=True,
            seed=seed,
        )
        for i in range(50):
            ends["a"].send("b", bytes([i]))
            ends["b"].send("c", bytes([i]))
            ends["c"].send("b", bytes([i]))
            net.step()
        return heard

    assert story(5) == story(5)
    assert story(5) != story(6)


def test_a_partition_loses_even_what_is_under_way():
    net, ends, heard = network((("a", "b"), ("b", "c")))
    send(ends, 1)
    net.partition({"a"})
    assert ends["a"].connected() == {"b": False}
    assert ends["b"].connected() == {"a": False, "c": True}
    send(ends, 1)
    ends["b"].send("c", b"still here")
    net.step()
    assert (heard["b"], heard["c"]) == ([], [("b", b"still here")])
    net.heal()
    assert ends["a"].connected() == {"b": True}
    send(ends, 1)
    net.step()
    assert numbers(heard["b"]) == [0]


def test_only_neighbours_hear_each_other():
    net, ends, heard = network((("a", "b"), ("b", "c")))
    ends["a"].send("c", b"x")
    ends["a"].send("nobody", b"x")
    net.step()
    assert heard["c"] == []
    net.link("a", "c")
    assert ends["a"].connected() == {"b": True, "c": True}
    ends["a"].send("c", b"y")
    net.step()
    assert heard["c"] == [("a", b"y")]
    net.unlink("a", "c")
    ends["a"].send("c", b"z")
    net.step()
    assert len(heard["c"]) == 1


def test_gone_and_back():
    net, ends, heard = network()
    ends["b"].close()
    ends["b"].close()
    assert ends["a"].connected() == {"b": False}
    assert ends["b"].connected() == {"a": False}
    send(ends, 1)
    ends["b"].send("a", b"from the grave")
    net.step()
    assert heard == {"a": [], "b": []}
    with pytest.raises(RuntimeError, match="was closed or is in use"):
        ends["b"].start(lambda *_: None)
    again = net.transport("b")
    again.start(lambda peer, payload: heard["b"].append((peer, payload)))
    with pytest.raises(RuntimeError, match="is in use"):
        net.transport("b").start(lambda *_: None)
    send(ends, 1)
    net.step()
    assert numbers(heard["b"]) == [0]


def test_large_messages_are_refused():
    net, ends, _ = network()
    with pytest.raises(ValueError, match="a message may have 1,000,000 bytes, got 10,000,000"):
        ends["a"].send("b", b"x" * 10_000_000)
    assert net.sent == 0


@pytest.mark.parametrize(
    "wrong",
    [{"loss": 1.1}, {"duplication": -0.1}, {"delay": (2, 1)}, {"delay": (-1, 1)}],
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        MemoryNetwork([("a", "b")], **wrong)


def test_names_are_checked():
    with pytest.raises(ValueError, match="cannot be its own neighbour"):
        MemoryNetwork([("a", "a")])
    with pytest.raises(ValueError, match="'c' has no link"):
        MemoryNetwork([("a", "b")]).transport("c")
