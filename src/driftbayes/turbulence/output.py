"""The directory of a run: what is in it, and how it is written while the run goes on."""

__all__ = ["CONFIG", "SNAPSHOTS", "TRAJECTORIES", "RunOutput", "read_config"]

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from numpy.typing import NDArray

from driftbayes._version import __version__
from driftbayes.errors import DriftbayesError
from driftbayes.storage import atomic_path
from driftbayes.storage.atomic import write_netcdf
from driftbayes.storage.zarr import ZarrArray, create_group, open_array
from driftbayes.turbulence.config import RunConfig
from driftbayes.turbulence.grid import Grid
from driftbayes.turbulence.spectra import shells

if TYPE_CHECKING:
    import xarray as xr

CONFIG, TRAJECTORIES, SNAPSHOTS = "config.json", "trajectories.zarr", "snapshots.zarr"
DIAGNOSTICS, SPECTRA = "diagnostics.nc", "spectra.nc"

# Chunks of about this size: large enough for a disk, small enough for a reader's memory.
_CHUNK_BYTES = 8 * 2**20
_WAITING_BYTES = 2**29
_COLUMNS = ("x", "y", "u", "v")
_SPECTRA = ("energy", "enstrophy", "transfer", "flux")


def read_config(directory: Path) -> tuple[RunConfig, dict[str, Any]]:
    """The configuration of a run, and what else its file says."""
    path = directory / CONFIG
    try:
        stored = json.loads(path.read_text())
        return RunConfig.from_json(stored["config"]), stored
    except FileNotFoundError as error:
        msg = f"{str(directory)!r} holds no run: there is no {CONFIG}; name the directory of a run"
        raise DriftbayesError(msg) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, DriftbayesError):
            raise
        msg = f"{CONFIG} in {str(directory)!r} cannot be read: {error}; put it back as it was"
        raise DriftbayesError(msg) from error


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _array(dtype: str, chunks: tuple[int, ...] | None = None, **sizes: int) -> dict[str, Any]:
    """Describe an array of a store by the names and sizes of its axes; one chunk by default."""
    shape = tuple(sizes.values())
    return {"shape": shape, "chunks": chunks or shape, "dtype": dtype, "dims": tuple(sizes)}


def versions() -> dict[str, str]:
    """What the numbers of a run may depend on beside its configuration."""
    names = ("jax", "jaxlib", "numpy", "equinox")
    found = {name: str(import_module(name).__version__) for name in names}
    device = jax.devices()[0]
    return {
        "driftbayes": __version__,
        "python": platform.python_version(),
        **found,
        "backend": jax.default_backend(),
        "device": str(device.device_kind),
    }


@dataclass
class RunOutput:
    """What a run writes while it goes on. Writing the same again does no harm.

    Args:
        directory: Where.
        config: What is run.
    """

    directory: Path
    config: RunConfig

    def create(self, inputs: Mapping[str, NDArray[Any]]) -> None:
        """Make the files; the configuration comes last and marks the directory as a run.

        Args:
            inputs: Arrays that the run begins with, by the names of their files.
        """
        config = self.config
        hashes = {"config": config.sha256}
        for name, values in inputs.items():
            with atomic_path(self.directory / name) as temporary:
                np.save(temporary, values)
                hashes[name] = _sha256(temporary)
        if config.n_records:
            self._create_trajectories()
        if config.snapshot_every:
            n, side = config.n_snapshots, config.grid
            arrays = {
                "vorticity": _array("float32", (1, side, side), time=n, y=side, x=side),
                "time": _array("float64", time=n),
            }
            made = create_group(self.directory / SNAPSHOTS, arrays, {"title": "vorticity"})
            made["time"].write(np.arange(n) * config.snapshot_steps * config.dt, (0,))
        with atomic_path(self.directory / CONFIG) as temporary:
            stored = {"config": config.to_json(), "versions": versions(), "sha256": hashes}
            temporary.write_text(json.dumps(stored, indent=2) + "\n")

    def read_input(self, name: str, hashes: Mapping[str, str]) -> NDArray[Any]:
        """An array that the run began with, as it was then.

        Args:
            name: Its file.
            hashes: What `config.json` says of the files.
        """
        path = self.directory / name
        try:
            found = np.load(path, allow_pickle=False)
            is_same = name not in hashes or _sha256(path) == hashes[name]
        except (OSError, ValueError, EOFError) as error:
            msg = f"{name} in {str(path.parent)!r} cannot be read: {error}; start the run anew"
            raise DriftbayesError(msg) from error
        if not is_same:
            msg = (
                f"{name} in {str(path.parent)!r} is not the file that the run began with: its "
                f"checksum does not match that in {CONFIG}; restore it from a copy"
            )
            raise DriftbayesError(msg)
        return np.asarray(found)

    def verify(self, n_records: int, n_snapshots: int) -> bool:
        """Refuse to go on if something that was written is missing or damaged.

        Args:
            n_records: Records of the particles that are on disk.
            n_snapshots: Snapshots that are.

        Returns:
            Whether all of it had checksums.
        """
        config = self.config
        arrays: list[tuple[ZarrArray, tuple[int, ...], tuple[int, ...]]] = []
        if config.n_records:
            grid = (config.particles, config.n_records)
            store = self.directory / TRAJECTORIES
            for name in _COLUMNS:
                arrays.append((open_array(store, name), grid, (config.particles, n_records)))
            arrays.append((open_array(store, "id"), grid[:1], grid[:1]))
            arrays.append((open_array(store, "time"), grid[1:], grid[1:]))
        if config.snapshot_every:
            shape = (config.n_snapshots, config.grid, config.grid)
            store = self.directory / SNAPSHOTS
            stop = (n_snapshots, *shape[1:])
            arrays.append((open_array(store, "vorticity"), shape, stop))
            arrays.append((open_array(store, "time"), shape[:1], shape[:1]))
        for array, expected, end in arrays:
            if array.shape != expected:
                msg = (
                    f"array {array.path.name!r} in {array.path.parent.name!r} is of shape "
                    f"{array.shape}, expected {expected}; restore the store from a copy"
                )
                raise DriftbayesError(msg)
            try:
                array.verify(end)
            except DriftbayesError as error:
                msg = (
                    f"{array.path.parent.name}: {error}, or delete checkpoint.npz and "
                    "checkpoint-previous.npz to compute the run from its start"
                )
                raise DriftbayesError(msg) from error
        return all(array.has_checksums for array, _, _ in arrays)

    def _create_trajectories(self) -> None:
        config = self.config
        n, records = config.particles, config.n_records
        arrays = {"id": _array("int64", traj=n), "time": _array("float64", obs=records)}
        for name in _COLUMNS:
            # A velocity is looked at; a position is differenced and keeps all its digits.
            dtype = "float64" if name in "xy" else "float32"
            arrays[name] = _array(dtype, self._chunks, traj=n, obs=records)
            arrays[name]["attributes"] = {"coordinates": "time id"}
        attributes = {
            "Conventions": "CF-1.11",
            "featureType": "trajectory",
            "driftbayes_schema": 1,
            **self._origin,
        }
        made = create_group(self.directory / TRAJECTORIES, arrays, attributes)
        made["id"].write(np.arange(n), (0,))
        steps = config.spin_up_steps + config.record_steps * np.arange(records)
        made["time"].write(steps * config.dt, (0,))

    @property
    def _chunks(self) -> tuple[int, int]:
        """Particles and records in a chunk: all particles if a few hundred records then fit."""
        config = self.config
        particles = min(config.particles, 2**16)
        # Records wait in memory until a chunk is full, those of all particles.
        records = min(_CHUNK_BYTES // (8 * particles), _WAITING_BYTES // (32 * config.particles))
        return particles, min(max(records, 1), config.n_records)

    @property
    def records_per_chunk(self) -> int:
        """Records that are written at once."""
        return self._chunks[1]

    def write_records(self, first: int, records: NDArray[np.float64]) -> int:
        """Write whole chunks of records, and say how many records that was.

        Args:
            first: Number of the first record.
            records: Positions and velocities, (record, particle, 4).
        """
        size, last = self.records_per_chunk, self.config.n_records
        n = len(records) if first + len(records) == last else len(records) // size * size
        if n:
            store = self.directory / TRAJECTORIES
            for column, name in enumerate(_COLUMNS):
                block = records[:n, :, column].T
                open_array(store, name).write(block, (0, first))
        return n

    def write_snapshot(self, number: int, vorticity: NDArray[np.floating[Any]]) -> None:
        """Write one snapshot."""
        array: ZarrArray = open_array(self.directory / SNAPSHOTS, "vorticity")
        array.write(vorticity[None].astype(np.float32), (number, 0, 0))

    def write_diagnostics(self, names: tuple[str, ...], rows: NDArray[np.float64]) -> None:
        """Write the diagnostics so far."""
        import xarray as xr

        variables = {name: ("time", rows[:, i]) for i, name in enumerate(names) if name != "time"}
        dataset = xr.Dataset(variables, coords={"time": rows[:, names.index("time")]})
        self._write_netcdf(dataset, DIAGNOSTICS)

    def write_spectra(self, values: NDArray[np.float64]) -> None:
        """Write the spectra so far, (snapshot, kind, shell)."""
        import xarray as xr

        config = self.config
        times = np.arange(len(values)) * config.snapshot_steps * config.dt
        variables = {name: (("time", "k"), values[:, i]) for i, name in enumerate(_SPECTRA)}
        rings = np.arange(int(shells(Grid(config.grid)).max()) + 1)
        self._write_netcdf(xr.Dataset(variables, coords={"time": times, "k": rings}), SPECTRA)

    def _write_netcdf(self, dataset: "xr.Dataset", name: str) -> None:
        dataset.attrs = self._origin
        write_netcdf(dataset, self.directory / name)

    @property
    def _origin(self) -> dict[str, Any]:
        provenance = json.dumps({"simulated": "turbulence", **self.config.to_json()})
        return {"driftbayes_version": __version__, "provenance": provenance}

    @property
    def exists(self) -> bool:
        """Whether the directory holds a run."""
        return (self.directory / CONFIG).exists()
