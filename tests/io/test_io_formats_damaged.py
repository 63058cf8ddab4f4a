"""Files of other programs that are cut short, damaged or not what they claim: one sentence each."""

import json
import re
import shutil
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from samples import tries

from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.io import read_trajectories, write_trajectories

DATA = Path(__file__).parent / "data"
FILES = sorted(path for path in DATA.iterdir() if path.is_file())
STORES = sorted(path for path in DATA.iterdir() if path.is_dir())


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("damaged")


# A damaged longitude is a long way off, which is only worth a warning.
pytestmark = pytest.mark.filterwarnings("ignore::driftbayes.errors.DriftbayesWarning")


def read_or_refuse(path):
    try:
        read_trajectories(path)
    except DriftbayesError as error:
        message = str(error)
        assert "\n" not in message
        assert len(message) < 500
        return message
    return None


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
@settings(max_examples=tries(25), deadline=None)
@given(cut=st.floats(0, 1, exclude_max=True))
def test_files_cut_short_are_refused_in_one_sentence(scratch, path, cut):
    data = path.read_bytes()
    (scratch / path.name).write_bytes(data[: int(cut * len(data))])
    assert read_or_refuse(scratch / path.name) is not None


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
@settings(max_examples=tries(20), deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), bits=st.integers(1, 255))
def test_damaged_files_are_read_or_refused_in_one_sentence(scratch, path, place, bits):
    data = bytearray(path.read_bytes())
    data[int(place * len(data))] ^= bits
    (scratch / path.name).write_bytes(bytes(data))
    read_or_refuse(scratch / path.name)


def one_file_of(store, place):
    files = sorted(path for path in store.rglob("*") if path.is_file())
    return files[int(place * len(files))]


@pytest.mark.parametrize("path", STORES, ids=lambda path: path.name)
@settings(max_examples=tries(25), deadline=None)
@given(
    which=st.floats(0, 1, exclude_max=True),
    how=st.sampled_from(["gone", "empty", "half", "zeros", "flipped", "[]", "null"]),
    place=st.floats(0, 1, exclude_max=True),
)
def test_damaged_stores_are_read_or_refused_in_one_sentence(scratch, path, which, how, place):
    copy = scratch / path.name
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(path, copy)
    file = one_file_of(copy, which)
    data = file.read_bytes()
    if how == "gone":
        file.unlink()
    elif how == "flipped":
        changed = bytearray(data)
        changed[int(place * len(data))] ^= 0x15
        file.write_bytes(bytes(changed))
    else:
        kinds = {"empty": b"", "half": data[: len(data) // 2], "zeros": bytes(len(data))}
        file.write_bytes(kinds.get(how, how.encode()))
    read_or_refuse(copy)


@pytest.mark.parametrize(
    ("sample", "names"),
    [
        ("ragged_langevin.zarr", ["lon", "lat", "time", "ve", "vn"]),
        # A coordinate of a dimension is read before anyone asks for it.
        ("v3_brownian_flat.zarr", ["obs"]),
    ],
)
def test_a_store_that_claims_more_than_the_memory_is_refused(scratch, sample, names):
    copy = scratch / f"huge_{sample}"
    shutil.copytree(DATA / sample, copy)
    for name in names:
        described = json.loads((copy / name / ".zarray").read_text())
        described["shape"] = [10**13]
        (copy / name / ".zarray").write_text(json.dumps(described))
    message = read_or_refuse(copy)
    assert re.search("is declared to have [48]0,000,000,000,000 bytes", message)


def test_a_file_that_claims_more_than_the_memory_is_refused(scratch):
    with h5py.File(scratch / "huge.nc", "w") as raw:
        for name, size in (("obs", 10**13), ("traj", 2)):
            scale = raw.create_dataset(name, shape=(size,), dtype=">f4", chunks=(2,))
            scale.make_scale(f"This is a netCDF dimension but not a netCDF variable. {size:9d}")
        for name in ("lon", "lat", "time"):
            raw.create_dataset(name, shape=(10**13,), dtype="f8", chunks=(1024,))
            raw[name].dims[0].attach_scale(raw["obs"])
        raw.create_dataset("rowsize", data=np.array([10**13 - 1, 1]))
        raw["rowsize"].dims[0].attach_scale(raw["traj"])
    message = read_or_refuse(scratch / "huge.nc")
    assert "is declared to have 80,000,000,000,000 bytes" in message


def ragged(**changed):
    variables = {
        "rowsize": ("traj", np.array([2, 1])),
        "id": ("traj", np.array([1, 2])),
        "time": ("obs", np.array([0.0, 1.0, 0.0]), {"units": "s"}),
        "lon": ("obs", np.array([1.0, 1.1, 1.0])),
        "lat": ("obs", np.array([1.0, 1.1, 1.0])),
    }
    return xr.Dataset(
        {name: value for name, value in (variables | changed).items() if value is not None}
    )


TEXT = np.array(["a", "b", "c"], dtype=object)
WRONG = {
    "counts that do not add up": (
        {"rowsize": ("traj", np.array([2, 2]))},
        "sum to 4, expected the number of times and positions, 3",
    ),
    "counts below zero": ({"rowsize": ("traj", np.array([4, -1]))}, "whole numbers from 0 up"),
    "counts with fractions": ({"rowsize": ("traj", [1.5, 1.5])}, "whole numbers from 0 up"),
    "counts beyond reason": ({"rowsize": ("traj", [2**62, 3])}, "whole numbers from 0 up"),
    "counts of text": ({"rowsize": ("traj", TEXT[:2])}, "expected numbers"),
    "times of text": ({"time": ("obs", TEXT)}, "expected numbers"),
    "times in years": (
        {"time": ("obs", [0.0, 1.0, 0.0], {"units": "fortnights since 1970-01-01"})},
        "times are in 'fortnights since 1970-01-01'; expected a unit like",
    ),
    "no times": ({"time": None}, "has no time variable"),
    "no latitude": ({"lat": None}, "has no pair of position variables"),
    "longitudes of text": ({"lon": ("obs", TEXT)}, "expected numbers"),
    "ids with fractions": ({"id": ("traj", [0.5, 1.5])}, "one id per trajectory"),
    "one id for two": ({"id": ("traj", [7, 7])}, "id '7' names 2 trajectories"),
    "an endless id": (
        {"id": ("traj", np.array(["a" * 300, "b"], dtype=object))},
        "longer than 200",
    ),
    "times that decrease": ({"time": ("obs", [1.0, 0.0, 0.0])}, "decreasing times"),
    "metres for degrees": ({"lat": ("obs", [1e5, 2e5, 3e5])}, "beyond the pole"),
    "nothing but NaN": ({"lon": ("obs", np.full(3, np.nan))}, "every one is missing"),
}


@pytest.mark.parametrize("name", ["a.nc", "a.zarr"])
@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_with_a_dataset_is_said(tmp_path, case, name):
    changed, expected = WRONG[case]
    dataset = ragged(**changed)
    if name.endswith("zarr"):
        dataset.to_zarr(tmp_path / name, zarr_format=2, consolidated=False)
    else:
        dataset.to_netcdf(tmp_path / name, engine="h5netcdf")
    with pytest.raises(DriftbayesError) as caught:
        read_trajectories(tmp_path / name)
    assert expected in str(caught.value)
    assert str(caught.value).startswith(f"'{name}'")
    assert "\n" not in str(caught.value)


@settings(max_examples=tries(25), deadline=None)
@given(data=st.data())
def test_datasets_of_odd_dimensions_are_read_or_refused_in_one_sentence(scratch, data):
    dims = st.lists(st.sampled_from(["obs", "traj", "time"]), max_size=3, unique=True)
    kinds = st.sampled_from(["f8", "f4", "i4", "i8", "u1", "?"])
    sizes = {"obs": 3, "traj": 2, "time": 3}
    variables = {}
    for name in data.draw(
        st.lists(st.sampled_from(["lon", "lat", "time", "id", "rowsize", "status"]), unique=True)
    ):
        of = data.draw(dims)
        values = np.arange(int(np.prod([sizes[dim] for dim in of]))) % data.draw(st.integers(1, 4))
        attributes = data.draw(
            st.sampled_from(
                [
                    {},
                    {"units": "degrees_east"},
                    {"units": "s"},
                    {"units": 3},
                    {"sample_dimension": "obs"},
                    {"instance_dimension": "traj"},
                    {"standard_name": "time"},
                    {"cf_role": "trajectory_id"},
                    {"axis": "X"},
                ]
            )
        )
        shape = [sizes[dim] for dim in of]
        variables[name] = (of, values.reshape(shape).astype(data.draw(kinds)), attributes)
    attributes = data.draw(st.sampled_from([{}, {"opendrift_version": "1"}, {"parcels_mesh": 1}]))
    try:
        dataset = xr.Dataset(variables, attrs=attributes)
    except ValueError:
        # A scalar or a plane with the name of a dimension: xarray makes no such file.
        reject()
    dataset.to_netcdf(scratch / "odd.nc", engine="h5netcdf")
    read_or_refuse(scratch / "odd.nc")


def test_nested_parquet_that_claims_more_than_the_memory_is_refused(scratch, monkeypatch):
    lists = pa.array([np.zeros(10**5), np.zeros(10**5)])
    obs = pa.StructArray.from_arrays([lists, lists, lists], names=["time", "lon", "lat"])
    pq.write_table(pa.table({"obs": obs}), scratch / "huge.parquet")
    monkeypatch.setattr("driftbayes.io._limits._ALWAYS_ALLOWED", 100)
    monkeypatch.setattr("driftbayes.io._limits._MAX_PER_COMPRESSED_BYTE", 2)
    message = read_or_refuse(scratch / "huge.parquet")
    assert "is declared to have 4,800,000 bytes" in message


@settings(max_examples=tries(20), deadline=None)
@given(
    which=st.floats(0, 1, exclude_max=True),
    place=st.floats(0, 1, exclude_max=True),
    bits=st.integers(1, 255),
)
def test_a_damaged_store_of_ours_is_read_or_refused_in_one_sentence(scratch, which, place, bits):
    store = scratch / "ours.zarr"
    shutil.rmtree(store, ignore_errors=True)
    tracks = Trajectories.from_arrays(
        np.arange(12.0).reshape(2, 3, 2), dt=1.0, ids=["a", "é"], provenance={"seed": 1}
    )
    write_trajectories(tracks, store)
    file = one_file_of(store, which)
    data = bytearray(file.read_bytes())
    data[int(place * len(data))] ^= bits
    file.write_bytes(bytes(data))
    read_or_refuse(store)
