"""Thompson Sampling with all K samples, vectorised: for runs whose arms are still close.

It is separate from the lazy kernel, so that both stay small enough to be compiled well; each skips
the runs of the other.
"""

from __future__ import annotations

import math

from posse.lab.compiled.jit import FAST_KERNEL, kernel, use_wide_vectors, vectorised
from posse.lab.compiled.kernels.thompson import ALWAYS_EAGER, EAGER, PROBE_EVERY, PROBES
from posse.lab.compiled.philox import ROOM, U64, pick_best
from posse.lab.compiled.posteriors import POSTERIORS
from posse.lab.compiled.records import CHOOSE, IDLE


@vectorised
def _choose_eagerly(
    posterior, state, start, step, arms, pivots, scratch, spare, stream,
    n_arms, agent, run, t, key0, key1,
):  # fmt: skip
    """Choose for the agents of one run, with all K samples of each."""
    use_wide_vectors()
    n = U64(arms.size)
    stride = (n_arms + U64(1)) & ~U64(1)
    posterior.sample_all(
        posterior, state, start, step, scratch, spare, stream, n, n_arms, agent, run, t, key0, key1
    )
    for i in range(U64(0), n):
        best = pick_best(scratch, i * stride, n_arms, stream, agent + i, t, run, key0, key1)
        arms[i] = best
        pivots[i] = best


@vectorised
def _choose_awake_eagerly(
    posterior, state, start, step, arms, pivots, scratch, spare, stream,
    n_arms, agent, run, t, key0, key1,
):  # fmt: skip
    """`_choose_eagerly` for the agents that play in this round; returns False if all of them do.

    Their rows are copied side by side, behind the samples, so that sleepers cost no samples.
    """
    use_wide_vectors()
    n = U64(arms.size)
    width = U64(posterior.n_planes) * n_arms
    stride = (n_arms + U64(1)) & ~U64(1)
    awake = n * stride + U64(ROOM)
    n_awake = U64(0)
    # without branches, which would be unpredictable: an entry not counted is overwritten
    for i in range(U64(0), n):
        spare[awake + n_awake] = i
        n_awake += U64(arms[i] != IDLE)
    if n_awake == n:
        return False
    copy = U64(3) * n * stride + U64(ROOM)
    for nth in range(n_awake):
        row = start + U64(spare[awake + nth]) * step
        for j in range(U64(0), width):
            scratch[copy + nth * width + j] = state[row + j]
    posterior.sample_all(
        posterior, scratch, copy, width, scratch, spare, stream, n_awake, n_arms, agent, run, t,
        key0, key1,
    )  # fmt: skip
    for i in range(U64(0), n):
        arms[i] = pivots[i]
    for nth in range(n_awake):
        best = pick_best(scratch, nth * stride, n_arms, stream, agent + nth, t, run, key0, key1)
        i = U64(spare[awake + nth])
        arms[i] = best
        pivots[i] = best
    return True


@vectorised
def _probe_close_arms(posterior, state, start, step, level, pivots, n_arms, agent, n_agents):
    """Count the arms of a few agents that are close to a rather low sample of the leading arm."""
    apart = max(U64(1), n_agents // PROBES)
    threshold = 2.0 * math.log(max(posterior.factor / level, 2.0 * n_arms * posterior.factor))
    n_close = 0
    for probe in range(U64(0), min(PROBES, n_agents)):
        if agent <= probe * apart < agent + U64(pivots.size):
            i = probe * apart - agent
            row = start + i * step
            leader = U64(0)
            for k in range(U64(1), n_arms):
                here = row + n_arms + k
                there = row + n_arms + leader
                if state[here] * state[row + leader] > state[there] * state[row + k]:
                    leader = k
            pivots[i] = leader
            x = state[row + n_arms + leader] / state[row + leader]
            x -= math.sqrt(posterior.spread(x) / state[row + leader])
            for k in range(U64(0), n_arms):
                belief = posterior.read(state, row + k, n_arms)
                d = x * belief[0] - belief[1]
                near = posterior.is_near(*belief, d, threshold * posterior.spread(x))
                n_close += near & (k != leader)
    return n_close


def _kernel_of(name, posterior):
    """Declare the eager kernel of one posterior."""

    @kernel(CHOOSE, name=f"choose_thompson_eagerly_{name}", seconds=3, **FAST_KERNEL)
    def choose_thompson_eagerly(
        state, store, shared, level, table, arms, pivots, eager, close, scratch, spare,
        stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
    ):  # fmt: skip
        """Thompson Sampling (Alg. `decent_ts`) with all K samples, for the runs that are eager."""
        use_wide_vectors()
        width = U64(posterior.n_planes) * n_arms
        row = lo
        while row < hi:
            slot = row // n_agents
            end = min(hi, (slot + U64(1)) * n_agents)
            if eager[slot] == EAGER or eager[slot] == ALWAYS_EAGER:
                start, step = (slot * width, U64(0)) if shared else (row * width, width)
                agent = row - slot * n_agents
                leaders = pivots[row:end]
                if not _choose_awake_eagerly(
                    posterior, state, start, step, arms[row:end], leaders, scratch, spare, stream,
                    n_arms, agent, first_run + slot, t, key0, key1,
                ):  # fmt: skip
                    _choose_eagerly(
                        posterior, state, start, step, arms[row:end], leaders, scratch, spare,
                        stream, n_arms, agent, first_run + slot, t, key0, key1,
                    )  # fmt: skip
                if t % PROBE_EVERY == U64(0):
                    close[slot] += _probe_close_arms(
                        posterior, state, start, step, level, leaders, n_arms, agent, n_agents
                    )
            row = end


for _name, _posterior in POSTERIORS.items():
    _kernel_of(_name, _posterior)
