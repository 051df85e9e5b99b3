"""The page on a shop's first week: its files and commands, in its order, in an empty folder."""

import re
import shlex
from pathlib import Path

import pytest

from tests.test_docs_live import Stranger, wait_until

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "first-week.md"
PARTS = re.compile(r"```(toml|python)\n(.*?)```|^    (\S[^\n]*)$", re.DOTALL | re.MULTILINE)
FILES = ["shop.toml", "metrics.toml", "visitors.py"]  # in the order of the page's blocks
PORTS = ("8700", "8701", "8702")


@pytest.fixture
def stranger(tmp_path):
    made = Stranger(tmp_path)
    program = tmp_path / "bin" / "posse"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(made.python)} -m posse "$@"\n')
    program.chmod(0o755)
    made.environment["PATH"] = f"{program.parent}:{made.environment['PATH']}"
    yield made
    made.leave()


def read_parts():
    """The files and the commands of the page, in its order."""
    files = iter(FILES)
    text = re.sub(r"    python visitors.py \d+", "    python visitors.py 15", PAGE.read_text())
    for kind, block, command in PARTS.findall(text):
        yield (next(files), block) if kind else ("", command)


@pytest.mark.long
def test_the_files_and_commands_of_the_page_run_in_its_order(stranger):
    answers = {}
    for file, text in read_parts():
        if file:
            (stranger.folder / file).write_text(stranger.changed(text))
        elif text.startswith("posse agent"):
            stranger.start(text)
            wait_until(lambda: all(map(stranger.answers, PORTS)), "not all agents answer")
        else:
            command = text.replace("python ", f"{shlex.quote(stranger.python)} ", 1)
            answers[text] = stranger.run(f"sh -e -c {shlex.quote(command)}")
            assert '"error"' not in answers[text], (text, answers[text])
        if text.startswith("posse new"):
            for settings in stranger.folder.glob("*.toml"):
                settings.write_text(stranger.changed(settings.read_text()))
    shown = "\n".join(answers.values())
    for words in (
        '"state":"open","repeated":false',
        '"reward":1.0',
        "2 neighbours connected",
        '"breached":false',
        "the bandit earned",
        '"verdict"',
        "long is pinned in the whole network (version 3, by berlin)",
        "left out: ",
        "doubly robust",
    ):
        assert words in shown, words
    pinned = "long is pinned in the whole network by berlin (Ada: winner of the first week)"
    wait_until(lambda: pinned in stranger.get("8702", "/v1/events").text, "rome has no such event")
