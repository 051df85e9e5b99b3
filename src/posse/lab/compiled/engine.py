"""The compiled engine: blocks of runs on a pool of threads, or the tiles of one big network."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from posse.algorithms.rivals.initial_pulls import without_forced_pulls
from posse.lab.compiled import driver
from posse.lab.compiled.jit import KERNELS, Kernel
from posse.lab.compiled.kernels import thompson
from posse.lab.compiled.network_arrays import links_of
from posse.lab.compiled.philox import ROOM, U64, key_of
from posse.lab.compiled.posteriors import BELIEFS
from posse.lab.compiled.recorder import Keeper
from posse.lab.compiled.registry import Plan, levels_for, plan_for, table_for
from posse.lab.compiled.registry import missing_kernel as missing
from posse.lab.simulation import (
    Advance,
    Block,
    Simulation,
    in_callers_order,
    play_blocks,
    split_runs,
)
from posse.randomness import FloatArray

# Rows of a block that one call of the driver works on: enough to hide the cost of calls through
# pointers, few enough for the cache.
_BLOCK_ROWS = 1024
# A network of more agents is cut into tiles of this many, a multiple of 16.
_TILE_ROWS = 2048
_BIG_NETWORK = 32_768
# Agent-steps between two looks at the progress bar and at Ctrl-C.
_STEPS_PER_CALL = 2_000_000


@dataclass
class Rows:
    """The state of some runs, and the kernels' working memory."""

    simulation: Simulation
    plan: Plan
    runs: Sequence[int]
    drawing: int = int(thompson.EAGER)
    flipped: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        s = self.simulation
        plan = self.plan
        n_agents = s.network.n_agents
        n_arms = s.bandit.n_arms
        n_runs = len(self.runs)
        rows = n_runs * n_agents
        count, total = plan.prior
        n_rows = n_runs if plan.shared else rows
        state = _aligned(n_rows * 2 * n_arms).reshape(n_rows, 2, n_arms)
        state[:, 0] = count
        state[:, 1] = total
        self.state = state.reshape(-1)
        moves = plan.merge in ("merge_static", "merge_failing", "merge_chebyshev", "merge_tracking")
        self.other = _aligned(self.state.size if moves else 0)
        self.other[:] = 0.0
        self.store = np.zeros(rows * plan.store_width)
        means, self.order = s.true_arms(self.runs)
        self.means = means.reshape(-1)
        self.gaps = (means.max(axis=-1, keepdims=True) - means).reshape(-1)
        self.arms = np.zeros(rows, np.uint32)
        self.pivots = np.zeros(rows, np.uint32)
        self.rewards = np.empty(rows + ROOM)
        self.pulls = np.zeros(rows * n_arms, np.int32)
        self.eager = np.full(n_runs, self.drawing, np.uint8)
        self.regret = np.zeros((n_runs, len(s.times)))

    def block(self, kept: dict[str, FloatArray]) -> Block:
        """The outcome, in the caller's order of arms."""
        n_agents = self.simulation.network.n_agents
        n_arms = self.simulation.bandit.n_arms
        pulls = self.pulls.reshape(len(self.runs), n_agents, n_arms)
        gaps = self.gaps.reshape(len(self.runs), -1, n_arms)
        s = self.simulation
        regret = without_forced_pulls(self.regret, s.times, gaps.mean(axis=1), s.uncharged_rounds)
        return Block(regret, in_callers_order(pulls, self.order), kept)


class Engine:
    """One simulation, ready to be played on some threads."""

    def __init__(self, simulation: Simulation, drawing: int = int(thompson.EAGER)) -> None:
        self.simulation = simulation
        self.drawing = drawing
        self.plan = plan_for(simulation)
        self.links = links_of(simulation.network, self.plan)
        self.table = table_for(simulation, self.plan)
        self.parts = [KERNELS[name].compiled for name in _parts(self.plan)]
        self.worth = BELIEFS[self.plan.belief].worth if self.plan.belief else 1
        self.key = key_of(simulation.seed)

    def run(self, runs: range, threads: int, advance: Advance) -> Block:
        """All runs."""
        n_agents = self.simulation.network.n_agents
        if n_agents >= _BIG_NETWORK and self._splits():
            with ThreadPoolExecutor(threads) as pool:
                return play_blocks(
                    lambda block, go_on: self._play_tiles(block, pool, threads, go_on),
                    split_runs(runs, 1),
                    1,
                    advance,
                )
        size = max(1, min(_BLOCK_ROWS // n_agents, -(-len(runs) // threads)))
        return play_blocks(self._play_block, split_runs(runs, size), threads, advance)

    def _splits(self) -> bool:
        """Whether a tile can be played without waiting for the round's other tiles."""
        apart = ("merge_static", "merge_chebyshev", "merge_nothing")
        return self.plan.merge in apart and not self.plan.shared

    def _play_block(self, runs: Sequence[int], advance: Advance) -> Block:
        """Some whole runs on one thread."""
        rows = Rows(self.simulation, self.plan, runs, self.drawing)
        keeper = Keeper(self, rows)
        n_rows = len(rows.arms)
        horizon = self.simulation.horizon
        work = Work(rows, n_rows, self.links.n_words)
        rounds = max(1, _STEPS_PER_CALL // n_rows)
        starts = set(range(1, horizon + 1, rounds)) | {horizon + 1}
        looks = {int(t) + 1 for t in self.simulation.times} if keeper.looks else set()
        for t, following in pairwise(sorted(starts | looks)):
            rows.flipped = self._play(rows, work, 0, n_rows, n_rows, t, following, alone=True)
            if following in looks:
                keeper.record(following - 1)
            advance(len(runs) * (following - t))
        return rows.block(keeper.arrays())

    def merged(self, rows: Rows, t: int) -> FloatArray:
        """A copy of the state as round t merges it, before anything is chosen in it."""
        s = self.simulation
        links = self.links
        now, out = (rows.other, rows.state) if rows.flipped else (rows.state, rows.other)
        state = now.copy()
        moved_to = out.copy()
        n_rows = len(rows.arms)
        moved = KERNELS[self.plan.merge](
            moved_to, state, links.offsets, links.neighbours, links.weights, links.links,
            links.constants, np.zeros(links.n_words, np.uint64), rows.arms, rows.rewards,
            rows.store.copy(), U64(0), U64(n_rows), U64(s.network.n_agents), U64(s.bandit.n_arms),
            U64(rows.runs[0]), U64(t), *self.key,
        )  # fmt: skip
        return moved_to if moved else state

    def _play_tiles(
        self, runs: Sequence[int], pool: ThreadPoolExecutor, threads: int, advance: Advance
    ) -> Block:
        """One run of a big network, its agents shared out among the threads in every round."""
        s = self.simulation
        rows = Rows(s, self.plan, runs, self.drawing)
        n_rows = len(rows.arms)
        n_tiles = -(-n_rows // _TILE_ROWS)
        cuts = [min(n_rows, n_tiles * i // threads * _TILE_ROWS) for i in range(threads)]
        parts = [(lo, hi) for lo, hi in pairwise([*cuts, n_rows]) if lo < hi]
        works = [Work(rows, _TILE_ROWS, self.links.n_words) for _ in parts]
        columns = {int(t): column for column, t in enumerate(s.times)}
        keeper = Keeper(self, rows)
        for t in range(1, s.horizon + 1):
            played = [
                pool.submit(self._play, rows, work, lo, hi, _TILE_ROWS, t, t + 1, alone=False)
                for work, (lo, hi) in zip(works, parts, strict=True)
            ]
            flipped = [future.result() for future in played]
            rows.flipped = flipped[0]  # alike in all
            # integers, so that the sum does not depend on how the agents were shared out
            close = np.sum([work.close for work in works], axis=0, dtype=np.int32)
            for work in works:
                work.close[:] = 0
            thompson.settle(
                rows.eager, close, U64(self.worth), U64(t), U64(n_rows), U64(s.bandit.n_arms), 1
            )  # fmt: skip
            if t in columns:
                tally = np.sum([work.tally for work in works], axis=0)
                driver.record(
                    tally, rows.pulls, rows.gaps, rows.regret.reshape(-1), columns[t], len(s.times),
                    U64(n_rows), U64(s.bandit.n_arms), 1,
                )  # fmt: skip
                if keeper.looks:
                    keeper.record(t)
            advance(1)
        return rows.block(keeper.arrays())

    def _play(
        self, rows: Rows, work: Work, lo: int, hi: int, tile: int, t: int, end: int, alone: bool
    ) -> bool:
        """Call the driver: rounds t to end - 1 of the rows lo to hi."""
        s = self.simulation
        plan = self.plan
        links = self.links
        return bool(
            driver.play(
                *self.parts,
                rows.state, rows.other, rows.flipped, plan.shared,
                rows.store, plan.staged, plan.unmixed,
                links.offsets, links.neighbours, links.weights,
                links.links, links.constants, work.words,
                self.worth, levels_for(s, t, end), self.table, plan.rate,
                rows.means, plan.parameter,
                rows.arms, rows.pivots, rows.eager, work.close,
                rows.rewards, work.scratch, work.spare, work.stream,
                rows.pulls, work.tally, s.times, rows.gaps, rows.regret.reshape(-1),
                lo, hi, tile, s.network.n_agents, s.bandit.n_arms, rows.runs[0],
                t, end, *self.key, alone,
            )
        )  # fmt: skip


def run(simulation: Simulation, runs: range, threads: int, advance: Advance) -> Block:
    """All runs of a simulation."""
    return Engine(simulation).run(runs, threads, advance)


def _aligned(size: int) -> FloatArray:
    """Empty floats from the start of a cache line on: vectors that straddle two cost a sixth."""
    line = 8  # floats
    floats = np.empty(size + line)
    return floats[-(floats.ctypes.data // floats.itemsize) % line :][:size]


class Work:
    """The working memory of one thread."""

    def __init__(self, rows: Rows, tile: int, n_words: int) -> None:
        n_arms = rows.simulation.bandit.n_arms
        agents = min(tile, rows.simulation.network.n_agents)
        self.scratch = _aligned((agents + 2) * max(8, 3 * (n_arms + 1)) + ROOM)
        self.spare = np.empty(agents * (n_arms + 1) + ROOM, np.uint32)
        self.stream = np.zeros(8, np.uint64)
        self.close = np.zeros(len(rows.runs), np.int32)
        self.tally = np.zeros(len(rows.runs) * n_arms, np.int64)
        self.words = np.zeros(n_words, np.uint64)


def _parts(plan: Plan) -> tuple[str, str, str, str]:
    """The kernels that the driver calls, by name, in its order."""
    return plan.merge, plan.choose, plan.choose_eagerly, plan.draw_rewards


def kernels_of(simulation: Simulation) -> list[Kernel]:
    """The kernels that a simulation needs."""
    return [KERNELS[name] for name in _parts(plan_for(simulation))] + [driver.play]


def prepare(simulations: Iterable[Simulation], announce: Callable[[int], None]) -> None:
    """Compile what some simulations need and the cache has not; say first how long it takes.

    announce: told about how many seconds, once, unless there is nothing to compile.
    """
    compilable = [simulation for simulation in simulations if missing(simulation) is None]
    needed = {kernel.name: kernel for s in compilable for kernel in kernels_of(s)}
    uncached = [kernel for kernel in needed.values() if not kernel.is_cached]
    if uncached:
        announce(math.ceil(3 + sum(kernel.seconds for kernel in uncached)))
    for kernel in needed.values():
        kernel.compiled  # noqa: B018
