"""Tables of other programs: their names, their units, what they leave out and what they mean."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from driftbayes.errors import DriftbayesError
from driftbayes.io import read_trajectories

TRACKPY = "particle,frame,x,y,ep\n4,0,1,2,.1\n7,0,5,6,.2\n4,1,2,3,.1\n7,2,6,7,.2\n"
SFI = "# sfi:\n#   dt: 0.25\n# units: none\nparticle_id,time_step,x0,x1\n0,0,1,2\n0,1,3,4\n"
TRACKMATE = (
    "LABEL,ID,TRACK_ID,QUALITY,POSITION_X,POSITION_Y,POSITION_Z,POSITION_T,FRAME\n"
    "Label,Spot ID,Track ID,Quality,X,Y,Z,T,Frame\n"
    "Label,Spot ID,Track ID,Quality,X,Y,Z,T,Frame\n"
    ",,,(quality),(micron),(micron),(micron),(sec),\n"
    "a,1,0,9,1.5,2.5,0.0,0.1,1\n"
    "b,2,0,9,1.0,2.0,0.0,0.0,0\n"
    "c,3,,9,8.0,8.0,0.0,0.0,0\n"
    "d,4,1,9,3.0,4.0,0.0,0.0,0\n"
)


@pytest.fixture
def read(tmp_path):
    def from_text(text, name="t.csv", **options):
        (tmp_path / name).write_text(text)
        return read_trajectories(tmp_path / name, **options)

    return from_text


def notes(tracks):
    return " | ".join(tracks.provenance.get("notes", []))


def test_trackpy_counts_in_pixels_and_frames(read):
    found = read(TRACKPY)
    assert (found.length_unit, found.time_unit) == ("px", "frame")
    assert "positions are in pixels" in notes(found)
    assert "times are in frames" in notes(found)
    assert found.ids.tolist() == [4, 7]
    assert_array_equal(found.positions, [[1, 2], [2, 3], [5, 6], [6, 7]])
    assert_array_equal(found.position_sd, [0.1, 0.1, 0.2, 0.2])
    assert found.provenance["reader"] == "trackpy"


def test_pixels_and_frames_become_lengths_and_times(read):
    found = read(TRACKPY, pixel_size=(0.5, "um"), frame_interval=(10.0, "ms"))
    assert (found.length_unit, found.time_unit) == ("µm", "ms")
    assert_allclose(found.positions[1], [1.0, 1.5])
    assert_allclose(found.times, [0, 10, 0, 20])
    assert_allclose(found.position_sd, [0.05, 0.05, 0.1, 0.1])
    assert "pixel" not in notes(found)


def test_trackpy_in_parquet_is_the_same(read, tmp_path):
    (tmp_path / "a.csv").write_text(TRACKPY)
    pd.read_csv(tmp_path / "a.csv").to_parquet(tmp_path / "a.parquet")
    found = read_trajectories(tmp_path / "a.parquet")
    assert found.fingerprint == read(TRACKPY).fingerprint
    assert found.provenance["reader"] == "trackpy"


def test_an_index_of_the_same_name_is_no_obstacle(read):
    found = read("frame,x,y,frame,particle\n0,1,2,0,4\n1,2,3,1,4\n")
    assert_array_equal(found.times, [0, 1])


@pytest.mark.parametrize("bad", ["nan", "", "-1"])
def test_an_unknown_error_is_set_to_the_median_of_the_others(read, bad):
    found = read(f"particle,frame,x,y,ep\n1,0,1,1,.1\n1,1,1,2,{bad}\n1,2,1,1,.3\n1,3,1,1,.2\n")
    assert_allclose(found.position_sd, [0.1, 0.2, 0.3, 0.2])
    assert "1 of 4 measurement errors are missing or negative" in notes(found)


def test_errors_of_which_none_is_known_are_ignored(read):
    found = read("particle,frame,x,y,ep\n1,0,1,1,-1\n1,1,1,2,nan\n")
    assert found.position_sd is None
    assert "all measurement errors are missing" in notes(found)


def test_columns_that_are_named_replace_those_of_the_program(read):
    text = "particle,frame,x,y,t_s\n1,0,1,1,0.5\n1,1,1,2,0.75\n"
    found = read(text, columns={"time": "t_s"}, time_unit="s")
    assert_array_equal(found.times, [0.5, 0.75])
    assert found.time_unit == "s"
    assert "frames" not in notes(found)


def test_rows_are_sorted_by_time_and_doubled_ones_refused(read):
    found = read("particle,frame,x,y\n1,2,3,3\n1,0,1,1\n1,1,2,2\n")
    assert_array_equal(found.positions[:, 0], [1, 2, 3])
    assert "were sorted" in notes(found)
    with pytest.raises(DriftbayesError, match=r"duplicate times: trajectory '1' has time 0 twice"):
        read("particle,frame,x,y\n1,0,3,3\n1,1,2,2\n1,0,1,1\n")


def test_a_bad_cell_has_its_line(read):
    with pytest.raises(DriftbayesError, match=r"'t\.csv' line 3: column 'y' holds 'abc'"):
        read("particle,frame,x,y\n1,0,3,3\n1,1,2,abc\n")
    with pytest.raises(DriftbayesError, match=r"line 3 has 3 cells where the header has 4"):
        read("particle,frame,x,y\n1,0,3,3\n1,1,2\n")
    with pytest.raises(DriftbayesError, match=r"line 3: column 'frame' is empty; every row needs"):
        read("particle,frame,x,y\n1,0,3,3\n1,,2,3\n")


def test_blank_lines_before_the_header_are_passed_over(read):
    assert_array_equal(
        read("\n\nparticle,frame,x,y\n1,0,3,4\n1,1,2,3\n").positions, [[3, 4], [2, 3]]
    )


def test_saspt_numbers_anew_in_each_region(read):
    text = (
        "region,trajectory,frame,x_px,y_px,x_err_px,y_err_px,error_flag\n"
        "0,5,0,1,1,.3,.4,0\n1,5,0,2,2,.3,.4,1\n0,5,1,3,3,.3,.4,0\n1,5,1,4,4,.3,.4,0\n"
    )
    found = read(text)
    assert found.ids.tolist() == ["0/5", "1/5"]
    assert_array_equal(found.positions[:, 0], [1, 3, 2, 4])
    # Root mean square of 0.3 and 0.4.
    assert_allclose(found.position_sd, np.sqrt(0.125))
    assert "1 of 4 positions have an error_flag" in notes(found)
    assert read("y,x,frame,trajectory\n1,2,0,0\n1,3,1,0\n").ids.tolist() == [0]


def test_andi_is_known_by_its_names(read):
    found = read("traj_idx,frame,x,y\n0.0,0.0,1,2\n0.0,1.0,2,3\n1.0,0.0,1,1\n")
    assert found.ids.tolist() == [0, 1]
    assert found.provenance["reader"] == "andi"


def test_sfi_takes_the_interval_from_its_header(read):
    found = read(SFI)
    assert_array_equal(found.times, [0, 0.25])
    assert_array_equal(found.positions, [[1, 2], [3, 4]])
    assert "dt = 0.25" in notes(found)
    without = read(SFI.replace("dt: 0.25", "name: a"))
    assert without.time_unit == "frame"
    assert_array_equal(without.times, [0, 1])
    with pytest.raises(DriftbayesError, match="more than three coordinates"):
        read("particle_id,time_step,x0,x1,x2,x3\n0,0,1,2,3,4\n")


def test_evalspt_with_a_header_and_without(read):
    text = "x\ty\tt\tid\n1\t2\t0\t3\n2\t3\t0.5\t3\n"
    found = read(text, "t.txt")
    assert found.ids.tolist() == [3]
    assert found.provenance["reader"] == "evalspt"
    bare = read(text.partition("\n")[2], "t.txt", format="evalspt")
    assert bare.fingerprint == found.fingerprint


def test_trackmate_reads_units_and_leaves_out_unlinked_spots(read):
    found = read(TRACKMATE)
    assert (found.length_unit, found.time_unit) == ("µm", "s")
    assert found.ids.tolist() == [0, 1]
    assert_array_equal(found.positions, [[1, 2], [1.5, 2.5], [3, 4]])
    assert "1 of 4 rows belong to no track" in notes(found)
    assert "z is constant" in notes(found)
    with pytest.raises(DriftbayesError, match="positions are in µm, not in pixels"):
        read(TRACKMATE, pixel_size=(0.1, "um"))


@pytest.mark.parametrize("kept", [[0], [0, 1], [0, 3], [0, 1, 3]])
def test_trackmate_header_rows_may_be_absent(read, kept):
    lines = TRACKMATE.splitlines()
    text = "\n".join([*(lines[i] for i in kept), *lines[4:]]) + "\n"
    found = read(text)
    assert_array_equal(found.positions, [[1, 2], [1.5, 2.5], [3, 4]])
    assert found.length_unit == ("µm" if 3 in kept else "")


def test_trackmate_keeps_a_depth_that_varies(read):
    assert read(TRACKMATE.replace("2.5,0.0", "2.5,1.0")).n_dim == 3


def test_a_table_of_unlinked_spots_is_refused(read):
    with pytest.raises(DriftbayesError, match="no row belongs to a track"):
        read("TRACK_ID,POSITION_X,POSITION_Y,POSITION_T\n,1,2,0\n,2,3,1\n")


def test_myptv_is_read_by_name_only(read):
    text = "0\t1\t2\t3\t7\t8\t0.1\t0\n0\t2\t3\t4\t7\t8\t0.1\t1\n-1\t9\t9\t9\t7\t8\t0.1\t0\n"
    found = read(text, "trajectories", format="myptv")
    assert_array_equal(found.positions, [[1, 2, 3], [2, 3, 4]])
    assert (found.length_unit, found.time_unit) == ("mm", "frame")
    assert "1 of 3 rows belong to no track" in notes(found)
    row = "\t".join(["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"])
    smooth = read(f"{row}\t0\n{row}\t1\n", "smoothed", format="myptv-smoothed")
    assert "smoothed product" in notes(smooth)
    with pytest.raises(DriftbayesError, match="has 8 columns, expected those of MyPTV"):
        read(text, "trajectories", format="myptv-smoothed")


GDP = (
    " 44000  2005-01-02 00:00:00  26.0  -88.0  999.999  0.1  0.2  0.3  1e-4 1e-4 1000.0\n"
    " 44000  2005-01-02 06:00:00  26.1  -88.0  999.999  0.1  0.2  0.3  1e-4 1e-4 1000.0\n"
    " 44000  2005-01-02 12:00:00  999.999  999.999  999.999  0.1  0.2  0.3  1e-4 1e-4 1000.0\n"
)


def test_gdp_text_with_dates_and_with_days_agree(read):
    found = read(GDP, "interpolated.txt")
    assert found.provenance["reader"] == "gdp-text"
    assert_array_equal(np.diff(found.times), [21600, 21600])
    # A tenth of a degree of latitude on the ellipsoid, to a few metres.
    assert abs(found.positions[1, 1] - 11_077) < 5
    assert np.isnan(found.positions[2]).all()
    assert found.time_unit == "s"
    other = GDP.replace("2005-01-02 00:00:00", "1 2.000 2005")
    other = other.replace("2005-01-02 06:00:00", "1 2.250 2005")
    other = other.replace("2005-01-02 12:00:00", "1 2.500 2005").replace("-88.0", "272.0")
    same = read(other, "buoydata.dat")
    assert_array_equal(same.times, found.times)
    assert_allclose(same.positions, found.positions, atol=1e-6)


def test_a_format_that_is_not_the_file_is_refused_in_one_sentence(read):
    with pytest.raises(DriftbayesError, match="is not text of the Global Drifter Program"):
        read(TRACKPY, format="gdp-text")
    with pytest.raises(DriftbayesError, match="csv file, but format 'trackmate-tracks' needs xml"):
        read(TRACKPY, format="trackmate-tracks")
    with pytest.raises(DriftbayesError, match="is a csv file, but format 'numpy' needs npz"):
        read(TRACKPY, format="numpy")
