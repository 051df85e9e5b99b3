"""Verification of signatures with the time for which the signer's certificate is valid.

Entries stay true when their origin's certificate ends (`signatures.verifier`); an operator's
control must not be taken any more, so whoever takes one asks for how long the certificate is good.
"""

from __future__ import annotations

from collections.abc import Callable

from posse.live import certificates
from posse.live.certificates import Files

# who is said to have signed, what, and the signature -> the certificate's first and last second,
# or None: it did not sign this, or no authority of ours knows it
Vouch = Callable[[str, bytes, bytes], tuple[float, float] | None]

_LENGTH = 4  # bytes that say how long the certificate is, as signatures.signer writes them
_LONGEST = 4096


def voucher(files: Files) -> Vouch:
    """Check that an agent signed, and say from when to when its certificate is valid."""
    authorities = certificates.read_authorities(files.authority)

    def vouch(name: str, content: bytes, signature: bytes) -> tuple[float, float] | None:
        length = int.from_bytes(signature[:_LENGTH], "big")
        if not 0 < length <= _LONGEST:
            return None
        found = certificates.received(signature[_LENGTH : _LENGTH + length], authorities)
        if found is None or found[0] != name:
            return None
        if not certificates.verify(found[1], content, signature[_LENGTH + length :]):
            return None
        begin, end = found[1].not_valid_before_utc, found[1].not_valid_after_utc
        return begin.timestamp(), end.timestamp()

    return vouch
