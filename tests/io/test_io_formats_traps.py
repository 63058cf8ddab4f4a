"""What files of other programs get wrong or leave out, each as a small file made here."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr

from driftbayes.errors import DriftbayesError
from driftbayes.io import read_trajectories
from driftbayes.io._datasets import parse_time_unit, time_origin
from driftbayes.io._formats import choose, contents_of, read_as
from driftbayes.io._reading import ReadOptions

SIZES = np.array([4, 3, 5])
IDS = np.array([107, 42, 65])
LON = {"units": "degrees_east", "standard_name": "longitude"}
LAT = {"units": "degrees_north", "standard_name": "latitude"}
TIME = {"units": "hours since 2020-01-01", "standard_name": "time"}
EPOCH = 1577836800.0
# Metres in a degree of latitude, to a percent.
DEGREE = 111e3


def rows(seed=0):
    """Longitudes, latitudes and hours, trajectory after trajectory."""
    rng = np.random.default_rng(seed)
    lon, lat = 30 + rng.normal(0, 0.01, SIZES.sum()), 50 + rng.normal(0, 0.01, SIZES.sum())
    hours = np.concatenate([np.arange(n) + 2.0 * i for i, n in enumerate(SIZES)])
    return lon, lat, hours


def padded(values, fill=np.nan, width=6):
    grid = np.full((len(SIZES), width), fill)
    for i, part in enumerate(np.split(values, np.cumsum(SIZES)[:-1])):
        grid[i, : len(part)] = part
    return grid


def contiguous(obs="obs", traj="traj", count="rowsize", **attributes):
    lon, lat, hours = rows()
    return xr.Dataset(
        {
            count: (traj, SIZES, attributes),
            "lon": (obs, lon, LON),
            "lat": (obs, lat, LAT),
            "time": (obs, hours, TIME),
            "id": (traj, IDS),
        }
    )


def grid(**renamed):
    lon, lat, hours = rows()
    dims = ("trajectory", "obs")
    return xr.Dataset(
        {
            "lon": (dims, padded(lon), LON),
            "lat": (dims, padded(lat), LAT),
            "time": (dims, padded(hours), TIME),
            "trajectory": ("trajectory", IDS, {"cf_role": "trajectory_id"}),
        },
        attrs={"featureType": "Trajectory"},
    ).rename(renamed)


def read(dataset, tmp_path, name="a.nc", **options):
    path = tmp_path / name
    encoding = {name: {"_FillValue": None} for name in dataset.variables}
    if name.endswith(".zarr"):
        dataset.to_zarr(path, zarr_format=2, consolidated=False, encoding=encoding)
    else:
        dataset.to_netcdf(path, engine="h5netcdf", encoding=encoding)
    return read_trajectories(path, **options)


@pytest.fixture
def truth(tmp_path):
    return read(contiguous(sample_dimension="obs"), tmp_path, "truth.nc")


def test_times_are_seconds_since_1970(truth):
    assert truth.time_unit == "s"
    assert truth.provenance["time_origin"] == "1970-01-01T00:00:00"
    assert truth.times[:4].tolist() == [EPOCH + 3600.0 * i for i in range(4)]
    np.testing.assert_allclose(
        np.ptp(truth.positions[:4, 1]), np.ptp(truth.lonlat[:4, 1]) * DEGREE, rtol=0.01
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["a.nc", "a.zarr"])
@pytest.mark.parametrize(
    "layout",
    [
        {"sample_dimension": "obs"},
        {},
        {"obs": "index", "traj": "trajectory", "sample_dimension": "index"},
        {"obs": "index", "traj": "trajectory"},
        {"traj": "rows"},
        {"count": "count"},
        {"count": "rowSize", "sample_dimension": "obs"},
        {"count": "n_per_drifter", "sample_dimension": "obs"},
    ],
    ids=str,
)
def test_contiguous_ragged_arrays_of_any_names_are_the_same(tmp_path, truth, layout, name):
    tracks = read(contiguous(**layout), tmp_path, name)
    assert tracks.fingerprint == truth.fingerprint
    assert tracks.ids.tolist() == IDS.tolist()


def test_an_indexed_ragged_array_is_sorted_by_trajectory_and_time(tmp_path, truth):
    lon, lat, hours = rows()
    order = np.random.default_rng(1).permutation(SIZES.sum())
    index = np.repeat(np.arange(3), SIZES)[order]
    dataset = xr.Dataset(
        {
            "trajectory_index": ("obs", index, {"instance_dimension": "trajectory"}),
            "lon": ("obs", lon[order], LON),
            "lat": ("obs", lat[order], LAT),
            "time": ("obs", hours[order], TIME),
            "drifter": ("trajectory", IDS, {"cf_role": "trajectory_id"}),
        }
    )
    tracks = read(dataset, tmp_path)
    assert tracks.fingerprint == truth.fingerprint
    assert tracks.ids.tolist() == IDS.tolist()
    # Without a single variable of its own, a dimension is not in the file.
    assert read(dataset.drop_vars("drifter"), tmp_path, "b.nc").fingerprint == truth.fingerprint


def test_an_index_beyond_the_last_trajectory_is_refused(tmp_path):
    lon, lat, hours = rows()
    dataset = xr.Dataset(
        {
            "which": ("obs", np.repeat([0, 1, 7], SIZES), {"instance_dimension": "trajectory"}),
            "lon": ("obs", lon, LON),
            "lat": ("obs", lat, LAT),
            "time": ("obs", hours, TIME),
            "id": ("trajectory", IDS, {"cf_role": "trajectory_id"}),
        }
    )
    with pytest.raises(DriftbayesError, match="'which' has the number 7, but there are only 3"):
        read(dataset, tmp_path)


def test_a_long_table_with_an_id_for_each_observation_is_sorted_by_id(tmp_path):
    lon, lat, hours = rows()
    dataset = xr.Dataset(
        {
            "id": ("obs", np.repeat(IDS, SIZES)),
            "lon": ("obs", lon, LON),
            "lat": ("obs", lat, LAT),
            "time": ("obs", hours, TIME),
        }
    )
    tracks = read(dataset, tmp_path)
    assert dict(zip(tracks.ids.tolist(), tracks.row_sizes.tolist(), strict=True)) == {
        42: 3,
        65: 5,
        107: 4,
    }


@pytest.mark.parametrize("dims", [("trajectory", "obs"), ("obs", "trajectory")])
def test_a_grid_may_have_either_dimension_first(tmp_path, truth, dims):
    tracks = read(grid().transpose(*dims), tmp_path)
    assert tracks.fingerprint == truth.fingerprint
    assert tracks.ids.tolist() == IDS.tolist()


def test_names_standard_names_and_axes_all_tell_what_a_variable_is(tmp_path, truth):
    by_standard_name = grid(lon="a", lat="b", time="c")
    assert read(by_standard_name, tmp_path, "a.nc").fingerprint == truth.fingerprint
    by_axis = by_standard_name.copy(deep=True)
    for name, axis in (("a", "X"), ("b", "Y"), ("c", "T")):
        del by_axis[name].attrs["standard_name"]
        by_axis[name].attrs["axis"] = axis
    assert read(by_axis, tmp_path, "b.nc").fingerprint == truth.fingerprint
    by_name = grid(lon="LONGITUDE", lat="LATITUDE", time="TIME")
    for name in ("LONGITUDE", "LATITUDE"):
        by_name[name].attrs = {}
    del by_name["TIME"].attrs["standard_name"]
    assert read(by_name, tmp_path, "c.nc").fingerprint == truth.fingerprint
    told = grid(lon="a", lat="b", time="c")
    for name in "abc":
        told[name].attrs.pop("standard_name")
    columns = {"lon": "a", "lat": "b", "time": "c"}
    assert read(told, tmp_path, "d.nc", columns=columns).fingerprint == truth.fingerprint


def test_where_a_drifter_was_set_out_is_not_where_it_is(tmp_path, truth):
    dataset = contiguous(sample_dimension="obs").assign(
        deploy_lon=("traj", [1.0, 2.0, 3.0], LON),
        deploy_lat=("traj", [1.0, 2.0, 3.0], LAT),
        deploy_date=("traj", [1.0, 2.0, 3.0], TIME),
    )
    first = ["deploy_lon", "deploy_lat", "deploy_date"]
    dataset = dataset[[*first, *(name for name in dataset.variables if name not in first)]]
    assert read(dataset, tmp_path).fingerprint == truth.fingerprint


@pytest.mark.parametrize("dim", ["obs", "time"])
def test_times_may_be_shared_by_all_trajectories(tmp_path, dim):
    lon = 30 + np.random.default_rng(0).normal(0, 0.01, (3, 5))
    dims = ("trajectory", dim)
    dataset = xr.Dataset(
        {
            "lon": (dims, lon, LON),
            "lat": (dims, lon + 20, LAT),
            "time": (dim, np.arange(5), {"units": "days since 2020-01-01"}),
        }
    )
    tracks = read(dataset, tmp_path)
    assert tracks.recording_interval == 86400.0
    assert tracks.row_sizes.tolist() == [5, 5, 5]
    assert tracks.ids.tolist() == [0, 1, 2]
    backwards = read(dataset.isel({dim: slice(None, None, -1)}), tmp_path, "b.nc")
    assert backwards.fingerprint == tracks.fingerprint
    assert "backward in time" in backwards.provenance["notes"][0]


def test_one_trajectory_alone_needs_no_dimension_of_trajectories(tmp_path):
    dataset = xr.Dataset(
        {
            "longitude": ("time", [1.0, 1.01, 1.02], LON),
            "latitude": ("time", [2.0, 2.01, 2.02], LAT),
            "time": ("time", [0, 60, 120], {"units": "minutes since 2020-01-01T06:00Z"}),
            "trajectory": ((), "the one", {"cf_role": "trajectory_id"}),
        }
    )
    tracks = read(dataset, tmp_path)
    assert tracks.ids.tolist() == ["the one"]
    assert tracks.times.tolist() == [EPOCH + 3600.0 * i for i in (6, 7, 8)]
    nameless = read(dataset.drop_vars("trajectory"), tmp_path, "b.nc")
    assert nameless.ids.tolist() == [0]


def test_positions_with_a_unit_of_length_stay_on_their_plane(tmp_path):
    dims = ("trajectory", "obs")
    dataset = xr.Dataset(
        {
            "X": (dims, [[0.0, 1.0]], {"units": "km", "standard_name": "projection_x_coordinate"}),
            "Y": (dims, [[0.0, 5.0]], {"units": "m", "standard_name": "projection_y_coordinate"}),
            "time": (dims, [[0.0, 1.0]], {"units": "s"}),
        }
    )
    tracks = read(dataset, tmp_path)
    assert tracks.positions.tolist() == [[0.0, 0.0], [1.0, 0.005]]
    assert (tracks.length_unit, tracks.time_unit, tracks.lonlat) == ("km", "s", None)


def test_radians_are_refused_and_not_taken_for_degrees(tmp_path):
    dataset = grid()
    for name in ("lon", "lat"):
        dataset[name].attrs["units"] = "radians"
    with pytest.raises(
        DriftbayesError, match="'lon' is in 'radians', expected degrees or a length"
    ):
        read(dataset, tmp_path)


@pytest.mark.parametrize(
    "fill", [9.969209968386869e36, float(np.float32(9.96921e36)), np.inf], ids=str
)
def test_padding_without_a_fill_value_is_no_time_and_no_position(tmp_path, truth, fill):
    # The 2018 sea-ice drifters: `time` padded with NetCDF's own fill, and nothing that says so.
    lon, lat, hours = rows()
    dataset = grid()
    for name, values in (("lon", lon), ("lat", lat), ("time", hours)):
        dataset[name] = (dataset[name].dims, padded(values, fill), dataset[name].attrs)
    assert read(dataset, tmp_path).fingerprint == truth.fingerprint


@pytest.mark.parametrize(
    ("kind", "fill"),
    [
        ("i4", 2**31 - 1),
        ("i4", -(2**31) + 1),
        ("i8", -(2**63)),
        ("i8", -(2**63) + 2),
        ("i2", -32767),
    ],
)
def test_whole_times_are_padded_with_the_ends_of_their_range(tmp_path, truth, kind, fill):
    _, _, hours = rows()
    dataset = grid()
    whole = np.where(np.isnan(padded(hours)), fill, np.nan_to_num(padded(hours)))
    values = np.array([[int(v) for v in row] for row in whole.astype(object)], dtype=kind)
    dataset["time"] = (dataset["time"].dims, values, TIME)
    assert read(dataset, tmp_path).fingerprint == truth.fingerprint


def test_ids_of_characters_lose_the_blanks_behind_them(tmp_path):
    names = np.array([b"buoy 1   ", b"b2", b"b3"], dtype="S16")
    dataset = grid().drop_vars("trajectory").assign(trajectory_id=("trajectory", names))
    dataset["trajectory_id"].encoding["dtype"] = "S1"
    assert read(dataset, tmp_path).ids.tolist() == ["buoy 1", "b2", "b3"]


def test_a_missing_fix_between_others_is_kept_and_padding_is_not(tmp_path):
    dataset = grid()
    lon = dataset["lon"].to_numpy().copy()
    lon[0, 1] = np.nan
    lon[2, 0] = np.nan
    dataset["lon"] = (dataset["lon"].dims, lon, LON)
    tracks = read(dataset, tmp_path)
    assert tracks.row_sizes.tolist() == [4, 3, 4]
    assert np.flatnonzero(~tracks.observed).tolist() == [1]


def gdp(**more):
    dataset = contiguous()
    for name in ("lon", "lat"):
        dataset[name].attrs = {"units": "degrees_east"}
    n = SIZES.sum()
    return dataset.assign(
        ve=("obs", np.zeros(n, np.float32)),
        vn=("obs", np.zeros(n, np.float32)),
        err_lon=("obs", np.full(n, 0.02, np.float32), {"long_name": "95% confidence interval"}),
        err_lat=("obs", np.full(n, 0.01, np.float32)),
        drogue_status=("obs", np.arange(n) < 6),
        **more,
    )


def test_errors_of_the_gdp_are_intervals_in_degrees_along_two_axes(tmp_path):
    tracks = read(gdp(gap=("obs", np.full(SIZES.sum(), 7200.0))), tmp_path)
    east = 0.02 / 1.96 * DEGREE * np.cos(np.radians(50.0))
    north = 0.01 / 1.96 * DEGREE
    expected = np.sqrt((east**2 + north**2) / 2)
    np.testing.assert_allclose(tracks.position_sd, expected, rtol=0.01)
    assert tracks.flags["drogued"].tolist() == [1.0] * 6 + [0.0] * 6
    assert (tracks.flags["gap"] == 7200).all()
    notes = " ".join(tracks.provenance["notes"])
    assert "smoother models" in notes
    assert "1.96" in notes
    assert "root mean square" in notes


@pytest.mark.parametrize("fill", [-1e-34, -1e34, 1e36, np.nan])
def test_fill_values_of_the_gdp_are_missing(tmp_path, fill):
    dataset = gdp()
    for name in ("lon", "lat"):
        values = dataset[name].to_numpy().copy()
        values[1] = fill
        dataset[name] = ("obs", values, dataset[name].attrs)
    errors = dataset["err_lon"].to_numpy().copy()
    errors[[2, 3]] = fill
    errors[0] = 0.04
    dataset["err_lon"] = ("obs", errors)
    tracks = read(dataset, tmp_path)
    assert np.flatnonzero(~tracks.observed).tolist() == [1]
    # What has no error of its own has the median of its trajectory, which is that of row 0.
    assert tracks.position_sd[2] == tracks.position_sd[3] == tracks.position_sd[0]
    assert "2 positions have no error;" in " ".join(tracks.provenance["notes"])


def test_the_six_hourly_gdp_has_no_gap_and_the_same_errors(tmp_path):
    hourly = read(gdp(), tmp_path)
    assert "gap" not in hourly.flags
    assert hourly.provenance["reader"] == "gdp"


def test_one_raw_drifter_of_the_gdp_is_a_grid_of_one_row_beside_a_count(tmp_path):
    dims = ("traj", "obs")
    dataset = xr.Dataset(
        {
            "ID": ("traj", [63067980]),
            "rowsize": ("traj", [3]),
            "longitude": (dims, [[1.0, 1.01, 1.02]], {"units": "degrees_east"}),
            "latitude": (dims, [[2.0, 2.01, 2.02]], {"units": "degrees_north"}),
            "time": (dims, [[0.0, 3600.0, 7200.0]], {"units": "seconds since 1970-01-01"}),
            "err_lon": (dims, [[0.01, 0.01, 0.01]]),
            "err_lat": (dims, [[0.01, 0.01, 0.01]]),
            "drogue_status": (dims, np.array([[1, 1, 0]], np.int8)),
            "drogue_lost_date": ("traj", [7200.0], {"units": "seconds since 1970-01-01"}),
        }
    )
    tracks = read(dataset, tmp_path)
    assert tracks.ids.tolist() == [63067980]
    assert tracks.flags["drogued"].tolist() == [1, 1, 0]
    assert tracks.times.tolist() == [0, 3600, 7200]


@pytest.mark.parametrize(("minutes", "smoothed"), [(5, False), (15, True)])
def test_errors_of_glad_are_metres_and_the_filtered_product_is_said_to_be(
    tmp_path, minutes, smoothed
):
    dataset = contiguous().rename(lon="longitude", lat="latitude")
    dataset["longitude"] = dataset["longitude"].astype(np.float32)
    dataset["time"] = (
        "obs",
        dataset["time"].to_numpy() * minutes,
        {"units": "minutes since 2012-07-22"},
    )
    dataset = dataset.assign(position_error=("obs", np.full(SIZES.sum(), 5.0), {"units": "m"}))
    tracks = read(dataset, tmp_path)
    assert tracks.provenance["reader"] == "glad"
    assert (tracks.position_sd == 5).all()
    notes = " ".join(tracks.provenance["notes"])
    assert ("smoother models" in notes) == smoothed
    assert "32 bits" in notes


def opendrift(status):
    dims = ("trajectory", "time")
    lon = np.array([[np.nan, 1.0, 1.01, 1.02, np.nan], [1.0, 1.01, 1.02, 1.03, 1.04]])
    return xr.Dataset(
        {
            "lon": (dims, lon.astype(np.float32), LON),
            "lat": (dims, (lon + 50).astype(np.float32), LAT),
            "status": (dims, status, {"flag_meanings": "active stranded"}),
            "trajectory": ("trajectory", np.array([1, 2], np.int32), {"cf_role": "trajectory_id"}),
            "time": ("time", np.arange(5) * 3600.0, {"units": "seconds since 1970-01-01 00:00:00"}),
        },
        attrs={"opendrift_version": "1.14.11", "featureType": "trajectory"},
    )


def test_stranded_elements_of_opendrift_end_where_they_were_last_active(tmp_path):
    fill = np.iinfo(np.int32).max
    status = np.array([[fill, 0, 0, 1, fill], [0, 0, 0, 0, 0]], np.int32)
    tracks = read(opendrift(status), tmp_path)
    assert tracks.row_sizes.tolist() == [2, 5]
    assert tracks.times.tolist() == [3600, 7200, 0, 3600, 7200, 10800, 14400]
    assert "1 positions of inactive elements" in " ".join(tracks.provenance["notes"])


@pytest.mark.parametrize(
    ("unit", "factor"),
    [
        ("seconds", 1),
        ("Hours since 1950-01-01T00:00:00Z", 3600),
        ("days  since 1970-1-1 0:0:0", 86400),
        ("ns", 1e-9),
        ("milliseconds SINCE 2000-01-01 12:00:00.5 +02:00", 1e-3),
    ],
)
def test_units_of_time_are_known_with_and_without_a_date(unit, factor):
    assert parse_time_unit(unit, "f") == (factor, "s")


def test_a_zone_in_the_date_that_times_count_from_moves_them(tmp_path):
    dataset = contiguous()
    dataset["time"].attrs["units"] = "hours since 2020-01-01 02:00:00.5 +02:30"
    assert read(dataset, tmp_path).times[0] == EPOCH - 1800.0 + 0.5
    dataset["time"].attrs["units"] = "hours since 0000-02-30"
    no_date = read(dataset, tmp_path, "b.nc")
    assert no_date.times[0] == 0.0
    assert "time_origin" not in no_date.provenance
    assert time_origin({"units": "hours since 0001-01-01 00:00 +02:00"}) is None
    dataset["time"].attrs |= {"units": "hours since 2020-01-01", "calendar": "360_day"}
    assert "time_origin" not in read(dataset, tmp_path, "c.nc").provenance


def test_a_unit_that_the_user_names_is_believed_and_nothing_converted(tmp_path):
    tracks = read(contiguous(), tmp_path, time_unit="fortnights")
    assert (tracks.times[1], tracks.time_unit) == (1.0, "fortnights")


def test_flat_files_of_a_tool_that_says_degrees_are_read_as_told(tmp_path):
    tracks = read(grid(), tmp_path, coordinates="plane", length_unit="m")
    assert (tracks.positions[:4, 0] > 29).all()
    assert tracks.lonlat is None


def nested(ids, time=None, lon=None):
    lon_, lat, hours = rows()
    offsets = pa.array(np.concatenate([[0], np.cumsum(SIZES)]))
    stamps = (hours * 3600e9).astype(np.int64) + int(EPOCH * 1e9)

    def lists(values):
        return pa.LargeListArray.from_arrays(offsets, pa.array(values))

    fields = {
        "time": lists(stamps.astype("datetime64[ns]") if time is None else time),
        "id": ids,
        "lon": lists(lon_) if lon is None else lon,
        "lat": lists(lat),
    }
    obs = pa.StructArray.from_arrays(list(fields.values()), names=list(fields))
    return pa.table({"rowsize": pa.array(SIZES), "obs": obs})


def test_nested_parquet_has_the_same_trajectories(tmp_path, truth):
    pq.write_table(nested(pa.array(IDS)), tmp_path / "a.parquet")
    tracks = read_trajectories(tmp_path / "a.parquet")
    assert tracks.fingerprint == truth.fingerprint
    assert tracks.provenance["time_origin"] == "1970-01-01T00:00:00"
    assert tracks.ids.tolist() == IDS.tolist()
    repeated = pa.LargeListArray.from_arrays(
        pa.array(np.concatenate([[0], np.cumsum(SIZES)])), pa.array(np.repeat(IDS, SIZES))
    )
    pq.write_table(nested(repeated), tmp_path / "b.parquet")
    assert read_trajectories(tmp_path / "b.parquet").ids.tolist() == IDS.tolist()


def test_nested_parquet_of_the_wrong_kind_is_refused(tmp_path):
    pq.write_table(nested(pa.array(IDS), lon=pa.array([1.0, 2.0, 3.0])), tmp_path / "a.parquet")
    with pytest.raises(DriftbayesError, match="field 'lon' of 'obs' holds double, expected a list"):
        read_trajectories(tmp_path / "a.parquet")
    pq.write_table(nested(pa.array(["a" * 300, "b", "c"])), tmp_path / "c.parquet")
    with pytest.raises(
        DriftbayesError, match=r"'c\.parquet': the variable of ids holds an id longer"
    ):
        read_trajectories(tmp_path / "c.parquet")
    short = pa.LargeListArray.from_arrays(pa.array([0, 1, 2, 3]), pa.array([1.0, 2.0, 3.0]))
    pq.write_table(nested(pa.array(IDS), lon=short), tmp_path / "b.parquet")
    with pytest.raises(DriftbayesError, match="differ in length"):
        read_trajectories(tmp_path / "b.parquet")


@pytest.mark.parametrize("make", [contiguous, grid, gdp, lambda: opendrift(np.zeros((2, 5)))])
def test_trajectories_come_out_the_same_from_a_part_of_the_file(tmp_path, make):
    dataset = make()
    whole = read(dataset, tmp_path)
    contents = contents_of(tmp_path / "a.nc")
    part = {"trajectory": (1, 2)}
    if contents.has("rowsize"):
        part = {"traj": (1, 2), "obs": (int(SIZES[0]), int(SIZES[:2].sum()))}
    cut = read_as(choose(contents), replace(contents, part=part), ReadOptions())
    alone = whole.select(whole.trajectory_index == 1)
    assert cut.lonlat.tobytes() == alone.lonlat.tobytes()
    assert cut.times.tobytes() == alone.times.tobytes()
    # Sums along a path are rounded with those of the paths before it.
    np.testing.assert_allclose(cut.positions, alone.positions, atol=1e-6)
    assert cut.ids.tolist() == alone.ids.tolist()


def test_a_step_across_the_dateline_is_short(tmp_path):
    dataset = xr.Dataset(
        {
            "lon": ("time", [179.99, -179.99, 180.01], LON),
            "lat": ("time", [0.0, 0.0, 0.0], LAT),
            "time": ("time", [0, 1, 2], {"units": "hours since 2020-01-01"}),
        }
    )
    tracks = read(dataset, tmp_path)
    np.testing.assert_allclose(
        tracks.positions[:, 0], [0, 0.02 * 111319.5, 0.02 * 111319.5], rtol=1e-4
    )
