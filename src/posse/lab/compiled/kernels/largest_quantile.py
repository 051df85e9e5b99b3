"""The arm with the largest posterior quantile, which needs few quantiles.

Cheap bounds of the tails exclude most arms, approximate normal scores with bounded errors most of
the others, and quantiles are solved for only if these leave the winner open.
"""

from __future__ import annotations

import math

from posse.lab.compiled.jit import LANES, helper, use_wide_vectors, vectorised
from posse.lab.compiled.kernels.ties import play_best
from posse.lab.compiled.numerics.quantiles import BENT, UNKNOWN, bound_step, upper_quantile
from posse.lab.compiled.philox import U64

SOLVED = 1e-9  # an upper bound of the error of a solved quantile, in scores
# Grunbaum's inequality: a log-concave law has at least 1/e of its mass on each side of its mean.
_MEAN_IS_BELOW = 0.36
_BELOW_1 = 1.0 - 2.0**-53  # the largest float below 1
# Within this distance, in normal scores, a Newton step leaves an error below three times its
# square: the curvature of the score is below 3 for shapes from 1 on.
_STRAIGHT = 1e-3
_FAR = UNKNOWN
_VAGUE = 8.0
_RARE = 0.1  # the tails up to which `Posterior.ahead` is fine
_FARTHEST = 6.0  # the largest score for which these hold


@helper
def _refine_quantile(posterior, count, total, score, x):
    """Find x where the score of P(mean > x) is nearly `score`: x, its slope and its error.

    Newton's method from a point nearby; the error is UNKNOWN if it does not converge.
    """
    for _ in range(8):
        if not (total < x * count and x < posterior.highest):
            break
        there, slope, error = posterior.near_score(count, total, x)
        if error == UNKNOWN:
            break
        off = score - there
        x = _cap_estimate(posterior, x, x + off / slope)
        if abs(off) < _STRAIGHT:
            return x, slope, 3.0 * off * off + error
    return x, 1.0, UNKNOWN


# An open choice works on columns of scratch, `size` floats apart: three of results, then the arms
# of the rivals, their counts and totals. Rivals that are behind move to the end, and stay there.
_ARM, _COUNT, _TOTAL, _N_COLUMNS = 3, 4, 5, 6


@vectorised
def _gather_rivals(posterior, state, row, log_level, x, pivot, scratch, size, n_arms):
    """Gather the pivot and the arms whose tail beyond x may exceed the level; returns how many.

    Chernoff's bound is exp(-count kl(mean, x)), where kl is the integral of (y - mean) / v(y) from
    the mean to x, and v(y) the variance of a reward of mean y. Since 1/v is convex, Jensen's
    inequality bounds kl from below by (x - mean)^2 / 2 v(y) at the centre of the weights y - mean,
    which is y = (mean + 2x) / 3. The common bound takes the largest v below x instead, which is
    1/4 for any x above 1/2, and leaves clear choices open.
    """
    use_wide_vectors()
    arm = U64(_ARM) * size
    count = U64(_COUNT) * size
    total = U64(_TOTAL) * size
    twice = -2.0 * log_level
    for k in range(U64(0), n_arms):
        mean = state[row + n_arms + k] / state[row + k]
        apart = x - mean
        variance = posterior.unit_variance((mean + 2.0 * x) * (1.0 / 3.0))
        scratch[k] = twice * variance - apart * abs(apart) * state[row + k]
    scratch[pivot] = 0.0
    n = U64(0)
    for k in range(U64(0), n_arms):
        if scratch[k] >= 0.0:
            scratch[arm + n] = k
            scratch[count + n] = state[row + k]
            scratch[total + n] = state[row + n_arms + k]
            n += U64(1)
    return n


@helper
def _keep_rivals(scratch, size, n, bound, least):
    """Move the rivals whose bound, a column of results, is at least so large to the front.

    Returns how many they are. All columns move.
    """
    n_kept = U64(0)
    for k in range(U64(0), n):
        if scratch[bound + k] >= least:
            for column in range(U64(0), U64(_N_COLUMNS) * size, size):
                here, there = column + n_kept, column + k
                scratch[here], scratch[there] = scratch[there], scratch[here]
            n_kept += U64(1)
    return n_kept


@vectorised
def _copy_rivals(scratch, size, n):
    """Copy counts and totals to the columns of results, padded to whole vectors; returns how many.

    Loops that replace them are vectorised; LLVM does not check more columns for overlaps.
    """
    count = U64(_COUNT) * size
    total = U64(_TOTAL) * size
    for k in range(U64(0), n):
        scratch[k], scratch[size + k] = scratch[count + k], scratch[total + k]
    # a remainder would cost as much as a whole vector; what lies behind the rivals stays as it is
    padded = (n + U64(LANES - 1)) & ~U64(LANES - 1)
    for k in range(n, padded):
        scratch[k], scratch[size + k] = scratch[count], scratch[total]
    return padded


@vectorised
def _guess_quantiles(posterior, score, scratch, size, n):
    """Write the first guesses of the quantiles, and return the largest."""
    use_wide_vectors()
    for k in range(U64(0), _copy_rivals(scratch, size, n)):
        scratch[k] = posterior.start(scratch[k], scratch[size + k], score)
    x = scratch[0]
    for k in range(U64(1), n):
        x = max(x, scratch[k])
    return x


@vectorised
def _bound_quantiles(posterior, score, x, scratch, size, n):
    """Estimate each quantile, with an upper and a lower bound in the next two columns.

    Each is one step of Newton's method from x. A quantile too far below x for such a step has no
    lower bound; one too far above, or unknown, has no bound.
    """
    use_wide_vectors()
    lower = size + size
    for k in range(U64(0), _copy_rivals(scratch, size, n)):
        there, slope, error = posterior.near_score(scratch[k], scratch[size + k], x)
        is_known = error < 1.0
        off = score - there
        step = (1.0 if is_known else 0.0) / (slope if is_known else 1.0)
        lowest, highest = bound_step(off, error)
        # what is added depends on a condition, not what is stored: such a store would be slow
        scratch[k] = _cap_estimate(posterior, x, x + off * step)
        scratch[size + k] = x + highest * step + (0.0 if is_known & (off <= BENT) else _FAR)
        scratch[lower + k] = x + lowest * step - (0.0 if is_known & (abs(off) <= BENT) else _FAR)


@vectorised
def _cap_estimate(posterior, x, estimate):
    """Keep an estimate of Newton's method from x inside the range of the mean."""
    return min(estimate, x + 0.875 * (1.0 - x)) if posterior.highest == 1.0 else estimate


@vectorised
def _compare_with(posterior, score, log_level, hazard, x, scratch, size, n):
    """Compare each quantile with x.

    scratch: estimates of the quantiles; numbers that are positive if a quantile is certainly above
    x, negative if it is certainly below, and 0 if that is open; upper bounds of the quantiles.
    """
    use_wide_vectors()
    for k in range(U64(0), _copy_rivals(scratch, size, n)):
        ahead, step, error, farthest = posterior.ahead(
            scratch[k], scratch[size + k], x, score, log_level, hazard
        )
        scratch[k] = _cap_estimate(posterior, x, x + step) if error < 2.0 else x
        scratch[size + k] = max(ahead - error, 0.0) + min(ahead + error, 0.0)
        scratch[size + size + k] = x + farthest


@helper
def _separate_largest(posterior, score, log_level, hazard, scratch, size, n):
    """Look for an x with one quantile above and all others below; returns its rival, and if found.

    scratch: estimates of the quantiles. Between the two largest ones lies the next x. Estimates
    need no error bound, since only what was compared with x counts, or has an upper bound below it.
    Rivals with equal beliefs count as one.
    """
    count = U64(_COUNT) * size
    total = U64(_TOTAL) * size
    for nth in range(4):
        best = scratch[0]
        second = -_FAR
        for k in range(U64(1), n):
            estimate = scratch[k]
            if estimate > best:
                second = best
                best = estimate
            elif estimate < best:
                second = max(second, estimate)
        if second == -_FAR:  # equal estimates: of equal beliefs, or of different ones by accident
            break
        x = 0.5 * (best + second)
        n_before = n
        if nth > 0:
            n = _keep_rivals(scratch, size, n, size + size, x)
        _compare_with(posterior, score, log_level, hazard, x, scratch, size, n)
        winner = U64(0)
        n_open = 0
        for k in range(U64(0), n):
            n_open += scratch[size + k] >= 0.0
            if scratch[size + k] > scratch[size + winner]:
                winner = k
        if scratch[size + winner] > 0.0:
            for k in range(U64(0), n):  # the winner, and rivals that tie with it
                same = scratch[count + k] == scratch[count + winner]
                n_open -= same and scratch[total + k] == scratch[total + winner]
            if n_open == 0:
                return winner, True
        elif n < n_before:  # those left out were below this x, but nothing is known to be above
            break
    return U64(0), False


@helper
def _likely_largest(posterior, level, log_level, score, peak, is_vague, scratch, size, n):
    """Return the rival that probably has the largest quantile, and whether that is certain.

    It is certain if the bounds of the estimates exclude all others. Otherwise the rival with the
    largest estimate is the candidate, and x is nearly its quantile. The score of another one at x,
    with a bounded error, shows which of the two quantiles is larger; if the bound leaves that open,
    the exact tail decides.
    """
    lower = size + size
    x = _guess_quantiles(posterior, score, scratch, size, n)
    if level < _RARE and is_vague:
        winner, certain = _separate_largest(
            posterior, score, log_level, peak / level, scratch, size, n
        )
        if certain:
            return winner, True
    winner = U64(0)
    least = -_FAR
    for _ in range(2):  # the first guess of a wide posterior may be too far off
        _bound_quantiles(posterior, score, x, scratch, size, n)
        winner = U64(0)
        least = scratch[lower]
        for k in range(U64(1), n):
            if scratch[k] > scratch[winner]:
                winner = k
            least = max(least, scratch[lower + k])
        x = scratch[winner]
        if least > -_FAR or level < _RARE:
            break
    if scratch[lower + winner] == -_FAR:  # a sharp belief among wide ones is far from their guesses
        near, slope, off = _refine_quantile(
            posterior, scratch[U64(_COUNT) * size + winner], scratch[U64(_TOTAL) * size + winner],
            score, x,
        )  # fmt: skip
        if off != UNKNOWN:
            least = max(least, near - off / slope)
    n = _keep_rivals(scratch, size, n, size, least)
    if n == U64(1):
        return U64(0), True
    if level < _RARE:
        winner, certain = _separate_largest(
            posterior, score, log_level, peak / level, scratch, size, n
        )
        if certain:
            return winner, True
        # the estimates again, which the comparisons overwrote
        _bound_quantiles(posterior, score, x, scratch, size, n)
    winner = U64(0)
    for k in range(U64(1), n):
        if scratch[k] > scratch[winner]:
            winner = k
    return _settle_rivals(posterior, level, log_level, score, peak, winner, scratch, size, n)


@helper
def _settle_rivals(posterior, level, log_level, score, peak, winner, scratch, size, n):
    """Compare the rivals with a candidate one by one, by exact tails where scores do not decide.

    scratch: estimates and upper bounds. Returns a rival, and whether it certainly is the largest.
    """
    counts = U64(_COUNT) * size
    totals = U64(_TOTAL) * size
    count = scratch[counts + winner]
    total = scratch[totals + winner]
    x, slope, off = _refine_quantile(posterior, count, total, score, scratch[winner])
    fine = False  # whether x has been refined by the exact tail
    for k in range(U64(0), n):
        if off == UNKNOWN:
            return winner, False
        if k == winner or scratch[size + k] < x - off / slope:
            continue
        count_k = scratch[counts + k]
        total_k = scratch[totals + k]
        # far behind the least that the winner's quantile can be, by the common bound
        least_x = x - off / slope
        d = least_x * count_k - total_k
        if d > 0.0 and d * d > -2.0 * log_level * posterior.spread(least_x) * count_k:
            continue
        if count_k == count and total_k == total:
            continue
        there, slope_k, error = posterior.near_score(count_k, total_k, x)
        if error == UNKNOWN:
            return winner, False
        ahead = score - there
        doubt = error + 2.0 * off * slope_k / slope
        if ahead < -doubt:
            continue
        if ahead <= doubt:  # too close to tell
            if not fine:  # one step by the exact tail; slopes were at most an eighth off
                excess = (posterior.tail(count, total, x) - level) / peak
                fine = True
                x = x + excess / slope
                off = (0.25 + 5.0 * abs(excess)) * abs(excess) + SOLVED
            ahead = (posterior.tail(count_k, total_k, x) - level) / peak
            if not abs(ahead) > 2.0 * off * slope_k / slope + SOLVED:
                x = upper_quantile(posterior, count, total, level, x)
                off = SOLVED
                ahead = (posterior.tail(count_k, total_k, x) - level) / peak
            if not abs(ahead) > 2.0 * SOLVED:
                return winner, False
            if ahead < 0.0:
                continue
        winner = k
        count = count_k
        total = total_k
        fine = False
        x, slope, off = _refine_quantile(posterior, count, total, score, x + ahead / slope_k)
    return winner, off != UNKNOWN


@helper
def largest_quantile(
    posterior, state, row, level, log_level, score, peak, pivot, scratch, n_arms
):  # fmt: skip
    """Return an arm with the largest quantile, and the quantile, or NaN if it was not needed.

    An arm k cannot win if P(mean_k > q) < level for some q below the winner's quantile; that
    probability has a cheap bound. The first q is the pivot's total/count: for log-concave
    posteriors and level < 1/e it lies below the pivot's quantile. If other arms remain, q is the
    pivot's quantile itself, then the largest quantile so far.
    """
    count = state[row + pivot]
    total = state[row + n_arms + pivot]
    if level < _MEAN_IS_BELOW and score < _FARTHEST and posterior.is_log_concave(count, total):
        x = total / count
        threshold = -2.0 * log_level * posterior.spread(x)
        close = 0
        for k in range(U64(0), n_arms):
            d = x * state[row + k] - state[row + n_arms + k]
            close += (d * abs(d) <= threshold * state[row + k]) & (k != pivot)
        if close == 0:
            return pivot, math.nan
        size = (n_arms + U64(7)) & ~U64(7)
        n = _gather_rivals(posterior, state, row, log_level, x, pivot, scratch, size, n_arms)
        if n == U64(1):
            return pivot, math.nan
        # bounds of approximate scores are too wide if the pivot has few successes or failures
        is_vague = min(total, count - total) < _VAGUE and posterior.highest == 1.0
        likely, certain = _likely_largest(
            posterior, level, log_level, score, peak, is_vague, scratch, size, n
        )
        if certain:
            return U64(scratch[U64(_ARM) * size + likely]), math.nan
    winner = pivot
    quantile = upper_quantile(posterior, count, total, level, posterior.start(count, total, score))
    for k in range(U64(0), n_arms):
        # the solver's noise must not decide between arms with equal beliefs
        same = state[row + k] == state[row + winner]
        if not (same and state[row + n_arms + k] == state[row + n_arms + winner]):
            count = state[row + k]
            total = state[row + n_arms + k]
            d = quantile * count - total
            if d > 0.0:
                if d * d > -2.0 * log_level * posterior.spread(quantile) * count:
                    continue
                if posterior.tail_bound(count, total, quantile) < level:
                    continue
            if posterior.tail(count, total, quantile) > level:
                winner = k
                near = max(quantile, posterior.start(count, total, score))
                quantile = upper_quantile(posterior, count, total, level, near)
    return winner, quantile


@helper
def mark_ties(posterior, state, row, level, winner, quantile, scores, n_arms):
    """Give the arms that tie with the winner score 1, the others 0; returns how many tie.

    Arms with equal beliefs tie, since the noise of a solver must not decide between them; and arms
    whose quantiles round to the same end of the range.
    """
    count = state[row + winner]
    total = state[row + n_arms + winner]
    n_tied = 0
    for k in range(U64(0), n_arms):
        same = state[row + k] == count and state[row + n_arms + k] == total
        scores[k] = 1.0 if same else 0.0
        n_tied += same
    at_0 = quantile == 0.0
    at_1 = posterior.highest == 1.0 and quantile >= _BELOW_1
    if at_0 or at_1:
        n_tied = 0
        for k in range(U64(0), n_arms):  # none is larger than the winner's
            same = (
                at_0 or posterior.tail(state[row + k], state[row + n_arms + k], _BELOW_1) >= level
            )
            scores[k] = 1.0 if same else 0.0
            n_tied += same
    return n_tied


@helper
def play_largest_quantile(
    posterior, state, row, level, log_level, score, peak, pivot, scratch,
    stream, n_arms, agent, t, run, key0, key1,
):  # fmt: skip
    """Return the arm with the largest quantile, ties broken at random, and the next pivot."""
    winner, quantile = largest_quantile(
        posterior, state, row, level, log_level, score, peak, pivot, scratch, n_arms
    )
    tied = scratch[:n_arms]
    if mark_ties(posterior, state, row, level, winner, quantile, tied, n_arms) > 1:
        return play_best(tied, stream, agent, t, run, key0, key1), winner
    return winner, winner
