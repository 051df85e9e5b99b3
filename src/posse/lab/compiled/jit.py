"""How kernels are compiled, and what they tell the compiler."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numba import njit, types
from numba.extending import intrinsic

from posse.lab.compiled import cache

# Reassociation would change results with the vector width; the rest only rounds differently.
FAST = {"contract", "nsz", "arcp", "nnan", "ninf"}

# Kernels and the functions they call allocate nothing, so numba need not count references to the
# arrays they are given: two atomic operations an array and call, a tenth of all time.
KERNEL: dict[str, Any] = {"nogil": True, "_nrt": False, "error_model": "numpy"}
FAST_KERNEL = {**KERNEL, "fastmath": FAST}
# Numba hands the flags of whichever kernel is compiled first down to helpers that do not state
# their own; solvers use infinities and NaN, which they would lose that way, or not, by chance.
helper = njit(_nrt=False, error_model="numpy", fastmath=FAST - {"nnan", "ninf"})
vectorised = njit(_nrt=False, error_model="numpy", fastmath=FAST)

KERNELS: dict[str, Kernel] = {}  # all there are, by name


@dataclass(frozen=True)
class Kernel:
    """A function that is compiled, or read from the cache, when it is first needed."""

    name: str
    function: Callable[..., Any]
    signature: Any
    options: dict[str, Any]
    seconds: float  # that compiling takes, more or less

    @functools.cached_property
    def compiled(self) -> Any:
        """What numba made of it, which other kernels can call."""
        with cache.in_use(self.name) as kept:
            return njit(self.signature, cache=kept, **self.options)(self.function)

    @property
    def is_cached(self) -> bool:
        """Whether it need not be compiled."""
        return "compiled" in self.__dict__ or cache.holds(self.name)

    def __call__(self, *arguments: Any) -> Any:
        """Call what numba made of it."""
        return self.compiled(*arguments)


def kernel(
    signature: Any, *, seconds: float = 1.0, name: str = "", **options: Any
) -> Callable[[Callable[..., Any]], Kernel]:
    """Make a function a kernel of this signature; the name is its own unless given."""

    def wrap(function: Callable[..., Any]) -> Kernel:
        # numba tells kernels apart by this name, in the cache and in the code it links
        function.__name__ = function.__qualname__ = name or function.__name__
        made = Kernel(function.__name__, function, signature, options, seconds)
        KERNELS[made.name] = made
        return made

    return wrap


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


@intrinsic
def inline_here(typing_context: Any) -> Any:
    """Have the function this is called in inlined wherever it is called.

    Numba's own inlining does not see through the record of a belief, and LLVM finds a score too
    long, but only a loop without calls is vectorised.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.function.attributes.add("alwaysinline")
        return context.get_dummy_value()

    return types.void(), generate
