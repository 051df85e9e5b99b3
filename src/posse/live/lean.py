"""SciPy's special functions at half their memory, for processes that need nothing else of it."""

from __future__ import annotations

import numpy as np

# submodules that NumPy loads when first asked for, and SciPy asks for all there are
UNUSED = ("char", "core", "ctypeslib", "f2py", "ma", "matlib", "rec", "strings", "testing")


def import_special() -> None:
    """Import scipy.special without the parts of NumPy that it copies from and never uses.

    `scipy._lib.array_api_compat` takes over every name of NumPy and so loads its Fortran compiler,
    test tools and masked arrays: 8 of 16 MB. Meanwhile these names are taken; afterwards NumPy is
    as before. To be called before there are threads.
    """
    taken = [name for name in UNUSED if name not in vars(np)]
    for name in taken:
        setattr(np, name, None)
    try:
        import scipy.special  # noqa: F401
    except (AttributeError, ImportError, TypeError):
        pass  # another SciPy may need them after all: it is imported again, when first used
    finally:
        for name in taken:
            delattr(np, name)
