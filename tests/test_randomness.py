"""One stream per run and purpose; a block of runs draws what its runs would draw alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from posse import randomness
from posse.randomness import PURPOSES, Streams, UniformStreams, create_generator

A = np.array([[0.5, 2.0, 30.0], [1.0, 1.0, 4.0], [0.1, 7.0, 9.0]])
DRAWS = {
    "random": lambda stream, rows: stream.random((len(rows), 4, 2)),
    "random per run": lambda stream, rows: stream.random((len(rows),)),
    "standard_normal": lambda stream, rows: stream.standard_normal((len(rows), 5)),
    "standard_normal per run": lambda stream, rows: stream.standard_normal((len(rows),)),
    "standard_gamma": lambda stream, rows: stream.standard_gamma(A[rows]),
    "standard_gamma per run": lambda stream, rows: stream.standard_gamma(A[rows, 0]),
    "beta": lambda stream, rows: stream.beta(A[rows], A[rows] + 1),
    "beta per run": lambda stream, rows: stream.beta(A[rows, 0], A[rows, 1]),
    "integers": lambda stream, rows: stream.integers(4, size=(len(rows), 5)),
    "integers from 3": lambda stream, rows: stream.integers(3, 9, (len(rows), 5), endpoint=True),
    "integers per run": lambda stream, rows: stream.integers(1000),
    "integers below": lambda stream, rows: stream.integers(1000 * A[rows]),
    "uniform": lambda stream, rows: stream.uniform(-1, 2, (len(rows), 2, 2)),
    "uniform between": lambda stream, rows: stream.uniform(A[rows], A[rows] + 1),
    "normal": lambda stream, rows: stream.normal(1, 3, size=(len(rows), 4)),
    "normal around": lambda stream, rows: stream.normal(A[rows], 0.1),
    "normal around arms": lambda stream, rows: stream.normal(A[0], 0.1, (len(rows), 2, 3)),
    "normal per run": lambda stream, rows: stream.normal(),
    "exponential": lambda stream, rows: stream.exponential(2.0, (len(rows), 3)),
    "exponential per run": lambda stream, rows: stream.exponential(A[rows, 0]),
    "choice": lambda stream, rows: stream.choice(9, (len(rows), 4)),
    "choice of some": lambda stream, rows: stream.choice([0.1, 0.4], len(rows), p=[0.3, 0.7]),
    "choice without": lambda stream, rows: stream.choice(9, (len(rows), 9), replace=False),
    "permutation": lambda stream, rows: stream.permutation(6),
}
ALONE = {
    "random": lambda alone, row: alone.random((4, 2)),
    "random per run": lambda alone, row: alone.random(),
    "standard_normal": lambda alone, row: alone.standard_normal(5),
    "standard_normal per run": lambda alone, row: alone.standard_normal(),
    "standard_gamma": lambda alone, row: alone.standard_gamma(A[row]),
    "standard_gamma per run": lambda alone, row: alone.standard_gamma(A[row, 0]),
    "beta": lambda alone, row: alone.beta(A[row], A[row] + 1),
    "beta per run": lambda alone, row: alone.beta(A[row, 0], A[row, 1]),
    "integers": lambda alone, row: alone.integers(4, size=5),
    "integers from 3": lambda alone, row: alone.integers(3, 9, 5, endpoint=True),
    "integers per run": lambda alone, row: alone.integers(1000),
    "integers below": lambda alone, row: alone.integers(1000 * A[row]),
    "uniform": lambda alone, row: alone.uniform(-1, 2, (2, 2)),
    "uniform between": lambda alone, row: alone.uniform(A[row], A[row] + 1),
    "normal": lambda alone, row: alone.normal(1, 3, 4),
    "normal around": lambda alone, row: alone.normal(A[row], 0.1),
    "normal around arms": lambda alone, row: alone.normal(A[0], 0.1, (2, 3)),
    "normal per run": lambda alone, row: alone.normal(),
    "exponential": lambda alone, row: alone.exponential(2.0, 3),
    "exponential per run": lambda alone, row: alone.exponential(A[row, 0]),
    "choice": lambda alone, row: alone.choice(9, 4),
    "choice of some": lambda alone, row: alone.choice([0.1, 0.4], p=[0.3, 0.7]),
    "choice without": lambda alone, row: alone.choice(9, 9, replace=False),
    "permutation": lambda alone, row: alone.permutation(6),
}


@pytest.mark.parametrize("draw", DRAWS)
def test_row_r_comes_from_the_generator_of_run_r(draw):
    block = DRAWS[draw](Streams.for_runs(5, [0, 1, 2], "policy"), [0, 1, 2])
    for run in range(3):
        np.testing.assert_array_equal(
            block[run], ALONE[draw](create_generator(5, run, "policy"), run)
        )


@pytest.mark.parametrize("draw", DRAWS)
def test_a_run_draws_the_same_in_any_block(draw):
    pair, alone = Streams.for_runs(5, [2, 1], "policy"), Streams.for_runs(5, [1], "policy")
    for _ in range(3):  # the streams go on alike
        in_pair, by_itself = DRAWS[draw](pair, [2, 1]), DRAWS[draw](alone, [1])
        np.testing.assert_array_equal(in_pair[1], by_itself[0])
    assert not np.array_equal(in_pair[0], in_pair[1])


def test_uniforms_drawn_many_at_a_time_are_those_drawn_one_by_one():
    plain = Streams.for_runs(5, [2, 0], "contexts")
    ahead = UniformStreams(Streams.for_runs(5, [2, 0], "contexts"))
    for size in [(2, 7), (2, 5000), (2, 3, 4), *[(2, 900)] * 12, (2, 1)]:
        np.testing.assert_array_equal(ahead.random(size), plain.random(size))


def test_a_draw_for_another_number_of_runs_is_an_error():
    streams = Streams.for_runs(5, [0, 1], "policy")
    for draw in ("random", "standard_normal", "standard_gamma", "beta"):
        with pytest.raises(ValueError, match="zip"):
            DRAWS[draw](streams, [0, 1, 2])
    for draw in ("integers", "uniform", "normal", "exponential", "choice"):
        with pytest.raises(ValueError, match=r"size must begin with the 2 runs of the block"):
            DRAWS[draw](streams, [0, 1, 2])


def test_streams_of_other_seeds_runs_and_purposes_differ():
    keys = list(itertools.product([0, 1, 2**40], [0, 1, 255, 256], PURPOSES))
    firsts = {create_generator(*key).random() for key in keys}
    assert len(firsts) == len(keys)


def test_a_stream_is_the_same_every_time():
    np.testing.assert_array_equal(
        create_generator(3, 4, "rewards").random(8), create_generator(3, 4, "rewards").random(8)
    )


def test_streams_of_neighbouring_runs_are_uncorrelated():
    """400 pairs of 1000 normals each: the largest |correlation| stays below 5.5 sigma."""
    normals = np.stack(
        [create_generator(0, run, "rewards").standard_normal(1000) for run in range(29)]
    )
    correlations = np.corrcoef(normals)[np.triu_indices(29, 1)]
    assert np.abs(correlations).max() * np.sqrt(1000) < 5.5


def test_published_numbers_depend_on_the_order_of_purposes():
    """Append, never reorder: these numbers are the promise."""
    assert PURPOSES[:5] == ("means", "permutation", "rewards", "network", "policy")
    sequence = np.random.SeedSequence(7, spawn_key=(3, 2))
    expected = np.random.Generator(np.random.SFC64(sequence)).random(4)
    np.testing.assert_array_equal(create_generator(7, 3, "rewards").random(4), expected)


def test_an_unknown_purpose_is_refused():
    with pytest.raises(ValueError, match="not in tuple"):
        randomness.create_generator(1, 0, "weather")
