"""Exact evidence: closed form for the scale, quadrature for at most three other parameters."""

__all__ = ["exact", "exact_batch", "is_integrable"]

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from driftbayes.errors import DriftbayesError, Status
from driftbayes.inference._batch import Batch, run_batch
from driftbayes.inference.derived import derived_at
from driftbayes.inference.evidence import Evidence, unidentified
from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.inference.joint import LogJoint, whole_scale
from driftbayes.inference.modes import find_modes
from driftbayes.inference.newton import Mode
from driftbayes.inference.posterior import PosteriorNodes, summarise
from driftbayes.inference.scale import gamma_form, log_scale_evidence
from driftbayes.inference.symmetric import cholesky, eigh
from driftbayes.inference.trapezoid import integrate
from driftbayes.jax_typing import Scalar
from driftbayes.likelihood import GaussianTerms
from driftbayes.likelihood.memory import evaluations_at_once
from driftbayes.models import Data
from driftbayes.typing import FloatArray

# Nodes are added until the evidence is this certain, in nats: by the number of parameters that are
# left for quadrature, three of which are dear.
_TOLERANCE = {0: 1e-8, 1: 1e-8, 2: 1e-8, 3: 1e-3}
_REFINEMENTS = {0: (1, 2, 4), 1: (1, 2, 4), 2: (1, 2, 4), 3: (1, 2)}
_MOST = 3
# As many nodes as one row of the finest grid has.
_MAX_AT_ONCE = 1024


def exact(hypothesis: Hypothesis, data: Batch) -> Evidence:
    r"""The evidence by integration, good to 1e-8 nats, with three left over 1e-3. [eq:evidence].

    A scale parameter with an exponential or gamma prior is integrated out in closed form (a
    modified Bessel function); what is left, up to three parameters, by a whitened trapezoid rule.

    Args:
        hypothesis: Model family and prior.
        data: One data set, from `Batch.of`.
    """
    return exact_batch([hypothesis], data)[0]


def exact_batch(hypotheses: Sequence[Hypothesis], data: Batch) -> list[Evidence]:
    """The same for several data sets under one hypothesis, or one data set under several priors."""
    if not is_integrable(hypotheses[0], data):
        msg = (
            f"exact integration handles up to three parameters beside the scale, "
            f"{hypotheses[0].name} has {len(hypotheses[0].names)} in all; use method='bridge'"
        )
        raise DriftbayesError(msg)
    n_left = _n_left(hypotheses[0], data.data)
    first, *finer = _REFINEMENTS[n_left]
    tolerance = _TOLERANCE[n_left]
    solution: _Solution = run_batch(_solve, hypotheses, data, first)
    records = _records(hypotheses, data, solution)
    doubtful = np.isfinite(solution.log_evidence) & ~_is_certain(solution, tolerance)
    for i in map(int, np.flatnonzero(doubtful)):
        one, single = [hypotheses[min(i, len(hypotheses) - 1)]], data[i]
        for refinement in finer:
            refined: _Solution = run_batch(_solve, one, single, refinement)
            records[i] = _records(one, single, refined)[0]
            if _is_certain(refined, tolerance)[0]:
                break
    return records


def is_integrable(hypothesis: Hypothesis, data: Batch) -> bool:
    """Whether few enough parameters are left for quadrature."""
    return _n_left(hypothesis, data.data) <= _MOST


def _n_left(hypothesis: Hypothesis, data: Data) -> int:
    """Number of parameters left for quadrature."""
    return len(hypothesis.names) - _is_collapsible(hypothesis, data)


class _Solution(eqx.Module):
    """What the compiled part finds: the mode, the integral, and the nodes it stands on."""

    log_evidence: Scalar
    error: Scalar
    contained: Array
    converged: Array
    theta_map: Float[Array, " parameter"]
    log_likelihood_at_map: Scalar
    prior_log_sd: Float[Array, " parameter"]
    nodes: PosteriorNodes


_Integral = tuple[Scalar, Scalar, Array, PosteriorNodes]


def _is_collapsible(hypothesis: Hypothesis, data: Data) -> bool:
    """Whether the scale can be integrated out: it multiplies all, and its prior is a gamma's."""
    place = whole_scale(hypothesis, data)
    return place is not None and gamma_form(hypothesis.priors[hypothesis.names[place]]) is not None


def _solve(hypothesis: Hypothesis, data: Data, refinement: int) -> _Solution:
    joint = LogJoint(hypothesis, data)
    mode, free = find_modes(hypothesis, data)
    theta_map = hypothesis.from_unconstrained(mode.z)
    integral = _collapsed if _is_collapsible(hypothesis, data) else _whole
    log_evidence, error, contained, nodes = integral(joint, free, refinement)
    return _Solution(
        log_evidence=log_evidence,
        error=error,
        contained=contained,
        converged=free.converged,
        theta_map=theta_map,
        log_likelihood_at_map=mode.value - hypothesis.log_prior(theta_map),
        prior_log_sd=jnp.stack([hypothesis.priors[name].log_sd() for name in hypothesis.names]),
        nodes=nodes,
    )


def _whitening(hessian: Float[Array, "parameter parameter"]) -> Float[Array, "parameter parameter"]:
    """Covariance of a Gaussian of the same curvature, with widths kept within reason."""
    curvature, axes = eigh(-0.5 * (hessian + hessian.T))
    variance = jnp.clip(1 / jnp.maximum(jnp.abs(curvature), 1e-30), 1e-20, 4.0)
    return (axes * variance[None, :]) @ axes.T


def _whole(joint: LogJoint, mode: Mode, refinement: int) -> _Integral:
    """Quadrature over all parameters."""
    hypothesis = joint.hypothesis

    def log_f(z: Array) -> tuple[Scalar, tuple[Array, Scalar]]:
        theta = hypothesis.from_unconstrained(z)
        fit = joint.log_likelihood(theta)
        return fit + hypothesis.log_prior(theta) + hypothesis.log_jacobian(z), (theta, fit)

    basis = cholesky(_whitening(mode.hessian))
    grid = integrate(log_f, mode.z, basis, refinement, _at_once(joint))
    theta, fits = grid.extras
    nodes = PosteriorNodes(grid.log_values, theta, log_likelihoods=fits)
    return grid.log_integral, grid.error, grid.contained, nodes


def _collapsed(joint: LogJoint, mode: Mode, refinement: int) -> _Integral:
    """Scale in closed form, quadrature over the other parameters."""
    names, priors, others = joint.hypothesis.names, joint.hypothesis.priors, joint.others
    form = None if joint.place is None else gamma_form(priors[names[joint.place]])
    if form is None:
        msg = f"the scale of {joint.hypothesis.name} has no closed integral"
        raise DriftbayesError(msg)

    def log_f(z: Array) -> tuple[Scalar, tuple[Array, GaussianTerms]]:
        theta = jnp.ones(len(names))
        log_weight = jnp.zeros(())
        for i, index in enumerate(others):
            prior = priors[names[index]]
            value = prior.from_unconstrained(z[i])
            theta = theta.at[index].set(value)
            log_weight = log_weight + prior.log_density(value) + prior.log_jacobian(z[i])
        terms = joint.unit_terms(z)
        return log_scale_evidence(terms, form) + log_weight, (theta, terms)

    if len(others) == 0:
        log_evidence, (theta, terms) = log_f(jnp.zeros(0))
        terms = jax.tree.map(lambda leaf: leaf[None], terms)
        nodes = PosteriorNodes(jnp.zeros(1), theta[None], terms=terms, form=form)
        return log_evidence, 1e-15 * jnp.abs(log_evidence), jnp.isfinite(log_evidence), nodes

    basis = cholesky(_whitening(mode.hessian)[np.ix_(others, others)])
    grid = integrate(log_f, mode.z[others], basis, refinement, _at_once(joint))
    theta, terms = grid.extras
    nodes = PosteriorNodes(grid.log_values, theta, terms=terms, form=form)
    return grid.log_integral, grid.error, grid.contained, nodes


def _at_once(joint: LogJoint) -> int:
    """At how many nodes the likelihood can be evaluated at a time."""
    dense = not joint.hypothesis.model.has_state_space
    return evaluations_at_once(joint.data, _MAX_AT_ONCE, dense=dense)


def _is_certain(solution: _Solution, tolerance: float) -> NDArray[np.bool_]:
    """Whether the error is within tolerance, or within the rounding of a huge log-evidence."""
    rounding = 4e-15 * np.abs(solution.log_evidence)
    return np.asarray(solution.error <= np.maximum(tolerance, rounding))


def _records(hypotheses: Sequence[Hypothesis], data: Batch, solution: _Solution) -> list[Evidence]:
    names = hypotheses[0].names
    posterior = summarise(
        solution.nodes, whole_scale(hypotheses[0], data.data), hypotheses[0].signed
    )
    contractions = 1 - posterior.log_sd / np.asarray(solution.prior_log_sd)
    descriptions = [hypothesis.describe() for hypothesis in hypotheses]
    certain = _is_certain(solution, _TOLERANCE[_n_left(hypotheses[0], data.data)])

    def record(i: int) -> Evidence:
        def named(values: Array | FloatArray) -> dict[str, float]:
            return {name: float(value) for name, value in zip(names, values[i], strict=True)}

        status = Status.OK
        if not np.isfinite(solution.log_evidence[i]):
            status = Status.NOT_FINITE
        elif not (certain[i] and solution.contained[i]):
            status = Status.QUADRATURE_NOT_CONVERGED
        elif not solution.converged[i]:
            status = Status.MAP_NOT_CONVERGED
        contraction = named(contractions)
        warnings = () if status is Status.OK else (status.advice,)
        return Evidence(
            hypothesis=hypotheses[0].name,
            method="exact",
            log_evidence=float(solution.log_evidence[i]),
            log_evidence_err=float(solution.error[i]),
            log_likelihood_at_map=float(solution.log_likelihood_at_map[i]),
            map=named(solution.theta_map),
            posterior_mean=named(posterior.mean),
            posterior_sd=named(np.sqrt(np.diagonal(posterior.cov, axis1=1, axis2=2))),
            posterior_quantiles=dict(zip(names, posterior.quantiles[i], strict=True)),
            posterior_cov=posterior.cov[i],
            log_mean=named(posterior.log_mean),
            log_sd=named(posterior.log_sd),
            contraction=contraction,
            expected_log_likelihood=float(posterior.expected_log_likelihood[i]),
            status=status,
            warnings=(*warnings, *unidentified(contraction, data.tau(i))),
            tau=data.tau(i),
            data_fingerprint=data.fingerprint(i),
            priors=descriptions[min(i, len(descriptions) - 1)],
            derived=derived_at(
                hypotheses[min(i, len(hypotheses) - 1)], data, i, solution.theta_map[i]
            ),
        )

    return [record(i) for i in range(len(solution.error))]
