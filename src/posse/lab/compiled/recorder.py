"""Recorder of the compiled engine: the `keep=` arrays of a block of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posse import families
from posse.algorithms import clip_to_attainable, subtract_forced_pulls
from posse.families import require_plain_family
from posse.lab.compiled.kernels.merge import count_living
from posse.lab.compiled.philox import U64
from posse.lab.simulation import count_coordinates, in_callers_order
from posse.networks import Gossip, LinkFailure
from posse.randomness import FloatArray

if TYPE_CHECKING:
    from posse.lab.compiled.engine import BlockState, Engine


class BlockRecorder:
    """Recorder of one block: fills the arrays of `Block.kept` after each recorded round."""

    def __init__(self, engine: Engine, rows: BlockState) -> None:
        s = engine.simulation
        self._engine = engine
        self._rows = rows
        self._simulation = s
        n_runs = len(rows.runs)
        n_agents = s.network.n_agents
        n_arms = s.bandit.n_arms
        self._shape = (n_runs, n_agents, n_arms)
        # one row for all agents, or one per agent
        self._gaps = rows.gaps.reshape(n_runs, -1, n_arms)
        self._kept: dict[str, FloatArray] = {}
        if "agents" in s.keep:
            self._kept["agents"] = np.zeros((n_runs, n_agents, len(s.times)))
        if "means" in s.keep:
            self._kept["means"] = self._current_means()
            if rows.world.changes:
                between = self._kept["means"].shape[1:]
                self._kept["means"] = np.zeros((n_runs, len(s.times), *between))
        if "messages" in s.keep:
            self._kept["messages"] = self._count_messages()
        if "beliefs" in s.keep:
            n_coordinates = count_coordinates(s.model)
            shape = (n_runs, len(s.times), n_coordinates, n_agents, n_arms)
            self._kept["beliefs"] = np.zeros(shape)

    @property
    def records_rounds(self) -> bool:
        """Whether the engine must pause after each recorded round."""
        drifting_means = "means" in self._kept and self._rows.world.changes
        recorded = "agents" in self._kept or "beliefs" in self._kept or drifting_means
        return recorded or self._counts_messages

    def record_round(self, t: int) -> None:
        """Record the state after round t."""
        (column,) = np.flatnonzero(self._simulation.times == t)
        if "means" in self._kept and self._rows.world.changes:
            self._kept["means"][:, column] = self._current_means()
        if "agents" in self._kept and self._rows.world.changes:
            self._kept["agents"][:, :, column] = self._rows.charged.reshape(self._shape[:2])
        elif "agents" in self._kept:
            pulls = self._rows.pulls.reshape(self._shape)
            axes = "rnk,rnk->rn" if self._gaps.shape[1] > 1 else "rnk,rxk->rn"
            self._kept["agents"][:, :, column] = np.einsum(axes, pulls, self._gaps)
        if "beliefs" in self._kept:
            beliefs = np.swapaxes(self._read_beliefs(t), 0, 1)
            self._kept["beliefs"][:, column] = in_callers_order(beliefs, self._rows.order)
        if self._counts_messages:
            sent = count_chosen_messages(self._engine, self._rows, t)
            self._kept["messages"][:, column] += sent / self._simulation.network.n_agents

    @property
    def _counts_messages(self) -> bool:
        """Whether the number of messages depends on the choices of the agents."""
        return "messages" in self._kept and self._engine.plan.counts_messages

    def collect_arrays(self) -> dict[str, FloatArray]:
        """Return all recorded arrays, in the caller's order of arms."""
        s = self._simulation
        recorded = self._kept
        if "agents" in recorded and not self._rows.world.changes:
            gaps = np.broadcast_to(self._gaps, self._shape).reshape(-1, self._shape[-1])
            curves = recorded["agents"].reshape(-1, len(s.times))
            charged = subtract_forced_pulls(curves, s.times, gaps, s.uncharged_rounds)
            recorded["agents"] = charged.reshape(recorded["agents"].shape)
        return recorded

    def _current_means(self) -> FloatArray:
        """Return the true means of the round in the caller's order: (R, K), or (R, N, K)."""
        means = in_callers_order(self._rows.world.means, self._rows.order)
        return means if self._simulation.bandit.per_agent else means[:, 0]

    def _read_beliefs(self, t: int) -> FloatArray:
        """Return the family's coordinates after round t and its messages: (D, R, N, K).

        The engine merges at the start of the next round; here a copy is merged in the same way.
        """
        state = self._engine.merge_copy(self._rows, t + 1)
        n_runs, n_agents, n_arms = self._shape
        # one row per agent, or one for all
        n_planes = len(self._engine.plan.prior)
        rows = state.reshape(n_runs, -1, n_planes, n_arms)
        rows = np.broadcast_to(rows, (n_runs, n_agents, n_planes, n_arms))
        model = require_plain_family(self._simulation.model)
        beliefs = families.from_count_and_total(model, np.moveaxis(rows, 2, 0))
        return clip_to_attainable(beliefs, model) if self._engine.plan.clips else beliefs

    def _count_messages(self) -> FloatArray:
        """Count the numbers sent per agent up to each recorded round: (R, len)."""
        s = self._simulation
        algorithm: Any = s.algorithm
        n_runs = len(self._rows.runs)
        # what does not depend on the choices needs the first state only; the store counts the rest
        state = algorithm.init(s.build_problem(n_runs))
        links = count_links_used(self._engine, self._rows.runs, s.horizon)
        sent = [algorithm.numbers_sent(state, t, links[t - 1]) for t in range(1, s.horizon + 1)]
        return np.asarray(np.cumsum(sent, axis=0)[s.times - 1].T / s.network.n_agents)


def count_chosen_messages(engine: Engine, rows: BlockState, t: int) -> FloatArray:
    """Count the numbers that ComEx and Coop-SE chose to send up to round t: (R,).

    The kernels of `observations` count them in their store.
    """
    s = engine.simulation
    arrays = engine.arrays
    n_runs = len(rows.runs)
    n_agents = s.network.n_agents
    n_arms = s.bandit.n_arms
    receivers = np.repeat(np.arange(n_agents), np.diff(arrays.offsets))
    if engine.plan.merge == "merge_neighbours":  # whether an agent sends, and how often it did
        n_sent = rows.store.reshape(n_runs, n_agents, 2)[..., 1]
        return np.asarray(2.0 * n_sent @ np.bincount(arrays.neighbours, minlength=n_agents))
    # eliminations after even and after odd rounds, then the number received up to the last round
    start = 2 * int(arrays.constants[0]) * n_runs * n_agents
    eliminations = rows.store[start : start + 2 * rows.arms.size * n_arms]
    eliminated = eliminations.reshape(2, n_runs, n_agents, n_arms)[t % 2] > 0
    n_received = rows.store[start + eliminations.size :].reshape(n_runs, n_agents).sum(axis=1)
    # eliminations travel over links of one hop, to receivers that lack them
    near = arrays.links == 1
    is_offered = eliminated[:, arrays.neighbours[near]]
    is_known = eliminated[:, receivers[near]]
    return np.asarray(n_received + (is_offered & ~is_known).sum(axis=(1, 2)))


def count_links_used(engine: Engine, runs: Any, horizon: int) -> Any:
    """Count the directed links in use in each round of each run: (rounds, R)."""
    network = engine.simulation.network
    shape = (horizon, len(runs))
    if network.n_links == 0:
        return np.zeros(shape, np.int64)
    directions = 1 if network.is_directed else 2
    if isinstance(network.dynamics, Gossip):
        return np.full(shape, directions)
    if isinstance(network.dynamics, LinkFailure):
        n_links = network.n_links
        living = np.zeros(horizon * len(runs), np.int64)
        count_living(
            living, np.zeros(n_links + 1, np.uint32), np.zeros(n_links // 2 + 2, np.uint64),
            U64(n_links), network.dynamics.p, U64(horizon), U64(runs[0]), U64(len(runs)),
            *engine.key,
        )  # fmt: skip
        return directions * living.reshape(shape)
    if network.is_uniform:
        return np.full(shape, 2 * network.n_links)
    # a static network uses every off-diagonal weight that is not 0
    weights = network.shares if network.is_directed else network.weights
    off_diagonal = (weights != 0).sum() - (weights.diagonal() != 0).sum()
    return np.full(shape, int(off_diagonal))
