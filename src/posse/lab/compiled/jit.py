"""How kernels are declared and compiled, and hints to the compiler."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numba import njit, types
from numba.extending import intrinsic

from posse.lab.compiled import cache

# Reassociation would change results with the vector width; the other flags only round differently.
FAST = {"contract", "nsz", "arcp", "nnan", "ninf"}

# Kernels and the functions they call allocate nothing, so numba need not count references to the
# arrays they are given: two atomic operations an array and call, a tenth of all time.
KERNEL: dict[str, Any] = {"nogil": True, "_nrt": False, "error_model": "numpy"}
FAST_KERNEL = {**KERNEL, "fastmath": FAST}
# Numba passes the flags of the kernel that is compiled first on to helpers without flags. Solvers
# use infinities and NaN, so helpers state their own flags.
helper = njit(_nrt=False, error_model="numpy", fastmath=FAST - {"nnan", "ninf"})
vectorised = njit(_nrt=False, error_model="numpy", fastmath=FAST)

KERNELS: dict[str, Kernel] = {}  # all kernels, by name


@dataclass(frozen=True)
class Kernel:
    """A function that is compiled, or read from the cache, when it is first needed."""

    name: str
    function: Callable[..., Any]
    signature: Any
    options: dict[str, Any]
    seconds: float  # of compile time, approximately

    @functools.cached_property
    def dispatcher(self) -> Any:
        """The function compiled by numba, which other kernels can call."""
        with cache.use_kernel_folder(self.name) as can_store:
            return njit(self.signature, cache=can_store, **self.options)(self.function)

    @property
    def is_cached(self) -> bool:
        """Whether the kernel is compiled or on disk."""
        return "dispatcher" in self.__dict__ or cache.is_stored(self.name)

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled function."""
        return self.dispatcher(*arguments)


def kernel(
    signature: Any, *, seconds: float = 1.0, name: str = "", **options: Any
) -> Callable[[Callable[..., Any]], Kernel]:
    """Declare a function as a kernel of this signature; the default name is the function's."""

    def register(function: Callable[..., Any]) -> Kernel:
        # numba distinguishes kernels by this name, in the cache and in the code it links
        function.__name__ = function.__qualname__ = name or function.__name__
        declared = Kernel(function.__name__, function, signature, options, seconds)
        KERNELS[declared.name] = declared
        return declared

    return register


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

    Numba does not inline through the record of a posterior, and LLVM considers a score too long,
    but only a loop without calls is vectorised.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.function.attributes.add("alwaysinline")
        return context.get_dummy_value()

    return types.void(), generate
