"""The compiled engine: numba kernels for everything the paper simulates, exact in law.

Where to look: `driver.play` is the loop of Algorithm 1; `merge`, `thompson` and `indices`, and
`rewards` hold its parts; `beliefs` and `special` the probability; `random` the random numbers;
`plan` says which kernels a simulation needs, `engine` plays them on threads.
"""

from posse.lab.compiled.cache import is_compiled

# before any kernel is imported, so that none of an older source is
COMPILED_BEFORE = is_compiled()
