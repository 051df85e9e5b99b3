"""An agent's process on a leash: faults are said on its stdin, what it holds is read from stdout.

`python -m posse.live.demo.child_process agent.toml` is an ordinary agent otherwise. It ends with
its stdin, so that none stays behind whose swarm is gone.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, BinaryIO

import msgspec

from posse.live.config.agent_settings import read_settings
from posse.live.config.reload import reload_from
from posse.live.demo.fault_injection import Faults, Glance, Interference, glance
from posse.live.node import Node
from posse.live.process import make_node


class Word(msgspec.Struct, omit_defaults=True):
    """What the swarm says: other faults, the question of a number, or to read the file again."""

    faults: Faults | None = None
    look: int | None = None
    reload: bool = False


class Answer(msgspec.Struct, omit_defaults=True):
    """What the agent answers: to the question of a number, or why it could not reload."""

    look: int | None = None
    glance: Glance | None = None
    problem: str | None = None


class Leash:
    """The swarm's end; what is asked is answered by another thread, or never."""

    def __init__(self, faults: Faults = Faults()) -> None:  # noqa: B008 (frozen)
        self.faults = faults
        self.problems: list[str] = []  # of reloads
        self._process: subprocess.Popen[bytes] | None = None
        self._news = threading.Condition()
        self._asked = 0
        self._waiting = False  # for an answer
        self._newest: tuple[int, Glance] | None = None

    def launch(self, file: Path, log: BinaryIO) -> subprocess.Popen[bytes]:
        """Start the agent, with these faults from its first message on."""
        process = subprocess.Popen(
            [sys.executable, "-m", "posse.live.demo.child_process", file],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
        with self._news:
            self._process = process
            self._waiting = False
            self._newest = None
        self._say(Word(faults=self.faults))
        threading.Thread(target=self._hear, args=(process,), daemon=True).start()
        return process

    def interfere(self, faults: Faults) -> None:
        """Other faults, from now on and after every start."""
        self.faults = faults
        self._say(Word(faults=faults))

    def reload(self) -> None:
        """Let the agent read its file again; one that is stopped will when it goes on."""
        self._say(Word(reload=True))

    def ask(self) -> None:
        """Ask for a glance, unless the last question is not answered yet."""
        with self._news:
            if self._waiting:
                return
            self._asked = self._asked + 1
            self._waiting = True
        if not self._say(Word(look=self._asked)):
            self._waiting = False

    def answer(self, seconds: float) -> Glance | None:
        """The answer to the last question, if it comes within so many seconds."""
        with self._news:
            self._news.wait_for(lambda: not self._waiting, seconds)
            if self._newest is None or self._newest[0] != self._asked:
                return None
            return self._newest[1]

    def _say(self, word: Word) -> bool:
        pipe = None if self._process is None else self._process.stdin
        if pipe is None:
            return False
        try:
            pipe.write(msgspec.json.encode(word) + b"\n")
            pipe.flush()
        except (OSError, ValueError):  # it is gone, and the pipe broken or closed
            return False
        return True

    def _hear(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                with suppress(msgspec.DecodeError):  # the half line of one that was killed
                    self._take(process, msgspec.json.decode(line, type=Answer))
        with self._news:
            if self._process is process:
                self._waiting = False
                self._news.notify_all()
        with suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()

    def _take(self, process: subprocess.Popen[bytes], answer: Answer) -> None:
        with self._news:
            if answer.problem is not None:
                self.problems.append(answer.problem)
            if self._process is not process or answer.look is None or answer.glance is None:
                return
            self._newest = (answer.look, answer.glance)
            self._waiting = False
            self._news.notify_all()


def main(file: Path) -> None:
    """Run the agent of a file until stdin ends."""
    from posse.live import logs
    from posse.live.http import serve_node

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the swarm, which then counts
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    says = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anybody prints is no answer
    interference = Interference(random.Random())
    _take_faults(interference, msgspec.json.decode(sys.stdin.buffer.readline(), type=Word))
    settings = read_settings(file)
    logs.set_up(settings.name, settings.log)
    node = make_node(settings, file.resolve().parent, interference.around)
    try:
        node.start()
        with serve_node(node, settings.http):
            for line in sys.stdin.buffer:
                answer = _obey(node, file, interference, msgspec.json.decode(line, type=Word))
                _answer(says, answer)
    finally:
        node.stop()


def _obey(node: Node, file: Path, interference: Interference, word: Word) -> Answer | None:
    _take_faults(interference, word)
    if word.reload:
        try:
            reload_from(file, node)
        except ValueError as error:
            return Answer(problem=str(error))
    if word.look is not None:
        return Answer(look=word.look, glance=glance(node, interference))
    return None


def _take_faults(interference: Interference, word: Word) -> None:
    if word.faults is not None:
        interference.faults = word.faults


def _answer(says: IO[bytes], answer: Answer | None) -> None:
    if answer is not None:
        with suppress(OSError):  # nobody listens any more: stdin ends, too
            says.write(msgspec.json.encode(answer) + b"\n")
            says.flush()


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except ValueError as error:  # in one line, as the swarm says it
        sys.exit(f"posse: {error}")
