"""Log-density of one hypothesis and many data sets, at many points at once."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from driftbayes._typing import FloatArray, IntArray
from driftbayes.inference import _formulas as formulas
from driftbayes.inference._batch import Batch
from driftbayes.inference._hypothesis import Hypothesis, points_at
from driftbayes.inference._scale import GammaForm, gamma_form, log_scale_evidence, most_likely_scale
from driftbayes.likelihood import SecondMoments
from driftbayes.likelihood._gaussian import LOG_2PI
from driftbayes.likelihood._moments import MomentStack

# Data sets per batch, whose nodes fit into the processor cache.
_BATCH_SIZE = 256


@dataclass(frozen=True)
class StackedPoints:
    """Priors and Gaussian terms at points, each of one data set.

    Args:
        theta: Parameter beside the scale; 1 if there is none.
        log_prior: ln p(θ) of this parameter.
        log_jacobian: ln |dθ/dz| of this parameter.
        n: Number of scalar displacements.
        log_det: Log-determinant at unit scale.
        quadratic: Quadratic form at unit scale.
    """

    theta: FloatArray
    log_prior: FloatArray
    log_jacobian: FloatArray
    n: FloatArray
    log_det: FloatArray
    quadratic: FloatArray

    def __getitem__(self, which: NDArray[Any]) -> "StackedPoints":
        """Select points."""
        return StackedPoints(*(getattr(self, part.name)[which] for part in fields(self)))


@dataclass(frozen=True, eq=False)
class StackedDensity:
    """A hypothesis with a scale in gamma form, at most one other parameter, and many data sets.

    Args:
        hypothesis: Model family and prior.
        stack: The data sets.
        form: Prior of the scale.
        place: Index of the scale in θ.
        left: Index of the other parameter in θ; None if there is none.
    """

    hypothesis: Hypothesis
    stack: MomentStack
    form: GammaForm
    place: int
    left: int | None

    def batches(self) -> Iterator[IntArray]:
        """Yield the indices of all data sets, hundreds at a time."""
        n = len(self.stack)
        for low in range(0, n, _BATCH_SIZE):
            yield np.arange(low, min(low + _BATCH_SIZE, n))

    def at(self, owner: IntArray, z: FloatArray) -> StackedPoints:
        """Evaluate data sets `owner` at points `z` of the other coordinate, one each."""
        return self.shared(z, self.stack.taus[owner], np.arange(len(owner) + 1), owner)

    # Non-finite values are reported by the search, not by NumPy warnings.
    @np.errstate(all="ignore")
    def shared(
        self, z: FloatArray, taus: FloatArray, offsets: IntArray, members: IntArray
    ) -> StackedPoints:
        """Evaluate several data sets of the same sampling time at each point.

        Args:
            z: Points of the other coordinate.
            taus: Sampling time of each point.
            offsets: Start of the members of each point, and end of those of the last one.
            members: Data sets to evaluate, point after point.
        """
        theta, log_prior, log_jacobian = self.points(z)
        covariance = formulas.autocovariances_at(self.hypothesis, theta, taus, self.stack.n_lags)
        log_det, quadratic = self.stack.terms(covariance, offsets, members)
        point = np.repeat(np.arange(len(z)), np.diff(offsets))
        other = np.ones(len(z)) if self.left is None else theta[:, self.left]
        return StackedPoints(
            theta=other[point],
            log_prior=log_prior[point],
            log_jacobian=log_jacobian[point],
            n=self.stack.n[members],
            log_det=log_det,
            quadratic=quadratic,
        )

    def points(self, z: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Compute θ at unit scale, (point, parameter), and ln p and ln |dθ/dz| of the other one."""
        shape = (len(z), len(self.hypothesis.names))
        if self.left is None:
            return np.ones(shape), np.zeros(len(z)), np.zeros(len(z))
        coordinates = np.zeros(shape)
        coordinates[:, self.left] = z
        theta, log_priors, log_jacobians = points_at(self.hypothesis, coordinates)
        theta = np.array(theta)
        theta[:, self.place] = 1.0
        return theta, log_priors[:, self.left], log_jacobians[:, self.left]

    def log_integrand(self, points: StackedPoints) -> FloatArray:
        """Compute ln of the density of D and z, with the scale integrated out."""
        values = log_scale_evidence(points.n, points.log_det, points.quadratic, self.form)
        values = values + points.log_prior + points.log_jacobian
        return np.where(values < np.inf, values, -np.inf)

    def most_likely_scale(self, points: StackedPoints, *, natural: bool) -> FloatArray:
        """Compute the scale at which the joint density of θ, or of z, is highest."""
        return most_likely_scale(points.n, points.quadratic, self.form, natural=natural)

    @np.errstate(all="ignore")
    def log_profile(self, points: StackedPoints, *, natural: bool) -> FloatArray:
        """Compute ln of the joint density of θ, or of z, at the most likely scale."""
        scale, form = self.most_likely_scale(points, natural=natural), self.form
        values = (
            -0.5 * (points.n * LOG_2PI + points.log_det + points.quadratic / scale)
            - (0.5 * points.n - form.shape + float(natural)) * np.log(scale)
            - form.rate * scale
            + form.log_norm
            + points.log_prior
        )
        values = values if natural else values + points.log_jacobian
        return np.where(values < np.inf, values, -np.inf)


def stacked_density(hypothesis: Hypothesis, data: Batch) -> StackedDensity | None:
    """Make the density of all data sets of a batch; None if they cannot be solved together."""
    model, place = hypothesis.model, hypothesis.scale_index
    # Models that need other sums are solved one data set at a time.
    if place is None or len(hypothesis.names) > 2 or model.kind != "summed" or not data.is_summed:
        return None
    form = gamma_form(hypothesis.priors[hypothesis.names[place]])
    moments = data.moments
    if form is None or not isinstance(moments, SecondMoments):
        return None
    if not data.is_stacked:
        moments = jax.tree.map(lambda leaf: np.asarray(leaf)[None], moments)
    left = next((i for i in range(len(hypothesis.names)) if i != place), None)
    return StackedDensity(hypothesis, MomentStack(moments), form, place, left)
