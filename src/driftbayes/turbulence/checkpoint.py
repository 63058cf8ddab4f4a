"""All that a run needs to go on, in one file that is there whole or not at all.

A checkpoint holds the configuration of its run and a hash of everything in it, configuration
included: one that was damaged or put together from two runs is recognised.
"""

__all__ = ["Checkpoint", "load_checkpoint", "save_checkpoint"]

import hashlib
import json
import os
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from driftbayes.errors import DriftbayesWarning
from driftbayes.storage import atomic_path
from driftbayes.turbulence.state import FlowState

_LATEST, _PREVIOUS = "checkpoint.npz", "checkpoint-previous.npz"
# What can come out of a file that is not what it should be; JAX refuses other types of numbers.
_DAMAGES = (
    *(OSError, ValueError, KeyError, TypeError, EOFError, NotImplementedError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, OverflowError, RuntimeError),
)


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stands.

    Args:
        state: The flow.
        x: Positions of the particles; none before their release.
        written: Records of the particles that are in whole chunks on disk.
        waiting: Those that are not yet: positions and velocities, (record, particle, 4).
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


def save_checkpoint(directory: Path, checkpoint: Checkpoint) -> None:
    """Write the checkpoint; the one before it is kept beside it."""
    state = checkpoint.state
    latest = directory / _LATEST
    if latest.exists():
        # Set aside before the new one is written: at every moment one of the two is good.
        os.replace(latest, directory / _PREVIOUS)
    arrays: dict[str, Any] = {
        "zeta": np.asarray(state.zeta),
        "before": np.asarray(state.older[0]),
        "long_before": np.asarray(state.older[1]),
        "step": np.asarray(state.step),
        "key": np.asarray(state.key),
        "x": checkpoint.x,
        "written": np.asarray(checkpoint.written),
        "waiting": checkpoint.waiting,
        "rows": checkpoint.rows,
        "spectra": checkpoint.spectra,
        "config": np.asarray(json.dumps(checkpoint.config)),
    }
    with atomic_path(latest) as temporary:
        np.savez(temporary, **arrays, digest=np.asarray(_digest(arrays)))


def load_checkpoint(directory: Path) -> Checkpoint | None:
    """The latest good checkpoint; None if the run has none yet.

    A damaged one is passed over with a warning: the run then repeats a little more.
    """
    for name in (_LATEST, _PREVIOUS):
        try:
            return _read(directory / name)
        except FileNotFoundError:
            continue
        except _DAMAGES as error:
            warnings.warn(
                f"{name} is damaged ({error}); going on from the one before it, or from the start",
                DriftbayesWarning,
                stacklevel=2,
            )
    return None


def _read(path: Path) -> Checkpoint:
    # Without pickles: a checkpoint holds numbers, and nothing in it is ever run.
    with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
        stored: dict[str, Any] = {name: file[name] for name in file.files}
    # Those of earlier versions have no hash.
    digest = stored.pop("digest", None)
    if digest is not None and str(digest) != _digest(stored):
        msg = "its hash does not match"
        raise ValueError(msg)
    state = FlowState(
        zeta=jnp.asarray(stored["zeta"]),
        older=(jnp.asarray(stored["before"]), jnp.asarray(stored["long_before"])),
        step=jnp.asarray(stored["step"]),
        key=jnp.asarray(stored["key"]),
    )
    return Checkpoint(
        state=state,
        x=stored["x"],
        written=int(stored["written"]),
        waiting=stored["waiting"],
        rows=stored["rows"],
        spectra=stored["spectra"],
        config=json.loads(str(stored["config"])) if digest is not None else None,
    )


def _digest(arrays: Mapping[str, NDArray[Any]]) -> str:
    found = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        found.update(f"{name} {array.dtype.str} {arrays[name].shape} ".encode())
        found.update(array.tobytes())
    return found.hexdigest()
