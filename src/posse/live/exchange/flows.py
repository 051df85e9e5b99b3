"""Flows: Algorithm 1 as asynchronous gossip; each exchange is one doubly stochastic pairwise step.

Each end of an edge keeps a record (version, flow): what has flowed out over it since ever.  An
agent's level e = x - sum of flows estimates the network's average evidence; its belief adds N e.
The end with the smaller identity owns the record and alone changes it, by one version at a time
and only when it knows that the other end, the mirror, holds the last one.  The rules:

1. A message no newer than the last of its boot is dropped: the ledger would bear it, but it would
   be answered again, and turn back what is known of its sender.
2. A message of a process that does not know this one (`echo`), or is not known to be alive
   (`flow_records`), is answered with our record; nothing else of it is used.  A message need not
   name the identity it is for: the boot it echoes is that of one process only.
3. A newer version is adopted, with the opposite flow.
4. The owner that sees another flow under its version raises the version and keeps its flow: two
   backups of different pasts can meet like this.  (This, too, on removed edges.)
5. The owner that sees its own version, both ends active and a credit left, spends it:
   d = (own level - other level) / (1 + larger degree) flows, under the next version.
6. A tick gives each active edge one credit, so that there is one step a tick however fast the
   link.  It sends on active edges and, to whom a name stands for now, wherever the other end is
   not known to hold the same version; now and then to all of these, for a disk may have rolled
   back to before the edge.
7. A sender that does not know whether the other end holds its version says so (`settled`), and is
   answered.  Acknowledgements, and a mirror's answer to an owner whose disk has rolled back, are
   nothing but this.
8. Removing an edge only makes it inactive; its record stays, and is resumed.
9. A process that is told of messages it never sent, or of a version that cannot be, may be a memory
   snapshot put back: it goes on under a new boot, as after a restart.
10. With a half-life all numbers are of an epoch (`half_life`), which a message names. Of two ends
   the older numbers are halved when they meet; halving is odd, so that both ends stay opposite.

An identity that never returns takes with it its share of the evidence and the last step of its
edges, if that was not settled; a disk that rolls back loses what its own agent observed since.
Nothing else that can happen to messages, processes or edges loses or invents any.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from posse.live.exchange.flow_records import (
    IDENTITIES_A_TICK,
    Census,
    FlowRecords,
    Peer,
    Record,
    in_epoch,
)
from posse.live.exchange.interface import ExchangeBase, NeighbourStatus, Outgoing
from posse.live.exchange.message_validation import FlowChecks
from posse.live.exchange.messages import FlowsMessage
from posse.live.ledger import (
    AHEAD,
    Cell,
    Ledger,
    divide_toward_zero,
    map_values,
    minus,
    negative,
    plain,
    plus,
)

REMIND_EVERY = 10  # ticks


class Flows(ExchangeBase):
    """The exchange of averages over acknowledged edge flows."""

    def __init__(
        self,
        *,
        network_size: int | None = None,  # None: N is the number of identities ever seen
        most_pulls: int = 2**40,  # of the whole network, ever
        **options: Any,  # of every exchange
    ) -> None:
        """A new identity, no evidence."""
        super().__init__(**options)
        self._network_size = network_size
        self._checks = FlowChecks(self.fingerprint, self._bounds, most_pulls)
        self._records = FlowRecords(self._bounds, self._epochs)
        self._active: set[str] = set()  # names
        self._census = Census([self.identity])
        self._ticks = 0
        self._start_boot()
        self._sizes = 0  # how often N changed

    # ---- evidence

    @property
    def revision(self) -> int:
        """A number that rises whenever the evidence changes."""
        return self._records.revision + self._sizes

    def observe(
        self, arm: str, statistic: Sequence[int], incarnation: int = 0, at: float | None = None
    ) -> None:
        """Add own evidence, weighed by the time of its decision."""
        values = self._bounds.check_observation(arm, statistic)
        if self._epochs.fading:
            self._records.follow_time()
            values = self._epochs.weigh_values(values, at, self._records.epoch, self._bounds)
        if self._records.has_room(arm, values):
            self._records.observe(arm, values)
        else:  # no message could carry it; by then there is enough to know this arm by
            self.refusals["evidence_full"] += 1

    def evidence(self) -> Ledger:
        """N times the level: an estimate of the whole network's evidence."""
        size = self.network_size()
        return map_values(self._read_ledger(self._records.level), lambda value: size * value)

    def network_size(self) -> int:
        """N, as given or as counted."""
        return self._network_size or len(self._census.known)

    def own(self) -> Ledger:
        """Return all own evidence, for its present worth."""
        return self._read_ledger(self._records.own)

    def _read_ledger(self, ledger: Ledger) -> Ledger:
        return self._epochs.read_ledger({self._records.epoch: ledger})

    def level(self) -> Ledger:
        """The estimate of the network's average evidence, not clipped, of the present epoch."""
        return dict(self._records.level)

    def records(self) -> dict[str, tuple[int, Ledger]]:
        """By identity, the version and what has flowed out on that edge."""
        return {peer: (r.version, dict(r.flow)) for peer, r in self._records.by_identity.items()}

    def known(self) -> frozenset[str]:
        """Return all identities ever seen, at most 1000."""
        return frozenset(self._census.known)

    # ---- neighbours

    def connect(self, peer: str) -> None:
        """Begin, or resume, the edge to this name."""
        self._active.add(peer)

    def disconnect(self, peer: str) -> None:
        """Make the edge inactive; its record stays."""
        self._active.discard(peer)

    def neighbours(self) -> dict[str, NeighbourStatus]:
        """Every edge ever used, with the versions the neighbour is behind."""
        statuses = {}
        present = self._records.present_identities()
        for name in sorted(self._active | present.keys()):
            identity = present.get(name)
            peer = self._peers.get(identity or "", Peer())
            version = self._records.by_identity[identity].version if identity else 0
            lag = None if peer.version is None else version - peer.version
            active = name in self._active
            statuses[name] = NeighbourStatus(identity, active, peer.last_heard, lag)
        return statuses

    def tick(self, now: float) -> Outgoing:
        """One credit an active edge; ask where the other end may not hold our version."""
        self._records.follow_time(now)
        present = self._records.present_identities()
        outgoing: Outgoing = [
            (name, self._make_message("")) for name in sorted(self._active - present.keys())
        ]
        self._ticks += 1
        remind = self._ticks % REMIND_EVERY == 0
        for name, identity in present.items():
            if name in self._active:
                self._find_peer(identity).credit = True
            self._find_peer(identity).learned = 0
            # Rule 6: all edges now and then, for a disk may have rolled back to before the edge.
            if name in self._active or remind or not self._is_settled(identity):
                outgoing.append((name, self._make_message(identity)))
        return outgoing

    def receive(self, peer: str, message: object, now: float) -> Outgoing:
        """Rules 1 to 5 and 7."""
        if not isinstance(message, FlowsMessage):
            return self._count_refusal("exchange_mismatch")
        if problem := self._find_problem(peer, message):
            return self._count_refusal(problem)
        self._records.follow_time(now)
        if self._epochs.is_ahead(message.epoch):
            return self._count_refusal(AHEAD)
        src = message.src
        # Rule 9: the peer received messages that this process never sent: a memory snapshot.
        if message.echo == self._boot and message.heard > self._seq:
            self._restart_boot()
        sender = self._find_peer(src)
        # Rule 1 (deduplication): repeated and overtaken messages.
        if sender.is_repeated(message.boot, message.seq):
            return []
        sender.note_message(message.boot, message.seq, self._seq)
        record = self._records.find_record(src, peer)
        # Rule 2: a process that does not know this one, or may be dead, gets our record only.
        if not (message.echo == self._boot and sender.is_alive(message.heard)):
            return [(peer, self._make_message(src))]
        self._records.fade_to(message.epoch)
        message = in_epoch(message, self._records.epoch)
        owner = self.identity < src
        leads = message.version - record.version
        if sender.version is not None and leads > (0 if owner else 1):
            self._restart_boot()
            return self._count_refusal("impossible_version")
        # Rule 3: a newer version is adopted with the opposite flow; both ends of an edge cancel.
        flow = negative(message.flow)
        # With a margin: what we observe later must not have all others refuse us for what one said.
        if leads > 0 and not self._checks.is_possible(
            self._records.level_with(record, flow), margin=2
        ):
            return self._count_refusal("evidence_exceeds_network")
        self._records.make_present(src)
        sender.last_heard = now
        learned = self._census.add_identities(
            (src, *message.known), IDENTITIES_A_TICK - sender.learned
        )
        sender.learned += learned
        self._sizes += learned
        if leads > 0:
            self._records.set_record(src, message.version, flow)
        sender.version = message.version
        if owner and leads == 0 and self._advance_record(record, sender, message):
            return [(peer, self._make_message(src))]
        # Rule 7: answer only a sender that does not know whether we have its version.
        return [] if message.settled else [(peer, self._make_message(src))]

    def _find_problem(self, peer: str, message: FlowsMessage) -> str | None:
        if problem := self._checks.find_problem(message):
            return problem
        if message.src == self.identity:
            return "own_identity"
        return self._records.find_problem(peer, message.src)

    def _count_refusal(self, reason: str) -> Outgoing:
        self.refusals[reason] += 1
        return []

    def _advance_record(self, record: Record, sender: Peer, message: FlowsMessage) -> bool:
        """Advance as the owner when the mirror has its version: repair a fork, or let flow."""
        # Rule 4: two flows under one version, a fork of two backups. The owner keeps its own.
        if plus(record.flow, message.flow):
            self._records.set_record(message.src, record.version + 1, record.flow)
            return True
        if not (sender.credit and message.active and record.name in self._active):
            return False
        sender.credit = False
        # Rule 5: Metropolis weights, doubly stochastic whatever the degrees.
        share = 1 + max(self._own_degree(), message.degree)
        gap = minus(self._records.level, message.level)
        step = map_values(gap, lambda value: divide_toward_zero(value, share))
        flow = plus(record.flow, step)
        if not (step and self._checks.is_possible(flow)):  # the other end would refuse it
            return False
        self._records.set_record(message.src, record.version + 1, flow)
        return True

    def _make_message(self, dst: str) -> FlowsMessage:
        """Build the record of the edge to an identity, or a greeting to an unknown one ("")."""
        self._seq += 1
        record = self._records.by_identity.get(dst, Record("", 0))
        echo, heard = self._find_peer(dst).echo() if dst else (0, 0)
        return FlowsMessage(
            fingerprint=self.fingerprint,
            src=self.identity,
            boot=self._boot,
            echo=echo,
            heard=heard,
            seq=self._seq,
            settled=bool(dst) and self._is_settled(dst),
            active=record.name in self._active,
            degree=self._own_degree(),
            version=record.version,
            flow=record.flow,
            level=self._records.level,
            known=self._census.next_batch(),
            epoch=self._records.epoch,
        )

    def _own_degree(self) -> int:
        return max(1, len(self._active))

    def _find_peer(self, identity: str) -> Peer:
        return self._peers.setdefault(identity, Peer())

    def _is_settled(self, identity: str) -> bool:
        return self._find_peer(identity).version == self._records.by_identity[identity].version

    def _start_boot(self) -> None:
        """Start a new boot: what peers have received of it is not known yet."""
        self._boot = 1 + self._draw(62)  # 0 means none
        self._seq = 0
        self._peers: dict[str, Peer] = {}
        self._boot_started = self._ticks

    def _restart_boot(self) -> None:
        """Start a new boot, but seldom: a liar must not prevent agreement for ever."""
        if self._ticks - self._boot_started >= REMIND_EVERY:
            self._start_boot()

    # ---- durable state

    def rollback(self) -> None:
        """Return to the last commit: nothing that came later was sent."""
        self.restore(self._saved)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue with a new boot; a stop need not be clean, for the other ends know the flows."""
        self.identity = state["identity"]
        self._records.restore(state)
        self._records.revision += 1
        self._active = set(state["active"])
        self._census = Census([self.identity, *state["known"]])
        self._written = self._saved = self._small_parts()

    def _small_parts(self) -> dict[str, Any]:
        parts = {
            "identity": self.identity,
            "own": plain(self._records.own),
            "active": sorted(self._active),
            "known": list(self._census.known),
            **self._records.parts,
        }
        return parts | ({"epoch": self._records.epoch} if self._epochs.fading else {})

    # ---- what only origins know: whose evidence it is

    def incarnation(self) -> int:
        """There are no incarnations."""
        return 0

    def begin_decision(self, arm: str, side_rows: Sequence[str] = ()) -> int:
        """Nothing is noted of a decision before it is observed."""
        return 0

    def is_superseded(self, incarnation: int) -> bool:
        """No other copy can have a decision."""
        return False

    def observe_side(self, name: str, cell: Sequence[int], incarnation: int = 0) -> None:
        """Refuse: there are no side rows."""
        raise ValueError("this exchange has no side rows: its sums are estimates")

    def side_cells(self, own: bool = False) -> dict[tuple[str, ...], Cell]:
        """There are no side rows."""
        return {}

    def warnings(self) -> list[str]:
        """There is nothing to say."""
        return []

    def by_origin(self) -> dict[str, Ledger]:
        """It is not known whose evidence it is."""
        return {}

    def pulls_by_origin(self) -> dict[str, int]:
        """It is not known whose pulls they are."""
        return {}

    def is_current(self) -> bool:
        """Neighbours announce nothing that could be lacking."""
        return True

    def examine(self, message: object) -> object:
        """No check is expensive."""
        return message

    def needs_compaction(self) -> bool:
        """Nothing is compacted."""
        return False

    def compact(self, open_incarnations: Collection[int]) -> None:
        """Nothing is compacted."""
