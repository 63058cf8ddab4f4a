"""Laplace's method, the paper's approximation of the evidence."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from driftbayes._precision import in_double_precision
from driftbayes._typing import FloatArray
from driftbayes.errors import DriftbayesError, Status
from driftbayes.inference._batch import Batch
from driftbayes.inference._density import Density
from driftbayes.inference._evidence import Evidence
from driftbayes.inference._hypothesis import Hypothesis, points_at
from driftbayes.inference._newton import Maximum, maximise
from driftbayes.inference._records import Posterior, make_record
from driftbayes.inference._search import find_modes
from driftbayes.inference._stacked_search import stacked_maxima
from driftbayes.priors import Uniform

# Largest accepted difference between natural and log parameters, in nats.
_MAX_DISAGREEMENT = 0.05
# Largest accepted share of the mass at other modes; it changes ln Z by about 0.01 nats.
_MAX_OTHER_MASS = 0.01
# A mode this close to an end of an interval, relative to its length, counts as at the end.
_EDGE = 1e-6
# Normal quantiles of QUANTILES.
_SCORES = (-1.959963984540054, -0.994457883209753, 0.0, 0.994457883209753, 1.959963984540054)


@dataclass(frozen=True)
class _Expansion:
    """Quadratic expansion of the log-posterior about its mode, in one set of coordinates."""

    theta: FloatArray
    log_likelihood: float
    log_evidence: float
    precision: FloatArray
    lowest_curvature: float
    converged: bool


@dataclass(frozen=True)
class _Solution:
    """Expansions in natural and log parameters, and the share of the mass at other modes."""

    natural: _Expansion
    log: _Expansion
    other_mass: float


@in_double_precision
def laplace(hypothesis: Hypothesis, data: Batch, *, coords: str = "natural") -> Evidence:
    r"""Estimate the evidence from a Gaussian at the posterior mode. Paper: [eq:laplace].

    $$\ln Z \approx \ln p(D \mid \theta^*) + \ln p(\theta^*) - \tfrac12 \ln\det(J / 2\pi), \qquad
      J = -\nabla\nabla \ln p(D, \theta^*)$$

    The method has no error estimate. If the posterior of a rate is wide, ln Z is too low by up to
    0.9 nats; natural and log parameters then disagree, and the status reports it.

    Args:
        hypothesis: Model family and prior.
        data: One data set, from `Batch.of`.
        coords: Parameters in which the posterior is assumed Gaussian: "natural" is the paper's
            choice; "log" is a different, often better approximation.
    """
    return laplace_batch([hypothesis], data, coords=coords)[0]


@in_double_precision
def laplace_batch(
    hypotheses: Sequence[Hypothesis], data: Batch, *, coords: str = "natural"
) -> list[Evidence]:
    """Apply `laplace` to several data sets, or to one data set under several priors."""
    if coords not in ("natural", "log"):
        raise DriftbayesError(f"coords must be 'natural' or 'log', got {coords!r}")
    if data.is_stacked and len(hypotheses) > 1:
        raise DriftbayesError("give several data sets or several priors, not both")
    if len(hypotheses) > 1:
        return [laplace(hypothesis, data, coords=coords) for hypothesis in hypotheses]
    (hypothesis,) = hypotheses
    maxima = stacked_maxima(hypothesis, data)
    records = []
    for i in range(len(data)):
        if i in maxima:
            natural = _expand(hypothesis, maxima[i][0], is_log=False)
            solution = _Solution(natural, _expand(hypothesis, maxima[i][1], is_log=True), 0.0)
        else:
            solution = _solve(Density(hypothesis, data.engine(i, hypothesis.model)))
        records.append(_make_record(hypothesis, data, i, solution, coords))
    return records


# Non-finite values are reported by the status, not by NumPy warnings.
@np.errstate(all="ignore")
def _solve(density: Density) -> _Solution:
    """Find the modes in natural and log parameters, and expand about them."""
    hypothesis = density.hypothesis

    def in_log(z: FloatArray, _: NDArray[np.int64]) -> FloatArray:
        points = density.at(z)
        value = points.natural + _log_slope(hypothesis, points.theta)
        return np.where(np.isnan(value), -np.inf, value)

    modes = find_modes(density)
    (log_mode,) = maximise(in_log, modes.natural.z[None])
    masses = np.exp(modes.log_mass - modes.log_mass[0])
    other_mass = float(np.sum(masses[1:]) / np.sum(masses))
    return _Solution(
        natural=_expand(hypothesis, modes.natural, is_log=False),
        log=_expand(hypothesis, log_mode, is_log=True),
        other_mass=other_mass if np.isfinite(other_mass) else 0.0,
    )


def _log_slope(hypothesis: Hypothesis, theta: FloatArray) -> FloatArray:
    """Compute ln |dθ/d ln θ|; 0 where θ is signed."""
    signed = hypothesis.signed
    return np.asarray(np.sum(np.log(np.where(signed, 1.0, theta)), axis=-1))


@np.errstate(all="ignore")
def _expand(hypothesis: Hypothesis, mode: Maximum, *, is_log: bool) -> _Expansion:
    """Expand about a mode of the density in natural or log parameters.

    The mode was found in unconstrained coordinates z, where no step can leave the prior's support.
    The gradient is zero at a mode, so the Jacobian alone transforms the second derivatives.
    """
    signed = hypothesis.signed
    theta, log_priors, log_jacobians = (x[0] for x in points_at(hypothesis, mode.z[None]))
    slopes = np.exp(log_jacobians)
    slopes = slopes / np.where(signed, 1.0, theta) if is_log else slopes
    precision = -mode.hessian / np.outer(slopes, slopes)
    # Scaled by the parameters' widths, so that units do not matter.
    size = np.sqrt(np.abs(np.diag(precision)))
    relative = precision / np.outer(size, size)
    usable = bool(np.isfinite(relative).all())
    curvatures = np.linalg.eigvalsh(relative) if usable else np.full(len(theta), np.nan)
    log_det = np.sum(np.log(np.abs(curvatures))) + 2 * np.sum(np.log(size))
    correction = log_priors.sum() + (_log_slope(hypothesis, theta) if is_log else 0.0)
    return _Expansion(
        theta=theta,
        log_likelihood=float(mode.value - correction),
        log_evidence=float(mode.value + 0.5 * len(theta) * np.log(2 * np.pi) - 0.5 * log_det),
        precision=precision,
        lowest_curvature=float(curvatures[0]),
        converged=mode.converged,
    )


def _make_record(
    hypothesis: Hypothesis, data: Batch, index: int, solution: _Solution, coords: str
) -> Evidence:
    """Make the record of the expansion in the chosen parameters, with its reliability."""
    names = hypothesis.names
    chosen = solution.natural if coords == "natural" else solution.log
    theta, log_evidence = chosen.theta, chosen.log_evidence
    status, cov = Status.OK, np.full((len(names), len(names)), np.nan)
    difference = solution.natural.log_evidence - solution.log.log_evidence
    other_mass = solution.other_mass
    if not np.isfinite(log_evidence):
        status = Status.NOT_FINITE
    elif _is_at_bound(_support(hypothesis), theta):
        status = Status.MODE_AT_BOUND
    elif not chosen.converged:
        status = Status.MAP_NOT_CONVERGED
    elif not chosen.lowest_curvature > 0:
        status = Status.HESSIAN_NOT_POSITIVE
    else:
        cov = np.linalg.inv(chosen.precision)
        if not abs(difference) <= _MAX_DISAGREEMENT or other_mass > _MAX_OTHER_MASS:
            status = Status.LAPLACE_UNRELIABLE
    warnings: tuple[str, ...] = () if status is Status.OK else (status.advice,)
    if status is Status.LAPLACE_UNRELIABLE and other_mass > _MAX_OTHER_MASS:
        warnings = (
            f"the posterior has other modes with about {other_mass:.0%} of its mass, which "
            "Laplace's method leaves out; use method='auto'",
        )
    elif status is Status.LAPLACE_UNRELIABLE:
        warnings = (
            f"Laplace's method in natural and in log parameters disagrees by {abs(difference):.2f} "
            f"nats at tau = {data.tau(index):g}: trust neither, use method='auto'",
        )
    return make_record(
        *(hypothesis, data, index, theta, _gaussian_posterior(hypothesis, chosen, cov, coords)),
        warnings=warnings,
        method="laplace",
        coords=coords,
        log_evidence=log_evidence,
        log_evidence_err=float("nan"),
        log_likelihood_at_map=chosen.log_likelihood,
        status=status,
    )


def _gaussian_posterior(
    hypothesis: Hypothesis, mode: _Expansion, cov: FloatArray, coords: str
) -> Posterior:
    """Compute moments and quantiles of θ from a Gaussian in natural or log parameters."""
    theta, sd, signed = mode.theta, np.sqrt(np.diag(cov)), hypothesis.signed
    spread = sd[:, None] * np.array(_SCORES)
    if coords == "natural":
        mean, log_sd = theta, sd / np.where(signed, 1.0, theta)
        quantiles = theta[:, None] + spread
    else:
        mean, log_sd = np.where(signed, theta, theta * np.exp(0.5 * sd**2)), sd
        # For Gaussian x and y, Cov(x, e^y) = Cov(x, y) E[e^y].
        slope = np.where(signed, 1.0, mean)
        either = signed[:, None] | signed
        cov = np.where(either, np.outer(slope, slope) * cov, np.outer(mean, mean) * np.expm1(cov))
        quantiles = np.where(
            signed[:, None], theta[:, None] + spread, theta[:, None] * np.exp(spread)
        )
    log_mean = np.where(signed, theta, np.log(np.where(theta > 0, theta, np.nan)))
    # A Gaussian posterior in p dimensions lies p/2 below its peak on average.
    expected = mode.log_likelihood - 0.5 * len(theta)
    return Posterior(mean, cov, quantiles, log_mean, log_sd, expected)


def _support(hypothesis: Hypothesis) -> FloatArray:
    """Return the ends of the support of each parameter's prior, in the order of θ."""
    return np.array(
        [
            (prior.low, prior.high)
            if isinstance(prior, Uniform)
            else (-np.inf if prior.is_signed else 0.0, np.inf)
            for prior in (hypothesis.priors[name] for name in hypothesis.names)
        ]
    )


def _is_at_bound(support: FloatArray, theta: FloatArray) -> bool:
    """Tell whether a parameter lies at an end of a prior's finite support.

    In unconstrained coordinates such an end is an ordinary maximum at infinity.
    """
    low, high = support.T
    margin = _EDGE * np.where(np.isfinite(high), high - low, 0.0)
    inside = (low + margin < theta) & (theta < high - margin)
    return bool(np.any(np.isfinite(high) & ~inside))
