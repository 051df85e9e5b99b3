"""What an agent process does not load."""

from __future__ import annotations

import subprocess
import sys

LEAN = """
import sys
import numpy as np
from posse.live.lean import import_special
import_special()
import posse
agent = posse.Agent(["a", "b"], posse.families.Bernoulli())
agent.learn(*agent.choose()[:1], 1.0)
agent.choose()
heavy = "numpy.f2py numpy.testing numpy.ma unittest scipy.linalg scipy.stats scipy.sparse numba "
heavy += "pandas xarray networkx matplotlib rich pydantic"
print(*[name for name in heavy.split() if name in sys.modules])
assert np.ma.array([1, 2]).sum() == 3
np.testing.assert_allclose(1.0, 1.0)
from scipy import stats
assert stats.beta(2, 2).cdf(0.5) == 0.5
assert np.f2py.__name__ == "numpy.f2py"
"""


def test_an_agent_needs_the_special_functions_alone():
    """SciPy used to bring NumPy's Fortran compiler and test tools, 8 MB; all work afterwards."""
    done = subprocess.run([sys.executable, "-c", LEAN], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


COMMAND = """
import sys
from posse.cli import main
try:
    main(["agent", "nowhere.toml"])
except SystemExit as end:
    print(end.code, "pydantic" in sys.modules)
"""


def test_the_command_line_of_an_agent_stays_small():
    """An agent lives for months with what its command line loaded: 9 MB of pydantic, once."""
    done = subprocess.run([sys.executable, "-c", COMMAND], capture_output=True, text=True)
    assert done.stdout.strip() == "2 False"
    assert "there is no file nowhere.toml" in done.stderr
