"""The evidence of one observation in a row: eq. `posterior_update`."""

from __future__ import annotations

from numba import njit

from posse.lab.compiled.philox import U64


@njit(inline="always")
def add_evidence(rows, cell, weight, reward, n_arms, squares):
    """Count += weight, total += weight * reward; where rows have squares, these as well."""
    rows[cell] += weight
    rows[cell + n_arms] += weight * reward
    if squares:
        rows[cell + U64(2) * n_arms] += weight * (reward * reward)


@njit(inline="always")
def correct_evidence(rows, cell, weight, assumed, reward, n_arms, squares):
    """Replace an assumed reward, which was added as evidence, by the reward."""
    rows[cell + n_arms] += weight * (reward - assumed)
    if squares:
        rows[cell + U64(2) * n_arms] += weight * (reward * reward - assumed * assumed)
