"""The past in a store: points of several scales and events, bounded by number, not by a clock."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from posse.live.experiment.history import SCALES
from posse.live.store import Store, StoreError
from posse.live.store.timeline import MAX_EVENTS, MAX_TEXT_LENGTH, Event, HistoryPoint

MINUTE, HOUR, DAY = 60, 3600, 86_400
START = 20_000 * DAY
ALL = [(each.seconds, each.points) for each in SCALES.values()]


def times(store: Store, step: int) -> list[int]:
    return [point.time for point in store.points.read_between(step, -1, 1e12)]


def test_a_step_has_one_point_and_the_newest_are_kept(store: Store) -> None:
    scales = [(MINUTE, 5), (HOUR, 3)]
    for minute in range(200):
        for _ in range(2):
            store.points.add_point(
                HistoryPoint(START + minute * MINUTE, 0, b"x%d" % minute), scales
            )
    assert times(store, MINUTE) == [START + minute * MINUTE for minute in range(195, 200)]
    assert times(store, HOUR) == [START + hour * HOUR for hour in (1, 2, 3)]
    assert store.points.newest_point(MINUTE) == HistoryPoint(START + 199 * MINUTE, 0, b"x199")
    assert store.points.newest_point(DAY) is None


def test_a_gap_stays_a_gap_and_makes_nothing_old(store: Store) -> None:
    scales = [(MINUTE, 5)]
    for minute in (0, 1, 2, 1000, 1001):
        store.points.add_point(HistoryPoint(START + minute * MINUTE, 0, b""), scales)
    assert [(time - START) // MINUTE for time in times(store, MINUTE)] == [0, 1, 2, 1000, 1001]


@pytest.mark.parametrize("ahead", [2 * HOUR, 1000 * DAY])
def test_a_clock_that_is_ahead_for_a_moment_erases_nothing(store: Store, ahead: int) -> None:
    for minute in range(100):
        store.points.add_point(HistoryPoint(START + minute * MINUTE, 0, b""), ALL)
    before = {step: times(store, step) for step, _ in ALL}
    store.points.add_point(HistoryPoint(START + 100 * MINUTE + ahead, 0, b"ahead"), ALL)
    assert times(store, MINUTE)[-1] == START + 100 * MINUTE + ahead
    store.points.add_point(HistoryPoint(START + 100 * MINUTE, 0, b""), ALL)
    assert times(store, MINUTE) == [*before[MINUTE], START + 100 * MINUTE]
    assert [times(store, step) for step in (HOUR, DAY)] == [before[HOUR], before[DAY]]


def test_a_clock_that_is_set_back_goes_on_from_there(store: Store) -> None:
    for minute in (*range(60), *range(30, 40)):
        store.points.add_point(HistoryPoint(START + minute * MINUTE, 0, b"%d" % minute), ALL)
    assert times(store, MINUTE) == [START + minute * MINUTE for minute in range(40)]


def test_experiments_have_their_own(store: Store) -> None:
    other = store.open_experiment("other", "f")
    store.points.add_point(HistoryPoint(START, 1, b"one"), ALL)
    other.points.add_point(HistoryPoint(START, 2, b"two"), ALL)
    store.events.add_events([Event(1.0, "pin", "one")])
    assert store.points.newest_point(MINUTE) == HistoryPoint(START, 1, b"one")
    assert other.points.newest_point(MINUTE) == HistoryPoint(START, 2, b"two")
    assert other.events.read_between(-1, 1e12) == []


def test_a_year_of_ten_experiments_of_ten_arms_takes_less_than_20_mb(
    reopen: Callable[[], Store], path: Path
) -> None:
    """As it is written: days of a year, the hours of its last month, the last minutes of all.

    Two of them are, and take a fifth of it.
    """
    data = os.urandom(8 * (1 + 6 * 10))
    hours, minutes = 744, 1440 + 60  # some more than are kept
    at = [START + day * DAY for day in range(366 - hours // 24)]
    at += [at[-1] + DAY + hour * HOUR for hour in range(hours - minutes // 60)]
    at += [at[-1] + HOUR + minute * MINUTE for minute in range(minutes)]
    with reopen() as store:
        views = [store, store.open_experiment("other", "f")]
        for first in range(0, len(at), 200):
            with store.reward_transaction(durable=False):
                for time in at[first : first + 200]:
                    for view in views:
                        view.points.add_point(HistoryPoint(time, 0, data), ALL)
        counts = [len(times(views[1], step)) for step, _ in ALL]
        assert counts[0] == 1440
        assert counts[1] >= 700
        assert counts[2] == 366
    assert path.stat().st_size < 20e6 / 5


def test_events_are_the_newest_and_no_more(store: Store) -> None:
    for n in range(MAX_EVENTS + 20):
        store.events.add_events([Event(float(n), "pin", f"{n}")])
    kept = store.events.read_between(-1, 1e12)
    assert [each.text for each in kept] == [f"{n}" for n in range(20, MAX_EVENTS + 20)]
    assert [each.time for each in store.events.read_between(100, 102)] == [101.0, 102.0]
    store.events.add_events([Event(5.0, "late", "of a clock that was set back")])
    assert store.events.read_between(-1, 1e12)[0].text == "of a clock that was set back"
    assert [each.text for each in store.events.read_kind("late")] == [
        "of a clock that was set back"
    ]
    store.events.add_events([])
    assert len(store.events.read_between(-1, 1e12)) == MAX_EVENTS


@pytest.mark.parametrize("text", ["\ud800", "x" * 5000, "<b>\u202eא", "'); DROP TABLE event;--"])
def test_whatever_a_sentence_holds_is_kept(store: Store, text: str) -> None:
    store.events.add_events([Event(1.0, "arm", text)])
    (kept,) = store.events.read_between(-1, 1e12)
    assert kept.text[:4] in (text[:4], "?")
    assert len(kept.text) == min(len(text), MAX_TEXT_LENGTH)


KILLED = """
import os, signal, sys
from posse.live.store import Store
from posse.live.store.timeline import Event
from posse.live.store.timeline import HistoryPoint
store = Store.open(sys.argv[1], fingerprint=sys.argv[2])
for minute in range(3):
    store.points.add_point(HistoryPoint(60 * minute, 0, b"kept"), [(60, 9)])
    store.events.add_events([Event(60.0 * minute, "pin", "kept")])
with store.transaction():
    store.points.add_point(HistoryPoint(180, 0, b"not yet"), [(60, 9)])
    store.events.add_events([Event(180.0, "pin", "not yet")])
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_kill_leaves_what_was_committed(reopen: Callable[[], Store], path: Path) -> None:
    reopen().close()
    words = [sys.executable, "-c", KILLED, str(path), "origins bernoulli beta(1, 1)"]
    assert subprocess.run(words, timeout=60, check=False).returncode == -signal.SIGKILL
    with reopen() as store:
        assert times(store, MINUTE) == [0, 60, 120]
        assert [each.text for each in store.events.read_between(-1, 1e12)] == ["kept"] * 3


def test_a_full_disk_takes_neither_by_halves(store: Store) -> None:
    store.points.add_point(HistoryPoint(START, 0, b"x" * 4000), ALL)
    connection = store.file.connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(StoreError, match="full"):
        store.points.add_point(HistoryPoint(START + 2 * DAY, 0, b"y" * 40_000), ALL)
    assert [times(store, step) for step, _ in ALL] == [[START]] * 3
    connection.execute("PRAGMA max_page_count=1000000")
    store.points.add_point(HistoryPoint(START + 2 * DAY, 0, b"y" * 40_000), ALL)
    assert [len(times(store, step)) for step, _ in ALL] == [2, 2, 2]
