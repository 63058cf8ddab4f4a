"""Configuration of a run: one record, checked once, stored as JSON."""

__all__ = ["GIVEN", "PRESETS", "RunConfig"]

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, get_args

from driftbayes.errors import DriftbayesError, did_you_mean
from driftbayes.turbulence.flow import Dissipation, Filter, Flow, Precision, check_choice
from driftbayes.turbulence.forcing import Forcing, checked_ring
from driftbayes.turbulence.grid import Grid
from driftbayes.turbulence.noise import STARTS, key_words
from driftbayes.turbulence.particles import INTERPOLATIONS

# Start from the last state of another run.
GIVEN = "given"
# A time is a whole number of steps if it is within this of one, relative to a step.
_STEP_TOLERANCE = 1e-6
_POSITIVE = ("dt", "record_every", "diagnose_every")
_NOT_NEGATIVE = (
    *("spin_up", "duration", "snapshot_every", "start_energy", "hypofriction", "drag"),
    *("viscosity", "hyperviscosity"),
)


@dataclass(frozen=True)
class RunConfig:
    """Complete configuration of a run of the flow with particles.

    Times are in the flow's unit; the domain is 2π wide.

    Args:
        grid: Points along each side.
        dt: Time step.
        spin_up: Time before the particles are released.
        duration: Time for which the particles are tracked.
        particles: Number of particles.
        record_every: Time between recorded positions.
        diagnose_every: Time between rows of the diagnostics.
        snapshot_every: Time between snapshots of vorticity and spectra; 0 for none.
        epsilon: Mean rate of energy injection per unit area.
        k_f: Wavenumber of the forcing.
        k_f_width: Half width of the forcing ring.
        forcing_shape: Dependence of the kicks on |k| within the ring.
        hypofriction: A of the large-scale friction Aψ.
        drag: Linear drag.
        viscosity: Viscosity.
        hyperviscosity: Hyperviscosity.
        hyperviscosity_power: Power p of its k^(2p).
        beta: Gradient of the Coriolis parameter.
        filter: "per-step" (the paper's), "rate" or "none".
        truncate: Whether to remove |kx|, |ky| >= n/3.
        precision: "double" or "single".
        interpolation: "bilinear" (the paper's), "cubic" or "quintic".
        seed: Random seed of the forcing, the particles and a random start.
        start: "paper", "random", "rest", or "given": the last state of another run.
        start_energy: Mean energy per unit area at the start.
    """

    grid: int = 128
    dt: float = 2e-3
    spin_up: float = 30.0
    duration: float = 30.0
    particles: int = 200
    record_every: float = 0.02
    diagnose_every: float = 0.2
    snapshot_every: float = 1.0
    epsilon: float = 0.00636
    k_f: float = 20.0
    k_f_width: float = 2.0
    forcing_shape: str = "paper"
    hypofriction: float = 1.0
    drag: float = 0.0
    viscosity: float = 0.0
    hyperviscosity: float = 0.0
    hyperviscosity_power: int = 4
    beta: float = 0.0
    filter: Filter = "per-step"
    truncate: bool = False
    precision: Precision = "double"
    interpolation: str = "bilinear"
    seed: int = 0
    start: str = "random"
    start_energy: float = 0.5

    def __post_init__(self) -> None:
        Grid(self.grid)
        key_words(self.seed, "forcing")
        check_choice("filter", self.filter, get_args(Filter))
        check_choice("precision", self.precision, get_args(Precision))
        check_choice("interpolation", self.interpolation, INTERPOLATIONS)
        check_choice("start", self.start, (*STARTS, GIVEN))
        for name in (*_POSITIVE, *_NOT_NEGATIVE):
            value = getattr(self, name)
            if not math.isfinite(value) or value < 0 or (name in _POSITIVE and value == 0):
                kind = "a positive number" if name in _POSITIVE else "0 or more"
                raise DriftbayesError(f"{name} must be {kind}, got {value}")
        if not math.isfinite(self.beta):
            raise DriftbayesError(f"beta must be a number, got {self.beta}")
        if self.particles != int(self.particles) or not 0 <= self.particles <= 10**8:
            msg = f"particles must be a whole number from 0 to 10⁸, got {self.particles}"
            raise DriftbayesError(msg)
        if self.spin_up + self.duration <= 0:
            raise DriftbayesError("spin_up and duration are both 0; one of them must be positive")
        if self.record_steps < 4:
            raise DriftbayesError(
                f"record_every must be at least four steps of dt = {self.dt:g}, got "
                f"{self.record_every:g}"
            )
        self._check_multiple("diagnose_every", "record_every")
        self._check_multiple("duration", "record_every")
        if self.snapshot_every:
            self._check_multiple("snapshot_every", "diagnose_every")
        self._check_multiple("spin_up", "diagnose_every")
        # Raises an error for a ring outside the grid.
        checked_ring(Grid(self.grid), **self._ring)

    @classmethod
    def preset(cls, name: str, **changes: Any) -> "RunConfig":
        """Return a configuration by name, with changes.

        Args:
            name: One of `PRESETS`.
            **changes: Fields that differ.
        """
        if name not in PRESETS:
            near = did_you_mean(name, PRESETS)
            raise DriftbayesError(
                f"unknown preset {name!r}; choose from {', '.join(PRESETS)}{near}"
            )
        return cls(**{**PRESETS[name], **changes})

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "RunConfig":
        """Return the configuration from the content of `to_json`."""
        unknown = sorted(set(stored) - {field.name for field in fields(cls)})
        if unknown:
            raise DriftbayesError(
                f"unknown fields in the configuration: {', '.join(unknown)}; use the version of "
                "driftbayes that wrote it"
            )
        try:
            return cls(**stored)
        except TypeError as error:
            raise DriftbayesError(f"the configuration is damaged: {error}") from error

    def to_json(self) -> dict[str, Any]:
        """Return all fields, for a file."""
        return asdict(self)

    @property
    def sha256(self) -> str:
        """Hash of all fields."""
        text = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def changed(self, **changes: Any) -> "RunConfig":
        """Return a validated copy with changed fields."""
        return replace(self, **changes)

    def _steps(self, name: str) -> int:
        """Return a time as an even number of steps, because particles advance two at a time."""
        time = getattr(self, name)
        steps = 2 * round(time / (2 * self.dt))
        if abs(steps - time / self.dt) > _STEP_TOLERANCE:
            raise DriftbayesError(
                f"{name} must be an even number of steps of dt = {self.dt:g}, got {time:g} = "
                f"{time / self.dt:.6g} steps; the nearest is {steps * self.dt:.10g}"
            )
        return steps

    record_steps = property(lambda c: c._steps("record_every"), doc="Steps between records.")
    diagnose_steps = property(lambda c: c._steps("diagnose_every"), doc="Steps between rows.")
    snapshot_steps = property(lambda c: c._steps("snapshot_every"), doc="Steps between snapshots.")
    spin_up_steps = property(lambda c: c._steps("spin_up"), doc="Steps before release.")
    duration_steps = property(lambda c: c._steps("duration"), doc="Steps after release.")

    @property
    def n_steps(self) -> int:
        """Total number of steps."""
        return int(self.spin_up_steps + self.duration_steps)

    @property
    def n_records(self) -> int:
        """Number of records of the particles, the first at their release."""
        return self.duration_steps // self.record_steps + 1 if self.particles else 0

    @property
    def n_snapshots(self) -> int:
        """Number of snapshots of the vorticity, the first at the start."""
        return self.n_steps // self.snapshot_steps + 1 if self.snapshot_every else 0

    def flow(self) -> Flow:
        """Return the equation to solve."""
        grid = Grid(self.grid)
        shared = {f.name for f in fields(Dissipation)} & {f.name for f in fields(self)}
        return Flow.make(
            grid,
            self.dt,
            dissipation=Dissipation(**{name: getattr(self, name) for name in shared}),
            forcing=Forcing.on_ring(grid, **self._ring) if self.epsilon else None,
            precision=self.precision,
        )

    @property
    def _ring(self) -> dict[str, Any]:
        """Arguments of the forcing."""
        names = {"epsilon": "epsilon", "k_f": "k_f", "width": "k_f_width", "shape": "forcing_shape"}
        return {name: getattr(self, own) for name, own in names.items()}

    def _check_multiple(self, name: str, unit: str) -> None:
        """Raise an error unless one time is a multiple of another."""
        steps, unit_steps = self._steps(name), self._steps(unit)
        if steps % unit_steps or (steps == 0 and name == "diagnose_every"):
            nearest = max(round(steps / unit_steps), 1) * unit_steps * self.dt
            raise DriftbayesError(
                f"{name} must be a multiple of {unit} = {unit_steps * self.dt:g}, got "
                f"{steps * self.dt:g}; the nearest is {nearest:.10g}"
            )


_LARGE: dict[str, Any] = {"particles": 1000, "record_every": 0.02, "diagnose_every": 0.2}
PRESETS: dict[str, dict[str, Any]] = {
    # A minute on two cores.
    "tiny": {},
    # An inverse cascade from k = 32, with vortices, in less than twenty minutes on two cores.
    "laptop": _LARGE
    | {"grid": 256, "dt": 1e-3, "spin_up": 120.0, "duration": 120.0, "snapshot_every": 2.0}
    | {"k_f": 32.0, "interpolation": "quintic"},
    # The paper's experiment, with the rate of energy injection intended by its amplitude.
    "paper": _LARGE
    | {"grid": 1024, "dt": 2.5e-4, "spin_up": 500.0, "duration": 500.0, "snapshot_every": 10.0}
    | {"k_f": 64.0, "start": "paper"},
}
