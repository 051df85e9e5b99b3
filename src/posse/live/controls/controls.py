"""What a change of controls means, as events in sentences: what is pinned, paused, resumed."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from posse.live.controls.answers import ControlAnswer, ControlsAnswer
from posse.live.controls.records import MOST, Steps, is_control
from posse.live.controls.records import Control as Control
from posse.live.controls.records import ControlMessage as ControlMessage
from posse.live.exchange.origins import Sign
from posse.live.security.signatures import Vouch
from posse.live.store.records import Conflict
from posse.live.store.timeline import list_names

# ("pin" or "pause", arm): where that comes from, as `Controls.acting` says it
Acting = Mapping[tuple[str, str], str]
DONE = {"pin": "pinned", "pause": "paused"}


def changes(before: Acting, after: Acting) -> list[tuple[str, str]]:
    """Kinds and sentences: what holds now that did not, and what holds no longer.

    >>> changes({("pause", "red"): "here"}, {("pin", "blue"): "here"})
    [('pin', 'blue is pinned here'), ('resume', 'red is no longer paused')]
    """
    said: dict[tuple[str, str], list[str]] = {}  # arms of which the same is to be said
    for (kind, arm), whose in after.items():
        if before.get((kind, arm)) != whose:
            said.setdefault((kind, f"{DONE[kind]} {whose}"), []).append(arm)
    for kind, arm in before:
        if (kind, arm) not in after:
            said.setdefault(("resume", f"no longer {DONE[kind]}"), []).append(arm)
    return [
        (kind, f"{list_names(arms)} {'is' if len(arms) == 1 else 'are'} {what}")
        for (kind, what), arms in said.items()
    ]


# Controls of an experiment without I/O: which arm is pinned, which are paused, and by whom.
#
# Two records act together. The *network's* is signed by an agent named in `operators`, and of all
# that were ever made the one with the highest (version, signer) wins, so that agents agree
# whatever the order, repetition or loss of messages. The one made *here*, by an agent that is no
# operator (or has no certificate), is neither signed nor sent. A pin here goes before the
# network's pin, pauses add up, and a paused arm is never played, whoever pinned it.

FORGED = "a control with a bad signature"
REPEAT = 10.0  # seconds until a neighbour is told again what it was told

log = logging.getLogger(__name__)


class Controls:
    """The pins and pauses of one experiment at one agent.

    sign and vouch: as the holder of a certificate; without them controls stay here.
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
        self._record: Control | None = None  # the network's
        self._here: Control | None = None
        self._steps = Steps()  # to the highest version
        self._told: dict[str, tuple[float, Control | None]] = {}
        self.configure(operators, sign, vouch)

    def configure(self, operators: Iterable[str], sign: Sign | None, vouch: Vouch | None) -> None:
        """Take other settings; all that was signed by agents no longer named is gone."""
        self.operators = frozenset(operators)
        self._sign = sign
        self._vouch = vouch
        if self._record is not None and self._held is None:
            self._log(f"what {self._record.signer} set is lifted: it is no operator any more")
        self._record = self._held
        self._steps.keep(self.operators)
        self._sign_anew()

    @property
    def _held(self) -> Control | None:
        """The network's record, which acts while its signer is named as an operator."""
        record = self._record
        return record if record is not None and record.signer in self.operators else None

    @property
    def operator(self) -> bool:
        """Whether what is set at this agent holds in the whole network."""
        return self._sign is not None and self._vouch is not None and self.agent in self.operators

    @property
    def version(self) -> int:
        """The highest version known."""
        return self._steps.version

    def pin(self, arm: str, arms: Sequence[str]) -> Control:
        """Play this arm only, of those that are known here."""
        _known(arm, arms)
        if not self.operator and self._held is not None and arm in self._held.paused:
            raise Conflict(
                f"arm {arm!r} is paused in the whole network by {self._held.signer}, "
                "and can be resumed by an operator only"
            )
        return self._make(self._base().pinning(arm))

    def pause(self, arm: str, arms: Sequence[str]) -> Control:
        """Do not play this arm."""
        _known(arm, arms)
        return self._make(self._base().pausing(arm))

    def resume(self, arm: str | None, arms: Sequence[str]) -> Control:
        """Lift what holds for an arm, or for all (None): a new version, too."""
        if arm is not None:
            _known(arm, [*arms, *self._named()])  # one that is gone can still be lifted
        held = self._held
        if not self.operator and held is not None and arm in (held.pinned, *held.paused):
            raise Conflict(
                f"arm {arm!r} is pinned or paused in the whole network by {held.signer}, "
                "and can be resumed by an operator only"
            )
        return self._make(self._base().resuming(arm))

    def take(self, control: Control, now: float) -> str | None:
        """Take a record that came over the network; None, or why it is refused."""
        if not is_control(control):
            return "a malformed control"
        if control.network != self.network:
            return "a control of another network"
        if control.experiment != self.experiment:
            return "a control of another experiment"
        held = self._held
        if control == held:
            return None
        anew = held is not None and control.rank == held.rank  # signed once more
        if held is not None and control.rank < held.rank:
            return None  # older
        if control.signer not in self.operators or self._vouch is None:
            return "a control of an agent that is no operator here"
        if not self._steps.within_reach(control.version):
            return "a control too far ahead"
        valid = self._vouch(control.signer, control.content, control.signature)
        if valid is None:
            return FORGED
        self._steps.climb(control)
        begin, end = valid
        if not begin <= now <= end:
            return "a control whose certificate is not valid now"
        if not anew or self._ends_before(end):
            self._hold(control)
        return None

    def receive(self, peer: str, message: ControlMessage, now: float) -> list[str]:
        """Take a neighbour's records; the reasons of what was refused, to be counted."""
        if self._held is not None and self._held not in message.controls:
            self._told.pop(peer, None)  # it lacks what we hold: at the next tick
        refused = []
        for control in message.controls[: MOST + 1]:
            if (problem := self.take(control, now)) is not None:
                refused.append(problem)
                if problem == FORGED:
                    break  # whoever forges one makes us work for nothing
        return refused

    def tick(self, neighbours: Iterable[str], now: float) -> list[tuple[str, ControlMessage]]:
        """What is to be sent now: at once what is new, and from time to time all again."""
        if not self.version:
            return []
        due = [peer for peer in neighbours if self._due(peer, now)]
        if not due:
            return []
        self._told.update(dict.fromkeys(due, (now, self._held)))
        message = self.message()
        return [(peer, message) for peer in due]

    def message(self) -> ControlMessage:
        """What is held, and the steps to it."""
        chosen = self._steps.some()
        if self._held is not None and self._held not in chosen:
            chosen.append(self._held)
        return ControlMessage(tuple(sorted(chosen, key=lambda each: each.rank)))

    @property
    def acts(self) -> bool:
        """Whether anything at all is pinned or paused."""
        return any(each is not None and (each.pinned or each.paused) for each in self._both())

    def allowed(self, arms: Sequence[str], asked: Sequence[str] | None) -> list[str]:
        """Which arms may be played, of those asked for (None: all); a Conflict if none is left."""
        wanted = list(arms if asked is None else asked)
        if not self.acts or not wanted or not set(wanted) <= set(arms):
            return wanted  # what is wrong with it is for the agent to say
        pinned = self._pinned(arms)
        paused = self._paused(arms)
        left = [arm for arm in wanted if arm not in paused and pinned in (None, arm)]
        if not left:
            raise Conflict(f"no arm is left to play: {self.sentence(arms)}")
        return left

    def sentence(self, arms: Sequence[str]) -> str:
        """What holds here, in one sentence."""
        pinned = self._pinned(arms)
        paused = self._paused(arms)
        parts = [] if pinned is None else [f"{pinned!r} is pinned {self._whose(pinned, True)}"]
        parts += [f"{arm!r} is paused {self._whose(arm, False)}" for arm in paused[:5]]
        if len(paused) > 5:
            parts.append(f"and {len(paused) - 5} more are paused")
        return ", ".join(parts) or "no arm is pinned or paused"

    def acting(self) -> dict[tuple[str, str], str]:
        """What records set, of arms unknown here too: ("pin" or "pause", arm) and whose it is.

        Also before `configure` says who is an operator, so that a start changes nothing of it.
        """
        held = self._record
        here = self._here
        records = [] if held is None else [(held, f"in the whole network by {held.signer}")]
        records += [] if here is None else [(here, "at this agent alone")]
        pins = [(("pin", each.pinned), whose) for each, whose in records if each.pinned]
        pauses = {("pause", arm): whose for each, whose in records for arm in each.paused}
        return dict(pins[-1:]) | pauses  # a pin here goes before the network's

    def status(self, arms: Sequence[str]) -> ControlsAnswer:
        """What is shown: what acts here, and whose records it comes from."""
        return {
            "pinned": self._pinned(arms),
            "paused": self._paused(arms),
            "unknown": sorted(
                set(self._named()) - set(arms)
            ),  # named, but no arms here: they do nothing
            "operator": self.operator,
            "network": _shown(self._held),
            "here": _shown(self._here),
        }

    def state(self) -> bytes:
        """What must be on disk before it is acknowledged or sent."""
        held, here = (each and each.plain() for each in (self._record, self._here))
        return json.dumps({"held": held, "here": here, "steps": self._steps.plain()}).encode()

    def restore(self, state: bytes | None) -> None:
        """Go back to a state; None: to nothing at all."""
        data = {"held": None, "here": None, "steps": []} if state is None else json.loads(state)
        self._record, self._here = (
            data[name] and Control.from_plain(data[name]) for name in ("held", "here")
        )
        self._steps.restore(data["steps"])
        self._sign_anew()

    def _sign_anew(self) -> None:
        """Sign one's own records with the certificate of today, so that they are taken later on."""
        if self.operator:
            self._steps.change(self._signed)
            self._record = self._record and self._signed(self._record)

    def _signed(self, control: Control) -> Control:
        if control.signer != self.agent or self._sign is None:
            return control
        return replace(control, signature=self._sign(control.content))

    def _base(self) -> Control:
        """The record that a command starts from, as the next version."""
        last = self._held if self.operator else self._here
        version = (self.version if self.operator else last.version if last else 0) + 1
        fresh = Control(self.network, self.experiment, version, self.agent)
        return fresh if last is None else replace(fresh, pinned=last.pinned, paused=last.paused)

    def _make(self, control: Control) -> Control:
        if not self.operator:
            self._here = control
            self._log(f"{self.sentence(self._named())} (version {control.version} of this agent)")
            return control
        held = self._held
        if held is not None and held.rank[1:] == control.rank[1:] and self._here is None:
            return held  # a repeated request
        if not self._steps.within_reach(control.version):
            raise Conflict(f"there were {self.version} versions of this control, and no more fit")
        self._here = None  # an operator's word is the last one, here as well
        control = self._signed(control)
        self._steps.climb(control)
        self._hold(control)
        return control

    def _hold(self, control: Control) -> None:
        anew = self._held is not None and self._held.rank == control.rank
        self._record = control
        self._steps.change(lambda each: control if each.rank == control.rank else each)
        if not anew:
            said = self.sentence(self._named())  # whatever the arms here
            self._log(f"{said} (version {control.version} of {control.signer})")

    def _ends_before(self, end: float) -> bool:
        """Whether the certificate of the record held ends before this."""
        held = self._held
        vouch = self._vouch
        assert held is not None
        assert vouch is not None
        valid = vouch(held.signer, held.content, held.signature)
        return valid is None or valid[1] < end

    def _due(self, peer: str, now: float) -> bool:
        when, what = self._told.get(peer, (float("-inf"), None))
        return what != self._held or not 0 <= now - when < REPEAT  # a clock may go back

    def _both(self) -> tuple[Control | None, Control | None]:
        return self._here, self._held

    def _pinned(self, arms: Sequence[str]) -> str | None:
        """The arm that is pinned here; a pin of an arm unknown here does nothing."""
        return next((each.pinned for each in self._both() if each and each.pinned in arms), None)

    def _paused(self, arms: Sequence[str]) -> list[str]:
        paused = {arm for each in self._both() if each for arm in each.paused}
        return [arm for arm in arms if arm in paused]

    def _whose(self, arm: str, pinned: bool) -> str:
        """Where the record comes from that pins or pauses an arm."""
        here, held = self._both()
        if here is not None and (here.pinned == arm if pinned else arm in here.paused):
            return "at this agent alone"
        assert held is not None
        return f"in the whole network by {held.signer}"

    def _log(self, sentence: str) -> None:
        log.warning("%s", sentence, extra={"experiment": self.experiment})

    def _named(self) -> list[str]:
        """The arms of the records, known here or not."""
        named = [arm for each in self._both() if each for arm in (each.pinned, *each.paused)]
        return [arm for arm in dict.fromkeys(named) if arm]


def _known(arm: str, arms: Sequence[str]) -> None:
    if arm not in arms:
        raise Conflict(f"there is no arm {arm!r} here: there are {', '.join(map(repr, arms[:20]))}")


def _shown(control: Control | None) -> ControlAnswer | None:
    if control is None:
        return None
    return {
        "version": control.version,
        "signer": control.signer,
        "pinned": control.pinned or None,
        "paused": list(control.paused),
    }
