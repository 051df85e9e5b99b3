"""The race of the arms for the highest mean: P(best) and expected loss, by quadrature.

Written once for all families, from their quantiles, distribution functions and densities alone.
`fine` is for what people read; `Race` for decisions, one after the other on beliefs that differ
little.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from posse.families.family import Family
from posse.families.optional_methods import get_optional
from posse.randomness import FloatArray

NODES = 10  # of a quick rule in a cell
STEP = 1.0  # standard normal scores between two edges of an arm's cells
TAIL = 1e-9  # of all arms together, beyond the outermost edges
STEEP = 4.0  # times as far from an end of the range as its near edge a cell may reach
WITHIN = 5e-8  # what every density may lack to one, all arms together
ROUGH = 1e-3  # and the last coefficient of its expansion in the cells, summed
MOST_KEPT = 2_000_000  # numbers of one race: 16 MB, as a thousand arms need


@dataclass(frozen=True)
class _Rule:
    """Where to integrate: Gauss-Legendre in cells between quantiles of the arms.

    The cells of each arm end at its quantiles of these standard normal scores, so that every arm's
    rise from 0 to 1 is resolved, however narrow beside the others.
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
    """Also for the tails of beliefs without a mean to speak of."""
    return _Rule.for_scores(8.0, 33, 8)


@cache
def _create_quick_rule(n_arms: int) -> _Rule:
    """As wide cells as do, as far out as the best of so many arms may lie."""
    from scipy.special import ndtri

    farthest = -float(ndtri(TAIL / n_arms))
    return _Rule.for_scores(farthest, 2 * int(np.ceil(farthest / STEP)) + 1, NODES)


@cache
def _integration_matrix() -> FloatArray:
    """What turns a density at the nodes into integrals over [-1, 1], (NODES + 2, NODES).

    From -1 to each node, those of the interpolating polynomial; over all; and the size of its last
    Legendre coefficient, which tells how well it is resolved.
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
    """P(arm k is the best) and E[mean of the best - mean of k]: (D, K) -> each (K,).

    The first is the integral of f_k times the product of the other arms' F_j, the second that of
    F_k (1 - product).
    """
    rule = _create_fine_rule()
    edges = _place_edges(family, family.mean_quantile(belief[:, None, :], rule.levels[:, None]))
    x, half = _place_nodes(family, edges, rule)
    width = (rule.weights[:, None] * half).ravel()
    density = np.exp(family.log_density(belief[:, :, None], x))
    below = family.mean_cdf(belief[:, :, None], x)
    product = _product_of_others(below)
    first = (density * product) @ width  # where arm k comes first at x
    behind = (below * (1.0 - product)) @ width
    return (
        (first / first.sum(), behind)
        if first.sum() > 0.5
        else _evaluate_certain_arms(family, belief)
    )


def _evaluate_certain_arms(family: Family, belief: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The race of arms known to the last digit, whose quantiles are one number."""
    mean = family.posterior_mean(belief)
    leads = mean == mean.max()
    return leads / leads.sum(), mean.max() - mean


class Race:
    """The chance of each arm to have the highest mean, within 1e-7, for one belief after another.

    Only densities are evaluated: distribution functions are their running integrals on the same
    cells.  These lie where the race is decided, above the highest of the arms' low ends, and stay
    from one belief to the next as long as every density still integrates to one on them; else they
    are laid anew, and where that does not do either, the fine rule has the word.
    """

    def __init__(self, family: Family) -> None:
        self.family = family
        self._cells: _Cells | None = None
        self._belief: FloatArray | None = None
        self._chances: FloatArray = np.empty(0)

    def __call__(self, belief: FloatArray) -> FloatArray:
        """The chances (K,) of a belief (D, K), read-only; those of the last belief are kept."""
        if self._belief is not belief:
            self._chances = self._compute_chances(belief)
            self._chances.setflags(write=False)
            # an array that may change is no proof that the belief did not
            self._belief = None if belief.flags.writeable else belief
        return self._chances

    def _compute_chances(self, belief: FloatArray) -> FloatArray:
        chances = None if self._cells is None else self._cells.compute_chances(self.family, belief)
        if chances is None:
            cells = _Cells(self.family, belief)
            chances = cells.compute_chances(self.family, belief)
            self._cells = cells if cells.size <= MOST_KEPT else None
        return evaluate_arms(self.family, belief)[0] if chances is None else chances


class _Cells:
    """Cells for some of K arms, from a start on: below it nobody wins, nor do the other arms.

    What was integrated of an arm is kept, for a reward changes the belief about one arm only.
    """

    def __init__(self, family: Family, belief: FloatArray) -> None:
        """Between quantiles of the arms that can win."""
        n_arms = belief.shape[-1]
        rule = _create_quick_rule(n_arms)
        quantiles = family.mean_quantile(belief[:, None, :], rule.levels[:, None])
        self.start = quantiles[0].max()
        self.arms = np.flatnonzero(quantiles[-1] > self.start)
        edges = _place_edges(family, quantiles[:, self.arms], self.start)
        self.x, self.half = _place_nodes(family, edges, rule)
        self.width = (rule.weights[:, None] * self.half).ravel()
        self._row = np.full(n_arms, -1)  # of each arm among those that can win
        self._row[self.arms] = np.arange(len(self.arms))
        self._belief = np.full(belief.shape, np.nan)  # that which the rest is of
        self._below = np.zeros(n_arms)  # the start
        self._mass = np.zeros(n_arms)  # above it, by quadrature
        self._rough = np.zeros(n_arms)
        self._density = np.empty((len(self.arms), len(self.x)))
        self._distribution = np.empty_like(self._density)

    @property
    def size(self) -> int:
        """How many numbers are kept."""
        return 2 * self._density.size

    def compute_chances(self, family: Family, belief: FloatArray) -> FloatArray | None:
        """Of every arm to be the best; None if a density is not resolved by these cells."""
        if belief.shape != self._belief.shape or not self.half.size:
            return None
        self._update_arms(family, belief, np.logical_or.reduce(belief != self._belief).nonzero()[0])
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
        """Take over the belief of the arms for which it has changed."""
        arms: slice | NDArray[np.intp] = changed
        if len(changed) == 1:  # nearly always, and slices are quicker
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
    """The ends of cells from the start on, ascending, none wider than those of an arm there."""
    jumps = get_optional(family, "edges")  # of a family on cells
    edges = _sort_distinct(np.append(quantiles, jumps))
    edges = edges[edges >= start]
    if len(edges) < 3 or len(jumps):
        return np.asarray(edges)
    edges = _drop_narrow_cells(edges, quantiles)
    # a density may be infinite at an end of the range, like a power of the distance
    edges = _split_steep_cells(edges, family.means.low)
    return -_split_steep_cells(-edges[::-1], -family.means.high)[::-1]


def _sort_distinct(values: FloatArray) -> FloatArray:
    """The finite ones of the values, ascending, each once; np.unique loads masked arrays."""
    values = np.sort(values[np.isfinite(values)])
    return np.asarray(values[np.diff(values, prepend=-np.inf) > 0])


def _split_steep_cells(edges: FloatArray, end: float) -> FloatArray:
    """Cells that reach many times as far from the lower end of the range cut up in proportion."""
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
    """Means in the cells, those of one place in all of them side by side, and half widths."""
    middle = (edges[1:] + edges[:-1]) / 2
    half = (edges[1:] - edges[:-1]) / 2
    x = (middle + half * rule.nodes[:, None]).ravel()
    # a node beside an end of the range may round to it, where a density may be infinite
    low = family.means.low
    high = family.means.high
    return np.clip(x, np.nextafter(low, high), np.nextafter(high, low)), half


def _drop_narrow_cells(edges: FloatArray, quantiles: FloatArray) -> FloatArray:
    """Of the edges as many as keep every cell as narrow as those of each arm there."""
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
    """For each place the least of the values whose range [first, end) holds it: (size,)."""
    span = np.floor(np.log2(np.maximum(end - first, 1))).astype(int)
    levels = np.full((int(span.max()) + 1, size), np.inf)
    np.minimum.at(levels, (span, first), values)  # two halves of a power of 2 cover a range
    np.minimum.at(levels, (span, end - 2**span), values)
    for level in range(len(levels) - 1, 0, -1):
        half = 2 ** (level - 1)
        wide = levels[level]
        np.minimum(levels[level - 1], wide, out=levels[level - 1])
        np.minimum(levels[level - 1][half:], wide[:-half], out=levels[level - 1][half:])
    return np.asarray(levels[0])


def _product_of_others(factors: FloatArray) -> FloatArray:
    """For each arm the product over all other arms, without dividing: (K, nodes) -> (K, nodes)."""
    product = np.empty_like(factors)
    after = np.empty_like(factors)
    product[0] = after[0] = 1.0
    np.multiply.accumulate(factors[:-1], axis=0, out=product[1:])
    np.multiply.accumulate(factors[:0:-1], axis=0, out=after[1:])
    product *= after[::-1]
    return product


# The race of Gaussian beliefs for the highest mean, for many contexts at once (quadrature).
#
# As `race`, where there is no belief before that differs little: every visitor has another
# context. Log-odds do as well as probabilities, for a monotone map leaves the order of the arms
# as it is.

FARTHEST = 6.0  # standard deviations: of an arm 1e-9 lies beyond, on either side
SCORES = np.array([-FARTHEST, -3.0, 0.0, 3.0, FARTHEST])  # at which the cells of an arm end
GAUSSIAN_NODES = 8  # of Gauss-Legendre in a cell, where 5e-8 is the worst error that was seen


@cache
def _create_gaussian_rule() -> tuple[FloatArray, FloatArray]:
    nodes, weights = np.polynomial.legendre.leggauss(GAUSSIAN_NODES)
    return nodes, weights


def gaussian_probability_best(mean: FloatArray, sd: FloatArray) -> FloatArray:
    """Of every arm to have the highest mean: (B, K), (B, K) -> (B, K).

    The integral of its density times the other arms' distribution functions, in cells that are no
    wider than three standard deviations of any arm that rises there, from where all have begun to.
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
    if not (total > 0.5).all():  # arms known to the last digit, whose cells are one number
        leads = np.asarray(mean == mean.max(axis=1, keepdims=True), dtype=float)
        first = np.where(total > 0.5, first, leads)
        total = first.sum(axis=1, keepdims=True)
    return np.asarray(first / total)
