"""`python -m posse` is the command `posse`."""

from posse.cli import main

main()
