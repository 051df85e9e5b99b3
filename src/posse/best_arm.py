"""Best arm: the probability that each arm has the highest mean, and its expected loss.

Quadrature for all families, from their quantiles, distribution functions and densities alone.
`evaluate_arms` is accurate, for reports. `Race` is fast, for decisions of live agents on a
sequence of beliefs that differ little. `gaussian_probability_best` serves many contexts at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from posse.families import Family, get_optional
from posse.randomness import FloatArray

NODES = 10  # quadrature nodes of a cell in the quick rule
STEP = 1.0  # standard normal scores between two edges of an arm's cells
TAIL = 1e-9  # probability beyond the outermost edges, of all arms together
STEEP = 4.0  # the largest ratio of the far to the near edge of a cell, from an end of the range
WITHIN = 5e-8  # tolerance of the integrals of the densities, summed over arms
ROUGH = 1e-3  # tolerance of the last Legendre coefficients, summed over cells
MOST_KEPT = 2_000_000  # numbers that a race caches: 16 MB, enough for a thousand arms


@dataclass(frozen=True)
class _Rule:
    """A quadrature rule: Gauss-Legendre in cells between quantiles of the arms.

    The cells of each arm end at its quantiles at these standard normal scores, so that every
    distribution function is resolved, however narrow compared with the others.
    """

    levels: FloatArray  # (cells + 1,)
    nodes: FloatArray  # on [-1, 1]
    weights: FloatArray

    @classmethod
    def for_scores(cls, farthest: float, n_levels: int, n_nodes: int) -> _Rule:
        from scipy.special import ndtr

        scores = np.linspace(-farthest, farthest, n_levels)
        return cls(ndtr(scores), *np.polynomial.legendre.leggauss(n_nodes))


@cache
def _create_fine_rule() -> _Rule:
    """Create the accurate rule, which also covers heavy tails."""
    return _Rule.for_scores(8.0, 33, 8)


@cache
def _create_quick_rule(n_arms: int) -> _Rule:
    """Create the quick rule: the widest cells that suffice, out to the best of so many arms."""
    from scipy.special import ndtri

    farthest = -float(ndtri(TAIL / n_arms))
    return _Rule.for_scores(farthest, 2 * int(np.ceil(farthest / STEP)) + 1, NODES)


@cache
def _integration_matrix() -> FloatArray:
    """Return the matrix that maps a density at the nodes to integrals: (NODES + 2, NODES).

    Its rows are the integrals of the interpolating polynomial from -1 to each node, the integral
    over [-1, 1], and the last Legendre coefficient, which measures the resolution.
    """
    legendre = np.polynomial.legendre
    nodes, weights = legendre.leggauss(NODES)
    values = legendre.legvander(nodes, NODES - 1)
    running = [
        legendre.legval(nodes, legendre.legint(coefficients, lbnd=-1))
        for coefficients in np.eye(NODES)
    ]
    last = weights * values[:, -1] * (2 * NODES - 1) / 2
    return np.vstack([np.transpose(running) @ np.linalg.inv(values), weights, last])


def evaluate_arms(family: Family, belief: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return P(arm k is the best) and E[mean of the best - mean of k]: (D, K) -> each (K,).

    The first is the integral of f_k times the product of the other arms' F_j, the second that of
    F_k (1 - product).
    """
    # Cells of all arms together: between two edges every density is smooth.
    rule = _create_fine_rule()
    edges = _place_edges(family, family.mean_quantile(belief[:, None, :], rule.levels[:, None]))
    x, half = _place_nodes(family, edges, rule)
    width = (rule.weights[:, None] * half).ravel()
    density = np.exp(family.log_density(belief[:, :, None], x))
    below = family.mean_cdf(belief[:, :, None], x)
    product = _product_of_others(below)
    first = (density * product) @ width  # P(arm k is the best)
    behind = (below * (1.0 - product)) @ width
    return (
        (first / first.sum(), behind)
        if first.sum() > 0.5
        else _evaluate_certain_arms(family, belief)
    )


def evaluate_tolerance(family: Family, belief: FloatArray, tolerance: float) -> FloatArray:
    """Return P(no arm is better than k by more than the tolerance): (D, K) -> (K,).

    It is the integral of f_k(x) times the product of the other arms' F_j(x + tolerance).
    """
    rule = _create_fine_rule()
    quantiles = family.mean_quantile(belief[:, None, :], rule.levels[:, None])
    low = family.means.low
    high = family.means.high
    # cells that resolve the densities, and the distribution functions where they are moved
    moved = np.clip(quantiles - tolerance, low, high)
    edges = _place_edges(family, np.concatenate([quantiles, moved], axis=1))
    x, half = _place_nodes(family, edges, rule)
    width = (rule.weights[:, None] * half).ravel()
    density = np.exp(family.log_density(belief[:, :, None], x))
    shifted = np.minimum(x + tolerance, np.nextafter(high, low))
    below = family.mean_cdf(belief[:, :, None], shifted)
    below = np.where(x + tolerance >= high, 1.0, below)
    mass = density @ width
    if not (mass > 0.5).all():  # arms that are known to the last digit
        mean = family.posterior_mean(belief)
        return np.asarray(mean.max() - mean <= tolerance, dtype=float)
    return np.asarray((density * _product_of_others(below)) @ width / mass).clip(0.0, 1.0)


def _evaluate_certain_arms(family: Family, belief: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Evaluate arms that are known to the last digit: all their quantiles are one number."""
    mean = family.posterior_mean(belief)
    leads = mean == mean.max()
    return leads / leads.sum(), mean.max() - mean


class Race:
    """The probability of each arm to have the highest mean, within 1e-7, with a cache.

    It evaluates only densities: distribution functions are their running integrals on the same
    cells. The cells cover the means above the largest low end of all arms, below which no arm can
    win. Invariant: cells are reused only while every density integrates to one on them; otherwise
    new cells are placed, and if these fail as well, the fine rule is used.
    """

    def __init__(self, family: Family) -> None:
        self.family = family
        self._cells: Cells | None = None
        self._belief: FloatArray | None = None
        self._chances: FloatArray = np.empty(0)

    def __call__(self, belief: FloatArray) -> FloatArray:
        """Return the probabilities (K,) of a belief (D, K), read-only, or the last result."""
        if self._belief is not belief:
            self._chances = self._compute_chances(belief)
            self._chances.setflags(write=False)
            # A writeable array may change in place, so its identity proves nothing.
            self._belief = None if belief.flags.writeable else belief
        return self._chances

    def _compute_chances(self, belief: FloatArray) -> FloatArray:
        chances = None if self._cells is None else self._cells.compute_chances(self.family, belief)
        if chances is None:
            cells = Cells(self.family, belief)
            chances = cells.compute_chances(self.family, belief)
            self._cells = cells if cells.size <= MOST_KEPT else None
        return evaluate_arms(self.family, belief)[0] if chances is None else chances


class Cells:
    """Quadrature cells of the arms that can win, above a start below which no arm can win.

    Integrals are cached by arm, because a reward changes the belief about one arm only.
    """

    def __init__(self, family: Family, belief: FloatArray) -> None:
        """Place the cells between quantiles of the arms that can win."""
        n_arms = belief.shape[-1]
        rule = _create_quick_rule(n_arms)
        quantiles = family.mean_quantile(belief[:, None, :], rule.levels[:, None])
        # The winner lies above the largest of the low quantiles, up to the probability TAIL.
        self.start = quantiles[0].max()
        self.arms = np.flatnonzero(quantiles[-1] > self.start)
        edges = _place_edges(family, quantiles[:, self.arms], self.start)
        self.x, self.half = _place_nodes(family, edges, rule)
        self.width = (rule.weights[:, None] * self.half).ravel()
        self._row = np.full(n_arms, -1)  # row of each arm that can win, else -1
        self._row[self.arms] = np.arange(len(self.arms))
        self._belief = np.full(belief.shape, np.nan)  # the belief of the cached integrals
        self._below = np.zeros(n_arms)  # probability below the start
        self._mass = np.zeros(n_arms)  # probability above it, by quadrature
        self._rough = np.zeros(n_arms)
        self._density = np.empty((len(self.arms), len(self.x)))
        self._distribution = np.empty_like(self._density)

    @property
    def size(self) -> int:
        """The number of cached floats."""
        return 2 * self._density.size

    def compute_chances(self, family: Family, belief: FloatArray) -> FloatArray | None:
        """Return the P(best) of every arm; None if these cells do not resolve a density."""
        if belief.shape != self._belief.shape or not self.half.size:
            return None
        self._update_arms(family, belief, np.logical_or.reduce(belief != self._belief).nonzero()[0])
        # The cached cells resolve a belief if the densities integrate to one on them, no
        # probability of a winner lies below the start, and the last coefficients are small.
        lacking = np.add.reduce(np.abs(1.0 - self._below - self._mass))
        lost = np.multiply.reduce(self._below)
        rough = np.add.reduce(self._rough)
        if not (lacking < WITHIN and lost < WITHIN and rough < ROUGH):
            return None
        product = _product_of_others(self._distribution)
        product *= self._density
        first = product @ self.width
        chances = np.zeros(len(self._row))
        chances[self.arms] = np.maximum(first / first.sum(), 0.0)
        return chances

    def _update_arms(self, family: Family, belief: FloatArray, changed: NDArray[np.intp]) -> None:
        """Update the integrals of the arms whose belief has changed."""
        arms: slice | NDArray[np.intp] = changed
        # Nearly always one arm has changed, and slices are faster than index arrays.
        if len(changed) == 1:
            arms = slice(changed[0], changed[0] + 1)
        self._belief[:, arms] = belief[:, arms]
        self._below[arms] = family.mean_cdf(belief[:, arms], self.start)
        rows = self._row[arms]
        if len(rows) == 1 and rows[0] >= 0:
            self._integrate_arms(family, belief, arms, slice(rows[0], rows[0] + 1))
        elif (rows >= 0).any():
            self._integrate_arms(family, belief, changed[rows >= 0], rows[rows >= 0])

    def _integrate_arms(
        self,
        family: Family,
        belief: FloatArray,
        arms: slice | NDArray[np.intp],
        rows: slice | NDArray[np.intp],
    ) -> None:
        """Integrate the densities of some arms that can win, A of them."""
        density = np.exp(family.log_density(belief[:, arms, None], self.x))  # (A, NODES C)
        integrals = _integration_matrix() @ density.reshape(
            len(density), NODES, -1
        )  # (A, NODES + 2, C)
        integrals *= self.half
        mass = integrals[:, -2]
        last = integrals[:, -1]
        up_to = np.add.accumulate(mass, axis=1)
        self._mass[arms], self._rough[arms] = up_to[:, -1], np.add.reduce(np.abs(last), axis=1)
        distribution = integrals[:, :-2]
        distribution += (self._below[arms, None] + up_to - mass)[:, None, :]
        self._density[rows] = density
        self._distribution[rows] = distribution.reshape(density.shape)


def _place_edges(family: Family, quantiles: FloatArray, start: float = -np.inf) -> FloatArray:
    """Return the edges of cells above the start, ascending, none wider than those of an arm."""
    jumps = get_optional(family, "edges")  # of a piecewise constant density
    edges = _sort_distinct(np.append(quantiles, jumps))
    edges = edges[edges >= start]
    if len(edges) < 3 or len(jumps):
        return np.asarray(edges)
    edges = _drop_narrow_cells(edges, quantiles)
    # At an end of the range a density may be infinite, like a power of the distance to it.
    edges = _split_steep_cells(edges, family.means.low)
    return -_split_steep_cells(-edges[::-1], -family.means.high)[::-1]


def _sort_distinct(values: FloatArray) -> FloatArray:
    """Return the distinct finite values, ascending (np.unique would import masked arrays)."""
    values = np.sort(values[np.isfinite(values)])
    return np.asarray(values[np.diff(values, prepend=-np.inf) > 0])


def _split_steep_cells(edges: FloatArray, end: float) -> FloatArray:
    """Split cells whose edges have very different distances to the lower end of the range."""
    near = edges[:-1] - end
    far = edges[1:] - end
    steep = (near > 0) & (far > STEEP * near) & np.isfinite(far)
    if not steep.any():
        return edges
    growth = np.log(np.divide(far, near, out=np.ones_like(far), where=steep))
    pieces = np.ceil(growth / np.log(STEEP)).clip(1).astype(int)
    cell = np.repeat(np.arange(len(near)), pieces)
    place = (np.arange(len(cell)) - np.repeat(pieces.cumsum() - pieces, pieces)) / pieces[cell]
    inner = end + near[cell] * np.exp(growth[cell] * place)
    return _sort_distinct(np.append(np.where(place > 0, inner, edges[cell]), edges[-1]))


def _place_nodes(family: Family, edges: FloatArray, rule: _Rule) -> tuple[FloatArray, FloatArray]:
    """Return the nodes of all cells, node by node, and the half widths of the cells."""
    middle = (edges[1:] + edges[:-1]) / 2
    half = (edges[1:] - edges[:-1]) / 2
    x = (middle + half * rule.nodes[:, None]).ravel()
    # A node may round to an end of the range, where a density may be infinite.
    low = family.means.low
    high = family.means.high
    return np.clip(x, np.nextafter(low, high), np.nextafter(high, low)), half


def _drop_narrow_cells(edges: FloatArray, quantiles: FloatArray) -> FloatArray:
    """Drop edges while every cell stays as narrow as the cells of each arm there."""
    low = quantiles[:-1].ravel()
    high = quantiles[1:].ravel()
    within = np.isfinite(low) & np.isfinite(high) & (low < high) & (high > edges[0])
    low = low[within]
    high = high[within]
    narrowest = _range_minima(
        np.searchsorted(edges, low), np.searchsorted(edges, high), high - low, len(edges) - 1
    ).tolist()
    indices = [0]
    limit = np.inf
    places = edges.tolist()
    for i, narrow in enumerate(narrowest):
        limit = min(limit, narrow)
        if places[i + 1] - places[indices[-1]] > limit and indices[-1] < i:
            indices.append(i)
            limit = narrow
    return edges[[*indices, len(edges) - 1]]


def _range_minima(
    first: NDArray[np.intp], end: NDArray[np.intp], values: FloatArray, size: int
) -> FloatArray:
    """Return for each place the least value whose range [first, end) contains it: (size,)."""
    # a sparse table: two overlapping powers of 2 cover a range, and each level passes its minima
    # down to the level of half its length
    span = np.floor(np.log2(np.maximum(end - first, 1))).astype(int)
    levels = np.full((int(span.max()) + 1, size), np.inf)
    np.minimum.at(levels, (span, first), values)
    np.minimum.at(levels, (span, end - 2**span), values)
    for level in range(len(levels) - 1, 0, -1):
        half = 2 ** (level - 1)
        wide = levels[level]
        np.minimum(levels[level - 1], wide, out=levels[level - 1])
        np.minimum(levels[level - 1][half:], wide[:-half], out=levels[level - 1][half:])
    return np.asarray(levels[0])


def _product_of_others(factors: FloatArray) -> FloatArray:
    """Return the product over all other arms: (K, nodes) -> (K, nodes)."""
    # The products of the arms before, then those of the arms after; a division would fail where a
    # factor is 0. Row by row: NumPy accumulates along the first axis at a fourth of the speed.
    product = np.empty_like(factors)
    product[0] = 1.0
    for k in range(1, len(factors)):
        np.multiply(product[k - 1], factors[k - 1], out=product[k])
    after = factors[-1].copy()
    for k in range(len(factors) - 2, -1, -1):
        product[k] *= after
        after *= factors[k]
    return product


# Gaussian beliefs at many contexts at once: every visitor has another context, so no cache of the
# previous belief helps. Log-odds serve as well as probabilities, because a monotone map preserves
# the order of the arms.

FARTHEST = 6.0  # standard deviations, with a tail of 1e-9 on either side
SCORES = np.array([-FARTHEST, -3.0, 0.0, 3.0, FARTHEST])  # edges of the cells of an arm
GAUSSIAN_NODES = 8  # Gauss-Legendre nodes of a cell; the largest error measured was 5e-8


@cache
def _create_gaussian_rule() -> tuple[FloatArray, FloatArray]:
    nodes, weights = np.polynomial.legendre.leggauss(GAUSSIAN_NODES)
    return nodes, weights


def gaussian_probability_best(mean: FloatArray, sd: FloatArray) -> FloatArray:
    """Return the P(best) of every arm, by means and sds of B beliefs: (B, K), (B, K) -> (B, K).

    It integrates the density of an arm times the distribution functions of the others, in cells no
    wider than three standard deviations of any arm there, from the largest low end of all arms on.
    """
    from scipy.special import ndtr

    nodes, weights = _create_gaussian_rule()
    batch = len(mean)
    start = (mean - FARTHEST * sd).max(axis=1)
    edges = (mean[:, :, None] + sd[:, :, None] * SCORES).reshape(batch, -1)
    edges = np.sort(np.maximum(edges, start[:, None]), axis=1)
    half = np.diff(edges, axis=1)[:, :, None] / 2
    x = (edges[:, :-1, None] + half * (1.0 + nodes)).reshape(batch, 1, -1)
    score = (x - mean[:, :, None]) / sd[:, :, None]  # (B, K, nodes)
    below = ndtr(score)
    product = np.ones_like(below)
    after = np.ones_like(below)
    np.multiply.accumulate(below[:, :-1], axis=1, out=product[:, 1:])
    np.multiply.accumulate(below[:, :0:-1], axis=1, out=after[:, 1:])
    product *= after[:, ::-1]
    product *= np.exp(-0.5 * score * score)
    first = (product @ (half * weights).reshape(batch, -1, 1))[:, :, 0] / sd
    first *= 1.0 / math.sqrt(2.0 * math.pi)
    total = first.sum(axis=1, keepdims=True)
    # Arms that are known to the last digit have cells of width zero.
    if not (total > 0.5).all():
        leads = np.asarray(mean == mean.max(axis=1, keepdims=True), dtype=float)
        first = np.where(total > 0.5, first, leads)
        total = first.sum(axis=1, keepdims=True)
    return np.asarray(first / total)
