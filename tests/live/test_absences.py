"""A neighbour that stays away is spoken of once."""

import logging
import time

from posse.live.node import DISCONNECTED_SECONDS, DisconnectionLog


def test_an_absence_is_said_once_and_so_is_its_end():
    absences = DisconnectionLog()

    def say(now, **connected):
        return [sentence.split()[0:2] for sentence, _ in absences.check_neighbours(connected, now)]

    assert say(0.0, paris=False, rome=True) == []
    assert say(DISCONNECTED_SECONDS - 0.1, paris=False, rome=False) == []
    assert say(DISCONNECTED_SECONDS, paris=False, rome=False) == [["paris", "has"]]
    assert say(DISCONNECTED_SECONDS + 1, paris=False, rome=True) == []
    assert say(DISCONNECTED_SECONDS + 2, paris=True, rome=False) == [["paris", "is"]]
    assert say(DISCONNECTED_SECONDS + 3, paris=False, rome=False) == []
    assert say(2 * DISCONNECTED_SECONDS + 4, paris=False, rome=False) == [
        ["paris", "has"],
        ["rome", "has"],
    ]


def test_a_node_says_so(node, caplog, monkeypatch):
    monkeypatch.setattr("posse.live.node.DISCONNECTED_SECONDS", 0.1)
    node.tick_seconds = 0.05
    monkeypatch.setattr(node.transport, "start", lambda receive: None)  # it was, before
    with caplog.at_level(logging.WARNING):
        node.start()
        deadline = time.monotonic() + 30
        while not caplog.records and time.monotonic() < deadline:
            time.sleep(0.02)
    assert caplog.records[0].getMessage().startswith("b has not been connected")
