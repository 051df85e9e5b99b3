"""The memory of this machine, against which sizes are checked before anything is allocated."""

from __future__ import annotations

import os


def memory() -> float:
    """The memory of this machine in GB; 100 where it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    except (AttributeError, ValueError, OSError):  # not on Windows
        return 100.0


def format_gigabytes(value: float) -> str:
    """A number of GB as sentences show it."""
    return f"{value:,.0f} GB" if value >= 1000 else f"{value:.3g} GB"
