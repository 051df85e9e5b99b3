"""The public names of posse.live, with and without the extra."""

import subprocess
import sys

import pytest

import posse

WITHOUT = """
import sys
for name in ("zenoh", "fastapi", "uvicorn", "httpcore", "httpx", "msgspec", "cryptography"):
    sys.modules[name] = None
import posse
"""


def test_names():
    assert {"Agent", "AsyncClient", "Client", "Node", "Store"} <= set(dir(posse.live))
    for name in dir(posse.live):
        assert getattr(posse.live, name).__name__ == name
    with pytest.raises(AttributeError, match="Agend"):
        _ = posse.live.Agend


def run(code):
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_an_agent_and_a_client_need_no_extra():
    done = run(
        "agent = posse.Agent(['a', 'b'], posse.families.Bernoulli())\n"
        "agent.update(agent.pull(), 1.0)\n"
        "posse.live.Client('http://127.0.0.1:8700').close()\n"
    )
    assert done.returncode == 0, done.stderr


def test_what_needs_the_extra_says_so():
    done = run("posse.live.Node")
    assert "posse.live.Node needs cryptography: install Posse with the extra live" in done.stderr


@pytest.mark.parametrize("words", [["agent", "x.toml"], ["swarm"]])
def test_commands_say_which_extra(words):
    done = run(f"from posse.cli import main; main({words!r})")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("posse: live agents need ")
    assert line.endswith('pip install ".[live]" in a clone')
