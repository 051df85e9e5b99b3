"""Lazy Thompson Sampling: the exact argmax of K posterior samples without drawing all of them.

Thompson Sampling needs the arm with the largest of K posterior samples, not the samples. Draw only
the sample x of a *pivot*, the arm that led so far. Every other arm k exceeds x with probability
p_k <= b_k, a cheap bound (`posteriors`). One uniform v decides for all of them: unless v is below
the sum of the b_k, none exceeds x, and the pivot is played without a division, an exp or a draw.

(Only the first 10 bits of v are at hand, left over from drawing x; the others are drawn if needed.)

That sum is first replaced by K - 1 times the largest b_k, then, for the few agents for which this
does not suffice, computed with sharper bounds. If v is still below it, arms with b_k above OUTRIGHT
are sampled outright. The others are *thinned*: walking through them, with u = 1 - v and c the
product of the (1 - b_j) so far, arm k is a candidate once u > c (1 - b_k), which happens with
probability b_k. A candidate exceeds the largest sample so far with probability p_k / b_k, and then
takes a value from its tail above it.
After a candidate u is drawn again. Each arm thus exceeds the running maximum with its own
probability and law, as if it were sampled and compared: the choice is exact in law. The only
condition is that no b_k of the walk exceeds the bound of the quick test, since the walk is skipped
if the test finds v large.

While arms are close to each other the walk costs more than plain vectorised draws. A run therefore
starts *eager*, with all K variates, and becomes *lazy* when its agents agree on the leading arm.
The past or the belief decides, never the random numbers of this round, so the choice stays exact.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from posse.lab.compiled.jit import FAST_KERNEL, helper, kernel, use_wide_vectors, vectorised
from posse.lab.compiled.philox import CONTEST, U64, next_uniform, open_stream
from posse.lab.compiled.posteriors import POSTERIORS
from posse.lab.compiled.records import CHOOSE, IDLE

# Arms with a larger bound are drawn outright. The second level is for algorithms whose beliefs stay
# wide: the bounds of many arms lie between the two, and adding them up costs less than drawing.
OUTRIGHT = 1e-2
OUTRIGHT_IF_WIDE = 0.25
DRAWN = 1e9  # in place of a sum of bounds with such an arm
# A draw of the walk costs about as much as `worth` vectorised ones, so a run is eager while more
# than 1/worth of its arms are close to the leader; an eager run probes a few of its agents every
# fourth round.
PROBES = U64(8)
PROBE_EVERY = U64(4)
# The sampling mode of a run: it changes by itself between the first two; the others are fixed
# (benchmarks, tests).
LAZY, EAGER, ALWAYS_LAZY, ALWAYS_EAGER = (np.uint8(i) for i in range(4))


@helper
def update_sampling_modes(eager, close, worth, t, n_agents, n_arms, n_runs):
    """Set the sampling mode of each run for the next round by the number of close arms."""
    for slot in range(n_runs):
        n_agents_asked = n_agents if eager[slot] == LAZY else min(PROBES, n_agents)
        many = U64(close[slot]) * worth > n_agents_asked * n_arms
        if eager[slot] == LAZY or (eager[slot] == EAGER and t % PROBE_EVERY == U64(0)):
            eager[slot] = EAGER if many else LAZY
        close[slot] = 0


@vectorised
def _add_bounds(posterior, state, row, least, pivot, x, close, bounds, at, n_arms):
    """Add up the bounds of the arms' probabilities to exceed x: a sharper test than the quick one.

    close: how many arms failed that one. The sum is DRAWN if some of them are drawn outright. The
    bounds are written from `at` on, unless all of them are: then there is nothing to thin.
    """
    use_wide_vectors()
    n_drawn = 0
    for k in range(U64(0), n_arms):
        belief = posterior.read(state, row + k, n_arms)
        d = x * belief[0] - belief[1]
        n_drawn += posterior.is_near(*belief, d, least) & (k != pivot)
    if n_drawn >= close:
        return DRAWN
    for k in range(U64(0), n_arms):
        bounds[at + k] = posterior.tail_bound(*posterior.read(state, row + k, n_arms), x)
    bounds[at + pivot] = 0.0
    # two sums at a time: neither waits for the other
    half = n_arms // U64(2)
    below = 0.0
    # the halves miss the last of an odd number; of an even one it counts twice, still a bound
    above = bounds[at + n_arms - U64(1)]
    for k in range(at, at + half):
        below += bounds[k]
        above += bounds[k + half]
    return below + above if n_drawn == 0 else DRAWN


@vectorised
def _resolve_contest(
    posterior, state, row, least, pivot, x, threshold, u, bounds, at, n_arms, stream
):
    """Return the arm with the largest sample, given the pivot's sample x; and the next pivot.

    bounds: of the probabilities to exceed x, from `at` on.
    Arms beyond the threshold of the quick test matter only if an arm within it is thinned.
    """
    best = pivot
    top = x
    n_near = 0
    n_tied = 1
    leader = pivot
    leading_mean = state[row + n_arms + pivot] / state[row + pivot]
    # arms with a large bound are sampled outright
    for k in range(U64(0), n_arms):
        belief = posterior.read(state, row + k, n_arms)
        count = belief[0]
        total = belief[1]
        d = x * count - total
        if posterior.is_near(*belief, d, threshold) and k != pivot:
            if not posterior.is_near(*belief, d, least):
                n_near += 1
            else:
                drawn = posterior.sample(*belief, stream)
                if drawn > top:
                    best = k
                    top = drawn
                    n_tied = 1
                elif drawn == top:  # at the end of their range
                    n_tied += 1
                    if next_uniform(stream) * n_tied < 1.0:
                        best = k
                if total > leading_mean * count:
                    leader = k
                    leading_mean = total / count
    if n_near == 0:
        return best, leader
    c = 1.0
    # the others are thinned: most are skipped without a draw
    for k in range(U64(0), n_arms):
        belief = posterior.read(state, row + k, n_arms)
        d = x * belief[0] - belief[1]
        if not posterior.is_near(*belief, d, least) and k != pivot:
            bound = bounds[at + k] if top == x else posterior.tail_bound(*belief, top)
            if u > c * (1.0 - bound):
                beats = posterior.tail(*belief, top)
                if next_uniform(stream) * bound < beats:
                    best = k
                    top = posterior.sample_tail(*belief, top, stream)
                u = next_uniform(stream)
                c = 1.0
            else:
                c *= 1.0 - bound
    return best, leader


@vectorised
def _count_contenders(posterior, state, start, step, pivots, row, scratch, size, n, n_arms):
    """Run the quick test: count the arms that the common tail bound does not exclude.

    scratch: x, thresholds and the result, `size` apart.
    """
    use_wide_vectors()
    for i in range(U64(0), n):
        at = start + i * step
        pivot = U64(pivots[row + i])
        x = scratch[i]
        threshold = scratch[size + i]
        close = 0
        for k in range(U64(0), n_arms):
            belief = posterior.read(state, at + k, n_arms)
            d = x * belief[0] - belief[1]
            close += posterior.is_near(*belief, d, threshold) & (k != pivot)
        scratch[size + size + i] = close


@vectorised
def _choose_lazily(
    posterior, state, start, step, level, arms, pivots, row, thresholds, spare, scratch, stream,
    n, n_arms, agent, run, t, key0, key1,
):  # fmt: skip
    """Choose for the n agents from `row` on; returns how many arms failed the quick test."""
    use_wide_vectors()
    size = n + U64(2)
    posterior.sample_pivots(
        posterior, state, start, step, pivots, row, scratch, size, spare, stream,
        n, n_arms, agent, run, t, key0, key1,
    )  # fmt: skip
    for i in range(U64(0), n):  # v lies between spare and one more, in 1024ths
        scratch[size + i] = thresholds[spare[i]]
    for i in range(U64(0), n):
        scratch[size + i] *= posterior.spread(scratch[i])
    _count_contenders(posterior, state, start, step, pivots, row, scratch, size, n, n_arms)
    n_close = 0
    bounds = U64(3) * size  # working memory of `sample_pivots`, not in use any more
    for i in range(U64(0), n):
        close = scratch[size + size + i]
        plays = arms[row + i] != IDLE
        arms[row + i] = pivots[row + i]
        if close != 0.0:
            n_close += int(close)
            if not plays:
                continue
            pivot = U64(pivots[row + i])
            x = scratch[i]
            least = 2.0 * math.log(posterior.factor / level) * posterior.spread(x)
            bound = _add_bounds(
                posterior, state, start + i * step, least, pivot, x, close, scratch, bounds, n_arms
            )
            if bound * 1025.0 < spare[i]:  # v is larger, so the walk would find no candidate
                continue
            open_stream(stream, agent + i, t, run, CONTEST, key0, key1)
            v = (spare[i] + next_uniform(stream)) / 1024.0
            arms[row + i], pivots[row + i] = _resolve_contest(
                posterior, state, start + i * step, least, pivot, x, scratch[size + i], 1.0 - v,
                scratch, bounds, n_arms, stream,
            )  # fmt: skip
    return n_close


def thresholds_for(factor: float, level: float, n_arms: int) -> Any:
    """Return the threshold of the quick test for each lower bound of v, in 1024ths: (1024,).

    At the threshold the sum of all bounds, at most (n_arms - 1) factor exp(-threshold/2), equals v;
    and no bound may exceed the level above which arms are drawn outright.
    """
    least = 2.0 * math.log(factor / level)
    all_bounds = (n_arms - 1) * factor
    thresholds = [max(least, 2.0 * math.log(all_bounds * 1024.0 / i)) for i in range(1, 1024)]
    # nothing passes at v = 0; the kernels are compiled without infinities
    return np.array([1e200, *thresholds])


def _kernel_of(name, posterior):
    """Declare the lazy Thompson Sampling kernel of one posterior."""

    @kernel(CHOOSE, name=f"choose_thompson_{name}", seconds=5, **FAST_KERNEL)
    def choose_thompson(
        state, store, shared, level, table, arms, pivots, eager, close, scratch, spare,
        stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
    ):  # fmt: skip
        """Choose by lazy Thompson Sampling (Alg. `decent_ts`), for the runs that are not eager.

        Arms whose bound exceeds `level` are drawn outright; the table is that of `thresholds_for`.
        """
        use_wide_vectors()
        width = U64(posterior.n_planes) * n_arms
        row = lo
        while row < hi:  # one run at a time: its agents' rows start at `start`, `step` apart
            slot = row // n_agents
            end = min(hi, (slot + U64(1)) * n_agents)
            if eager[slot] == LAZY or eager[slot] == ALWAYS_LAZY:
                start, step = (slot * width, U64(0)) if shared else (row * width, width)
                close[slot] += _choose_lazily(
                    posterior, state, start, step, level, arms, pivots, row, table, spare, scratch,
                    stream, end - row, n_arms, row - slot * n_agents, first_run + slot, t,
                    key0, key1,
                )  # fmt: skip
            row = end


for _name, _posterior in POSTERIORS.items():
    _kernel_of(_name, _posterior)
