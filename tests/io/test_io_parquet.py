import sys
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal

from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.io import read_trajectories, write_trajectories
from driftbayes.io._blocks import plan_blocks

BASE = {"id": [1, 1, 2], "time": [0.0, 1.0, 0.0], "x": [1.0, 2.0, 3.0]}


@pytest.fixture
def parquet(tmp_path):
    def read(data, metadata=None, **options):
        table = data if isinstance(data, pa.Table) else pa.table({**BASE, **data})
        if metadata is not None:
            table = table.replace_schema_metadata(metadata)
        pq.write_table(table, tmp_path / "tracks.parquet")
        return read_trajectories(tmp_path / "tracks.parquet", **options)

    return read


def some_tracks(**attributes):
    return Trajectories.from_arrays([[[0.0], [1.0]], [[2.0], [3.0]]], dt=0.5, **attributes)


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.uint16(), pa.float64()])
def test_numbers_of_any_kind_are_ids_times_and_positions(parquet, kind):
    read = parquet({name: pa.array(BASE[name]).cast(kind) for name in BASE})
    assert read.ids.tolist() == [1, 2]
    assert read.ids.dtype == np.int64
    assert_array_equal(read.times, BASE["time"])
    assert_array_equal(read.positions[:, 0], BASE["x"])


def test_float32_positions_and_decimals_are_taken_as_they_are(parquet):
    read = parquet({"x": pa.array([0.1, 0.2, 0.3], pa.float32())})
    assert_array_equal(read.positions[:, 0], np.array([0.1, 0.2, 0.3], np.float32))
    read = parquet({"x": pa.array([Decimal("1.5"), None, Decimal("2.5")])})
    assert_array_equal(read.positions[:, 0], [1.5, np.nan, 2.5])


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())]
)
def test_text_ids_stay_text_even_if_they_look_like_numbers(parquet, kind):
    read = parquet({"id": pa.array(["2", "2", "1"]).cast(kind)})
    assert read.ids.tolist() == ["2", "1"]


def test_a_dictionary_in_another_order_does_not_change_the_order_of_appearance(parquet):
    ids = pa.DictionaryArray.from_arrays(pa.array([2, 0, 2]), pa.array(["a", "unused", "c"]))
    read = parquet({"id": ids, "time": [0.0, 0.0, 1.0]})
    assert read.ids.tolist() == ["c", "a"]
    assert_array_equal(read.row_sizes, [2, 1])


def test_rows_are_gathered_across_row_groups(tmp_path):
    n = 1000
    table = pa.table(
        {"id": np.tile([3, 1, 2], n), "time": np.repeat(np.arange(n), 3), "x": np.arange(3.0 * n)}
    )
    pq.write_table(table, tmp_path / "a.pq", row_group_size=64)
    read = read_trajectories(tmp_path / "a.pq")
    assert read.ids.tolist() == [3, 1, 2]
    assert_array_equal(read.positions[:n, 0], np.arange(0, 3 * n, 3))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_timestamps_are_seconds_since_1970_utc(parquet, unit, zone):
    read = parquet(
        {"time": pa.array([60, 61, 60]).cast(pa.timestamp("s")).cast(pa.timestamp(unit, zone))}
    )
    assert_array_equal(read.times, [60, 61, 60])
    assert read.time_unit == "s"


def test_a_zone_is_not_lost(parquet):
    noon = datetime(1970, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    later = noon.astimezone(UTC) + timedelta(seconds=1)
    assert_array_equal(parquet({"time": [noon, later, noon]}).times, [36000, 36001, 36000])


def test_dates_durations_and_iso_text_are_times(parquet):
    days = [date(1970, 1, 2), date(1970, 1, 3), date(1970, 1, 2)]
    assert_array_equal(parquet({"time": days}).times, [86400, 172800, 86400])
    steps = [timedelta(seconds=1.5), timedelta(seconds=2), timedelta(0)]
    assert_array_equal(parquet({"time": steps}).times, [1.5, 2, 0])
    text = ["1970-01-01", "1970-01-01T00:00:02", "1970-01-02"]
    assert_array_equal(parquet({"time": text}).times, [0, 2, 86400])


def test_null_and_nan_positions_are_missing(parquet):
    read = parquet({"x": [1.0, None, float("nan")]})
    assert_array_equal(read.positions[:, 0], [1, np.nan, np.nan])


def test_a_column_of_nothing_but_nulls_is_all_missing(parquet):
    assert np.isnan(parquet({"x": pa.nulls(3)}).positions).all()


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"id": [1, None, 2]}, r"'tracks\.parquet' row 2: column 'id' is empty; every row needs"),
        ({"id": pa.nulls(3)}, r"row 1: column 'id' is empty"),
        ({"id": [1.0, 1.5, 2.0]}, r"row 2: column 'id' is not a whole number; use text or whole"),
        ({"id": [1.0, 1.0, np.nan]}, r"row 3: column 'id' is empty"),
        ({"id": [True, False, True]}, r": column 'id' holds bool, expected text or whole numbers"),
        (
            {"id": pa.array([1, 1, 2**64 - 1], pa.uint64())},
            r"column 'id' .*beyond 64 bits; use text",
        ),
        ({"time": [0.0, None, 1.0]}, r"row 2: column 'time' is empty; every row needs a time"),
        ({"time": [0.0, float("nan"), 1.0]}, r"row 2: column 'time' is empty"),
        ({"time": [datetime(2024, 1, 1), None, None]}, r"row 2: column 'time' is empty"),
        ({"time": ["2024-01-01", "noon", "x"]}, r"row 2: column 'time' holds 'noon', expected an"),
        ({"time": [True, False, True]}, r": column 'time' holds bool, expected numbers"),
        ({"x": ["1", "2", "3"]}, r": column 'x' holds string, expected numbers"),
        ({"x": [[1.0], [2.0], [3.0]]}, r": column 'x' holds list<.*>, expected numbers"),
    ],
)
def test_a_bad_column_is_named_with_its_row(parquet, columns, expected):
    with pytest.raises(DriftbayesError, match=expected):
        parquet(columns)


def test_a_missing_column_says_what_is_there(parquet):
    table = pa.table({"who": [1], "when": [0.0], "x": [1.0]})
    expected = r"which columns are id and time\? It has 'who', 'when', 'x': pass columns=\{'id': "
    with pytest.raises(DriftbayesError, match=expected):
        parquet(table)
    assert parquet(table, columns={"id": "who", "time": "when"}).ids.tolist() == [1]


def test_a_table_without_rows_is_refused(parquet):
    with pytest.raises(DriftbayesError, match=r"has columns but no rows; expected one row per"):
        parquet(pa.table(BASE).slice(0, 0))


def test_no_rows_are_refused_in_blocks_too(tmp_path):
    pq.write_table(pa.table(BASE).slice(0, 0), tmp_path / "tracks.parquet")
    with (
        pytest.raises(DriftbayesError, match=r"has columns but no rows; expected one row per"),
        plan_blocks(tmp_path / "tracks.parquet"),
    ):
        pass


@pytest.mark.parametrize("keep", [0.3, 0.9, 0.999])
def test_a_truncated_file_is_one_sentence(tmp_path, keep):
    write_trajectories(some_tracks(), tmp_path / "a.parquet")
    data = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(data[: int(len(data) * keep)])
    expected = r"'a\.parquet' cannot be read as Parquet \(.*\); it may be damaged, truncated or in"
    with pytest.raises(DriftbayesError, match=expected):
        read_trajectories(tmp_path / "a.parquet")


def test_an_empty_file_is_said_to_be_empty(tmp_path):
    (tmp_path / "a.parquet").touch()
    with pytest.raises(DriftbayesError, match=r"'a\.parquet' is empty; expected data in it"):
        read_trajectories(tmp_path / "a.parquet")


def test_units_and_provenance_come_back(tmp_path):
    tracks = some_tracks(
        length_unit="m",
        time_unit="days",
        provenance={"source": "flow", "seed": np.int64(3), "sizes": np.array([1, 2])},
    )
    write_trajectories(tracks, tmp_path / "a.parquet")
    read = read_trajectories(tmp_path / "a.parquet")
    assert (read.length_unit, read.time_unit) == ("m", "days")
    assert read.provenance == {
        "seed": 3,
        "sizes": [1, 2],
        "source": "a.parquet",
        "reader": "parquet",
        "earlier": [{"source": "flow"}],
    }
    write_trajectories(read, tmp_path / "b.parquet")
    again = read_trajectories(tmp_path / "b.parquet")
    assert again.provenance["earlier"][1] == {"source": "a.parquet", "reader": "parquet"}


def test_an_argument_overrides_the_unit_in_the_file(tmp_path):
    write_trajectories(some_tracks(length_unit="m", time_unit="s"), tmp_path / "a.parquet")
    read = read_trajectories(tmp_path / "a.parquet", length_unit="px", time_unit="frame")
    assert (read.length_unit, read.time_unit) == ("px", "frame")


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (b"{", r"the provenance in 'tracks\.parquet' is not a JSON object"),
        (b"[1]", r"the provenance in 'tracks\.parquet' is not a JSON object"),
        (b"{}", r"has schema version None, expected a whole number"),
        (b'{"schema": "1"}', r"has schema version '1', expected a whole number"),
        (b'{"schema": 2}', r"has schema version 2, this driftbayes supports 1; upgrade driftbayes"),
        (b'{"schema": 1, "time_unit": 3}', r"has a time_unit of the wrong type"),
        (b'{"schema": 1, "provenance": 3}', r"has a provenance of the wrong type"),
    ],
)
def test_metadata_that_make_no_sense_are_refused(parquet, header, expected):
    with pytest.raises(DriftbayesError, match=expected):
        parquet({}, metadata={b"driftbayes": header})


@pytest.mark.parametrize("ids", [[1.5, 2.5], [True, False], [None, "b"], [2**64 - 1, 2]])
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".nc"])
def test_ids_that_no_file_can_hold_are_refused(tmp_path, suffix, ids):
    tracks = some_tracks(ids=np.array(ids))
    with pytest.raises(DriftbayesError, match=r"ids must be text or 64-bit whole numbers"):
        write_trajectories(tracks, tmp_path / f"a{suffix}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".nc"])
def test_ids_that_could_not_be_read_back_are_refused(tmp_path, suffix):
    write_trajectories(some_tracks(ids=["a", "é" * 200]), tmp_path / f"a{suffix}")
    assert read_trajectories(tmp_path / f"a{suffix}").ids.tolist() == ["a", "é" * 200]
    with pytest.raises(DriftbayesError, match=r"an id is longer than 200 characters; shorten"):
        write_trajectories(some_tracks(ids=["a", "é" * 201]), tmp_path / f"a{suffix}")


def test_one_long_id_does_not_make_room_for_itself_in_all_the_others(parquet):
    with pytest.raises(DriftbayesError, match=r"column 'id' holds an id longer than 200 charac"):
        parquet({"id": ["a", "a", "b" * 201]})


def test_without_pyarrow_the_message_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("id,time,x\n1,0,1\n")
    write_trajectories(some_tracks(), tmp_path / "a.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    expected = r"^tables need the package pyarrow, which is not installed; run: pip install pyarrow"
    for name in ("a.csv", "a.parquet"):
        with pytest.raises(DriftbayesError, match=expected):
            read_trajectories(tmp_path / name)
        with pytest.raises(DriftbayesError, match=expected):
            write_trajectories(some_tracks(), tmp_path / name)


@pytest.mark.parametrize("name", ["\ud800", "a\0b"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".nc"])
def test_ids_with_characters_that_some_file_would_lose_are_refused(tmp_path, suffix, name):
    with pytest.raises(DriftbayesError, match=r"has a character not allowed in files"):
        write_trajectories(some_tracks(ids=["a", name]), tmp_path / f"a{suffix}")
