"""Points per second from a file to the statistics of 12 sampling times, and memory use.

CPU time is least affected by other jobs on the machine; its ratio to that of reading and summing
the columns is the cost of a pass. Evidences are not computed.

For another number of points: `python benchmarks/throughput.py 100000000`.
"""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

N_TIMES = 1000
TAUS = np.geomspace(1.0, 100.0, 12)
BATCH = 500
CASES = ("read", "memory", "threads-1", "threads-2", "processes-1", "processes-2")


def throughput(n_points: int = 5_000_000) -> dict[str, Any]:
    """Measure rates for both formats, relative to reading and summing the columns."""
    result: dict[str, Any] = {"n_points": n_points, "n_taus": len(TAUS)}
    with tempfile.TemporaryDirectory() as folder:
        free = shutil.disk_usage(folder).free
        if free < 40 * n_points:
            return {**result, "skipped": f"only {free:,} bytes are free"}
        for name, write in (("tracks.parquet", write_parquet), ("tracks.zarr", write_zarr)):
            path = Path(folder) / name
            write(path, n_points // N_TIMES)
            rows = {case: _in_a_process(path, case) for case in CASES}
            plain = rows["read"]["cpu_seconds"]
            for row in rows.values():
                row["cpu_over_reading"] = row["cpu_seconds"] / plain
            sums = {case: row.pop("sum") for case, row in rows.items() if case != "read"}
            whole = sums.pop("memory")
            assert len(set(sums.values())) == 1, "workers must not change the sums"
            assert np.isclose(whole, sums["threads-1"], rtol=1e-12), "nor must blocks"
            result[name] = {"bytes": _size(path), **rows}
    return result


def positions(rng: np.random.Generator, n: int) -> np.ndarray:
    steps = rng.standard_normal((n, N_TIMES, 2), dtype=np.float32)
    return np.cumsum(steps, axis=1)


def write_parquet(path: Path, n_particles: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    schema = pa.schema(
        {"id": pa.int64(), "time": pa.float64(), "x": pa.float32(), "y": pa.float32()}
    )
    with pq.ParquetWriter(path, schema) as writer:
        for low in range(0, n_particles, BATCH):
            x = positions(rng, min(BATCH, n_particles - low))
            ids = np.repeat(np.arange(low, low + len(x)), N_TIMES)
            times = np.tile(np.arange(N_TIMES, dtype=np.float64), len(x))
            columns = [ids, times, x[..., 0].ravel(), x[..., 1].ravel()]
            writer.write_table(pa.table(columns, schema=schema))


def write_zarr(path: Path, n_particles: int) -> None:
    import zarr

    rng = np.random.default_rng(0)
    root: Any = zarr.create_group(path)
    root.attrs["parcels_mesh"] = "flat"
    shape, chunks = (n_particles, N_TIMES), (BATCH, N_TIMES)
    dims = ["trajectory", "obs"]
    arrays = {
        name: root.create_array(
            name, shape=shape, chunks=chunks, dtype=kind, dimension_names=dims, fill_value=np.nan
        )
        for name, kind in (("lon", "float32"), ("lat", "float32"), ("time", "float64"))
    }
    arrays["time"].attrs["units"] = "seconds"
    ids = root.create_array(
        "trajectory", shape=(n_particles,), dtype="int64", dimension_names=dims[:1]
    )
    ids[:] = np.arange(n_particles)
    for low in range(0, n_particles, BATCH):
        x = positions(rng, min(BATCH, n_particles - low))
        part = slice(low, low + len(x))
        arrays["lon"][part], arrays["lat"][part] = x[..., 0], x[..., 1]
        arrays["time"][part] = np.broadcast_to(np.arange(N_TIMES, dtype=np.float64), x.shape[:2])


def read(path: Path) -> int:
    """Read and sum every column once."""
    n_points = 0
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as parquet:
            for i in range(parquet.num_row_groups):
                table = parquet.read_row_group(i, use_threads=False)
                for column in table.columns:
                    float(np.sum(column.to_numpy(), dtype=np.float64))
                n_points += table.num_rows
        return n_points
    import zarr

    root: Any = zarr.open_group(path, mode="r")
    for low in range(0, root["lon"].shape[0], 4 * BATCH):
        for name in ("lon", "lat", "time"):
            block = root[name][low : low + 4 * BATCH]
            float(np.sum(block, dtype=np.float64))
        n_points += block.size
    return n_points


def in_memory(path: Path) -> tuple[int, float]:
    """Compute the statistics in memory, one sampling time after another."""
    from driftbayes.data._sampling import displacements, snap_taus
    from driftbayes.io import read_trajectories
    from driftbayes.likelihood import second_moments

    tracks = read_trajectories(path)
    many = (second_moments(displacements(tracks, tau)) for tau in snap_taus(tracks, TAUS))
    return len(tracks.times), float(sum(np.sum(one.forms) for one in many))


def peak_noted(trajectories: Any, *, folder: Path) -> Any:
    """Return the trajectories unchanged, and record the peak memory of this process."""
    status = Path("/proc/self/status")
    if status.exists():
        found = re.search(r"VmHWM:\s+(\d+)", status.read_text())
        assert found is not None
        (folder / str(os.getpid())).write_text(found[1])
    return trajectories


def summed(path: Path, kind: str, count: int, folder: Path) -> tuple[int, float]:
    from driftbayes.models import MODELS
    from driftbayes.streaming import Workers, tally_file

    workers = Workers(processes=count) if kind == "processes" else Workers(threads=count)
    tally, _ = tally_file(
        path,
        lambda _: [MODELS["brownian"], MODELS["langevin"]],
        TAUS,
        workers=workers,
        sample_points=0,
        prepare=partial(peak_noted, folder=folder),
    )
    many, _ = tally.displacements()
    return tally.n_points, float(sum(np.sum(one.summed[32].forms) for one in many))


def _in_a_process(path: Path, case: str) -> dict[str, Any]:
    """Run a case in a separate process, because peak memory cannot be reset."""
    done = subprocess.run(
        [sys.executable, __file__, str(path), case],
        env={**os.environ, "JAX_ENABLE_X64": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def _case(path: Path, case: str) -> dict[str, Any]:
    if case != "read":
        # Exclude the time for imports.
        import driftbayes.models
        import driftbayes.streaming._scan  # noqa: F401
    begin, cpu = time.perf_counter(), _cpu()
    row: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        if case == "read":
            n_points = read(path)
        elif case == "memory":
            n_points, row["sum"] = in_memory(path)
        else:
            kind, _, count = case.partition("-")
            n_points, row["sum"] = summed(path, kind, int(count), Path(folder))
        seconds, cpu = time.perf_counter() - begin, _cpu() - cpu
        # A child starts with the recorded peak of its parent, so it reports its own.
        peaks = {int(file.name): int(file.read_text()) / 1024 for file in Path(folder).iterdir()}
    peaks.pop(os.getpid(), None)
    row["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if peaks:
        row["peak_mb_of_a_worker"] = max(peaks.values())
    rate = n_points / seconds
    return {"points_per_second": rate, "seconds": seconds, "cpu_seconds": cpu, **row}


def _cpu() -> float:
    """Return the CPU time of this process and of its finished children."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def _size(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(_case(Path(sys.argv[1]), sys.argv[2])))
    else:
        n = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000_000
        print(json.dumps(throughput(n), indent=2))
