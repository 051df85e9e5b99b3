"""What an agent refuses to start with, and an end that is prompt whatever its peers do."""

import os
import socket
import subprocess
import sys
import threading
import time
from datetime import timedelta

import pytest

from posse.live.messaging.transport.zenoh import ZenohTransport
from posse.live.security import certificates
from posse.live.security.certificates import CertificateFiles
from tests.live.loopback import SOON, certified, free_addresses, issue_for


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "give the files of a certificate"),
        (
            {"insecure": True, "listen": "0.0.0.0:7447"},
            r"must listen on 127\.0\.0\.1, got 0\.0\.0\.0",
        ),
        ({"insecure": True, "neighbours": {"b": "example.org:1"}}, "got example.org:1"),
        ({"insecure": True, "listen": "127.0.0.1"}, "an address is host:port"),
        ({"insecure": True, "listen": "127.0.0.1:70000"}, "an address is host:port"),
        ({"insecure": True, "listen": "tcp/127.0.0.1:x"}, "an address is host:port"),
        ({"insecure": True, "neighbours": {"a": None}}, "cannot be its own neighbour"),
        ({"insecure": True, "neighbours": {"b/*": None}}, "letters, digits"),
        ({"insecure": True, "network": "**"}, "letters, digits"),
    ],
)
def test_nonsense_is_refused(options, sentence):
    neighbours = options.pop("neighbours", {"b": None})
    with pytest.raises(ValueError, match=sentence):
        ZenohTransport("a", neighbours, **options)


def test_files_that_nobody_would_accept_are_refused_here(folder, tmp_path, monkeypatch):
    def refused(files, sentence):
        with pytest.raises(ValueError, match=sentence) as caught:
            ZenohTransport("a", {"b": None}, files=files).start(lambda *_: None)
        assert "posse certs issue a" in str(caught.value)

    good = CertificateFiles.in_folder(folder, "a")
    certificates.create_authority(tmp_path)
    refused(CertificateFiles.in_folder(tmp_path, "a"), "there is no file")
    refused(CertificateFiles.in_folder(folder, "b"), "is not the certificate of a")
    refused(
        CertificateFiles(good.authority, good.certificate, folder / "b.key"), "is not the key of"
    )
    refused(CertificateFiles(tmp_path / "ca.pem", good.certificate, good.key), "did not sign")
    refused(issue_for(folder, "a", timedelta(seconds=-9), "old"), "has expired")
    monkeypatch.setattr(certificates, "CLOCK_TOLERANCE", timedelta(hours=-2))
    refused(issue_for(folder, "a", timedelta(hours=9), "early"), "is not valid before .* clock")


@pytest.mark.skipif(os.name != "posix", reason="no modes of files")
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620])
def test_a_key_that_others_may_read_is_refused(tmp_path, mode):
    """It was used without a word."""
    certified(tmp_path, "a")
    key = tmp_path / "a.key"
    key.chmod(mode)
    agent = ZenohTransport("a", {"b": None}, files=CertificateFiles.in_folder(tmp_path, "a"))
    with pytest.raises(ValueError, match=f"run chmod 600 {key}"):
        agent.start(lambda *_: None)
    key.chmod(0o400)
    agent.start(lambda *_: None)
    agent.close()


def test_a_certificate_for_other_hosts_is_said_at_its_own_agent(tmp_path, caplog):
    certified(tmp_path)
    certificates.issue_certificate(tmp_path, "a", ["a.example.org"])
    (address,) = free_addresses(1)
    agent = ZenohTransport(
        "a", {"b": None}, listen=address, files=CertificateFiles.in_folder(tmp_path, "a")
    )
    agent.start(lambda *_: None)
    agent.close()
    assert f"the certificate is for a.example.org, not for {address}" in caplog.text


def test_closing_where_no_thread_can_start(world, monkeypatch):
    """It raised out of the node's own end, so that the store was not closed."""
    a = world.agent("a")

    def no_more(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_more)
        a.close()
    host, _, port = world.addresses["a"].rpartition(":")
    with socket.socket() as probe:
        assert probe.connect_ex((host, int(port)))  # nobody listens any more


def test_an_address_in_use_is_said_in_one_line(world):
    world.agent("a")
    again = ZenohTransport(
        "a",
        {"b": None},
        listen=world.addresses["a"],
        files=CertificateFiles.in_folder(world.folder, "a"),
    )
    with pytest.raises(ValueError, match=f"a cannot listen on {world.addresses['a']}") as caught:
        again.start(lambda *_: None)
    assert "\n" not in str(caught.value)
    again.close()


def test_closing_is_prompt_and_for_good(world):
    a, _ = world.pair()
    start = time.monotonic()
    a.close()
    a.close()
    assert time.monotonic() - start < 2
    assert a.connected() == {"b": False}
    a.send("b", b"dropped")
    with pytest.raises(RuntimeError, match="was started before"):
        a.start(lambda *_: None)
    unstarted = ZenohTransport("c", {}, files=CertificateFiles.in_folder(world.folder, "a"))
    unstarted.close()


def test_closing_while_dialling_is_prompt(world):
    a = world.agent("a")
    start = time.monotonic()
    a.close()
    assert time.monotonic() - start < 2


HANGING = """
import sys, time
from pathlib import Path
from posse.live.security.certificates import CertificateFiles
from posse.live.messaging.transport.zenoh import ZenohTransport

folder, there = sys.argv[1:]
a = ZenohTransport("a", {"b": there}, files=CertificateFiles.in_folder(Path(folder), "a"))
a.start(print)
time.sleep(0.5)
start = time.monotonic()
a.close()
print(time.monotonic() - start < 2)
"""


@pytest.mark.long
def test_closing_while_a_peer_hangs_is_prompt_and_so_is_the_end(folder):
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # takes connections and says nothing
        there = f"127.0.0.1:{deaf.getsockname()[1]}"
        command = [sys.executable, "-c", HANGING, str(folder), there]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SOON)
    assert (done.returncode, done.stdout) == (0, "True\n")
