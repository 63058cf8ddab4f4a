"""MATLAB files of both generations: jLab's cells, trackers' arrays, and files that mean harm."""

import struct
import zlib
from contextlib import suppress

import h5py
import numpy as np
import pytest
import scipy.io
from numpy.testing import assert_allclose, assert_array_equal

import driftbayes as db
from driftbayes.errors import DriftbayesError
from driftbayes.io import _limits as limits
from driftbayes.io import read_trajectories

WALKS = np.random.default_rng(0).normal(size=(3, 20, 2)).cumsum(axis=1)
# 0:00 on 1 January 2020 is day 737791 of MATLAB.
DAYS = 737791 + np.arange(20) / 4
TABLE = np.concatenate(
    [
        np.column_stack([w, np.full(20, 9.0), np.arange(20), np.full(20, i + 1)])
        for i, w in enumerate(WALKS)
    ]
)


def cells(parts):
    made = np.empty((len(parts), 1), dtype=object)
    for i, part in enumerate(parts):
        made[i, 0] = np.asarray(part).reshape(-1, 1) if np.ndim(part) == 1 else part
    return made


JLAB = {
    "lon": [10 + w[:, 0] / 100 for w in WALKS],
    "lat": [50 + w[:, 1] / 100 for w in WALKS],
    "num": [DAYS] * 3,
}


def save_73(path, variables):
    """Write HDF5 as MATLAB does: transposed, cells as references, 512 bytes before it."""

    def put(group, name, value):
        if isinstance(value, dict):
            inner = group.create_group(name)
            for key, field in value.items():
                put(inner, key, field)
        elif isinstance(value, list):
            refs = []
            for i, part in enumerate(value):
                stored = file.require_group("#refs#")
                place = f"{name}{i}{len(stored)}"
                stored.create_dataset(place, data=np.atleast_2d(np.asarray(part, dtype=float)))
                refs.append(stored[place].ref)
            group.create_dataset(name, data=np.array([refs], dtype=h5py.ref_dtype))
        else:
            group.create_dataset(name, data=np.atleast_2d(value).T, compression="gzip")

    with h5py.File(path, "w", userblock_size=512) as file:
        for name, value in variables.items():
            put(file, name, value)
    with path.open("r+b") as stream:
        stream.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\0\2IM")
    return path


def save(path, variables, **options):
    as_cells = {n: cells(v) if isinstance(v, list) else v for n, v in variables.items()}
    scipy.io.savemat(path, as_cells, **options)
    return path


def notes(tracks):
    return " | ".join(tracks.provenance.get("notes", []))


@pytest.mark.parametrize("writer", [save, save_73])
def test_jlab_cells_of_degrees_and_days(tmp_path, writer):
    found = read_trajectories(writer(tmp_path / "floats.mat", JLAB))
    assert found.n_trajectories == 3
    assert found.times[0] == np.datetime64("2020-01-01").astype("datetime64[s]").astype(int)
    assert_allclose(np.diff(found.times[:20]), 21600)
    assert_allclose(found.lonlat[:20, 0], JLAB["lon"][0], rtol=1e-15)
    assert (found.length_unit, found.time_unit) == ("m", "s")
    assert "MATLAB date numbers" in notes(found)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_struct_of_cells_with_an_id_for_each(tmp_path, compressed):
    variables = {n: cells(v) for n, v in JLAB.items()} | {"id": np.array([[7], [8], [9]])}
    file = tmp_path / "floats.mat"
    scipy.io.savemat(file, {"floats": variables}, do_compression=compressed)
    found = read_trajectories(file)
    assert found.ids.tolist() == [7, 8, 9]
    newer = save_73(tmp_path / "newer.mat", {"floats": {**JLAB, "id": np.array([7.0, 8, 9])}})
    assert read_trajectories(newer).fingerprint == found.fingerprint
    assert read_trajectories(newer).ids.tolist() == [7, 8, 9]


@pytest.mark.parametrize("writer", [save, save_73])
def test_the_array_of_crocker_and_grier(tmp_path, writer):
    found = read_trajectories(writer(tmp_path / "a.mat", {"tr": TABLE}), length_unit="px")
    assert found.ids.tolist() == [1, 2, 3]
    assert_array_equal(found.positions, WALKS.reshape(-1, 2))
    assert_array_equal(found.times[:20], np.arange(20))
    assert "taken as x, y, 1 not read, t, id" in notes(found)


def test_an_array_whose_last_columns_are_no_time_and_id_is_refused(tmp_path):
    with pytest.raises(DriftbayesError, match="the last two of 5 columns of 'tr' are not frame"):
        read_trajectories(save(tmp_path / "a.mat", {"tr": TABLE[:, ::-1]}))


@pytest.mark.parametrize("writer", [save, save_73])
def test_vectors_and_matrices(tmp_path, writer):
    flat = WALKS.reshape(-1, 2)
    long = {"x": flat[:, 0], "y": flat[:, 1], "t": TABLE[:, 3], "trackID": TABLE[:, 4], "dt": 0.1}
    found = read_trajectories(writer(tmp_path / "long.mat", long))
    assert_array_equal(found.positions, flat)
    assert found.ids.tolist() == [1, 2, 3]
    grid = {"x": WALKS[..., 0], "y": WALKS[..., 1], "t": np.arange(20.0)}
    assert read_trajectories(writer(tmp_path / "a.mat", grid)).fingerprint == found.fingerprint
    grid = {"x": WALKS[..., 0].T, "y": WALKS[..., 1].T, "t": np.arange(20.0)}
    assert read_trajectories(writer(tmp_path / "b.mat", grid)).fingerprint == found.fingerprint
    one = {"x_um": flat[:20, 0], "y_um": flat[:20, 1], "time_s": np.arange(20.0)}
    alone = read_trajectories(writer(tmp_path / "walk.mat", one))
    assert alone.ids.tolist() == ["walk"]
    assert (alone.length_unit, alone.time_unit) == ("µm", "s")


def test_an_array_of_structs_and_cells_of_matrices(tmp_path):
    structs = np.zeros(3, dtype=[("x", object), ("y", object), ("t", object)])
    tables = []
    for i, walk in enumerate(WALKS):
        structs[i] = (walk[:, 0], walk[:, 1], np.arange(20) * 0.5)
        tables.append(np.column_stack([np.arange(20) * 0.5, walk]))
    scipy.io.savemat(tmp_path / "a.mat", {"tracks": structs})
    found = read_trajectories(tmp_path / "a.mat")
    assert_array_equal(found.positions, WALKS.reshape(-1, 2))
    same = read_trajectories(save(tmp_path / "b.mat", {"tracks": tables}))
    assert same.fingerprint == found.fingerprint
    assert "taken as t, x, y" in notes(same)


def test_u_track(tmp_path):
    fields = ("tracksFeatIndxCG", "tracksCoordAmpCG", "seqOfEvents")
    made = np.zeros(2, dtype=[(name, object) for name in fields])
    for i in range(2):
        rows = np.zeros((1, 20, 8))
        rows[0, :, :2], rows[0, :, 4:6] = WALKS[i], 0.1
        rows[0, 5] = np.nan
        made[i] = (np.ones((1, 20)), rows.reshape(1, -1), np.array([[3, 1, 1, np.nan]]))
    scipy.io.savemat(tmp_path / "a.mat", {"tracksFinal": made})
    found = db.read(tmp_path / "a.mat", pixel_size="0.1um", frame_interval="20ms")
    assert_allclose(found.positions[:5], WALKS[0, :5] * 0.1)
    assert_allclose(found.times[4:6], [20.0 * 7, 20.0 * 9])
    assert_allclose(found.position_sd, 0.01)
    assert found.ids.tolist() == ["0", "1"] or found.ids.tolist() == [0, 1]


def test_a_coordinate_of_another_length_is_not_lost(tmp_path):
    short = {**JLAB, "lat": [part[:-1] for part in JLAB["lat"]]}
    with pytest.raises(DriftbayesError, match="'lat' differs in length from the other variables"):
        read_trajectories(save(tmp_path / "a.mat", short))
    vectors = {"x": np.arange(5.0), "t": np.arange(5.0), "y": np.arange(4.0)}
    with pytest.raises(DriftbayesError, match="'y' differs in length"):
        read_trajectories(save(tmp_path / "b.mat", vectors))


def test_a_file_of_other_things_is_refused(tmp_path):
    with pytest.raises(DriftbayesError, match="has an unknown layout"):
        read_trajectories(save(tmp_path / "a.mat", {"name": "hello", "k": 3.0}))
    (tmp_path / "b.mat").write_bytes(b"\0" * 200)
    with pytest.raises(DriftbayesError, match="not a MATLAB file of version 5"):
        read_trajectories(tmp_path / "b.mat")


# Harm.


def element(kind, payload):
    return struct.pack("<II", kind, len(payload)) + payload + b"\0" * (-len(payload) % 8)


def matrix(kind, *inner):
    flags = element(6, struct.pack("<II", kind, 0))
    return element(
        14, flags + element(5, struct.pack("<ii", 1, 1)) + element(1, b"x") + b"".join(inner)
    )


HEAD = b"MATLAB 5.0 MAT-file".ljust(124) + b"\0\1IM"


def test_cells_nested_without_end_are_refused(tmp_path):
    inner = matrix(1)
    for _ in range(3000):
        inner = matrix(1, inner)
    for name, data in (("a.mat", inner), ("b.mat", element(15, zlib.compress(inner)))):
        (tmp_path / name).write_bytes(HEAD + data)
        with pytest.raises(DriftbayesError, match="nested more than 8 levels deep"):
            read_trajectories(tmp_path / name)


def test_what_inflates_beyond_the_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv(limits.MEMORY_VARIABLE, "100MB")
    bomb = zlib.compress(matrix(6, element(9, b"\0" * 40_000_000)))
    (tmp_path / "a.mat").write_bytes(HEAD + element(15, bomb))
    with pytest.raises(DriftbayesError, match=limits.MEMORY_VARIABLE):
        read_trajectories(tmp_path / "a.mat")


def test_a_cell_that_holds_itself_is_refused(tmp_path):
    file = tmp_path / "a.mat"
    with h5py.File(file, "w") as hdf5:
        made = hdf5.create_dataset("lon", (1, 1), dtype=h5py.ref_dtype)
        made[0, 0] = made.ref
    with pytest.raises(DriftbayesError, match="nested more than 8 levels deep"):
        read_trajectories(file)


def test_a_variable_in_another_file_is_refused(tmp_path):
    with h5py.File(tmp_path / "b.mat", "w") as hdf5:
        hdf5["x"] = np.arange(5.0)
    with h5py.File(tmp_path / "a.mat", "w") as hdf5:
        hdf5.create_group("s")["x"] = h5py.ExternalLink(str(tmp_path / "b.mat"), "x")
    with pytest.raises(DriftbayesError, match="is stored in another file"):
        read_trajectories(tmp_path / "a.mat")


@pytest.mark.filterwarnings("ignore::driftbayes.errors.DriftbayesWarning")
@pytest.mark.parametrize("writer", [save, save_73])
def test_damaged_files_are_read_or_refused(tmp_path, writer):
    whole = writer(tmp_path / "a.mat", {"tr": TABLE, **JLAB}).read_bytes()
    rng = np.random.default_rng(1)
    for case in range(60):
        data = bytearray(whole[: rng.integers(len(whole))] if case % 3 == 0 else whole)
        for place in rng.integers(len(data), size=4) if len(data) else ():
            data[place] = rng.integers(256)
        (tmp_path / "b.mat").write_bytes(bytes(data) or b"M")
        with suppress(DriftbayesError):
            read_trajectories(tmp_path / "b.mat")
