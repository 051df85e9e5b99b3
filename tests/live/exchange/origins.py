"""An agent of origins, what others tell it, and a toy of signatures."""

import hashlib
from dataclasses import replace

from posse.live.exchange import Entry, Origins, OriginsMessage
from posse.live.exchange.evidence_sums import PER_UNIT
from tests.live.exchange.world import BOUNDS, FINGERPRINT

ONE = (PER_UNIT, PER_UNIT)


def agent(name="me", **options):
    return Origins(fingerprint=FINGERPRINT, bounds=BOUNDS, identity=name, **options)


def entry(origin="other", incarnation=1, seq=1, pulls=1, **changes):
    evidence = {"a": (0, pulls * PER_UNIT)}
    return replace(Entry(origin, incarnation, seq, evidence), **changes)


def message(*entries, holds=(), complete=False):
    return OriginsMessage(FINGERPRINT, entries, holds, complete)


def signatures(name):
    """A toy of signatures: a keyed hash, of which everyone knows every key."""

    def verify(origin, content, signature):
        return signature == hashlib.sha256(origin.encode() + content).digest()

    def sign(content):
        return hashlib.sha256(name.encode() + content).digest()

    return {"sign": sign, "verify": verify}
