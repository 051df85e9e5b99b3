"""The compiled engine: numba kernels for everything the paper simulates, exact in law.

`driver.play` is the loop of Algorithm 1. `kernels` holds its parts (merge, choose, draw rewards),
`posteriors` and `numerics` the probability, `philox` the random numbers. `registry` lists the
kernels that a simulation needs, `engine` plays them on threads, `jit` and `cache` compile a kernel
when it is first needed and store it on disk.
"""
