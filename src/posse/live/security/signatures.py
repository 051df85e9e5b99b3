"""Digital signatures of entries: relays pass them on, and nobody can forge another's.

A signature carries its signer's certificate, so that whoever trusts the authority can check it
without having met the signer.
"""

from __future__ import annotations

from collections.abc import Callable

from cryptography import x509

from posse.live.exchange.examine import Sign, Verify
from posse.live.security import certificates
from posse.live.security.certificates import Files

_LENGTH = 4  # bytes that say how long the certificate is
_LONGEST = 4096


def signer(files: Files) -> Sign:
    """Sign as the holder of a certificate."""
    key = certificates.read_key(files.key)
    certificate = certificates.encoded(certificates.read_certificate(files.certificate))
    head = len(certificate).to_bytes(_LENGTH, "big") + certificate
    return lambda content: head + key.sign(content)


def verifier(files: Files) -> Verify:
    """Check that the agent named as origin signed, and that the authority vouches for it.

    A certificate that has expired since still vouches for what was signed with it.
    """
    authorities = certificates.read_authorities(files.authority)
    known: dict[bytes, tuple[str, x509.Certificate]] = {}  # by their bytes: vouched for once

    def read(raw: bytes) -> tuple[str, x509.Certificate] | None:
        """The name that a certificate vouches for, and the certificate."""
        if raw not in known:
            found = certificates.received(raw, authorities)
            if found is None:
                return None
            if len(known) > 10_000:  # of honest agents there are not so many
                known.clear()
            known[raw] = found
        return known[raw]

    def verify(origin: str, content: bytes, signature: bytes) -> bool:
        length = int.from_bytes(signature[:_LENGTH], "big")
        if not 0 < length <= _LONGEST:
            return False
        found = read(signature[_LENGTH : _LENGTH + length])
        if found is None or found[0] != origin:
            return False
        return certificates.verify(found[1], content, signature[_LENGTH + length :])

    return verify


# Verification of signatures with the time for which the signer's certificate is valid.
#
# Entries stay true when their origin's certificate ends (`signatures.verifier`); an operator's
# control must not be taken any more, so whoever takes one asks for how long the certificate is
# good.

# who is said to have signed, what, and the signature -> the certificate's first and last second,
# or None: it did not sign this, or no authority of ours knows it
Vouch = Callable[[str, bytes, bytes], tuple[float, float] | None]


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
        begin = found[1].not_valid_before_utc
        end = found[1].not_valid_after_utc
        return begin.timestamp(), end.timestamp()

    return vouch
