"""What strangers say of agents is looked at before it is believed: forged, replayed, huge, bent."""

import random
import threading
from dataclasses import replace

import pytest

from posse.live.ledger.sums import LARGEST
from posse.live.membership import heartbeats as door
from posse.live.membership.heartbeats import Presence
from posse.live.membership.network_view import NetworkView
from posse.live.membership.records import (
    LARGEST_STATUS,
    MOST_STATUSES,
    Status,
    StatusMessage,
    is_status,
    largest_reasons,
)
from posse.live.messaging.wire import WireError
from tests.live.attack.test_messages import noise
from tests.live.membership.world import CODEC, signed_by, verify

NOW = 2e9
GOOD = Status(
    "c", "net", int(1000 * NOW), int(1000 * NOW) - 5, "1.0",
    (("a", True, 3), ("b", False, -1)), (("shop", 5, 1, 0),), (("malformed", 2),),
)  # fmt: skip


def signed(status, name=None):
    return replace(status, signature=signed_by(name or status.origin)(status.content))


def listening(**options):
    made = Presence("a", "net", now=NOW, verify=verify, **options)
    made.note_connections({"b": True}, NOW)
    return made


def told(agent, *statuses, age=0, now=NOW):
    """Its refusals of what a neighbour relays."""
    said = tuple((age, status) for status in statuses)
    message = StatusMessage(said, int(1000 * now), 0, 0)
    message = CODEC.decode(CODEC.encode(message)).message
    return dict(agent.receive("b", message, now))


def state(agent, name, now):
    return NetworkView.from_presence(
        agent, agent.make_status((), {}, now), {}, (), now
    ).describe_agents()[name]["state"]


def test_what_its_origin_signed_is_taken_from_anybody():
    agent = listening()
    assert told(agent, signed(GOOD)) == {}
    assert agent.statuses()["c"].status == signed(GOOD)
    assert agent.statuses()["c"].via == "b"


@pytest.mark.parametrize(
    "forged",
    [
        GOOD,
        signed(GOOD, "b"),
        *(
            replace(signed(GOOD), **change)
            for change in (
                {"origin": "d"},
                {"time": GOOD.time + 1},
                {"started": 0},
                {"version": "2.0"},
                {"neighbours": ()},
                {"experiments": (("shop", 6, 1, 0),)},
                {"refused": ()},
                {"signature": b""},
            )
        ),
    ],
)
def test_a_forged_one_is_not(forged):
    agent = listening()
    assert told(agent, forged) == {door.SIGNATURE_INVALID: 1}
    assert not agent.statuses()


def test_without_certificates_they_are_believed_as_entries_are():
    agent = Presence("a", "net", now=NOW)
    assert told(agent, GOOD) == {}
    assert agent.statuses().keys() == {"c"}


def test_an_older_one_is_no_news_and_no_fault():
    agent = listening()
    newer = signed(replace(GOOD, time=GOOD.time + 1))
    assert told(agent, newer, signed(GOOD), GOOD) == {}
    assert agent.statuses()["c"].status == newer


def test_of_another_network_of_the_future_and_of_long_ago():
    agent = listening()
    assert told(agent, signed(replace(GOOD, network="other"))) == {door.WRONG_NETWORK: 1}
    assert told(agent, signed(replace(GOOD, time=GOOD.time + 300_001))) == {door.FROM_FUTURE: 1}
    assert told(agent, signed(replace(GOOD, time=GOOD.time - 7 * 86_400_001))) == {door.TOO_OLD: 1}
    assert not agent.statuses()
    assert told(agent, signed(replace(GOOD, time=GOOD.time + 300_000))) == {}


@pytest.mark.parametrize(
    "change",
    [
        {"origin": ""},
        {"origin": "x" * 201},
        {"network": ""},
        {"time": -1},
        {"time": True},
        {"time": 2.0},
        {"time": LARGEST + 1},
        {"started": -1},
        {"version": "1" * 41},
        {"version": None},
        {"neighbours": (("b", True, 1), ("a", True, 1))},
        {"neighbours": (("b", True, 1), ("b", False, 1))},
        {"neighbours": (("b", True, -2),)},
        {"neighbours": (("b", 1, 1),)},
        {"neighbours": (("", True, 1),)},
        {"neighbours": (("b", True),)},
        {"neighbours": (("b", True, 1.5),)},
        {"neighbours": ["b"]},
        {"neighbours": tuple((f"{n:03}", True, 1) for n in range(201))},
        {"experiments": (("shop", -1, 0, 0),)},
        {"experiments": (("shop", 1, 0),)},
        {"experiments": (("shop", True, 0, 0),)},
        {"experiments": tuple((f"{n:03}", 1, 1, 1) for n in range(101))},
        {"refused": (("x" * 81, 1),)},
        {"refused": (("", 1),)},
        {"refused": tuple((f"{n:02}", 1) for n in range(21))},
        {"signature": "text"},
        {"signature": bytes(LARGEST_STATUS)},
        {"neighbours": tuple((f"{n:03}" + "é" * 197, True, 1) for n in range(200))},
    ],
)
def test_what_no_agent_says_is_refused_before_its_signature(change):
    asked = []
    agent = Presence("a", "net", now=NOW, verify=lambda *said: asked.append(said) or True)
    bent = replace(GOOD, **change)
    assert not is_status(bent)
    message = StatusMessage(((0, bent), (0, signed(GOOD))), 1, 0, 0)
    assert agent.receive("b", message, NOW) == {door.MALFORMED: 1}
    assert agent.statuses().keys() == {"c"}  # what is beside it is taken
    assert len(asked) == 1


@pytest.mark.parametrize(
    "message",
    [
        StatusMessage(((-1, GOOD),), 1, 0, 0),
        StatusMessage(((0, GOOD),), -1, 0, 0),
        StatusMessage(((0, GOOD),), 1, -1, 0),
        StatusMessage(((0, GOOD),), 1, 0, -1),
        StatusMessage((GOOD,), 1, 0, 0),
        StatusMessage(None, 1, 0, 0),
        StatusMessage(((0, GOOD),) * (MOST_STATUSES + 1), 1, 0, 0),
    ],
)
def test_a_message_of_another_shape_is_refused_as_a_whole(message):
    agent = Presence("a", "net", now=NOW)
    assert agent.receive("b", message, NOW) == {door.MALFORMED: 1}
    assert not agent.statuses()


def test_as_much_as_an_agent_can_say_passes_its_own_door():
    agent = Presence("é" * 64, "n" * 64, now=NOW, sign=lambda content: bytes(4200))
    agent.note_connections({f"{n:064}": True for n in range(250)}, NOW)
    rows = [(f"{n:064}", 10**12, 10**9, 10**9) for n in range(150)]
    made = agent.make_status(rows, {f"{n:03}" * 60: n for n in range(50)}, NOW)
    agent.publish_status(made, [row[0] for row in rows], NOW)
    (held,) = agent.statuses().values()
    assert is_status(held.status)
    counts = tuple(map(len, (held.status.neighbours, held.status.experiments, held.status.refused)))
    assert counts == (200, 100, 20)
    assert held.status.size <= LARGEST_STATUS
    assert len(CODEC.encode(StatusMessage(((0, held.status),), 1, 0, 0))) <= held.status.size + 50
    assert largest_reasons({"a": 0, "b": 7, "c": 9}.items()) == (("b", 7), ("c", 9))


def test_there_are_not_more_than_fit():
    agent = listening(most=2)
    said = [signed(replace(GOOD, origin=name)) for name in "cde"]
    assert told(agent, *said) == {door.TOO_MANY: 1}
    assert agent.statuses().keys() == {"c", "d"}
    newer = signed(replace(GOOD, origin="d", time=GOOD.time + 1))
    assert told(agent, newer) == {}
    assert agent.statuses()["d"].status == newer


def test_a_liar_does_not_make_us_work_and_nobody_waits_for_signatures():
    looks = []

    def slow(origin, content, signature):
        reader = threading.Thread(target=agent.statuses)  # waits for the lock
        reader.start()
        reader.join(20)
        looks.append(reader.is_alive())
        return verify(origin, content, signature)

    agent = Presence("a", "net", now=NOW, verify=slow)
    forged = [replace(GOOD, time=GOOD.time + n) for n in range(500)]
    assert told(agent, *forged) == {door.SIGNATURE_INVALID: door.MOST_FORGED}
    assert looks == [False] * door.MOST_FORGED
    assert told(agent, *forged[:3], signed(GOOD)) == {door.SIGNATURE_INVALID: 3}
    assert agent.statuses().keys() == {"c"}  # a few bad ones do not keep a good one out


def test_replays_do_not_bring_the_dead_back():
    agent = listening()
    last = signed(GOOD)
    told(agent, last, age=1000)
    assert state(agent, "c", NOW) == "up"
    for late in range(0, 300, 10):
        told(agent, last, now=NOW + late)  # as if it had just been made
    assert state(agent, "c", NOW + 118) == "up"
    assert state(agent, "c", NOW + 121) == "silent"
    restarted = listening()  # one that has not heard of it
    told(restarted, last, age=600_000, now=NOW + 600)
    assert state(restarted, "c", NOW + 600) == "silent"


def test_a_relay_that_says_it_is_old_is_corrected_by_another():
    agent = listening()
    told(agent, signed(GOOD), age=600_000)
    assert state(agent, "c", NOW) == "silent"
    told(agent, signed(GOOD), age=0, now=NOW + 1)
    assert state(agent, "c", NOW + 1) == "up"


def test_an_own_status_of_before_a_restart_makes_the_next_one_later():
    agent = listening(sign=signed_by("a"))
    agent.publish_status(agent.make_status((), {}, NOW), (), NOW)
    before = signed(replace(GOOD, origin="a", time=GOOD.time + 200_000))
    assert told(agent, replace(before, version="x")) == {door.SIGNATURE_INVALID: 1}
    assert told(agent, before) == {}
    assert agent.is_due((), NOW + 2)
    assert agent.make_status((), {}, NOW + 2).time == before.time + 1


def test_no_noise_is_deadly_or_believed():
    chance, agent = random.Random(5), listening()
    said = [signed(replace(GOOD, origin=name, time=GOOD.time - n)) for n, name in enumerate("cdef")]
    refused = 0
    for round_ in range(1500):
        fresh = tuple((round_, replace(each, time=each.time + round_)) for each in said)
        fresh = tuple((age, signed(each)) for age, each in fresh)
        honest = CODEC.encode(StatusMessage(fresh[round_ % 4 :], 5, 1, 2))
        try:
            message = CODEC.decode(noise(honest, chance)).message
        except WireError:
            continue
        refused += agent.receive("b", message, NOW).total()
        for origin, held in agent.statuses().items():
            assert verify(origin, held.status.content, held.status.signature)
    assert refused > 100
    assert agent.statuses().keys() == set("cdef")
