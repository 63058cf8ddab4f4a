"""Points per second from a file to the statistics of 20 sampling times, and the memory it takes.

By hand: `python benchmarks/throughput.py 100000000` for another number of points.
"""

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

N_TIMES = 1000
TAUS = np.geomspace(1.0, 100.0, 20)
BATCH = 500
CASES = ("read", "threads-1", "threads-2", "processes-1", "processes-2")


def throughput(n_points: int = 5_000_000) -> dict[str, Any]:
    """Rates for both formats, as ratios to merely reading the columns of the file."""
    result: dict[str, Any] = {"n_points": n_points, "n_taus": len(TAUS)}
    with tempfile.TemporaryDirectory() as folder:
        free = shutil.disk_usage(folder).free
        if free < 40 * n_points:
            return {**result, "skipped": f"only {free:,} bytes are free"}
        for name, write in (("tracks.parquet", write_parquet), ("tracks.zarr", write_zarr)):
            path = Path(folder) / name
            write(path, n_points // N_TIMES)
            rows = {case: _in_a_process(path, case) for case in CASES}
            plain = rows["read"]["points_per_second"]
            for row in rows.values():
                row["ratio_to_reading"] = row["points_per_second"] / plain
            sums = {row.pop("sum") for case, row in rows.items() if case != "read"}
            assert len(sums) == 1, "workers must not change the sums"
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
    """Every column once, and nothing else."""
    n_points = 0
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as parquet:
            for i in range(parquet.num_row_groups):
                n_points += parquet.read_row_group(i, use_threads=False).num_rows
        return n_points
    import zarr

    root: Any = zarr.open_group(path, mode="r")
    for low in range(0, root["lon"].shape[0], 4 * BATCH):
        for name in ("lon", "lat", "time"):
            block = root[name][low : low + 4 * BATCH]
        n_points += block.size
    return n_points


def summed(path: Path, kind: str, count: int) -> tuple[int, float]:
    from driftbayes.models import Brownian, Langevin
    from driftbayes.streaming import Workers, tally_file

    workers = Workers(processes=count) if kind == "processes" else Workers(threads=count)
    tally, _ = tally_file(
        path, lambda _: [Brownian, Langevin], TAUS, workers=workers, sample_points=0
    )
    many, _ = tally.displacements()
    return tally.n_points, float(sum(np.sum(one.summed[32].forms) for one in many))


def _in_a_process(path: Path, case: str) -> dict[str, Any]:
    """Each case by itself: the most memory that a process ever had cannot be reset."""
    done = subprocess.run(
        [sys.executable, __file__, str(path), case], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def _case(path: Path, case: str) -> dict[str, Any]:
    if case != "read":
        # Importing is not what is measured.
        import driftbayes.streaming  # noqa: F401
    begin = time.perf_counter()
    row: dict[str, Any] = {}
    if case == "read":
        n_points = read(path)
    else:
        kind, _, count = case.partition("-")
        n_points, row["sum"] = summed(path, kind, int(count))
    seconds = time.perf_counter() - begin
    own, others = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    # Of a worker, the largest of all.
    peak = {"peak_mb": resource.getrusage(own).ru_maxrss / 1024}
    if case.startswith("processes"):
        peak["peak_mb_of_a_worker"] = resource.getrusage(others).ru_maxrss / 1024
    return {"points_per_second": n_points / seconds, "seconds": seconds, **peak, **row}


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
