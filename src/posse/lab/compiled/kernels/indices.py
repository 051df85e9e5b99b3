"""Index policies: Bayes-UCB and Greedy, the arm with the largest index, ties broken at random."""

from __future__ import annotations

import math

from posse.lab.compiled.jit import KERNEL, helper, kernel, use_wide_vectors, vectorised
from posse.lab.compiled.numerics.normal_scores import UNKNOWN
from posse.lab.compiled.numerics.quantiles import upper_quantile
from posse.lab.compiled.numerics.special import normal_score
from posse.lab.compiled.philox import TIE, U64, open_stream, pick_tied
from posse.lab.compiled.posteriors import BELIEFS, GAUSSIAN
from posse.lab.compiled.signatures import CHOOSE

# Grunbaum's inequality: a log-concave law has at least 1/e of its mass on each side of its mean.
_MEAN_IS_BELOW = 0.36
_BELOW_1 = 1.0 - 2.0**-53  # the largest float below 1
# So near, in normal scores, a step leaves less than three times the square of its length: the
# score's curvature is below 3 for shapes from 1 on.
_STRAIGHT = 1e-3
# Farther off, but within _BENT, a step leaves less than (_BEND + _BEND_MORE off^2) off^2 besides
# the error of the score itself: twice the most seen, for shapes from 1 on and scores up to 6.
_BENT = 0.1
_BEND = 0.25
_BEND_MORE = 110.0
_FAR = 1e30
_FARTHEST = 6.0  # the largest score for which these hold
_SOLVED = 1e-9  # how far off a solved quantile is, in scores, and more


@helper
def play_best(scores, stream, agent, t, run, key0, key1):
    """The arm with the largest score."""
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
    """Any arm: every index is the same end of the range."""
    for k in range(scores.size):
        scores[k] = 0.0
    return play_best(scores, stream, agent, t, run, key0, key1)


@kernel(CHOOSE, **KERNEL)
def choose_nothing(
    state, store, shared, level, table, arms, pivots, eager, close, scratch, spare,
    stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """For policies without an eager kernel."""


@helper
def _locate(belief, count, total, score, x):
    """Where the score of P(mean > x) is nearly `score`: x, the slope there, and how far it is off.

    Newton's method from a point nearby; off is UNKNOWN where that does not get there.
    """
    for _ in range(8):
        if not (total < x * count and x < belief.highest):
            break
        there, slope, error = belief.near_score(count, total, x)
        if error == UNKNOWN:
            break
        off = score - there
        x += off / slope
        if abs(off) < _STRAIGHT:
            return x, slope, 3.0 * off * off + error
    return x, 1.0, UNKNOWN


@vectorised
def _fill(state, row, scratch, stride, n_arms):
    """A row's counts and totals, each filled up to whole vectors."""
    for k in range(U64(0), n_arms):
        scratch[k], scratch[stride + k] = state[row + k], state[row + n_arms + k]
    for k in range(n_arms, stride):
        scratch[k], scratch[stride + k] = scratch[U64(0)], scratch[stride]


@vectorised
def _guess(belief, state, row, score, scratch, stride, n_arms):
    """The largest first guess of a quantile."""
    use_wide_vectors()
    _fill(state, row, scratch, stride, n_arms)
    at = stride + stride
    for k in range(U64(0), stride):
        scratch[at + k] = belief.start(scratch[k], scratch[stride + k], score)
    x = scratch[at]
    for k in range(U64(1), n_arms):
        x = max(x, scratch[at + k])
    return x


@vectorised
def _estimate(belief, state, row, score, x, scratch, stride, n_arms):
    """Each arm's quantile, nearly, and between what bounds it lies: vectorised over the arms.

    scratch: estimates, upper bounds and lower bounds, `stride` apart, in place of counts and totals
    (LLVM gives up on more columns).  Each is one step of Newton's method from x.  Quantiles farther
    below x than such a step is good for have no lower bound, those farther above and unknown ones
    none at all.
    """
    use_wide_vectors()
    _fill(state, row, scratch, stride, n_arms)
    lower = stride + stride
    for k in range(U64(0), stride):
        there, slope, error = belief.near_score(scratch[k], scratch[stride + k], x)
        known = error < 1.0
        off = score - there
        near = max(off, -_BENT)
        step = 1.0 / (slope if known else 1.0)
        square = near * near
        doubt = error + (_BEND + _BEND_MORE * square) * square
        scratch[k] = x + off * step if known else x
        scratch[stride + k] = x + (near + doubt) * step if known & (off <= _BENT) else _FAR
        scratch[lower + k] = x + (near - doubt) * step if known & (abs(off) <= _BENT) else -_FAR


@helper
def _likely_largest(belief, state, row, level, log_level, score, peak, scratch, n_arms):
    """An arm with the largest quantile, and whether that is certain.

    It is if by the bounds of the estimates no other arm can have it.  Else the arm with the largest
    estimate is the candidate, and x nearly its quantile; each other arm's score at x, of which the
    error is bounded, tells which of the two quantiles is larger.  Where the bound leaves that open
    the exact tail is asked.
    """
    stride = (n_arms + U64(7)) & ~U64(7)  # whole vectors: what is left over would cost as much
    lower = stride + stride
    x = _guess(belief, state, row, score, scratch, stride, n_arms)
    winner = U64(0)
    least = -_FAR
    for _ in range(2):  # of vague arms the first guess may be too far off
        _estimate(belief, state, row, score, x, scratch, stride, n_arms)
        winner = U64(0)
        x = scratch[0]
        least = scratch[lower]
        for k in range(U64(1), n_arms):
            if scratch[k] > x:
                winner = k
                x = scratch[k]
            least = max(least, scratch[lower + k])
        if least > -_FAR:
            break
    rivals = 0
    for k in range(U64(0), n_arms):
        rivals += (scratch[stride + k] >= least) & (k != winner)
    if rivals == 0:
        return winner, True
    count = state[row + winner]
    total = state[row + n_arms + winner]
    x, slope, off = _locate(belief, count, total, score, x)
    fine = False  # whether x is its quantile but for little
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
        if d > 0.0 and d * d > -2.0 * log_level * belief.spread(least_x) * count_k:
            continue
        if count_k == count and total_k == total:
            continue
        there, slope_k, error = belief.near_score(count_k, total_k, x)
        if error == UNKNOWN:
            return winner, False
        ahead = score - there
        doubt = error + 2.0 * off * slope_k / slope
        if ahead < -doubt:
            continue
        if ahead <= doubt:  # too close to tell
            if not fine:  # one step by the exact tail; slopes were seen to be an eighth off at most
                own = (belief.tail(count, total, x) - level) / peak
                fine = True
                x = x + own / slope
                off = (0.25 + 5.0 * abs(own)) * abs(own) + _SOLVED
            ahead = (belief.tail(count_k, total_k, x) - level) / peak
            if not abs(ahead) > 2.0 * off * slope_k / slope + _SOLVED:
                x = upper_quantile(belief, count, total, level, x)
                off = _SOLVED
                ahead = (belief.tail(count_k, total_k, x) - level) / peak
            if not abs(ahead) > 2.0 * _SOLVED:
                return winner, False
            if ahead < 0.0:
                continue
        winner = k
        count = count_k
        total = total_k
        fine = False
        x, slope, off = _locate(belief, count, total, score, x + ahead / slope_k)
    return winner, off != UNKNOWN


@helper
def largest_quantile(
    belief, state, row, level, log_level, score, peak, pivot, scratch, n_arms
):  # fmt: skip
    """An arm with the largest quantile, and the quantile unless it is not needed (then NaN).

    An arm k cannot win if P(mean_k > q) < level for some q below the winner's quantile; that
    probability is bounded cheaply.  First with q = the pivot's total/count: for log-concave
    posteriors and level < 1/e it lies below the pivot's quantile.  Where that leaves other arms,
    with q = the pivot's quantile itself, then the largest so far.
    """
    count = state[row + pivot]
    total = state[row + n_arms + pivot]
    if level < _MEAN_IS_BELOW and score < _FARTHEST and belief.is_log_concave(count, total):
        x = total / count
        threshold = -2.0 * log_level * belief.spread(x)
        close = 0
        for k in range(U64(0), n_arms):
            d = x * state[row + k] - state[row + n_arms + k]
            close += (d * abs(d) <= threshold * state[row + k]) & (k != pivot)
        if close == 0:
            return pivot, math.nan
        likely, certain = _likely_largest(
            belief, state, row, level, log_level, score, peak, scratch, n_arms
        )
        if certain:
            return likely, math.nan
    winner = pivot
    quantile = upper_quantile(belief, count, total, level, belief.start(count, total, score))
    for k in range(U64(0), n_arms):
        # the solver's noise must not decide between arms of one belief
        same = state[row + k] == state[row + winner]
        if not (same and state[row + n_arms + k] == state[row + n_arms + winner]):
            count = state[row + k]
            total = state[row + n_arms + k]
            d = quantile * count - total
            if d > 0.0:
                if d * d > -2.0 * log_level * belief.spread(quantile) * count:
                    continue
                if belief.tail_bound(count, total, quantile) < level:
                    continue
            if belief.tail(count, total, quantile) > level:
                winner = k
                near = max(quantile, belief.start(count, total, score))
                quantile = upper_quantile(belief, count, total, level, near)
    return winner, quantile


@helper
def tie(belief, state, row, level, winner, quantile, scores, n_arms):
    """Give each arm that ties with the winner the score 1, the others 0; returns how many do.

    Arms of equal belief do, the noise of a solver must not decide among them; and arms whose
    quantiles round to the same end of the range.
    """
    count = state[row + winner]
    total = state[row + n_arms + winner]
    n_tied = 0
    for k in range(U64(0), n_arms):
        same = state[row + k] == count and state[row + n_arms + k] == total
        scores[k] = 1.0 if same else 0.0
        n_tied += same
    at_0 = quantile == 0.0
    at_1 = belief.highest == 1.0 and quantile >= _BELOW_1
    if at_0 or at_1:
        n_tied = 0
        for k in range(U64(0), n_arms):  # none is larger than the winner's
            same = at_0 or belief.tail(state[row + k], state[row + n_arms + k], _BELOW_1) >= level
            scores[k] = 1.0 if same else 0.0
            n_tied += same
    return n_tied


def _greedy_kernel_of(name, belief):
    """Greedy for one kind of belief."""

    @kernel(CHOOSE, name=f"choose_greedy_{name}", **KERNEL)
    def choose_greedy(
        state, store, shared, level, table, arms, pivots, eager, close, scratch, spare,
        stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
    ):  # fmt: skip
        """The largest posterior mean."""
        scores = scratch[:n_arms]
        for i in range(lo, hi):
            slot = i // n_agents
            row = (slot if shared else i) * U64(2) * n_arms
            for k in range(U64(0), n_arms):
                scores[k] = belief.mean(state[row + k], state[row + n_arms + k])
            agent = i - slot * n_agents
            run = first_run + slot
            arms[i] = play_best(scores, stream, agent, t, run, key0, key1)


def _bayes_ucb_kernel_of(name, belief):
    """Bayes-UCB for one kind of belief."""

    @kernel(CHOOSE, name=f"choose_bayes_ucb_{name}", seconds=2, **KERNEL)
    def choose_bayes_ucb(
        state, store, shared, level, table, arms, pivots, eager, close, scratch, spare,
        stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
    ):  # fmt: skip
        """The largest posterior quantile (Alg. `decent_bayesUCB`); `level`: the upper tail 1/t."""
        scores = scratch[:n_arms]
        at_end = level <= 0.0 or level >= 1.0
        score = 0.0 if at_end else normal_score(level)
        log_level = 0.0 if at_end else math.log(level)
        peak = 0.3989422804014327 * math.exp(-0.5 * score * score)  # the normal density there
        for i in range(lo, hi):
            slot = i // n_agents
            row = (slot if shared else i) * U64(2) * n_arms
            agent = i - slot * n_agents
            run = first_run + slot
            if at_end:
                arms[i] = _play_any(scores, stream, agent, t, run, key0, key1)
                continue
            winner, quantile = largest_quantile(
                belief, state, row, level, log_level, score, peak, U64(pivots[i]), scratch, n_arms
            )
            arms[i] = pivots[i] = winner
            if tie(belief, state, row, level, winner, quantile, scores, n_arms) > 1:
                arms[i] = play_best(scores, stream, agent, t, run, key0, key1)


@kernel(CHOOSE, name="choose_bayes_ucb_GAUSSIAN", **KERNEL)
def choose_bayes_ucb_gaussian(
    state, store, shared, level, table, arms, pivots, eager, close, scratch, spare,
    stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Bayes-UCB where quantiles are a formula."""
    scores = scratch[:n_arms]
    at_end = level <= 0.0 or level >= 1.0
    score = 0.0 if at_end else normal_score(level)
    for i in range(lo, hi):
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


for _name, _belief in BELIEFS.items():
    _greedy_kernel_of(_name, _belief)
    if _belief is not GAUSSIAN:
        _bayes_ucb_kernel_of(_name, _belief)
