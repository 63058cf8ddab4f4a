"""Columns that nobody named: guessed from the header with their units, or asked for all at once."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import driftbayes as db
from driftbayes.cli.main import main
from driftbayes.data._columns import guess
from driftbayes.errors import ColumnsError, DataWarning, DriftbayesError
from driftbayes.io import read_trajectories


@pytest.fixture
def read(tmp_path):
    def from_text(text, name="t.csv", **options):
        (tmp_path / name).write_text(text)
        return read_trajectories(tmp_path / name, **options)

    return from_text


def notes(tracks):
    return " | ".join(tracks.provenance.get("notes", []))


def columns(header, told=None):
    return guess(header.split(","), told, source="f.csv").columns


@pytest.mark.parametrize(
    ("header", "found", "length", "time"),
    [
        ("ID,time_s,x_um,y_um", "ID time_s x_um y_um", "µm", "s"),
        ("Track ID,t [s],x (µm),y (µm)", "Track ID|t [s]|x (µm)|y (µm)", "µm", "s"),
        ("ID,frame,X,Y", "ID frame X Y", "", "frame"),
        ("TRACK_ID,POSITION_T,POSITION_X,POSITION_Y,ID", None, "", ""),
        (
            "trackID,Time (ms),Pos X [px],Pos Y [px]",
            "trackID|Time (ms)|Pos X [px]|Pos Y [px]",
            "px",
            "ms",
        ),
        ("particle,frame_number,x-nm,y-nm", "particle frame_number x-nm y-nm", "nm", "frame"),
        ("drifter_id,hours since,time [days],easting,northing", None, "", "d"),
    ],
)
def test_names_and_units_of_headers_are_understood(header, found, length, time):
    meaning = guess(header.split(","), source="f.csv")
    got = [meaning.columns[role] for role in ("id", "time", "x", "y")]
    if found is not None:
        assert got == found.split("|" if "|" in found else " ")
    else:
        assert got[0] in ("TRACK_ID", "drifter_id")
    assert (meaning.length, meaning.time) == (length, time)


@pytest.mark.parametrize(
    "header",
    [
        "event-id,timestamp,location-long,location-lat,tag-local-identifier,"
        "individual-local-identifier",
        "individual-local-identifier,timestamp,Longitude,Latitude",
        "individual-local-identifier,timestamp,lon_deg,lat_deg,X,Y",
    ],
)
def test_movebank_and_other_degrees(header):
    found = columns(header)
    assert found["id"] == "individual-local-identifier"
    assert found["time"] == "timestamp"
    assert "lon" in found["lon"].lower()
    assert "lat" in found["lat"].lower()
    assert not found.get("x")


def test_our_own_names_come_first():
    found = columns("id,time,x,y,ID,t,X,Y,lon,lat")
    assert [found[role] for role in ("id", "time", "x", "y")] == ["id", "time", "x", "y"]


def test_a_guess_is_named_with_its_units_and_used(read):
    found = read("ID,time_s,x_um,y_um\n1,0,1,2\n1,0.5,2,3\n")
    assert (found.length_unit, found.time_unit) == ("µm", "s")
    assert found.provenance["guessed"] == "id = ID, time = time_s (s), x = x_um (µm), y = y_um (µm)"
    assert_array_equal(found.positions, [[1, 2], [2, 3]])


def test_the_same_table_in_memory_is_the_same(read, tmp_path):
    text = "Track ID,t [s],x (µm),y (µm)\n1,0,1,2\n1,0.5,2,3\n"
    found = db.read(
        pd.DataFrame({"Track ID": [1, 1], "t [s]": [0, 0.5], "x (µm)": [1, 2], "y (µm)": [2, 3]})
    )
    assert found.fingerprint == read(text).fingerprint
    assert found.length_unit == "µm"


def test_different_units_of_axes_are_refused():
    with pytest.raises(DriftbayesError, match=r"different units: 'x_um' in µm, 'y_nm' in nm"):
        columns("id,time,x_um,y_nm")


def test_pixels_and_frames_take_their_sizes(read):
    text = "ID,frame,x_px,y_px\n1,0,1,2\n1,1,2,3\n"
    found = read(text, pixel_size=(0.5, "um"), frame_interval=(10.0, "ms"))
    assert_array_equal(found.positions[1], [1.0, 1.5])
    assert (found.length_unit, found.time_unit) == ("µm", "ms")
    assert "--pixel-size" in notes(read(text))
    with pytest.raises(DriftbayesError, match="positions are in µm, not in pixels"):
        read(text.replace("px", "um"), pixel_size=(0.5, "um"))


def test_all_missing_columns_are_asked_for_at_once():
    expected = (
        r"which columns are id, time, x and y\? .*--columns 'id=COLUMN,time=COLUMN,x=east_pos"
    )
    with pytest.raises(ColumnsError, match=expected):
        columns("fish,zeit,east_pos,north_pos")


def test_the_command_line_prints_one_command_to_copy(tmp_path, capsys):
    file = tmp_path / "a file with a rather long name, so that a line of text must be folded.csv"
    file.write_text("fish,zeit,east_pos,north_pos\n1,2,3,4\n")
    assert main(["info", str(file), "--columns", "id=fish"]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("next: driftbayes info '")
    assert last.endswith(" --columns id=fish,time=COLUMN,x=east_pos,y=north_pos")


def test_two_columns_of_one_kind_are_not_told_apart():
    with pytest.raises(ColumnsError, match="id may be 'track' or 'particle'"):
        columns("track,particle,time,x,y")
    with pytest.raises(ColumnsError, match="x may be 'x_px' or 'x_um'"):
        columns("id,time,x_px,x_um,y_px,y_um")


@pytest.mark.parametrize("second", ["y_pos2", "ycorrected", "north", "Lat"])
def test_a_second_coordinate_is_never_lost(second):
    with pytest.raises(ColumnsError, match=rf"which column is y\? .*--columns 'y={second}'"):
        columns(f"id,time,x,{second}")
    assert columns(f"id,time,x,{second}", {"y": second})["y"] == second
    assert not columns(f"id,time,x,{second}", {"y": None})["y"]


def test_one_coordinate_alone_is_read(read):
    assert read("id,time,x,mass\n1,0,1,2\n1,1,2,2\n").n_dim == 1


def test_a_flat_z_that_was_guessed_is_left_out(read):
    found = read("ID,t,X,Y,Z\n1,0,1,2,0\n1,1,2,2,0\n")
    assert found.n_dim == 2
    assert "z is constant" in notes(found)


# One trajectory.


def test_one_track_needs_no_id(read):
    found = read("t,x,y\n0,1,2\n1,2,3\n", "walk.csv")
    assert found.ids.tolist() == ["walk"]
    assert "all rows are one trajectory" in notes(found)


@pytest.mark.parametrize("ids", ["aabb", "1122"])
def test_rows_of_several_tracks_are_not_taken_for_one(read, ids):
    rows = "".join(f"{fish},{i},{i},1\n" for i, fish in enumerate(ids))
    with pytest.raises(ColumnsError, match="column 'fish' has constant values in blocks"):
        read("fish,t,x,y\n" + rows)
    with pytest.raises(ColumnsError, match="times do not always increase"):
        read("fish,t,x,y\na,0,1,1\nb,0,1,1\n")
    assert read("fish,t,x,y\n" + rows, columns={"id": None}).n_trajectories == 1


def test_other_columns_do_not_make_ids(read):
    rows = "".join(f"{i},{i},1,{i % 2},{i * 0.5},gps\n" for i in range(6))
    assert read("t,x,y,flag,mass,sensor\n" + rows).n_trajectories == 1


# Cells.


@pytest.mark.parametrize("separator", [";", "\t"])
def test_decimal_commas(read, separator):
    text = "id,time,x,y\n1,0,1.5,2\n1,1,-2.25,3\n"
    mine = text.replace(",", separator).replace(".", ",")
    found = read(mine)
    assert found.fingerprint == read(text).fingerprint
    assert "decimal commas" in notes(found)
    with pytest.raises(
        DriftbayesError, match=r"line 3: column 'x' holds '-2\.25', expected a number with"
    ):
        read(mine.replace("-2,25", "-2.25"))


@pytest.mark.parametrize(
    ("first", "second", "seconds", "written"),
    [
        ("17/05/2024 12:00", "18/05/2024 12:00:30", 86430, "day/month/year"),
        ("05/17/2024 1:30 PM", "05/18/2024 1:30 AM", 43200, "month/day/year"),
        ("17.05.2024", "18.05.2024", 86400, "day/month/year"),
        ("2.3.2024", "3.3.2024", 86400, "day/month/year"),
        ("2024/05/17 12:00", "2024/05/17 12:01", 60, ""),
        ("17-May-2024 12:00:00", "17-May-2024 12:00:00.5", 0.5, ""),
        ("28/02/2024", "1/03/2024", 2 * 86400, "day/month/year"),
    ],
)
def test_dates_as_people_write_them(read, first, second, seconds, written):
    found = read(f"id,time,x,y\n1,{first},1,1\n1,{second},2,2\n")
    assert_allclose(np.diff(found.times), seconds)
    assert found.time_unit == "s"
    assert (f"dates are read as {written}" in notes(found)) == bool(written)


def test_the_whole_column_decides_on_day_and_month(read):
    found = read("id,time,x,y\n1,1/5/2024,1,1\n1,2/5/2024,2,2\n1,13/5/2024,2,2\n")
    assert_array_equal(np.diff(found.times), [86400, 11 * 86400])


def test_an_order_that_cannot_be_told_is_asked_for(read):
    text = "id,time,x,y\n1,1/5/2024,1,1\n1,2/7/2024,2,2\n"
    with pytest.raises(DriftbayesError, match=r"column 'time' .* pass --date-order dmy or"):
        read(text)
    assert_array_equal(np.diff(read(text, date_order="dmy").times), 62 * 86400)
    assert_array_equal(np.diff(read(text, date_order="mdy").times), 33 * 86400)
    with pytest.raises(DriftbayesError, match="mixes day/month/year and month/day/year"):
        read("id,time,x,y\n1,13/5/2024,1,1\n1,2/26/2024,2,2\n")
    with pytest.raises(DriftbayesError, match="date_order must be 'dmy' or 'mdy'"):
        read(text, date_order="ymd")


@pytest.mark.parametrize("bad", ["31/02/2024", "17/05/24", "17/05/2024 25:00"])
def test_a_date_that_does_not_exist_has_its_line(read, bad):
    with pytest.raises(DriftbayesError, match=rf"line 3: column 'time' holds '{bad}'"):
        read(f"id,time,x,y\n1,17/05/2024,1,1\n1,{bad},2,2\n")


@pytest.mark.parametrize(
    ("header", "first", "second"),
    [
        ("date,hour", "2024-05-17,23", "2024-05-18,0"),
        ("date,time", "2024-05-17,23:00:00", "2024-05-18,0:00"),
        ("Date,Hour", "17/05/2024,23.0", "18/05/2024,0"),
        ("date,time of day", "2024-05-17,11:00 PM", "2024-05-18,12:00 AM"),
    ],
)
def test_a_date_and_a_time_of_day(read, header, first, second):
    found = read(f"id,{header},x,y\n1,{first},1,1\n1,{second},2,2\n")
    assert_array_equal(np.diff(found.times), [3600])
    names = header.split(",")
    assert f"time = {names[0]} + {names[1]}" in found.provenance["guessed"]
    told = read(
        f"id,{header},x,y\n1,{first},1,1\n1,{second},2,2\n", columns={"time": "+".join(names)}
    )
    assert told.fingerprint == found.fingerprint


def test_numbers_beside_a_date_are_not_taken_for_hours(read):
    text = "id,date,time,x,y\n1,2024-05-17,3,1,1\n1,2024-05-17,5,2,2\n"
    with pytest.raises(
        DriftbayesError, match="column 'time' holds numbers beside a column of dates"
    ):
        read(text)
    assert_array_equal(np.diff(read(text, columns={"time": "time"}).times), [2])


def test_shuffled_rows_are_sorted_and_it_is_said(read):
    found = read("id,time,x,y\n1,2,3,3\n2,0,9,9\n1,0,1,1\n1,1,2,2\n")
    assert_array_equal(found.positions[:, 0], [1, 2, 3, 9])
    assert "were sorted" in notes(found)
    with pytest.raises(DriftbayesError, match="duplicate times"):
        read("id,time,x,y\n1,2,3,3\n1,0,1,1\n1,2,2,2\n")


# Fill values.


@pytest.mark.parametrize("fill", ["-9999", "999", "1e35", "-999.99", "9.96921e+36"])
def test_fill_values_are_named_with_their_line_and_left_out(read, fill):
    with pytest.warns(DataWarning, match=r"1 position is a fill value \(the first .* at line 4\)"):
        found = read(f"id,time,x,y\n1,0,3,3\n\n1,1,{fill},{fill}\n1,2,5,5\n")
    assert_array_equal(found.positions[:, 0], [3, np.nan, 5])
    with pytest.warns(DataWarning, match="fill value"):
        one_axis = read(f"id,time,x,y\n1,0,3,3\n1,1,4,{fill}\n1,2,5,5\n")
    assert_array_equal(one_axis.observed, [True, False, True])


def test_numbers_among_others_are_data(read):
    for values in ([0, 500, 999, 1500], [998, 999, 1000]):
        rows = "".join(f"1,{i},{x},{x}\n" for i, x in enumerate(values))
        assert read("id,time,x,y\n" + rows).observed.all()
    text = "id,time,x,y\n1,0,3,3\n1,1,-9999,4\n1,2,5,5\n"
    assert read(text, missing=()).observed.all()
    with pytest.warns(DataWarning, match="fill value"):
        assert not read(text).observed.all()


# Drogues.


@pytest.mark.parametrize("values", ["1 1 0", "true True FALSE", "yes yes no", "1.0 1 0"])
@pytest.mark.parametrize("name", ["drogued", "drogue_status"])
def test_a_column_of_drogues_is_the_flag_that_qc_uses(read, values, name, tmp_path):
    rows = "".join(f"1,{i},{i},{i},{v}\n" for i, v in enumerate(values.split()))
    found = read(f"id,time,x,y,{name}\n{rows}")
    assert_array_equal(found.flags["drogued"], [1, 1, 0])
    expected = f"1 of 3 positions have no drogue (column {name!r}); exclude them with --qc drogued"
    assert expected in notes(found)
    assert db.read(tmp_path / "t.csv", qc="drogued").n_positions.tolist() == [2]


def test_a_column_of_drogues_that_is_something_else_is_not_used(read):
    found = read("id,time,x,y,drogue\n1,0,1,1,3\n1,1,2,2,7\n")
    assert not found.flags
    assert "drogue status not used" in notes(found)


# In blocks, on the command line, and in `info`.


def test_a_file_in_blocks_is_read_alike(tmp_path):
    rng = np.random.default_rng(0)
    walks = rng.normal(size=(8, 50, 2)).cumsum(axis=1)
    rows = [
        f"{i};{1 + j % 28}/{1 + j // 28}/2024;{x:.4f};{y:.4f}".replace(".", ",")
        for i, walk in enumerate(walks)
        for j, (x, y) in enumerate(walk)
    ]
    file = tmp_path / "t.csv"
    file.write_text("\n".join(["Track ID;Date;x_km;y_km", *rows]))
    options = {"scales": db.Scales(1e-5, 1e5)}
    blocks = db.read(file, blocks=db.Blocks(points=100))
    whole = db.read(file)
    assert whole.length_unit == "km"
    # The days of January are followed by those of February, three days later.
    expected = whole.scan([86400.0], **options).comparisons[0].log_bayes_factors
    found = (
        blocks.scan([86400.0], **options)
        if hasattr(blocks, "scan")
        else db.scan(blocks, [86400.0], **options)
    )
    for pair, value in expected.items():
        assert_allclose(found.comparisons[0].log_bayes_factors[pair], value, rtol=1e-6)


def test_info_names_what_was_guessed(tmp_path, capsys):
    file = tmp_path / "t.csv"
    file.write_text("ID,time_s,x_um,y_um\n" + "".join(f"1,{i},{i},{i**2}\n" for i in range(9)))
    assert main(["info", str(file)]) == 0
    out = capsys.readouterr().out
    assert "columns" in out
    assert "x = x_um (µm)" in out
    assert main(["diagnose", str(file)]) == 0
    assert "columns: id = ID, time = time_s (s)" in capsys.readouterr().err
