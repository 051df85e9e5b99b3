"""Results in files: exact round trips, and what cannot be saved."""

import json

import numpy as np
import pytest
import xarray as xr
from hypothesis import example, given, settings
from hypothesis import strategies as st

from posse.lab import storage
from posse.lab.comparisons import Comparison
from posse.lab.results import Result
from tests.lab.stored import assert_same, make, pair

# --- round trips ----------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
names = st.text(min_size=1, max_size=8).filter(str.isprintable)


@st.composite
def results(draw, like=None):
    shape = draw(st.tuples(*[st.integers(1, 3)] * 4)) if like is None else None
    runs, length, agents, arms = shape or (*like.regret.shape, *like.pulls.shape[1:])
    finite = st.floats(allow_nan=False, allow_infinity=False)
    regret = draw(st.lists(finite, min_size=runs * length, max_size=runs * length))
    times = draw(st.sets(st.integers(1, 2**31 - 1), min_size=length, max_size=length))
    return Result(
        np.array(sorted(times)) if like is None else like.times,
        np.array(regret).reshape(runs, length),
        np.random.default_rng(0).integers(0, 2**31, size=(runs, agents, arms)),
        draw(names) if like is None else like.engine,
        draw(st.dictionaries(st.text(), json_values, max_size=3)),
    )


@st.composite
def comparisons(draw):
    first = draw(results())
    keys = draw(st.lists(names | st.just(""), min_size=1, max_size=3, unique=True))
    return Comparison({key: draw(results(like=first)) for key in keys})


@given(value=results() | comparisons())
@example(value=make(settings={"Größe": "σ²", "emoji": "🤠", "nul": "a\0b", "seed": 2**127}))
@example(value=make(engine="gemischt-é"))
@example(value=Comparison({"": make()}))
@example(value=make(runs=1, length=1, agents=1, arms=1, settings={}))
@settings(deadline=None, max_examples=25)
def test_round_trip_is_exact(scratch, value):
    value.save(scratch)
    assert_same(value, storage.load(scratch))


def test_paths_may_be_text(tmp_path):
    make().save(str(tmp_path / "a.nc"))
    assert_same(make(), storage.load(str(tmp_path / "a.nc")))


def test_the_same_result_is_the_same_file(tmp_path):
    for name in ("a.nc", "b.nc"):
        pair().save(tmp_path / name)
    assert (tmp_path / "a.nc").read_bytes() == (tmp_path / "b.nc").read_bytes()


def test_a_loaded_result_outlives_its_file(tmp_path):
    path = tmp_path / "a.nc"
    make().save(path)
    loaded = storage.load(path)
    path.write_bytes(b"\0" * path.stat().st_size)
    path.unlink()
    assert_same(make(), loaded)


def test_other_tools_read_the_file(tmp_path):
    value = pair()
    value.save(tmp_path / "a.nc")
    with xr.open_dataset(tmp_path / "a.nc", engine="scipy") as dataset:
        assert list(dataset["algorithm"].values) == ["zwei", "eins"]
        np.testing.assert_array_equal(dataset["regret"].sel(algorithm="eins"), value["eins"].regret)
        np.testing.assert_array_equal(dataset["time"], value["eins"].times)
        assert dataset["pulls"].dims == ("algorithm", "run", "agent", "arm")
        assert dataset.attrs["kind"] == "posse-comparison"
        assert json.loads(dataset.attrs["settings"])["eins"] == {"algorithm": "Thompson"}


def test_results_are_saved_as_netcdf_only(tmp_path):
    with pytest.raises(ValueError, match=r"foo\.csv must end in \.nc: results are saved as netCDF"):
        make().save(tmp_path / "foo.csv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", [None, 3, ["a.nc"]])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(ValueError, match="path must be that of a file such as"):
        storage.load(path)


# --- what cannot be saved -------------------------------------------------------------------


def test_a_function_in_the_settings_runs_but_is_not_saved(tmp_path):
    result = make(settings={"family": {"log_likelihood": lambda y, theta: 0.0}})
    assert "lambda" in result.to_xarray().attrs["settings"]
    with pytest.raises(ValueError, match=r"named 'module:function'\), got <function"):
        result.save(tmp_path / "a.nc")
    assert not list(tmp_path.iterdir())


def test_what_is_too_large_for_the_format_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "LARGEST_ARRAY", 40)
    with pytest.raises(ValueError, match=r"regret takes .* GB and a netCDF file holds 2 GB"):
        make().save(tmp_path / "a.nc")
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"there is no folder .*nowhere"):
        make().save(tmp_path / "nowhere" / "a.nc")
    with pytest.raises(ValueError, match="is a folder"):
        make().save(tmp_path)
