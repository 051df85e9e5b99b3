"""Controls of an experiment without I/O: which arm is pinned, which are paused, and by whom.

Two records act together. The *network's* is signed by an agent named in `operators`, and of all
records ever made the one with the highest (version, signer) wins, so that agents agree whatever the
order, repetition or loss of messages. The *local* one, made by an agent that is no operator (or has
no certificate), is neither signed nor sent. A local pin goes before the network's pin, pauses add
up, and a paused arm is never played, whoever pinned it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from posse.live.controls.records import (
    LONGEST_NAME,
    LONGEST_REASON,
    MOST_STEPS,
    ControlAnswer,
    ControlsAnswer,
    VersionSteps,
    is_control,
    is_note,
)
from posse.live.controls.records import Control as Control
from posse.live.controls.records import ControlMessage as ControlMessage
from posse.live.exchange import Sign
from posse.live.security import Vouch
from posse.live.store import Conflict, list_names

# ("pin", "pause" or "forget", arm or agent) -> its source, as `Controls.active_settings` returns it
ActiveSettings = Mapping[tuple[str, str], str]
PAST_TENSE = {"pin": "pinned", "pause": "paused", "forget": "forgotten"}


def describe_changes(
    before: ActiveSettings, after: ActiveSettings, note: str = ""
) -> list[tuple[str, str]]:
    """Return the kind and the sentence of each change between two settings of controls.

    note: who gave the command and why, for the end of each sentence.

    >>> describe_changes({("pause", "red"): "here"}, {("pin", "blue"): "here"})
    [('pin', 'blue is pinned here'), ('resume', 'red is no longer paused')]
    """
    arms_by_sentence: dict[tuple[str, str], list[str]] = {}  # arms of which the same is to be said
    for (kind, arm), whose in after.items():
        if before.get((kind, arm)) != whose:
            arms_by_sentence.setdefault((kind, f"{PAST_TENSE[kind]} {whose}"), []).append(arm)
    for kind, arm in before:
        if (kind, arm) not in after:
            arms_by_sentence.setdefault(("resume", f"no longer {PAST_TENSE[kind]}"), []).append(arm)
    return [
        (kind, f"{list_names(arms)} {'is' if len(arms) == 1 else 'are'} {predicate}{note}")
        for (kind, predicate), arms in arms_by_sentence.items()
    ]


SIGNATURE_INVALID = "control_signature_invalid"
REPEAT_SECONDS = 10.0  # until the same record is sent to a neighbour again

log = logging.getLogger(__name__)


class Controls:
    """The pins and pauses of one experiment at one agent.

    sign and vouch: as the holder of a certificate; without them controls stay at this agent.
    """

    def __init__(
        self,
        network: str,
        experiment: str,
        agent: str,
        *,
        operators: Iterable[str] = (),
        sign: Sign | None = None,
        vouch: Vouch | None = None,
    ) -> None:
        self.network = network
        self.experiment = experiment
        self.agent = agent
        self._stored_record: Control | None = None  # acts while its signer is an operator
        self._local_record: Control | None = None
        self._steps = VersionSteps()  # to the highest version
        self._last_sent: dict[str, tuple[float, Control | None]] = {}
        self.configure_operators(operators, sign, vouch)

    def configure_operators(
        self, operators: Iterable[str], sign: Sign | None, vouch: Vouch | None
    ) -> None:
        """Change operators and keys; records signed by agents no longer named are dropped."""
        self.operators = frozenset(operators)
        self._sign = sign
        self._vouch = vouch
        if self._stored_record is not None and self.network_record is None:
            self._log_change(
                f"controls of {self._stored_record.signer} are removed: it is no longer an operator"
            )
        self._stored_record = self.network_record
        self._steps.keep_signed_by(self.operators)
        self._renew_signatures()

    @property
    def network_record(self) -> Control | None:
        """The network's record, which acts while its signer is an operator."""
        record = self._stored_record
        return record if record is not None and record.signer in self.operators else None

    @property
    def is_operator(self) -> bool:
        """Whether commands at this agent act in the whole network."""
        return self._sign is not None and self._vouch is not None and self.agent in self.operators

    @property
    def version(self) -> int:
        """The highest version known."""
        return self._steps.version

    def pin(self, arm: str, arms: Sequence[str], by: str = "", reason: str = "") -> Control:
        """Play only this arm, one of those known here; by, reason: who says so, and why."""
        _check_arm(arm, arms)
        if (
            not self.is_operator
            and self.network_record is not None
            and arm in self.network_record.paused
        ):
            raise Conflict(
                f"arm {arm!r} is paused in the whole network by {self.network_record.signer}, "
                "and only an operator can resume it"
            )
        return self._apply_command(self._next_version(by, reason).with_pin(arm))

    def pause(self, arm: str, arms: Sequence[str], by: str = "", reason: str = "") -> Control:
        """Stop playing this arm."""
        _check_arm(arm, arms)
        return self._apply_command(self._next_version(by, reason).with_pause(arm))

    def forget(self, agent: str, last_status: int, by: str = "", reason: str = "") -> Control:
        """Leave an agent out of views of the network, until a later status of it comes.

        last_status: the time of its newest status, in milliseconds of its own clock.
        """
        if agent == self.agent:
            raise Conflict(f"{agent} is this agent: ask another one to forget it")
        control = self._next_version(by, reason).with_forgotten(agent, last_status)
        return self._apply_command(control)

    def forgotten_agents(self) -> dict[str, int]:
        """Return the agents to leave out, unless they have a status later than this."""
        forgotten: dict[str, int] = {}
        for record in self._active_records():
            for agent, time in () if record is None else record.forgotten:
                forgotten[agent] = max(time, forgotten.get(agent, 0))
        return forgotten

    def resume(
        self, arm: str | None, arms: Sequence[str], by: str = "", reason: str = ""
    ) -> Control:
        """Undo pins and pauses of an arm, or of all arms (None), by a new version."""
        if arm is not None:
            _check_arm(arm, [*arms, *self._named_arms()])  # a removed arm can still be resumed
        record = self.network_record
        if not self.is_operator and record is not None and arm in (record.pinned, *record.paused):
            raise Conflict(
                f"arm {arm!r} is pinned or paused in the whole network by {record.signer}, "
                "and only an operator can resume it"
            )
        return self._apply_command(self._next_version(by, reason).with_resume(arm))

    def accept_control(self, control: Control, now: float) -> str | None:
        """Adopt a record received from the network; returns None, or the reason of its refusal."""
        if not is_control(control):
            return "malformed_control"
        if control.network != self.network:
            return "control_wrong_network"
        if control.experiment != self.experiment:
            return "control_wrong_experiment"
        record = self.network_record
        if control == record:
            return None
        is_renewal = record is not None and control.rank == record.rank  # signed once more
        if record is not None and control.rank < record.rank:
            return None  # older
        # Cheap checks first: signatures are verified only for operators and plausible versions.
        if control.signer not in self.operators or self._vouch is None:
            return "control_not_from_operator"
        if not self._steps.within_reach(control.version):
            return "control_version_too_high"
        valid = self._vouch(control.signer, control.content, control.signature)
        if valid is None:
            return SIGNATURE_INVALID
        self._steps.add_version(control)
        # The version is known to exist even if its certificate is not valid now: only then is it
        # safe to count on from there.
        begin, end = valid
        if not begin <= now <= end:
            return "control_certificate_invalid"
        if not is_renewal or self._ends_before(end):
            self._adopt_record(control)
        return None

    def receive(self, peer: str, message: ControlMessage, now: float) -> list[str]:
        """Process a neighbour's records; returns the reasons of refusals, to be counted."""
        if self.network_record is not None and self.network_record not in message.controls:
            self._last_sent.pop(peer, None)  # it lacks what we hold: at the next tick
        refused = []
        # Bounded work for one message, whatever a neighbour sends.
        for control in message.controls[: MOST_STEPS + 1]:
            if (problem := self.accept_control(control, now)) is not None:
                refused.append(problem)
                if problem == SIGNATURE_INVALID:
                    break  # whoever forges one makes us work for nothing
        return refused

    def tick(self, neighbours: Iterable[str], now: float) -> list[tuple[str, ControlMessage]]:
        """Return the messages that are due: new records at once, all records from time to time."""
        if not self.version:
            return []
        due = [peer for peer in neighbours if self._is_due(peer, now)]
        if not due:
            return []
        self._last_sent.update(dict.fromkeys(due, (now, self.network_record)))
        message = self.make_message()
        return [(peer, message) for peer in due]

    def make_message(self) -> ControlMessage:
        """Build a message of the network's record and the version steps to it."""
        records = self._steps.next_batch()
        if self.network_record is not None and self.network_record not in records:
            records.append(self.network_record)
        return ControlMessage(tuple(sorted(records, key=lambda record: record.rank)))

    @property
    def has_effect(self) -> bool:
        """Whether any arm is pinned or paused."""
        return any(
            record is not None and (record.pinned or record.paused)
            for record in self._active_records()
        )

    def filter_arms(self, arms: Sequence[str], requested: Sequence[str] | None) -> list[str]:
        """Return the arms that may be played, of those requested (None: all); Conflict if none."""
        candidates = list(arms if requested is None else requested)
        if not self.has_effect or not candidates or not set(candidates) <= set(arms):
            return candidates  # what is wrong with it is for the agent to say
        pinned = self._pinned_arm(arms)
        paused = self._paused_arms(arms)
        playable = [arm for arm in candidates if arm not in paused and pinned in (None, arm)]
        if not playable:
            raise Conflict(f"no arm is left to play: {self.describe(arms)}")
        return playable

    def describe(self, arms: Sequence[str]) -> str:
        """Describe what is pinned and paused in one sentence."""
        pinned = self._pinned_arm(arms)
        paused = self._paused_arms(arms)
        parts = (
            []
            if pinned is None
            else [f"{pinned!r} is pinned {self._describe_source(pinned, True)}"]
        )
        parts += [f"{arm!r} is paused {self._describe_source(arm, False)}" for arm in paused[:5]]
        if len(paused) > 5:
            parts.append(f"and {len(paused) - 5} more are paused")
        if forgotten := sorted(self.forgotten_agents()):
            were = "is" if len(forgotten) == 1 else "are"
            parts.append(f"{list_names(forgotten)} {were} forgotten")
        return ", ".join(parts) or "no arm is pinned or paused"

    def active_settings(self) -> dict[tuple[str, str], str]:
        """Return what records set, also of unknown arms: ("pin" or "pause", arm) and its source.

        It is valid before `configure_operators` is called, so that a start changes nothing.
        """
        network_record = self._stored_record
        local_record = self._local_record
        records = (
            []
            if network_record is None
            else [(network_record, f"in the whole network by {network_record.signer}")]
        )
        records += [] if local_record is None else [(local_record, "at this agent alone")]
        pins = [(("pin", record.pinned), source) for record, source in records if record.pinned]
        pauses = {("pause", arm): source for record, source in records for arm in record.paused}
        forgotten = {
            ("forget", agent): source for record, source in records for agent, _ in record.forgotten
        }
        # Only one pin can act; the local one is last and goes before the network's.
        return dict(pins[-1:]) | pauses | forgotten

    def records(self) -> tuple[Control | None, Control | None]:
        """Return the stored record of the network and the local one."""
        return self._stored_record, self._local_record

    def describe_status(self, arms: Sequence[str]) -> ControlsAnswer:
        """Return what is pinned and paused here, and the records behind it."""
        return {
            "pinned": self._pinned_arm(arms),
            "paused": self._paused_arms(arms),
            "unknown": sorted(
                set(self._named_arms()) - set(arms)
            ),  # named, but no arms here: they do nothing
            "operator": self.is_operator,
            "network": _describe_record(self.network_record),
            "here": _describe_record(self._local_record),
        }

    def state(self) -> bytes:
        """Return the state that must be on disk before it is acknowledged or sent."""
        network_record, local_record = (
            record and record.to_plain() for record in (self._stored_record, self._local_record)
        )
        return json.dumps(
            {"held": network_record, "here": local_record, "steps": self._steps.to_plain()}
        ).encode()

    def restore(self, state: bytes | None) -> None:
        """Return to a state; None: to no records."""
        data = {"held": None, "here": None, "steps": []} if state is None else json.loads(state)
        self._stored_record, self._local_record = (
            data[name] and Control.from_plain(data[name]) for name in ("held", "here")
        )
        self._steps.restore(data["steps"])
        self._renew_signatures()

    def _renew_signatures(self) -> None:
        """Sign own records with today's certificate, so that other agents accept them later on."""
        if self.is_operator:
            self._steps.map_records(self._sign_own)
            self._stored_record = self._stored_record and self._sign_own(self._stored_record)

    def _sign_own(self, control: Control) -> Control:
        if control.signer != self.agent or self._sign is None:
            return control
        return replace(control, signature=self._sign(control.content))

    def _next_version(self, by: str, reason: str) -> Control:
        """Return the record that a command starts from, as the next version."""
        for name, text, longest in (("by", by, LONGEST_NAME), ("reason", reason, LONGEST_REASON)):
            if not is_note(text, longest):
                raise ValueError(f"{name} must be one line of at most {longest} characters")
        last = self.network_record if self.is_operator else self._local_record
        version = (self.version if self.is_operator else last.version if last else 0) + 1
        fresh = Control(self.network, self.experiment, version, self.agent, by=by, reason=reason)
        if last is None:
            return fresh
        return replace(fresh, pinned=last.pinned, paused=last.paused, forgotten=last.forgotten)

    def _apply_command(self, control: Control) -> Control:
        if not self.is_operator:
            self._local_record = control
            self._log_change(
                f"{self.describe(self._named_arms())}{control.note} "
                f"(version {control.version} of this agent)"
            )
            return control
        record = self.network_record
        if (
            record is not None
            and (record.signer, record.settings) == (control.signer, control.settings)
            and self._local_record is None
        ):
            return record  # a repeated request
        if not self._steps.within_reach(control.version):
            raise Conflict(
                f"controls reached version {self.version}, the highest: start a new experiment"
            )
        # A command of an operator replaces what was set at this agent alone.
        self._local_record = None
        control = self._sign_own(control)
        self._steps.add_version(control)
        self._adopt_record(control)
        return control

    def _adopt_record(self, control: Control) -> None:
        is_renewal = self.network_record is not None and self.network_record.rank == control.rank
        self._stored_record = control
        self._steps.map_records(lambda record: control if record.rank == control.rank else record)
        if not is_renewal:
            sentence = self.describe(self._named_arms())  # whatever the arms here
            version = f"(version {control.version} of {control.signer})"
            self._log_change(f"{sentence}{control.note} {version}")

    def _ends_before(self, end: float) -> bool:
        """Whether the certificate behind the present record ends before this time."""
        record = self.network_record
        vouch = self._vouch
        assert record is not None
        assert vouch is not None
        valid = vouch(record.signer, record.content, record.signature)
        return valid is None or valid[1] < end

    def _is_due(self, peer: str, now: float) -> bool:
        when, last_record = self._last_sent.get(peer, (float("-inf"), None))
        return (
            last_record != self.network_record or not 0 <= now - when < REPEAT_SECONDS
        )  # a clock may go back

    def _active_records(self) -> tuple[Control | None, Control | None]:
        return self._local_record, self.network_record

    def _pinned_arm(self, arms: Sequence[str]) -> str | None:
        """Return the arm that is pinned here; a pin of an unknown arm does nothing."""
        return next(
            (
                record.pinned
                for record in self._active_records()
                if record and record.pinned in arms
            ),
            None,
        )

    def _paused_arms(self, arms: Sequence[str]) -> list[str]:
        paused = {arm for record in self._active_records() if record for arm in record.paused}
        return [arm for arm in arms if arm in paused]

    def _describe_source(self, arm: str, pinned: bool) -> str:
        """Describe where the record comes from that pins or pauses an arm."""
        local_record, network_record = self._active_records()
        if local_record is not None and (
            local_record.pinned == arm if pinned else arm in local_record.paused
        ):
            return "at this agent alone"
        assert network_record is not None
        return f"in the whole network by {network_record.signer}"

    def _log_change(self, sentence: str) -> None:
        log.warning("%s", sentence, extra={"experiment": self.experiment})

    def _named_arms(self) -> list[str]:
        """Return the arms named by the records, known here or not."""
        names = [
            arm
            for record in self._active_records()
            if record
            for arm in (record.pinned, *record.paused)
        ]
        return [arm for arm in dict.fromkeys(names) if arm]


def _check_arm(arm: str, arms: Sequence[str]) -> None:
    if arm not in arms:
        raise Conflict(f"unknown arm {arm!r}: the arms here are {', '.join(map(repr, arms[:20]))}")


def _describe_record(control: Control | None) -> ControlAnswer | None:
    if control is None:
        return None
    return {
        "version": control.version,
        "signer": control.signer,
        "pinned": control.pinned or None,
        "paused": list(control.paused),
        "forgotten": [agent for agent, _ in control.forgotten],
        "by": control.by,
        "reason": control.reason,
    }
