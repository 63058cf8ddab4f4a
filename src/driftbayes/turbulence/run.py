"""Complete runs: spin-up, release of the particles, records, checkpoints.

A run advances in blocks of `diagnose_every`, each one compiled program, and all output depends
only on the state at the start of the block. A killed run that is resumed repeats the blocks since
its last checkpoint and writes the same numbers again: its output equals that of an uninterrupted
run, bit for bit.
"""

__all__ = ["CFL_LIMIT", "CFL_START", "Progress", "resume", "run"]

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike, NDArray

from driftbayes._storage.leftovers import sweep
from driftbayes.errors import DriftbayesError, warn
from driftbayes.turbulence.budgets import ROW, Spectra, diagnostics_row, shells, spectra
from driftbayes.turbulence.config import GIVEN, RunConfig
from driftbayes.turbulence.flow import Flow, FlowState
from driftbayes.turbulence.march import begin, look, march
from driftbayes.turbulence.noise import STARTS
from driftbayes.turbulence.output import (
    CONFIG,
    SNAPSHOTS,
    TRAJECTORIES,
    Checkpoint,
    RunOutput,
    load_checkpoint,
    read_config,
    save_checkpoint,
    versions,
)
from driftbayes.turbulence.particles import INTERPOLATIONS, seed_particles

# Steps done, total number of steps, and the latest row of the diagnostics.
Progress: TypeAlias = Callable[[int, int, Mapping[str, float]], None]

# Limits of the CFL number, in grid spacings per step. In a uniform flow AB3 with the filter is
# stable up to 0.324. In turbulence the maximum is confined to the core of a vortex for a short
# time; the paper's flow reaches 0.36 and stays stable.
CFL_START, CFL_WARNING, CFL_LIMIT = 0.32, 0.28, 0.42

_POSITIONS, _VORTICITY, _LOCK = "positions.npy", "vorticity.npy", ".lock"


def run(
    config: RunConfig,
    directory: str | Path,
    *,
    positions: ArrayLike | None = None,
    start_from: str | Path | None = None,
    checkpoint_seconds: float = 60.0,
    progress: Progress | None = None,
) -> Path:
    """Run a flow with particles into a new directory.

    Args:
        config: Configuration of the run.
        directory: Output directory; must not hold a run.
        positions: Initial positions of the particles, (particle, 2); by default uniform.
        start_from: Directory of another run on the same grid whose last state is the start; needs
            `start="given"` in the configuration. Time begins at 0 again.
        checkpoint_seconds: Wall-clock time between checkpoints.
        progress: Called after every block.
    """
    folder = Path(directory)
    output = RunOutput(folder, config)
    if (folder / CONFIG).exists():
        raise DriftbayesError(
            f"{str(folder)!r} already holds a run; resume it with `driftbayes turbulence resume "
            f"{folder}`, or choose another directory"
        )
    if folder.exists() and not _is_free(folder):
        msg = f"{str(folder)!r} exists and is not an empty directory; choose another name"
        raise DriftbayesError(msg)
    # Before the particles, because it raises the error about JAX in single precision.
    flow = config.flow()
    seeds = _initial_positions(config, positions)
    zeta = _initial_vorticity(config, flow, start_from)
    beginning = _initial_checkpoint(flow, config, zeta)
    _check_start(config, flow, beginning.state)
    _check_space(folder, config)
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        for store in (TRAJECTORIES, SNAPSHOTS):
            # Left by a run that was killed during its creation.
            shutil.rmtree(folder / store, ignore_errors=True)
        inputs = {_POSITIONS: seeds, **({_VORTICITY: zeta} if config.start == GIVEN else {})}
        output.create(inputs)
        # The checkpoint records the configuration, so that later changes are detected.
        save_checkpoint(folder, beginning)
        _Runner(flow, output, seeds, checkpoint_seconds, progress).advance(beginning)
    return folder


def resume(
    directory: str | Path, *, checkpoint_seconds: float = 60.0, progress: Progress | None = None
) -> Path:
    """Resume a run; the result equals that of an uninterrupted run.

    Args:
        directory: Directory of the run.
        checkpoint_seconds: Wall-clock time between checkpoints.
        progress: Called after every block.
    """
    folder = Path(directory)
    config, stored = read_config(folder)
    _compare_versions(stored.get("versions", {}))
    flow, output = config.flow(), RunOutput(folder, config)
    with _locked(folder):
        checkpoint = load_checkpoint(folder)
        hashes = _check_config(folder, config, stored, checkpoint)
        seeds = _initial_positions(config, output.read_input(_POSITIONS, hashes))
        if checkpoint is None:
            if config.start == GIVEN:
                zeta = output.read_input(_VORTICITY, hashes)
            else:
                zeta = _initial_vorticity(config, flow, None)
            checkpoint = _initial_checkpoint(flow, config, zeta)
        _check_checkpoint(folder, checkpoint, flow, config)
        if not output.verify(checkpoint.written, len(checkpoint.spectra)) or not hashes:
            warn(
                f"the run in {str(folder)!r} was started by an earlier version without checksums; "
                "later changes or damage cannot be detected"
            )
        _Runner(flow, output, seeds, checkpoint_seconds, progress).advance(checkpoint)
    return folder


@dataclass
class _Runner:
    """Run that advances block by block."""

    flow: Flow
    output: RunOutput
    seeds: NDArray[np.float64]
    checkpoint_seconds: float
    progress: Progress | None
    warned: bool = False

    def __post_init__(self) -> None:
        self.config = self.output.config
        self.interpolation = INTERPOLATIONS[self.config.interpolation]

    def advance(self, now: Checkpoint) -> None:
        """Advance from a checkpoint to the end."""
        n_steps, saved = self.config.n_steps, time.monotonic()
        while int(now.state.step) < n_steps:
            before, now = now, self._flush(self._advance_block(now))
            row = dict(zip(ROW, now.rows[-1], strict=True))
            self._check_cfl(before, row)
            if self.progress is not None:
                self.progress(int(now.state.step), n_steps, row)
            if time.monotonic() - saved >= self.checkpoint_seconds:
                self.output.save(now)
                saved = time.monotonic()
        self.output.save(now)

    def _advance_block(self, now: Checkpoint) -> Checkpoint:
        """Advance to the next row of the diagnostics."""
        config = self.config
        step = int(now.state.step)
        if step == 0:
            now = self._observe(now)
        if config.n_records and step == config.spin_up_steps:
            u = look(self.flow, now.state, jnp.asarray(self.seeds), self.interpolation)
            first = np.concatenate([self.seeds, np.asarray(u)], axis=-1)[None]
            now = replace(now, x=self.seeds, waiting=first)
        target = min((step // config.diagnose_steps + 1) * config.diagnose_steps, config.n_steps)
        if step == 0:
            state, x = begin(self.flow, now.state, jnp.asarray(now.x), self.interpolation)
            now = replace(now, state=state, x=np.asarray(x))
            # The rest of the first record, after two steps.
            unit = config.record_steps if len(now.x) else target
            now = self._march(now, 1, (unit - 2) // 2)
        left = target - int(now.state.step)
        unit = config.record_steps if len(now.x) else left
        if left:
            now = self._march(now, left // unit, unit // 2)
        return self._observe(now)

    def _march(self, now: Checkpoint, n_records: int, n_pairs: int) -> Checkpoint:
        """Advance by some records."""
        state, x, records = march(
            self.flow, now.state, jnp.asarray(now.x), self.interpolation, n_records, n_pairs
        )
        waiting = np.concatenate([now.waiting, np.asarray(records)]) if len(now.x) else now.waiting
        return replace(now, state=state, x=np.asarray(x), waiting=waiting)

    def _observe(self, now: Checkpoint) -> Checkpoint:
        """Add a row of the diagnostics and, when due, a snapshot and spectra."""
        config, state = self.config, now.state
        step = int(state.step)
        now = replace(
            now, rows=np.vstack([now.rows, np.asarray(diagnostics_row(self.flow, state))])
        )
        if not config.snapshot_every or step % config.snapshot_steps:
            return now
        vorticity, values = _snapshot(self.flow, state)
        self.output.write_snapshot(step // config.snapshot_steps, np.asarray(vorticity))
        return replace(now, spectra=np.concatenate([now.spectra, np.asarray(values)[None]]))

    def _flush(self, now: Checkpoint) -> Checkpoint:
        """Move whole chunks of records from memory to disk."""
        n = self.output.write_records(now.written, now.waiting) if len(now.waiting) else 0
        return replace(now, written=now.written + n, waiting=now.waiting[n:])

    def _check_cfl(self, before: Checkpoint, row: Mapping[str, float]) -> None:
        """Stop an unstable flow, and save the last valid state."""
        cfl = row["cfl"]
        # At rest the turnover time is infinite, which is correct.
        if cfl <= CFL_LIMIT and np.isfinite(row["enstrophy_mean"]):
            if cfl > CFL_WARNING and not self.warned:
                self.warned = True
                warn(
                    f"the CFL number is {cfl:.2f} at t = {row['time']:g}; the run will stop beyond "
                    f"{CFL_LIMIT}"
                )
            return
        self.output.save(before)
        dt = self.config.dt * (0.2 / cfl if np.isfinite(cfl) else 0.5)
        raise DriftbayesError(
            f"stopped at t = {int(before.state.step) * self.config.dt:g}: the CFL number is "
            f"{cfl:.2f}, above the limit of {CFL_LIMIT}; the output up to then is valid. Run "
            f"again with a time step below {dt:.2g}"
        )


@eqx.filter_jit
def _snapshot(
    flow: Flow, state: FlowState
) -> tuple[Float[Array, "y x"], Float[Array, "kind shell"]]:
    """Compute vorticity at the points, and spectra."""
    rings = spectra(flow, state.zeta, flow.velocity(state.zeta))
    return flow.grid.to_points(state.zeta), jnp.stack(rings)


def _initial_vorticity(
    config: RunConfig, flow: Flow, start_from: str | Path | None
) -> NDArray[Any]:
    """Return the transform of the initial vorticity."""
    if (config.start == GIVEN) != (start_from is not None):
        raise DriftbayesError(
            f"start = {GIVEN!r} and start_from, the directory of another run, must be given "
            f"together; got start = {config.start!r} and start_from = {start_from!r}"
        )
    if start_from is not None:
        last = load_checkpoint(Path(start_from))
        if last is None or last.state.zeta.shape != flow.grid.shape:
            problem = "has no checkpoint" if last is None else "is on another grid"
            msg = f"{str(start_from)!r} {problem}; pass the directory of a run on the same grid"
            raise DriftbayesError(msg)
        return np.asarray(last.state.zeta)
    # The paper's start has its own seed.
    options = {} if config.start == "paper" else {"seed": config.seed}
    return STARTS[config.start](flow.grid, energy=config.start_energy, **options)


def _initial_checkpoint(
    flow: Flow, config: RunConfig, zeta: NDArray[Any] | None = None
) -> Checkpoint:
    """Return the checkpoint before the first step."""
    start = np.zeros(flow.grid.shape) if zeta is None else zeta
    return Checkpoint(
        state=flow.start(jnp.asarray(start), config.seed),
        x=np.zeros((0, 2)),
        written=0,
        waiting=np.zeros((0, config.particles, 4)),
        rows=np.zeros((0, len(ROW))),
        spectra=np.zeros((0, len(Spectra._fields), int(shells(flow.grid).max()) + 1)),
        config=config.to_json(),
    )


def _check_config(
    folder: Path, config: RunConfig, stored: Mapping[str, Any], checkpoint: Checkpoint | None
) -> Mapping[str, str]:
    """Raise an error if the configuration was changed after the start; return the files' hashes."""
    hashes = stored.get("sha256", {})
    if not isinstance(hashes, Mapping):
        hashes = {"config": ""}
    differences = []
    if checkpoint is not None and checkpoint.config is not None:
        now, then = config.to_json(), checkpoint.config
        differences = [
            f"{name} is {now.get(name)!r}, was {then.get(name)!r}"
            for name in sorted({*now, *then})
            if now.get(name) != then.get(name)
        ]
    elif "config" in hashes and hashes["config"] != config.sha256:
        differences = ["hash mismatch"]
    if differences:
        raise DriftbayesError(
            f"{CONFIG} in {str(folder)!r} was changed after the run started: "
            f"{'; '.join(differences)}. Restore it, or start a new run"
        )
    return {str(name): str(value) for name, value in hashes.items()}


def _check_checkpoint(folder: Path, stored: Checkpoint, flow: Flow, config: RunConfig) -> None:
    """Raise an error if a checkpoint does not match the configuration."""
    step = int(stored.state.step) if stored.state.step.ndim == 0 else 0
    if not 0 <= step <= config.n_steps:
        wrong = [f"step is {step}, expected 0 to {config.n_steps}"]
    else:
        lengths = dict.fromkeys(("rows", "spectra", "waiting", "x"), 0)
        if step:
            lengths["rows"] = -(-step // config.diagnose_steps) + 1
            if config.snapshot_every:
                lengths["spectra"] = step // config.snapshot_steps + 1
        if config.n_records and step > config.spin_up_steps:
            n_records = (step - config.spin_up_steps) // config.record_steps + 1
            lengths |= {"waiting": n_records - stored.written, "x": config.particles}
        arrays, wrong = stored.arrays, []
        for name, expected in _initial_checkpoint(flow, config).arrays.items():
            array, shape = arrays[name], expected.shape
            shape = (lengths[name], *shape[1:]) if name in lengths else shape
            if array.shape != shape or array.dtype != expected.dtype:
                actual = f"{name} is {array.dtype} of shape {array.shape}"
                wrong.append(f"{actual}, expected {expected.dtype} of shape {shape}")
        if not wrong and not all(np.isfinite(arrays[name]).all() for name in ("zeta", "x")):
            wrong = ["it holds numbers that are not finite"]
    if stored.written < 0:
        wrong.append(f"written is {stored.written}")
    if wrong:
        raise DriftbayesError(
            f"the checkpoint in {str(folder)!r} does not match {CONFIG}: {'; '.join(wrong)}. "
            f"Restore {CONFIG}, or delete checkpoint.npz to resume from the previous checkpoint"
        )


def _is_free(folder: Path) -> bool:
    """Whether a directory is empty, or holds only a run that was killed during its creation."""
    if not folder.is_dir():
        return False
    sweep(folder)
    names = {path.name for path in folder.iterdir()}
    # A run locks its directory before writing to it, so stores without a lock are the user's.
    return not names or (
        _LOCK in names and names <= {_POSITIONS, _VORTICITY, _LOCK, TRAJECTORIES, SNAPSHOTS}
    )


def _initial_positions(config: RunConfig, positions: ArrayLike | None) -> NDArray[np.float64]:
    """Return given or uniform initial positions, after checking them."""
    if positions is None:
        return np.asarray(seed_particles(config.particles, config.seed))
    given = np.asarray(positions, dtype=np.float64)
    if given.shape != (config.particles, 2) or not np.isfinite(given).all():
        raise DriftbayesError(
            f"positions must be {config.particles} pairs of finite numbers, one per particle, got "
            f"an array of shape {given.shape}"
        )
    return given


def _check_start(config: RunConfig, flow: Flow, state: FlowState) -> None:
    """Raise an error if the initial CFL number is too large."""
    cfl = float(diagnostics_row(flow, state)[ROW.index("cfl")])
    if not cfl <= CFL_START:
        raise DriftbayesError(
            f"the time step {config.dt:g} is too large: the initial CFL number is {cfl:.2f}, above "
            f"the limit of {CFL_START}; use a time step below {config.dt * 0.2 / cfl:.2g}"
        )


def _check_space(folder: Path, config: RunConfig) -> None:
    """Raise an error if the output of a run does not fit on the disk."""
    needed = config.n_records * config.particles * 24
    needed += (120 + 4 * config.n_snapshots) * config.grid**2
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(there).free
    if needed > free:
        raise DriftbayesError(
            f"the run will write about {needed / 1e9:.1f} GB, but {str(there)!r} has "
            f"{free / 1e9:.1f} GB free; record less often, track fewer particles or choose "
            "another directory"
        )


def _compare_versions(before: Mapping[str, str]) -> None:
    """Warn if versions or the device changed since the start of the run."""
    now = versions()
    changed = [
        f"{name} {before[name]} → {now[name]}" for name in now if before.get(name) != now[name]
    ]
    if changed:
        warn(
            f"the run was started with other versions ({', '.join(changed)}); its numbers from "
            "here on may differ in the last digits from those of an uninterrupted run"
        )


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Raise an error if another process is running in the same directory."""
    with (folder / _LOCK).open("w") as file:
        try:
            import fcntl
        except ImportError:  # no file locks on this system
            yield
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            msg = f"another process is running in {str(folder)!r}; wait for it or stop it first"
            raise DriftbayesError(msg) from error
        yield
