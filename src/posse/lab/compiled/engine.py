"""The compiled engine: plays blocks of runs, or the tiles of one big network, on threads."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from posse.activity import JoinSources, PlayMasks, Shifts
from posse.algorithms import check_mass, subtract_forced_pulls
from posse.bandits import NEVER, draw_delays
from posse.lab.compiled import driver
from posse.lab.compiled.jit import KERNELS, Kernel
from posse.lab.compiled.kernels import push_sum, thompson
from posse.lab.compiled.kernels.late_flooding import LOST, EvidenceLog
from posse.lab.compiled.kernels.pending_rewards import PendingRewards
from posse.lab.compiled.network_arrays import build_network_arrays
from posse.lab.compiled.philox import ROOM, U64, key_of
from posse.lab.compiled.recorder import BlockRecorder
from posse.lab.compiled.records import (
    BeliefArrays,
    PlayConstants,
    RegretArrays,
    RoundArrays,
    ThreadWorkspace,
)
from posse.lab.compiled.registry import (
    PUSH_KERNELS,
    KernelPlan,
    choice_levels,
    choice_table,
    contest_worth,
    missing_kernel,
    plan_kernels,
    store_depth,
)
from posse.lab.reference import World
from posse.lab.simulation import (
    Advance,
    Block,
    Simulation,
    in_callers_order,
    play_blocks,
    split_runs,
)
from posse.networks import Static
from posse.randomness import FloatArray, IntArray, Streams

# Rows of a block that one call of the driver processes: enough to hide the cost of calls through
# pointers, few enough for the processor's cache.
BLOCK_ROWS = 1024
# A network of more agents is cut into tiles of this many, a multiple of 16.
TILE_ROWS = 2048
BIG_NETWORK = 32_768
# Kernels that write the merged rows to the other buffer.
MOVING_KERNELS = (
    "merge_static",
    "merge_awake",
    "merge_failing",
    "merge_chebyshev",
    "merge_tracking",
    "merge_push",
    "merge_push_failing",
)
ALL_PLAY = np.zeros(0, np.uint8)
# Agent-steps between two updates of the progress bar, at which Ctrl-C takes effect.
STEPS_PER_CALL = 2_000_000
# Means of one call of the driver, where they drift: some megabytes.
MEANS_PER_CALL = 500_000
# Delays of one call of the driver.
DELAYS_PER_CALL = 250_000

# Rounds whose levels of the choice are kept: the memory of a long simulation must not grow with T.
_MOST_LEVELS = 100_000


@dataclass
class BlockState:
    """The beliefs, pulls and regret of a block of runs, as flat arrays for the kernels."""

    simulation: Simulation
    plan: KernelPlan
    runs: Sequence[int]
    sampling_mode: int = int(thompson.EAGER)
    flipped: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        s = self.simulation
        plan = self.plan
        n_agents = s.network.n_agents
        n_arms = s.bandit.n_arms
        n_runs = len(self.runs)
        rows = n_runs * n_agents
        # every agent, or every run with a shared belief, starts at the prior
        # one row at the start, to which evidence fades
        self.prior = np.repeat(plan.prior, n_arms).astype(float)
        n_rows = n_runs if plan.shared else rows
        self.state = _allocate_aligned(n_rows * len(self.prior))
        self.state.reshape(n_rows, -1)[:] = self.prior
        moves = plan.merge in MOVING_KERNELS
        self.other = _allocate_aligned(self.state.size if moves else 0)
        self.other[:] = 0.0
        if plan.merge in PUSH_KERNELS.values():
            self.store = push_sum.create_store(n_runs, n_agents)
        else:
            self.store = np.zeros(rows * plan.store_width)
        self._log: EvidenceLog | None = None
        if plan.merge == "merge_late_flooding":
            self._log = EvidenceLog(
                n_runs, n_agents, store_depth(s, None), len(plan.prior), plan.counts_open
            )
        # the world of the reference engine, so that one seed has the same means on both
        self.world = World(s, self.runs)
        self.order = self.world.order
        self.means = self.world.means.reshape(-1)
        self.gaps = self.world.gaps.reshape(-1)
        self.arms = np.zeros(rows, np.uint32)
        self.pivots = np.zeros(rows, np.uint32)
        self.rewards = np.empty(rows + ROOM)
        self.pulls = np.zeros(rows * n_arms, np.int32)
        self.eager = np.full(n_runs, self.sampling_mode, np.uint8)
        self.regret = np.zeros((n_runs, len(s.times)))
        self.charged = np.zeros(rows if self.world.changes else 0)
        acts_on_others = plan.clips or len(plan.prior) > 2
        acted = _allocate_aligned(self.state.size if acts_on_others else 0)
        self.beliefs = BeliefArrays(self.state, self.other, self.store, self.prior, acted)
        self.current = RoundArrays(
            self.arms, self.pivots, self.rewards, self.eager, self.means,
            starts=np.zeros(0, np.int64), waits=np.zeros(0, np.uint32),
        )  # fmt: skip
        self._delay_stream = Streams.for_runs(s.seed, self.runs, "delay") if plan.delayed else None
        regret = self.regret.reshape(-1)
        self.recorded = RegretArrays(self.pulls, self.gaps, s.times, regret, self.charged)
        self._sources: JoinSources | None = None
        self._masks = None
        if s.activity is not None:
            self._masks = PlayMasks(s.activity, s.seed, self.runs, n_agents)
            self._n_plays = [np.zeros((1, n_runs), np.int64)]

    def begin_rounds(self, t: int, end: int) -> None:
        """Provide the means of the rounds t to end - 1, if they drift, and delays of rewards."""
        if self._delay_stream is not None:
            waits = self._draw_waits(t, end)
            self.current = self.current._replace(waits=waits)
            if self._log is not None:
                self._log.make_room(waits.reshape(end - t, -1))
                self.store = self._log.store
                self.beliefs = self.beliefs._replace(store=self.store)
        if self.world.changes:
            self._drift_means(t, end)

    def _draw_waits(self, t: int, end: int) -> NDArray[np.uint32]:
        """Draw when the rewards of each round arrive: (rounds rows,), LOST beyond the horizon."""
        s = self.simulation
        size = (len(self.runs), s.network.n_agents)
        assert self._delay_stream is not None
        drawn = [draw_delays(s.bandit.delay, self._delay_stream, size) for _ in range(t, end)]
        waits = np.stack(drawn).reshape(end - t, -1)
        left = s.horizon - np.arange(t, end)[:, None]
        return (
            np.where((waits == NEVER) | (waits > left), LOST, waits).astype(np.uint32).reshape(-1)
        )

    def _drift_means(self, t: int, end: int) -> None:
        """Provide the means of the rounds t to end - 1."""
        means: list[FloatArray] = []
        gaps: list[FloatArray] = []
        starts = []
        for round_ in range(t, end):
            self.world.begin_round(round_)
            # a new set only where a mean has changed
            if not means or self.world.means is not means[-1]:
                means.append(self.world.means)
                gaps.append(self.world.gaps)
            starts.append((len(means) - 1) * self.means.size)
        self.current = self.current._replace(
            means=np.stack(means).reshape(-1),
            starts=np.array([*starts, self.means.size], np.int64),
        )
        self.recorded = self.recorded._replace(gaps=np.stack(gaps).reshape(-1))

    def draw_plays(self, n_rounds: int) -> NDArray[np.uint8]:
        """Draw who plays in the next rounds: (n_rounds rows,); empty if all agents always play."""
        if self._masks is None:
            return ALL_PLAY
        masks = self._masks.draw_rounds(n_rounds)
        self._n_plays.append(np.einsum("trn->tr", masks, dtype=np.int64))
        return masks.view(np.uint8).reshape(-1)

    def list_joins(self) -> set[int]:
        """List the rounds in which agents join and copy a belief."""
        s = self.simulation
        if not isinstance(s.activity, Shifts) or not s.activity.copies:
            return set()
        return {t for t in s.activity.joins if 1 < t <= s.horizon}

    def draw_sources(self, t: int) -> tuple[IntArray, IntArray, IntArray]:
        """Draw run (0 to R - 1), joiner and source of every copy of round t: (n,) each."""
        if self._sources is None:
            s = self.simulation
            self._sources = JoinSources(s.activity, s.network, s.seed, self.runs)
        return self._sources.draw_round(t)

    def count_plays(self) -> FloatArray:
        """Count how often the average agent has played up to each recorded round: (R, len)."""
        n_agents = self.simulation.network.n_agents
        so_far = np.cumsum(np.concatenate(self._n_plays), axis=0)  # from round 0 on
        return np.ascontiguousarray(so_far[self.simulation.times].T / n_agents)

    def to_block(self, recorded: dict[str, FloatArray]) -> Block:
        """Return the results in the caller's order of arms."""
        if self._masks is not None:
            recorded = recorded | {"plays": self.count_plays()}
        if self.plan.merge in PUSH_KERNELS.values():
            check_mass(self.store[-1])
        n_agents = self.simulation.network.n_agents
        n_arms = self.simulation.bandit.n_arms
        pulls = self.pulls.reshape(len(self.runs), n_agents, n_arms)
        # forced pulls, if not charged, cost an agent the gaps of all arms, on average over agents
        gaps = self.gaps.reshape(len(self.runs), -1, n_arms)
        s = self.simulation
        # where gaps change, these rounds were never charged
        free = 0 if self.world.changes else s.uncharged_rounds
        regret = subtract_forced_pulls(self.regret, s.times, gaps.mean(axis=1), free)
        return Block(regret, in_callers_order(pulls, self.order), recorded)


class Engine:
    """The kernels and arrays of one simulation, ready to be played on threads."""

    def __init__(self, simulation: Simulation, sampling_mode: int = int(thompson.EAGER)) -> None:
        self.simulation = simulation
        self.sampling_mode = sampling_mode
        self.plan = plan_kernels(simulation)
        self.arrays = build_network_arrays(simulation.network, self.plan)
        self.table = choice_table(simulation, self.plan)
        # compiled here, or read from the cache on disk
        self.kernels = [KERNELS[name].dispatcher for name in _kernel_names(self.plan)]
        self.driver = _choose_driver(self.plan)
        self.worth = contest_worth(self.plan)
        self.key = key_of(simulation.seed)
        self._levels: dict[tuple[int, int], FloatArray] = {}  # by the first round and the end
        self.constants = PlayConstants(
            self.plan.shared,
            self.plan.staged,
            U64(self.plan.unmixed),
            U64(self.worth),
            np.full(simulation.network.n_agents, self.plan.rate, np.float64),
            float(self.plan.fading),
            U64(simulation.uncharged_rounds),
            self.plan.counts_open,
            self.plan.lowest,
            self._find_mass_stride(),
            self._find_noted_factor(),
            self.plan.merge == "merge_late_flooding",
            U64(len(self.plan.prior)),
            self.plan.offset,
            self.plan.parameter,
            U64(simulation.network.n_agents),
            U64(simulation.bandit.n_arms),
            *self.key,
        )

    def _find_levels(self, t: int, end: int) -> FloatArray:
        """Find the levels of the choice in the rounds t to end - 1, equal for all blocks.

        Those of DDUCB took a tenth of its simulations where every block computed them.
        """
        levels = self._levels.get((t, end))
        if levels is None:
            levels = choice_levels(self.simulation, self.plan, t, end)
            if end <= _MOST_LEVELS:
                self._levels[t, end] = levels
        return levels

    def _find_mass_stride(self) -> int:
        """Find how far apart the masses of two runs are in the store; -1 without masses."""
        if self.plan.merge not in PUSH_KERNELS.values():
            return -1
        # masses on a static network are equal in all runs, and stored once
        return (
            0 if self.plan.merge == PUSH_KERNELS[Static] else 3 * self.simulation.network.n_agents
        )

    def _find_noted_factor(self) -> float:
        """Find the factor at which the store gets the evidence of delayed rewards; 0 without it."""
        if self.plan.merge == "merge_tree":
            # its merge kernel fades the store before it reads what was noted
            return 1.0 / self.plan.fading
        return 1.0 if self.plan.merge == "merge_late_flooding" else 0.0

    def run(self, runs: range, threads: int, advance: Advance) -> Block:
        """Play all runs."""
        n_agents = self.simulation.network.n_agents
        if n_agents >= BIG_NETWORK and self._is_divisible():
            with ThreadPoolExecutor(threads) as pool:
                return play_blocks(
                    lambda block, go_on: self._play_tiles(block, pool, threads, go_on),
                    split_runs(runs, 1),
                    1,
                    advance,
                )
        # blocks small enough for the cache, and at least one for each thread
        size = max(1, min(BLOCK_ROWS // n_agents, -(-len(runs) // threads)))
        return play_blocks(self._play_block, split_runs(runs, size), threads, advance)

    def _is_divisible(self) -> bool:
        """Whether a tile can be played without waiting for the round's other tiles."""
        apart = ("merge_static", "merge_chebyshev", "merge_nothing")
        return self.plan.merge in apart and not self.plan.shared

    def _play_block(self, runs: Sequence[int], advance: Advance) -> Block:
        """Play whole runs on one thread."""
        rows = BlockState(self.simulation, self.plan, runs, self.sampling_mode)
        recorder = BlockRecorder(self, rows)
        n_rows = len(rows.arms)
        horizon = self.simulation.horizon
        work = allocate_workspace(rows, n_rows, self.arrays.n_words)
        rounds = max(1, STEPS_PER_CALL // n_rows)
        if rows.world.changes:
            rounds = max(1, min(rounds, MEANS_PER_CALL // rows.means.size))
        if self.plan.delayed:
            rounds = max(1, min(rounds, DELAYS_PER_CALL // n_rows))
        pending = PendingRewards(self.plan.fading)
        # the driver returns for the progress bar, and after the rounds that the recorder reads
        starts = set(range(1, horizon + 1, rounds)) | {horizon + 1}
        pauses = {int(t) + 1 for t in self.simulation.times} if recorder.records_rounds else set()
        joins = rows.list_joins()
        for t, following in pairwise(sorted(starts | pauses | joins)):
            if t in joins:
                self._copy_beliefs(rows, t)
            rows.begin_rounds(t, following)
            plays = rows.draw_plays(following - t)
            rows.flipped = self.play_rows(
                rows, work, pending, 0, n_rows, n_rows, t, following, plays, alone=True
            )
            if following in pauses:
                recorder.record_round(following - 1)
            advance(len(runs) * (following - t))
        return rows.to_block(recorder.collect_arrays())

    def _copy_beliefs(self, rows: BlockState, t: int) -> None:
        """Give the agents that join in round t the beliefs that their neighbours then have.

        The driver merges at the start of the round, and that merge leaves the rows of those who
        were away as they are.
        """
        run, joiner, source = rows.draw_sources(t)
        merged = self.merge_copy(rows, t)
        state = rows.other if rows.flipped else rows.state
        n_agents = self.simulation.network.n_agents
        width = len(self.plan.prior) * self.simulation.bandit.n_arms
        by_row = state.reshape(-1, width)
        by_row[run * n_agents + joiner] = merged.reshape(-1, width)[run * n_agents + source]

    def merge_copy(self, rows: BlockState, t: int) -> FloatArray:
        """Return a copy of the state after the merge of round t, before any choice."""
        s = self.simulation
        arrays = self.arrays
        # the driver swaps two buffers; copies leave both as they are
        now, out = (rows.other, rows.state) if rows.flipped else (rows.state, rows.other)
        state = now.copy()
        moved_to = out.copy()
        n_rows = len(rows.arms)
        moved = KERNELS[self.plan.merge](
            moved_to, state, arrays.offsets, arrays.neighbours, arrays.weights, arrays.links,
            arrays.constants, np.zeros(arrays.n_words, np.uint64), rows.arms, rows.rewards,
            rows.store.copy(), U64(0), U64(n_rows), U64(s.network.n_agents), U64(s.bandit.n_arms),
            U64(rows.runs[0]), U64(t), *self.key,
        )  # fmt: skip
        return moved_to if moved else state

    def _play_tiles(
        self, runs: Sequence[int], pool: ThreadPoolExecutor, threads: int, advance: Advance
    ) -> Block:
        """Play one run of a big network, with its agents divided among the threads."""
        s = self.simulation
        rows = BlockState(s, self.plan, runs, self.sampling_mode)
        n_rows = len(rows.arms)
        n_tiles = -(-n_rows // TILE_ROWS)
        # whole tiles for each thread; a thread without a tile is dropped
        cuts = [min(n_rows, n_tiles * i // threads * TILE_ROWS) for i in range(threads)]
        parts = [(lo, hi) for lo, hi in pairwise([*cuts, n_rows]) if lo < hi]
        works = [allocate_workspace(rows, TILE_ROWS, self.arrays.n_words) for _ in parts]
        queues = [PendingRewards(self.plan.fading) for _ in parts]
        columns = {int(t): column for column, t in enumerate(s.times)}
        recorder = BlockRecorder(self, rows)
        for t in range(1, s.horizon + 1):
            rows.begin_rounds(t, t + 1)
            plays = rows.draw_plays(1)
            futures = [
                pool.submit(
                    self.play_rows,
                    rows,
                    work,
                    queue,
                    lo,
                    hi,
                    TILE_ROWS,
                    t,
                    t + 1,
                    plays,
                    alone=False,
                )
                for work, queue, (lo, hi) in zip(works, queues, parts, strict=True)
            ]
            flipped = [future.result() for future in futures]
            rows.flipped = flipped[0]  # equal for all tiles
            # integers, so that the sum does not depend on how the agents were divided
            close = np.sum([work.close for work in works], axis=0, dtype=np.int32)
            for work in works:
                work.close[:] = 0
            thompson.update_sampling_modes(
                rows.eager, close, U64(self.worth), U64(t), U64(n_rows), U64(s.bandit.n_arms), 1
            )  # fmt: skip
            if t in columns:
                tally = np.sum([work.tally for work in works], axis=0)
                driver.record_regret(
                    tally, rows.pulls, rows.gaps, rows.charged, rows.regret.reshape(-1),
                    columns[t], len(s.times), U64(n_rows), U64(s.bandit.n_arms), 1,
                )  # fmt: skip
                if recorder.records_rounds:
                    recorder.record_round(t)
            advance(1)
        return rows.to_block(recorder.collect_arrays())

    def play_rows(
        self,
        rows: BlockState,
        work: ThreadWorkspace,
        queue: PendingRewards,
        lo: int,
        hi: int,
        tile: int,
        t: int,
        end: int,
        plays: NDArray[np.uint8] = ALL_PLAY,
        *,
        alone: bool,
    ) -> bool:
        """Play rounds t to end - 1 of the rows lo to hi; returns whether buffers are swapped.

        plays: who plays in these rounds, see `BlockState.draw_plays`
        """
        levels = self._find_levels(t, end)
        pending = None
        if self.plan.delayed:
            waits = rows.current.waits.reshape(end - t, -1)
            pending = queue.make_room(t, waits[:, lo:hi])
        return bool(
            self.driver(
                *self.kernels,
                self.arrays, rows.beliefs, rows.current, rows.recorded, work, pending,
                self.constants, levels, self.table, plays, rows.flipped,
                lo, hi, tile, rows.runs[0], t, end, alone,
            )
        )  # fmt: skip


def run(simulation: Simulation, runs: range, threads: int, advance: Advance) -> Block:
    """Play all runs of a simulation."""
    return Engine(simulation).run(runs, threads, advance)


def _allocate_aligned(size: int) -> FloatArray:
    """Allocate floats at the start of a cache line: vectors across two lines cost a sixth more."""
    line = 8  # floats
    floats = np.empty(size + line)
    return floats[-(floats.ctypes.data // floats.itemsize) % line :][:size]


def allocate_scratch(n_agents: int, n_arms: int) -> tuple[FloatArray, NDArray[np.uint32]]:
    """Allocate what choose kernels write into for so many agents of a tile: scratch and spare."""
    # three numbers per arm of every agent for its samples, and as many for a copy of its row
    floats = (n_agents + 2) * max(8, 6 * (n_arms + 1)) + 2 * ROOM
    return _allocate_aligned(floats), np.empty(n_agents * (n_arms + 2) + 2 * ROOM, np.uint32)


def allocate_workspace(rows: BlockState, tile: int, n_words: int) -> ThreadWorkspace:
    """Allocate the scratch arrays of one thread, for tiles of so many rows."""
    n_runs = len(rows.runs)
    n_arms = rows.simulation.bandit.n_arms
    agents = min(tile, rows.simulation.network.n_agents)
    return ThreadWorkspace(
        *allocate_scratch(agents, n_arms),
        stream=np.zeros(8, np.uint64),
        close=np.zeros(n_runs, np.int32),
        tally=np.zeros(n_runs * n_arms, np.int64),
        words=np.zeros(n_words, np.uint64),
    )


def _kernel_names(plan: KernelPlan) -> tuple[str, ...]:
    """Return the names of the kernels that the driver calls, in its order."""
    return plan.merge, plan.choose, plan.choose_eagerly, plan.challenge, plan.draw_rewards


def _choose_driver(plan: KernelPlan) -> Kernel:
    """Return the loop that calls them."""
    return driver.play_delayed if plan.delayed else driver.play


def list_kernels(simulation: Simulation) -> list[Kernel]:
    """List the kernels that a simulation needs."""
    plan = plan_kernels(simulation)
    return [*(KERNELS[name] for name in _kernel_names(plan)), _choose_driver(plan)]


def compile_kernels(simulations: Iterable[Simulation], announce: Callable[[int], None]) -> None:
    """Compile the kernels that simulations need and the cache lacks.

    announce: called once with the approximate number of seconds, if there is anything to compile.
    """
    compilable = [simulation for simulation in simulations if missing_kernel(simulation) is None]
    needed = {kernel.name: kernel for s in compilable for kernel in list_kernels(s)}
    # only kernels that are neither in memory nor on disk take time
    uncached = [kernel for kernel in needed.values() if not kernel.is_cached]
    if uncached:
        announce(math.ceil(3 + sum(kernel.seconds for kernel in uncached)))
    for kernel in needed.values():
        kernel.dispatcher  # noqa: B018
