"""ln p(D, θ) of one hypothesis and many data sets, at many points at once."""

__all__ = ["StackedDensity", "StackedPoints", "stacked_density"]

from dataclasses import dataclass, fields
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from driftbayes.inference import formulas
from driftbayes.inference._batch import Batch
from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.inference.scale import GammaForm, gamma_form, log_scale_evidence, most_likely_scale
from driftbayes.likelihood import SecondMoments
from driftbayes.likelihood.kalman import LOG_2PI
from driftbayes.likelihood.moments import MomentStack
from driftbayes.typing import FloatArray, IntArray


@dataclass(frozen=True)
class StackedPoints:
    """What was found at some points, each of one data set.

    Args:
        theta: Parameter that is left; 1 if none is.
        log_prior: ln p(θ) of it.
        log_jacobian: ln |dθ/dz|.
        n: Count of the Gaussian terms.
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
        """Some of the points."""
        return StackedPoints(*(getattr(self, one.name)[which] for one in fields(self)))


@dataclass(frozen=True, eq=False)
class StackedDensity:
    """A hypothesis with a scale in gamma form, at most one other parameter, and many data sets.

    Args:
        hypothesis: Model family and prior.
        stack: The data sets.
        form: Prior of the scale.
        place: Place in θ of the scale.
        left: Place in θ of the parameter that is left; None if there is none.
    """

    hypothesis: Hypothesis
    stack: MomentStack
    form: GammaForm
    place: int
    left: int | None

    def at(self, owner: IntArray, z: FloatArray) -> StackedPoints:
        """Evaluate data sets `owner` at points `z` of the coordinate left, one each."""
        offsets = np.arange(len(owner) + 1)
        return self.shared(z, self.stack.taus[owner], offsets, owner)

    # Where nothing is finite the search says so, not NumPy in a warning.
    @np.errstate(all="ignore")
    def shared(
        self, z: FloatArray, taus: FloatArray, offsets: IntArray, members: IntArray
    ) -> StackedPoints:
        """Evaluate several data sets at each point; they must have its sampling time.

        Args:
            z: Points of the coordinate left.
            taus: Sampling time of each.
            offsets: Where the members of each point begin, and where those of the last one end.
            members: Data sets to evaluate at each point.
        """
        theta, log_prior, log_jacobian = self.points(z)
        covariance = formulas.autocovariances_at(self.hypothesis, theta, taus, self.stack.n_lags)
        log_det, quadratic = self.stack.terms(covariance, offsets, members)
        of = np.repeat(np.arange(len(z)), np.diff(offsets))
        own = np.ones(len(z)) if self.left is None else theta[:, self.left]
        return StackedPoints(
            theta=own[of],
            log_prior=log_prior[of],
            log_jacobian=log_jacobian[of],
            n=self.stack.n[members],
            log_det=log_det,
            quadratic=quadratic,
        )

    def points(self, z: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """θ at unit scale, (point, parameter), and ln p and ln |dθ/dz| of the parameter left."""
        every = np.zeros((len(z), len(self.hypothesis.names)))
        if self.left is None:
            every[:] = 1.0
            return every, np.zeros(len(z)), np.zeros(len(z))
        every[:, self.left] = z
        theta, log_priors, log_jacobians = formulas.points_at(self.hypothesis, every)
        theta = np.array(theta)
        theta[:, self.place] = 1.0
        return theta, log_priors[:, self.left], log_jacobians[:, self.left]

    def log_integrand(self, points: StackedPoints) -> FloatArray:
        """Ln of the density of D and z, with the scale integrated out."""
        values = log_scale_evidence(points.n, points.log_det, points.quadratic, self.form)
        values = values + points.log_prior + points.log_jacobian
        return np.where(values < np.inf, values, -np.inf)

    def most_likely_scale(self, points: StackedPoints, *, natural: bool) -> FloatArray:
        """The scale at which the joint density is highest: that of θ, or of unconstrained z."""
        return most_likely_scale(points.n, points.quadratic, self.form, natural=natural)

    @np.errstate(all="ignore")
    def log_profile(self, points: StackedPoints, *, natural: bool) -> FloatArray:
        """Ln of the joint density at the most likely scale: of θ, or of unconstrained z."""
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
    """The density of all data sets of a batch; None where they cannot be taken side by side."""
    model, place = hypothesis.model, hypothesis.scale_index
    # Options that change what sums mean are for one data set at a time.
    is_plain = model.kind == "summed"
    if place is None or len(hypothesis.names) > 2 or not is_plain or not data.is_summed:
        return None
    form = gamma_form(hypothesis.priors[hypothesis.names[place]])
    moments = data.data
    if form is None or not isinstance(moments, SecondMoments):
        return None
    if not data.is_stacked:
        moments = jax.tree.map(lambda leaf: np.asarray(leaf)[None], moments)
    left = next((i for i in range(len(hypothesis.names)) if i != place), None)
    return StackedDensity(hypothesis, MomentStack(moments), form, place, left)
