"""`posse agent`, `posse status` and `posse swarm`, as processes of their own."""

import os
import re
import signal
import socket
import subprocess
import sys
import time

import httpx
import pytest

from tests.cli.calling import posse

TIMEOUT = 60  # seconds, on a machine that does much else
AGENT = """
name = "berlin"
arms = ["red", "green"]
family = "bernoulli"
insecure = true
http = "unix:{socket}"
store = "berlin.db"
"""


@pytest.fixture
def agent(start, tmp_path):
    """Start agents by their file."""

    def start_agent(text):
        file = tmp_path / "agent.toml"
        file.write_text(text)
        return start("agent", file)

    return start_agent


def test_an_agent_lives_and_ends_cleanly(agent, tmp_path, capsys):
    socket = tmp_path / "s"
    url = f"unix:{socket}"
    process = agent(AGENT.format(socket=socket))
    assert "berlin answers at" in process.stdout.readline()
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(socket)), base_url="http://x") as http:
        decision = http.post("/v1/decisions", json={}).json()
        path = f"/v1/decisions/{decision['decision']}/reward"
        assert http.post(path, json={"reward": 1}).status_code == 200
    assert posse("status", url) == 0
    shown = capsys.readouterr().out
    assert "red" in shown
    assert "neighbours" in shown
    os.kill(process.pid, signal.SIGTERM)
    out, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, err
    assert "berlin stopped" in out
    again = agent(AGENT.format(socket=socket))
    assert "answers" in again.stdout.readline()
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(socket)), base_url="http://x") as http:
        arms = http.get("/v1/arms").json()
    assert sum(arm["pulls_here"] for arm in arms.values()) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name = 'x'", "arms is missing"),
        (AGENT.replace("bernoulli", "bernouli").format(socket="s"), "bernoulli"),
        (AGENT.replace("bernoulli", "student_t").format(socket="s"), "did you mean 'student-t'?"),
        (
            AGENT.replace("bernoulli", "student-t").format(socket="s"),
            "family 'student-t' is for the lab only, because live agents exchange sums of rewards",
        ),
        (AGENT.replace("unix:{socket}", "0.0.0.0:80"), "http_token"),
        (AGENT.replace("insecure = true", "").format(socket="s"), "posse certs"),
    ],
)
def test_mistakes_in_the_file_are_one_line(agent, text, words):
    process = agent(text)
    _, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 2
    (line,) = err.strip().splitlines()
    assert line.startswith("posse: ")
    assert words in line


class Told:
    """A client of an agent with one neighbour that is connected and one that is not."""

    url = "http://127.0.0.1:8700"
    names = ("default",)

    def __init__(self, *arguments, **options):
        assert options["experiment"] in (None, *self.names)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def experiments(self):
        return {"experiments": {name: {} for name in self.names}}

    def controls(self):
        return {"pinned": "green", "paused": ["red"]}

    def verdict(self):
        return {"sentence": "red wins; posse pin red"}

    def audit(self):
        return {"counted": 1, "in_evidence": 1.0, "in_network": 2.0}

    def arms(self):
        numbers = ("mean", "low", "high", "probability_best", "expected_loss")
        arm = {**dict.fromkeys(numbers, 0.5), "pulls_here": 1, "pulls_in_network": 2}
        return dict.fromkeys(["red", "green", "blue"], arm)

    def network(self):
        status = {"identity": None, "active": True, "last_heard": None, "lag": None}
        neighbours = {
            "paris": {**status, "connected": True},
            "rome": {**status, "connected": False},
        }
        return {"neighbours": neighbours, "refused": {}, "agents_known": 3}


def test_status_says_who_is_connected(monkeypatch, capsys):
    monkeypatch.setattr("posse.live.client.Client", Told)
    assert posse("status", Told.url) == 0
    lines = capsys.readouterr().out.splitlines()
    ((paris,), (rome,)) = ([line for line in lines if name in line] for name in ("paris", "rome"))
    assert " yes " in paris
    assert " no " not in paris
    assert " no " in rome
    assert " yes " not in rome


def test_status_shows_pins_and_pauses(monkeypatch, capsys):
    monkeypatch.setattr("posse.live.client.Client", Told)
    assert posse("status", Told.url) == 0
    shown = capsys.readouterr().out
    assert "red (paused)" in shown
    assert "green (pinned)" in shown
    assert "blue (" not in shown
    assert "verdict: red wins; posse pin red" in shown
    assert shown.count("arms, as seen by http://127.0.0.1:8700") == 1


def test_status_of_several_experiments_or_of_one(monkeypatch, capsys):
    monkeypatch.setattr("posse.live.client.Client", Told)
    monkeypatch.setattr(Told, "names", ("checkout", "banner"))
    assert posse("status", Told.url) == 0
    shown = capsys.readouterr().out
    assert "checkout: arms" in shown
    assert "banner: arms" in shown
    assert posse("status", Told.url, "--experiment", "banner") == 0
    assert capsys.readouterr().out.count("arms, as") == 1


@pytest.mark.parametrize("width", [80, 120])
def test_status_fits_the_terminal(monkeypatch, capsys, width):
    """Every arm is one line, in a terminal of 80 columns too; it was folded into several."""
    numbers = {
        "mean": 0.0123456,
        "low": 0.00123456,
        "high": 0.123456,
        "probability_best": 0.99999,
        "expected_loss": 0.000123456,
        "pulls_here": 999_999,
        "pulls_in_network": 1e8,
    }
    arms = dict.fromkeys(["a [long] name, much longer than there is room", "green"], numbers)
    monkeypatch.setattr(Told, "arms", lambda client: arms)
    monkeypatch.setattr("posse.live.client.Client", Told)
    monkeypatch.setenv("COLUMNS", str(width))
    assert posse("status", Told.url, Told.url) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    assert sum("0.00123 to 0.123" in line for line in lines) == 2 * 2
    (first, _) = [line for line in lines if line.startswith("a [long]")]
    assert first.split()[-2:] == ["999,999", "100.00M"]
    assert ("…" in first) == (width == 80)
    assert sum(line.startswith("green (pinned) ") for line in lines) == 2


def test_status_of_an_experiment_that_is_not_there(monkeypatch, capsys):
    monkeypatch.setattr("posse.live.client.Client", Told)
    monkeypatch.setattr(Told, "names", ("checkout", "banner"))
    assert posse("status", Told.url, "--experiment", "cart") == 2
    assert "has no experiment cart: choose one of checkout, banner" in capsys.readouterr().err


def test_status_of_an_agent_that_wants_a_token(monkeypatch, capsys):
    """It answers: what is wrong is said, and not that nobody is there."""

    def refuse(self):
        raise ValueError("this agent needs a token")

    monkeypatch.setattr("posse.live.client.Client", Told)
    monkeypatch.setattr(Told, "network", refuse)
    assert posse("status", Told.url) == 2
    assert capsys.readouterr().err == f"posse: {Told.url}: this agent needs a token\n"


def test_status_of_nobody(capsys):
    assert posse("status", "http://127.0.0.1:9") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "no agent answers" in line


@pytest.mark.long
@pytest.mark.parametrize("exchange", ["origins", "flows"])
def test_a_swarm_counts_every_reward_once(exchange, capsys):
    """Three real agents with mTLS, one of them killed and started again."""
    begun = time.monotonic()
    code = posse("swarm", "--agents", 3, "--arms", 3, "--seconds", 3, "--kill", 1,
                 "--exchange", exchange)  # fmt: skip
    out = capsys.readouterr().out
    assert code == 0, out
    assert "acknowledged = " in out
    assert time.monotonic() - begun < 150


@pytest.mark.long
@pytest.mark.parametrize("exchange", ["origins", "flows"])
def test_a_swarm_in_memory(exchange, capsys, monkeypatch):
    """The same in this process, with a third of the messages lost and no certificates."""
    monkeypatch.setenv("COLUMNS", "100")
    code = posse("swarm", "--in-memory", "--agents", 4, "--arms", 7, "--seconds", 2, "--kill", 3,
                 "--loss", 0.3, "--exchange", exchange)  # fmt: skip
    out, table = capsys.readouterr()
    assert code == 0, out
    acknowledged, counted = out.split(" counted")[0].split(" acknowledged = ")
    assert int(acknowledged) == int(counted) > 20
    assert "every agent holds the evidence of all" in out
    assert "5 best" in table
    rows = [line.split() for line in table.splitlines() if line.strip().startswith("agent-")]
    assert sum(int(row[-4]) for row in rows) == 3  # restarts
    assert {row[-5] for row in rows} <= {"0/2", "1/2", "2/2", "down"}  # neighbours


def test_a_swarm_on_a_narrow_screen(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert posse("swarm", "--in-memory", "--agents", 2, "--seconds", 1) == 0
    table = capsys.readouterr().err
    assert "agent-1" in table
    assert "2 best ones" in table
    assert "…" not in table
    assert max(map(len, table.splitlines())) <= 80


def test_a_swarm_that_lost_a_reward_says_where(monkeypatch, tmp_path, capsys):
    from posse.live.demo.fleet import MemorySite

    update = MemorySite.update

    def forgetful(self, decision, reward, experiment):
        return self.name == "agent-1" or update(self, decision, reward, experiment)

    monkeypatch.setattr(MemorySite, "update", forgetful)
    folder = tmp_path / "kept"
    code = posse("swarm", "--in-memory", "--agents", 3, "--seconds", 1, "--folder", folder)
    out = capsys.readouterr().out
    assert code == 1
    assert "IS NOT" in out
    assert "agent-1: " in out
    assert "acknowledged rewards are lost" in out
    assert f"stores and logs are in {folder}" in out
    assert (folder / "agent-1.0.db").exists()


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_swarm_leaves_nothing(number, tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", "from posse.cli import main; main()",
         "swarm", "--agents", "2", "--seconds", "600", "--kill", "100"],
        stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)},
        # a test runner in the background ignores SIGINT, and its children would inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as swarm:  # fmt: skip
        try:
            end = time.monotonic() + TIMEOUT
            while len(ports := _http_ports(tmp_path)) < 2 or not all(map(_answers, ports)):
                assert time.monotonic() < end
                time.sleep(0.1)
            os.kill(swarm.pid, number)
            _, err = swarm.communicate(timeout=TIMEOUT)
        finally:
            swarm.kill()
    assert swarm.returncode == 130
    assert "Traceback" not in err
    assert err.endswith("posse: interrupted\n")
    assert not any(map(_answers, ports))
    assert not list(tmp_path.iterdir())


def _http_ports(folder):
    files = [file.read_text() for file in folder.glob("posse-swarm-*/agent-*.toml")]
    return [int(match[1]) for text in files if (match := re.search(r"http = '.*:(\d+)'", text))]


def _answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_page_that_cannot_be(capsys):
    assert posse("swarm", "--page", "--exchange", "flows") == 2
    assert posse("swarm", "--page", "--kill", 1) == 2
    assert posse("swarm", "--page", "--agents", 13) == 2
    assert posse("swarm", "--page", "--arms", 7) == 2
    assert posse("swarm", "--page", "--port", 70000) == 2
    assert posse("swarm", "--port", 8800) == 2  # without --page
    assert len(capsys.readouterr().err.splitlines()) == 6


def test_a_port_that_is_taken(capsys, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        folder = tmp_path / "kept"
        arguments = "--in-memory", "--agents", 2, "--folder", folder
        assert posse("swarm", "--page", "--port", port, *arguments) == 2
    assert f"127.0.0.1:{port}" in capsys.readouterr().err


def test_a_swarm_that_cannot_be(capsys):
    assert posse("swarm", "--agents", 1) == 2
    assert posse("swarm", "--exchange", "flow") == 2
    assert posse("swarm", "--graph", "moebius") == 2
    assert posse("swarm", "--loss", 0.5) == 2  # without --in-memory
    assert posse("swarm", "--folder", "/") == 2
    assert len(capsys.readouterr().err.splitlines()) == 5
