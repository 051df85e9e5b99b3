"""An agent's process is free of what it never uses."""

import subprocess
import sys

SCRIPT = """
import sys
from posse.live.lean_imports import import_scipy_special
import_scipy_special()
import numpy, scipy.special
print(*(name for name in ("numpy.f2py", "numpy.testing", "unittest") if name in sys.modules))
print(scipy.special.betainc(2.0, 3.0, 0.5))
numpy.testing.assert_allclose(1.0, 1.0)  # it is there for those who ask
"""


def test_scipy_special_is_imported_without_tests_and_fortran():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["", "0.6875"]
