"""Dialects: in which versions of the wire format a neighbour is spoken to.

An agent that has not heard a neighbour yet says everything in both versions; each message may be
repeated, so that who understands both takes no harm. Who has said something in version 2 is spoken
to in version 2; after some seconds of nothing but version 1 in both again, for it may have gone
back to Posse 0.1. Who says nothing but version 1 for long has done so, and is spoken to in it; now
and then in both again, for it may have become newer while its words were lost.
"""

from __future__ import annotations

from dataclasses import dataclass

SOON = 5.0  # seconds of nothing but version 1, after version 2
LONG = 60.0  # seconds of nothing but version 1
AGAIN = 600.0  # seconds after which both are tried once more, for a time of LONG


@dataclass
class _Heard:
    newer: float | None = None  # when version 2 was last heard
    older: float | None = None  # when version 1 was last heard
    only_older: float | None = None  # since when nothing else


class Dialects:
    """The versions that neighbours were heard to speak; volatile, for a new process asks again."""

    def __init__(self) -> None:
        self._heard: dict[str, _Heard] = {}

    def heard(self, peer: str, version: int, now: float) -> None:
        """Note the version of a message that could be decoded."""
        heard = self._heard.setdefault(peer, _Heard())
        if version == 1:
            heard.older = now
            # a newer Posse that has not heard us yet says version 1, too
            if heard.only_older is None or now < heard.only_older:
                heard.only_older = now
        else:
            heard.newer, heard.only_older = now, None

    def spoken_to(self, peer: str, now: float) -> tuple[int, ...]:
        """The versions to say a message in, one after the other."""
        heard = self._heard.get(peer)
        if heard is None or (heard.newer is None and heard.older is None):
            return (2, 1)
        if heard.only_older is None:
            return (2,)
        passed = max(0.0, now - heard.only_older)
        if passed >= LONG and passed % AGAIN >= LONG:
            return (1,)
        return (2, 1) if heard.newer is None or passed >= SOON else (2,)

    def shown(self, peer: str) -> int | None:
        """The newest version heard of late, for people; None before anything was heard."""
        heard = self._heard.get(peer)
        if heard is None:
            return None
        return 1 if heard.newer is None or self._went_back(heard) else 2

    @staticmethod
    def _went_back(heard: _Heard) -> bool:
        older, since = heard.older, heard.only_older
        return older is not None and since is not None and older - since >= LONG
