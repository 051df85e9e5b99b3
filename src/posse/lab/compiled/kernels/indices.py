"""Kernels of Bayes-UCB and Greedy (the largest index, ties at random) and of Uniform.

Bayes-UCB needs the arm with the largest posterior quantile, not the quantiles. Cheap bounds of the
tails exclude most arms, approximate normal scores with bounded errors most of the others, and
quantiles are solved for only if these leave the winner open.
"""

from __future__ import annotations

import math

from posse.lab.compiled.jit import KERNEL, helper, kernel, use_wide_vectors, vectorised
from posse.lab.compiled.numerics.quantiles import UNKNOWN, upper_quantile
from posse.lab.compiled.numerics.special import normal_score
from posse.lab.compiled.philox import TIE, U64, open_stream, pick_tied
from posse.lab.compiled.posteriors import GAUSSIAN, POSTERIORS, STUDENT
from posse.lab.compiled.posteriors.student import VAGUE, near_quantile, student_quantile
from posse.lab.compiled.records import CHOOSE, IDLE

# Grunbaum's inequality: a log-concave law has at least 1/e of its mass on each side of its mean.
_MEAN_IS_BELOW = 0.36
_BELOW_1 = 1.0 - 2.0**-53  # the largest float below 1
# Within this distance, in normal scores, a Newton step leaves an error below three times its
# square: the curvature of the score is below 3 for shapes from 1 on.
_STRAIGHT = 1e-3
# Beyond it, but within _BENT, a step leaves less than (_BEND + _BEND_MORE off^2) off^2 besides the
# error of the score itself: twice the largest error seen, for shapes from 1 on, scores up to 6.
_BENT = 0.1
_BEND = 0.25
_BEND_MORE = 110.0
_FAR = 1e30
_VAGUE = 8.0
_RARE = 0.1  # the tails up to which `Posterior.ahead` is fine
_FARTHEST = 6.0  # the largest score for which these hold
_SOLVED = 1e-9  # an upper bound of the error of a solved quantile, in scores
_UNKNOWN_ERROR = 1e20  # any bound of an error above this one says nothing


@helper
def play_best(scores, stream, agent, t, run, key0, key1):
    """Return the arm with the largest score, ties broken at random."""
    arm = U64(0)
    best = scores[0]
    n_tied = 1
    for k in range(1, scores.size):
        if scores[k] > best:
            arm = U64(k)
            best = scores[k]
            n_tied = 1
        elif scores[k] == best:
            n_tied += 1
    if n_tied > 1:
        open_stream(stream, agent, t, run, TIE, key0, key1)
        return pick_tied(scores, best, n_tied, stream)
    return arm


@helper
def _play_any(scores, stream, agent, t, run, key0, key1):
    """Return a random arm: no index differs from another, or none matters."""
    for k in range(scores.size):
        scores[k] = 0.0
    return play_best(scores, stream, agent, t, run, key0, key1)


@kernel(CHOOSE, **KERNEL)
def choose_nothing(
    state, store, shared, level, table, arms, pivots, eager, close, scratch, spare,
    stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Do nothing, for policies without an eager kernel."""


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


@vectorised
def _copy_row(state, row, scratch, stride, n_arms):
    """Copy the counts and totals of a row, each padded to whole vectors."""
    for k in range(U64(0), n_arms):
        scratch[k], scratch[stride + k] = state[row + k], state[row + n_arms + k]
    for k in range(n_arms, stride):
        scratch[k], scratch[stride + k] = scratch[U64(0)], scratch[stride]


@vectorised
def _guess_quantile(posterior, state, row, score, scratch, stride, n_arms):
    """Return the largest first guess of a quantile."""
    use_wide_vectors()
    _copy_row(state, row, scratch, stride, n_arms)
    at = stride + stride
    for k in range(U64(0), stride):
        scratch[at + k] = posterior.start(scratch[k], scratch[stride + k], score)
    x = scratch[at]
    for k in range(U64(1), n_arms):
        x = max(x, scratch[at + k])
    return x


@vectorised
def _bound_quantiles(posterior, state, row, score, x, scratch, stride, n_arms):
    """Estimate each arm's quantile with an upper and a lower bound, vectorised over arms.

    scratch: estimates, upper bounds and lower bounds, `stride` apart, in place of counts and totals
    (LLVM does not vectorise more columns). Each is one step of Newton's method from x. A quantile
    too far below x for such a step has no lower bound; one too far above, or unknown, has no bound.
    """
    use_wide_vectors()
    _copy_row(state, row, scratch, stride, n_arms)
    lower = stride + stride
    for k in range(U64(0), stride):
        there, slope, error = posterior.near_score(scratch[k], scratch[stride + k], x)
        is_known = error < 1.0
        off = score - there
        near = max(off, -_BENT)
        step = 1.0 / (slope if is_known else 1.0)
        square = near * near
        doubt = error + (_BEND + _BEND_MORE * square) * square
        scratch[k] = _cap_estimate(posterior, x, x + off * step) if is_known else x
        scratch[stride + k] = x + (near + doubt) * step if is_known & (off <= _BENT) else _FAR
        scratch[lower + k] = x + (near - doubt) * step if is_known & (abs(off) <= _BENT) else -_FAR


@vectorised
def _cap_estimate(posterior, x, estimate):
    """Keep an estimate of Newton's method from x inside the range of the mean."""
    return min(estimate, x + 0.875 * (1.0 - x)) if posterior.highest == 1.0 else estimate


@vectorised
def _compare_with(posterior, state, row, score, log_level, hazard, x, scratch, stride, n_arms):
    """Compare each arm's quantile with x, vectorised over arms.

    scratch: estimates of the quantiles, how far they are above x in scores, and bounds of the error
    of that, `stride` apart.
    """
    use_wide_vectors()
    _copy_row(state, row, scratch, stride, n_arms)
    for k in range(U64(0), stride):
        ahead, step, error = posterior.ahead(
            scratch[k], scratch[stride + k], x, score, log_level, hazard
        )
        scratch[k] = _cap_estimate(posterior, x, x + step) if error < 2.0 else x
        scratch[stride + k] = ahead
        scratch[stride + stride + k] = error


@helper
def _separate_largest(
    posterior, state, row, score, log_level, hazard, scratch, stride, n_arms
):  # fmt: skip
    """Look for an x with one quantile above and all others below; returns its arm, and if found.

    scratch: estimates of the quantiles, stride: of its columns. Between the two largest ones lies
    the next x. Estimates need no error bound, since only what was compared with x counts. Arms with
    equal beliefs count as one.
    """
    winner = U64(0)
    for _ in range(4):
        winner = U64(0)
        best = scratch[0]
        second = -_FAR
        for k in range(U64(1), n_arms):
            estimate = scratch[k]
            if estimate > best:
                winner = k
                second = best
                best = estimate
            elif estimate < best:
                second = max(second, estimate)
        if second == -_FAR:  # equal estimates: of equal beliefs, or of different ones by accident
            break
        x = 0.5 * (best + second)
        _compare_with(
            posterior, state, row, score, log_level, hazard, x, scratch, stride, n_arms
        )  # fmt: skip
        for k in range(U64(0), n_arms):
            if scratch[stride + k] > scratch[stride + winner]:
                winner = k
        n_open = 0
        for k in range(U64(0), n_arms):
            ahead = scratch[stride + k]
            error = scratch[stride + stride + k]
            n_open += not ahead < -error
            if error == UNKNOWN:
                return winner, False
        if scratch[stride + winner] > scratch[stride + stride + winner]:
            for k in range(U64(0), n_arms):  # the winner, and arms that tie with it
                same = state[row + k] == state[row + winner]
                n_open -= same and state[row + n_arms + k] == state[row + n_arms + winner]
            if n_open == 0:
                return winner, True
    return winner, False


@helper
def _likely_largest(
    posterior, state, row, level, log_level, score, peak, is_vague, scratch, n_arms
):
    """Return the arm that probably has the largest quantile, and whether that is certain.

    It is certain if the bounds of the estimates exclude all other arms. Otherwise the arm with the
    largest estimate is the candidate, and x is nearly its quantile. The score of another arm at x,
    with a bounded error, shows which of the two quantiles is larger; if the bound leaves that open,
    the exact tail decides.
    """
    stride = (n_arms + U64(7)) & ~U64(7)  # whole vectors: a remainder would cost as much
    lower = stride + stride
    x = _guess_quantile(posterior, state, row, score, scratch, stride, n_arms)
    winner = U64(0)
    least = -_FAR
    if level < _RARE and is_vague:
        for k in range(U64(0), n_arms):
            scratch[k] = scratch[lower + k]  # the guesses
        winner, certain = _separate_largest(
            posterior, state, row, score, log_level, peak / level, scratch, stride, n_arms
        )
        if certain:
            return winner, True
    for _ in range(2):  # the first guess of a wide posterior may be too far off
        _bound_quantiles(posterior, state, row, score, x, scratch, stride, n_arms)
        winner = U64(0)
        x = scratch[0]
        least = scratch[lower]
        for k in range(U64(1), n_arms):
            if scratch[k] > x:
                winner = k
                x = scratch[k]
            least = max(least, scratch[lower + k])
        if least > -_FAR or level < _RARE:
            break
    rivals = 0
    for k in range(U64(0), n_arms):
        rivals += (scratch[stride + k] >= least) & (k != winner)
    if rivals == 0:
        return winner, True
    if level < _RARE:
        separate, certain = _separate_largest(
            posterior, state, row, score, log_level, peak / level, scratch, stride, n_arms
        )
        if certain:
            return separate, True
        # the bounds again, which the comparisons overwrote
        _bound_quantiles(posterior, state, row, score, x, scratch, stride, n_arms)
        least = -_FAR
        for k in range(U64(0), n_arms):
            least = max(least, scratch[lower + k])
    count = state[row + winner]
    total = state[row + n_arms + winner]
    x, slope, off = _refine_quantile(posterior, count, total, score, x)
    fine = False  # whether x has been refined by the exact tail
    for k in range(U64(0), n_arms):
        if off == UNKNOWN:
            return winner, False
        if k == winner or scratch[stride + k] < max(least, x - off / slope):
            continue
        count_k = state[row + k]
        total_k = state[row + n_arms + k]
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
                off = (0.25 + 5.0 * abs(excess)) * abs(excess) + _SOLVED
            ahead = (posterior.tail(count_k, total_k, x) - level) / peak
            if not abs(ahead) > 2.0 * off * slope_k / slope + _SOLVED:
                x = upper_quantile(posterior, count, total, level, x)
                off = _SOLVED
                ahead = (posterior.tail(count_k, total_k, x) - level) / peak
            if not abs(ahead) > 2.0 * _SOLVED:
                return winner, False
            if ahead < 0.0:
                continue
        winner = k
        count = count_k
        total = total_k
        fine = False
        x, slope, off = _refine_quantile(posterior, count, total, score, x + ahead / slope_k)
    return winner, off != UNKNOWN


@vectorised
def _gather_rivals(posterior, state, row, log_level, x, pivot, scratch, n_arms):
    """Copy the pivot's row and those of the arms whose tails beyond x may exceed the level.

    scratch: their arms, then counts and totals in place of a row; returns how many they are.

    Chernoff's bound is exp(-count kl(mean, x)), where kl is the integral of (y - mean) / v(y) from
    the mean to x and v the variance of a reward of mean y. Since 1/v is convex, Jensen's inequality
    bounds kl from below by (x - mean)^2 / 2 v(y) at the centre of these weights, y = (mean + 2x)/3.
    This is sharp up to the third order, while the common bound takes the largest v in between.
    """
    use_wide_vectors()
    twice = -2.0 * log_level
    for k in range(U64(0), n_arms):
        mean = state[row + n_arms + k] / state[row + k]
        apart = x - mean
        variance = posterior.unit_variance((mean + 2.0 * x) * (1.0 / 3.0))
        scratch[k] = apart * abs(apart) * state[row + k] - twice * variance
    scratch[pivot] = 0.0
    n_rivals = U64(0)
    for k in range(U64(0), n_arms):
        is_rival = scratch[k] <= 0.0
        scratch[n_rivals] = k
        n_rivals += U64(is_rival)
    for nth in range(U64(0), n_rivals):
        k = U64(scratch[nth])
        scratch[n_arms + nth] = state[row + k]
        scratch[n_arms + n_rivals + nth] = state[row + n_arms + k]
    return n_rivals


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
        n_rivals = _gather_rivals(posterior, state, row, log_level, x, pivot, scratch, n_arms)
        if n_rivals == U64(1):
            return pivot, math.nan
        # bounds of approximate scores are too wide if the pivot has few successes or failures
        is_vague = min(total, count - total) < _VAGUE and posterior.highest == 1.0
        likely, certain = _likely_largest(
            posterior, scratch, n_arms, level, log_level, score, peak, is_vague,
            scratch[n_arms + n_arms + n_arms :], n_rivals,
        )  # fmt: skip
        if certain:
            return U64(scratch[likely]), math.nan
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
            or STUDENT.tail(count, total, shape, least) < level * (1.0 - _SOLVED)
        ):
            scratch[k] = -VAGUE
            continue
        deviation = 1.0 / math.sqrt(count)
        scratch[k] = total / count + student_quantile(shape, level, score) * deviation
        scratch[n_arms + k] = _SOLVED * deviation
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
            if scratch[k] > -VAGUE and scratch[n_arms + k] * math.sqrt(count) > 2.0 * _SOLVED:
                quantile = student_quantile(shape, level, score)
                scratch[k] = total / count + quantile / math.sqrt(count)
    winner = play_best(scratch[:n_arms], stream, agent, t, run, key0, key1)
    return winner, winner


def find_play_of(posterior):
    """Return the function that plays the largest quantile of a posterior."""
    return play_student_quantile if posterior is STUDENT else play_largest_quantile


def _greedy_kernel_of(name, posterior):
    """Declare the Greedy kernel of one posterior."""

    @kernel(CHOOSE, name=f"choose_greedy_{name}", **KERNEL)
    def choose_greedy(
        state, store, shared, level, table, arms, pivots, eager, close, scratch, spare,
        stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
    ):  # fmt: skip
        """Choose the largest posterior mean."""
        scores = scratch[:n_arms]
        for i in range(lo, hi):
            if arms[i] == IDLE:
                arms[i] = 0
                continue
            slot = i // n_agents
            row = (slot if shared else i) * U64(posterior.n_planes) * n_arms
            for k in range(U64(0), n_arms):
                scores[k] = posterior.mean(*posterior.read(state, row + k, n_arms))
            agent = i - slot * n_agents
            run = first_run + slot
            arms[i] = play_best(scores, stream, agent, t, run, key0, key1)


@kernel(CHOOSE, name="choose_uniform", **KERNEL)
def choose_uniform(
    state, store, shared, level, table, arms, pivots, eager, close, scratch, spare,
    stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Choose any arm, whatever the belief."""
    scores = scratch[:n_arms]
    for i in range(lo, hi):
        slot = i // n_agents
        agent = i - slot * n_agents
        arms[i] = _play_any(scores, stream, agent, t, first_run + slot, key0, key1)


def _bayes_ucb_kernel_of(name, posterior):
    """Declare the Bayes-UCB kernel of one posterior."""
    play_quantile = find_play_of(posterior)

    @kernel(CHOOSE, name=f"choose_bayes_ucb_{name}", seconds=2, **KERNEL)
    def choose_bayes_ucb(
        state, store, shared, level, table, arms, pivots, eager, close, scratch, spare,
        stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
    ):  # fmt: skip
        """Choose the largest posterior quantile (Alg. `decent_bayesUCB`); level: the tail 1/t."""
        at_end = level <= 0.0 or level >= 1.0
        score = 0.0 if at_end else normal_score(level)
        log_level = 0.0 if at_end else math.log(level)
        peak = 0.3989422804014327 * math.exp(-0.5 * score * score)  # the normal density there
        for i in range(lo, hi):
            if arms[i] == IDLE:
                arms[i] = 0
                continue
            slot = i // n_agents
            row = (slot if shared else i) * U64(posterior.n_planes) * n_arms
            agent = i - slot * n_agents
            run = first_run + slot
            if at_end:
                arms[i] = _play_any(scratch[:n_arms], stream, agent, t, run, key0, key1)
                continue
            arms[i], pivots[i] = play_quantile(
                posterior, state, row, level, log_level, score, peak, U64(pivots[i]), scratch,
                stream, n_arms, agent, t, run, key0, key1,
            )  # fmt: skip


@kernel(CHOOSE, name="choose_bayes_ucb_GAUSSIAN", **KERNEL)
def choose_bayes_ucb_gaussian(
    state, store, shared, level, table, arms, pivots, eager, close, scratch, spare,
    stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Choose by Bayes-UCB with Gaussian quantiles, which have a closed form."""
    scores = scratch[:n_arms]
    at_end = level <= 0.0 or level >= 1.0
    score = 0.0 if at_end else normal_score(level)
    for i in range(lo, hi):
        if arms[i] == IDLE:
            arms[i] = 0
            continue
        slot = i // n_agents
        row = (slot if shared else i) * U64(2) * n_arms
        agent = i - slot * n_agents
        run = first_run + slot
        if at_end:
            arms[i] = _play_any(scores, stream, agent, t, run, key0, key1)
            continue
        for k in range(U64(0), n_arms):
            count = state[row + k]
            total = state[row + n_arms + k]
            scores[k] = total / count + score / math.sqrt(count)
        arms[i] = play_best(scores, stream, agent, t, run, key0, key1)


for _name, _posterior in POSTERIORS.items():
    _greedy_kernel_of(_name, _posterior)
    if _posterior is not GAUSSIAN:
        _bayes_ucb_kernel_of(_name, _posterior)
