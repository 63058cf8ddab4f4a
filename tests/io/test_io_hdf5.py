"""Files as HDF5 has them: what other programs write, and what damage and malice make of it."""

import os
import signal
import struct
import subprocess
import sys
import time

import h5netcdf
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal

from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.io import _netcdf_file as netcdf_file
from driftbayes.io import read_scan, read_trajectories, write_trajectories

HUGE = 10**12


@pytest.fixture
def foreign(tmp_path):
    """Write a ragged file of 2 + 1 observations without our help, and read it."""

    def read(change=None, *, without=(), unlimited=False, **options):
        with h5netcdf.File(tmp_path / "t.nc", "w") as file:
            file.dimensions = {"traj": 2, "obs": None if unlimited else 3}
            if unlimited:
                file.resize_dimension("obs", 3)
            values = {
                "rowsize": ("traj", np.array([2, 1])),
                "id": ("traj", np.array([7, 9])),
                "time": ("obs", np.array([0.0, 1.0, 0.0])),
                "x": ("obs", np.array([1.0, 2.0, 3.0])),
            }
            for name, (dimension, data) in values.items():
                if name not in without:
                    file.create_variable(name, (dimension,), data.dtype, data=data)
            if change is not None:
                change(file)
        return read_trajectories(tmp_path / "t.nc", **options)

    return read


def some_tracks(**attributes):
    return Trajectories.from_arrays(np.arange(12.0).reshape(2, 3, 2), dt=0.5, **attributes)


def open_objects():
    return h5py.h5f.get_obj_count(types=h5py.h5f.OBJ_FILE | h5py.h5f.OBJ_DATASET)


def test_ids_lie_in_the_file_as_64_bit_integers_or_as_utf8(tmp_path):
    write_trajectories(some_tracks(ids=[2**63 - 1, -(2**63)]), tmp_path / "t.nc")
    with h5py.File(tmp_path / "t.nc") as file:
        assert file["id"].dtype == np.int64
    assert read_trajectories(tmp_path / "t.nc").ids.tolist() == [2**63 - 1, -(2**63)]
    write_trajectories(some_tracks(ids=["漂流 🌊", "e\u0301"]), tmp_path / "t.nc")
    with h5py.File(tmp_path / "t.nc") as file:
        text = h5py.check_string_dtype(file["id"].dtype)
        assert (text.encoding, text.length) == ("utf-8", None)
    assert read_trajectories(tmp_path / "t.nc").ids.tolist() == ["漂流 🌊", "e\u0301"]


def test_a_fill_value_costs_an_id_no_digit_and_makes_a_position_missing(foreign):
    def change(file):
        file.create_variable("id", ("traj",), "i8", data=[2**62 + 1, 2**62 + 2], fillvalue=-1)
        file.create_variable("x", ("obs",), "i4", data=[5, -99, 7], fillvalue=-99)

    read = foreign(change, without=("id", "x"))
    assert read.ids.tolist() == [2**62 + 1, 2**62 + 2]
    assert_array_equal(read.positions[:, 0], [5, np.nan, 7])


def test_packed_and_compressed_positions_are_unpacked(foreign):
    def change(file):
        x = file.create_variable(
            "x", ("obs",), "i2", data=[1, 2, 3], chunks=(2,), compression="gzip", shuffle=True
        )
        x.attrs["scale_factor"] = 0.5
        x.attrs["add_offset"] = 100.0

    assert_array_equal(foreign(change, without=("x",)).positions[:, 0], [100.5, 101, 101.5])


def test_ids_as_characters_and_as_text_of_fixed_length_are_text(foreign):
    def characters(file):
        file.dimensions["n_char"] = 3
        letters = np.array([[b"a", b"b", b""], [b"c", b"", b""]])
        file.create_variable("id", ("traj", "n_char"), "S1", data=letters)

    assert foreign(characters, without=("id",)).ids.tolist() == ["ab", "c"]

    def fixed(file):
        file.create_variable("id", ("traj",), "S3", data=np.array([b"abc", "é".encode()]))

    assert foreign(fixed, without=("id",)).ids.tolist() == ["abc", "é"]


def test_a_variable_that_is_not_wanted_is_not_read_whatever_it_is(foreign):
    def change(file):
        file.dimensions["far"] = HUGE
        # Called like its dimension, a variable is one that xarray reads when it opens the file.
        for name in ("far", "y", "note"):
            file.create_variable(name, ("far",), "f8", chunks=(10,))

    assert foreign(change, columns={"y": None}).n_dim == 1


@pytest.mark.parametrize(
    "storage", [{}, {"chunks": (10,)}, {"chunks": (10,), "compression": "gzip"}]
)
def test_a_variable_far_larger_than_what_is_stored_is_refused_unread(foreign, storage):
    def change(file):
        file.dimensions["far"] = HUGE
        file.create_variable("x", ("far",), "f8", **storage)

    expected = r"^'t\.nc': variable 'x' is declared to have 8,000,.* bytes, but only 0 are stored; "
    with pytest.raises(DriftbayesError, match=expected):
        foreign(change, without=("x",))


def test_a_dimension_stretched_by_another_variable_is_refused_unread(foreign):
    def change(file):
        file.create_variable("other", ("obs",), "i1", chunks=(10,))
        file._h5file["other"].resize((HUGE,))

    expected = r"^'t\.nc': variable '(time|x)' is declared to have 8,000,.* but only .* are stored"
    with pytest.raises(DriftbayesError, match=expected):
        foreign(change, unlimited=True)


def test_a_chunk_far_larger_than_the_file_is_refused_unread(foreign):
    def change(file):
        file.create_variable("x", ("obs",), "f8", chunks=(2**28,), compression="gzip")

    with pytest.raises(DriftbayesError, match=r"'x' is declared to have 2,147,483,648 bytes, but"):
        foreign(change, without=("x",), unlimited=True)


def test_a_huge_scan_is_refused_unread(tmp_path):
    with h5netcdf.File(tmp_path / "scan.nc", "w") as file:
        file.dimensions = {"tau": HUGE}
        file.create_variable("tau", ("tau",), "f8", chunks=(10,))
    with pytest.raises(DriftbayesError, match=r"'scan\.nc': variable 'tau' is declared to have"):
        read_scan(tmp_path / "scan.nc")


def test_a_parquet_file_of_nearly_nothing_but_rows_is_refused_unread(tmp_path):
    nothing = pa.table({name: pa.nulls(2_000_000, pa.float64()) for name in ("id", "time", "x")})
    with pq.ParquetWriter(tmp_path / "t.parquet", nothing.schema) as writer:
        for _ in range(10):
            writer.write_table(nothing)
    expected = r"^'t\.parquet' is declared to have \d+,000,000 bytes, but only .* are stored"
    with pytest.raises(DriftbayesError, match=expected):
        read_trajectories(tmp_path / "t.parquet")


def test_datasets_of_length_zero_hold_no_trajectories(tmp_path):
    with h5netcdf.File(tmp_path / "t.nc", "w") as file:
        file.dimensions = {"traj": 0, "obs": 0}
        file.create_variable("rowsize", ("traj",), "i8")
        file.create_variable("id", ("traj",), h5py.string_dtype())
        for name in ("time", "x"):
            file.create_variable(name, ("obs",), "f8")
    with pytest.raises(DriftbayesError, match=r"^'t\.nc': there are no trajectories; expected at"):
        read_trajectories(tmp_path / "t.nc")


def test_variables_that_lie_in_another_file_are_not_followed(tmp_path):
    write_trajectories(some_tracks(), tmp_path / "whole.nc")
    (tmp_path / "raw").write_bytes(bytes(48))

    def link(file):
        file["x"] = h5py.ExternalLink("whole.nc", "x")

    def external(file):
        file.create_dataset("x", (6,), "f8", external=[(tmp_path / "raw", 0, 48)])

    def virtual(file):
        layout = h5py.VirtualLayout((6,), "f8")
        layout[:] = h5py.VirtualSource(tmp_path / "whole.nc", "x", (6,))
        file.create_virtual_dataset("x", layout)

    for change in (link, external, virtual):
        with h5py.File(tmp_path / "t.nc", "w") as file:
            change(file)
        with pytest.raises(
            DriftbayesError, match=r"^'t\.nc': variable 'x' is stored in another file"
        ):
            read_trajectories(tmp_path / "t.nc")


def test_a_damaged_file_is_closed_at_once(tmp_path):
    write_trajectories(some_tracks(ids=["a", "b"]), tmp_path / "t.nc")
    data = (tmp_path / "t.nc").read_bytes()
    errors = []
    for place in range(0, len(data), 211):
        damaged = bytearray(data)
        damaged[place] ^= 255
        (tmp_path / "t.nc").write_bytes(damaged)
        try:
            read_trajectories(tmp_path / "t.nc")
        except DriftbayesError as error:
            # Kept, as an error keeps alive what was on its way.
            errors.append(error)
    assert len(errors) > 10
    assert open_objects() == 0


def test_text_on_which_hdf5_would_never_return_is_refused(tmp_path):
    write_trajectories(some_tracks(ids=["a", "b"]), tmp_path / "t.nc")
    data = bytearray((tmp_path / "t.nc").read_bytes())
    heap = data.index(b"GCOL")
    # The first text becomes free space of no length, over which no step leads.
    data[heap + 16 : heap + 32] = bytes(16)
    (tmp_path / "t.nc").write_bytes(data)
    with pytest.raises(DriftbayesError, match=rf"its text is damaged at byte {heap}\); rest"):
        read_trajectories(tmp_path / "t.nc")


def test_the_text_of_an_unchanged_file_is_searched_once(tmp_path, monkeypatch):
    path = tmp_path / "a.nc"
    write_trajectories(some_tracks(), path)
    searched = []
    find = netcdf_file._find_damaged_heap
    monkeypatch.setattr(
        netcdf_file, "_find_damaged_heap", lambda file: searched.append(file) or find(file)
    )
    for age, count in ((0.0, 2), (3600.0, 3)):
        os.utime(path, (time.time() - age,) * 2)
        for _ in range(2):
            read_trajectories(path)
        assert len(searched) == count


def test_a_text_longer_than_the_file_is_refused_unread(tmp_path):
    write_trajectories(some_tracks(ids=["a", "b"]), tmp_path / "t.nc")
    with h5py.File(tmp_path / "t.nc") as file:
        place = file["id"].id.get_offset()
    data = bytearray((tmp_path / "t.nc").read_bytes())
    assert struct.unpack_from("<I", data, place) == (1,)
    struct.pack_into("<I", data, place, 2**32 - 1)
    (tmp_path / "t.nc").write_bytes(data)
    with pytest.raises(DriftbayesError, match=r"'id' has text longer than the file"):
        read_trajectories(tmp_path / "t.nc")


def test_many_texts_of_all_lengths_come_back(tmp_path):
    rng = np.random.default_rng(0)
    ids = [f"{i}{'é' * n}" for i, n in enumerate(rng.integers(0, 90, 3000))]
    tracks = Trajectories.from_arrays(rng.normal(size=(3000, 1, 1)), dt=1.0, ids=ids)
    write_trajectories(tracks, tmp_path / "t.nc")
    assert read_trajectories(tmp_path / "t.nc").ids.tolist() == ids


FILL_THE_DISK = """
import resource, signal, sys
import numpy as np
from driftbayes.errors import DriftbayesError
from driftbayes.io import write_trajectories
from driftbayes.data._trajectories import Trajectories

tracks = Trajectories.from_arrays(np.random.default_rng(0).normal(size=(5, 1000, 2)), dt=1.0)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
for path in sys.argv[1:]:
    try:
        write_trajectories(tracks, path)
    except DriftbayesError as error:
        print(error)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="the system cannot limit a file's size")
def test_a_disk_that_fills_up_costs_neither_the_old_file_nor_the_process(tmp_path):
    names = ["a.csv", "a.csv.gz", "a.parquet", "a.nc"]
    for name in names:
        write_trajectories(some_tracks(), tmp_path / name)
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", FILL_THE_DISK, *names],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    told = "file too large; free some space or choose another place"
    assert result.stdout.splitlines() == [f"cannot write '{name}': {told}" for name in names]
    assert result.stderr == ""
    assert sorted(os.listdir(tmp_path)) == sorted(names)
    for name in names:
        assert read_trajectories(tmp_path / name).n_trajectories == 2
