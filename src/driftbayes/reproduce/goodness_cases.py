"""The data sets on which the goodness-of-fit check is tried: true models and wrong ones."""

__all__ = ["CASES", "Case", "cases_named"]

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any, Literal

import jax
import numpy as np

from driftbayes.comparison import make_hypotheses
from driftbayes.data.sampling import Displacements, displacements
from driftbayes.data.trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Hypothesis
from driftbayes.models import MODELS, model_named
from driftbayes.suggest import did_you_mean
from driftbayes.typing import FloatArray

# Velocity and time scale of the priors; all parameters below are in these units.
U_RMS, TIMESCALE, TAU, N_DIM = 1.0, 1.0, 0.5, 2
Sampling = Literal["regular", "gaps", "irregular", "errors"]


@dataclass(frozen=True)
class Case:
    """Data of one kind, and the model that judges them.

    Args:
        name: Short name.
        words: The data in words.
        made_by: Model that the data are simulated from.
        theta: Its parameters; none to draw them from the prior.
        judged_by: Model that is checked; None for the same.
        n_particles: Trajectories.
        n_steps: Steps of each, before some positions are removed.
        sampling: "gaps" removes 15 % of the positions, "irregular" two thirds of them, "errors"
            adds known measurement errors.
        drift: Velocity added to every particle along the first axis.
        shared: Standard deviation of a displacement that all particles share, in every step.
    """

    name: str
    words: str
    made_by: str
    theta: Mapping[str, float] = field(default_factory=dict)
    judged_by: str | None = None
    n_particles: int = 40
    n_steps: int = 30
    sampling: Sampling = "regular"
    drift: float = 0.0
    shared: float = 0.0

    @property
    def is_true(self) -> bool:
        """Whether the model that judges is the one that made the data."""
        return self.judged_by is None

    def to_json(self) -> dict[str, Any]:
        """The case as plain numbers and text."""
        content = asdict(self)
        del content["name"]
        return {**content, "judged_by": self.judged_by or self.made_by, "is_true": self.is_true}

    def hypothesis(self) -> Hypothesis:
        """The model that judges, with its priors."""
        return _hypothesis(self.judged_by or self.made_by)

    def data(self, seed: int, number: int) -> tuple[Displacements, FloatArray]:
        """One data set, and the time at which each of its runs begins.

        Args:
            seed: Of all data sets.
            number: Of this one.
        """
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), number), len(self.name))
        rng = np.random.default_rng([seed, number, *self.name.encode()])
        theta = dict(self.theta)
        if not theta:
            prior = _hypothesis(self.made_by)
            keys = jax.random.split(jax.random.fold_in(key, 1), len(prior.names))
            theta = {
                name: float(prior.priors[name].sample(k))
                for name, k in zip(prior.names, keys, strict=True)
            }
        tau = TAU / 3 if self.sampling == "irregular" else TAU
        n_steps = 3 * self.n_steps if self.sampling == "irregular" else self.n_steps
        model = model_named(self.made_by, MODELS, N_DIM)(**theta)
        simulated = model.simulate(
            key, n_particles=self.n_particles, n_steps=n_steps, n_dim=N_DIM, tau=tau
        )
        x = np.array(simulated)
        x[..., 0] += self.drift * tau * np.arange(n_steps + 1)
        x += np.cumsum(self.shared * rng.standard_normal((n_steps + 1, N_DIM)), axis=0)
        data = self._sampled(x, tau, rng)
        return data, np.zeros(len(data.row_sizes))

    def _sampled(self, x: FloatArray, tau: float, rng: np.random.Generator) -> Displacements:
        if self.sampling == "regular":
            return Displacements.from_array(np.diff(x, axis=1), tau)
        # The same positions are missing in all data sets, so that one program serves them all.
        chance = np.random.default_rng(99).random(x.shape[:2])
        keep = chance > {"gaps": 0.15, "irregular": 2 / 3, "errors": 0.0}[self.sampling]
        keep[:, [0, -1]] = True
        times = np.broadcast_to(tau * np.arange(x.shape[1]), keep.shape)
        sd = None
        if self.sampling == "errors":
            sd = 0.1 + 0.4 * chance
            x = x + sd[..., None] * rng.standard_normal(x.shape)
        tracks = Trajectories(
            positions=x[keep],
            times=times[keep],
            row_sizes=keep.sum(axis=1),
            ids=np.arange(len(x)).astype(str),
            position_sd=None if sd is None else sd[keep],
        )
        return displacements(tracks, None if self.sampling == "irregular" else tau, gaps="keep")


@cache
def _hypothesis(name: str) -> Hypothesis:
    return make_hypotheses([name], u_rms=U_RMS, timescale=TIMESCALE).hypotheses[0]


_BROWNIAN = {"kappa": 1.0}
_LANGEVIN = {"gamma": 1.0, "k": 1.0}
_SUB = {"hurst": 0.25, "kappa": 1.0, "reference": TIMESCALE}
_SUPER = {**_SUB, "hurst": 0.75}
_NOISY = {"kappa": 1.0, "sigma": 0.5}
_NOISE_ONLY = {"kappa": 0.01, "sigma": 1.0}
_HIDDEN = {**_LANGEVIN, "sigma": 0.2}
_CAGED = {"well": 0.5, "kappa": 1.0}
_OSCILLATING = {"gamma": 0.5, "omega": 2.0, "k": 1.0}
_TWO_SCALE = {"gamma": 3.0, "ratio": 0.1, "share": 0.5, "k": 1.0}
_SECOND = {"gamma": 1.0, "accel": 4.0, "k": 1.0}
_TAILED = {"kappa": 1.0, "tail": 0.2}
_TWO = {"kappa": 1.0, "ratio_2": 0.2, "share_2": 0.5}
_SCATTER = {"kappa": 1.0, "scatter": 0.5}
_UNEVEN = {**_LANGEVIN, "h1": 0.3, "h2": 0.0}
_BLURRED = {**_BROWNIAN, "exposure": TAU}

_TRUE = (
    Case("brownian", "40 particles, 30 steps", "brownian", _BROWNIAN),
    Case("langevin", "40 particles, 30 steps", "langevin", _LANGEVIN),
    Case("langevin-prior", "parameters drawn from the prior", "langevin"),
    Case("langevin-short", "200 particles, 4 steps", "langevin", _LANGEVIN, None, 200, 4),
    Case("langevin-long", "4 particles, 300 steps", "langevin", _LANGEVIN, None, 4, 300),
    Case("langevin-gaps", "gaps kept", "langevin", _LANGEVIN, None, 20, 20, "gaps"),
    Case("langevin-irregular", "irregular times", "langevin", _LANGEVIN, None, 20, 20, "irregular"),
    Case("langevin-errors", "known errors", "langevin", _LANGEVIN, None, 20, 20, "errors"),
    Case("noise", "unknown measurement error", "langevin+noise", _HIDDEN, None, 20, 20),
    Case("mean", "mean flow", "brownian+mean", {**_BROWNIAN, "flow": 1.0}),
    Case("anisotropic", "unlike axes", "langevin+anisotropic", _UNEVEN),
    Case("fractional", "H = 0.25", "fractional", _SUB),
    Case("confined", "40 particles, 30 steps", "confined_brownian", _CAGED),
    Case("oscillating", "40 particles, 30 steps", "oscillating", _OSCILLATING),
    Case("two-classes", "two diffusivities", "brownian*2", _TWO, None, 40, 10),
    Case("tails", "heavy tails", "brownian+student", _TAILED),
    Case("scatter", "unlike particles", "brownian+scatter", _SCATTER, None, 40, 10),
)
_WRONG = (
    Case("sub-brownian", "fractional, H = 0.25", "fractional", _SUB, "brownian"),
    Case("sub-langevin", "fractional, H = 0.25", "fractional", _SUB, "langevin"),
    Case("super-brownian", "fractional, H = 0.75", "fractional", _SUPER, "brownian"),
    Case("super-langevin", "fractional, H = 0.75", "fractional", _SUPER, "langevin"),
    Case("noisy-brownian", "noise, σ = 0.5", "brownian+noise", _NOISY, "brownian"),
    Case("noisy-langevin", "noise, σ = 0.5", "brownian+noise", _NOISY, "langevin"),
    Case("noise-only", "little but noise, σ = 1", "brownian+noise", _NOISE_ONLY, "langevin"),
    Case("noise-hidden", "Langevin with noise, σ = 0.2", "langevin+noise", _HIDDEN, "langevin"),
    Case("two-brownian", "two diffusivities, 1 : 5", "brownian*2", _TWO, "brownian"),
    Case("scatter-brownian", "unlike particles, 50 %", "brownian+scatter", _SCATTER, "brownian"),
    Case("drift-brownian", "drift, U = 0.3", "brownian", _BROWNIAN, "brownian", drift=0.3),
    Case("drift-langevin", "drift, U = 0.3", "langevin", _LANGEVIN, "langevin", drift=0.3),
    Case("caged-brownian", "confined", "confined_brownian", _CAGED, "brownian"),
    Case("caged-langevin", "confined", "confined_brownian", _CAGED, "langevin"),
    Case("oscillating-langevin", "oscillating", "oscillating", _OSCILLATING, "langevin"),
    Case("two-scale-langevin", "two time scales, 1 : 10", "two_scale", _TWO_SCALE, "langevin"),
    Case("second-langevin", "memory of acceleration", "second_order", _SECOND, "langevin"),
    Case("langevin-brownian", "Langevin", "langevin", _LANGEVIN, "brownian"),
    Case("brownian-langevin", "Brownian", "brownian", _BROWNIAN, "langevin"),
    Case("tails-brownian", "Student's t, 5 degrees", "brownian+student", _TAILED, "brownian"),
    Case("uneven-langevin", "axes unlike by 1.8", "langevin+anisotropic", _UNEVEN, "langevin"),
    Case("blur-brownian", "blur over the whole step", "brownian+blur", _BLURRED, "brownian"),
    Case("blur-langevin", "blur over the whole step", "brownian+blur", _BLURRED, "langevin"),
    Case("shared-brownian", "shared motion", "brownian", _BROWNIAN, "brownian", shared=0.2),
)
CASES = {case.name: case for case in (*_TRUE, *_WRONG)}


def cases_named(names: str) -> tuple[Case, ...]:
    """The cases of these names.

    Args:
        names: Names with commas between them, or "all".
    """
    if names == "all":
        return tuple(CASES.values())
    wanted = [name.strip() for name in names.split(",")]
    for name in wanted:
        if name not in CASES:
            near = did_you_mean(name, CASES)
            msg = f"there is no case {name!r}; there are {', '.join(CASES)}{near}"
            raise DriftbayesError(msg)
    return tuple(CASES[name] for name in dict.fromkeys(wanted))
