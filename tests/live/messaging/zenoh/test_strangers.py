"""Strangers are not heard and overhear nothing, whatever certificate or name they come with."""

import time
from datetime import timedelta

import pytest
import zenoh

from posse.live.security import certificates
from posse.live.security.certificates import CertificateFiles
from tests.live.loopback import issue_for, wait_until
from tests.live.messaging.zenoh.world import World, proof, shout, tls


def test_the_stranger_of_these_tests_is_heard_with_the_right_certificate(world):
    """Or the tests that follow would show nothing."""
    world.agent("a")
    session = world.stranger()
    publisher = session.declare_publisher("posse/default/b/a")
    certificate = proof(world.folder)

    def right():
        publisher.put(b"right", attachment=certificate)
        return ("b", b"right") in world.heard["a"]

    wait_until(right)
    shout(session, world.folder, 0.3)
    # but neither wildcards nor deletions: as many as went out under the one key
    assert {payload for _, payload in world.heard["a"]} == {b"right", b"forged"}
    assert sum(payload == b"forged" for _, payload in world.heard["a"]) <= 0.3 / 0.02 + 1


def unheard(world, **changes):
    world.pair()
    try:
        session = world.stranger(**changes)
    except zenoh.ZError:
        session = None
    overheard = []
    if session is not None:
        session.declare_subscriber(
            "**",
            lambda sample: overheard.append(sample.payload.to_bytes()),
            allowed_origin=zenoh.Locality.REMOTE,
        )
        shout(session, world.folder)
    world.honest_pair_works()
    assert all(payload != b"forged" for _, payload in world.heard["a"] + world.heard["b"])
    assert overheard == []
    return session


def test_a_message_without_a_certificate_that_is_good_now_is_not_heard(world):
    """A session that TLS resumed may be of one that has ended."""
    world.agent("a")
    session = world.stranger()
    publisher = session.declare_publisher("posse/default/b/a")
    ended = issue_for(world.folder, "b", timedelta(seconds=-1), "ended")
    others = [proof(world.folder, "mallory"), proof(world.folder, "ended"), b"none", None]
    certificate = proof(world.folder)

    def right():
        for other in others:
            publisher.put(b"wrong", attachment=other)
        publisher.put(b"right", attachment=certificate)
        return world.heard["a"].count(("b", b"right")) > 5

    assert ended.certificate.exists()
    wait_until(right)
    assert {payload for _, payload in world.heard["a"]} == {b"right"}


def test_another_authority_is_not_heard(world, tmp_path):
    certificates.create_authority(tmp_path)
    theirs = tls(certificates.issue_certificate(tmp_path, "b"))
    session = unheard(world, tls=theirs | {"verify_name_on_connect": False})
    assert session.info.links() == []


def test_another_authority_that_trusts_ours_is_not_heard(world, tmp_path):
    certificates.create_authority(tmp_path)
    files = certificates.issue_certificate(tmp_path, "b")
    ours = CertificateFiles(world.folder / "ca.pem", files.certificate, files.key)
    assert unheard(world, tls=tls(ours)).info.links() == []


def test_no_certificate_is_not_heard(world):
    none = dict.fromkeys(tls(CertificateFiles.in_folder(world.folder, "b")))
    none |= {"root_ca_certificate": str(world.folder / "ca.pem"), "enable_mtls": False}
    assert unheard(world, tls=none).info.links() == []


def test_no_tls_is_not_heard(world):
    session = unheard(world, protocol="tcp")
    assert session.info.links() == []


def test_an_expired_certificate_is_not_heard(world):
    files = issue_for(world.folder, "b", timedelta(seconds=-60), "expired")
    assert unheard(world, tls=tls(files)).info.links() == []


def test_a_valid_certificate_does_not_speak_as_another(world):
    session = unheard(world, tls=tls(CertificateFiles.in_folder(world.folder, "mallory")))
    # the link is there: it is the access control that keeps it from speaking
    assert len(session.info.links()) == 1


def test_nor_does_it_at_the_address_of_another(world):
    world.agent("a")
    there = {"endpoints": [f"tls/{world.addresses['b']}"]}
    session = world.stranger(
        tls=tls(CertificateFiles.in_folder(world.folder, "mallory")),
        listen=there,
        connect={"endpoints": []},
    )
    wait_until(session.info.links)
    shout(session, world.folder)
    assert world.heard["a"] == []
    assert world.agents["a"].connected() == {"b": False}


@pytest.mark.parametrize("dialled", [False, True])
def test_nor_does_it_with_the_session_id_of_another(folder, dialled, caplog):
    world = World(folder, b_dials=not dialled)
    try:
        a, b = world.pair()
        mallory = tls(CertificateFiles.in_folder(folder, "mallory"))
        world.stranger(tls=mallory, id=b.session_id)
        if dialled:  # its link joins those of b, so that nobody can tell them apart any more
            wait_until(lambda: a.connected() == {"b": False})
            wait_until(lambda: "of b and mallory claim one session" in caplog.text)
            heard = list(world.heard["a"])
            shout(world.sessions[0], world.folder)
            b.send("a", b"lost")
            time.sleep(0.1)
            assert world.heard["a"] == heard
            world.sessions[0].close()
            wait_until(lambda: a.connected() == {"b": True})
        else:
            shout(world.sessions[0], world.folder)
        world.honest_pair_works()
        assert all(payload != b"forged" for _, payload in world.heard["a"])
    finally:
        world.close()
