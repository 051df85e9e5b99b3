"""The room that others' entries may take, and the pulls that one origin can have made."""

from __future__ import annotations

from dataclasses import dataclass

from posse.live.exchange.books import Absorbed, Books
from posse.live.exchange.messages import Entry
from posse.live.exchange.origin_checks import RateCap
from posse.live.exchange.quanta import PER_UNIT

LARGEST_ORIGIN = 2_000_000  # bytes that the entries of one origin may take, however many


@dataclass(frozen=True)
class Rooms:
    """Limits on what is held: a stranger can neither fill the memory nor take another's place."""

    most_entries: int
    rate_cap: RateCap | None

    def problem(self, books: Books, entry: Entry, now: float) -> str | None:
        """Why there is no room for an entry beside those that are held."""
        origin = entry.origin
        if self.rate_cap is not None:
            by = Absorbed.by([*books.of(origin), entry])
            others = (e for e in books.of(origin) if e.key != entry.key)
            counting = (e for e in others if not by.holds(e.incarnation))
            pulls = _pulls(entry) + sum(map(_pulls, counting))
            most = self.rate_cap.pulls(now) * PER_UNIT
            if pulls > (
                2 * most if books.fading else most
            ):  # late in an epoch a pull weighs up to 2
                return "rate_cap_exceeded"
        new = entry.key not in books.entries
        if new and len(books.entries) >= self.most_entries and not entry.folded:
            return "too_many_entries"
        if books.sizes[origin] + entry.size - books.freed_by(entry) > LARGEST_ORIGIN:
            return "too_many_entries_of_origin"
        return None


def _pulls(entry: Entry) -> int:
    return sum(values[-1] for values in entry.evidence.values())
