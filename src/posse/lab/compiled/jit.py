"""How kernels are declared and compiled, and hints to the compiler."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import njit, types
from numba.core import cgutils
from numba.core.registry import CPUDispatcher
from numba.extending import intrinsic

from posse.lab.compiled import cache

# Reassociation would change results with the vector width; the other flags only round differently.
FAST = {"contract", "nsz", "arcp", "nnan", "ninf"}

# Kernels and the functions they call allocate nothing, so numba need not count references to the
# arrays they are given: two atomic operations an array and call, a tenth of all time.
KERNEL: dict[str, Any] = {"nogil": True, "_nrt": False, "error_model": "numpy"}
FAST_KERNEL = {**KERNEL, "fastmath": FAST}


class Helper(CPUDispatcher):  # type: ignore[misc]
    """A compiled function for kernels to call, without the wrapper that Python calls it through.

    These wrappers would take a fifth of the compile time of a kernel. Tests call helpers from
    Python: then they are compiled once more, with a wrapper.
    """

    @functools.cached_property
    def _with_wrapper(self) -> Any:
        """The same function, compiled for calls from Python."""
        options = {k: v for k, v in self.targetoptions.items() if k not in _WITHOUT_WRAPPER}
        return CPUDispatcher(self.py_func, targetoptions=options)

    def __call__(self, *arguments: Any) -> Any:
        """Call the function from Python."""
        return self._with_wrapper(*arguments)


_WITHOUT_WRAPPER = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_HELPER = {"nopython": True, "_nrt": False, "error_model": "numpy", **_WITHOUT_WRAPPER}


# Numba passes the flags of the kernel that is compiled first on to helpers without flags. Solvers
# use infinities and NaN, so helpers state their own flags.
def helper(function: Callable[..., Any]) -> Helper:
    """Declare a function that kernels call."""
    return Helper(function, targetoptions={**_HELPER, "fastmath": FAST - {"nnan", "ninf"}})


def vectorised(function: Callable[..., Any]) -> Helper:
    """Declare a function that kernels call, with loops to vectorise: without infinities and NaN."""
    return Helper(function, targetoptions={**_HELPER, "fastmath": FAST})


# Numbers that `add_chunk` adds at a time: a vector of the widest processors.
CHUNK = 8
# Numbers in a vector of this processor, for loops that are padded to whole vectors.
LANES = 8 if get_host_cpu_features().get("avx512f") else 4

# Systems that `subtract_row` eliminates side by side: vectors that do not wait for each other.
PACK = 32

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
        with cache.use_kernel_folder(self.name) as can_store, _pause_garbage_collection():
            # numba distinguishes kernels by this name, in the cache and in the code it links
            self.function.__name__ = self.function.__qualname__ = self.name
            return njit(self.signature, cache=can_store, **self.options)(self.function)

    @property
    def is_cached(self) -> bool:
        """Whether the kernel is compiled or on disk."""
        return "dispatcher" in self.__dict__ or cache.is_stored(self.name)

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled function."""
        return self.dispatcher(*arguments)


@contextmanager
def _pause_garbage_collection() -> Iterator[None]:
    """Look for no unreachable cycles meanwhile: among numba's many objects it takes a tenth.

    One thread at a time compiles, so that the first one does not resume it for a second.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def kernel(
    signature: Any, *, seconds: float = 1.0, name: str = "", **options: Any
) -> Callable[[Callable[..., Any]], Kernel]:
    """Declare a function as a kernel of this signature; the default name is the function's."""

    def register(function: Callable[..., Any]) -> Kernel:
        declared = Kernel(name or function.__name__, function, signature, options, seconds)
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


@intrinsic
def add_chunk(
    typing_context: Any, out: Any, target: Any, state: Any, j: Any, rows: Any, weights: Any, n: Any,
    a: Any, b: Any, c: Any, p: Any, q: Any, r: Any,
) -> Any:  # fmt: skip
    """out[target + i] = sum over e < n of weights[e] state[rows[e] + j + i], for i < CHUNK.

    n: 3, 6, 9 ...; a, b, c and p, q, r: the first three rows and weights, which stay in registers.
    As one vector: a loop would first check that out and state do not overlap, which takes longer
    than such short sums.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(ir.DoubleType(), CHUNK)
        word = ir.IntType(64)
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), CHUNK), None)
        undefined = ir.Constant(vector, ir.Undefined)
        to, numbers, starts, factors = (
            context.make_array(signature.args[i])(context, builder, arguments[i]).data
            for i in (0, 2, 4, 5)
        )

        def locate(array: Any, at: Any) -> Any:
            return builder.bitcast(builder.gep(array, [at]), vector.as_pointer())

        def add_row(total: Any, start: Any, weight: Any) -> Any:
            row = builder.load(locate(numbers, builder.add(start, arguments[3])), align=8)
            weight = builder.insert_element(undefined, weight, ir.Constant(ir.IntType(32), 0))
            weight = builder.shuffle_vector(weight, undefined, lanes)
            product = builder.fmul(weight, row, flags=("contract",))
            return builder.fadd(total, product, flags=("contract",))

        total = ir.Constant(vector, None)
        for start, weight in zip(arguments[7:10], arguments[10:], strict=True):
            total = add_row(total, start, weight)
        stored = cgutils.alloca_once_value(builder, total)
        span = ir.Constant(word, 3), arguments[6], ir.Constant(word, 3)
        with cgutils.for_range_slice(builder, *span) as (first, _):
            total = builder.load(stored)
            for nth in range(3):
                e = builder.add(first, ir.Constant(word, nth))
                start, weight = (builder.load(builder.gep(x, [e])) for x in (starts, factors))
                total = add_row(total, start, weight)
            builder.store(total, stored)
        builder.store(builder.load(stored), locate(to, arguments[1]), align=8)
        return context.get_dummy_value()

    arguments = (out, target, state, j, rows, weights, n, a, b, c, p, q, r)
    return types.void(*arguments), generate


def _locate_pack(builder: Any, numbers: Any, at: Any) -> Any:
    """Return a pointer to the vector of PACK numbers from `at` on."""
    vector = ir.VectorType(ir.DoubleType(), PACK)
    return builder.bitcast(builder.gep(numbers, [at]), vector.as_pointer())


@intrinsic
def copy_pack(typing_context: Any, to: Any, target: Any, numbers: Any, first: Any) -> Any:
    """to[target + i] = numbers[first + i], for i < PACK."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        out, source = (
            context.make_array(signature.args[i])(context, builder, arguments[i]).data
            for i in (0, 2)
        )
        pack = builder.load(_locate_pack(builder, source, arguments[3]), align=8)
        builder.store(pack, _locate_pack(builder, out, arguments[1]), align=8)
        return context.get_dummy_value()

    return types.void(to, target, numbers, first), generate


@intrinsic
def subtract_row(
    typing_context: Any, rows: Any, target: Any, source: Any, pivot: Any, n: Any
) -> Any:
    """rows[target + i] -= rows[source + i % PACK] / rows[pivot + i % PACK] rows[source + i], i < n.

    n: a multiple of PACK. As vectors: a loop would first check that the two rows do not overlap,
    which takes longer than such short rows.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        numbers = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        target, source, pivot, n = arguments[1:]

        def load(at: Any) -> Any:
            return builder.load(_locate_pack(builder, numbers, at), align=8)

        factor = builder.fdiv(load(source), load(pivot))
        span = ir.Constant(word, 0), n, ir.Constant(word, PACK)
        with cgutils.for_range_slice(builder, *span) as (i, _):
            to = builder.add(target, i)
            product = builder.fmul(factor, load(builder.add(source, i)))
            difference = builder.fsub(load(to), product)
            builder.store(difference, _locate_pack(builder, numbers, to), align=8)
        return context.get_dummy_value()

    return types.void(rows, target, source, pivot, n), generate
