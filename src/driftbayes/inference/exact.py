"""Exact evidence: closed form for the scale, quadrature for at most three other parameters."""

__all__ = ["exact", "exact_batch", "exact_draws", "is_integrable"]

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from numpy.typing import NDArray
from scipy.special import logsumexp

from driftbayes.errors import DriftbayesError, Status
from driftbayes.inference._batch import Batch, run_batch
from driftbayes.inference.derived import derived_at
from driftbayes.inference.evidence import Evidence, unidentified
from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.inference.importance import resample
from driftbayes.inference.joint import LogJoint, evaluations_at_once, whole_scale
from driftbayes.inference.lattice import Lattice, draw_candidates, keep_by_ratio
from driftbayes.inference.modes import Modes, find_modes
from driftbayes.inference.posterior import PosteriorNodes, summarise
from driftbayes.inference.scale import GammaForm, draw_scales, gamma_form, log_scale_evidence
from driftbayes.inference.symmetric import cholesky, eigh, solve_lower
from driftbayes.inference.trapezoid import EVEN, Grid, integrate
from driftbayes.jax_typing import Scalar
from driftbayes.likelihood import GaussianTerms
from driftbayes.likelihood.terms import LOG_2PI
from driftbayes.models import Data
from driftbayes.typing import FloatArray

# Nodes are added until the evidence is this certain, in nats: by the number of parameters that are
# left for quadrature, three of which are dear.
_TOLERANCE = {0: 1e-8, 1: 1e-8, 2: 1e-8, 3: 1e-3}
_REFINEMENTS = {0: (1, 2, 4), 1: (1, 2, 4), 2: (1, 2, 4), 3: (1, 2)}
_MOST = 3
# Modes whose mass is within exp(-_DEPTH) of the largest may have a box of their own, if it helps.
_DEPTH = 23.0
_MAX_PARTS = 11
# A share of the mass at modes without a box that is told as an error; more is not accepted.
_MAX_MISSED = 1e-3
_NOTHING = 1e-12
# Rounds of candidates for draws; the first is enough but for thin ridges.
_MAX_ROUNDS = 10
# By how many errors, and how much, ln Z from points between the nodes may differ.
_AGREEMENT, _MAX_OFF = 5.0, 1e-3
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
    return [record for record, _ in _solved(hypotheses, data)]


def exact_draws(
    hypothesis: Hypothesis, data: Batch, n: int, rng: np.random.Generator
) -> tuple[Evidence, FloatArray, FloatArray]:
    """Independent draws from the posterior that the quadrature found, exact between its nodes too.

    Candidates come from the density interpolated between the nodes and are kept or not by the
    ratio of the density itself to it. The scale, integrated out, has its own exact draw at each of
    them. The mean of the ratios is 1 if the quadrature saw all that there is between its nodes; if
    it is not, the status says so.

    Args:
        hypothesis: Model family and prior.
        data: One data set, from `Batch.of`.
        n: How many.
        rng: Random numbers.

    Returns:
        The evidence, the draws of θ, (draw, parameter), and ln p(D | θ) of each.

    Raises:
        DriftbayesError: The posterior has no finite value to draw from.
    """
    ((record, solution),) = _solved([hypothesis], data)
    if record.status is Status.NOT_FINITE:
        msg = f"no draws from the posterior of {record.hypothesis}: {record.status.advice}"
        raise DriftbayesError(msg)
    nodes = solution.nodes
    if solution.lattice is None:
        found: _Found = jax.tree.map(
            lambda leaf: np.repeat(leaf[0], n, axis=0), (nodes.theta, nodes.terms)
        )
    else:
        lattice = jax.tree.map(lambda leaf: leaf[0], solution.lattice)
        found, doubt = _draw_from(lattice, hypothesis, data, n, rng)
        if doubt and record.status is Status.OK:
            status = Status.QUADRATURE_NOT_CONVERGED
            record = replace(record, status=status, warnings=(doubt, *record.warnings))
    theta, rest = found
    if not isinstance(rest, GaussianTerms):
        return record, theta, rest
    place = whole_scale(hypothesis, data.data)
    assert nodes.form is not None
    assert place is not None
    count, log_det, quadratic, shape, rate = (
        np.broadcast_to(np.asarray(part).reshape(-1), n)
        for part in (rest.n, rest.log_det, rest.quadratic, nodes.form.shape, nodes.form.rate)
    )
    scale = draw_scales(count, quadratic, shape, rate, rng)
    theta = np.array(theta)
    theta[:, place] = scale
    return record, theta, -0.5 * (count * (LOG_2PI + np.log(scale)) + log_det + quadratic / scale)


# θ at each point, and ln L there, or the Gaussian terms if the scale is integrated out.
_Found = tuple[FloatArray, Any]


def _draw_from(
    lattices: Lattice, hypothesis: Hypothesis, data: Batch, n: int, rng: np.random.Generator
) -> tuple[_Found, str]:
    """Draws from all lattices together by their shares, and a doubt in words if there is one."""
    n_parts, size = len(lattices.log_cell), n + n // 4 + 64
    log_shares = logsumexp(lattices.log_values, axis=1) + lattices.log_cell
    shares = np.exp(log_shares - logsumexp(log_shares))
    ratios, uniforms = np.zeros(0), np.zeros(0)
    found: list[_Found] = []
    for _ in range(_MAX_ROUNDS):
        parts = rng.choice(n_parts, size=size, p=shares)
        z = np.empty((size, lattices.center.shape[1]))
        guess, stretch = np.empty(size), np.empty(size)
        for part in np.unique(parts):
            here = parts == part
            lattice = jax.tree.map(lambda leaf, i=part: leaf[i], lattices)
            z[here], guess[here], stretch[here] = draw_candidates(lattice, int(here.sum()), rng)
        values, *rest = jax.tree.map(
            np.asarray,
            _at_points(hypothesis, data.data, lattices, jnp.asarray(z), jnp.asarray(parts)),
        )
        found.append(tuple(rest))
        ratios = np.append(ratios, np.nan_to_num(values + stretch - guess, nan=-np.inf))
        uniforms = np.append(uniforms, rng.random(size))
        kept = keep_by_ratio(ratios, uniforms)
        if len(kept) >= n:
            break
    else:
        kept = resample(ratios, n, rng)
    relative = np.exp(ratios)
    error = relative.std(ddof=1) / np.sqrt(len(relative))
    doubt = ""
    if not abs(relative.mean() - 1) <= _AGREEMENT * error + _MAX_OFF:
        doubt = (
            f"points between the nodes of the quadrature give ln Z higher by "
            f"{np.log(relative.mean()):.2g} ± {error:.1g}; use method='smc', or a narrower prior"
        )
    everything = jax.tree.map(lambda *leaves: np.concatenate(leaves), *found)
    return jax.tree.map(lambda leaf: leaf[kept[:n]], everything), doubt


@eqx.filter_jit
def _at_points(
    hypothesis: Hypothesis, data: Data, lattices: Lattice, z: Array, parts: Array
) -> tuple[Array, Array, Any]:
    """Ln of the integrand of each point's part, θ, and what else was found there."""
    joint = LogJoint(hypothesis, data)
    log_f = _log_integrand(joint, _scale_form(hypothesis, data))
    shares = _Shares(lattices.center, lattices.basis, lattices.log_mass)

    def at(point: tuple[Array, Array]) -> tuple[Array, Array, Any]:
        value, (theta, rest) = log_f(point[0])
        if isinstance(rest, GaussianTerms):
            rest = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, jnp.shape(value)), rest)
        return value + shares.log_share(*point), theta, rest

    at_once = evaluations_at_once(hypothesis, data, 256)
    return jax.lax.map(at, (z, parts), batch_size=at_once)


def _solved(hypotheses: Sequence[Hypothesis], data: Batch) -> list[tuple[Evidence, "_Solution"]]:
    """Each record and the solution that it was made from, with a batch of one."""
    if not is_integrable(hypotheses[0], data):
        msg = (
            f"exact integration handles up to three parameters beside the scale, "
            f"{hypotheses[0].name} has {len(hypotheses[0].names)} in all; use method='bridge'"
        )
        raise DriftbayesError(msg)
    n_left = _n_left(hypotheses[0], data.data)
    first, *finer = _REFINEMENTS[n_left]
    tolerance = _TOLERANCE[n_left]
    solution: _Solution = run_batch(_solve, hypotheses, data, first, 1)
    records = _records(hypotheses, data, solution)
    solved = [
        (record, jax.tree.map(lambda leaf, i=i: leaf[i : i + 1], solution))
        for i, record in enumerate(records)
    ]
    is_whole = _missed(solution) < 0.01 * tolerance
    doubtful = np.isfinite(solution.log_evidence) & ~(_is_certain(solution, tolerance) & is_whole)
    for i in map(int, np.flatnonzero(doubtful)):
        one, single = [hypotheses[min(i, len(hypotheses) - 1)]], data[i]
        n_modes = int(np.clip(solution.n_modes[i], 1, _MAX_PARTS))
        # A box around the highest mode with more and more nodes; where it misses other modes, or
        # cannot be made certain, a box around each.
        tries = [(refinement, 1) for refinement in finer] if is_whole[i] else []
        tries += [(refinement, n_modes) for refinement in (first, *finer) if n_modes > 1]
        for refinement, n_parts in tries:
            refined: _Solution = run_batch(_solve, one, single, refinement, n_parts)
            solved[i] = (_records(one, single, refined)[0], refined)
            if (_is_certain(refined, tolerance) & (_missed(refined) < _MAX_MISSED))[0]:
                break
    return solved


def is_integrable(hypothesis: Hypothesis, data: Batch) -> bool:
    """Whether few enough parameters are left for quadrature."""
    return _n_left(hypothesis, data.data) <= _MOST


def _n_left(hypothesis: Hypothesis, data: Data) -> int:
    """Number of parameters left for quadrature."""
    return len(hypothesis.names) - (_scale_form(hypothesis, data) is not None)


class _Solution(eqx.Module):
    """What the compiled part finds: the mode, the integral, and the nodes it stands on.

    Args:
        log_evidence: ln Z.
        error: Estimate of its error.
        contained: Whether boxes were found that hold the peaks.
        converged: Whether the mode was found.
        n_modes: Number of modes that are worth a box of their own.
        log_missed: ln of the approximate integral of modes that lie outside of all boxes.
        theta_map: θ*.
        log_likelihood_at_map: ln L there.
        prior_log_sd: Of each parameter.
        nodes: The posterior as weighted nodes.
        lattice: The same by lattice; None if no parameter is left for quadrature.
    """

    log_evidence: Scalar
    error: Scalar
    contained: Array
    converged: Array
    n_modes: Array
    log_missed: Scalar
    theta_map: Float[Array, " parameter"]
    log_likelihood_at_map: Scalar
    prior_log_sd: Float[Array, " parameter"]
    nodes: PosteriorNodes
    lattice: Lattice | None


def _scale_form(hypothesis: Hypothesis, data: Data) -> GammaForm | None:
    """The scale's prior, if the scale multiplies all and can be integrated out."""
    place = whole_scale(hypothesis, data)
    return None if place is None else gamma_form(hypothesis.priors[hypothesis.names[place]])


def _solve(hypothesis: Hypothesis, data: Data, refinement: int, n_parts: int) -> _Solution:
    joint = LogJoint(hypothesis, data)
    modes = find_modes(hypothesis, data)
    theta_map = hypothesis.from_unconstrained(modes.natural.z)
    form = _scale_form(hypothesis, data)
    # The coordinates that are left for quadrature.
    left = joint.others if form is not None else np.arange(len(hypothesis.names))
    log_f = _log_integrand(joint, form)
    log_missed = jnp.asarray(-jnp.inf)
    contained: Array
    if len(left) == 0:
        log_evidence, (theta, rest) = log_f(jnp.zeros(0))
        theta, rest = jax.tree.map(lambda leaf: leaf[None], (theta, rest))
        log_values, lattice = jnp.zeros(1), None
        error, contained = 1e-15 * jnp.abs(log_evidence), jnp.isfinite(log_evidence)
    else:
        log_evidence, error, contained, (theta, rest), lattice = _boxes(
            log_f,
            modes,
            left,
            refinement,
            n_parts,
            evaluations_at_once(hypothesis, data, _MAX_AT_ONCE),
        )
        log_values = lattice.log_values.reshape(-1)
        if n_parts > 1:
            log_values = (lattice.log_values + lattice.log_cell[:, None]).reshape(-1)
        places = jnp.concatenate([modes.every.z, modes.left[None]])[:, left]
        masses = jnp.append(modes.log_mass, modes.left_mass)
        outside = ~jnp.any(jax.vmap(partial(_is_inside, lattice))(places), axis=1)
        log_missed = jax.scipy.special.logsumexp(jnp.where(outside, masses, -jnp.inf))
        log_missed = jnp.where(jnp.isnan(log_missed), -jnp.inf, log_missed)
    if form is None:
        nodes = PosteriorNodes(log_values, theta, log_likelihoods=rest)
    else:
        nodes = PosteriorNodes(log_values, theta, terms=rest, form=form)
    return _Solution(
        log_evidence=log_evidence,
        error=error,
        contained=contained,
        converged=modes.free.converged,
        n_modes=jnp.sum(modes.log_mass > jnp.max(modes.log_mass) - _DEPTH),
        log_missed=log_missed,
        theta_map=theta_map,
        log_likelihood_at_map=modes.natural.value - hypothesis.log_prior(theta_map),
        prior_log_sd=jnp.stack([hypothesis.priors[name].log_sd() for name in hypothesis.names]),
        nodes=nodes,
        lattice=lattice,
    )


class _Shares(eqx.Module):
    r"""A smooth division of space among modes: each has the share of its Gaussian in their sum.

    $$\rho_k(z) = \frac{m_k\,N(z; c_k, S_k)}{\sum_j m_j\,N(z; c_j, S_j)}$$

    Args:
        center: Modes.
        basis: Lower-triangular factor of the covariance of each Gaussian.
        log_mass: ln of the integral of each.
    """

    center: Float[Array, "part parameter"]
    basis: Float[Array, "part parameter parameter"]
    log_mass: Float[Array, " part"]

    def log_share(self, z: Float[Array, " parameter"], part: Array) -> Scalar:
        """Ln of the share of one mode at z."""
        if len(self.log_mass) == 1:
            return jnp.zeros(())

        def log_gaussian(center: Array, basis: Array, log_mass: Array) -> Scalar:
            w = solve_lower(basis, z - center)
            return log_mass - 0.5 * jnp.sum(w**2) - jnp.sum(jnp.log(jnp.diag(basis)))

        each = jax.vmap(log_gaussian)(self.center, self.basis, self.log_mass)
        return each[part] - jax.scipy.special.logsumexp(each)


def _boxes(
    log_f: Callable[[Array], tuple[Scalar, Any]],
    modes: Modes,
    left: NDArray[np.int_],
    refinement: int,
    n_parts: int,
    at_once: int,
) -> tuple[Scalar, Scalar, Array, Any, Lattice]:
    """Quadrature in a box around the highest mode, or in one around each of several.

    With several, each box has the integrand times the share of its mode, which is a single peak if
    the integrand is a sum of such.
    """
    log_mass, chosen = jax.lax.top_k(modes.log_mass, n_parts)
    if n_parts == 1:
        # The highest, even if the search for it did not converge.
        log_mass, chosen = modes.log_mass[:1], jnp.zeros(1, dtype=int)
    center = modes.every.z[chosen][:, left]

    def factor(hessian: Array) -> Array:
        return cholesky(_whitening(hessian)[np.ix_(left, left)])

    basis = jax.vmap(factor)(modes.every.hessian[chosen])
    shares = _Shares(center, basis, log_mass)

    def integral(part: Array) -> Grid:
        def integrand(z: Array) -> tuple[Scalar, Any]:
            value, extras = log_f(z)
            return value + shares.log_share(z, part), extras

        return integrate(integrand, center[part], basis[part], refinement, at_once)

    if n_parts == 1:
        grids = jax.tree.map(lambda leaf: leaf[None], integral(jnp.zeros((), dtype=int)))
    else:
        grids = jax.lax.map(integral, jnp.arange(n_parts))
    lattice = Lattice(
        center, basis, grids.low, grids.high, grids.log_values, grids.log_cell, log_mass
    )
    extras = grids.extras
    if n_parts == 1:
        extras = jax.tree.map(lambda leaf: leaf[0], extras)
        return grids.log_integral[0], grids.error[0], grids.contained[0], extras, lattice
    extras = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), extras)
    log_evidence = jax.scipy.special.logsumexp(grids.log_integral)
    weight = jnp.exp(grids.log_integral - log_evidence)
    # A part that carries nothing need not be contained.
    contained = jnp.all(grids.contained | (weight < _NOTHING))
    error = jnp.sum(jnp.where(weight < _NOTHING, weight, weight * grids.error))
    return log_evidence, error, contained, extras, lattice


def _is_inside(lattice: Lattice, z: Float[Array, " parameter"]) -> Bool[Array, " part"]:
    """Whether a point lies within the box of each lattice."""

    def one(center: Array, basis: Array, low: Array, high: Array) -> Array:
        w = EVEN * jnp.arcsinh(solve_lower(basis, z - center) / EVEN)
        return jnp.all((w > low) & (w < high))

    return jax.vmap(one)(lattice.center, lattice.basis, lattice.low, lattice.high)


def _whitening(hessian: Float[Array, "parameter parameter"]) -> Float[Array, "parameter parameter"]:
    """Covariance of a Gaussian of the same curvature, with widths kept within reason."""
    curvature, axes = eigh(-0.5 * (hessian + hessian.T))
    variance = jnp.clip(1 / jnp.maximum(jnp.abs(curvature), 1e-30), 1e-20, 4.0)
    return (axes * variance[None, :]) @ axes.T


def _log_integrand(
    joint: LogJoint, form: GammaForm | None
) -> Callable[[Array], tuple[Scalar, tuple[Array, Any]]]:
    """Ln of what is integrated, with θ and ln L, or the Gaussian terms if the scale is not left."""
    hypothesis = joint.hypothesis
    names, priors = hypothesis.names, hypothesis.priors

    def whole(z: Array) -> tuple[Scalar, tuple[Array, Scalar]]:
        theta = hypothesis.from_unconstrained(z)
        fit = joint.log_likelihood(theta)
        return fit + hypothesis.log_prior(theta) + hypothesis.log_jacobian(z), (theta, fit)

    if form is None:
        return whole

    def collapsed(z: Array) -> tuple[Scalar, tuple[Array, GaussianTerms]]:
        theta = jnp.ones(len(names))
        log_weight = jnp.zeros(())
        for i, index in enumerate(joint.others):
            prior = priors[names[index]]
            value = prior.from_unconstrained(z[i])
            theta = theta.at[index].set(value)
            log_weight = log_weight + prior.log_density(value) + prior.log_jacobian(z[i])
        terms = joint.unit_terms(z)
        return log_scale_evidence(terms, form) + log_weight, (theta, terms)

    return collapsed


def _missed(solution: _Solution) -> FloatArray:
    """Share of the evidence at modes that lie outside of the boxes."""
    return np.exp(np.minimum(solution.log_missed - solution.log_evidence, 700.0))


def _is_certain(solution: _Solution, tolerance: float) -> NDArray[np.bool_]:
    """Whether the error is within tolerance, or within the rounding of a huge log-evidence."""
    rounding = 4e-15 * np.abs(solution.log_evidence)
    return np.asarray(solution.error <= np.maximum(tolerance, rounding))


def _records(hypotheses: Sequence[Hypothesis], data: Batch, solution: _Solution) -> list[Evidence]:
    names = hypotheses[0].names
    posterior = summarise(
        solution.nodes,
        whole_scale(hypotheses[0], data.data),
        hypotheses[0].signed,
        on_grid=solution.lattice is None or solution.lattice.log_cell.shape[1] == 1,
    )
    contractions = 1 - posterior.log_sd / np.asarray(solution.prior_log_sd)
    descriptions = [hypothesis.describe() for hypothesis in hypotheses]
    tolerance = _TOLERANCE[_n_left(hypotheses[0], data.data)]
    missed = _missed(solution)
    certain = _is_certain(solution, tolerance) & (missed < _MAX_MISSED)

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
            log_evidence_err=float(solution.error[i] + missed[i]),
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
