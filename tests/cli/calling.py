"""Commands of posse, called in this process."""

import pytest

from posse.cli import main


def posse(*arguments):
    """The exit code of a command."""
    with pytest.raises(SystemExit) as done:
        main([*map(str, arguments)])
    return done.value.code or 0


def said(capsys, *arguments):
    """The exit code of a command, and what it printed."""
    return (posse(*arguments), *capsys.readouterr())
