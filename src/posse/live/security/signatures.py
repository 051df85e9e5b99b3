"""Digital signatures of entries, controls and statuses: relays pass them on, nobody can forge them.

A signature carries its signer's certificate, so that every agent that trusts the authority can
verify it without having met the signer.
"""

from __future__ import annotations

from collections.abc import Callable

from cryptography import x509

from posse.live.exchange import Sign, Verify
from posse.live.security import certificates
from posse.live.security.certificates import CertificateFiles

_LENGTH = 4  # bytes that say how long the certificate is
_LONGEST = 4096


def make_signer(files: CertificateFiles) -> Sign:
    """Return a function that signs as the holder of a certificate."""
    key = certificates.read_key(files.key)
    certificate = certificates.encode_certificate(certificates.read_certificate(files.certificate))
    head = len(certificate).to_bytes(_LENGTH, "big") + certificate
    return lambda content: head + key.sign(content)


def make_verifier(files: CertificateFiles) -> Verify:
    """Return a function that checks that an origin signed, and that an authority trusts it.

    A certificate that has expired since is still valid for what was signed with it.
    """
    authorities = certificates.read_authorities(files.authority)
    trusted: dict[bytes, tuple[str, x509.Certificate]] = {}  # by their bytes: vouched for once

    def look_up(raw: bytes) -> tuple[str, x509.Certificate] | None:
        """The name that a certificate vouches for, and the certificate."""
        if raw not in trusted:
            certificate = certificates.decode_certificate(raw, authorities)
            if certificate is None:
                return None
            # Bounded memory: honest networks have far fewer certificates.
            if len(trusted) > 10_000:
                trusted.clear()
            trusted[raw] = certificate
        return trusted[raw]

    def verify(origin: str, content: bytes, signature: bytes) -> bool:
        length = int.from_bytes(signature[:_LENGTH], "big")
        if not 0 < length <= _LONGEST:
            return False
        certificate = look_up(signature[_LENGTH : _LENGTH + length])
        if certificate is None or certificate[0] != origin:
            return False
        return certificates.verify_signature(certificate[1], content, signature[_LENGTH + length :])

    return verify


# ---- Verification with the validity of the signer's certificate
#
# Entries stay true when their origin's certificate expires (`make_verifier`); an operator's control
# must then no longer be accepted, so its verification returns when the certificate is valid.

# (claimed signer, content, signature) -> first and last second of the certificate, or None: it did
# not sign this, or no trusted authority issued its certificate
Vouch = Callable[[str, bytes, bytes], tuple[float, float] | None]


def make_voucher(files: CertificateFiles) -> Vouch:
    """Return a function that verifies a signature and returns when its certificate is valid."""
    authorities = certificates.read_authorities(files.authority)

    def vouch(name: str, content: bytes, signature: bytes) -> tuple[float, float] | None:
        length = int.from_bytes(signature[:_LENGTH], "big")
        if not 0 < length <= _LONGEST:
            return None
        certificate = certificates.decode_certificate(
            signature[_LENGTH : _LENGTH + length], authorities
        )
        if certificate is None or certificate[0] != name:
            return None
        if not certificates.verify_signature(
            certificate[1], content, signature[_LENGTH + length :]
        ):
            return None
        begin = certificate[1].not_valid_before_utc
        end = certificate[1].not_valid_after_utc
        return begin.timestamp(), end.timestamp()

    return vouch
