"""Any likelihood of one parameter: the belief is the log-density on a grid of theta."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.families.family import REAL_LINE, Interval
from posse.families.optional_methods import OptionalMethods
from posse.randomness import FloatArray, Numbers, Randomness

# (rewards, theta) -> log p(reward | theta); (theta) -> mean; (mean, uniform) -> reward.
# All are applied to arrays.
LogLikelihood = Callable[[Any, Any], Any]
MeanOf = Callable[[Any], Any]
RewardDraw = Callable[[Any, Any], Any]


def _bernoulli_log_likelihood(reward: Any, theta: Any) -> Any:
    return reward * np.log(theta) + (1 - reward) * np.log1p(-theta)


def _identity(theta: Any) -> Any:
    return theta


def _draw_bernoulli(mean: Any, uniform: Any) -> Any:
    return np.asarray(uniform < mean, dtype=float)


def _take_cell(values: FloatArray, cell: NDArray[np.intp]) -> FloatArray:
    """Take the value at a cell: (D, ...) and (...) -> (...), broadcast."""
    return np.asarray(np.take_along_axis(values, cell[None], axis=0)[0])


@dataclass(frozen=True)
class Grid(OptionalMethods):
    """Rewards with any likelihood of one parameter theta, with a uniform prior on its support.

    The support is cut into `points` equal cells; the D = points coordinates are log-densities at
    their centres, so eqs. `posterior_update` and `merge_posteriors` hold by the midpoint rule.
    Inside a cell the belief about the mean is uniform: samples and quantiles interpolate there,
    and two arms whose means lie within one cell can never be distinguished.

    `mean(theta)` must be finite and strictly monotone on the support; `draw(mean, uniform)` returns
    the reward of an arm at a quantile level and is needed only to simulate such a bandit.
    """

    name: ClassVar[str] = "grid"
    parameters: ClassVar[tuple[str, ...]] = ("mean",)
    rewards: ClassVar[Interval] = REAL_LINE

    log_likelihood: LogLikelihood
    mean: MeanOf
    support: tuple[float, float]
    points: int = 512
    draw: RewardDraw | None = None

    def __post_init__(self) -> None:
        for field in ("log_likelihood", "mean"):
            if not callable(getattr(self, field)):
                raise ValueError(f"{field} must be a function, got {getattr(self, field)!r}")
        if self.draw is not None and not callable(self.draw):
            raise ValueError(f"draw must be a function or None, got {self.draw!r}")
        if not isinstance(self.support, (tuple, list)) or len(self.support) != 2:
            raise ValueError(f"support must be a pair (low, high), got {self.support!r}")
        low = validation.validate_number("the low end of support", self.support[0])
        high = validation.validate_number("the high end of support", self.support[1], above=low)
        # a tuple of floats, so that equal grids compare and hash alike
        object.__setattr__(self, "support", (low, high))
        object.__setattr__(
            self, "points", validation.validate_integer("points", self.points, at_least=2)
        )
        steps = np.diff(self._mean_of_theta(self._theta_edges))
        if not (np.all(steps > 0) or np.all(steps < 0)):
            raise ValueError("mean must be finite and strictly monotone in theta on the support")

    @classmethod
    def example(cls) -> Grid:
        """A Bernoulli likelihood on a grid, for the law tests."""
        return cls(_bernoulli_log_likelihood, _identity, (0.0, 1.0), draw=_draw_bernoulli)

    def _mean_of_theta(self, theta: FloatArray) -> FloatArray:
        return np.broadcast_to(np.asarray(self.mean(theta), dtype=float), theta.shape)

    @property
    def _theta_edges(self) -> FloatArray:
        return np.linspace(*self.support, self.points + 1)

    @cached_property
    def edges(self) -> FloatArray:
        """The means at the cells' edges, ascending: (D + 1,)."""
        return np.sort(self._mean_of_theta(self._theta_edges))

    @cached_property
    def centres(self) -> FloatArray:
        """The theta at the cells' centres, in the order of ascending means: (D,)."""
        edges = self._theta_edges
        centres = (edges[:-1] + edges[1:]) / 2
        means = self._mean_of_theta(edges)
        # A falling mean reverses the cells, so that centres and sorted edges stay in step.
        return centres if means[0] < means[-1] else centres[::-1]

    @property
    def means(self) -> Interval:
        """The range of the mean over the support."""
        return Interval(float(self.edges[0]), float(self.edges[-1]))

    def prior(self) -> FloatArray:
        """Uniform in theta: zeros (D,)."""
        return np.zeros(self.points)

    def statistic(self, rewards: FloatArray) -> FloatArray:
        """log p(y | theta) at the centres: (...) -> (D, ...)."""
        theta = self.centres.reshape(-1, *[1] * np.ndim(rewards))
        return np.asarray(self.log_likelihood(rewards, theta), dtype=float)

    def _cell_masses(self, belief: FloatArray) -> FloatArray:
        """Return the probability of each cell: (D, ...) -> (D, ...)."""
        # relative to the peak, so that exp does not overflow
        masses: FloatArray = np.exp(belief - belief.max(axis=0))
        return np.asarray(masses / masses.sum(axis=0))

    def posterior_mean(self, belief: FloatArray) -> FloatArray:
        """Cell by cell, each at the middle of its means."""
        middles = (self.edges[:-1] + self.edges[1:]) / 2
        # Cell by cell, not by BLAS, whose rounding depends on the place of an agent: equal beliefs
        # must have equal means, so that ties are ties.
        weighted = self._cell_masses(belief) * middles.reshape(-1, *[1] * (belief.ndim - 1))
        return np.asarray(weighted.sum(axis=0))

    def posterior_variance(self, belief: FloatArray) -> FloatArray:
        """Between the cells and, uniform there, inside them."""
        middles = (self.edges[:-1] + self.edges[1:]) / 2
        widths = np.diff(self.edges)
        off = middles.reshape(-1, *[1] * (belief.ndim - 1)) - self.posterior_mean(belief)
        # the variance of a uniform law on a cell
        inside = (widths**2 / 12).reshape(-1, *[1] * (belief.ndim - 1))
        return np.asarray((self._cell_masses(belief) * (off**2 + inside)).sum(axis=0))

    def sample_mean(self, belief: FloatArray, generator: Randomness) -> FloatArray:
        """The quantile at a uniform level."""
        return self.mean_quantile(belief, generator.random(belief.shape[1:]))

    def mean_quantile(self, belief: FloatArray, level: Numbers) -> FloatArray:
        """The cell that holds the level, then linear inside it."""
        level, belief = self._align_axes(belief, level)
        masses = self._cell_masses(belief)
        cumulative = np.cumsum(masses, axis=0)
        # By rounding the cumulative sum may end below 1: the last cell with mass is the limit.
        level = np.minimum(level, cumulative[-1])
        # Cells without mass are skipped, because the fraction below divides by it.
        cell = np.argmax((cumulative >= level) & (masses > 0), axis=0)
        mass = _take_cell(masses, cell)
        below = _take_cell(cumulative, cell) - mass
        fraction = np.clip((level - below) / mass, 0.0, 1.0)
        low = self.edges[cell]
        high = self.edges[cell + 1]
        return np.asarray(low + fraction * (high - low))

    def mean_cdf(self, belief: FloatArray, mean: Numbers) -> FloatArray:
        """The mass of the cells below, and a fraction of the cell that holds the mean."""
        mean, belief = self._align_axes(belief, mean)
        masses = self._cell_masses(belief)
        cell = self._find_cell(mean)
        mass = _take_cell(masses, cell)
        below = _take_cell(np.cumsum(masses, axis=0) - masses, cell)
        low = self.edges[cell]
        high = self.edges[cell + 1]
        return np.asarray(below + mass * np.clip((mean - low) / (high - low), 0.0, 1.0))

    def log_density(self, belief: FloatArray, mean: Numbers, *nuisance: Numbers) -> FloatArray:
        """The log of a cell's mass over its width; -inf outside the support."""
        mean, belief = self._align_axes(belief, mean)
        peak = belief.max(axis=0)
        log_masses = belief - peak - np.log(np.exp(belief - peak).sum(axis=0))
        cell = self._find_cell(mean)
        inside = (mean >= self.edges[0]) & (mean <= self.edges[-1])
        log_density = _take_cell(log_masses, cell) - np.log(np.diff(self.edges))[cell]
        return np.where(inside, log_density, -np.inf)

    def kl(self, belief: FloatArray, other: FloatArray) -> FloatArray:
        """The divergence KL(belief, other), summed over the cells: (D, ...) -> (...).

        It is infinite where the other belief excludes a cell that this one does not.
        """
        from scipy.special import rel_entr

        # cells have the same widths in both densities, so that these cancel
        masses = rel_entr(self._cell_masses(belief), self._cell_masses(other))
        return np.asarray(np.maximum(masses.sum(axis=0), 0.0))

    def hellinger(self, belief: FloatArray, other: FloatArray) -> FloatArray:
        """The Hellinger distance, summed over the cells: (D, ...) -> (...)."""
        roots = np.sqrt(self._cell_masses(belief)) - np.sqrt(self._cell_masses(other))
        return np.asarray(np.sqrt((roots**2).sum(axis=0) / 2))

    def _find_cell(self, mean: FloatArray) -> NDArray[np.intp]:
        """The cell that holds a mean, the nearest for one outside the support."""
        return np.clip(np.searchsorted(self.edges, mean, side="right") - 1, 0, self.points - 1)

    def _align_axes(self, belief: FloatArray, values: Numbers) -> tuple[FloatArray, FloatArray]:
        """Return values of the common shape (...), and the belief with as many axes: (D, ...).

        The belief is not repeated along the values, because its D coordinates are large.
        """
        shape = np.broadcast_shapes(np.shape(values), belief.shape[1:])
        missing = len(shape) - (belief.ndim - 1)
        belief = belief.reshape(self.points, *[1] * missing, *belief.shape[1:])
        return np.broadcast_to(np.asarray(values, dtype=float), shape), belief

    def reward_log_density(self, rewards: Numbers, mean: Numbers, *nuisance: Numbers) -> FloatArray:
        """log p(y | theta) at the theta of a mean, by interpolation on the grid."""
        theta_edges = self._theta_edges
        ascending = self._mean_of_theta(theta_edges)[0] < self._mean_of_theta(theta_edges)[-1]
        theta = np.interp(mean, self.edges, theta_edges if ascending else theta_edges[::-1])
        return np.asarray(self.log_likelihood(rewards, theta), dtype=float)

    def draw_rewards(self, means: FloatArray, generator: Randomness) -> FloatArray:
        """Draw rewards by the user-defined `draw` at uniform levels."""
        if self.draw is None:
            raise ValueError(
                "this Grid family cannot simulate rewards: "
                "give it draw=, a function (mean, uniform) -> reward"
            )
        return np.asarray(self.draw(means, generator.random(means.shape)), dtype=float)
