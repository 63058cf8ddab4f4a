"""ln p(D, θ) of one hypothesis and one data set, at many points at once."""

__all__ = ["Density", "Points"]

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from driftbayes.inference import formulas
from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.likelihood.engines import Engine
from driftbayes.likelihood.terms import gaussian_log_density
from driftbayes.typing import FloatArray

# Sums of all trajectories that are held at a time, in bytes.
_SUM_BYTES = 64 << 20


@dataclass(frozen=True)
class Points:
    """What was found at some points; all arrays have the points along their first axis.

    Args:
        z: Unconstrained coordinates.
        theta: Parameters.
        log_priors: ln p(θ) of each parameter.
        log_jacobians: ln |dθ/dz| of each parameter.
        log_likelihood: ln p(D | θ).
        n: Count of the Gaussian terms.
        log_det: Log-determinant.
        quadratic: Quadratic form.
    """

    z: FloatArray
    theta: FloatArray
    log_priors: FloatArray
    log_jacobians: FloatArray
    log_likelihood: FloatArray
    n: FloatArray
    log_det: FloatArray
    quadratic: FloatArray

    @property
    def natural(self) -> FloatArray:
        """Ln of the joint density of D and θ."""
        return _no_nan(self.log_likelihood + self.log_priors.sum(axis=1))

    @property
    def free(self) -> FloatArray:
        """Ln of the joint density of D and z."""
        return _no_nan(self.log_likelihood + (self.log_priors + self.log_jacobians).sum(axis=1))


def _no_nan(values: FloatArray) -> FloatArray:
    return np.where(np.isnan(values), -np.inf, values)


@dataclass(frozen=True, eq=False)
class Density:
    """A hypothesis and its data.

    Args:
        hypothesis: Model family and prior.
        engine: The data.
        factor: By how much the log-likelihood is multiplied: more than one for a part of the data.
    """

    hypothesis: Hypothesis
    engine: Engine
    factor: float = 1.0

    @cached_property
    def scale(self) -> int | None:
        """Place in θ of a parameter that multiplies the whole covariance; None if none does."""
        return None if self.engine.noisy else self.hypothesis.scale_index

    def terms(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Ln L, and count, log-determinant and quadratic form of its Gaussian terms."""
        engine = self.engine
        rows = formulas.Rows(self.hypothesis, theta)
        # Sums are kept by trajectory until the density is made of them: some points at a time.
        n_slots = getattr(engine, "n_slots", 1)
        point_bytes = 8 * n_slots * rows.n_components * (2 + (engine.n_dim + 1) ** 2)
        at_once = max(_SUM_BYTES // point_bytes, 1)
        if n_slots > 1 and len(theta) > at_once:
            parts = [self.terms(theta[i : i + at_once]) for i in range(0, len(theta), at_once)]
            fit, n, log_det, quadratic = map(np.concatenate, zip(*parts, strict=True))
            return fit, n, log_det, quadratic
        with np.errstate(all="ignore"):
            sums = engine.sums(rows)
            found = formulas.finish(
                self.hypothesis, theta, sums, engine.n_dim, engine.tau, engine.context
            )
        fit, n, log_det, quadratic = (self.factor * part for part in found)
        return np.where(np.isnan(fit), -np.inf, fit), n, log_det, quadratic

    def at(self, z: FloatArray) -> Points:
        """Evaluate at unconstrained points, (point, parameter)."""
        z = np.asarray(z, dtype=np.float64)
        theta, log_priors, log_jacobians = formulas.points_at(self.hypothesis, z)
        fit, n, log_det, quadratic = self._fit(theta)
        return Points(z, theta, log_priors, log_jacobians, fit, n, log_det, quadratic)

    def _fit(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """The same as `terms`; where the scale multiplies all, at unit scale but for ln L."""
        place = self.scale
        if place is None:
            return self.terms(theta)
        # Points that differ in the scale only need one evaluation: the rest is algebra.
        unit = theta.copy()
        unit[:, place] = 1.0
        distinct, index = np.unique(unit, axis=0, return_inverse=True)
        index = index.reshape(-1)
        _, n, log_det, quadratic = (part[index] for part in self.terms(distinct))
        with np.errstate(all="ignore"):
            fit = gaussian_log_density(n, log_det, quadratic, theta[:, place], np)
        return np.where(np.isnan(fit), -np.inf, fit), n, log_det, quadratic

    def derived(self, theta: FloatArray) -> dict[str, float]:
        """What the model derives from one θ and the data."""
        engine = self.engine
        sums = engine.sums(formulas.Rows(self.hypothesis, theta[None]))
        return formulas.derived(
            self.hypothesis, theta, sums, engine.n_dim, engine.tau, engine.context
        )
