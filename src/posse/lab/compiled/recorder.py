"""What the compiled engine keeps of a block of runs besides regret and pulls, for `keep=`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posse import families
from posse.algorithms.rivals.initial_pulls import without_forced_pulls
from posse.families.family import require_plain_family
from posse.lab.compiled.kernels.merge import count_living
from posse.lab.compiled.philox import U64
from posse.lab.simulation import in_callers_order
from posse.networks.gossip import Gossip
from posse.networks.link_failure import LinkFailure
from posse.randomness import FloatArray

if TYPE_CHECKING:
    from posse.lab.compiled.engine import Engine, Rows


class Keeper:
    """The arrays of `Block.kept`, filled whenever a recorded round is over."""

    def __init__(self, engine: Engine, rows: Rows) -> None:
        s = engine.simulation
        self._engine = engine
        self._rows = rows
        self._simulation = s
        n_runs = len(rows.runs)
        n_agents = s.network.n_agents
        n_arms = s.bandit.n_arms
        self._shape = (n_runs, n_agents, n_arms)
        self._gaps = rows.gaps.reshape(n_runs, -1, n_arms)  # one row for all agents, or one each
        self._kept: dict[str, FloatArray] = {}
        if "agents" in s.keep:
            self._kept["agents"] = np.zeros((n_runs, n_agents, len(s.times)))
        if "means" in s.keep:
            means = in_callers_order(rows.means.reshape(n_runs, -1, n_arms), rows.order)
            self._kept["means"] = means if s.bandit.per_agent else means[:, 0]
        if "messages" in s.keep:
            self._kept["messages"] = self._messages()
        if "beliefs" in s.keep:
            self._kept["beliefs"] = np.zeros((n_runs, len(s.times), 2, n_agents, n_arms))

    @property
    def looks(self) -> bool:
        """Whether the recorded rounds are to be looked at one by one."""
        return "agents" in self._kept or "beliefs" in self._kept or self._counts_what_is_told

    def record(self, t: int) -> None:
        """Round t is over; if it is a recorded one, write down what it left."""
        (column,) = np.flatnonzero(self._simulation.times == t)
        if "agents" in self._kept:
            pulls = self._rows.pulls.reshape(self._shape)
            each = "rnk,rnk->rn" if self._gaps.shape[1] > 1 else "rnk,rxk->rn"
            self._kept["agents"][:, :, column] = np.einsum(each, pulls, self._gaps)
        if "beliefs" in self._kept:
            beliefs = np.swapaxes(self._beliefs(t), 0, 1)
            self._kept["beliefs"][:, column] = in_callers_order(beliefs, self._rows.order)

        if self._counts_what_is_told:
            told = told_by(self._engine, self._rows, t)
            self._kept["messages"][:, column] += told / self._simulation.network.n_agents

    @property
    def _counts_what_is_told(self) -> bool:
        """Whether what agents send is not known beforehand."""
        return "messages" in self._kept and self._engine.plan.counts_messages

    def arrays(self) -> dict[str, FloatArray]:
        """All that is kept, in the caller's order of arms."""
        s = self._simulation
        kept = self._kept
        if "agents" in kept:
            gaps = np.broadcast_to(self._gaps, self._shape).reshape(-1, self._shape[-1])
            curves = kept["agents"].reshape(-1, len(s.times))
            charged = without_forced_pulls(curves, s.times, gaps, s.uncharged_rounds)
            kept["agents"] = charged.reshape(kept["agents"].shape)
        return kept

    def _beliefs(self, t: int) -> FloatArray:
        """The family's coordinates after round t, what was sent in it included: (2, R, N, K).

        The engine merges at the start of the next round: here a copy is merged the same way.
        """
        state = self._engine.merged(self._rows, t + 1)
        n_runs, n_agents, n_arms = self._shape
        pairs = state.reshape(n_runs, -1, 2, n_arms)  # one row an agent, or one for all
        pairs = np.broadcast_to(pairs, (n_runs, n_agents, 2, n_arms))
        return families.from_count_and_total(
            require_plain_family(self._simulation.model), np.moveaxis(pairs, 2, 0)
        )

    def _messages(self) -> FloatArray:
        """Numbers sent per agent up to each recorded round: (R, len)."""
        s = self._simulation
        algorithm: Any = s.algorithm
        n_runs = len(self._rows.runs)
        state = algorithm.init(s.build_problem(n_runs))
        links = links_used(self._engine, self._rows.runs, s.horizon)
        sent = [algorithm.numbers_sent(state, t, links[t - 1]) for t in range(1, s.horizon + 1)]
        return np.asarray(np.cumsum(sent, axis=0)[s.times - 1].T / s.network.n_agents)


def told_by(engine: Engine, rows: Rows, t: int) -> FloatArray:
    """The numbers that rivals chose to send up to round t, in all: (R,); see `observations`."""
    s = engine.simulation
    links = engine.links
    n_runs = len(rows.runs)
    n_agents = s.network.n_agents
    n_arms = s.bandit.n_arms
    hearers = np.repeat(np.arange(n_agents), np.diff(links.offsets))
    if engine.plan.merge == "merge_neighbours":  # of each agent whether it tells, and how often
        often = rows.store.reshape(n_runs, n_agents, 2)[..., 1]
        return np.asarray(2.0 * often @ np.bincount(links.neighbours, minlength=n_agents))
    # what was given up after even and odd rounds, then what was told up to the last round
    own = 2 * int(links.constants[0]) * n_runs * n_agents
    given_up = rows.store[own : own + 2 * rows.arms.size * n_arms]
    dropped = given_up.reshape(2, n_runs, n_agents, n_arms)[t % 2] > 0
    told = rows.store[own + given_up.size :].reshape(n_runs, n_agents).sum(axis=1)
    near = links.links == 1
    speaks = dropped[:, links.neighbours[near]]
    hears = dropped[:, hearers[near]]
    return np.asarray(told + (speaks & ~hears).sum(axis=(1, 2)))


def links_used(engine: Engine, runs: Any, horizon: int) -> Any:
    """How many directed links are in use in each round of each run: (rounds, R)."""
    network = engine.simulation.network
    shape = (horizon, len(runs))
    if len(network.edges) == 0:
        return np.zeros(shape, np.int64)
    if isinstance(network.dynamics, Gossip):
        return np.full(shape, 2)
    if isinstance(network.dynamics, LinkFailure):
        n_links = len(network.edges)
        living = np.zeros(horizon * len(runs), np.int64)
        count_living(
            living, np.zeros(n_links + 1, np.uint32), np.zeros(n_links // 2 + 2, np.uint64),
            U64(n_links), network.dynamics.p, U64(horizon), U64(runs[0]), U64(len(runs)),
            *engine.key,
        )  # fmt: skip
        return 2 * living.reshape(shape)
    weights = network.weights
    off_diagonal = (weights != 0).sum() - (weights.diagonal() != 0).sum()
    return np.full(shape, int(off_diagonal))
