"""Commands of posse, called in this process."""

import pytest

from posse.cli import main

# An experiment as a file, to which tests add what they are about.
EXPERIMENT = """
title = "Two [arms]"
horizon = 30
runs = 5
seed = 3

[bandit]
family = "bernoulli"
means = [0.8, 0.2]

[network]
graph = "cycle"
agents = 3

[algorithms.dec-TS]
name = "decentralized"
policy = "thompson-sampling"
"""


def posse(*arguments):
    """The exit code of a command."""
    with pytest.raises(SystemExit) as done:
        main([*map(str, arguments)])
    return done.value.code or 0


def said(capsys, *arguments):
    """The exit code of a command, and what it printed."""
    return (posse(*arguments), *capsys.readouterr())
