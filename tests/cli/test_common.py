"""Commands that run on until they are told to stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

WAIT = """
import signal, threading
from posse.cli.common import listen_for_stop
with listen_for_stop() as stopped:
    {before}
    print(stopped(0.01), flush=True)
    print(stopped(), flush=True)
"""
# as the system may do when there are several threads: another one gets it
ELSEWHERE = """threading.Thread(target=threading.Event().wait, daemon=True).start()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])"""


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="no masks of signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("before", ["", ELSEWHERE], ids=["the main thread", "another"])
def test_it_is_told_whichever_thread_gets_the_signal(number, before):
    code = WAIT.format(before=before)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"False\n"
            process.send_signal(number)
            assert process.communicate(timeout=60)[0] == b"True\n"
        finally:
            process.kill()
    assert process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_was_told_before_it_waits(number):
    code = WAIT.format(before=f"signal.raise_signal({int(number)})")
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert ended.stdout == b"True\nTrue\n"


HANGUP = """
import signal
from posse.cli.common import listen_for_stop
heard = []
with listen_for_stop(lambda: heard.append(1)) as stopped:
    signal.raise_signal(signal.SIGHUP)
    print(stopped(0.01), len(heard), flush=True)
    print(stopped(), len(heard), flush=True)
    signal.raise_signal(signal.SIGHUP)
    print(stopped(), len(heard), flush=True)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no SIGHUP")
def test_a_hangup_is_told_and_does_not_end_it():
    with subprocess.Popen(
        [sys.executable, "-c", HANGUP], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout.readline() == b"False 1\n"
            process.send_signal(signal.SIGTERM)
            assert process.communicate(timeout=60)[0] == b"True 1\nTrue 1\n"
        finally:
            process.kill()


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no terminals")
def test_a_terminal_that_was_closed_ends_it():
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", HANGUP], stdin=theirs, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            assert process.stdout.readline() == b"False 1\n"
            os.close(theirs)
            os.close(ours)
            process.send_signal(signal.SIGHUP)
            assert process.communicate(timeout=60)[0] == b"True 1\nTrue 1\n"
        finally:
            process.kill()


def test_as_many_descriptors_as_are_allowed():
    """Systems begin with 1,024, which idle strangers use up; they allow more to who asks."""
    resource = pytest.importorskip("resource")
    code = (
        "import resource; from posse.cli.common import raise_file_limit; "
        "resource.setrlimit(resource.RLIMIT_NOFILE, (128, 512)); raise_file_limit(); "
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)); raise_file_limit(300)"
    )
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] != 0
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert (ended.stdout, ended.stderr) == (b"(512, 512)\n", b"")


LATE = """
import time
from posse.cli.common import repeat_lost_interrupts

class Interrupted:
    def __del__(self):
        raise KeyboardInterrupt

try:
    with repeat_lost_interrupts():
        Interrupted()
except KeyboardInterrupt:
    print("interrupted", flush=True)
time.sleep(0.2)
print("ended")
"""


def test_an_interrupt_that_is_raised_again_never_strikes_after_the_command():
    """It ended a command that had said all, by a signal in place of its exit code."""
    ended = subprocess.run([sys.executable, "-c", LATE], capture_output=True, timeout=60)
    assert ended.returncode == 0
    assert ended.stdout.endswith(b"ended\n")
