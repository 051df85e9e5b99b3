"""A certificate authority, one certificate an agent, and the signatures of its key.

Keys are Ed25519: zenoh's TLS accepts them, and a signature is 64 bytes whatever it signs.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from posse import validation

AUTHORITY = "ca"
HOSTS = ("localhost", "127.0.0.1")
DAYS = 365
AUTHORITY_DAYS = 3650
CLOCK_TOLERANCE = timedelta(
    hours=1
)  # clocks differ: a new certificate must not be one of the future
MOST_CERTIFICATE_BYTES = (
    4096  # bytes of an agent's certificate, which goes along with every message
)

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_LABEL = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)", re.ASCII)


@dataclass(frozen=True)
class CertificateFiles:
    """The files of a certificate, its private key and the authority's certificate."""

    authority: Path
    certificate: Path
    key: Path

    @classmethod
    def in_folder(cls, folder: Path, name: str) -> CertificateFiles:
        """Return the files of an agent in a folder that `posse certs` wrote."""
        name = validate_name(name)
        return cls(folder / f"{AUTHORITY}.pem", folder / f"{name}.pem", folder / f"{name}.key")


def validate_name(name: str) -> str:
    """Return the name of an agent or a network, if it can be part of keys and file names."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"a name has 1 to 64 letters, digits, - or _, got {validation.format_value(name)}"
        )
    if name.lower() == AUTHORITY:  # some file systems take ca.pem and CA.pem for one file
        raise ValueError(f"the name {name!r} is reserved for the authority: choose another")
    return name


def create_authority(folder: Path, *, force: bool = False) -> CertificateFiles:
    """Write a new authority's certificate and key into a folder."""
    key = Ed25519PrivateKey.generate()
    # a name of its own, so that nobody takes one authority for another
    name = f"posse authority {secrets.token_hex(4)}"
    certificate = sign_certificate(name, key, name, key, timedelta(days=AUTHORITY_DAYS), None)
    files = CertificateFiles(*(folder / f"{AUTHORITY}.{end}" for end in ("pem", "pem", "key")))
    folder.mkdir(parents=True, exist_ok=True)
    write_pair(files, certificate, key, force)
    return files


def issue_certificate(
    folder: Path,
    name: str,
    hosts: Sequence[str] | None = None,
    *,
    days: int = DAYS,
    force: bool = False,
) -> CertificateFiles:
    """Write an agent's certificate and key, signed by the authority in the same folder.

    Without hosts it gets those of the certificate that it replaces, if any, else this machine's.
    """
    files = CertificateFiles.in_folder(folder, name)
    if hosts is None:
        renewed = force and files.certificate.exists()
        hosts = _read_hosts(read_certificate(files.certificate)) if renewed else HOSTS
    if days < 1:
        raise ValueError(f"a certificate must be valid for 1 day or more, got {days}")
    names = alternative_names(hosts)
    authority_key = folder / f"{AUTHORITY}.key"
    if not (files.authority.exists() and authority_key.exists()):
        raise ValueError(f"there is no authority in {folder}: run posse certs init first")
    check_private(authority_key)
    authority = read_certificate(files.authority)
    signer = read_key(authority_key)
    if authority.public_key() != signer.public_key():
        raise ValueError(f"{authority_key} is not the key of {files.authority}")
    # no chain is good for longer than its authority
    requested = timedelta(days=min(days, AUTHORITY_DAYS))
    lifetime = min(requested, authority.not_valid_after_utc - datetime.now(UTC))
    if lifetime <= timedelta(0):
        raise ValueError(f"{files.authority} has expired: run posse certs init --force")
    key = Ed25519PrivateKey.generate()
    certificate = sign_certificate(name, key, common_name(authority), signer, lifetime, names)
    # It goes along with every message, so that many hosts would cost bandwidth for ever.
    if len(encode_certificate(certificate)) > MOST_CERTIFICATE_BYTES:
        raise ValueError(
            f"a certificate has at most {MOST_CERTIFICATE_BYTES:,} bytes: give it fewer hosts"
        )
    write_pair(files, certificate, key, force)
    return files


def read_certificate(path: Path) -> x509.Certificate:
    """Read a certificate from a PEM file."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except ValueError:
        raise ValueError(f"{path} is not a certificate in PEM") from None


def read_authorities(path: Path) -> list[x509.Certificate]:
    """Read the authorities that are trusted: one, or while it is being replaced several."""
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())
    except ValueError:
        raise ValueError(f"{path} is not a certificate in PEM") from None


def read_key(path: Path) -> Ed25519PrivateKey:
    """Read a private key from a PEM file."""
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError(f"{path} is not a private key in PEM") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError(f"{path} is not an Ed25519 key, such as posse certs issue writes")
    return key


def common_name(certificate: x509.Certificate) -> str:
    """Return the name that a certificate is issued to."""
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if len(names) != 1:
        raise ValueError("a certificate must have exactly one common name")
    return str(names[0].value)


def is_valid_under(
    certificate: x509.Certificate, *authorities: x509.Certificate, now: datetime | None = None
) -> bool:
    """Whether an authority signed a certificate, and it is valid at a time (default: now)."""
    now = now or datetime.now(UTC)
    good = certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc
    return good and any(_is_issued_by(certificate, authority) for authority in authorities)


def _is_issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def check_files(name: str, files: CertificateFiles) -> None:
    """Refuse files that no neighbour would accept, here, where they can be corrected."""
    for path in (files.authority, files.certificate, files.key):
        if not path.exists():
            command = "init" if path == files.authority else f"issue {name}"
            raise ValueError(f"there is no file {path}: copy it here, or run posse certs {command}")
    check_private(files.key)
    certificate = read_certificate(files.certificate)
    again = f"run posse certs issue {name} --force"
    if common_name(certificate) != name:
        raise ValueError(f"{files.certificate} is not the certificate of {name}: {again}")
    now = datetime.now(UTC)
    if certificate.not_valid_after_utc < now:
        raise ValueError(f"{files.certificate} has expired: {again}")
    if certificate.not_valid_before_utc > now:
        raise ValueError(
            f"{files.certificate} is not valid before {certificate.not_valid_before_utc}, and here "
            f"it is {now:%Y-%m-%d %H:%M:%S%z}: set this machine's clock, or {again}"
        )
    if not is_valid_under(certificate, *read_authorities(files.authority)):
        raise ValueError(f"{files.authority} did not sign {files.certificate}: {again}")
    if read_key(files.key).public_key() != certificate.public_key():
        raise ValueError(f"{files.key} is not the key of {files.certificate}: {again}")
    if (size := len(encode_certificate(certificate))) > MOST_CERTIFICATE_BYTES:
        raise ValueError(
            f"{files.certificate} has {size:,} bytes, and neighbours accept "
            f"{MOST_CERTIFICATE_BYTES:,}: {again} with fewer hosts"
        )


def check_private(path: Path) -> None:
    """Refuse a secret that other users of this machine may read or write (POSIX only)."""
    if os.name == "posix" and (mode := path.stat().st_mode & 0o777) & 0o077:
        raise ValueError(
            f"{path} is open to other users of this machine (mode {mode:03o}): run chmod 600 {path}"
        )


def host_problem(certificate: x509.Certificate, listen: str) -> str | None:
    """Return why neighbours may refuse a certificate at the address where its agent listens.

    An address may have a name and a name an address, so only certain mismatches are reported.
    """
    hosts = _read_hosts(certificate)
    host = listen.rpartition(":")[0].strip("[]")
    local = [name for name in hosts if _is_local(name)]
    elsewhere = [name for name in hosts if not _is_local(name)]
    if host in hosts or (local if _is_local(host) else elsewhere):
        return None
    return (
        f"the certificate is for {', '.join(hosts)}, not for {listen}: neighbours that dial "
        "there will refuse it"
    )


def _is_local(host: str) -> bool:
    """Whether a host is this machine, as seen from itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def encode_certificate(certificate: x509.Certificate) -> bytes:
    """Return the bytes of a certificate as it is sent."""
    return certificate.public_bytes(Encoding.DER)


def decode_certificate(
    raw: bytes, authorities: Sequence[x509.Certificate]
) -> tuple[str, x509.Certificate] | None:
    """Return a received certificate and its name, even if it has expired since; else None."""
    try:
        certificate = x509.load_der_x509_certificate(raw)
        begin = certificate.not_valid_before_utc
        good = is_valid_under(certificate, *authorities, now=begin)
        return (common_name(certificate), certificate) if good else None
    except Exception:  # untrusted bytes: the parser raises many kinds of errors
        return None


def verify_signature(certificate: x509.Certificate, content: bytes, signature: bytes) -> bool:
    """Whether the holder of a certificate signed these bytes."""
    key = certificate.public_key()
    if not isinstance(key, Ed25519PublicKey):
        return False
    try:
        key.verify(signature, content)
    except InvalidSignature:
        return False
    return True


def _read_hosts(certificate: x509.Certificate) -> list[str]:
    """Return the hosts of an agent, as its certificate has them."""
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(name.value) for name in names]


def alternative_names(hosts: Iterable[str]) -> x509.SubjectAlternativeName:
    """Return the hosts of an agent, as IP addresses where they are such."""
    names: list[x509.GeneralName] = []
    for host in dict.fromkeys(hosts):
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            if len(host) > 253 or not all(map(_LABEL.fullmatch, host.split("."))):
                raise ValueError(
                    f"a host is a name or an address without a port, such as agent.example.org "
                    f"or 192.0.2.1, got {host!r}"
                ) from None
            names.append(x509.DNSName(host))
    if not names:
        raise ValueError("a certificate needs at least one host")
    return x509.SubjectAlternativeName(names)


def sign_certificate(
    name: str,
    key: Ed25519PrivateKey,
    issuer: str,
    signer: Ed25519PrivateKey,
    lifetime: timedelta,
    hosts: x509.SubjectAlternativeName | None,
) -> x509.Certificate:
    """Sign an agent's certificate, or without hosts an authority's own."""
    now = datetime.now(UTC)
    authority = hosts is None
    usage = x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    issued_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    builder = (
        x509.CertificateBuilder()
        .subject_name(_x509_name(name))
        .issuer_name(_x509_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, now + lifetime) - CLOCK_TOLERANCE)
        .not_valid_after(now + lifetime)
        # no certificate below an agent's, which could speak for others
        .add_extension(x509.BasicConstraints(authority, 0 if authority else None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(issued_by, critical=False)
    )
    if hosts is not None:
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(hosts, critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage(both), critical=False)
    return builder.sign(signer, None)


def _x509_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def write_pair(
    files: CertificateFiles, certificate: x509.Certificate, key: Ed25519PrivateKey, force: bool
) -> None:
    """Write a key and its certificate, both or neither."""
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    pair = {
        files.key: (private, 0o600),
        files.certificate: (certificate.public_bytes(Encoding.PEM), 0o644),
    }
    drafts: dict[Path, Path] = {}
    placed: list[Path] = []
    try:
        for path, (content, mode) in pair.items():
            if path.exists() and not force:
                raise ValueError(f"{path} exists: use --force to replace it")
            drafts[path] = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
            _write_new(drafts[path], content, mode)
        for path, draft in drafts.items():
            if force:
                os.replace(draft, path)
            else:
                os.link(draft, path)  # which, unlike a rename, never takes another's place
                # Remembered to be removed again if the second file fails: both files or neither.
                placed.append(path)
    except BaseException as error:
        _remove_files(placed)
        if isinstance(error, FileExistsError):  # made by another since we looked
            raise ValueError(f"{error.filename2} exists: use --force to replace it") from None
        raise
    finally:
        _remove_files(drafts.values())


def _write_new(path: Path, content: bytes, mode: int) -> None:
    """Write a new file that has this mode from its first byte."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _remove_files(paths: Iterable[Path]) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
