"""Top-two sampling: the leader that Thompson Sampling chose, or its nearest challenger.

The leader is the arm of the kernels `choose_thompson`, whose posterior samples are exact in law.
"""

from __future__ import annotations

from posse.lab.compiled.jit import FAST_KERNEL, kernel, use_wide_vectors, vectorised
from posse.lab.compiled.philox import CHALLENGE, ROOM, U64, fill_uniforms, pick_best
from posse.lab.compiled.posteriors import POSTERIORS
from posse.lab.compiled.records import CHOOSE
from posse.policies import LEAST

# The nearness of the leader to itself, below that of every other arm; and the next lowest.
_LEADER = -1e300
_FARTHEST = -1e299
# Ties of challengers have addresses apart from those of leaders.
_APART = U64(1) << U64(31)


@vectorised
def _fill_nearness(posterior, state, row, leader, out, at, n_arms):
    """Write minus the squared distance of the leader to every arm (`top_two.squared_distance`).

    A constant factor of the reward variance cancels.
    """
    use_wide_vectors()
    of_leader = posterior.read(state, row + leader, n_arms)
    leader_mean = posterior.mean(*of_leader)
    leader_pulls = posterior.pulls(*of_leader)
    for k in range(U64(0), n_arms):
        belief = posterior.read(state, row + k, n_arms)
        mean = posterior.mean(*belief)
        pulls = posterior.pulls(*belief)
        both = (leader_pulls * leader_mean + pulls * mean) / (leader_pulls + pulls)
        variance = posterior.unit_variance(both) * (1.0 / leader_pulls + 1.0 / pulls)
        difference = leader_mean - mean
        nearness = -(difference * difference) / max(variance, LEAST)
        out[at + k] = max(nearness, _FARTHEST)
    out[at + leader] = _LEADER


def _kernel_of(name, posterior):
    """Declare the kernel of one posterior."""

    @kernel(CHOOSE, name=f"challenge_{name}", seconds=2, **FAST_KERNEL)
    def challenge(
        state, store, shared, level, table, arms, pivots, eager, close, scratch, spare,
        stream, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
    ):  # fmt: skip
        """Replace the leader by its challenger in a fraction of the cases.

        table: its last entry is the fraction.
        """
        use_wide_vectors()
        width = U64(posterior.n_planes) * n_arms
        fraction = table[table.size - 1]
        row = lo
        while row < hi:  # one run at a time
            slot = row // n_agents
            end = min(hi, (slot + U64(1)) * n_agents)
            agent = row - slot * n_agents
            run = first_run + slot
            fill_uniforms(scratch, U64(0), end - row, agent, t, run, CHALLENGE, key0, key1)
            nearness = end - row + U64(ROOM)
            for i in range(row, end):
                if scratch[i - row] < fraction:
                    belief = (slot if shared else i) * width
                    _fill_nearness(
                        posterior, state, belief, U64(arms[i]), scratch, nearness, n_arms
                    )
                    arms[i] = pick_best(
                        scratch, nearness, n_arms, stream, (agent + i - row) | _APART, t, run,
                        key0, key1,
                    )  # fmt: skip
            row = end


for _name, _posterior in POSTERIORS.items():
    _kernel_of(_name, _posterior)
