"""The record of a posterior: the small functions that policy kernels call.

A family with a kernel stores a count and a total per arm, and both equations of the paper act on
them alike: an observation y adds rate to the count and rate * y to the total, a merge averages
both. A family that learns a variance also stores the sum of squares, to which y adds rate * y^2;
`student.standardise_rows` makes count, total and shape of it, and kernels choose by these three.

Every posterior has P(mean > x) <= factor exp(-d^2 / (2 spread(x) count)), d = x count - total > 0:
Chernoff's bound, its exponent bounded from below by a parabola (`is_within_parabola`; a heavy tail
has another `is_near`). Comparing it with a threshold needs no division and no exp.
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

from posse.lab.compiled.jit import inline_here, vectorised


@vectorised
def read_pair(state, at, n_arms):
    """Return count and total of the arm at this place of a row."""
    inline_here()
    return state[at], state[at + n_arms]


@vectorised
def is_within_parabola(count, total, d, threshold):
    """Whether the exponent of the common tail bound, d^2 / count, is below a threshold."""
    inline_here()
    return d * abs(d) <= threshold * count


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior law of a mean, as functions of a belief (count, total), or with a shape too.

    Policies are compiled once for each posterior, with its own functions only. These functions have
    distinct names, since numba distinguishes by name what it links.
    """

    name: str
    factor: float  # of the common tail bound
    highest: float  # upper end of the range of the mean, 1 or infinity
    worth: int  # vectorised draws that cost as much as one scalar draw
    mean: Any  # (count, total ...): the mean's expectation
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
    # (count, total, x, score, log_level, hazard): how far the quantile of a normal score, with its
    # log-tail and hazard, is above x: in scores, in x roughly, an error bound of the first, and an
    # upper bound of the distance in x (UNKNOWN where there is none)
    ahead: Any
    is_log_concave: Any  # (count, total): then 1/e of the mass lies above the mean
    two_gammas: bool  # whether a draw takes two Gamma variates, and not one
    shapes: Any  # (count, total): their shapes; None if draws take no Gammas
    from_gammas: Any  # (count, total, first, second): the draw
    # of top-two sampling:
    unit_variance: Any  # (mean): the variance of a reward, up to a constant factor
    # (count, total ...): rewards that would leave a mean as uncertain, up to that factor
    pulls: Any
    sample_pivots: Any  # many draws at once, one arm an agent (see `gamma_variates`)
    sample_all: Any  # many draws at once, all arms
    n_planes: int = 2  # numbers per arm
    read: Any = read_pair  # (state, at, n_arms): the belief of an arm, these numbers
    # (count, total ..., d, threshold): whether the common tail bound does not exclude the arm;
    # threshold: minus twice the logarithm of bound / factor, times the spread
    is_near: Any = is_within_parabola

    def __reduce__(self) -> Any:
        # by name, since numba's cache needs the same bytes in every process
        from posse.lab.compiled.posteriors import find_posterior

        return find_posterior, (self.name,)


class PosteriorType(types.Opaque):  # type: ignore[misc]
    """The numba type of a posterior: one type per posterior, a compile-time constant."""

    def __init__(self, posterior: Posterior) -> None:
        self.posterior = posterior
        super().__init__(f"Posterior({posterior.name})")


# How numba treats a posterior: a type with constant attributes, and no data at run time.


@typeof_impl.register(Posterior)
def _type_of(posterior, context):
    return PosteriorType(posterior)


register_model(PosteriorType)(models.OpaqueModel)


@lower_constant(PosteriorType)
def _lower_constant(context, builder, kind, posterior):
    return context.get_dummy_value()


@unbox(PosteriorType)
def _unbox_posterior(kind, posterior, c):
    return NativeValue(c.context.get_dummy_value())


@infer_getattr
class _Attributes(AttributeTemplate):  # type: ignore[misc]
    key = PosteriorType

    def generic_resolve(self, kind, name):
        return self.context.resolve_value_type(getattr(kind.posterior, name))


@lower_getattr_generic(PosteriorType)
def _lower_attribute(context, builder, kind, value, name):
    attribute = getattr(kind.posterior, name)
    if isinstance(attribute, Dispatcher):  # called by its type
        return context.get_dummy_value()
    attribute_type = context.typing_context.resolve_value_type(attribute)
    return context.get_constant_generic(builder, attribute_type, attribute)
