"""What tests on loopback need: addresses, patience, and certificates, even bad ones."""

import socket
import time

from posse.live.security import certificates
from posse.live.security.certificates import HOSTS, CertificateFiles

SOON = 40.0  # seconds, on a machine that does much else


def free_addresses(count):
    """Addresses that nobody listens on; all are held until the last is found."""
    sockets = [socket.socket() for _ in range(count)]
    for held in sockets:
        held.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{held.getsockname()[1]}" for held in sockets]
    for held in sockets:
        held.close()
    return addresses


def wait_until(true, message="it did not happen"):
    deadline = time.monotonic() + SOON
    while not true():
        assert time.monotonic() < deadline, message
        time.sleep(0.01)


def certified(folder, *names):
    """The folder, with an authority and a certificate for each name."""
    certificates.create_authority(folder)
    for name in names:
        certificates.issue_certificate(folder, name)
    return folder


def issue_for(folder, name, lifetime, file):
    """A certificate for a name under any file name; its lifetime may be seconds, or over."""
    authority = certificates.read_certificate(folder / "ca.pem")
    key = certificates.Ed25519PrivateKey.generate()
    certificate = certificates.sign_certificate(
        name,
        key,
        certificates.common_name(authority),
        certificates.read_key(folder / "ca.key"),
        lifetime,
        certificates.alternative_names(HOSTS),
    )
    files = CertificateFiles(folder / "ca.pem", folder / f"{file}.pem", folder / f"{file}.key")
    certificates.write_pair(files, certificate, key, force=True)
    return files
