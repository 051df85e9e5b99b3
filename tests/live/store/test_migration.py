"""Stores that Posse 0.1 wrote: a of two agents a and b, under origins with signatures, and flows.

Each holds four rewards (0, 1, 0, 1), a decision closed by its window and one that is open; the
neighbour gave four rewards of 1. Those of 0.2 (schema 2) are the same, without signatures.
`ca-0.1.pem` vouches for the signatures. `killed-0.1` was left by kill -9: three rewards and an open
decision that are in its log (WAL) only.
"""

from __future__ import annotations

import gzip
import io
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from posse import families
from posse.live.agent import Agent
from posse.live.certificates import Files
from posse.live.node import Node, Silence
from posse.live.signatures import verifier
from posse.live.store import Conflict, DecisionRecord, Outcome, Store, StoreError, export, schema
from posse.live.store.decisions import OLDEST, OPEN
from posse.live.transport.memory import MemoryNetwork

DATA = Path(__file__).parent / "data"
FILES = {"origins": "agent-0.1.db", "flows": "flows-0.1.db"}
LATER = {"origins": "agent-0.2.db", "flows": "flows-0.2.db"}
UNIT = 2**20  # quanta


def start(path: Path, exchange: str, name: str = "a", silence: Silence | None = None) -> Node:
    options = {"identity": name} if exchange == "origins" else None
    agent = Agent(
        ["red", "green"], families.Bernoulli(), exchange=exchange, exchange_options=options
    )
    store = Store.open(
        path, fingerprint=agent.fingerprint, equal=agent.equal_fingerprints, owner=name
    )
    try:
        transport = MemoryNetwork([("a", "b")]).transport("a")
        silence = silence or Silence()
        return Node(agent, store, transport, neighbours=["b"], silence=silence, clock=lambda: 2e9)
    except BaseException:
        store.close()
        raise


def rows(path: Path) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        columns = "id, arm, probability, time, reward, settled, silent"
        return connection.execute(f"SELECT {columns} FROM decision ORDER BY number").fetchall()


@pytest.fixture(params=FILES)
def exchange(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["0.1", "0.2"])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def old(tmp_path: Path, exchange: str, version: str) -> Path:
    name = (FILES if version == "0.1" else LATER)[exchange]
    return Path(shutil.copy(DATA / name, tmp_path / "agent.db"))


def test_nothing_is_lost_in_an_upgrade(old: Path, exchange: str) -> None:
    before = rows(old)
    assert len(before) == 6
    for _ in range(2):
        node = start(old, exchange)
        try:
            assert node.store.experiments() == ["default"]
            state = {**node.agent.exchange.state(), "counted": 5}
            assert node.store.load_exchange() == json.loads(json.dumps(state))
            books = node.experiment().books()
            assert books is not None
            assert (books.counted, books.own) == (5, 5.0)  # it begins with what is there
            for row in before:
                # what was settled is final
                made = DecisionRecord(*row[:6], bool(row[6]), closed=row[5])
                assert node.store.decision(row[0]) == made
            evidence = node.evidence()
            assert sum(values[-1] for values in evidence["own"].values()) == 5 * UNIT
            held = sum(values[-1] for values in evidence["held"].values())
            assert held == 9 * UNIT or (exchange == "flows" and 0 < held <= 9 * UNIT)
            assert node.reward("visit-1", 1.0) is Outcome.REPEATED
            with pytest.raises(Conflict):
                node.reward("visit-0", 1.0)
            assert node.store.open_decisions() == 1
        finally:
            node.stop()
    assert rows(old) == before


def test_signatures_of_0_1_are_kept_as_they_were(tmp_path: Path) -> None:
    """Nobody else could sign them anew, and the neighbour may be gone."""
    old = Path(shutil.copy(DATA / FILES["origins"], tmp_path / "agent.db"))
    with closing(sqlite3.connect(old)) as connection:
        parts = dict(connection.execute("SELECT part, value FROM exchange"))
    (before,) = json.loads(parts["others"])
    node = start(old, "origins")
    try:
        state = node.store.load_exchange()
        fingerprint = node.agent.fingerprint
    finally:
        node.stop()
    assert state is not None
    (kept,) = (part for name, part in state.items() if name.startswith("entry b "))
    assert kept == before
    origin, incarnation, seq, evidence, signature = kept
    content = [fingerprint, origin, incarnation, seq, evidence]
    signed = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    verify = verifier(Files(DATA / "ca-0.1.pem", DATA / "none", DATA / "none"))
    assert verify("b", signed, bytes.fromhex(signature))
    assert not verify("a", signed, bytes.fromhex(signature))


def test_what_was_open_is_rewarded_once(old: Path, exchange: str) -> None:
    for outcome in (Outcome.NEW, Outcome.REPEATED):
        node = start(old, exchange)
        try:
            assert node.reward("open", 1.0) is outcome
            assert sum(arm["pulls_here"] for arm in node.arms().values()) == 6
        finally:
            node.stop()


@pytest.mark.parametrize(
    ("silence", "closes"),
    [(Silence(60.0), 0), (Silence(60.0, 0.0), 1), (Silence(60.0, 1.0), 1)],
    ids=["heard", "count", "wait"],
)
@pytest.mark.parametrize("rewarded", [False, True])
def test_what_was_open_counts_in_whole_under_any_silence(
    old: Path, exchange: str, silence: Silence, closes: int, rewarded: bool
) -> None:
    """Nothing was counted for it at the start, and so there is nothing to correct."""
    node = start(old, exchange, silence=silence)
    try:
        if rewarded:
            assert node.reward("open", 1.0) is Outcome.NEW
            assert node.reward("open", 1.0) is Outcome.REPEATED
        node.tick()
        kept = node.store.decision("open")
        assert kept is not None
        assert (kept.assumed, kept.closed) == (None, 2e9)
        assert node.store.open_decisions() == 0
        own = node.evidence()["own"]
        pulls = sum(values[-1] for values in own.values())
        assert pulls == (5 + (closes or rewarded)) * UNIT
        reward = 2.0 + (1.0 if rewarded else silence.default_reward or 0.0)
        assert sum(values[0] for values in own.values()) == reward * UNIT
        assert sum(arm["pulls_here"] for arm in node.arms().values()) * UNIT == pulls
    finally:
        node.stop()


def test_open_decisions_are_found_by_their_index(old: Path) -> None:
    """However many there are: those to close in order of time, and how many are open."""
    with Store.open(old, fingerprint=fingerprint_of(old)) as store:
        for query in (
            f"{OPEN}{OLDEST}",
            "SELECT count(*) FROM decision WHERE experiment = ? AND closed IS NULL",
        ):
            values = (1, *(1,) * (query.count("?") - 1))
            plan = store._read(f"EXPLAIN QUERY PLAN {query}", values)
            assert "INDEX decision_open" in plan[0][-1]
            assert not any("TEMP B-TREE" in row[-1] for row in plan)


def fingerprint_of(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        table = "agent" if version == 1 else "experiment"
        return str(connection.execute(f"SELECT fingerprint FROM {table}").fetchone()[0])


def test_what_0_1_left_in_the_log_when_it_was_killed_is_there(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    for end in ("", "-wal"):
        packed = (DATA / f"killed-0.1.db{end}.gz").read_bytes()
        Path(f"{path}{end}").write_bytes(gzip.decompress(packed))
    alone = Path(shutil.copy(path, tmp_path / "alone.db"))
    assert rows(alone) == []
    for outcome in (Outcome.NEW, Outcome.REPEATED):
        node = start(path, "origins")
        try:
            pulls = sum(values[-1] for values in node.evidence()["own"].values())
            assert pulls == (3 if outcome is Outcome.NEW else 4) * UNIT
            assert node.reward("open", 1.0) is outcome
            assert node.store.open_decisions() == 0
        finally:
            node.stop()
    assert len(rows(path)) == 4


def test_another_experiment_beside_it(old: Path, exchange: str) -> None:
    node = start(old, exchange)
    try:
        other = node.store.beside("checkout", "f")
        assert other.decision("open") is None
        other.decide(DecisionRecord("open", "blue", 1.0, 5.0))
        assert node.store.decision("open") != other.decision("open")
        assert node.store.experiments() == ["default", "checkout"]
    finally:
        node.stop()


def test_a_store_under_another_name_is_refused(old: Path, exchange: str) -> None:
    """Seen in 0.1 under flows: it started, acknowledged, and no neighbour ever heard it.

    Origins of 0.1 have the name in their evidence; flows take the first name that opens them, and
    0.2 wrote it down.
    """
    if exchange == "flows":
        start(old, exchange, "a").stop()
    before = old.read_bytes()
    with pytest.raises(ValueError, match=r"is the store of a: set name back to it, or give m a"):
        start(old, exchange, "m")
    assert old.read_bytes() == before
    start(old, exchange, "a").stop()


def test_a_migration_that_fails_leaves_the_old_file(
    old: Path, exchange: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = old.read_bytes()
    broken = [*schema.MIGRATIONS[:-1], (*schema.MIGRATIONS[-1], "CREATE TABLE agent (a)")]
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", broken)
        with pytest.raises(StoreError, match="already exists"):
            start(old, exchange)
    assert old.read_bytes() == before


def test_export_reads_it_as_it_is(old: Path) -> None:
    before = old.read_bytes()
    file = io.StringIO()
    assert export(old, file) == 6
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    assert {line["experiment"] for line in lines} == {"default"}
    assert [line["id"] for line in lines if line["settled"] is None] == ["open"]
    assert old.read_bytes() == before
