"""Certificates: what they say, who may read the keys, and that nothing is lost or half written."""

import os
import stat
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509

from posse.live.security import certificates
from posse.live.security.certificates import CertificateFiles


@pytest.fixture
def folder(tmp_path):
    certificates.create_authority(tmp_path / "certs")
    return tmp_path / "certs"


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def alternatives(certificate):
    extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return [name.value for name in extension.value]


def test_an_agents_certificate(folder):
    files = certificates.issue_certificate(folder, "berlin-1_x")
    assert files == CertificateFiles.in_folder(folder, "berlin-1_x")
    certificate = certificates.read_certificate(files.certificate)
    authority = certificates.read_certificate(files.authority)
    assert certificates.common_name(certificate) == "berlin-1_x"
    assert alternatives(certificate) == ["localhost", ip_address("127.0.0.1")]
    assert certificates.is_valid_under(certificate, authority)
    left = certificate.not_valid_after_utc - datetime.now(UTC)
    assert timedelta(days=364) < left <= timedelta(days=365)
    # clocks differ: good an hour ago, too
    assert certificate.not_valid_before_utc < datetime.now(UTC) - timedelta(minutes=59)
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert not constraints.value.ca


def test_hosts_and_days(folder):
    hosts = ["agent.example.org", "192.0.2.7", "::1", "agent.example.org"]
    files = certificates.issue_certificate(folder, "a", hosts, days=3)
    certificate = certificates.read_certificate(files.certificate)
    expected = ["agent.example.org", ip_address("192.0.2.7"), ip_address("::1")]
    assert alternatives(certificate) == expected
    assert certificate.not_valid_after_utc < datetime.now(UTC) + timedelta(days=3)


def test_none_outlives_its_authority(folder):
    files = certificates.issue_certificate(folder, "a", days=100_000)
    certificate = certificates.read_certificate(files.certificate)
    authority = certificates.read_certificate(files.authority)
    assert certificate.not_valid_after_utc <= authority.not_valid_after_utc


@pytest.mark.parametrize("name", ["", "a b", "../a", "a/b", "ä", "a\n", "a" * 65, "*", "ca", "CA"])
def test_names_are_checked(folder, name):
    before = contents(folder)
    with pytest.raises(ValueError, match="name"):
        certificates.issue_certificate(folder, name)
    assert contents(folder) == before


@pytest.mark.parametrize("host", ["", "a:7447", "tls/a", "-a", "a..b", "a b", "ü.org", "x" * 300])
def test_hosts_are_checked(folder, host):
    with pytest.raises(ValueError, match="a host is a name or an address"):
        certificates.issue_certificate(folder, "a", [host])
    assert not CertificateFiles.in_folder(folder, "a").key.exists()


def test_no_hosts_or_days(folder):
    with pytest.raises(ValueError, match="at least one host"):
        certificates.issue_certificate(folder, "a", [])
    with pytest.raises(ValueError, match="1 day or more, got 0"):
        certificates.issue_certificate(folder, "a", days=0)


def test_no_authority(tmp_path):
    with pytest.raises(ValueError, match="run posse certs init first"):
        certificates.issue_certificate(tmp_path, "a")


def test_an_authority_with_anothers_key(folder, tmp_path):
    other = certificates.create_authority(tmp_path / "other")
    (folder / "ca.key").write_bytes(other.key.read_bytes())
    with pytest.raises(ValueError, match=r"ca\.key is not the key of"):
        certificates.issue_certificate(folder, "a")


@pytest.mark.parametrize("read", [certificates.read_key, certificates.read_certificate])
def test_files_that_are_something_else(tmp_path, read):
    (tmp_path / "x").write_text("hello")
    with pytest.raises(ValueError, match=r"x is not a .* in PEM"):
        read(tmp_path / "x")


@pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")
def test_only_the_owner_reads_keys_from_the_first_byte(folder, monkeypatch):
    modes = []
    write = certificates.os.fdopen

    def watch(descriptor, *arguments):
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return write(descriptor, *arguments)

    monkeypatch.setattr(certificates.os, "fdopen", watch)
    umask = os.umask(0)
    try:
        files = certificates.issue_certificate(folder, "a")
    finally:
        os.umask(umask)
    assert modes == [0o600, 0o644]
    assert stat.S_IMODE(files.key.stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / "ca.key").stat().st_mode) == 0o600


def test_nothing_is_replaced_unless_asked(folder):
    certificates.issue_certificate(folder, "a")
    before = contents(folder)
    for again in (certificates.create_authority, lambda f: certificates.issue_certificate(f, "a")):
        with pytest.raises(ValueError, match="exists: use --force to replace it"):
            again(folder)
    assert contents(folder) == before
    certificates.issue_certificate(folder, "a", force=True)
    after = contents(folder)
    assert after.keys() == before.keys()
    assert after["a.key"] != before["a.key"]
    assert stat.S_IMODE((folder / "a.key").stat().st_mode) & 0o077 == 0 or os.name == "nt"


@pytest.mark.parametrize("present", ["a.key", "a.pem"])
def test_half_a_pair_is_enough_to_refuse(folder, present):
    (folder / present).write_text("mine")
    before = contents(folder)
    with pytest.raises(ValueError, match=f"{present} exists"):
        certificates.issue_certificate(folder, "a")
    assert contents(folder) == before


@pytest.mark.parametrize("call", ["fsync", "link"])
@pytest.mark.parametrize("at", [1, 2])
def test_both_files_or_neither(folder, monkeypatch, call, at):
    before = contents(folder)
    real, calls = getattr(os, call), []

    def fails(*arguments):
        calls.append(arguments)
        if len(calls) == at:
            raise OSError(28, "No space left on device", "a.key")
        return real(*arguments)

    monkeypatch.setattr(certificates.os, call, fails)
    with pytest.raises(OSError, match="No space left"):
        certificates.issue_certificate(folder, "a")
    assert contents(folder) == before


def test_a_rival_that_writes_meanwhile_keeps_its_file(folder, monkeypatch):
    real = os.link

    def late(draft, path):
        path.write_text("rival")
        real(draft, path)

    monkeypatch.setattr(certificates.os, "link", late)
    with pytest.raises(ValueError, match=r"a\.key exists"):
        certificates.issue_certificate(folder, "a")
    assert contents(folder)["a.key"] == b"rival"
    assert contents(folder).keys() == {"ca.pem", "ca.key", "a.key"}


def test_signatures(folder):
    mine, other = (
        certificates.issue_certificate(folder, "a"),
        certificates.issue_certificate(folder, "b"),
    )
    key = certificates.read_key(mine.key)
    certificate = certificates.read_certificate(mine.certificate)
    signature = key.sign(b"seven pulls")
    assert len(signature) == 64
    assert certificates.verify_signature(certificate, b"seven pulls", signature)
    assert not certificates.verify_signature(certificate, b"eight pulls", signature)
    for forged in (b"", signature[:-1], signature + b"\0", bytes(64)):
        assert not certificates.verify_signature(certificate, b"seven pulls", forged)
    stranger = certificates.read_certificate(other.certificate)
    assert not certificates.verify_signature(stranger, b"seven pulls", signature)


def test_vouching(folder, tmp_path):
    certificate = certificates.read_certificate(
        certificates.issue_certificate(folder, "a").certificate
    )
    authority = certificates.read_certificate(folder / "ca.pem")
    other = certificates.read_certificate(
        certificates.create_authority(tmp_path / "other").authority
    )
    assert not certificates.is_valid_under(certificate, other)
    assert certificates.is_valid_under(certificate, other, authority)
    now = datetime.now(UTC)
    assert certificates.is_valid_under(certificate, authority, now=now + timedelta(days=364))
    assert not certificates.is_valid_under(certificate, authority, now=now + timedelta(days=366))
    assert not certificates.is_valid_under(certificate, authority, now=now - timedelta(days=1))
    # an agent's certificate signs for nobody
    assert not certificates.is_valid_under(certificate, certificate)


def test_an_authority_in_place_of_another(folder, tmp_path):
    """While one replaces the other both are in the file, and the second counts like the first."""
    new = certificates.create_authority(tmp_path / "new").authority
    both = tmp_path / "both.pem"
    both.write_bytes(new.read_bytes() + (folder / "ca.pem").read_bytes())
    assert len(certificates.read_authorities(both)) == 2
    for home in (folder, tmp_path / "new"):
        files = certificates.issue_certificate(home, "a", force=True)
        certificate = certificates.read_certificate(files.certificate)
        assert certificates.is_valid_under(certificate, *certificates.read_authorities(both))
    both.write_text("nothing")
    with pytest.raises(ValueError, match="is not a certificate in PEM"):
        certificates.read_authorities(both)


def test_renewed_without_hosts_it_keeps_those_it_had(tmp_path):
    certificates.create_authority(tmp_path)
    hosts = ["agent.example.org", "192.0.2.1", "2001:db8::1"]
    certificates.issue_certificate(tmp_path, "a", hosts)
    files = certificates.issue_certificate(tmp_path, "a", force=True)
    extensions = certificates.read_certificate(files.certificate).extensions
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == hosts


@pytest.mark.parametrize(
    ("hosts", "listen", "fits"),
    [
        (["localhost", "127.0.0.1"], "127.0.0.1:1", True),
        (["localhost"], "[::1]:1", True),
        (["localhost", "127.0.0.1"], "0.0.0.0:1", False),  # as posse new issues it
        (["localhost", "127.0.0.1"], "192.0.2.7:1", False),
        (["berlin.example.org"], "0.0.0.0:1", True),
        (["berlin.example.org"], "192.0.2.7:1", True),  # which may be its name
        (["berlin.example.org"], "localhost:1", False),
        (["192.0.2.7"], "192.0.2.7:1", True),
    ],
)
def test_whether_a_certificate_is_for_where_an_agent_listens(folder, hosts, listen, fits):
    files = certificates.issue_certificate(folder, "a", hosts)
    problem = certificates.host_problem(certificates.read_certificate(files.certificate), listen)
    assert (problem is None) == fits
    assert fits or listen in problem


def test_a_certificate_that_neighbours_would_not_take(folder):
    hosts = [f"agent-{number}.{'x' * 60}.example.org" for number in range(60)]
    with pytest.raises(ValueError, match="at most 4,096 bytes: give it fewer hosts"):
        certificates.issue_certificate(folder, "a", hosts)
    assert not CertificateFiles.in_folder(folder, "a").key.exists()


@pytest.mark.skipif(os.name != "posix", reason="no modes of files")
def test_an_authoritys_key_that_others_may_read_signs_nothing(folder):
    key = folder / "ca.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    key.chmod(0o644)
    with pytest.raises(ValueError, match=f"mode 644.*chmod 600 {key}"):
        certificates.issue_certificate(folder, "a")
