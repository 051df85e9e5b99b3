"""Results in files: exact round trips, refusals in one sentence, and nothing half-written."""

import dataclasses
import json
import os
import stat

import numpy as np
import pytest
import xarray as xr
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.io import netcdf_file

from posse.lab import files, storage
from posse.lab.files import atomic_write
from posse.lab.results import Comparison, Result


def make(seed=0, runs=2, length=3, agents=2, arms=2, settings=None, engine="reference"):
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.integers(1, 9, size=length))
    regret = rng.exponential(size=(runs, length)).cumsum(axis=1)
    pulls = rng.integers(0, 2**31, size=(runs, agents, arms))
    return Result(times, regret, pulls, engine, {"seed": seed} if settings is None else settings)


def pair():
    first = make(1, settings={"algorithm": "Thompson"})
    rng = np.random.default_rng(2)
    second = dataclasses.replace(
        first, regret=rng.random(first.regret.shape), settings={"algorithm": "Bayes-UCB", "c": None}
    )
    return Comparison({"zwei": second, "eins": first})


def assert_same(a, b):
    assert type(a) is type(b)
    if isinstance(a, Comparison):
        assert list(a) == list(b)
        for name in a:
            assert_same(a[name], b[name])
        return
    for name in ("times", "regret", "pulls"):
        left, right = getattr(a, name), getattr(b, name)
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        assert left.tobytes() == right.tobytes()
        assert not right.flags.writeable
    assert a.engine == b.engine
    assert json.dumps(a.settings) == json.dumps(b.settings)  # the order too


@pytest.fixture(scope="module", params=["result", "comparison"])
def saved(request, tmp_path_factory):
    """What was saved and the bytes of its file."""
    value = make() if request.param == "result" else pair()
    path = tmp_path_factory.mktemp("saved") / "value.nc"
    value.save(path)
    return value, path.read_bytes()


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("scratch") / "damaged.nc"


def load_bytes(path, content):
    path.write_bytes(content)
    return storage.load(path)


def refusal(path, content):
    """The sentence with which a file is refused, None if it is loaded, and what was loaded."""
    try:
        return None, load_bytes(path, content)
    except ValueError as error:
        caught = error
    assert type(caught) is ValueError
    assert path.name in str(caught)
    assert "\n" not in str(caught)
    return str(caught), None


def refused(path, content):
    """The sentence with which a file is refused."""
    message, _ = refusal(path, content)
    assert message is not None, "a file was loaded that should not be"
    return message


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


# --- what is not loaded ---------------------------------------------------------------------

# netCDF is made of words of 4 and 8 bytes: 3 visits every place within a word
STRIDE = 3


def test_missing_files_and_folders_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"there is no file .*a\.nc"):
        storage.load(tmp_path / "a.nc")
    with pytest.raises(ValueError, match="cannot be read"):
        storage.load(tmp_path)


def test_truncated_files_are_refused(saved, scratch):
    _, content = saved
    for length in range(0, len(content), STRIDE):
        assert "netCDF" in refused(scratch, content[:length])


def test_a_damaged_byte_is_noticed_or_harmless(saved, scratch):
    value, content = saved
    harmless = 0
    for position in range(0, len(content), STRIDE):
        damaged = bytearray(content)
        damaged[position] ^= 1 << (position % 8)
        message, loaded = refusal(scratch, bytes(damaged))
        if message is None:
            assert_same(value, loaded)  # padding and labels, which are not read back
            harmless += 1
        else:
            assert any(word in message for word in ("damaged", "no result", "newer"))
    assert harmless < len(content) / STRIDE / 4


@given(data=st.data())
@settings(deadline=None, max_examples=75)
def test_mangled_files_are_refused_or_harmless(saved, scratch, data):
    value, content = saved
    start = data.draw(st.integers(0, len(content)))
    stop = data.draw(st.integers(start, min(len(content), start + 32)))
    mangled = content[:start] + data.draw(st.binary(max_size=32)) + content[stop:]
    message, loaded = refusal(scratch, mangled)
    if message is None:
        assert_same(value, loaded)


@given(
    magic=st.sampled_from([b"", b"CDF\x01", b"CDF\x02", b"\x89HDF\r\n\x1a\n"]),
    counts=st.lists(
        st.sampled_from([0, 1, 5, 6, 10, 11, 12, 2**31 - 1, 2**31, 2**32 - 1]), max_size=12
    ),
    tail=st.binary(max_size=64),
)
@settings(deadline=None, max_examples=150)
def test_garbage_is_refused(scratch, magic, counts, tail):
    refused(scratch, magic + np.array(counts, dtype=">u4").tobytes() + tail)


def test_other_netcdf_files_are_refused(scratch):
    xr.Dataset({"a": ("x", [1.0, 2.0])}).to_netcdf(scratch, engine="scipy")
    assert "holds no result of Posse" in refused(scratch, scratch.read_bytes())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "newer Posse (format 2, known up to 1)"),
        ({"format": 0}, "damaged"),
        ({"format": "one"}, "damaged"),
        ({"format": [1, 1]}, "damaged"),
        ({"kind": "posse-swarm"}, "holds no result of Posse"),
        ({"kind": np.arange(3.0)}, "holds no result of Posse"),
        ({"kind": "posse-comparison"}, "damaged"),
        ({"engine": "compiled"}, "damaged"),
        ({"settings": '{"seed": 8}'}, "damaged"),
        ({"checksum": "0" * 64}, "damaged"),
        ({"checksum": None}, "damaged"),
        ({"settings": None}, "damaged"),
    ],
)
def test_changed_attributes_are_refused(scratch, change, message):
    make().save(scratch)
    dataset = xr.load_dataset(scratch, engine="scipy")
    attributes = dataset.attrs | change
    dataset.attrs = {name: value for name, value in attributes.items() if value is not None}
    dataset.to_netcdf(scratch, engine="scipy")
    assert message in refused(scratch, scratch.read_bytes())


@pytest.mark.parametrize("name", ["time", "regret", "pulls"])
def test_missing_and_changed_variables_are_refused(scratch, name):
    make().save(scratch)
    dataset = xr.load_dataset(scratch, engine="scipy")
    dataset.drop_vars(name).to_netcdf(scratch, engine="scipy")
    assert "damaged" in refused(scratch, scratch.read_bytes())
    dataset.assign({name: dataset[name] + 1}).to_netcdf(scratch, engine="scipy")
    assert "damaged" in refused(scratch, scratch.read_bytes())


def test_an_unchanged_copy_by_another_tool_is_loaded(scratch):
    make().save(scratch)
    xr.load_dataset(scratch, engine="scipy").to_netcdf(scratch, engine="scipy")
    assert_same(make(), storage.load(scratch))


# --- files that are whole or not there ------------------------------------------------------


def test_atomic_write_replaces_the_file_at_the_end(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with atomic_write(path) as temporary:
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".txt"
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [RuntimeError, OSError, KeyboardInterrupt])
@pytest.mark.parametrize("exists", [True, False])
def test_a_failed_write_leaves_all_as_it_was(tmp_path, error, exists):
    path = tmp_path / "a.txt"
    if exists:
        path.write_text("old")

    def fail():
        with atomic_write(path) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert [each.read_text() for each in tmp_path.iterdir()] == (["old"] if exists else [])


def test_a_full_disk_does_not_cost_the_old_result(tmp_path, monkeypatch):
    path = tmp_path / "a.nc"
    make(1).save(path)
    written = []

    def disk_full(file, variable, size):
        written.append(size)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(netcdf_file, "_write_var_padding", disk_full)
    with pytest.raises(OSError, match="No space left"):
        make(2).save(path)
    assert written
    assert list(tmp_path.iterdir()) == [path]
    assert_same(make(1), storage.load(path))


@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_a_failure_at_the_last_step_leaves_all_as_it_was(tmp_path, monkeypatch, name):
    path = tmp_path / "a.nc"
    make(1).save(path)

    def fail(*_):
        raise OSError(5, "Input/output error")

    owner = os if name == "fsync" else files.Path
    monkeypatch.setattr(owner, name, fail)
    with pytest.raises(OSError, match="Input/output"):
        make(2).save(path)
    assert list(tmp_path.iterdir()) == [path]
    assert_same(make(1), storage.load(path))


def test_the_content_is_on_disk_before_the_name(tmp_path, monkeypatch):
    steps = []
    fsync, replace = os.fsync, files.Path.replace

    def logged_fsync(handle):
        steps.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "content")
        fsync(handle)

    def logged_replace(path, target):
        steps.append("name")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", logged_fsync)
    monkeypatch.setattr(files.Path, "replace", logged_replace)
    make().save(tmp_path / "a.nc")
    assert steps == (["content", "name", "folder"] if os.name == "posix" else ["content", "name"])


@pytest.mark.skipif(os.name != "posix", reason="permissions and links of POSIX")
def test_files_have_ordinary_permissions_and_links_stay_links(tmp_path):
    (tmp_path / "plain").write_text("")
    link, target = tmp_path / "link.nc", tmp_path / "target.nc"
    link.symlink_to(target)
    make().save(link)
    assert link.is_symlink()
    assert target.stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert_same(make(), storage.load(target))
