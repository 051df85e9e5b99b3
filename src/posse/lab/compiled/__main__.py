"""`python -m posse.lab.compiled`: compile all kernels on all cores, before they are needed."""

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from posse.lab.compiled.engine import compile_kernel
from posse.lab.compiled.jit import KERNELS

missing = [kernel for kernel in KERNELS.values() if not kernel.is_cached]
missing.sort(key=lambda kernel: -kernel.seconds)  # longest first, so that all cores end together
if missing:
    # processes, because numba compiles in one thread at a time
    n_processes = min(len(missing), os.cpu_count() or 1)
    with ProcessPoolExecutor(n_processes, mp_context=get_context("spawn")) as pool:
        list(pool.map(compile_kernel, [kernel.name for kernel in missing]))
    print(f"compiled {len(missing)} kernels")
