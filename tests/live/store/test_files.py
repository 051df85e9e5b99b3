"""The file of a store: killed, locked, of another version and damaged."""

from __future__ import annotations

import io
import multiprocessing
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from posse.live.store import DecisionRecord, Store, StoreError, export_decisions
from posse.live.store.decisions import OLDEST, OPEN
from posse.live.store.store import UNCLOSED, UNSHOWN
from tests.live.store.conftest import FINGERPRINT

# Four threads decide and reward, and say so when it is acknowledged; a pipe takes a short line
# whole.
AGENT = """
import os, secrets, sys, threading
from posse.live.store import DecisionRecord, Participant, Store

class Total(Participant):
    total = 0.0
    count = 0
    def settle(self, decision):
        self.total += decision.reward
        self.count += 1
        return True
    def state(self):
        return {"total": self.total, "count": self.count}
    changes = state
    def restore(self, state):
        self.total, self.count = state["total"], state["count"]

store = Store.open(sys.argv[1], fingerprint=sys.argv[2])
store.attach_participant(Total())

def work(number):
    while True:
        name = secrets.token_hex(8)
        store.add_decision(DecisionRecord(name, "A", 0.5, 1))
        store.add_reward(name, number, 2)
        os.write(1, f"{name} {number}\\n".encode())

for number in range(4):
    threading.Thread(target=work, args=(number,)).start()
"""


def start(path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", AGENT, str(path), FINGERPRINT]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_what_was_acknowledged_outlives_a_kill(path: Path, reopen: Callable[[], Store]) -> None:
    acknowledged: list[tuple[str, float]] = []
    chance = random.Random(1)
    for _ in range(10):
        with start(path) as agent:
            assert agent.stdout is not None
            lines = [agent.stdout.readline() for _ in range(chance.randrange(1, 150))]
            time.sleep(chance.uniform(0, 0.005))
            os.kill(agent.pid, signal.SIGKILL)
            lines += agent.stdout.readlines()
        assert lines[0], "the agent did not start"
        for line in lines:
            name, value = line.split()
            acknowledged.append((name, float(value)))
    with reopen() as store:
        for name, value in acknowledged:
            kept = store.find_decision(name)
            assert kept is not None
            assert kept.reward == value
        rows = store.read_rows("SELECT sum(reward), count(reward) FROM decision", ())
        # the evidence is that of the rewards on disk, acknowledged or not
        assert store.load_exchange() == {"total": rows[0][0], "count": rows[0][1]}
        assert rows[0][1] >= len(acknowledged)


def test_commits_wait_for_the_disk(reopen: Callable[[], Store]) -> None:
    # a kill leaves what the system has yet to write, so only a power cut would show this
    with reopen() as store:
        connection = store.file.writer.connection
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_what_is_found_at_a_start_is_put_on_disk(reopen: Callable[[], Store], path: Path) -> None:
    """Killed while a commit waits for the disk, a process leaves it in the system's memory: the
    next one finds the reward, and says so to who asks again. (Found by `make simulate`.)"""
    wal = path.with_name("agent.db-wal")
    with reopen() as store:
        store.add_decision(DecisionRecord("d", "A", 0.5, 1))
        left = {each: each.read_bytes() for each in (path, wal)}
    for each, content in left.items():
        each.write_bytes(content)
    before = wal.stat().st_size
    with reopen() as store:
        assert store.find_decision("d") is not None
        assert wal.stat().st_size > before  # SQLite syncs all of the log when it appends to it
        assert not store.file.writer.ahead_of_disk


def test_one_process_holds_a_store(path: Path, reopen: Callable[[], Store]) -> None:
    with start(path) as agent:
        assert agent.stdout is not None
        agent.stdout.readline()
        with pytest.raises(ValueError, match=r"agent\.db is locked by a running agent: stop it"):
            reopen()
        agent.kill()
    with reopen() as store:
        with pytest.raises(ValueError, match="is locked by a running agent"):
            reopen()
        store.add_decision(DecisionRecord("d", "A", 0.5, 1))  # the refused opener took nothing away
    reopen().close()


@pytest.mark.skipif(os.name != "posix", reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_no_part_in_it(path: Path, reopen: Callable[[], Store]) -> None:
    store = reopen()
    context = multiprocessing.get_context("fork")
    asked, told = context.Pipe()
    go, ready = context.Pipe()

    def child() -> None:
        try:
            store.add_decision(DecisionRecord("d", "A", 0.5, 1))
        except StoreError as error:
            told.send(str(error))
        ready.recv()

    forked = context.Process(target=child)
    forked.start()
    try:
        assert "open it after forking" in asked.recv()
        store.close()
        reopen().close()  # although the child still runs
    finally:
        go.send(None)
        forked.join()
        for pipe in (asked, told, go, ready):
            pipe.close()


def test_a_closed_store_says_so(path: Path, reopen: Callable[[], Store]) -> None:
    store = reopen()
    store.close()
    store.close()
    with pytest.raises(StoreError, match="is closed: open it again"):
        store.add_decision(DecisionRecord("d", "A", 0.5, 1))
    with pytest.raises(StoreError, match="could not be read"):
        store.find_decision("d")


def test_a_file_of_the_previous_schema_is_read_and_no_longer_of_it(
    path: Path, reopen: Callable[[], Store]
) -> None:
    with reopen() as store:
        store.add_decision(DecisionRecord("d", "A", 0.5, 1))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version=3")
    with reopen() as store:
        assert store.find_decision("d") is not None
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (4,)


@pytest.mark.parametrize("version", [0, 1, 2, 5])
def test_a_file_of_another_schema_is_refused_in_a_sentence_and_left_as_it_is(
    path: Path, reopen: Callable[[], Store], version: int
) -> None:
    with reopen() as store:
        store.add_decision(DecisionRecord("d", "A", 0.5, 1))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version={version}")
    before = path.read_bytes()
    sentence = f"has schema {version} and this Posse reads schema 4: start the agent with"
    with pytest.raises(ValueError, match=sentence):
        reopen()
    with pytest.raises(ValueError, match=sentence):
        export_decisions(path, io.StringIO())
    assert path.read_bytes() == before


def test_fingerprints_of_another_version_are_refused_in_a_sentence(path: Path) -> None:
    Store.open(path, fingerprint="2-abc").close()
    with pytest.raises(ValueError, match="of version 2, but this Posse reads version 1: start"):
        Store.open(path, fingerprint="1-abc")


def test_open_decisions_are_found_by_their_index(reopen: Callable[[], Store]) -> None:
    """However many there are: those to close in order of time, and how many are open."""
    with reopen() as store:
        for query in (f"{OPEN}{OLDEST}", UNCLOSED, UNSHOWN):
            values = (1, *(1,) * (query.count("?") - 1))
            plan = store.read_rows(f"EXPLAIN QUERY PLAN {query}", values)
            index = "decision_inactive" if query == UNSHOWN else "decision_open"
            assert f"INDEX {index}" in plan[0][-1]
            assert not any("TEMP B-TREE" in row[-1] for row in plan)


def test_a_store_of_another_agent_is_refused(path: Path, reopen: Callable[[], Store]) -> None:
    reopen().close()
    with pytest.raises(ValueError, match=r"'origins .*', and this agent is 'flows'\): set"):
        Store.open(path, fingerprint="flows")
    reopen().close()


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "garbage": lambda content: b"garbage " * 1000,
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "cut in the last page": lambda content: content[:-1],
    "pages of zeros": lambda content: content[:8192] + bytes(8192) + content[16384:],
    "no tables": lambda content: content[:4096],
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damage_is_refused_and_left_alone(
    path: Path, reopen: Callable[[], Store], damage: Callable[[bytes], bytes]
) -> None:
    with reopen() as store, store.transaction():
        for index in range(500):
            store.add_decision(DecisionRecord(f"d{index}", "A" * 50, 0.5, index))
    path.write_bytes(damage(path.read_bytes()))
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(ValueError, match=r"agent\.db is damaged .*: move it away"):
            reopen()
        assert path.read_bytes() == before
    path.rename(path.with_name("damaged"))
    reopen().close()  # as the message says


def test_what_is_no_store_is_refused(path: Path, reopen: Callable[[], Store]) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE other (a)")
    with pytest.raises(ValueError, match="is a SQLite file but not a store of Posse"):
        reopen()
    path.unlink()
    path.with_name("agent.db-wal").write_bytes(b"commits")
    with pytest.raises(ValueError, match=r"is missing but .*-wal exists"):
        reopen()
    with pytest.raises(ValueError, match="is a folder"):
        Store.open(path.parent, fingerprint=FINGERPRINT)
    with pytest.raises(ValueError, match="there is no folder"):
        Store.open(path / "a" / "b", fingerprint=FINGERPRINT)
