"""Data sets of the page, read from files or simulated."""

import math
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from driftbayes import workflow
from driftbayes._magnitudes import checked
from driftbayes._representation import repeat_command
from driftbayes._typing import FloatArray
from driftbayes.data._sampling import Displacements, displacements, snap_taus
from driftbayes.data._trajectories import Trajectories
from driftbayes.diagnostics.survey import Survey, survey
from driftbayes.errors import DriftbayesError
from driftbayes.io import read_trajectories
from driftbayes.models import MODELS

# Few sizes, since a program is compiled for each.
CHOICES: dict[str, tuple[float, ...]] = {
    "particles": (3, 10, 30, 100),
    "steps": (50, 100, 200, 400),
    "interval": (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0),
}
# Initial value and range of each slider. Rates are in units of 1/time.
_RANGES: dict[str, tuple[float, float, float]] = {
    "gamma": (1.0, 0.05, 20.0),
    "k": (1.0, 0.05, 20.0),
    "kappa": (1.0, 0.05, 20.0),
    "hurst": (0.7, 0.05, 0.95),
    "reference": (1.0, 0.1, 10.0),
    "well": (0.5, 0.01, 10.0),
    "accel": (10.0, 0.5, 100.0),
    "smoothness": (1.5, 0.3, 6.0),
    "omega": (3.0, 0.1, 20.0),
    "ratio": (0.1, 0.01, 0.9),
    "share": (0.5, 0.05, 0.95),
}
START = {"model": "langevin", "particles": 10, "steps": 100, "interval": 1.0, "seed": 0}
_SIMULATED = "simulated.csv"


@dataclass(frozen=True, eq=False)
class Reading:
    """Contents of a file.

    Args:
        trajectories: The trajectories.
        format: Description of the format; empty if unknown.
        options: Reading options of the command line.
        notes: Notes on changes to the data.
    """

    trajectories: Trajectories
    format: str = ""
    options: Sequence[str] = ()
    notes: Sequence[str] = ()


# Arguments of `DataSet` that are sent to another process.
Portable: TypeAlias = tuple[Reading, str, str]
# Reads a file with options of the command line.
Read = Callable[[Path, str], Reading]


def read_file(path: Path, options: str) -> Reading:
    """Read a file; options need the parser of the command line."""
    if options.strip():
        msg = f"reading options need the command `driftbayes explore`, got {options!r}"
        raise DriftbayesError(msg)
    return Reading(read_trajectories(path))


@dataclass(frozen=True, eq=False)
class DataSet:
    """Trajectories to which models are fitted.

    Args:
        reading: Contents of the file.
        name: Name on the page and in commands.
        made_by: Command that simulated the file, if any.
        path: Path of the file, to be read again with other options.
        key: Identifier in the compute process.
    """

    reading: Reading
    name: str
    made_by: str = ""
    path: Path | None = None
    key: str = field(default_factory=lambda: secrets.token_hex(8))
    _displacements: dict[float | None, Displacements] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def portable(self) -> Portable:
        """Arguments of `DataSet` that are sent to another process."""
        return self.reading, self.name, self.made_by

    @property
    def trajectories(self) -> Trajectories:
        """The trajectories."""
        return self.reading.trajectories

    @cached_property
    def survey(self) -> Survey:
        """Sampling and rounding of the trajectories."""
        return survey(self.trajectories)

    @cached_property
    def taus(self) -> list[float]:
        """Suggested sampling times; none if every fix should be used at its own interval."""
        low, high = self.survey.tau_low, self.survey.tau_high
        if low is None or high is None:
            return []
        wanted = np.geomspace(low, high, self.survey.n_taus)
        return [float(tau) for tau in snap_taus(self.trajectories, wanted)]

    @cached_property
    def spread(self) -> FloatArray:
        """Mean square displacement per axis over twice the time, at each sampling time."""
        return np.array([self._spread(tau) for tau in self.taus])

    def _spread(self, tau: float) -> float:
        try:
            dx = self.displacements(tau).dx
        except DriftbayesError:
            # All runs between gaps may be too short.
            return float("nan")
        return float(np.mean(dx**2) / (2 * tau))

    def displacements(self, tau: float | None) -> Displacements:
        """Return displacements at a sampling time, or at the intervals of the fixes; cached."""
        with self._lock:
            if tau not in self._displacements:
                self._displacements[tau] = displacements(self.trajectories, tau)
            return self._displacements[tau]


# Simulations


def sliders() -> dict[str, list[dict[str, Any]]]:
    """Return for each model its parameters, with the value and range of their sliders."""
    return {
        name: [
            {
                "name": parameter,
                "symbol": about.symbol,
                "meaning": about.meaning,
                "unit": about.unit(),
                # Bounded parameters have linear sliders, others logarithmic ones.
                "is_log": math.isinf(about.upper),
                **dict(zip(("value", "low", "high"), _RANGES[parameter], strict=True)),
            }
            for parameter, about in model.parameters.items()
        ]
        for name, model in MODELS.items()
    }


def simulate(request: Mapping[str, Any]) -> DataSet:
    """Simulate a data set.

    Args:
        request: `model`, `theta` by name, `particles`, `steps`, `interval`, `seed`.
    """
    name = str(request.get("model"))
    if name not in MODELS:
        raise DriftbayesError(f"unknown model {name!r}; known are {', '.join(MODELS)}")
    model = MODELS[name]
    given = request.get("theta")
    theta = (
        {p: checked(given.get(p), p) for p in model.parameters} if isinstance(given, dict) else {}
    )
    for parameter, about in model.parameters.items():
        if not 0 < theta.get(parameter, 0.0) < about.upper:
            raise DriftbayesError(
                f"{parameter} must be a positive number below {about.upper:g}, "
                f"got {theta.get(parameter)}"
            )
    sizes = {what: checked(request.get(what), what) for what in CHOICES}
    for what, choices in CHOICES.items():
        if sizes[what] not in choices:
            known = ", ".join(f"{choice:g}" for choice in choices)
            raise DriftbayesError(f"{what} must be one of {known}, got {sizes[what]:g}")
    seed = checked(request.get("seed"), "seed")
    if seed != int(seed) or not 0 <= seed < 2**31:
        raise DriftbayesError(f"seed must be a whole number from 0 to 2^31 - 1, got {seed:g}")
    shape = {"n_particles": int(sizes["particles"]), "n_steps": int(sizes["steps"]), "n_dim": 2}
    made = workflow.simulate(name, theta, tau=sizes["interval"], seed=int(seed), **shape)
    trajectories = replace(made, provenance={"source": _SIMULATED, **made.provenance})
    options = {o: f"{value:.10g}" for o, value in made.provenance.items() if o != "simulated"}
    command = repeat_command("simulate", name, options, _SIMULATED)
    reading = Reading(trajectories, format=f"simulated from the model {name}")
    return DataSet(reading, _SIMULATED, made_by=command)
