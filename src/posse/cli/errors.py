"""What the user can put right: reported in one line, exit code 2, without a traceback."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Mistake(Exception):
    """One sentence for the user."""


@contextmanager
def mistakes() -> Iterator[None]:
    """Take a ValueError for the user's mistake, which it is at the library's doors, and there only.

    So is a file or folder that the system does not let us write.
    """
    try:
        yield
    except ValueError as error:
        raise Mistake(str(error)) from None
    except MemoryError:
        raise Mistake("this does not fit into the memory of this machine") from None
    except OSError as error:
        raise Mistake(
            f"{error.filename}: {error.strerror}" if error.filename else str(error)
        ) from None


@contextmanager
def live() -> Iterator[None]:
    """Say what to install where the libraries of live agents are missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "posse":
            raise
        raise Mistake(
            f"live agents need {error.name}: install Posse with the extra live, "
            'as by pip install ".[live]" in a clone'
        ) from None


def token_in(file: Path) -> str:
    """The token in a file: it is never shown, and never an argument, which others could see."""
    try:
        return file.read_text(encoding="ascii").strip()
    except UnicodeDecodeError:
        raise ValueError(f"{file} is not a token: it must be one line of ASCII") from None


@contextmanager
def goes_on() -> Iterator[None]:
    """Say, when somebody stops a command that keeps what is done, how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        print("posse: what is done is kept; the same command goes on from here", file=sys.stderr)
        raise
