"""The joint density of data and parameters at many points."""

__all__ = [
    "Density",
    "Points",
    "derived_at",
]

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from driftbayes.inference import formulas
from driftbayes.inference._batch import Batch, DirectData
from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.kernels.compiled import run_in_threads
from driftbayes.likelihood.engines import Engine, FilterEngine
from driftbayes.likelihood.kalman import gaussian_log_density
from driftbayes.priors import Fixed
from driftbayes.typing import FloatArray

# Sums of all trajectories that a thread holds at a time, in bytes.
_SUM_BYTES = 4 << 20


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
        if isinstance(engine, DirectData):
            return self._directly(engine, theta)
        with np.errstate(all="ignore"):
            if isinstance(engine, FilterEngine) and self.hypothesis.model.kind == "trajectories":
                found = self._by_trajectory(engine, theta)
            else:
                sums = engine.sums(formulas.Rows(self.hypothesis, theta))
                found = formulas.finish(
                    self.hypothesis, theta, sums, engine.n_dim, engine.tau, engine.context
                )
        fit, n, log_det, quadratic = (self.factor * part for part in found)
        return np.where(np.isnan(fit), -np.inf, fit), n, log_det, quadratic

    def _directly(
        self, data: DirectData, theta: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """The same of data that are their own engine; they have no Gaussian terms."""
        hypothesis = self.hypothesis
        values = {
            name: np.full(len(theta), float(prior.value))
            for name, prior in hypothesis.priors.items()
            if isinstance(prior, Fixed)
        }
        values |= {name: theta[:, i] for i, name in enumerate(hypothesis.names)}
        fit = self.factor * data.log_densities(hypothesis.model, values)
        zeros = np.zeros(len(theta))
        return np.where(np.isnan(fit), -np.inf, fit), zeros, zeros, zeros

    def _by_trajectory(
        self, engine: FilterEngine, theta: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """The same of a model that judges every trajectory by itself, some points at a time."""
        model = self.hypothesis.model
        rows = formulas.Rows(self.hypothesis, theta)
        n_components = rows.n_components
        numbers = formulas.evaluate(self.hypothesis, theta, formulas.trajectory_numbers)

        def compute(low: int, high: int) -> tuple[FloatArray, ...]:
            some = rows.part(slice(low * n_components, high * n_components))
            forms = engine.slot_forms(some).scalar(engine.n_dim, n_components)
            count = np.bincount(forms.pattern, minlength=len(forms.n)).astype(np.float64)
            fit = model.sum_over_trajectories(tuple(part[low:high] for part in numbers), forms)
            # Of the first component alone: enough to find a scale to start from.
            n = np.full(high - low, forms.n @ count)
            return fit, n, forms.log_det[:, 0] @ count, forms.quadratic[:, 0].sum(axis=1)

        at_once = max(_SUM_BYTES // (8 * engine.n_slots * n_components), 1)
        edges = [*range(0, len(theta), at_once), len(theta)]
        parts = run_in_threads(compute, list(pairwise(edges)))
        fit, n, log_det, quadratic = map(np.concatenate, zip(*parts, strict=True))
        return fit, n, log_det, quadratic

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


def derived_at(
    hypothesis: Hypothesis, batch: Batch, index: int, theta: FloatArray
) -> dict[str, float]:
    """The model's derived quantities at θ for one data set of a batch."""
    model = hypothesis.model
    if not model.has_derived:
        return {}
    return Density(hypothesis, batch.engine(index, model)).derived(np.asarray(theta))
