"""Rules taken away one at a time: the simulation must notice each, or a named test does.

`python -m simulation --mutations 300` plays so many schedules without each rule, and says how many
of them fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

from posse.live.exchange import (
    Origins,
    compaction,
    digests,
    flow_records,
    flows,
    message_validation,
)
from posse.live.exchange import own_incarnations as own
from posse.live.exchange.messages import FlowsMessage
from posse.live.exchange.replica import Replica
from posse.live.experiment.experiment import LiveExperiment
from posse.live.experiment.reward_window import EvidenceParticipant
from posse.live.ledger.sums import negative
from posse.live.messaging import inbox
from posse.live.store import RewardOutcome, Store, StoreError, file
from posse.live.store import file as ages
from posse.live.store import file_lock as claim
from posse.live.store import group_commit as writer
from posse.live.store import transactions as keeper

Patch = tuple[Any, str, Any]
ENOUGH = 3  # schedules that fail


@contextmanager
def remove_rule(rule: str) -> Iterator[None]:
    """Play without a rule."""
    patches = RULES[rule]
    before = [(owner, name, owner.__dict__[name]) for owner, name, _ in patches]
    try:
        for owner, name, value in patches:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


_restore_own = own.OwnIncarnations.restore
_take = Origins._take
_receive_flows = flows.Flows.receive
_hear = digests.Neighbour.receive_digest
_after = keeper.ParticipantState.after_commit
_run = file.StoreFile.run_in_commit
_reward = Store.add_reward
_receive = LiveExperiment.receive
_advance = flows.Flows._advance_record
_examine = message_validation.Examiner.examine
_begin = writer.Writer.__init__
_begin_decision = EvidenceParticipant.begin
_learn = EvidenceParticipant._learn
_is_finished = compaction.Compaction._is_finished
_find_settled = compaction.Compaction._find_settled
_write_bases = compaction.Compaction._write_bases


def _resume_incarnation(self: Any, parts: Any) -> None:
    _restore_own(self, parts)
    if parts["own"]:
        self.present = parts["own"][-1]
        self._begun_here.add(self.present)


def _never_rest(self: Any, parts: Any) -> None:
    _restore_own(self, parts)
    self.resting = False
    self.end_rest()


def _keep_any(self: Any, entry: Any, now: float) -> str | None:
    if entry.origin == self.identity:
        return _take(self, entry, now)
    self.replica.keep(entry)
    return None


def _keep_own_only(self: Any, entry: Any, now: float) -> str | None:
    return None if entry.origin == self.identity else _take(self, entry, now)


def _finish_open(self: Any, entry: Any, open_incarnations: Any, now: float) -> bool:
    return _is_finished(self, entry, (), now)


def _find_settled_of_shown(self: Any, entries: Any, neighbours: Any, now: float) -> Any:
    shown = {name: replace(each, shown_all=True) for name, each in neighbours.items()}
    return _find_settled(self, entries, shown, now)


def _write_alike(self: Any, bases: Any, entries: Any) -> bool:
    self.own.writable.update(dict.fromkeys(entry.incarnation for entry in entries))
    return _write_bases(self, bases, entries)


def _find_by_number(self: Any, entry: Any) -> list[Any]:
    keys = ((entry.origin, number) for number in (entry.incarnation, *entry.covers))
    return [self.entries[key] for key in keys if key in self.entries]


def _find_same(self: Any, entry: Any) -> list[Any]:
    return [self.entries[entry.key]] if entry.key in self.entries else []


def _accept_without_echo(self: Any, peer: str, message: Any, now: float) -> Any:
    if isinstance(message, FlowsMessage):
        message = replace(message, echo=self._boot)
    return _receive_flows(self, peer, message, now)


def _merge_digest(self: Any, message: Any, replica: Any, most: int) -> None:
    before = dict(self.holds)
    _hear(self, message, replica, most)
    self.owed.clear()
    for key, version in before.items():
        self.note(key, version)


def _commit_anyway(self: Any, committed: bool) -> None:
    _after(self, True)


def _acknowledge_failed(self: Any, decision_id: str, reward: float, time: float) -> RewardOutcome:
    try:
        return _reward(self, decision_id, reward, time)
    except StoreError:
        return RewardOutcome.NEW


def _note_answers(receive: Callable[..., Any]) -> Callable[..., Any]:
    def receive_and_note(self: Any, peer: str, message: Any, now: float) -> Any:
        self.said = receive(self, peer, message, now)
        return self.said

    return receive_and_note


def _send_anyway(self: Any, peer: str, message: Any, now: float) -> Any:
    try:
        return _receive(self, peer, message, now)
    except StoreError:
        return getattr(self.agent.exchange, "said", [])


def _cancel_row_only(self: EvidenceParticipant, decision: Any) -> Any:
    return replace(decision, assumed=None, log_odds=None)


def _begin_shown(self: EvidenceParticipant, decision: Any) -> Any:
    begun = _begin_decision(self, replace(decision, inactive=False))
    return replace(begun, inactive=decision.inactive)


def _learn_anyway(self: EvidenceParticipant, decision: Any, reward: float) -> None:
    _learn(self, replace(decision, uplift=None), reward)


def _count_again(self: Any, decision_id: str, reward: float, time: float) -> RewardOutcome:
    outcome = _reward(self, decision_id, reward, time)
    if outcome is RewardOutcome.REPEATED:
        with self.transaction():
            decision = self.find_decision(decision_id)
            self.participant_state.change_participant().settle(decision)
    return outcome


def _any_version(self: Any, record: Any, sender: Any, message: Any) -> bool:
    return _advance(self, record, sender, replace(message, flow=negative(record.flow)))


def _run_lazily(self: Any, work: Callable[[], Any], durable: bool = True) -> Any:
    return _run(self, work, False)


def _all_or_nothing(self: Any, message: Any) -> Any:
    examined = _examine(self, message)
    return replace(examined, news=(), known=()) if examined.refused else examined


def _trust_disk(self: Any, *given: Any) -> None:
    _begin(self, *given)
    self.ahead_of_disk = False


def _by_the_clock(self: Any, seconds: float, now: float, newest: int) -> tuple[int, float]:
    return newest, now - seconds


def _two_commits(self: Any, durable: bool = True) -> Any:
    return nullcontext()


RULES: dict[str, list[Patch]] = {
    "origins: an incarnation is never resumed": [
        (own.OwnIncarnations, "restore", _resume_incarnation),
        (own.OwnIncarnations, "supersede", lambda self, number: 0),
    ],
    "origins: the larger version wins": [
        (Origins, "_is_news", lambda self, entry: True),
        (Origins, "_take", _keep_any),
    ],
    "origins: own entries of others are taken": [(Origins, "_take", _keep_own_only)],
    "origins: own entries rest after a start": [(own.OwnIncarnations, "restore", _never_rest)],
    "origins: a superseded incarnation is not written": [
        (own.OwnIncarnations, "supersede", lambda self, number: 0),
    ],
    "origins: what a base covers counts once": [
        (Replica, "is_covered", lambda self, key: False),
        (Replica, "find_rivals", _find_same),
    ],
    "origins: of bases with an incarnation in common one counts": [
        (Replica, "find_rivals", _find_by_number)
    ],
    "origins: nothing open is compacted": [(compaction.Compaction, "_is_finished", _finish_open)],
    "origins: nothing folds before neighbours have shown what they hold": [
        (compaction.Compaction, "_find_settled", _find_settled_of_shown)
    ],
    "origins: what came back folds into bases of its own": [
        (compaction.Compaction, "_write_bases", _write_alike)
    ],
    "origins: what waited is told after the rest": [
        (own.OwnIncarnations, "end_rest", lambda self: setattr(self, "resting", False)),
    ],
    "origins: what waits is part of the lag": [
        (own.OwnIncarnations, "waiting_keys", lambda self: set())
    ],
    "origins: what is abandoned leaves the belief": [
        (compaction.Compaction, "_is_left_open", lambda *_: False),
    ],
    "origins: a digest replaces what was held": [
        (digests.Neighbour, "receive_digest", _merge_digest)
    ],
    "origins: signatures": [(message_validation.Examiner, "_is_signed", lambda *_: True)],
    "origins: a bad entry is refused alone": [
        (message_validation.Examiner, "examine", _all_or_nothing)
    ],
    "flows: only who heard us counts (echo)": [(flows.Flows, "receive", _accept_without_echo)],
    "flows: only a live boot counts": [(flow_records.Peer, "is_alive", lambda self, heard: True)],
    "flows: repeated messages are dropped": [
        (flow_records.Peer, "is_repeated", lambda self, boot, seq: False),
    ],
    "flows: forks are repaired": [(flows.Flows, "_advance_record", _any_version)],
    "store: memory goes back when a commit fails": [
        (keeper.ParticipantState, "after_commit", _commit_anyway)
    ],
    "store: evidence is in the same commit": [
        (keeper.ParticipantState, "before_commit", lambda self: None)
    ],
    "store: acknowledged means committed": [(Store, "add_reward", _acknowledge_failed)],
    "store: a reward counts once": [(Store, "add_reward", _count_again)],
    "store: a reward waits for the disk": [(file.StoreFile, "run_in_commit", _run_lazily)],
    "store: what is superseded no longer counts": [
        (EvidenceParticipant, "is_superseded", lambda self, decision: False),
    ],
    "store: what is cancelled is taken back": [(EvidenceParticipant, "cancel", _cancel_row_only)],
    "store: what is not shown does not count": [(EvidenceParticipant, "begin", _begin_shown)],
    "origins: a holdout is no evidence": [(EvidenceParticipant, "_learn", _learn_anyway)],
    "origins: compaction keeps side rows whole": [(compaction, "is_side_row", lambda name: False)],
    "store: a tick flushes decisions": [(file.StoreFile, "flush", lambda self: None)],
    "store: a start syncs what it finds": [(writer.Writer, "__init__", _trust_disk)],
    "store: a transaction is one commit": [(Store, "transaction", _two_commits)],
    "store: forgotten by the time that went by": [
        (ages.DecisionAges, "find_older_than", _by_the_clock)
    ],
    "store: it belongs to one name": [
        (claim.StoreClaim, "check_file", lambda self, connection, path: None)
    ],
    "node: nothing is sent before its commit": [
        (LiveExperiment, "receive", _send_anyway),
        (Origins, "receive", _note_answers(Origins.receive)),
        (flows.Flows, "receive", _note_answers(flows.Flows.receive)),
    ],
    "node: a neighbour has a budget": [
        (inbox.Inbox, "admit_message", lambda self, peer, size: True)
    ],
}


def count_failures(
    schedules: int, run: Callable[[int, str], bool]
) -> Iterator[tuple[str, dict[str, str]]]:
    """For each rule, how many schedules of each exchange fail without it, up to `ENOUGH`."""
    for rule in RULES:
        only = {"origins": ("origins",), "flows": ("flows",)}
        exchanges = only.get(rule.partition(":")[0], ("origins", "flows"))
        with remove_rule(rule):
            yield (
                rule,
                {exchange: _count_failed(exchange, schedules, run) for exchange in exchanges},
            )


def _count_failed(exchange: str, schedules: int, run: Callable[[int, str], bool]) -> str:
    failed = n_played = 0
    while n_played < schedules and failed < ENOUGH:
        failed += run(n_played, exchange)
        n_played += 1
    return f"{failed} of {n_played}"
