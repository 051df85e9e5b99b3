"""Logs: what a line says, for people and for machines, and that nobody else can begin one."""

import io
import json
import logging
import re

import pytest

from posse.live import logs


@pytest.fixture
def written():
    """Logs of kinds into a text; what was set before is put back."""
    root = logging.getLogger()
    before = root.handlers[:], root.level, logging.getLogger("posse").level, logging.raiseExceptions
    made = []

    def begin(kind):
        stream = io.StringIO()
        made.append(logs.set_up_logging("berlin", kind, stream))
        return stream

    yield begin
    root.handlers[:], level, ours, logging.raiseExceptions = before
    root.setLevel(level)
    logging.getLogger("posse").setLevel(ours)


def say(message="paris is gone", *arguments, **options):
    logging.getLogger("posse.live.node").warning(message, *arguments, **options)


def test_a_line_has_time_level_agent_and_experiment(written):
    stream = written("text")
    say()
    with logs.log_experiment("checkout"):
        say("%s failed", "a tick")
    say(extra={"experiment": "banner"})
    time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    assert re.fullmatch(
        rf"{time} WARNING berlin: paris is gone\n"
        rf"{time} WARNING berlin/checkout: a tick failed\n"
        rf"{time} WARNING berlin/banner: paris is gone\n",
        stream.getvalue(),
    )


def test_machines_read_an_object_a_line(written):
    stream = written("json")
    with logs.log_experiment("checkout"):
        say()
    say(extra={"experiment": "banner"})
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first.pop("time").endswith("Z")
    assert first == {
        "level": "WARNING",
        "agent": "berlin",
        "experiment": "checkout",
        "logger": "posse.live.node",
        "message": "paris is gone",
    }
    assert second["experiment"] == "banner"


NASTY = "x\n2026-11-16T16:48:14.123Z WARNING berlin: all is well\r\x1b[2J\u2028\x85\x00"


@pytest.mark.parametrize("kind", ["text", "json"])
def test_nobody_else_begins_a_line(written, kind):
    stream = written(kind)
    say("a message of %s failed", NASTY)
    (line,) = stream.getvalue().splitlines()
    assert line.isprintable()
    stream = written(kind)
    try:
        raise ValueError(NASTY)
    except ValueError:
        say("a tick failed", exc_info=True)
    begun = [line for line in stream.getvalue().splitlines() if not line.startswith("    ")]
    assert len(begun) == 1
    assert "Traceback" in stream.getvalue()
    assert all(line.isprintable() for line in stream.getvalue().splitlines())


def test_a_second_time_replaces_the_first(written):
    first, second = written("text"), written("json")
    say("%d", "no number")  # is not lost
    assert first.getvalue() == ""
    assert "no number" in second.getvalue()


def test_nothing_is_raised_where_nobody_reads(written, capsys):
    written("text").close()
    say()
    assert capsys.readouterr() == ("", "")
