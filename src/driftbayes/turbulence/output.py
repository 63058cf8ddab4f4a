"""Files in the directory of a run, including the checkpoint for resuming it.

A checkpoint holds the configuration of its run and a hash of its content, to detect damage and
mixtures of two runs.
"""

__all__ = ["Checkpoint", "RunOutput", "load_checkpoint", "read_config", "save_checkpoint"]

import hashlib
import json
import os
import platform
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from driftbayes._storage import atomic_path
from driftbayes._storage.atomic import write_netcdf
from driftbayes._storage.zarr import create_group, open_array
from driftbayes._version import __version__
from driftbayes.errors import DriftbayesError, warn
from driftbayes.turbulence.budgets import ROW, Spectra
from driftbayes.turbulence.config import RunConfig
from driftbayes.turbulence.flow import FlowState

CONFIG, TRAJECTORIES, SNAPSHOTS = "config.json", "trajectories.zarr", "snapshots.zarr"
DIAGNOSTICS, SPECTRA = "diagnostics.nc", "spectra.nc"
_LATEST, _PREVIOUS = "checkpoint.npz", "checkpoint-previous.npz"

# Target size of chunks: large enough for a disk, small enough for a reader's memory.
_CHUNK_BYTES = 8 * 2**20
_WAITING_BYTES = 2**29
_COLUMNS = ("x", "y", "u", "v")
# Errors that reading a damaged checkpoint can raise; JAX refuses other types of numbers.
_DAMAGES = (
    *(OSError, ValueError, KeyError, TypeError, EOFError, NotImplementedError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, OverflowError, RuntimeError),
)


@dataclass(frozen=True)
class Checkpoint:
    """State of a run for resuming it.

    Args:
        state: The flow.
        x: Positions of the particles; none before their release.
        written: Number of records of the particles in whole chunks on disk.
        waiting: Records not yet on disk: positions and velocities, (record, particle, 4).
        rows: Diagnostics so far, (row, column).
        spectra: Spectra so far, (snapshot, kind, shell).
        config: Configuration of the run; None in a checkpoint of an earlier version.
    """

    state: FlowState
    x: NDArray[np.float64]
    written: int
    waiting: NDArray[np.float64]
    rows: NDArray[np.float64]
    spectra: NDArray[np.float64]
    config: Mapping[str, Any] | None = None

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays, by their names in a file."""
        state = self.state
        arrays = {"zeta": state.zeta, "before": state.older[0], "long_before": state.older[1]}
        arrays |= {name: getattr(state, name) for name in ("step", "key")}
        own = {name: getattr(self, name) for name in ("x", "waiting", "rows", "spectra")}
        return {name: np.asarray(array) for name, array in (arrays | own).items()}


def save_checkpoint(directory: Path, checkpoint: Checkpoint) -> None:
    """Write the checkpoint and keep the previous one."""
    latest = directory / _LATEST
    if latest.exists():
        # Moved before the new one is written, so that one of the two is always valid.
        os.replace(latest, directory / _PREVIOUS)
    config, written = json.dumps(checkpoint.config), checkpoint.written
    others = {"config": np.asarray(config), "written": np.asarray(written)}
    arrays: dict[str, Any] = checkpoint.arrays | others
    with atomic_path(latest) as temporary:
        np.savez(temporary, **arrays, digest=np.asarray(_digest(arrays)))


def load_checkpoint(directory: Path) -> Checkpoint | None:
    """Return the latest valid checkpoint, or None; skip damaged ones with a warning."""
    for name in (_LATEST, _PREVIOUS):
        try:
            return _read_checkpoint(directory / name)
        except FileNotFoundError:
            continue
        except _DAMAGES as error:
            warn(f"{name} is damaged ({error}); resuming from the previous one, or from the start")
    return None


def _read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint, and compare its hash."""
    # Without pickles, so that nothing in the file is executed.
    with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
        stored: dict[str, Any] = {name: file[name] for name in file.files}
    # Earlier versions wrote no hash.
    digest = stored.pop("digest", None)
    if digest is not None and str(digest) != _digest(stored):
        raise ValueError("hash mismatch")
    older = (jnp.asarray(stored["before"]), jnp.asarray(stored["long_before"]))
    zeta, step, key = (jnp.asarray(stored[name]) for name in ("zeta", "step", "key"))
    return Checkpoint(
        state=FlowState(zeta=zeta, older=older, step=step, key=key),
        written=int(stored["written"]),
        config=json.loads(str(stored["config"])) if digest is not None else None,
        **{name: stored[name] for name in ("x", "waiting", "rows", "spectra")},
    )


def _digest(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Compute the hash of arrays with their names, types and shapes."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {arrays[name].shape} ".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def read_config(directory: Path) -> tuple[RunConfig, dict[str, Any]]:
    """Return the configuration of a run, and the whole content of its file."""
    path = directory / CONFIG
    try:
        stored = json.loads(path.read_text())
        return RunConfig.from_json(stored["config"]), stored
    except FileNotFoundError as error:
        msg = f"{str(directory)!r} holds no run: {CONFIG} is missing; pass the directory of a run"
        raise DriftbayesError(msg) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, DriftbayesError):
            raise
        msg = f"{CONFIG} in {str(directory)!r} cannot be read: {error}; restore it from a copy"
        raise DriftbayesError(msg) from error


def versions() -> dict[str, str]:
    """Return the versions and the device that may affect the numbers of a run."""
    names = ("jax", "jaxlib", "numpy", "equinox")
    return {
        "driftbayes": __version__,
        "python": platform.python_version(),
        **{name: str(import_module(name).__version__) for name in names},
        "backend": jax.default_backend(),
        "device": str(jax.devices()[0].device_kind),
    }


def _sha256(path: Path) -> str:
    """Compute the hash of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _array(dtype: str, chunks: tuple[int, ...] | None = None, **sizes: int) -> dict[str, Any]:
    """Describe an array of a store by names and sizes of its axes; it is one chunk by default."""
    shape = tuple(sizes.values())
    return {"shape": shape, "chunks": chunks or shape, "dtype": dtype, "dims": tuple(sizes)}


@dataclass
class RunOutput:
    """Files of a run.

    Args:
        directory: Directory of the run.
        config: Configuration of the run.
    """

    directory: Path
    config: RunConfig

    def create(self, inputs: Mapping[str, NDArray[Any]]) -> None:
        """Create the files. The configuration is written last and marks the directory as a run.

        Args:
            inputs: Initial arrays of the run by file name.
        """
        config = self.config
        hashes = {"config": config.sha256}
        for name, values in inputs.items():
            with atomic_path(self.directory / name) as temporary:
                np.save(temporary, values)
                hashes[name] = _sha256(temporary)
        stores = self._stores()
        if TRAJECTORIES in stores:
            conventions = {"Conventions": "CF-1.11", "featureType": "trajectory"}
            attributes = {**conventions, "driftbayes_schema": 1, **self._attributes}
            made = create_group(self.directory / TRAJECTORIES, stores[TRAJECTORIES], attributes)
            made["id"].write(np.arange(config.particles), (0,))
            steps = config.spin_up_steps + config.record_steps * np.arange(config.n_records)
            made["time"].write(steps * config.dt, (0,))
        if SNAPSHOTS in stores:
            title = {"title": "vorticity"}
            made = create_group(self.directory / SNAPSHOTS, stores[SNAPSHOTS], title)
            made["time"].write(self._snapshot_times(config.n_snapshots), (0,))
        with atomic_path(self.directory / CONFIG) as temporary:
            stored = {"config": config.to_json(), "versions": versions(), "sha256": hashes}
            temporary.write_text(json.dumps(stored, indent=2) + "\n")

    def _stores(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Describe the arrays of each store."""
        config, stores = self.config, {}
        if config.n_records:
            n, records = config.particles, config.n_records
            arrays = {"id": _array("int64", traj=n), "time": _array("float64", obs=records)}
            for name in _COLUMNS:
                # Differences of positions need all digits; velocities do not.
                dtype = "float64" if name in "xy" else "float32"
                arrays[name] = _array(dtype, self._chunks, traj=n, obs=records)
                arrays[name]["attributes"] = {"coordinates": "time id"}
            stores[TRAJECTORIES] = arrays
        if config.snapshot_every:
            n, side = config.n_snapshots, config.grid
            vorticity = _array("float32", (1, side, side), time=n, y=side, x=side)
            stores[SNAPSHOTS] = {"vorticity": vorticity, "time": _array("float64", time=n)}
        return stores

    @property
    def _chunks(self) -> tuple[int, int]:
        """Particles and records per chunk: all particles, unless there are more than 2¹⁶."""
        config = self.config
        particles = min(config.particles, 2**16)
        # Records of all particles stay in memory until a chunk is full.
        records = min(_CHUNK_BYTES // (8 * particles), _WAITING_BYTES // (32 * config.particles))
        return particles, min(max(records, 1), config.n_records)

    def _snapshot_times(self, n: int) -> NDArray[np.float64]:
        """Return the times of the first n snapshots."""
        return np.arange(n) * self.config.snapshot_steps * self.config.dt

    @property
    def _attributes(self) -> dict[str, Any]:
        """Version and configuration, for files."""
        provenance = json.dumps({"simulated": "turbulence", **self.config.to_json()})
        return {"driftbayes_version": __version__, "provenance": provenance}

    def read_input(self, name: str, hashes: Mapping[str, str]) -> NDArray[Any]:
        """Read an initial array of the run and verify its checksum.

        Args:
            name: File name.
            hashes: Hashes of the files, from `config.json`.
        """
        path = self.directory / name
        try:
            values = np.load(path, allow_pickle=False)
            is_same = name not in hashes or _sha256(path) == hashes[name]
        except (OSError, ValueError, EOFError) as error:
            msg = f"{name} in {str(path.parent)!r} cannot be read: {error}; start a new run"
            raise DriftbayesError(msg) from error
        if not is_same:
            raise DriftbayesError(
                f"{name} in {str(path.parent)!r} is not the file that the run began with: its "
                f"checksum does not match that in {CONFIG}; restore it from a copy"
            )
        return np.asarray(values)

    def verify(self, n_records: int, n_snapshots: int) -> bool:
        """Raise an error if data already written are missing or damaged.

        Args:
            n_records: Number of records of the particles on disk.
            n_snapshots: Number of snapshots on disk.

        Returns:
            Whether all data had checksums.
        """
        has_checksums = True
        for store, arrays in self._stores().items():
            for name, described in arrays.items():
                array, shape = open_array(self.directory / store, name), described["shape"]
                if array.shape != shape:
                    raise DriftbayesError(
                        f"array {name!r} in {store!r} is of shape {array.shape}, expected {shape}; "
                        "restore the store from a copy"
                    )
                end = (shape[0], n_records) if name in _COLUMNS else shape
                try:
                    array.verify((n_snapshots, *shape[1:]) if name == "vorticity" else end)
                except DriftbayesError as error:
                    raise DriftbayesError(
                        f"{store}: {error}, or delete {_LATEST} and {_PREVIOUS} to restart the run"
                    ) from error
                has_checksums &= array.has_checksums
        return has_checksums

    def write_records(self, first: int, records: NDArray[np.float64]) -> int:
        """Write whole chunks of records, and return the number of records written.

        Args:
            first: Index of the first record.
            records: Positions and velocities, (record, particle, 4).
        """
        size, last = self._chunks[1], self.config.n_records
        n = len(records) if first + len(records) == last else len(records) // size * size
        if n:
            store = self.directory / TRAJECTORIES
            for column, name in enumerate(_COLUMNS):
                open_array(store, name).write(records[:n, :, column].T, (0, first))
        return n

    def write_snapshot(self, number: int, vorticity: NDArray[np.floating[Any]]) -> None:
        """Write one snapshot."""
        array = open_array(self.directory / SNAPSHOTS, "vorticity")
        array.write(vorticity[None].astype(np.float32), (number, 0, 0))

    def save(self, checkpoint: Checkpoint) -> None:
        """Write diagnostics and spectra so far, and the checkpoint."""
        import xarray as xr

        rows, spectra = checkpoint.rows, checkpoint.spectra
        variables = {name: ("time", rows[:, i]) for i, name in enumerate(ROW) if name != "time"}
        times = {"time": rows[:, ROW.index("time")]}
        dataset = xr.Dataset(variables, coords=times, attrs=self._attributes)
        write_netcdf(dataset, self.directory / DIAGNOSTICS)
        if len(spectra):
            kinds = {name: (("time", "k"), spectra[:, i]) for i, name in enumerate(Spectra._fields)}
            axes = {"time": self._snapshot_times(len(spectra)), "k": np.arange(spectra.shape[-1])}
            dataset = xr.Dataset(kinds, coords=axes, attrs=self._attributes)
            write_netcdf(dataset, self.directory / SPECTRA)
        save_checkpoint(self.directory, checkpoint)
