"""Signed entries: who signed is who the authority says, and a forged entry goes nowhere."""

import dataclasses
import json

import pytest

from posse import families
from posse.live.config.agent_settings import settings_from_data
from posse.live.exchange import Entry, OriginsMessage
from posse.live.exchange.messages import signed_bytes
from posse.live.security import certificates
from posse.live.security.certificates import CertificateFiles
from posse.live.security.signatures import make_signer, make_verifier
from tests.live.loopback import certified

SETTINGS = {"arms": ["red", "green"], "family": "bernoulli"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return certified(tmp_path_factory.mktemp("certs"), "berlin", "paris", "rome")


def agent(folder, name):
    files = CertificateFiles.in_folder(folder, name)
    settings = settings_from_data({"name": name, **SETTINGS})
    made = settings.make_agent(make_signer(files), make_verifier(files))
    for other in {"berlin", "paris", "rome"} - {name}:
        made.connect(other)
    return made


def test_only_the_signer_is_believed(folder, tmp_path):
    sign, verify = (
        make_signer(CertificateFiles.in_folder(folder, "berlin")),
        make_verifier(CertificateFiles.in_folder(folder, "paris")),
    )
    signature = sign(b"content")
    assert verify("berlin", b"content", signature)
    assert not verify("paris", b"content", signature)
    assert not verify("berlin", b"contents", signature)
    for damaged in (b"", b"\0" * 4, signature[:-1], signature[:20], signature[4:], b"\xff" * 200):
        assert not verify("berlin", b"content", damaged)
    certificates.create_authority(tmp_path)
    certificates.issue_certificate(tmp_path, "berlin", ["127.0.0.1"])
    stranger = make_signer(CertificateFiles.in_folder(tmp_path, "berlin"))
    assert not verify("berlin", b"content", stranger(b"content"))


def test_signers_of_an_old_and_a_new_authority_are_believed(folder, tmp_path):
    certificates.create_authority(tmp_path)
    new = certificates.issue_certificate(tmp_path, "berlin", ["127.0.0.1"])
    both = tmp_path / "both.pem"
    both.write_bytes(new.authority.read_bytes() + (folder / "ca.pem").read_bytes())
    verify = make_verifier(dataclasses.replace(new, authority=both))
    for files in (new, CertificateFiles.in_folder(folder, "berlin")):
        assert verify("berlin", b"content", make_signer(files)(b"content"))
    assert not make_verifier(new)(
        "berlin", b"content", make_signer(CertificateFiles.in_folder(folder, "berlin"))(b"content")
    )


def messages_to(outgoing, name):
    return [message for peer, message in outgoing if peer == name]


def test_entries_are_relayed_and_cannot_be_forged(folder):
    berlin, paris, rome = (agent(folder, name) for name in ("berlin", "paris", "rome"))
    berlin.learn("red", 1.0)
    for message in messages_to(berlin.tick(1.0), "paris"):
        paris.receive("berlin", message, 1.0)
    relayed = messages_to(paris.tick(2.0), "rome")
    forged = [
        dataclasses.replace(
            message,
            entries=tuple(
                dataclasses.replace(
                    Entry.from_ledger(
                        entry.key,
                        (entry.version[0] + 1, *entry.version[1:]),
                        {"red": (0, 0, 10 * 2**20, 10 * 2**20)},
                    ),
                    signature=entry.signature,
                )
                for entry in message.entries
            ),
        )
        for message in relayed
    ]
    assert any(message.entries for message in forged)
    for message in forged:
        rome.receive("paris", message, 2.0)
    assert rome.exchange.evidence() == {}
    assert rome.exchange.refusals["signature_invalid"] >= 1
    for message in relayed:
        rome.receive("paris", message, 2.0)
    assert rome.exchange.evidence() == berlin.exchange.evidence() == {"red": (2**20,) * 4}
    assert rome.family == families.Bernoulli()


def test_the_entries_of_an_origin_share_its_certificate(folder):
    files = CertificateFiles.in_folder(folder, "berlin")
    paris = agent(folder, "paris")
    fingerprint = paris.fingerprint

    def tell(receiver, incarnation, seq=1):
        entry = Entry.from_ledger(("berlin", incarnation), (1, seq, 0), {"red": (2**20,) * 4})
        content = signed_bytes(fingerprint, entry, paris.exchange.sender.network)
        signature = make_signer(files)(content)
        signed = dataclasses.replace(entry, signature=signature)
        receiver.receive("berlin", OriginsMessage(fingerprint, (signed,), (), False), 1.0)
        return signed

    def shared(receiver):
        held = receiver.exchange.replica.of_origin("berlin")
        return len(held), len({id(entry.certificate) for entry in held})

    tell(paris, 2)
    told = {tell(paris, 1), tell(paris, 3), tell(paris, 2, seq=2)}
    assert shared(paris) == (3, 1)
    [sent] = messages_to(paris.tick(2.0), "rome")
    assert set(sent.entries) == told  # in messages a signature is in one piece
    again = agent(folder, "paris")
    again.exchange.restore(json.loads(json.dumps(paris.exchange.state())))
    assert shared(again) == (3, 1)
    assert again.exchange.replica.entries == paris.exchange.replica.entries
