"""The expensive checks of a message, its signatures, which need no lock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from posse.live.exchange.layouts import signed_bytes
from posse.live.exchange.messages import Entry, OriginsMessage
from posse.live.exchange.origin_checks import OriginChecks

Sign = Callable[[bytes], bytes]  # content -> signature
Verify = Callable[[str, bytes, bytes], bool]  # origin, content, signature


@dataclass(frozen=True)
class Examined:
    """A message with those of its entries that are news and signed, and what was refused."""

    message: OriginsMessage
    news: tuple[Entry, ...]
    known: tuple[Entry, ...]  # well-formed, and no news to us
    refused: Counter[str]
    usable: bool = True  # whether the message is one of ours at all


@dataclass(frozen=True)
class Examiner:
    """Looks at sizes and shapes first, at signatures last, and no longer than they are good.

    After a bad signature the rest of a message is dropped: a liar shall not make us work. Entries
    are looked at from anywhere on, so that a bad one does not keep others out for ever.
    """

    checks: OriginChecks
    verify: Verify | None
    network: str
    is_news: Callable[[Entry], bool]
    draw: Callable[[int], int]

    def examine(self, message: OriginsMessage) -> Examined:
        """Which entries can be taken in."""
        refused: Counter[str] = Counter()
        if problem := self.checks.problem(message):
            refused[problem] += 1
            return Examined(message, (), (), refused, usable=False)
        news: list[Entry] = []
        known: list[Entry] = []
        for entry in self._in_turns(message.entries):
            if problem := self.checks.entry_problem(entry):
                refused[problem] += 1
            elif not self.is_news(entry):
                known.append(entry)
            elif self._is_signed(entry):
                news.append(entry)
            else:
                refused["signature_invalid"] += 1
                break
        return Examined(message, tuple(news), tuple(known), refused)

    def _in_turns(self, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        if self.verify is None or len(entries) < 2:
            return entries
        first = self.draw(32) % len(entries)
        return (*entries[first:], *entries[:first])

    def _is_signed(self, entry: Entry) -> bool:
        """Whether its origin signed it, under our fingerprint."""
        if self.verify is None:
            return True
        content = signed_bytes(self.checks.fingerprint, entry, self.network)
        return self.verify(entry.origin, content, entry.signature)
