"""The incarnation an agent observes into: sums that are cheap to change, an entry when needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import add

from posse.live.exchange.bounds import Bounds
from posse.live.exchange.epochs import shift_ledger
from posse.live.exchange.layouts import LAYOUT
from posse.live.exchange.ledger import LARGEST_SUM, MOST_ARMS, Ledger, dominates, minus, plus
from posse.live.exchange.messages import Entry, row_size

MOST_VERSIONS = 64  # remembered: all of late, fewer and fewer of long ago
MOST_SINCE = 10_000  # observations remembered one by one, from tick to tick
STRIDE_BITS = 16

Rows = Mapping[str, Sequence[int]]


@dataclass
class Version:
    """What may have been sent at a tick, and whether anybody said to hold it."""

    seq: int = 0
    evidence: Ledger = field(default_factory=dict)
    folded: dict[int, int] = field(default_factory=dict)
    late: Ledger = field(default_factory=dict)  # of its evidence that of decisions made before
    epoch: int = 0
    acknowledged: bool = False


class Current:
    """One's own present incarnation; volatile, for the books hold what was made of it."""

    def __init__(
        self,
        origin: str,
        incarnation: int,
        experiment: str,
        bounds: Bounds,
        largest: int,
        draw: Callable[[int], int],
        epoch: int = 0,
    ) -> None:
        self._bounds = bounds
        self.epoch = epoch
        self.origin = origin
        self.incarnation = incarnation
        self.experiment = experiment
        self.seq = 0
        self.sums: dict[str, list[int]] = {}
        self.folded: dict[int, int] = {}
        self.floor = 0
        self.dirty = False  # whether it has grown since its entry was made
        self._largest = largest
        self._size = 0
        self._draw = draw
        self._versions: list[Version] = []
        self._noted = False  # whether nothing was added since the last version
        self._since: list[tuple[str, tuple[int, ...], bool]] = []  # what was, in its order
        self._late: Ledger = {}  # what decisions added that were made before, here or in another

    @classmethod
    def resumed(
        cls, entry: Entry, bounds: Bounds, largest: int, draw: Callable[[int], int]
    ) -> Current:
        """Go on where an entry ends, in the process that made it."""
        made = entry.origin, entry.incarnation, entry.experiment, bounds, largest, draw
        current = cls(*made, entry.epoch)
        current.absorb(entry.evidence)
        current.seq = entry.seq
        current.folded = dict(entry.folded)
        current.floor = entry.floor
        current.dirty = False
        return current

    def has_room(self, arm: str, values: Sequence[int]) -> bool:
        """Whether it can take this in: over the years there may be many arms, and large sums."""
        row = self.sums.get(arm)
        if row is None:
            return len(self.sums) < MOST_ARMS and self._size <= self._largest
        # kept short: every reward comes here
        for mine, value in zip(row, values, strict=True):
            if not -LARGEST_SUM <= mine + value <= LARGEST_SUM:
                return False
        return True

    def has_room_for(self, ledger: Mapping[str, Sequence[int]]) -> bool:
        """Whether it can take in all of this."""
        new = [arm for arm in ledger if arm not in self.sums]
        size = self._size + sum(row_size(arm, len(ledger[arm])) for arm in new)
        return (
            len(self.sums) + len(new) <= MOST_ARMS
            and size <= self._largest
            and all(self.has_room(arm, values) for arm, values in ledger.items() if arm not in new)
        )

    def add(self, arm: str, values: Sequence[int], late: bool = False) -> None:
        """Take in one observation; `late`: of a decision that was made before."""
        row = self.sums.get(arm)
        if row is None:
            self.sums[arm] = list(values)
            self._size += row_size(arm, len(values))
        else:
            for nth, value in enumerate(values):
                row[nth] += value
        if len(self._since) < MOST_SINCE:
            self._since.append((arm, tuple(values), late))
        if late:
            held = self._late.get(arm)
            self._late[arm] = tuple(values if held is None else map(add, held, values))
        if self._noted:
            self._stride()
        self.seq += 1
        self.dirty = True

    def _stride(self) -> None:
        """Leave out some numbers, so that two futures of one process seldom use the same one."""
        if self._noted:
            self.seq += self._draw(STRIDE_BITS)
            self._noted = False

    def absorb(self, ledger: Mapping[str, Sequence[int]]) -> None:
        """Take in much at once."""
        for arm, values in ledger.items():
            self.add(arm, values)

    def fade(self, epoch: int) -> None:
        """Bring it, and all that it remembers, to a later epoch."""
        passed = epoch - self.epoch
        self.epoch = epoch
        later = partial(shift_ledger, epochs=passed, bounds=self._bounds)
        self._set(later(self.evidence()))
        self._late = shift_ledger(self._late, passed)
        self._since = [
            (arm, row, late)
            for arm, values, late in self._since
            for row in later({arm: values}).values()
        ]
        self._stride()

    def tidy(self) -> None:
        """Keep to the bounds, which a difference of rounded sums may leave by a few quanta."""
        self._set({arm: self._bounds.clip_values(row) for arm, row in self.sums.items()})

    def _set(self, sums: Rows) -> None:
        self.sums = {arm: list(row) for arm, row in sums.items() if any(row)}
        self._size = sum(row_size(arm, len(row)) for arm, row in self.sums.items())

    def evidence(self) -> Ledger:
        """Its sums."""
        return {arm: tuple(row) for arm, row in self.sums.items()}

    def entry(self) -> Entry:
        """What it is now, not signed yet: rewards come more often than ticks."""
        folded = tuple(sorted(self.folded.items()))
        return Entry(
            *(self.origin, self.incarnation, self.seq, self.evidence(), b""),
            *(LAYOUT, self.experiment, self.epoch, folded, self.floor),
        )

    def note_version(self) -> None:
        """Remember what may be sent now: if others know another future, it is where we parted."""
        if not self._versions or self._versions[-1].seq < self.seq:
            self._versions.append(Version(*self._said()))
            self._noted = True
            self._since = []
            if len(self._versions) > MOST_VERSIONS:
                half = MOST_VERSIONS // 2
                self._versions = self._versions[:half:2] + self._versions[half:]

    def note_acknowledged(self, seq: int) -> None:
        """Somebody holds a version of this number; if it is one of ours, it is this one."""
        for version in reversed(self._versions):
            if version.seq <= seq:
                version.acknowledged |= version.seq == seq
                return

    def take_versions(self, before: Current) -> None:
        """After a failed commit: what came later was never sent."""
        self._versions = [each for each in before._versions if each.seq <= self.seq]
        self._noted = bool(self._versions)
        if self._versions:
            self._late = dict(self._now(self._versions[-1]).late)

    @property
    def last_version(self) -> int:
        """The seq of the last version that may have been sent."""
        return self._versions[-1].seq if self._versions else 0

    def is_own_past(self, entry: Entry) -> bool:
        """Whether an entry of this incarnation is what this process said itself."""
        said = entry.evidence
        if self._bounds.rounded and entry.epoch != self.epoch:
            if entry.epoch > self.epoch:
                return False
            said = shift_ledger(said, self.epoch - entry.epoch, self._bounds)
        if entry.seq > self.last_version or not self._dominates(self.sums, said):
            return False
        same = [self._now(version) for version in self._versions if version.seq == entry.seq]
        return not same or same[0].evidence == said

    def parted_at(self, seq: int, theirs: Rows) -> Version:
        """The last version that another future of this incarnation, at a seq, has in it.

        Of those that somebody held, if there is one: others may only look as if.
        """
        common = [
            version
            for version in map(self._now, self._versions)
            if version.seq <= seq and self._dominates(theirs, version.evidence)
        ]
        held = [version for version in common if version.acknowledged]
        last = (held or common)[-1] if common else Version()
        if last.seq == self.last_version:
            # what was added before they parted is in both, and would be counted twice
            return self._common_with(theirs, last)
        return last

    def new_since(self, common: Version) -> Ledger:
        """What was added since another future parted, but not by decisions made before.

        The other one may have heard of those, too.
        """
        return minus(minus(self.evidence(), common.evidence), minus(self._late, common.late))

    def _common_with(self, theirs: Rows, last: Version) -> Version:
        """What was added since the last version, as far as another future has it as well."""
        common = {arm: list(values) for arm, values in last.evidence.items()}
        late = last.late
        for arm, values, is_late in self._since:
            before = common.get(arm)
            common[arm] = list(values if before is None else map(add, before, values))
            if not self._dominates(theirs, {arm: tuple(common[arm])}):
                if before is None:
                    del common[arm]
                else:
                    common[arm] = before
                break
            if is_late:
                late = plus(late, {arm: values})
        evidence = {arm: tuple(values) for arm, values in common.items()}
        return replace(last, evidence=evidence, late=late)

    def _now(self, version: Version) -> Version:
        """A version in numbers of the present epoch; kept as said, should a commit fail."""
        if not (passed := self.epoch - version.epoch):
            return version
        evidence = shift_ledger(version.evidence, passed, self._bounds)
        return replace(version, evidence=evidence, late=shift_ledger(version.late, passed))

    def _said(self) -> tuple[int, Ledger, dict[int, int], Ledger, int]:
        return self.seq, self.evidence(), dict(self.folded), dict(self._late), self.epoch

    def _dominates(self, one: Rows, other: Rows) -> bool:
        return dominates(one, other, self._bounds.counts)
