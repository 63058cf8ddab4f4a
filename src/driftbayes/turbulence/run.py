"""A run from start to end: spin-up, release of the particles, records, checkpoints.

The run goes in blocks of `diagnose_every`, each one compiled program, and everything it writes is
a function of the state at the beginning of the block. A run that is killed and resumed repeats
the blocks since its last checkpoint, writes the same numbers again and goes on: the output is the
same, bit for bit.
"""

__all__ = ["CFL_LIMIT", "CFL_START", "Progress", "resume", "run"]

import shutil
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeAlias

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike, NDArray

from driftbayes.errors import DriftbayesError, DriftbayesWarning
from driftbayes.storage.leftovers import sweep
from driftbayes.turbulence.budgets import FlowStatistics, flow_statistics, step_budget
from driftbayes.turbulence.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from driftbayes.turbulence.config import GIVEN, RunConfig
from driftbayes.turbulence.flow import Flow
from driftbayes.turbulence.interpolation import INTERPOLATIONS
from driftbayes.turbulence.march import begin, look, march
from driftbayes.turbulence.output import (
    CONFIG,
    SNAPSHOTS,
    TRAJECTORIES,
    RunOutput,
    read_config,
    versions,
)
from driftbayes.turbulence.particles import seed_particles
from driftbayes.turbulence.spectra import shells, spectra
from driftbayes.turbulence.start import STARTS
from driftbayes.turbulence.state import FlowState

# Steps done, steps in all, and the latest row of the diagnostics.
Progress: TypeAlias = Callable[[int, int, Mapping[str, float]], None]

# In a uniform flow AB3 with the filter is stable up to 0.324 grid spacings per step. The fastest
# fluid of a turbulent one sits in the core of a vortex, a few cells wide and never for long: the
# paper's flow goes through peaks of 0.36 unharmed.
CFL_START, CFL_WARNING, CFL_LIMIT = 0.32, 0.28, 0.42

_POSITIONS, _VORTICITY, _LOCK = "positions.npy", "vorticity.npy", ".lock"
_CAUSES = ("linear", "advection", "filter", "injection", "residual")
_ROW = (
    "time",
    *(field.name for field in fields(FlowStatistics)),
    *(f"{what}_{cause}_rate" for what in ("energy", "enstrophy") for cause in _CAUSES),
)


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
        config: What to run.
        directory: Where to; it must not hold a run already.
        positions: Where to release the particles, (particle, 2); by default uniformly at random.
        start_from: Directory of another run, on the same grid, whose last state is the start; the
            configuration then says `start="given"`. Time begins at 0 again.
        checkpoint_seconds: Wall-clock time between checkpoints.
        progress: Called after every block.
    """
    folder = Path(directory)
    output = RunOutput(folder, config)
    if output.exists:
        msg = (
            f"{str(folder)!r} already holds a run; go on with `driftbayes turbulence resume "
            f"{folder}`, or choose another directory"
        )
        raise DriftbayesError(msg)
    if folder.exists() and not _is_free(folder):
        msg = f"{str(folder)!r} exists and is not an empty directory; choose another name"
        raise DriftbayesError(msg)
    # The flow before the particles: it refuses single precision in one sentence.
    flow = config.flow()
    seeds = _seeds(config, positions)
    zeta = _start(config, flow, start_from)
    beginning = _beginning(flow, config, zeta)
    _check_start(config, flow, beginning.state)
    _check_space(folder, config)
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        for store in (TRAJECTORIES, SNAPSHOTS):
            # Of a run that was killed being born, perhaps of another configuration.
            shutil.rmtree(folder / store, ignore_errors=True)
        inputs = {_POSITIONS: seeds, **({_VORTICITY: zeta} if config.start == GIVEN else {})}
        output.create(inputs)
        # From now on the configuration is bound to a checkpoint.
        save_checkpoint(folder, beginning)
        _Runner(flow, config, output, seeds, checkpoint_seconds, progress).go(beginning)
    return folder


def resume(
    directory: str | Path, *, checkpoint_seconds: float = 60.0, progress: Progress | None = None
) -> Path:
    """Go on with a run that was stopped; the result is that of a run that was not.

    Args:
        directory: Of the run.
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
        seeds = _seeds(config, output.read_input(_POSITIONS, hashes))
        if checkpoint is None:
            given = config.start == GIVEN
            zeta = output.read_input(_VORTICITY, hashes) if given else _start(config, flow, None)
            checkpoint = _beginning(flow, config, zeta)
        _check_fits(folder, checkpoint, _beginning(flow, config, np.zeros(flow.grid.shape)), config)
        if not output.verify(checkpoint.written, len(checkpoint.spectra)) or not hashes:
            warnings.warn(
                f"the run in {str(folder)!r} was begun by an earlier version, without checksums: "
                "what was changed or damaged since then cannot be told",
                DriftbayesWarning,
                stacklevel=2,
            )
        _Runner(flow, config, output, seeds, checkpoint_seconds, progress).go(checkpoint)
    return folder


class _Runner:
    """The blocks of a run, one after the other."""

    def __init__(
        self,
        flow: Flow,
        config: RunConfig,
        output: RunOutput,
        seeds: NDArray[np.float64],
        checkpoint_seconds: float,
        progress: Progress | None,
    ) -> None:
        self.flow, self.config, self.output, self.seeds = flow, config, output, seeds
        self.checkpoint_seconds, self.progress = checkpoint_seconds, progress
        self.interpolation = INTERPOLATIONS[config.interpolation]
        self.warned = False

    def go(self, now: Checkpoint) -> None:
        """From a checkpoint to the end."""
        config = self.config
        saved = time.monotonic()
        while int(now.state.step) < config.n_steps:
            before, now = now, self._flushed(self._block(now))
            row = dict(zip(_ROW, now.rows[-1], strict=True))
            self._check(before, row)
            if self.progress is not None:
                self.progress(int(now.state.step), config.n_steps, row)
            if time.monotonic() - saved >= self.checkpoint_seconds:
                self._save(now)
                saved = time.monotonic()
        self._save(now)

    def _block(self, now: Checkpoint) -> Checkpoint:
        """On to the next row of the diagnostics."""
        config = self.config
        step = int(now.state.step)
        if step == 0:
            now = self._observed(now)
        if config.n_records and step == config.spin_up_steps:
            now = self._released(now)
        target = min((step // config.diagnose_steps + 1) * config.diagnose_steps, config.n_steps)
        if step == 0:
            state, x = begin(self.flow, now.state, jnp.asarray(now.x), self.interpolation)
            now = replace(now, state=state, x=np.asarray(x))
            # Up to the first record, of which two steps are done.
            unit = config.record_steps if len(now.x) else target
            now = self._marched(now, 1, (unit - 2) // 2)
        left = target - int(now.state.step)
        unit = config.record_steps if len(now.x) else left
        if left:
            now = self._marched(now, left // unit, unit // 2)
        return self._observed(now)

    def _marched(self, now: Checkpoint, n_records: int, n_pairs: int) -> Checkpoint:
        state, x, records = march(
            self.flow, now.state, jnp.asarray(now.x), self.interpolation, n_records, n_pairs
        )
        waiting = now.waiting
        if len(now.x):
            fresh = np.concatenate([np.asarray(records.x), np.asarray(records.u)], axis=-1)
            waiting = np.concatenate([waiting, fresh])
        return replace(now, state=state, x=np.asarray(x), waiting=waiting)

    def _released(self, now: Checkpoint) -> Checkpoint:
        """The particles, where they are released, and the first record."""
        u = look(self.flow, now.state, jnp.asarray(self.seeds), self.interpolation)
        first = np.concatenate([self.seeds, np.asarray(u)], axis=-1)[None]
        return replace(now, x=self.seeds, waiting=first)

    def _observed(self, now: Checkpoint) -> Checkpoint:
        """With a row of the diagnostics and, when it is time, a snapshot and spectra."""
        config, state = self.config, now.state
        step = int(state.step)
        now = replace(now, rows=np.vstack([now.rows, np.asarray(_row(self.flow, state))]))
        if not config.snapshot_every or step % config.snapshot_steps:
            return now
        vorticity, values = _snapshot(self.flow, state)
        self.output.write_snapshot(step // config.snapshot_steps, np.asarray(vorticity))
        return replace(now, spectra=np.concatenate([now.spectra, np.asarray(values)[None]]))

    def _flushed(self, now: Checkpoint) -> Checkpoint:
        """With whole chunks of records on disk and no longer in memory."""
        n = self.output.write_records(now.written, now.waiting) if len(now.waiting) else 0
        return replace(now, written=now.written + n, waiting=now.waiting[n:])

    def _save(self, now: Checkpoint) -> None:
        self.output.write_diagnostics(_ROW, now.rows)
        if len(now.spectra):
            self.output.write_spectra(now.spectra)
        save_checkpoint(self.output.directory, now)

    def _check(self, before: Checkpoint, row: Mapping[str, float]) -> None:
        """Stop where the flow cannot be trusted, with the last state that can be."""
        cfl = row["cfl"]
        # At rest the turnover time is infinite, and nothing is wrong.
        if cfl <= CFL_LIMIT and np.isfinite(row["enstrophy_mean"]):
            if cfl > CFL_WARNING and not self.warned:
                self.warned = True
                warnings.warn(
                    f"the fastest fluid crosses {cfl:.2f} grid spacings per step at t = "
                    f"{row['time']:g}; beyond {CFL_LIMIT} the run will stop",
                    DriftbayesWarning,
                    stacklevel=2,
                )
            return
        self._save(before)
        is_number = np.isfinite(cfl)
        found = f"{cfl:.2f}" if is_number else "infinitely many"
        dt = self.config.dt * (0.2 / cfl if is_number else 0.5)
        msg = (
            f"stopped at t = {int(before.state.step) * self.config.dt:g}: the fastest fluid "
            f"crosses {found} grid spacings per step, more than the limit of {CFL_LIMIT}; what was "
            f"written until then is good. Run again with a time step below {dt:.2g}"
        )
        raise DriftbayesError(msg)


@eqx.filter_jit
def _row(flow: Flow, state: FlowState) -> Float[Array, " column"]:
    """Compute one row of the diagnostics; budgets are those of the step that begins here."""
    q = flow.velocity(state.zeta)
    statistics = flow_statistics(flow, state.zeta, q)
    budgets = step_budget(flow, state, q)
    values = [state.step * flow.dt]
    values += [getattr(statistics, field.name) for field in fields(FlowStatistics)]
    values += [getattr(budget, cause) / flow.dt for budget in budgets for cause in _CAUSES]
    return jnp.stack(values)


@eqx.filter_jit
def _snapshot(
    flow: Flow, state: FlowState
) -> tuple[Float[Array, "y x"], Float[Array, "kind shell"]]:
    found = spectra(flow, state.zeta, flow.velocity(state.zeta))
    values = jnp.stack([found.energy, found.enstrophy, found.transfer, found.flux])
    return flow.grid.to_points(state.zeta), values


def _start(config: RunConfig, flow: Flow, start_from: str | Path | None) -> NDArray[Any]:
    """Transform of the vorticity to start from."""
    if (config.start == GIVEN) != (start_from is not None):
        msg = (
            f"start = {GIVEN!r} and start_from, the directory of another run, go together; got "
            f"start = {config.start!r} and start_from = {start_from!r}"
        )
        raise DriftbayesError(msg)
    if start_from is not None:
        last = load_checkpoint(Path(start_from))
        if last is None or last.state.zeta.shape != flow.grid.shape:
            found = "has no checkpoint" if last is None else "is on another grid"
            msg = f"{str(start_from)!r} {found}; name the directory of a run on the same grid"
            raise DriftbayesError(msg)
        return np.asarray(last.state.zeta)
    # The paper's start has a seed of its own.
    options = {} if config.start == "paper" else {"seed": config.seed}
    return STARTS[config.start](flow.grid, energy=config.start_energy, **options)


def _beginning(flow: Flow, config: RunConfig, zeta: NDArray[Any]) -> Checkpoint:
    return Checkpoint(
        state=flow.start(jnp.asarray(zeta), config.seed),
        x=np.zeros((0, 2)),
        written=0,
        waiting=np.zeros((0, config.particles, 4)),
        rows=np.zeros((0, len(_ROW))),
        spectra=np.zeros((0, 4, int(shells(flow.grid).max()) + 1)),
        config=config.to_json(),
    )


def _check_config(
    folder: Path, config: RunConfig, stored: Mapping[str, Any], checkpoint: Checkpoint | None
) -> Mapping[str, str]:
    """Refuse a configuration that is not the run's own; hashes of its files are returned."""
    hashes = stored.get("sha256", {})
    if not isinstance(hashes, Mapping):
        hashes = {"config": ""}
    bound = None if checkpoint is None else checkpoint.config
    differences = []
    if bound is not None:
        now = config.to_json()
        differences = [
            f"{name} is {now.get(name)!r}, was {bound.get(name)!r}"
            for name in sorted({*now, *bound})
            if now.get(name) != bound.get(name)
        ]
    elif "config" in hashes and hashes["config"] != config.sha256:
        differences = ["its hash does not match"]
    if differences:
        msg = (
            f"{CONFIG} in {str(folder)!r} was changed after the run began: "
            f"{'; '.join(differences)}. Put it back as it was, or start a new run"
        )
        raise DriftbayesError(msg)
    return {str(name): str(value) for name, value in hashes.items()}


def _check_fits(folder: Path, found: Checkpoint, empty: Checkpoint, config: RunConfig) -> None:
    """Refuse a checkpoint that is not of this configuration.

    Args:
        folder: Of the run.
        found: The checkpoint.
        empty: One of the beginning, for the shapes.
        config: The configuration.
    """
    n_x = config.particles if len(found.x) else 0
    pairs: dict[str, tuple[Any, Any]] = {
        "zeta": (found.state.zeta, empty.state.zeta),
        "before": (found.state.older[0], empty.state.older[0]),
        "long_before": (found.state.older[1], empty.state.older[1]),
        "key": (found.state.key, empty.state.key),
        "step": (found.state.step, empty.state.step),
        "x": (found.x, np.zeros((n_x, 2))),
    }
    wrong = [
        f"{name} is {a.dtype} of shape {a.shape}, expected {b.dtype} of shape {b.shape}"
        for name, (a, b) in pairs.items()
        if a.shape != b.shape or a.dtype != b.dtype
    ]
    for name in ("waiting", "rows", "spectra"):
        a, b = getattr(found, name), getattr(empty, name)
        if a.ndim != b.ndim or a.shape[1:] != b.shape[1:] or a.dtype != b.dtype:
            wrong.append(f"{name} is of shape {a.shape}, expected (…, {str(b.shape[1:])[1:]}")
    if not wrong:
        wrong = _check_counts(found, config)
    if not wrong and not all(np.isfinite(a).all() for a in (found.state.zeta, found.x)):
        wrong = ["it holds numbers that are not finite"]
    if wrong:
        msg = (
            f"the checkpoint in {str(folder)!r} does not fit {CONFIG}: {'; '.join(wrong)}. Put "
            f"{CONFIG} back as it was, or delete checkpoint.npz to go on from the one before it"
        )
        raise DriftbayesError(msg)


def _check_counts(found: Checkpoint, config: RunConfig) -> list[str]:
    """What is wrong with how much a checkpoint holds, for the step that it is at."""
    step = int(found.state.step)
    if not 0 <= step <= config.n_steps:
        return [f"step is {step}, expected 0 to {config.n_steps}"]
    n_rows = n_spectra = n_records = 0
    if step:
        n_rows = -(-step // config.diagnose_steps) + 1
        if config.snapshot_every:
            n_spectra = step // config.snapshot_steps + 1
    if config.n_records and step > config.spin_up_steps:
        n_records = (step - config.spin_up_steps) // config.record_steps + 1
    counts = {
        "rows": (len(found.rows), n_rows),
        "spectra": (len(found.spectra), n_spectra),
        "records": (found.written + len(found.waiting), n_records),
    }
    wrong = [
        f"{has} {name} at step {step}, expected {due}"
        for name, (has, due) in counts.items()
        if has != due
    ]
    if found.written < 0:
        wrong.append(f"written is {found.written}")
    return wrong


def _is_free(folder: Path) -> bool:
    """Whether a directory is empty, or holds no more than a run that was killed being born."""
    if not folder.is_dir():
        return False
    sweep(folder)
    names = {path.name for path in folder.iterdir()}
    # A run locks its directory before it writes anything there: stores without that are not ours.
    return not names or (
        _LOCK in names and names <= {_POSITIONS, _VORTICITY, _LOCK, TRAJECTORIES, SNAPSHOTS}
    )


def _seeds(config: RunConfig, positions: ArrayLike | None) -> NDArray[np.float64]:
    if positions is None:
        return np.asarray(seed_particles(config.particles, config.seed))
    given = np.asarray(positions, dtype=np.float64)
    if given.shape != (config.particles, 2) or not np.isfinite(given).all():
        msg = (
            f"positions must be {config.particles} pairs of finite numbers, as many as there are "
            f"particles, got an array of shape {given.shape}"
        )
        raise DriftbayesError(msg)
    return given


def _check_start(config: RunConfig, flow: Flow, state: FlowState) -> None:
    cfl = float(_row(flow, state)[_ROW.index("cfl")])
    if not cfl <= CFL_START:
        msg = (
            f"the time step {config.dt:g} is too large: at the start the fastest fluid crosses "
            f"{cfl:.2f} grid spacings per step, more than the limit of {CFL_START}; use a time "
            f"step below {config.dt * 0.2 / cfl:.2g}"
        )
        raise DriftbayesError(msg)


def _check_space(folder: Path, config: RunConfig) -> None:
    """Refuse a run for which the disk has no room, before anything is written."""
    needed = config.n_records * config.particles * 24
    needed += (120 + 4 * config.n_snapshots) * config.grid**2
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(there).free
    if needed > free:
        msg = (
            f"the run will write about {needed / 1e9:.1f} GB, but {str(there)!r} has "
            f"{free / 1e9:.1f} GB free; record less often, follow fewer particles or choose "
            "another place"
        )
        raise DriftbayesError(msg)


def _compare_versions(before: Mapping[str, str]) -> None:
    now = versions()
    changed = [
        f"{name} {before[name]} → {now[name]}" for name in now if before.get(name) != now[name]
    ]
    if changed:
        warnings.warn(
            f"the run was begun with other versions ({', '.join(changed)}); from here on its "
            "numbers may differ in the last digits from those of an unbroken run",
            DriftbayesWarning,
            stacklevel=3,
        )


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Refuse a second process in the same directory."""
    with (folder / _LOCK).open("w") as file:
        try:
            import fcntl
        except ImportError:  # no such locks on this system
            yield
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            msg = f"another process is running in {str(folder)!r}; wait for it or stop it first"
            raise DriftbayesError(msg) from error
        yield
