"""How kernels are compiled, and what they tell the compiler."""

from __future__ import annotations

from typing import Any

from numba import njit, types
from numba.extending import intrinsic

# Reassociation would change results with the vector width; the rest only rounds differently.
FAST = {"contract", "nsz", "arcp", "nnan", "ninf"}

# Kernels and the functions they call allocate nothing, so numba need not count references to the
# arrays they are given: two atomic operations an array and call, a tenth of all time.
KERNEL: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False, "error_model": "numpy"}
FAST_KERNEL = {**KERNEL, "fastmath": FAST}
# Numba hands the flags of whichever kernel is compiled first down to helpers that do not state
# their own; solvers use infinities and NaN, which they would lose that way, or not, by chance.
helper = njit(_nrt=False, error_model="numpy", fastmath=FAST - {"nnan", "ninf"})
vectorised = njit(_nrt=False, error_model="numpy", fastmath=FAST)


@intrinsic
def use_wide_vectors(typing_context: Any) -> Any:
    """Let the function this is called in use the widest vectors of the processor.

    LLVM stops at 256 bits by default, for the sake of processors that slow down beyond.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        # past llvmlite's list of known attributes, which has no target-dependent ones
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.void(), generate
