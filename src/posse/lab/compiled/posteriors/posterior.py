"""What kernels know of a kind of belief: a record of small functions, one record a kind.

Every family with a kernel keeps two numbers per arm, and both equations of the paper act alike on
them: an observation y adds rate to the count and rate * y to the total, a merge averages both.

For every kind P(mean > x) <= factor exp(-d^2 / (2 spread(x) count)) with d = x count - total > 0:
Chernoff's bound, its exponent bounded from below by a parabola.  It needs no division and no exp to
compare with a threshold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numba import types
from numba.core.dispatcher import Dispatcher
from numba.core.imputils import lower_constant
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)


@dataclass(frozen=True, eq=False)
class Belief:
    """One kind of belief about a mean, read from a pair (count, total).

    Policies are compiled once for each kind, with only its own functions.  These have names of
    their own, since numba tells apart by them what it links.
    """

    name: str
    factor: float  # of the common tail bound
    highest: float  # the end of the range of the mean, 1 or infinity; the other is 0 if it is used
    worth: int  # vectorised draws that cost as much as one of `sample`
    mean: Any  # (count, total): the mean's expectation
    spread: Any  # (x): the variance-like factor of the common tail bound at x
    sample: Any  # (count, total, stream): one draw of the mean
    tail: Any  # (count, total, x): P(mean > x)
    # (count, total, x): an upper bound of it for x above total/count, at most the common one
    tail_bound: Any
    # (count, total, x, stream): one draw given that it is above x, where x is beyond the mode
    sample_tail: Any
    density: Any  # (count, total, x): the density of the mean at x, and the slope of its logarithm
    start: Any  # (count, total, score): a point near the quantile of a standard normal score
    # (count, total, x): about the normal score of P(mean > x), its slope in x, and a bound of its
    # error (UNKNOWN where there is none)
    near_score: Any
    is_log_concave: Any  # (count, total): whether the density is, so that 1/e lies above the mean
    two_gammas: bool  # whether a draw takes two Gamma variates, and not one
    shapes: Any  # (count, total): their shapes; of kinds that are not drawn by Gammas None
    from_gammas: Any  # (count, total, first, second): the draw
    sample_pivots: Any  # many draws at once, one arm an agent (see `gammas`)
    sample_all: Any  # many draws at once, all arms

    def __reduce__(self) -> Any:
        # by name: numba's cache asks for the same bytes in every process
        from posse.lab.compiled.posteriors import named

        return named, (self.name,)


class BeliefType(types.Opaque):  # type: ignore[misc]
    """A kind as kernels see it: a type of its own, all of which is known when they are compiled."""

    def __init__(self, belief: Belief) -> None:
        self.belief = belief
        super().__init__(f"Belief({belief.name})")


@typeof_impl.register(Belief)
def _type_of(belief, context):
    return BeliefType(belief)


register_model(BeliefType)(models.OpaqueModel)


@lower_constant(BeliefType)
def _constant(context, builder, kind, belief):
    return context.get_dummy_value()


@unbox(BeliefType)
def _unbox(kind, belief, c):
    return NativeValue(c.context.get_dummy_value())


@infer_getattr
class _Attributes(AttributeTemplate):  # type: ignore[misc]
    key = BeliefType

    def generic_resolve(self, kind, name):
        return self.context.resolve_value_type(getattr(kind.belief, name))


@lower_getattr_generic(BeliefType)
def _attribute(context, builder, kind, value, name):
    attribute = getattr(kind.belief, name)
    if isinstance(attribute, Dispatcher):  # called by its type
        return context.get_dummy_value()
    known = context.typing_context.resolve_value_type(attribute)
    return context.get_constant_generic(builder, known, attribute)
