"""Weighted rendezvous hashing: the same visitor gets the same arm at every agent, without a centre.

Every arm of a visitor has a uniform number u in (0, 1), a hash of experiment, visitor and arm. The
arm with the smallest -ln(u) / p is played: an exponential race, in which arm k wins with
probability p_k over visitors. So the probability that is recorded is exact, and where
probabilities move, only those visitors change arms who must.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from math import log

from posse import validation

MAX_VISITOR_LENGTH = 200  # characters
_BITS = 53  # of a number: as many as a float has
_HASH_BYTES = 8
_ID_BYTES = 16


class VisitorHash:
    """Uniform numbers of the visitors of one experiment: BLAKE2b, keyed with the network's name.

    The key is no secret: a client that chooses its visitor id can choose its arm.
    """

    def __init__(self, network: str, experiment: str) -> None:
        key = network.encode()
        if len(key) > blake2b.MAX_KEY_SIZE:
            key = blake2b(key).digest()
        self._hash = blake2b(_encode_part(experiment), key=key, digest_size=_HASH_BYTES)
        self._id_hash = blake2b(_encode_part(experiment), key=key, digest_size=_ID_BYTES)

    def uniform(self, visitor: str, *parts: str) -> float:
        """Return a number in (0, 1) of a visitor and further texts, such as an arm."""
        hashed = self._hash.copy()
        hashed.update(b"".join(map(_encode_part, (visitor, *parts))))
        bits = int.from_bytes(hashed.digest()) >> (8 * _HASH_BYTES - _BITS)
        return max(bits, 1) / 2.0**_BITS  # never 0, which has no logarithm

    def make_id(self, visitor: str, *parts: str) -> str:
        """Return an id that is the same for the same visitor and further texts."""
        hashed = self._id_hash.copy()
        hashed.update(b"".join(map(_encode_part, (visitor, *parts))))
        return hashed.hexdigest()

    def choose_arm(self, visitor: str, names: Sequence[str], probabilities: Sequence[float]) -> int:
        """Return the place of the arm with the smallest -ln(u) / p, never one with p = 0."""
        scores = [
            (-log(self.uniform(visitor, name)) / p, place)
            for place, (name, p) in enumerate(zip(names, probabilities, strict=True))
            if p > 0
        ]
        return min(scores)[1]


def validate_visitor(visitor: object) -> str:
    """Return a visitor id that can be hashed and stored, or refuse it in one sentence."""
    if not isinstance(visitor, str) or not 0 < len(visitor) <= MAX_VISITOR_LENGTH:
        raise ValueError(
            f"visitor must be a text of 1 to {MAX_VISITOR_LENGTH} characters, "
            f"got {validation.format_value(visitor)}"
        )
    try:
        visitor.encode()
    except UnicodeEncodeError:
        raise ValueError(f"visitor must be valid Unicode, got {visitor!r}") from None
    return visitor


def _encode_part(text: str) -> bytes:
    """Encode a text after its length, so that no two lists of texts have the same bytes."""
    data = text.encode()
    return len(data).to_bytes(8) + data
