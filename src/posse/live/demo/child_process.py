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
from posse.live.demo.fault_injection import AgentSnapshot, FaultInjector, Faults, take_snapshot
from posse.live.node import Node
from posse.live.process import make_node


class ChildCommand(msgspec.Struct, omit_defaults=True):
    """What the swarm says: other faults, the question of a number, or to read the file again."""

    faults: Faults | None = None
    question: int | None = None
    reload: bool = False


class ChildReply(msgspec.Struct, omit_defaults=True):
    """What the agent answers: to the question of a number, or why it could not reload."""

    question: int | None = None
    snapshot: AgentSnapshot | None = None
    problem: str | None = None


class ChildProcess:
    """The swarm's end; what is asked is answered by another thread, or never."""

    def __init__(self, faults: Faults = Faults()) -> None:  # noqa: B008 (frozen)
        self.faults = faults
        self.problems: list[str] = []  # of reloads
        self._process: subprocess.Popen[bytes] | None = None
        self._reply_arrived = threading.Condition()
        self._questions = 0
        self._waiting = False  # for an answer
        self._newest: tuple[int, AgentSnapshot] | None = None

    def launch_agent(self, file: Path, log: BinaryIO) -> subprocess.Popen[bytes]:
        """Start the agent, with these faults from its first message on."""
        process = subprocess.Popen(
            [sys.executable, "-m", "posse.live.demo.child_process", file],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
        with self._reply_arrived:
            self._process = process
            self._waiting = False
            self._newest = None
        self._send_command(ChildCommand(faults=self.faults))
        threading.Thread(target=self._read_replies, args=(process,), daemon=True).start()
        return process

    def set_faults(self, faults: Faults) -> None:
        """Other faults, from now on and after every start."""
        self.faults = faults
        self._send_command(ChildCommand(faults=faults))

    def request_reload(self) -> None:
        """Let the agent read its file again; one that is stopped will when it goes on."""
        self._send_command(ChildCommand(reload=True))

    def request_snapshot(self) -> None:
        """Ask for a glance, unless the last question is not answered yet."""
        with self._reply_arrived:
            if self._waiting:
                return
            self._questions = self._questions + 1
            self._waiting = True
        if not self._send_command(ChildCommand(question=self._questions)):
            self._waiting = False

    def wait_for_snapshot(self, seconds: float) -> AgentSnapshot | None:
        """The answer to the last question, if it comes within so many seconds."""
        with self._reply_arrived:
            self._reply_arrived.wait_for(lambda: not self._waiting, seconds)
            if self._newest is None or self._newest[0] != self._questions:
                return None
            return self._newest[1]

    def _send_command(self, command: ChildCommand) -> bool:
        pipe = None if self._process is None else self._process.stdin
        if pipe is None:
            return False
        try:
            pipe.write(msgspec.json.encode(command) + b"\n")
            pipe.flush()
        except (OSError, ValueError):  # it is gone, and the pipe broken or closed
            return False
        return True

    def _read_replies(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                with suppress(msgspec.DecodeError):  # the half line of one that was killed
                    self._store_reply(process, msgspec.json.decode(line, type=ChildReply))
        with self._reply_arrived:
            if self._process is process:
                self._waiting = False
                self._reply_arrived.notify_all()
        with suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()

    def _store_reply(self, process: subprocess.Popen[bytes], reply: ChildReply) -> None:
        with self._reply_arrived:
            if reply.problem is not None:
                self.problems.append(reply.problem)
            if self._process is not process or reply.question is None or reply.snapshot is None:
                return
            self._newest = (reply.question, reply.snapshot)
            self._waiting = False
            self._reply_arrived.notify_all()


def main(file: Path) -> None:
    """Run the agent of a file until stdin ends."""
    from posse.live import logs
    from posse.live.http import serve_node

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the swarm, which then counts
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anybody prints is no answer
    interference = FaultInjector(random.Random())
    _apply_faults(interference, msgspec.json.decode(sys.stdin.buffer.readline(), type=ChildCommand))
    settings = read_settings(file)
    logs.set_up(settings.name, settings.log)
    node = make_node(settings, file.resolve().parent, interference.wrap_transport)
    try:
        node.start()
        with serve_node(node, settings.http):
            for line in sys.stdin.buffer:
                reply = _run_command(
                    node, file, interference, msgspec.json.decode(line, type=ChildCommand)
                )
                _send_reply(replies, reply)
    finally:
        node.stop()


def _run_command(
    node: Node, file: Path, interference: FaultInjector, command: ChildCommand
) -> ChildReply | None:
    _apply_faults(interference, command)
    if command.reload:
        try:
            reload_from(file, node)
        except ValueError as error:
            return ChildReply(problem=str(error))
    if command.question is not None:
        return ChildReply(question=command.question, snapshot=take_snapshot(node, interference))
    return None


def _apply_faults(interference: FaultInjector, command: ChildCommand) -> None:
    if command.faults is not None:
        interference.faults = command.faults


def _send_reply(replies: IO[bytes], reply: ChildReply | None) -> None:
    if reply is not None:
        with suppress(OSError):  # nobody listens any more: stdin ends, too
            replies.write(msgspec.json.encode(reply) + b"\n")
            replies.flush()


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except ValueError as error:  # in one line, as the swarm says it
        sys.exit(f"posse: {error}")
