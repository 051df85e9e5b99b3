"""Erased decisions leave no bytes in the store's files."""

import secrets
import sqlite3
from contextlib import closing

import pytest

from posse.live.store import DecisionRecord, Store


def find_bytes(path, text):
    """The files of a store in which a text is."""
    files = (path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm"))
    return [file.name for file in files if file.exists() and text.encode() in file.read_bytes()]


def make_decision(id_, time, secret):
    return DecisionRecord(id_, "red", 0.5, time, context=f'{{"name":"{secret}"}}')


@pytest.mark.parametrize("n_decisions", [1, 700])
def test_no_byte_of_an_erased_decision_is_left(tmp_path, n_decisions):
    """Also if its row was moved between pages, and written again with its reward."""
    path = tmp_path / "agent.db"
    marks = [(secrets.token_hex(16), secrets.token_hex(8)) for _ in range(n_decisions)]
    with Store.open(path, fingerprint="f") as store:
        for first in range(0, n_decisions, 50):
            some = marks[first : first + 50]
            store.add_decisions(
                [make_decision(id_, first * 7919 % 1000, secret) for id_, secret in some]
            )
            store.add_rewards([(id_, 1.0) for id_, _ in some[::2]], 2000.0)
        erased = marks[:: max(1, n_decisions // 9)]
        for id_, _ in erased:
            assert find_bytes(path, id_), "it is there before"
            assert store.erase_decision(id_) is True
            assert store.find_decision(id_) is None
        for id_, secret in erased:
            assert find_bytes(path, id_) == []
            assert find_bytes(path, secret) == []
        kept = [mark for mark in marks if mark not in erased]
        assert all(store.find_decision(id_) is not None for id_, _ in kept)


def test_a_reader_keeps_the_log_until_it_has_ended(tmp_path):
    path = tmp_path / "agent.db"
    secret = secrets.token_hex(8)
    with Store.open(path, fingerprint="f") as store:
        store.add_decision(make_decision("a", 1.0, secret))
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM decision").fetchone()
            assert store.erase_decision("a") is False
            assert find_bytes(path, secret) != []
            store.add_decision(DecisionRecord("b", "red", 0.5, 2.0))  # requests go on
            store.retry_removal()
            assert find_bytes(path, secret) != []
            reader.execute("COMMIT")
        store.retry_removal()
        assert find_bytes(path, secret) == []
        assert store.find_decision("b") is not None


def test_old_decisions_are_overwritten_too(tmp_path):
    """Those that `remember` deletes: a visitor's erasure must not depend on when it comes."""
    path = tmp_path / "agent.db"
    now = 1000.0
    secrets_ = [secrets.token_hex(8) for _ in range(300)]
    with Store.open(path, fingerprint="f", monotonic=lambda: now) as store:
        store.add_decisions([make_decision(f"d{k}", 1.0, s) for k, s in enumerate(secrets_)])
        store.expire_decisions(500.0, 1.0, None)
        store.delete_old_decisions(now, 100.0)
        now += 200
        assert store.delete_old_decisions(now, 100.0) == 300
        assert store.remove_traces(["nothing that is there"])
        assert [s for s in secrets_ if find_bytes(path, s)] == []


def test_a_visitor_leaves_no_byte_and_others_stay(tmp_path):
    """Visitors with many decisions, of which copies are left where rows were moved."""
    path = tmp_path / "agent.db"
    visitors = [secrets.token_hex(8) for _ in range(40)]
    with Store.open(path, fingerprint="f") as store:
        for number in range(800):
            visitor = visitors[number % 40]
            record = DecisionRecord(f"{visitor}-{number}", "red", 0.5, 1.0, visitor=visitor)
            store.add_decision(record)
            if number % 3:
                store.add_reward(record.id, 1.0, 2.0)
        assert store.erase_visitor(visitors[7]) == (20, True)
        assert store.erase_visitor(visitors[7]) == (0, True)
        assert find_bytes(path, visitors[7]) == []
        assert store.read_rows("SELECT count(*) FROM decision") == [(780,)]
        numbers = store.read_rows("SELECT number FROM decision ORDER BY number")
        assert [number for (number,) in numbers] == [
            number + 1 for number in range(800) if number % 40 != 7
        ]
        store.add_reward(f"{visitors[0]}-0", 1.0, 2.0)  # the store goes on
        assert store.read_rows("PRAGMA integrity_check") == [("ok",)]
