"""The buttons and three real agents in processes, over TLS; and the command as a whole."""

import os
import re
import signal
import subprocess
import sys
import time

import httpx
import pytest

from posse.live.demo.fault_injection import Faults
from posse.live.demo.page import Demonstration, default_scenario
from posse.live.demo.page.in_processes import ProcessBackend

pytestmark = pytest.mark.long
SOON = 60.0  # seconds, on a machine that does much else


def until(true, what):
    deadline = time.monotonic() + SOON
    while not true():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.05)


def adds_up(view):
    acknowledged, *parts = view["audit"]
    return acknowledged == sum(parts) and min(parts) >= 0 and parts[-1] == 0


def test_three_processes_are_killed_stopped_cut_off_and_given_an_arm(tmp_path):
    show = Demonstration(tmp_path, default_scenario(3, 2), in_memory=False)
    seen = []
    show.ring.subscribe(lambda: seen.append(show.ring.newest))

    def press(*given, **more):
        return show.press_button(*given, **more).result(SOON)

    def now(key, i=None):
        value = show.ring.newest.get(key)
        return value if i is None or value is None else value[i]

    try:
        show.start()
        until(lambda: now("phase") == "running" and min(now("visits")) > 3, "all are visited")
        assert now("mode") == "processes"
        with pytest.raises(ValueError, match="real processes cannot be paused"):
            show.set_pace(True, None).result(SOON)

        press("cut", link=("berlin", "rome"))
        press("cut", link=("paris", "rome"))
        press("kill", "paris")
        assert now("states") == ["runs", "killed", "runs"]
        assert show.swarm.sites[1].process.returncode == -signal.SIGKILL
        press("add-arm")
        before = now("visits")
        until(lambda: now("behind", 2) > 5 and now("behind", 0) > 5, "nobody hears of rome")
        assert now("visits", 1) == before[1]
        press("start", "paris")  # with the arm, and without the link
        press("stop", "berlin")
        still = now("visits", 0)
        until(lambda: now("states", 1) == "runs" and now("visits", 1) > before[1], "paris is back")
        assert now("visits", 0) <= still + 1  # an answer may have been under way
        assert now("behind", 1) > 0
        press("go-on", "berlin")
        for link in (("berlin", "rome"), ("paris", "rome")):
            press("join", link=link)
        until(lambda: max(now("behind")) < 40 and now("visits", 0) > still, "all hear of all")
        until(lambda: all(len(shares) == 3 and shares[2] > 0 for shares in now("shares")), "arm")
        counts = show.finish_and_count()
    finally:
        show.stop()
    assert all(count.is_exact for count in counts)
    assert not show.swarm.failures
    assert len(seen) > 5
    assert all(map(adds_up, seen))
    final = show.ring.newest
    assert (final["phase"], final["audit"]) == ("ended", [final["audit"][0]] * 2 + [0, 0])
    assert all(site.process.returncode is not None for site in show.swarm.sites)


def test_a_leashed_agent_keeps_its_faults_and_ends_with_its_swarm_not_with_ctrl_c(tmp_path):
    crew = ProcessBackend(tmp_path)
    site, other = crew.start_agents(["berlin", "paris"], [("berlin", "paris")], ["red", "green"])
    sent = []

    def look():
        found = crew.take_snapshots(["berlin"])
        sent.extend(found["berlin"].sent if found else [])
        return found

    try:
        other.kill()
        crew.set_faults("berlin", Faults(loss=1.0))
        site.kill()
        site.start()
        until(look, "berlin answers")
        site.process.send_signal(signal.SIGINT)  # as a terminal does to all
        until(lambda: look() and sent, "berlin speaks")
        assert set(sent) == {("paris", False)}
        site.process.stdin.close()  # as the system does where the swarm was killed
        assert site.process.wait(SOON) == 0
        assert look() == {}
        assert "exit code 0" in crew.find_problem("berlin")
    finally:
        for each in (site, other):
            each.kill()
            each.stop()


def test_the_command_serves_until_ctrl_c_and_then_counts(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", "from posse.cli import main; main()",
         "swarm", "--page", "--in-memory", "--agents", "3"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        # a test runner in the background ignores SIGINT, and its children would inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as swarm:  # fmt: skip
        try:
            url = re.search(r"http://127\.0\.0\.1:\d+/", swarm.stdout.readline())[0]
            with httpx.Client(base_url=url, trust_env=False, timeout=SOON) as http:
                until(lambda: sum(http.get("v1/view").json().get("visits", [])) > 5, "visits")
                head = {"origin": url.rstrip("/")}
                http.post("v1/press", json={"button": "kill", "agent": "rome"}, headers=head)
            os.kill(swarm.pid, signal.SIGINT)
            out, err = swarm.communicate(timeout=SOON)
        finally:
            swarm.kill()
    assert (swarm.returncode, err) == (0, "")
    acknowledged, counted = re.search(r"(\d+) acknowledged = (\d+) counted", out).groups()
    assert int(acknowledged) == int(counted) > 5
    assert "every agent holds the evidence of all agents" in out
    assert "alone with the same visitors they lose" in out
    with pytest.raises(httpx.ConnectError):
        httpx.get(url, trust_env=False)
