"""The arm with the largest quantile of Student posteriors, whose quantiles have a series."""

from __future__ import annotations

import math

from posse.lab.compiled.jit import helper, use_wide_vectors, vectorised
from posse.lab.compiled.kernels.largest_quantile import SOLVED
from posse.lab.compiled.kernels.ties import play_best
from posse.lab.compiled.philox import U64
from posse.lab.compiled.posteriors import STUDENT
from posse.lab.compiled.posteriors.student import VAGUE, near_quantile, student_quantile

_UNKNOWN_ERROR = 1e20  # any bound of an error above this one says nothing


@vectorised
def _fill_student_quantiles(state, row, score, scratch, n_arms):
    """Estimate every arm's quantile by a series, and bound its error: scratch, (2, K)."""
    use_wide_vectors()
    for k in range(U64(0), n_arms):
        count, total, shape = STUDENT.read(state, row + k, n_arms)
        deviation = 1.0 / math.sqrt(count)
        t, error = near_quantile(shape, score)
        scratch[k] = total / count + t * deviation
        # besides the series, the rounding of this sum
        scratch[n_arms + k] = error * deviation + 1e-15 * (abs(total / count) + abs(t) * deviation)


@helper
def _has_belief_of(state, row, k, other, n_arms):
    """Whether two arms have equal Student beliefs."""
    same = STUDENT.read(state, row + k, n_arms) == STUDENT.read(state, row + other, n_arms)
    return bool(same)


@helper
def _solve_vague_quantiles(state, row, level, score, pivot, scratch, n_arms):
    """Replace the estimates of unknown error by exact quantiles, where these may be the largest.

    Returns a lower bound of the largest quantile. A quantile is below x if the tail beyond x, or a
    bound of it, is below the level.
    """
    least = -VAGUE
    for k in range(U64(0), n_arms):
        if scratch[n_arms + k] < _UNKNOWN_ERROR:
            least = max(least, scratch[k] - scratch[n_arms + k])
    solved = n_arms
    for nth in range(U64(0), n_arms):
        k = (pivot + nth) % n_arms
        if scratch[n_arms + k] < _UNKNOWN_ERROR:
            continue
        if solved < n_arms and _has_belief_of(state, row, k, solved, n_arms):
            scratch[k], scratch[n_arms + k] = scratch[solved], scratch[n_arms + solved]
            continue
        count, total, shape = STUDENT.read(state, row + k, n_arms)
        scratch[n_arms + k] = 0.0
        if least * count > total and (
            STUDENT.tail_bound(count, total, shape, least) < level
            or STUDENT.tail(count, total, shape, least) < level * (1.0 - SOLVED)
        ):
            scratch[k] = -VAGUE
            continue
        deviation = 1.0 / math.sqrt(count)
        scratch[k] = total / count + student_quantile(shape, level, score) * deviation
        scratch[n_arms + k] = SOLVED * deviation
        least = max(least, scratch[k] - scratch[n_arms + k])
        solved = k
    return least


@helper
def play_student_quantile(
    posterior, state, row, level, log_level, score, peak, pivot, scratch,
    stream, n_arms, agent, t, run, key0, key1,
):  # fmt: skip
    """`play_largest_quantile` of the Student posterior, whose quantiles have a series.

    Exact ones are solved for only if the errors of the series leave the winner open.
    """
    _fill_student_quantiles(state, row, score, scratch, n_arms)
    least = _solve_vague_quantiles(state, row, level, score, pivot, scratch, n_arms)
    first = n_arms
    alike = True
    for k in range(U64(0), n_arms):
        if scratch[k] + scratch[n_arms + k] < least:
            scratch[k] = -VAGUE
            continue
        first = min(first, k)
        alike = alike and _has_belief_of(state, row, k, first, n_arms)
    if not alike:  # arms with equal beliefs tie whatever the errors
        for k in range(first, n_arms):
            count, total, shape = STUDENT.read(state, row + k, n_arms)
            # the solver is not better than that
            if scratch[k] > -VAGUE and scratch[n_arms + k] * math.sqrt(count) > 2.0 * SOLVED:
                quantile = student_quantile(shape, level, score)
                scratch[k] = total / count + quantile / math.sqrt(count)
    winner = play_best(scratch[:n_arms], stream, agent, t, run, key0, key1)
    return winner, winner
