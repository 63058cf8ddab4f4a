import csv as csv_module
import gzip
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.io import read_trajectories, write_trajectories

HEADER = "id,time,x\n"


@pytest.fixture
def csv(tmp_path):
    def read(text, name="tracks.csv", **options):
        data = text if isinstance(text, bytes) else text.encode()
        (tmp_path / name).write_bytes(data)
        return read_trajectories(tmp_path / name, **options)

    return read


def test_positions_times_and_ids_are_read(csv):
    read = csv("id,time,x,y\na,0,1,2\na,1,3,4\nb,0,5,6\n")
    assert read.ids.tolist() == ["a", "b"]
    assert_array_equal(read.row_sizes, [2, 1])
    assert_array_equal(read.times, [0, 1, 0])
    assert_array_equal(read.positions, [[1, 2], [3, 4], [5, 6]])
    assert read.position_sd is None


def test_time_major_rows_are_gathered_in_order_of_first_appearance(csv):
    read = csv(HEADER + "9,0,1\n2,0,2\n5,0,3\n9,1,4\n5,1,5\n")
    assert read.ids.tolist() == [9, 2, 5]
    assert_array_equal(read.row_sizes, [2, 1, 2])
    assert_array_equal(read.positions[:, 0], [1, 4, 2, 3, 5])


def test_integer_ids_stay_integers_and_zero_padded_ones_stay_text(csv):
    assert csv(HEADER + "12,0,1\n-3,0,1\n").ids.tolist() == [12, -3]
    assert csv(HEADER + "007,0,1\n8,0,1\n").ids.tolist() == ["007", "8"]


def test_whole_numbers_beyond_64_bits_stay_text(csv):
    assert csv(HEADER + f"{2**63},0,1\n").ids.tolist() == [str(2**63)]


def test_an_id_of_thousands_of_digits_is_refused_as_too_long(csv):
    with pytest.raises(DriftbayesError, match=r"line|characters|table"):
        csv(HEADER + "9" * 5000 + ",0,1\n")


def test_an_id_named_like_a_missing_value_is_an_id(csv):
    assert csv(HEADER + "NA,0,1\nnan,0,1\n").ids.tolist() == ["NA", "nan"]


@pytest.mark.parametrize("cell", ["", " ", "NaN", "nan", "NA", " NA ", "null", "-nan"])
def test_a_missing_position_is_nan(csv, cell):
    read = csv(HEADER + f"1,0,1\n1,1,{cell}\n1,2,3\n")
    assert_array_equal(read.positions[:, 0], [1, np.nan, 3])


def test_every_missing_value_is_the_same_nan(csv):
    read = csv(HEADER + "1,0,1\n1,1,-nan\n1,2,\n1,3,NaN\n")
    assert set(read.positions[1:, 0].view(np.uint64)) == {np.float64(np.nan).view(np.uint64)}


def test_spaces_around_names_and_cells_mean_nothing(csv):
    read = csv(" time, id, x\n 0, 7, +1.5e3\n 1, 7, 2\n")
    assert read.ids.tolist() == [7]
    assert_array_equal(read.positions[:, 0], [1500, 2])


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_any_line_ending_and_a_byte_order_mark_are_understood(csv, newline):
    read = csv("\ufeff" + (HEADER + "1,0,1\n1,1,2\n").replace("\n", newline))
    assert_array_equal(read.positions[:, 0], [1, 2])


def test_other_columns_are_ignored_whatever_they_hold(csv):
    read = csv(b"note,id,time,x\n\xff\xe9,1,0,1\nabc,1,1,2\n")
    assert_array_equal(read.positions[:, 0], [1, 2])


def test_columns_map_canonical_names_to_those_of_the_file(csv):
    text = "particle,frame,lon,lat,err\n1,0,2,3,0.1\n"
    names = {"id": "particle", "time": "frame", "x": "lon", "y": "lat", "sd": "err"}
    read = csv(text, columns=names)
    assert_array_equal(read.positions, [[2, 3]])
    assert_array_equal(read.position_sd, [0.1])
    assert read.provenance["columns"] == names


def test_a_column_given_a_role_does_not_also_play_its_own(csv):
    assert csv("id,time,x,z\n1,0,2,3\n", columns={"y": "z"}).positions.tolist() == [[2, 3]]


def test_a_column_that_is_not_wanted_is_left_out_whatever_it_holds(csv):
    read = csv("id,time,x,y,z\n1,0,2,3,\n1,1,2,3,deep\n", columns={"z": None})
    assert_array_equal(read.positions, [[2, 3], [2, 3]])
    assert read.provenance["columns"] == {"z": None}


def test_units_are_taken_from_the_arguments(csv):
    read = csv(HEADER + "1,0,1\n", length_unit="km", time_unit="h")
    assert (read.length_unit, read.time_unit) == ("km", "h")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-02", 86400),
        ("1970-01-01T00:01", 60),
        ("1970-01-01 00:00:01", 1),
        ("1970-01-01T00:00:01Z", 1),
        ("1970-01-01 00:00:01 UTC", 1),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:00-0230", 9000),
        ("1970-01-01T00:00:00.5", 0.5),
        ("1970-01-01T00:00:00.123456789Z", 0.123456),
        ("1969-12-31T23:59:59", -1),
        ("2024-02-29T12:00:00", 1709208000),
    ],
)
def test_iso_dates_are_seconds_since_1970_utc(csv, text, seconds):
    read = csv(HEADER + f"1,{text},1\n")
    assert read.times.tolist() == [seconds]
    assert read.time_unit == "s"


def test_dates_of_several_styles_may_be_mixed(csv):
    read = csv(HEADER + "1,1970-01-01,1\n1,1970-01-01T00:00:01Z,1\n1,1970-01-01 01:00:02+01,1\n")
    assert read.times.tolist() == [0, 1, 2]


def test_another_unit_for_dates_is_refused(csv):
    with pytest.raises(DriftbayesError, match=r"are dates, read as seconds; got time_unit"):
        csv(HEADER + "1,2024-01-01,1\n", time_unit="days")
    assert csv(HEADER + "1,2024-01-01,1\n", time_unit="s").time_unit == "s"


def test_the_source_is_the_file_name_without_directories(csv):
    read = csv(HEADER + "1,0,1\n")
    assert read.provenance == {"source": "tracks.csv", "reader": "csv"}


def test_duplicate_times_are_reported_not_repaired(csv):
    with pytest.raises(
        DriftbayesError, match=r"^'tracks\.csv': duplicate times: trajectory '1' has"
    ):
        csv(HEADER + "1,0,1\n2,0,1\n1,0,2\n")


def test_decreasing_times_are_sorted_and_it_is_said(csv):
    read = csv(HEADER + "1,2,1\n2,0,1\n1,1,2\n")
    assert_array_equal(read.positions[:, 0], [2, 1, 1])
    assert "were sorted" in read.provenance["notes"][-1]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DriftbayesError, match=r"there is no file '.*none\.csv'; check its name"):
        read_trajectories(tmp_path / "none.csv")


def test_a_directory_is_not_a_file(tmp_path):
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(DriftbayesError, match=r"d\.csv' is a directory, expected a file"):
        read_trajectories(tmp_path / "d.csv")


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_an_empty_file_is_said_to_be_empty(csv, text):
    with pytest.raises(DriftbayesError, match=r"'tracks\.csv' is empty; expected"):
        csv(text)


@pytest.mark.parametrize("text", [HEADER, "id,time,x", HEADER + "\n\n"])
def test_a_header_without_rows_is_refused(csv, text):
    with pytest.raises(DriftbayesError, match=r"'tracks\.csv' has a header but no rows"):
        csv(text)


def test_a_missing_column_says_what_is_there_and_what_to_pass(csv):
    expected = (
        r"^'tracks\.csv': which columns are x and y\? It has 'id', 'time', 'x0', 'x1': "
        r"pass columns=\{'x': 'x0', 'y': 'x1'\} \(--columns 'x=x0,y=x1'\)$"
    )
    with pytest.raises(DriftbayesError, match=expected):
        csv("id,time,x0,x1\n1,0,1,2\n")


def test_a_non_numeric_cell_is_named_by_line_and_column(csv):
    expected = r"'tracks\.csv' line 3: column 'x' holds 'abc', expected a number; correct the cell"
    with pytest.raises(DriftbayesError, match=expected):
        csv(HEADER + "1,0,1\n1,1,abc\n")


@pytest.mark.parametrize("cell", ["1.2.3", "1_000", "0x10", "1;5", "12 m", "٣", '"1,5"'])
def test_what_only_looks_like_a_number_is_refused(csv, cell):
    with pytest.raises(DriftbayesError, match=r"line 2: column 'x' holds .*, expected a number"):
        csv(HEADER + f"1,0,{cell}\n")


def test_lines_are_counted_as_an_editor_counts_them(csv):
    text = '\nnote,id,time,x\n\n"two\nlines",1,0,1\r\n\n,1,1,bad\n'
    with pytest.raises(DriftbayesError, match=r"line 7: column 'x' holds 'bad'"):
        csv(text)


def test_the_first_bad_line_is_the_one_named(csv):
    rows = "".join(f"1,{n},{n}\n" for n in range(1000))
    with pytest.raises(DriftbayesError, match=r"line 1002: column 'time' holds 'x'"):
        csv(HEADER + rows + "1,x,0\n1,y,z\n")


def test_the_files_own_column_name_is_used(csv):
    with pytest.raises(DriftbayesError, match=r"line 2: column 'lon' holds 'W'"):
        csv("id,time,lon\n1,0,W\n", columns={"x": "lon"})


@pytest.mark.parametrize("cell", ["", "  "])
def test_a_missing_id_is_named_by_line(csv, cell):
    expected = r"line 3: column 'id' is empty; every row needs the id of its trajectory"
    with pytest.raises(DriftbayesError, match=expected):
        csv(HEADER + f"1,0,1\n{cell},1,1\n")


@pytest.mark.parametrize("first", ["0", "2024-01-01"])
@pytest.mark.parametrize("cell", ["", "NaN", " "])
def test_a_missing_time_is_named_by_line(csv, first, cell):
    with pytest.raises(DriftbayesError, match=r"line 3: column 'time' is empty; every row needs"):
        csv(HEADER + f"1,{first},1\n1,{cell},1\n")


def test_a_missing_time_in_the_first_row_is_named_by_line(csv):
    with pytest.raises(DriftbayesError, match=r"line 2: column 'time' is empty"):
        csv(HEADER + "1,,1\n1,2024-01-01,1\n")


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("noon", "1", r"line 2: column 'time' holds 'noon', expected a number or an ISO date"),
        ("0", "2024-01-01", r"line 3: column 'time' holds '2024-01-01', expected a number;"),
        ("2024-01-01", "5", r"line 3: column 'time' holds '5', expected an ISO date"),
        ("2024-01-01", "2024-13-01", r"line 3: column 'time' holds '2024-13-01', expected an ISO"),
        ("2024-01-01", "2023-02-29", r"line 3: column 'time' holds '2023-02-29', expected an ISO"),
        ("01/02/2024", "1", r"line 3: column 'time' holds '1', expected a date"),
    ],
)
def test_a_bad_time_says_what_a_time_looks_like(csv, first, second, expected):
    with pytest.raises(DriftbayesError, match=expected):
        csv(HEADER + f"1,{first},1\n1,{second},1\n")


@pytest.mark.parametrize(("row", "count"), [("1,1", "2 cells"), ("1", "1 cell"), ("1,1,1,1", "4")])
def test_a_line_that_was_cut_short_is_not_a_missing_fix(csv, row, count):
    with pytest.raises(DriftbayesError, match=rf"line 3 has {count}.* where the header has 3"):
        csv(HEADER + f"1,0,1\n{row}\n")


@pytest.mark.parametrize(("separator", "called"), [(";", "semicolons"), ("\t", "tabs")])
def test_semicolons_and_tabs_are_recognised_and_noted(csv, separator, called):
    text = "id,time,x\n1,0,1\n1,1,2\n"
    read = csv(text.replace(",", separator))
    assert read.fingerprint == csv(text).fingerprint
    assert read.provenance["notes"] == [f"cells are separated by {called}"]


def test_commas_in_names_do_not_hide_tabs(csv):
    read = csv("id\ttime\tx\tspeed, mm/s\n1\t0\t1\t2\n1\t1\t2\t3\n")
    assert_array_equal(read.positions[:, 0], [1, 2])


def test_a_bad_cell_between_semicolons_is_found(csv):
    with pytest.raises(
        DriftbayesError, match=r"line 3: column 'x' holds '0,5,', expected a number"
    ):
        csv("id;time;x\n1;0;1\n1;1;0,5,\n")


def test_comments_before_the_header_are_passed_over(csv):
    read = csv("# made by hand\n\n# twice\nid,time,x\n1,0,1\n1,1,2\n")
    assert_array_equal(read.positions[:, 0], [1, 2])
    with pytest.raises(DriftbayesError, match=r"line 5: column 'x' holds 'bad'"):
        csv("# made by hand\n\n# twice\nid,time,x\n1,0,bad\n")


def test_a_header_that_numpy_wrote_as_a_comment_is_a_header(csv):
    assert_array_equal(csv("# id,time,x\n1,0,1\n1,1,2\n").positions[:, 0], [1, 2])


@pytest.mark.parametrize("data", [b"\x89PNG\r\n\x1a\n\0\0", "id,time,x\n1,0,1\n".encode("utf-16")])
def test_a_binary_file_is_not_a_table(csv, data):
    with pytest.raises(DriftbayesError, match=r"is not a table in plain text; save it as"):
        csv(data)


def test_ids_in_another_encoding_are_refused_by_line(csv):
    expected = r"line 3: column 'id' holds text that is not UTF-8; save the file as UTF-8"
    with pytest.raises(DriftbayesError, match=expected):
        csv(b"id,time,x\na,0,1\n\xe9,0,1\n")


@pytest.mark.parametrize("cut", [3, 20])
def test_a_truncated_or_false_gzip_file_is_one_sentence(csv, cut):
    data = gzip.compress((HEADER + "1,0,1\n" * 50).encode())
    with pytest.raises(DriftbayesError, match=r"tracks\.csv\.gz' .*it may be damaged or truncated"):
        csv(data[:cut], name="tracks.csv.gz")
    with pytest.raises(DriftbayesError, match=r"it may be damaged or truncated"):
        csv(HEADER + "1,0,1\n", name="tracks.csv.gz")


def test_two_columns_of_one_name_are_refused(csv):
    with pytest.raises(DriftbayesError, match=r"more than one column 'x'; rename one of them"):
        csv("id,time,x,x\n1,0,1,2\n")


def test_an_unreadable_file_is_one_sentence(tmp_path, monkeypatch):
    from pathlib import Path

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    (tmp_path / "a.csv").write_text("id,time,x\n1,0,0\n")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DriftbayesError, match=r"a\.csv' cannot be opened: Permission denied"):
        read_trajectories(tmp_path / "a.csv")


def test_a_missing_value_is_written_as_an_empty_cell(tmp_path):
    tracks = Trajectories.from_arrays([[[0.1, -0.0], [np.nan, np.nan]]], dt=1.0, ids=["a"])
    write_trajectories(tracks, tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text().replace('"', "") == "id,time,x,y\na,0,0.1,-0\na,1,,\n"


@pytest.mark.parametrize("name", ["", " ", " a"])
def test_an_id_that_csv_would_lose_is_refused(tmp_path, name):
    tracks = Trajectories.from_arrays([[[0.0]], [[1.0]]], dt=1.0, ids=["a", name])
    with pytest.raises(DriftbayesError, match=r"cannot hold the id '.*blank or has spaces around"):
        write_trajectories(tracks, tmp_path / "a.csv")
    assert list(tmp_path.iterdir()) == []


FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "'=1", "''=1", "'", "'a", "a=1", "=", "'-", "7", "-x"]


def tracks_with(ids):
    n = len(ids)
    return Trajectories(
        positions=np.arange(2.0 * n)[:, None],
        times=np.tile([0.0, 1.0], n),
        row_sizes=np.full(n, 2),
        ids=np.array(ids),
    )


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_no_id_is_a_formula_in_a_spreadsheet_and_all_come_back(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    write_trajectories(tracks_with(FORMULAS), path)
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if suffix.endswith("gz") else raw).decode()
    cells = [row["id"] for row in csv_module.DictReader(text.splitlines())]
    assert not [cell for cell in cells if cell[0] in "=+-@\t\r"]
    read = read_trajectories(path)
    assert read.ids.tolist() == FORMULAS
    # Again and again, nothing is added and nothing is taken away.
    write_trajectories(read, tmp_path / f"b{suffix}")
    assert (tmp_path / f"b{suffix}").read_bytes() == path.read_bytes()


@given(
    st.lists(
        st.text(alphabet="'=+-@a1,\";", min_size=1, max_size=6), min_size=1, max_size=8, unique=True
    )
)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_ids_of_any_signs_come_back(tmp_path, ids):
    write_trajectories(tracks_with(ids), tmp_path / "a.csv")
    read = read_trajectories(tmp_path / "a.csv").ids.tolist()
    assert [str(value) for value in read] == ids


def test_numbers_that_are_ids_stay_numbers(tmp_path):
    write_trajectories(tracks_with([-5, 7]), tmp_path / "a.csv")
    assert "\n-5,0" in (tmp_path / "a.csv").read_text()
    assert read_trajectories(tmp_path / "a.csv").ids.tolist() == [-5, 7]


def test_apostrophes_of_other_programs_are_kept(csv):
    # A file with a bare formula is not ours: nothing was put before its ids.
    assert csv(HEADER + "'=a,0,1\n=a,0,1\n").ids.tolist() == ["'=a", "=a"]
    assert csv(HEADER + "'a,0,1\nb,0,1\n").ids.tolist() == ["'a", "b"]


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet", ".nc"])
def test_the_same_trajectories_are_the_same_bytes(tmp_path, monkeypatch, suffix):
    (tmp_path / "other").mkdir()
    write_trajectories(tracks_with(["a", "b"]), tmp_path / f"a{suffix}")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 12345.0)
    write_trajectories(tracks_with(["a", "b"]), tmp_path / "other" / f"z{suffix}")
    assert (tmp_path / f"a{suffix}").read_bytes() == (
        tmp_path / "other" / f"z{suffix}"
    ).read_bytes()
