r"""Fields of diffusivity and flow with evidence for them, by Laplace's approximation.

$\ln\kappa(x) = \ln\kappa_0 + f(x)$ and $u(x) = U + w(x)$. $\kappa_0$ and U have the priors of the
homogeneous model; f and w are smooth fields (`splines`) of standard deviations A and B and of
length ℓ. Four hypotheses: nothing varies, κ varies, u varies, both do. Amplitudes and lengths have
equal prior probabilities on a small grid, over which the evidence is summed. Given them, the
integral over all coefficients is Laplace's: the posterior is taken as normal about its mode. As
A → 0 and B → 0 it is that of the homogeneous model.
"""

__all__ = ["HYPOTHESES", "FieldFit", "FieldPriors", "fit_field"]

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.special import logsumexp

from driftbayes.data.sampling import Displacements
from driftbayes.data.tangent import Ground
from driftbayes.errors import DriftbayesError
from driftbayes.fields.local import StepSums, log_likelihood
from driftbayes.fields.splines import Splines
from driftbayes.representation import Described, to_dataset
from driftbayes.typing import FloatArray

if TYPE_CHECKING:
    import xarray as xr

HYPOTHESES = ("homogeneous", "kappa", "flow", "both")
# Standard deviations of ln κ, and of the flow over that of its mean.
_AMPLITUDES = _FLOW_AMPLITUDES = (0.1, 0.25, 0.6, 1.5)
# Knot intervals along the longer side, by dimension.
_N_INTERVALS = {1: 16, 2: 8}
# More steps than this are summed in boxes, so many per interval and axis: ln K changes by less than
# a hundredth.
_MAX_SINGLE, _N_BOXES = 4000, {1: 64, 2: 10}
_MAX_COEFFICIENTS = 1200
_MIN_STEPS = 20
# Fits of smaller posterior probability are left out of the fields.
_MIN_WEIGHT = 1e-4
_MAX_NEWTON = 100
# |∇κ|√(τ/κ) beyond which the local Gaussian is no longer good; see `FieldFit.roughness`.
_MAX_ROUGHNESS = 0.3


@dataclass(frozen=True)
class FieldPriors:
    """Priors of the homogeneous part.

    Args:
        kappa: Mean of the exponential prior of κ_0.
        flow: Standard deviation of each component of U.
    """

    kappa: float
    flow: float


@dataclass(frozen=True, eq=False)
class _Member:
    """A fit with given amplitudes and length."""

    name: str
    amplitude: float
    flow_amplitude: float
    length: float
    log_evidence: float
    mode: FloatArray


@dataclass(frozen=True, eq=False)
class _Problem:
    """Steps, splines at their places, and priors."""

    data: StepSums
    splines: Splines
    priors: FieldPriors
    values: FloatArray
    slopes: tuple[FloatArray, ...]

    @property
    def n_dim(self) -> int:
        return self.splines.n_dim

    def sizes(self, name: str) -> tuple[int, int]:
        """Number of parameters of ln κ, and of one component of the flow."""
        n = self.splines.size
        return 1 + n * (name in ("kappa", "both")), 1 + n * (name in ("flow", "both"))

    def designs(self, name: str) -> tuple[FloatArray, list[FloatArray], FloatArray]:
        """Matrices that give ln κ, its gradient, and a component of the flow, in every box."""
        p, q = self.sizes(name)
        ones = np.ones((len(self.values), 1))
        full = np.hstack([ones, self.values])
        slopes = [np.hstack([0 * ones, slope])[:, :p] for slope in self.slopes]
        return full[:, :p], slopes, full[:, :q]

    def log_joint(
        self, name: str, theta: FloatArray, precision: FloatArray
    ) -> tuple[float, FloatArray, FloatArray]:
        """Ln of likelihood and prior without its constants, its gradient, and minus its Hessian."""
        (p, q), d = self.sizes(name), self.n_dim
        values, slopes, flows = self.designs(name)
        own, rest = theta[:p], theta[p:].reshape(d, q)
        s, u = values @ own, (flows @ rest.T)
        g = np.stack([slope @ own for slope in slopes], axis=-1)
        total, first, second = log_likelihood(self.data, s, g, u)
        gradient = np.empty_like(theta)
        hessian = np.zeros((len(theta), len(theta)))
        stacked = np.concatenate([values, *slopes])
        gradient[:p] = stacked.T @ first[:, : 1 + d].T.ravel()
        mixed = [second[:, 0, 0, None] * values]
        for i, slope in enumerate(slopes):
            mixed[0] = mixed[0] + second[:, 0, 1 + i, None] * slope
            mixed.append(second[:, 0, 1 + i, None] * values + second[:, 1 + i, 1 + i, None] * slope)
        hessian[:p, :p] = stacked.T @ np.concatenate(mixed)
        for i, slope in enumerate(slopes):
            k = 1 + d + i
            part = slice(p + i * q, p + (i + 1) * q)
            gradient[part] = flows.T @ first[:, k]
            hessian[part, part] = flows.T @ (second[:, k, k, None] * flows)
            cross = second[:, 0, k, None] * values + second[:, 1 + i, k, None] * slope
            hessian[:p, part] = cross.T @ flows
            hessian[part, :p] = hessian[:p, part].T
        # κ_0 = exp(θ_0) is exponential: the density of θ_0 has one more factor κ_0.
        ratio = np.exp(theta[0]) / self.priors.kappa
        total += theta[0] - ratio - 0.5 * float(theta @ (precision @ theta))
        gradient -= precision @ theta
        gradient[0] += 1 - ratio
        hessian -= precision
        hessian[0, 0] -= ratio
        return total, gradient, -hessian

    def precision(
        self, name: str, amplitude: float, flow_amplitude: float, shape: FloatArray | None
    ) -> tuple[FloatArray, float]:
        """Precision of the normal part of the prior, and ln of all constants."""
        (p, q), d = self.sizes(name), self.n_dim
        out = np.zeros((p + d * q, p + d * q))
        constant = -np.log(self.priors.kappa) - d * np.log(self.priors.flow) - 0.5 * d * _LOG_2PI
        log_det = 0.0 if shape is None else float(np.linalg.slogdet(shape)[1])
        if p > 1 and shape is not None:
            out[1:p, 1:p] = shape / amplitude**2
            constant += 0.5 * log_det - (p - 1) * (np.log(amplitude) + 0.5 * _LOG_2PI)
        for i in range(d):
            start = p + i * q
            out[start, start] = 1 / self.priors.flow**2
            if q > 1 and shape is not None:
                size = flow_amplitude * self.priors.flow
                out[start + 1 : start + q, start + 1 : start + q] = shape / size**2
                constant += 0.5 * log_det - (q - 1) * (np.log(size) + 0.5 * _LOG_2PI)
        return out, float(constant)


_LOG_2PI = float(np.log(2 * np.pi))


def _mode(
    problem: _Problem, name: str, start: FloatArray, precision: FloatArray
) -> tuple[FloatArray, float, FloatArray]:
    """Mode of the posterior by Newton's method, ln of the density there, and minus its Hessian."""
    theta = start
    value, gradient, curvature = problem.log_joint(name, theta, precision)
    for _ in range(_MAX_NEWTON):
        step, damping = None, 0.0
        scale = float(np.abs(np.diag(curvature)).max())
        while step is None:
            try:
                factor = cho_factor(curvature + damping * np.eye(len(theta)))
                step = cho_solve(factor, gradient)
            except np.linalg.LinAlgError:
                damping = max(10 * damping, 1e-6 * scale)
        decrement = float(gradient @ step)
        if decrement < 1e-12 and damping == 0:
            return theta, value, curvature
        size = 1.0
        while size > 1e-6:
            found = problem.log_joint(name, theta + size * step, precision)
            if found[0] >= value - 1e-12 * abs(value):
                break
            size *= 0.5
        theta = theta + size * step
        value, gradient, curvature = found
        if decrement < 1e-9 and damping == 0:
            return theta, value, curvature
    msg = "the mode of a field was not found; use fewer intervals (--intervals) or a smaller tau"
    raise DriftbayesError(msg)


def _laplace(
    problem: _Problem, name: str, start: FloatArray, prior: tuple[FloatArray, float]
) -> tuple[float, FloatArray, FloatArray]:
    """Laplace's evidence, the mode, and the lower Cholesky factor of minus the Hessian."""
    mode, value, curvature = _mode(problem, name, start, prior[0])
    root: FloatArray = np.asarray(np.linalg.cholesky(curvature), dtype=np.float64)
    log_det = 2 * float(np.sum(np.log(np.diag(root))))
    return value + prior[1] + 0.5 * (len(mode) * _LOG_2PI - log_det), mode, root


@dataclass(frozen=True, eq=False, repr=False)
class FieldFit(Described):
    """Evidence for fields of diffusivity and flow, and the fields.

    Args:
        log_evidences: ln Z of each hypothesis, by Laplace's approximation.
        members: Fits by amplitude and length, with their posterior probabilities.
        splines: The splines of the fields.
        priors: Priors of the homogeneous part.
        tau: Sampling time.
        n_steps: Number of steps.
        units: Of length and time.
        ground: Where on the earth the origin of coordinates is, if positions come from degrees.
        fingerprint: Of the displacements.
    """

    log_evidences: dict[str, float]
    members: tuple[_Member, ...]
    splines: Splines
    priors: FieldPriors
    tau: float
    n_steps: int
    units: tuple[str, str]
    ground: Ground | None
    fingerprint: str
    _problem: _Problem = field(repr=False)

    @property
    def probabilities(self) -> dict[str, float]:
        """Probability of each hypothesis; before the data all are alike."""
        values = np.array(list(self.log_evidences.values()))
        shares = np.exp(values - logsumexp(values))
        return dict(zip(self.log_evidences, shares.tolist(), strict=True))

    @property
    def log_bayes_factors(self) -> dict[str, float]:
        """Ln K of each field over the homogeneous model."""
        base = self.log_evidences["homogeneous"]
        return {n: z - base for n, z in self.log_evidences.items() if n != "homogeneous"}

    @property
    def log_bayes_factor_inhomogeneous(self) -> float:
        """Ln K of any field, all alike before the data, over the homogeneous model."""
        values = list(self.log_bayes_factors.values())
        return float(logsumexp(values) - np.log(len(values)))

    @property
    def best(self) -> str:
        """The most probable hypothesis."""
        return max(self.log_evidences, key=lambda name: self.log_evidences[name])

    @cached_property
    def weights(self) -> FloatArray:
        """Posterior probability of each member."""
        chances = self.probabilities
        out = np.empty(len(self.members))
        for name in self.log_evidences:
            own = [i for i, member in enumerate(self.members) if member.name == name]
            values = np.array([self.members[i].log_evidence for i in own])
            out[own] = chances[name] * np.exp(values - logsumexp(values))
        return out

    @cached_property
    def _used(self) -> list[tuple[float, _Member, FloatArray]]:
        """Members of noticeable weight, each with the Cholesky factor of its precision."""
        kept = np.flatnonzero(self.weights > _MIN_WEIGHT)
        total = float(self.weights[kept].sum())
        out = []
        for i in kept:
            member = self.members[i]
            prior = self._problem.precision(
                member.name, member.amplitude, member.flow_amplitude, self._shape(member.length)
            )
            root = _laplace(self._problem, member.name, member.mode, prior)[2]
            out.append((float(self.weights[i]) / total, member, root))
        return out

    def _shape(self, length: float) -> FloatArray | None:
        return self.splines.precision(length) if np.isfinite(length) else None

    def at(self, x: FloatArray) -> dict[str, FloatArray]:
        """Fields at points, averaged over all hypotheses and members.

        Args:
            x: Points (point, dim), within the region of the data.

        Returns:
            `kappa`, `log_kappa` and `flow` (point, dim): posterior means, and the same with `_sd`.
        """
        values = self.splines.design(x)
        full = np.hstack([np.ones((len(x), 1)), values])
        d, n = self.splines.n_dim, len(x)
        moments = np.zeros((2 * 2 + 2 * d, n))
        for weight, member, root in self._used:
            p, q = self._problem.sizes(member.name)
            theta = member.mode
            rows = [(full[:, :p], slice(0, p))]
            rows += [(full[:, :q], slice(p + i * q, p + (i + 1) * q)) for i in range(d)]
            for k, (matrix, part) in enumerate(rows):
                padded = np.zeros((n, len(theta)))
                padded[:, part] = matrix
                mean = matrix @ theta[part]
                variance = np.sum(solve_triangular(root, padded.T, lower=True) ** 2, axis=0)
                moments[2 * k] += weight * mean
                moments[2 * k + 1] += weight * (mean**2 + variance)
                if k == 0:
                    moments[-2] += weight * np.exp(mean + 0.5 * variance)
                    moments[-1] += weight * np.exp(2 * mean + 2 * variance)
        means, squares = moments[::2], moments[1::2]
        sds = np.sqrt(np.maximum(squares - means**2, 0.0))
        return {
            "kappa": means[-1],
            "kappa_sd": sds[-1],
            "log_kappa": means[0],
            "log_kappa_sd": sds[0],
            "flow": means[1:-1].T,
            "flow_sd": sds[1:-1].T,
        }

    @cached_property
    def roughness(self) -> float:
        r"""$|\nabla\kappa|\sqrt{\tau/\kappa}$ where 95 % of the steps have less, at the mode.

        The change of κ over a step relative to κ. The local Gaussian loses 3/8 of its square in
        nats per step, and at 0.3 finds κ too large by 4 to 7 %.
        """
        member = max(self.members, key=lambda m: m.log_evidence)
        p, _ = self._problem.sizes(member.name)
        values, slopes, _ = self._problem.designs(member.name)
        own = member.mode[:p]
        gradient = np.stack([slope @ own for slope in slopes], axis=-1)
        size = np.linalg.norm(gradient, axis=-1) * np.sqrt(np.exp(values @ own) * self.tau)
        order = np.argsort(size)
        reached = np.cumsum(self._problem.data.n[order]) >= 0.95 * self._problem.data.n.sum()
        return float(size[order][np.argmax(reached)])

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader should know."""
        out = []
        if self.roughness > _MAX_ROUGHNESS:
            out.append(
                f"kappa changes by {self.roughness:.0%} over one step of tau: the local Gaussian "
                "density is no longer accurate; use a smaller tau"
            )
        weights = {h: sum(w for w, m, _ in self._used if m.length == h) for h in self._lengths}
        if weights and weights[min(weights)] > 0.5:
            out.append(
                "the shortest length is the most probable: the field may vary on scales that the "
                "splines do not resolve; use more intervals (--intervals)"
            )
        return tuple(out)

    def to_dataset(self) -> "xr.Dataset":
        """Fields on a regular grid by the CF conventions, with errors."""
        return to_dataset(self)

    def to_json(self) -> dict[str, Any]:
        """Evidence and smoothness as plain numbers and text."""
        return {
            "tau": self.tau,
            "n_steps": self.n_steps,
            "length_unit": self.units[0],
            "time_unit": self.units[1],
            "data_fingerprint": self.fingerprint,
            "method": "laplace",
            "log_evidence": self.log_evidences,
            "log_bayes_factors": self.log_bayes_factors,
            "log_bayes_factor_inhomogeneous": self.log_bayes_factor_inhomogeneous,
            "probabilities": self.probabilities,
            "probability_homogeneous": self.probabilities["homogeneous"],
            "roughness": self.roughness,
            "priors": {"kappa": self.priors.kappa, "flow": self.priors.flow},
            "smoothness": [
                {
                    "model": member.name,
                    "sd_log_kappa": member.amplitude,
                    "sd_flow": member.flow_amplitude * self.priors.flow,
                    "length": member.length if np.isfinite(member.length) else None,
                    "log_evidence": member.log_evidence,
                    "probability": float(weight),
                }
                for weight, member in zip(self.weights, self.members, strict=True)
            ],
            "warnings": list(self.warnings),
        }

    @property
    def _lengths(self) -> set[float]:
        return {m.length for m in self.members if np.isfinite(m.length)}


def fit_field(
    data: Displacements,
    priors: FieldPriors,
    *,
    n_intervals: int | None = None,
    hypotheses: Sequence[str] = HYPOTHESES,
    in_boxes: bool | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> FieldFit:
    """Fit smooth fields of diffusivity and flow to displacements, with evidence.

    Args:
        data: Displacements at one sampling time, in one or two dimensions.
        priors: Priors of the homogeneous part.
        n_intervals: Knot intervals along the longer side (default: 16 in one dimension, 8 in two).
        hypotheses: Which of `HYPOTHESES`; the homogeneous one is always among them.
        in_boxes: Whether steps are summed in small boxes, which takes less time; by default if
            there are more than 4,000.
        progress: Called with a stage, how many are done, and of how many.

    Raises:
        DriftbayesError: The data do not allow a field, or the splines are too many.
    """
    _check(data)
    x = data.origin
    low, high = x.min(axis=0), x.max(axis=0)
    side = high - low
    if not (side > 0).all():
        msg = "all steps begin at one place along an axis: there is no field to find"
        raise DriftbayesError(msg)
    n = _N_INTERVALS[data.n_dim] if n_intervals is None else n_intervals
    if n < 2:
        msg = f"a field needs 2 or more intervals along its longer side, got {n}"
        raise DriftbayesError(msg)
    counts = np.maximum(2, np.round(n * side / side.max())).astype(np.int64)
    splines = Splines(low, high, tuple(int(count) for count in counts))
    if splines.size > _MAX_COEFFICIENTS:
        msg = (
            f"{n} intervals make {splines.size:,} splines, more than {_MAX_COEFFICIENTS:,}; use "
            "fewer (--intervals)"
        )
        raise DriftbayesError(msg)
    summed = len(x) > _MAX_SINGLE if in_boxes is None else in_boxes
    n_boxes = _N_BOXES[data.n_dim] if summed else None
    sums = StepSums.of(x, data.dx, data.tau, splines, n_boxes)
    problem = _Problem(
        sums,
        splines,
        priors,
        splines.design(sums.x),
        tuple(splines.design(sums.x, axis) for axis in range(data.n_dim)),
    )
    members = _members(
        problem, ["homogeneous", *(h for h in HYPOTHESES[1:] if h in hypotheses)], progress
    )
    evidences = {}
    for name in dict.fromkeys(member.name for member in members):
        own = [member.log_evidence for member in members if member.name == name]
        evidences[name] = float(logsumexp(own) - np.log(len(own)))
    return FieldFit(
        log_evidences=evidences,
        members=tuple(members),
        splines=splines,
        priors=priors,
        tau=data.tau,
        n_steps=len(data.dx),
        units=(data.length_unit, data.time_unit),
        ground=data.ground,
        fingerprint=data.fingerprint,
        _problem=problem,
    )


def _members(problem: _Problem, names: Sequence[str], progress: Any) -> list[_Member]:
    """Fit every hypothesis at every amplitude and length."""
    d = problem.n_dim
    longest = float((problem.splines.high - problem.splines.low).max())
    lengths = [longest]
    while lengths[-1] >= 1.99 * problem.splines.spacing.max():
        lengths.append(0.5 * lengths[-1])
    shapes = {length: problem.splines.precision(length) for length in lengths}
    sums = problem.data
    mean = sums.first.sum(axis=0) / (sums.n.sum() * sums.tau)
    kappa = sums.second.sum() / (2 * d * sums.tau * sums.n.sum())
    plain = np.r_[np.log(kappa), mean]
    varied = {
        "homogeneous": [(0.0, 0.0, np.inf)],
        "kappa": list(itertools.product(_AMPLITUDES, [0.0], lengths)),
        "flow": list(itertools.product([0.0], _FLOW_AMPLITUDES, lengths)),
        "both": list(itertools.product(_AMPLITUDES, _FLOW_AMPLITUDES, lengths)),
    }
    total = sum(len(varied[name]) for name in names)
    members: list[_Member] = []
    for name in names:
        p, q = problem.sizes(name)
        start = np.zeros(p + d * q)
        start[0], start[p::q] = plain[0], plain[1:]
        for amplitude, flow_amplitude, length in varied[name]:
            if progress is not None:
                progress("fits", len(members), total)
            prior = problem.precision(name, amplitude, flow_amplitude, shapes.get(length))
            log_evidence, start, _ = _laplace(problem, name, start, prior)
            members.append(_Member(name, amplitude, flow_amplitude, length, log_evidence, start))
    return members


def _check(data: Displacements) -> None:
    if data.n_dim not in (1, 2):
        msg = f"a field needs one or two dimensions, got {data.n_dim}; read fewer with --columns"
        raise DriftbayesError(msg)
    if not data.is_regular:
        msg = (
            "a field is fitted to exact positions at one sampling time; these have errors or "
            "irregular times: give a tau, and leave out the errors if they are small"
        )
        raise DriftbayesError(msg)
    if len(data.dx) < _MIN_STEPS:
        msg = f"a field needs {_MIN_STEPS} or more steps, got {len(data.dx)}; use a smaller tau"
        raise DriftbayesError(msg)
