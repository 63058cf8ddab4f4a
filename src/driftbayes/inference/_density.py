"""The joint density of data and parameters at many points."""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import jax
import numpy as np

from driftbayes._kernels.compiled import run_in_threads
from driftbayes._precision import in_double_precision
from driftbayes._typing import FloatArray
from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.inference import _formulas as formulas
from driftbayes.inference._batch import AnyData, Batch
from driftbayes.inference._hypothesis import Hypothesis, points_at
from driftbayes.inference._log_sums import logsumexp
from driftbayes.likelihood._engines import AbstractDirect, Engine, FilterEngine
from driftbayes.likelihood._gaussian import gaussian_log_density
from driftbayes.models import AbstractModel
from driftbayes.models._base import EngineName
from driftbayes.priors import Exponential, Uniform

if TYPE_CHECKING:
    from driftbayes import models

# Sums of all trajectories that a thread holds at a time, in bytes.
_SUM_BYTES = 4 << 20


@dataclass(frozen=True)
class Points:
    """Priors and likelihoods at points; points are the first axis of every array.

    Args:
        z: Unconstrained coordinates.
        theta: Parameters.
        log_priors: ln p(θ) of each parameter.
        log_jacobians: ln |dθ/dz| of each parameter.
        log_likelihood: ln p(D | θ).
    """

    z: FloatArray
    theta: FloatArray
    log_priors: FloatArray
    log_jacobians: FloatArray
    log_likelihood: FloatArray

    @property
    def natural(self) -> FloatArray:
        """Ln of the joint density of D and θ."""
        return _no_nan(self.log_likelihood + self.log_priors.sum(axis=1))

    @property
    def free(self) -> FloatArray:
        """Ln of the joint density of D and z."""
        return _no_nan(self.log_likelihood + (self.log_priors + self.log_jacobians).sum(axis=1))

    @property
    def integrand(self) -> FloatArray:
        """Ln of the joint density of D and z; minus infinity where it cannot be normalised."""
        values = self.free
        return np.where(values < np.inf, values, -np.inf)


def _no_nan(values: FloatArray) -> FloatArray:
    """Replace NaN by minus infinity."""
    return np.where(np.isnan(values), -np.inf, values)


@dataclass(frozen=True, eq=False)
class Density:
    """A hypothesis and its data.

    Args:
        hypothesis: Model family and prior.
        engine: The data.
        factor: Factor of the log-likelihood, more than one for a part of the data.
    """

    hypothesis: Hypothesis
    engine: Engine
    factor: float = 1.0

    @cached_property
    def scale(self) -> int | None:
        """Index in θ of a parameter that multiplies the whole covariance; None if none does."""
        return None if self.engine.noisy else self.hypothesis.scale_index

    def terms(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Compute ln L, and count, log-determinant and quadratic form of its Gaussian terms."""
        engine = self.engine
        if isinstance(engine, AbstractDirect):
            return self._directly(engine, theta)
        with np.errstate(all="ignore"):
            if isinstance(engine, FilterEngine) and self.hypothesis.model.kind == "trajectories":
                found = self._by_trajectory(engine, theta)
            else:
                sums = engine.sums(formulas.Rows(self.hypothesis, theta))
                found = formulas.finish(self.hypothesis, theta, sums, engine)
        fit, n, log_det, quadratic = (self.factor * part for part in found)
        return _no_nan(fit), n, log_det, quadratic

    def _directly(
        self, data: AbstractDirect, theta: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Compute `terms` for data that are their own engine, without Gaussian terms."""
        values = self.hypothesis.columns(theta)
        fit = self.factor * data.log_densities(self.hypothesis.model, values)
        zeros = np.zeros(len(theta))
        return _no_nan(fit), zeros, zeros, zeros

    def _by_trajectory(
        self, engine: FilterEngine, theta: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Compute `terms` of a model with a density per trajectory, some points at a time."""
        model = self.hypothesis.model
        rows = formulas.Rows(self.hypothesis, theta)
        n_components = rows.n_components
        numbers = formulas.evaluate(self.hypothesis, theta, formulas.trajectory_numbers)

        def compute(low: int, high: int) -> tuple[FloatArray, ...]:
            chosen = rows.part(slice(low * n_components, high * n_components))
            forms = engine.slot_forms(chosen).scalar(engine.n_dim, n_components)
            count = np.bincount(forms.pattern, minlength=len(forms.n)).astype(np.float64)
            fit = model.sum_over_trajectories(tuple(part[low:high] for part in numbers), forms)
            # Terms of the first component suffice for a scale to start from.
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
        theta, log_priors, log_jacobians = points_at(self.hypothesis, z)
        return Points(z, theta, log_priors, log_jacobians, self._fit(theta))

    def _fit(self, theta: FloatArray) -> FloatArray:
        """Compute ln L."""
        place = self.scale
        if place is None:
            return self.terms(theta)[0]
        # One evaluation suffices for all points that differ only in the scale.
        unit = theta.copy()
        unit[:, place] = 1.0
        distinct, index = np.unique(unit, axis=0, return_inverse=True)
        index = index.reshape(-1)
        _, n, log_det, quadratic = (part[index] for part in self.terms(distinct))
        with np.errstate(all="ignore"):
            fit = gaussian_log_density(n, log_det, quadratic, theta[:, place], np)
        return _no_nan(fit)

    def derived(self, theta: FloatArray) -> dict[str, float]:
        """Compute the quantities that the model derives from one θ and the data."""
        return formulas.derived(self.hypothesis, theta, self.engine)


@in_double_precision
def log_likelihood(
    model: AbstractModel,
    data: AnyData,
    *,
    engine: EngineName = "auto",
    noise_sd: float | None = None,
) -> float:
    """Compute ln p of the data under a model; the arguments are those of its method.

    Args:
        model: Model whose parameters are numbers.
        data: Displacements at one tau.
        engine: Engine to use; "auto" takes the fastest that applies.
        noise_sd: Standard deviation of the measurement error of every position, in addition to that
            of the data.
    """
    if engine == "kalman" and not model.has_state_space:
        raise DriftbayesError(model._no_state_space())
    if noise_sd is not None:
        data = _with_noise(model, data, float(noise_sd))
    density, theta = _density_of(model, data, engine)
    return float(density.terms(theta)[0][0])


@in_double_precision
def class_probabilities(model: "models.Mixture", data: Displacements) -> FloatArray:
    """Compute the probability of each class of a mixture for each trajectory.

    Args:
        model: Mixture whose parameters are numbers.
        data: Displacements at one tau.

    Returns:
        Probabilities, (class, trajectory).
    """
    density, theta = _density_of(model, data)
    engine = density.engine
    assert isinstance(engine, FilterEngine)
    # `slot_forms` may sort the trajectories by their length.
    sums = engine.sums(formulas.Rows(density.hypothesis, theta))
    logs = sums.log_densities(engine.n_dim) + np.asarray(model.log_weights)[:, None]
    return np.exp(logs - logsumexp(logs, axis=0))


def _density_of(
    model: AbstractModel, data: AnyData, engine: EngineName = "auto"
) -> tuple[Density, FloatArray]:
    """Make the density of data under a family of models, and return the model's parameters."""
    leaves = model.leaves()
    if not all(isinstance(leaf, np.ndarray | jax.Array | float | int) for leaf in leaves.values()):
        raise DriftbayesError(
            f"{model.name} needs numbers as parameters to have a likelihood, got {model!r}; use "
            "evidence() for a model with priors"
        )
    batch = Batch.of(data, engine, model)
    model.check_step(batch.shortest_step)
    hypothesis = hypothesis_of(model.template())
    theta = np.array([[float(leaves[name]) for name in hypothesis.names]])
    return Density(hypothesis, batch.engine(0, model)), theta


@lru_cache(maxsize=256)
def hypothesis_of(family: AbstractModel) -> Hypothesis:
    """Make a hypothesis for the formulas of a family; its priors are not used."""
    priors = {
        name: Exponential(1.0) if parameter.upper == np.inf else Uniform(0.0, parameter.upper)
        for name, parameter in family.parameters.items()
    }
    return Hypothesis(family, **priors)


def _with_noise(model: AbstractModel, data: AnyData, noise_sd: float) -> Displacements:
    """Add an error of every position to those of the data."""
    if model.kind != "summed" or not isinstance(data, Displacements):
        raise DriftbayesError(
            f"{model.name} takes no noise_sd with these data; add the option +noise to the model, "
            "if it can be"
        )
    sd = 0.0 if data.position_sd is None else data.position_sd
    n_fixes = len(data.dx) + len(data.row_sizes)
    return replace(data, position_sd=np.broadcast_to(np.hypot(sd, noise_sd), n_fixes).copy())
