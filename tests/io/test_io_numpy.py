"""Arrays of NumPy: shapes, names, and files that mean harm."""

import io
import pickle
import zipfile

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from driftbayes.errors import DriftbayesError
from driftbayes.io import read_trajectories

X = np.arange(12.0).reshape(2, 3, 2)
T = np.array([0.0, 0.5, 1.0])


@pytest.fixture
def read(tmp_path):
    def from_arrays(options=None, name="a.npz", **arrays):
        np.savez_compressed(tmp_path / name, **arrays)
        return read_trajectories(tmp_path / name, **(options or {}))

    return from_arrays


def test_one_array_and_one_for_each_axis_are_the_same(read):
    one = read(x=X, t=T)
    assert one.n_trajectories == 2
    assert_array_equal(one.times, [0, 0.5, 1, 0, 0.5, 1])
    options = {"columns": {"time": "t_days", "x": "x_km", "y": "y_km"}}
    two = read(options, x_km=X[..., 0], y_km=X[..., 1], t_days=T, L=np.float64(3))
    assert two.fingerprint == one.fingerprint
    assert read(x=np.asfortranarray(X), t=np.tile(T, (2, 1))).fingerprint == one.fingerprint


def test_rows_with_ids_are_gathered_and_sorted(read):
    found = read(id=np.array([1, 0, 1]), time=np.array([1.0, 0, 0]), x=np.array([3.0, 2, 1]))
    assert found.ids.tolist() == [1, 0]
    assert_array_equal(found.positions[:, 0], [1, 3, 2])


def test_a_single_array_needs_an_interval(tmp_path):
    np.save(tmp_path / "a.npy", X)
    assert read_trajectories(tmp_path / "a.npy").time_unit == "frame"
    found = read_trajectories(tmp_path / "a.npy", frame_interval=(2.0, "s"))
    assert_array_equal(found.times[:3], [0, 2, 4])


def test_padding_is_left_out_and_dates_become_seconds(read):
    x = X.copy()
    x[0, 2] = np.nan
    dates = np.array(["2020-01-01", "2020-01-02", "2020-01-03"], dtype="datetime64[D]")
    found = read(x=x, time=dates)
    assert_array_equal(found.row_sizes, [2, 3])
    assert_array_equal(np.diff(found.times[2:]), [86400, 86400])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"positions": X}, "has no array 'x'; it has 'positions': select arrays with --columns"),
        ({"x": X[..., 0], "y": X[:1, :, 1]}, "positions have shapes"),
        ({"x": X, "t": T[:2]}, "times have shape"),
        ({"x": np.zeros((2, 3, 7))}, "with 1 to 3 dimensions"),
        ({"x": np.array([["a"]])}, "holds <U1, expected numbers"),
        ({"x": np.zeros((0, 0, 2))}, "holds no position at all"),
    ],
)
def test_what_does_not_fit_is_one_sentence(read, arrays, message):
    with pytest.raises(DriftbayesError, match=message):
        read(**arrays)


class _Harm:
    def __reduce__(self):
        return (exec, ("raise SystemExit('code was run')",))


def test_nothing_is_unpickled(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.array([_Harm()], dtype=object), allow_pickle=True)
    with pytest.raises(DriftbayesError, match="objects are not read"):
        read_trajectories(path)
    (tmp_path / "b.npz").write_bytes(pickle.dumps(_Harm()))
    with pytest.raises(DriftbayesError):
        read_trajectories(tmp_path / "b.npz")


@pytest.mark.parametrize("shape", ["(10000000000, 1000, 2)", "(2, 3, -2)", "(1,)*9**9", "(True,)"])
def test_a_size_that_is_only_declared_is_refused(tmp_path, shape):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    member = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(96)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", member)
    (tmp_path / "a.npy").write_bytes(member)
    for name in ("a.npz", "a.npy"):
        with pytest.raises(DriftbayesError):
            read_trajectories(tmp_path / name)


def test_an_archive_of_other_things_is_of_no_known_format(tmp_path):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("word/document.xml", "<a/>")
    (tmp_path / "a.docx").write_bytes(data.getvalue())
    with pytest.raises(DriftbayesError, match="unrecognised file format"):
        read_trajectories(tmp_path / "a.docx")
