"""The compiled engine: numba kernels for everything the paper simulates, exact in law.

Where to look: `driver.play` is the loop of Algorithm 1; `merge`, `thompson` and `indices`, and
`rewards` hold its parts; `beliefs` and `special` the probability; `random` the random numbers;
`plan` says which kernels a simulation needs, `engine` plays them on threads, `jit` and `cache`
compile each kernel when it is first needed and keep it on disk.
"""
