"""Lean imports: what an agent process never uses stays out of its memory."""

from __future__ import annotations

UNUSED = ("f2py", "testing")  # parts of NumPy that it imports when somebody asks for them


def import_scipy_special() -> None:
    """Import scipy.special without the parts of NumPy that it copies and never uses.

    It copies every public name of NumPy, and so imports them all: with a compiler of Fortran and
    a framework of tests these are 9 MB of memory.
    """
    import numpy

    absent = [name for name in UNUSED if name not in vars(numpy)]
    for name in absent:
        setattr(numpy, name, None)
    try:
        import scipy.special  # noqa: F401
    finally:
        for name in absent:
            delattr(numpy, name)  # so that NumPy imports it when it is asked for
