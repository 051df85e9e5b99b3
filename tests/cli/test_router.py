"""`posse router`, and several agents of one `posse agent`, as processes of their own."""

import re
import signal
import socket
import time
from contextlib import nullcontext

import httpx
import pytest

from posse.live.security import certificates
from tests.cli.calling import said

TIMEOUT = 60  # seconds, on a machine that does much else
AGENT = """
name = "{name}"
arms = ["red", "green"]
family = "bernoulli"
http = "127.0.0.1:0"
store = "{name}.db"
tick_seconds = 0.1
neighbours = {{{other} = ""}}
router = {{hub = "{address}"}}
"""


@pytest.fixture
def folder(tmp_path):
    certificates.create_authority(tmp_path / "certs")
    for name in ("berlin", "paris", "hub"):
        certificates.issue_certificate(tmp_path / "certs", name)
    return tmp_path


def free_address():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{held.getsockname()[1]}"


@pytest.mark.long
def test_two_agents_learn_by_way_of_a_router(start, folder):
    address = free_address()
    for name, other in (("berlin", "paris"), ("paris", "berlin")):
        text = AGENT.format(name=name, other=other, address=address)
        (folder / f"{name}.toml").write_text(text)
    agents = start("agent", "berlin.toml", "paris.toml")
    lines = [agents.stdout.readline() for _ in range(2)]
    urls = dict(re.fullmatch(r"(\w+) answers at (\S+)\n", line).groups() for line in lines)
    router = start("router", "hub", "--listen", address, "--agent", "berlin", "--agent", "paris")
    assert router.stdout.readline() == f"hub listens on {address}\n"
    with httpx.Client(trust_env=False, timeout=10) as http:
        made = http.post(f"{urls['berlin']}/v1/decisions", json={}).json()
        path = f"{urls['berlin']}/v1/decisions/{made['decision']}/reward"
        assert http.post(path, json={"reward": 1}).status_code == 200
        deadline = time.monotonic() + TIMEOUT
        while http.get(f"{urls['paris']}/v1/evidence").json()["held"] != {made["arm"]: [2**20] * 4}:
            assert time.monotonic() < deadline, "paris did not learn what berlin knows"
            time.sleep(0.1)
    router.send_signal(signal.SIGTERM)
    out, err = router.communicate(timeout=TIMEOUT)
    assert (router.returncode, out, err) == (0, "hub stopped\n", "")


def test_a_router_that_nobody_reads_any_more_ends_cleanly(start, folder):
    """As in `posse router hub --agent berlin | head -1`."""
    router = start("router", "hub", "--listen", free_address(), "--agent", "berlin")
    assert router.stdout.readline()
    router.stdout.close()
    router.send_signal(signal.SIGTERM)
    assert router.stderr.read() == ""
    assert router.wait(TIMEOUT) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["hub"], "Missing option '--agent'"),
        (["hub", "--agent", "a b"], "a name has 1 to 64 letters"),
        (["hub", "--agent", "a", "--listen", "here"], "an address is host:port"),
        (["nub", "--agent", "a"], "run posse certs issue nub"),
    ],
)
def test_mistakes_are_one_line(capsys, folder, monkeypatch, arguments, words):
    monkeypatch.chdir(folder)
    # the handlers of signals that the command sets are not for this process
    monkeypatch.setattr("posse.cli.router.listen_for_stop", nullcontext)
    code, out, err = said(capsys, "router", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err
