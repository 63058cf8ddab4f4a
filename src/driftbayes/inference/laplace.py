"""Laplace's method: the paper's approximation of the evidence, by name."""

__all__ = ["Coords", "laplace", "laplace_batch"]

from collections.abc import Sequence
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from driftbayes.errors import DriftbayesError, Status
from driftbayes.inference._batch import Batch, run_batch
from driftbayes.inference.derived import derived_at
from driftbayes.inference.evidence import QUANTILES, Evidence, unidentified
from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.inference.joint import LogJoint
from driftbayes.inference.modes import find_modes
from driftbayes.inference.newton import Mode, climb
from driftbayes.inference.symmetric import eigh
from driftbayes.jax_typing import Scalar
from driftbayes.models import Data
from driftbayes.typing import FloatArray

Coords = Literal["natural", "log"]

# Natural and log parameters give different approximations; further apart, neither is good.
_DISAGREEMENT = 0.05
# A share of the mass at other modes that moves ln Z by as little as 0.01 nats is let pass.
_OTHER_MASS = 0.01
# A mode this close to an end of an interval, relative to its length, lies at the end.
_EDGE = 1e-6
# Normal quantiles of QUANTILES.
_SCORES = (-1.959963984540054, -0.994457883209753, 0.0, 0.994457883209753, 1.959963984540054)


class _Expansion(eqx.Module):
    """The quadratic expansion of the log-posterior about its mode, in one set of coordinates."""

    theta: Float[Array, " parameter"]
    log_likelihood: Scalar
    log_evidence: Scalar
    precision: Float[Array, "parameter parameter"]
    lowest_curvature: Scalar
    converged: Array


class _Solution(eqx.Module):
    natural: _Expansion
    log: _Expansion
    prior_log_sd: Float[Array, " parameter"]
    other_mass: Scalar


def laplace(hypothesis: Hypothesis, data: Batch, *, coords: Coords = "natural") -> Evidence:
    r"""Evidence from a Gaussian fitted to the posterior at its mode. Paper: [eq:laplace].

    $$\ln Z \approx \ln p(D \mid \theta^*) + \ln p(\theta^*) - \tfrac12 \ln\det(J / 2\pi), \qquad
      J = -\nabla\nabla \ln p(D, \theta^*)$$

    It has no error estimate. Where the posterior of a rate is wide it is too low by up to 0.9 nats;
    natural and log parameters then disagree, and the status says so.

    Args:
        hypothesis: Model family and prior.
        data: One data set, from `Batch.of`.
        coords: Parameters in which the posterior is taken to be Gaussian: "natural" is the
            paper's choice; "log" is a different, often better approximation.
    """
    return laplace_batch([hypothesis], data, coords=coords)[0]


def laplace_batch(
    hypotheses: Sequence[Hypothesis], data: Batch, *, coords: Coords = "natural"
) -> list[Evidence]:
    """The same for several data sets under one hypothesis, or one data set under several priors."""
    if coords not in ("natural", "log"):
        msg = f"coords must be 'natural' or 'log', got {coords!r}"
        raise DriftbayesError(msg)
    solution: _Solution = run_batch(_solve, hypotheses, data)
    # Once for each hypothesis: a scan has one, and hundreds of data sets.
    descriptions = [hypothesis.describe() for hypothesis in hypotheses]
    supports = [_support(hypothesis) for hypothesis in hypotheses]
    records = []
    for i in range(len(solution.prior_log_sd)):
        which = min(i, len(hypotheses) - 1)
        at_bound = _at_bound(supports[which], _chosen(solution, coords).theta[i])
        records.append(
            _record(
                hypotheses[which], descriptions[which], data, i, solution, coords, at_bound=at_bound
            )
        )
    return records


def _chosen(solution: _Solution, coords: Coords) -> _Expansion:
    return solution.natural if coords == "natural" else solution.log


def _solve(hypothesis: Hypothesis, data: Data) -> _Solution:
    names = hypothesis.names

    signed = np.array(hypothesis.signed)

    def log_slope(z: Array) -> Scalar:
        return jnp.sum(jnp.log(jnp.where(signed, 1.0, hypothesis.from_unconstrained(z))))

    def expand(mode: Mode, *, in_log: bool) -> _Expansion:
        # Found in unconstrained coordinates z, where no step can leave the prior's support; the
        # mode is that of the density in the coordinates asked for. At a mode the gradient is zero,
        # so second derivatives there change coordinates by the Jacobian alone.
        theta = hypothesis.from_unconstrained(mode.z)
        slopes = jnp.exp(
            jnp.stack(
                [hypothesis.priors[name].log_jacobian(mode.z[i]) for i, name in enumerate(names)]
            )
        )
        slopes = slopes / jnp.where(signed, 1.0, theta) if in_log else slopes
        precision = -0.5 * (mode.hessian + mode.hessian.T) / jnp.outer(slopes, slopes)
        # Judged relative to the parameters' own sizes, whatever their units.
        size = jnp.sqrt(jnp.abs(jnp.diag(precision)))
        curvatures = eigh(precision / jnp.outer(size, size))[0]
        log_det = jnp.sum(jnp.log(jnp.abs(curvatures))) + 2 * jnp.sum(jnp.log(size))
        correction = hypothesis.log_prior(theta) + (log_slope(mode.z) if in_log else 0.0)
        return _Expansion(
            theta=theta,
            log_likelihood=mode.value - correction,
            log_evidence=mode.value + 0.5 * len(names) * np.log(2 * np.pi) - 0.5 * log_det,
            precision=precision,
            lowest_curvature=curvatures[0],
            converged=mode.converged,
        )

    modes = find_modes(hypothesis, data)
    in_log = climb(LogJoint(hypothesis, data, log_slope).sweep, modes.natural.z)
    masses = jax.nn.softmax(modes.log_mass)
    return _Solution(
        natural=expand(modes.natural, in_log=False),
        log=expand(in_log, in_log=True),
        prior_log_sd=jnp.stack([hypothesis.priors[name].log_sd() for name in names]),
        other_mass=jnp.where(jnp.any(jnp.isnan(masses)), 0.0, jnp.sum(masses[1:])),
    )


def _record(
    hypothesis: Hypothesis,
    priors: dict[str, str],
    data: Batch,
    index: int,
    solution: _Solution,
    coords: Coords,
    *,
    at_bound: bool,
) -> Evidence:
    names = hypothesis.names
    chosen = _chosen(solution, coords)
    theta = np.asarray(chosen.theta[index])
    log_evidence = float(chosen.log_evidence[index])
    status, cov = Status.OK, np.full((len(names), len(names)), np.nan)
    difference = solution.natural.log_evidence[index] - solution.log.log_evidence[index]
    other_mass = float(solution.other_mass[index])
    if not np.isfinite(log_evidence):
        status = Status.NOT_FINITE
    elif at_bound:
        status = Status.MODE_AT_BOUND
    elif not chosen.converged[index]:
        status = Status.MAP_NOT_CONVERGED
    elif chosen.lowest_curvature[index] <= 0:
        status = Status.HESSIAN_NOT_POSITIVE
    else:
        cov = np.linalg.inv(np.asarray(chosen.precision[index]))
        if not abs(difference) <= _DISAGREEMENT or other_mass > _OTHER_MASS:
            status = Status.LAPLACE_UNRELIABLE
    sd = np.sqrt(np.diag(cov))
    warnings: tuple[str, ...] = () if status is Status.OK else (status.advice,)
    if status is Status.LAPLACE_UNRELIABLE and other_mass > _OTHER_MASS:
        warnings = (
            f"the posterior has other modes with about {other_mass:.0%} of its mass, which "
            "Laplace's method leaves out; use method='auto'",
        )
    elif status is Status.LAPLACE_UNRELIABLE:
        warnings = (
            f"Laplace's method in natural and in log parameters disagrees by {abs(difference):.2f} "
            f"nats at tau = {data.tau(index):g}: trust neither, use method='auto'",
        )
    signed = np.array(hypothesis.signed)
    log_sd = sd / np.where(signed, 1.0, theta) if coords == "natural" else sd
    log_likelihood = float(chosen.log_likelihood[index])
    quantiles, mean, natural_sd, natural_cov = _natural(theta, sd, cov, coords, signed)

    def named(values: FloatArray) -> dict[str, float]:
        return {name: float(values[i]) for i, name in enumerate(names)}

    contraction = named(1 - log_sd / np.asarray(solution.prior_log_sd[index]))
    return Evidence(
        hypothesis=hypothesis.name,
        method="laplace",
        coords=coords,
        log_evidence=log_evidence,
        log_evidence_err=float("nan"),
        log_likelihood_at_map=log_likelihood,
        map=named(theta),
        posterior_mean=named(mean),
        posterior_sd=named(natural_sd),
        posterior_quantiles={n: quantiles[i] for i, n in enumerate(names)},
        posterior_cov=natural_cov,
        log_mean=named(np.where(signed, theta, np.log(np.where(theta > 0, theta, np.nan)))),
        log_sd=named(log_sd),
        contraction=contraction,
        # A Gaussian posterior in p dimensions lies p/2 below its peak on average.
        expected_log_likelihood=log_likelihood - 0.5 * len(names),
        status=status,
        warnings=(*warnings, *unidentified(contraction, data.tau(index))),
        tau=data.tau(index),
        data_fingerprint=data.fingerprint(index),
        priors=priors,
        derived=derived_at(hypothesis, data, index, theta),
    )


def _natural(
    theta: FloatArray, sd: FloatArray, cov: FloatArray, coords: Coords, signed: NDArray[np.bool_]
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Quantiles, mean, sd and covariance of θ from the Gaussian in either set of coordinates."""
    scores = np.asarray(_SCORES)
    assert len(scores) == len(QUANTILES)
    if coords == "natural":
        return theta[:, None] + sd[:, None] * scores, theta, sd, cov
    mean = np.where(signed, theta, theta * np.exp(0.5 * sd**2))
    natural_cov = np.outer(mean, mean) * np.expm1(cov)
    # With a Gaussian x, Cov(x, e^y) = Cov(x, y) E[e^y].
    slope = np.where(signed, 1.0, mean)
    either = signed[:, None] | signed
    natural_cov = np.where(either, np.outer(slope, slope) * cov, natural_cov)
    spread = sd[:, None] * scores
    quantiles = np.where(signed[:, None], theta[:, None] + spread, theta[:, None] * np.exp(spread))
    return quantiles, mean, np.sqrt(np.diag(natural_cov)), natural_cov


def _support(hypothesis: Hypothesis) -> FloatArray:
    """Ends of the interval to which each parameter's prior confines it, in the order of θ."""
    ends = jnp.asarray([0.0, 1.0])
    return np.array([hypothesis.priors[name].quantile(ends) for name in hypothesis.names])


def _at_bound(support: FloatArray, theta: Float[Array, " parameter"] | FloatArray) -> bool:
    """Whether a parameter lies at an end of a finite interval to which its prior confines it.

    Asked of every mode: in unconstrained coordinates an end is a top like any other, at infinity.
    """
    low, high = support.T
    margin = _EDGE * np.where(np.isfinite(high), high - low, 0.0)
    inside = (low + margin < theta) & (theta < high - margin)
    return bool(np.any(np.isfinite(high) & ~inside))
