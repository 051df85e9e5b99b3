"""Parameters of a test in all combinations, of which `make test` runs a few."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import pytest


def all_combinations(**axes: Mapping[str, Any] | Iterable[str]) -> pytest.MarkDecorator:
    """Parametrise a test by all combinations of the axes' values; most of them are long.

    A Latin square stays in `make test`: of two axes every value, of three axes every pair of
    values of any two.  An axis has values by name, or names that are the values.
    """
    items = [
        list(axis.items() if isinstance(axis, Mapping) else ((name, name) for name in axis))
        for axis in axes.values()
    ]
    shortest = min(map(len, items))
    cases = []
    for places in itertools.product(*map(enumerate, items)):
        in_square = sum(number for number, _ in places) % shortest == 0
        cases.append(
            pytest.param(
                *(value for _, (_, value) in places),
                id="-".join(name for _, (name, _) in places),
                marks=[] if in_square else pytest.mark.long,
            )
        )
    return pytest.mark.parametrize(list(axes), cases)
