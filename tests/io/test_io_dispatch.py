import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.io import _reading as reading
from driftbayes.io import read_trajectories, write_trajectories


@pytest.mark.parametrize("name", ["tracks.txt", "tracks", "tracks.gz", "csv"])
def test_an_unknown_suffix_lists_the_known_ones(tmp_path, name):
    expected = rf"a name ending in \.csv, \.csv\.gz, .* or \.zarr, got '{name}'"
    tracks = Trajectories.from_arrays([[[0.0]]], dt=1.0)
    with pytest.raises(DriftbayesError, match=expected):
        write_trajectories(tracks, tmp_path / name)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".nc"])
def test_a_file_is_known_by_what_is_in_it_and_not_by_its_name(tmp_path, suffix):
    tracks = Trajectories.from_arrays([[[0.0], [1.0]]], dt=1.0)
    write_trajectories(tracks, tmp_path / f"a{suffix}")
    (tmp_path / f"a{suffix}").rename(tmp_path / "a.dat")
    assert read_trajectories(tmp_path / "a.dat").fingerprint == tracks.fingerprint


def test_the_case_of_a_suffix_does_not_matter(tmp_path):
    tracks = Trajectories.from_arrays([[[0.0]]], dt=1.0)
    for name in ("A.CSV", "A.Csv.Gz", "A.PARQUET"):
        write_trajectories(tracks, tmp_path / name)
        assert read_trajectories(str(tmp_path / name)).fingerprint == tracks.fingerprint
    assert (tmp_path / "A.Csv.Gz").read_bytes()[:2] == b"\x1f\x8b"


def modules_after(code):
    """Names of the modules that a new Python has loaded once it has run `code`."""
    code = f"import sys, driftbayes.io; {code}; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return set(result.stdout.split())


def test_importing_the_dock_loads_no_file_library():
    heavy = {"jax", "scipy", "pandas", "pyarrow", "xarray", "h5netcdf", "h5py"}
    assert modules_after("pass") & heavy == set()


def test_a_table_is_read_and_written_without_jax_and_netcdf(tmp_path):
    (tmp_path / "a.csv").write_text("id,time,x\n1,0,1\n1,1,2\n")
    code = (
        f"tracks = driftbayes.io.read_trajectories({str(tmp_path / 'a.csv')!r}); "
        f"driftbayes.io.write_trajectories(tracks, {str(tmp_path / 'b.parquet')!r})"
    )
    loaded = modules_after(code)
    assert loaded & {"jax", "xarray", "h5netcdf", "h5py", "pyarrow"} == {"pyarrow"}
    assert (tmp_path / "b.parquet").exists()


@pytest.mark.parametrize("name", ["big.csv", "big.parquet"])
def test_a_million_interleaved_rows_take_no_python_loop(tmp_path, name):
    n_particles, n_times = 20_000, 50
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "id": np.tile(rng.permutation(n_particles), n_times),
            "time": np.repeat(np.arange(n_times) * 0.5, n_particles),
            "x": rng.normal(size=n_particles * n_times),
        }
    )
    write = pq.write_table if name.endswith("parquet") else pyarrow.csv.write_csv
    write(table, tmp_path / name)
    start = time.process_time()
    read = read_trajectories(tmp_path / name)
    # A loop over rows or trajectories takes several times as long.
    assert time.process_time() - start < 5
    assert read.n_trajectories == n_particles
    assert (read.row_sizes == n_times).all()
    assert read.ids.tolist() == table["id"].to_numpy()[:n_particles].tolist()


def test_provenance_of_any_kind_becomes_json(tmp_path):
    text = reading.to_json({"path": tmp_path / "secret" / "a.csv", "n": np.float64(1.5)})
    assert reading.from_json(text, "f") == {"path": "a.csv", "n": 1.5}
    assert reading.from_json(reading.to_json({"f": print}), "f")["f"].startswith("<built-in")


def test_an_error_while_writing_leaves_the_old_trajectories(tmp_path, monkeypatch):
    tracks = Trajectories.from_arrays([[[0.0], [1.0]]], dt=1.0)
    write_trajectories(tracks, tmp_path / "a.parquet")

    def break_off(table, path, **_):
        path.write_bytes(b"PAR1")
        raise RuntimeError("halfway")

    monkeypatch.setattr(pq, "write_table", break_off)
    with pytest.raises(RuntimeError, match="halfway"):
        write_trajectories(tracks, tmp_path / "a.parquet")
    assert [p.name for p in tmp_path.iterdir()] == ["a.parquet"]
    assert read_trajectories(tmp_path / "a.parquet").fingerprint == tracks.fingerprint
