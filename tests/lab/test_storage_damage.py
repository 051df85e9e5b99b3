"""Files that are damaged, changed or no results are refused in one sentence."""

import dataclasses

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from posse.lab import storage
from tests.lab.stored import assert_same, make, pair

# netCDF is made of words of 4 and 8 bytes: 3 visits every place within a word
STRIDE = 3


@pytest.fixture(scope="module", params=["result", "comparison"])
def saved(request, tmp_path_factory):
    """What was saved and the bytes of its file."""
    value = make() if request.param == "result" else pair()
    path = tmp_path_factory.mktemp("saved") / "value.nc"
    value.save(path)
    return value, path.read_bytes()


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
    assert "not a result of Posse" in refused(scratch, scratch.read_bytes())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "has format 2 and this Posse reads format 1: read it with the Posse that"),
        ({"format": 0}, "has format 0 and this Posse reads format 1: read it with the Posse that"),
        ({"shapes": '{"means": [[2, 2]]}'}, "damaged"),
        ({"format": "one"}, "damaged"),
        ({"format": [1, 1]}, "damaged"),
        ({"kind": "posse-swarm"}, "not a result of Posse"),
        ({"kind": np.arange(3.0)}, "not a result of Posse"),
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


def test_what_was_kept_is_covered_by_the_checksum(scratch):
    kept = {"means": np.arange(4.0).reshape(2, 2), "messages": np.ones((2, 3))}
    value = dataclasses.replace(make(), kept=kept)
    value.save(scratch)
    assert storage.load(scratch).means.tolist() == [[0, 1], [2, 3]]
    dataset = xr.load_dataset(scratch, engine="scipy")
    for damaged in (
        dataset.assign_attrs(shapes='{"means": [[2, 1]], "messages": [[2, 3]]}'),
        dataset.assign_attrs(shapes='{"means": [[2, 2]]}'),
        dataset.assign(means=dataset["means"] + 1),
        dataset.drop_vars("means"),
    ):
        damaged.to_netcdf(scratch, engine="scipy")
        assert "damaged" in refused(scratch, scratch.read_bytes())


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
