"""`python -m posse.lab.compiled`: compile all kernels, before they are needed."""

import time

from posse.lab.compiled import engine  # noqa: F401
from posse.lab.compiled.jit import KERNELS

for name, kernel in KERNELS.items():
    if not kernel.is_cached:
        start = time.process_time()
        kernel.dispatcher  # noqa: B018
        print(f"{time.process_time() - start:5.1f} s  {name}", flush=True)
