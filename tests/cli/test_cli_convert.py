"""`driftbayes convert` and `--units`: any format in, ours out, nothing lost on the way."""

import pytest
from numpy.testing import assert_allclose

from driftbayes.io import read_trajectories

TRACKPY = "particle,frame,x,y,ep\n4,0,1,2,.1\n7,0,5,6,.2\n4,1,2,3,.1\n7,1,6,7,.2\n"
SCALE = ("--pixel-size", "0.16um", "--frame-interval", "7.48ms")


@pytest.fixture
def trackpy(tmp_path):
    (tmp_path / "spots.csv").write_text(TRACKPY)
    return tmp_path / "spots.csv"


@pytest.mark.parametrize("suffix", [".parquet", ".nc", ".csv", ".csv.gz"])
def test_what_is_written_is_what_was_read(ask, trackpy, tmp_path, suffix):
    out = tmp_path / f"out{suffix}"
    answer = ask("convert", trackpy, out, *SCALE)
    assert answer.code == 0, answer.err
    assert answer.out.startswith(f"wrote {out}: 2 trajectories in 2D, 4 points")
    assert "length unit µm, time unit ms" in answer.out
    told = {"length_unit": "µm", "time_unit": "ms"} if "csv" in suffix else {}
    expected = read_trajectories(trackpy, pixel_size=(0.16, "um"), frame_interval=(7.48, "ms"))
    found = read_trajectories(out, **told)
    assert found.fingerprint == expected.fingerprint
    assert found.ids.tolist() == expected.ids.tolist()
    assert ("CSV does not store units" in answer.err) == ("csv" in suffix)


def test_the_output_is_named_as_in_every_command(ask, trackpy, tmp_path):
    for words in (("-o", tmp_path / "a.nc", trackpy), (trackpy, "--output", tmp_path / "b.nc")):
        answer = ask("convert", *words, *SCALE)
        assert answer.code == 0, answer.err
    a, b = (read_trajectories(tmp_path / name) for name in ("a.nc", "b.nc"))
    assert a.fingerprint == b.fingerprint
    assert ask("convert", trackpy).code == 2
    assert "the following arguments are required: -o/--output" in ask("convert", trackpy).err


def test_none_of_several_files_is_written_over(ask, tmp_path):
    files = [tmp_path / f"{name}.csv" for name in "ab"]
    for file in files:
        file.write_text("id,time,x,y\n1,0,1,1\n1,1,2,2\n")
    for words in ((*files, "-o", files[0]), (*files, files[0])):
        answer = ask("convert", *words, "--overwrite")
        assert answer.code == 2
        assert "is an input of this command and is not replaced" in answer.err
    files[0].rename(tmp_path / "a.nc")
    answer = ask("diagnose", tmp_path / "a.nc", files[1], "-o", tmp_path / "a.nc", "--overwrite")
    assert "is an input of this command and is not replaced" in answer.err


def test_units_are_converted_and_recorded(ask, trackpy, tmp_path):
    out = tmp_path / "out.parquet"
    assert ask("convert", trackpy, out, *SCALE, "--units", "nm,s").code == 0
    found = read_trajectories(out)
    assert (found.length_unit, found.time_unit) == ("nm", "s")
    assert_allclose(found.positions[0], [160, 320])
    assert_allclose(found.times, [0, 7.48e-3, 0, 7.48e-3])
    assert_allclose(found.position_sd, [16, 16, 32, 32])
    assert found.provenance["units"] == {"length": ["µm", "nm"], "time": ["ms", "s"]}
    # There and back: the same up to rounding.
    back = tmp_path / "back.parquet"
    assert ask("convert", out, back, "--units", "µm,ms").code == 0
    assert_allclose(read_trajectories(back).positions, read_trajectories(out).positions / 1000)


def test_a_unit_may_stay_as_it_is(ask, tracks_csv):
    found = ask("info", tracks_csv, "--time-unit", "h", "--units", ",d", "--json").json
    assert (found["length_unit"], found["time_unit"]) == (None, "d")
    assert_allclose(found["time_max"], 1 / 24)
    assert found["provenance"]["units"] == {"time": ["h", "d"]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--units", "km"), "units must be one of length and one of time"),
        (
            ("--units", "km,d"),
            "cannot convert length to km, since its unit is 'px'; pass pixel_size (--pixel-size)",
        ),
        (
            ("--units", ",d"),
            "cannot convert time to d, since its unit is 'frame'; pass frame_interval",
        ),
        ((*SCALE, "--units", "ell,d"), "'ell' is not a known unit of length"),
    ],
)
def test_units_that_cannot_be_converted_are_refused(ask, trackpy, tmp_path, options, message):
    answer = ask("convert", trackpy, tmp_path / "o.nc", *options)
    assert answer.code == 2
    assert message in answer.err
    assert not (tmp_path / "o.nc").exists()


def test_a_file_is_replaced_only_when_told(ask, trackpy, tmp_path):
    out = tmp_path / "out.csv"
    out.write_text("mine")
    answer = ask("convert", trackpy, out)
    assert (answer.code, out.read_text()) == (2, "mine")
    assert "already exists; pass --overwrite" in answer.err
    assert ask("convert", trackpy, out, "--overwrite").code == 0
    assert out.read_text().startswith('"id"') or out.read_text().startswith("id,")
    answer = ask("convert", trackpy, trackpy, "--overwrite")
    assert "is an input of this command and is not replaced" in answer.err
    assert trackpy.read_text() == TRACKPY


def test_an_unknown_suffix_is_refused(ask, trackpy, tmp_path):
    answer = ask("convert", trackpy, tmp_path / "out.xlsx")
    assert answer.code == 2
    assert "unknown format: expected a name ending in" in answer.err
