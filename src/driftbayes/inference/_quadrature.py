"""Integration of a posterior on lattices of nodes around its modes."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from driftbayes._typing import FloatArray, IntArray
from driftbayes.inference._density import Density
from driftbayes.inference._hypothesis import Hypothesis, points_at
from driftbayes.inference._lattice import to_w, whiten
from driftbayes.inference._log_sums import logsumexp
from driftbayes.inference._newton import Components, covariance
from driftbayes.inference._node_lattice import NodeLattice, integrate
from driftbayes.inference._scale import GammaForm, gamma_form, log_scale_evidence
from driftbayes.inference._search import Modes
from driftbayes.priors import AbstractPrior, Fixed, Uniform

# Largest width of the coordinates of a lattice.
_MAX_WIDTH = 2.0
# Only modes whose mass is within exp(-_DEPTH) of the largest get their own lattice.
_DEPTH = 23.0
_MAX_PARTS = 11
# Largest accepted share of the mass at modes without nodes, which adds to the error.
MAX_MISSED = 1e-3
# Parts with a smaller share of the mass are ignored in the error.
_MIN_SHARE = 1e-12
# Upper bound of the mass beyond the edge of a lattice, relative to the mass at the edge.
_EDGE_FACTOR = 10.0
# Modes within this many widths of the center of a lattice are its seeds.
_MAX_SEED_DISTANCE = 10.0
# The reported error is this many times the estimate of the lattice, which is sometimes too small.
# With three parameters it is at least the tolerance: a thin arm may contain 1e-4 of the mass.
ERROR_FACTORS = {1: 3.0, 2: 3.0}
_MAX_ERROR_FACTOR = 6.0
# Relative mass beyond the last nodes that is negligible in moments.
MAX_TAIL = 1e-5
_MAX_NODES = {1: 4_000, 2: 60_000, 3: 300_000}


@dataclass(frozen=True, eq=False)
class Quadrature:
    """Integral over the coordinates left for quadrature, with its nodes.

    Args:
        density: Integrated density.
        left: Indices in θ of the coordinates left for quadrature.
        form: Prior of the scale, if it was integrated out in closed form.
        log_evidence: ln Z.
        error: Estimate of its error.
        contained: Whether the mass beyond the last nodes is negligible.
        missed: Share of the mass at modes that no lattice covers.
        lattices: One per part; empty if no coordinate was left.
        nodes: Weighted nodes of all parts.
        n_evaluations: Evaluations of the integrand.
    """

    density: Density
    left: IntArray
    form: GammaForm | None
    log_evidence: float
    error: float
    contained: bool
    missed: float
    lattices: tuple[NodeLattice, ...]
    nodes: "Nodes"
    n_evaluations: int

    def log_values(self, z: FloatArray) -> tuple[FloatArray, "Nodes"]:
        """Compute ln of the integrand at points of the coordinates left, and the nodes there."""
        return _integrand(self.density, self.left, self.form)(z)


@dataclass(frozen=True)
class Nodes:
    """Points with parameters and likelihoods.

    Args:
        log_weights: ln of the weight of each point in the integral.
        theta: Parameters; the scale is 1 if it was integrated out.
        fits: ln L, or count, log-determinant and quadratic form at unit scale.
    """

    log_weights: FloatArray
    theta: FloatArray
    fits: FloatArray


def _log_share(modes: Components, part: int, z: FloatArray) -> FloatArray:
    r"""Compute ln of the share of one mode in the sum of the Gaussians of all, at each point.

    $$\rho_k(z) = \frac{m_k\,N(z; c_k, S_k)}{\sum_j m_j\,N(z; c_j, S_j)}$$
    """
    if len(modes.log_masses) == 1:
        return np.zeros(len(z))
    each = []
    for center, factor, mass in zip(modes.centers, modes.factors, modes.log_masses, strict=True):
        w = whiten(z, center, factor)
        each.append(mass - 0.5 * np.sum(w**2, axis=1) - np.sum(np.log(np.diag(factor))))
    return np.asarray(each[part] - logsumexp(each, axis=0))


def scale_form(density: Density) -> GammaForm | None:
    """Return the prior of a scale that can be integrated out; None if there is none."""
    place, hypothesis = density.scale, density.hypothesis
    return None if place is None else gamma_form(hypothesis.priors[hypothesis.names[place]])


def integrate_posterior(density: Density, modes: Modes, tolerance: float) -> Quadrature:
    """Integrate around the highest mode, or around each mode if that is not accurate enough.

    Args:
        density: Hypothesis and data.
        modes: Modes of the density of z.
        tolerance: Accepted error of ln Z.
    """
    form = scale_form(density)
    n = len(density.hypothesis.names)
    left = np.array([i for i in range(n) if form is None or i != density.scale], dtype=np.int64)
    log_f = _integrand(density, left, form)
    if len(left) == 0:
        values, nodes = log_f(np.zeros((1, 0)))
        error = 1e-15 * abs(values[0])
        whole = Nodes(np.zeros(1), nodes.theta, nodes.fits)
        is_finite = bool(np.isfinite(values[0]))
        return Quadrature(
            *(density, left, form, float(values[0]), float(error), is_finite, 0.0),
            *((), whole, 1),
        )
    count = int(np.sum(modes.log_mass > modes.log_mass.max() - _DEPTH))
    best = _in_parts(density, modes, left, form, 1, tolerance)
    is_good = best.error <= tolerance and best.contained and best.missed < 0.01 * tolerance
    if is_good or count < 2 or not np.isfinite(best.log_evidence):
        return best
    other = _in_parts(density, modes, left, form, min(count, _MAX_PARTS), tolerance)
    return other if other.error + other.missed < best.error + best.missed else best


def _in_parts(
    density: Density,
    modes: Modes,
    left: IntArray,
    form: GammaForm | None,
    n_parts: int,
    tolerance: float,
) -> Quadrature:
    """Integrate on one lattice per mode, each over its mode's share of the integrand.

    Args:
        density: Integrated density.
        modes: Modes of the density of z.
        left: Indices in θ of the coordinates left for quadrature.
        form: Prior of the scale, if it is integrated out in closed form.
        n_parts: Number of modes with a lattice.
        tolerance: Accepted error of ln Z.
    """
    log_f = _integrand(density, left, form)
    # A single part is the highest mode, even if its search did not converge.
    chosen = [0] if n_parts == 1 else np.argsort(-modes.log_mass, kind="stable")[:n_parts]
    centers = np.stack([modes.every[i].z[left] for i in chosen])
    covariances = [covariance(modes.every[i].hessian, _MAX_WIDTH) for i in chosen]
    bases = np.linalg.cholesky(np.stack(covariances)[:, left[:, None], left]).astype(np.float64)
    gaussians = Components(centers, bases, np.array([modes.log_mass[i] for i in chosen]))
    others = np.array([m.z[left] for m in modes.every if m.converged]).reshape(-1, len(left))
    error_factor = ERROR_FACTORS.get(len(left), _MAX_ERROR_FACTOR)
    lattices = []
    for part in range(n_parts):

        def integrand(z: FloatArray, part: int = part) -> tuple[FloatArray, FloatArray]:
            values, nodes = log_f(z)
            return values + _log_share(gaussians, part, z), np.hstack([nodes.theta, nodes.fits])

        seeds = _near(others, centers[part], bases[part]) if n_parts == 1 else None
        lattices.append(
            integrate(
                integrand,
                centers[part],
                bases[part],
                tolerance=tolerance / error_factor,
                seeds=seeds,
                max_nodes=_MAX_NODES.get(len(left), 500_000),
                max_tail=MAX_TAIL,
            )
        )
    logs = np.array([lattice.log_integral for lattice in lattices])
    log_evidence = float(logsumexp(logs)) if np.isfinite(logs).any() else -np.inf
    with np.errstate(all="ignore"):
        weight = np.nan_to_num(np.exp(logs - log_evidence))
    errors = error_factor * np.array([lattice.error for lattice in lattices])
    if len(left) > 2:
        errors = np.maximum(errors, tolerance)
    # A part of negligible mass need not be contained.
    used = weight > _MIN_SHARE
    places = [*(m.z for m in modes.every), *modes.left]
    masses = [*modes.log_mass, *modes.left_mass]
    log_missed = [
        mass
        for z, mass in zip(places, masses, strict=True)
        if np.isfinite(mass) and not any(_covers(lattice, z[left]) for lattice in lattices)
    ]
    missed = float(np.exp(min(logsumexp(log_missed) - log_evidence, 700.0))) if log_missed else 0.0
    n_parameters = len(density.hypothesis.names)
    extras = np.concatenate([lattice.extras for lattice in lattices])
    nodes = Nodes(
        np.concatenate([lattice.log_values + lattice.log_cell for lattice in lattices]),
        extras[:, :n_parameters],
        extras[:, n_parameters:],
    )
    return Quadrature(
        density=density,
        left=left,
        form=form,
        log_evidence=log_evidence,
        error=float(np.sum(weight[used] * errors[used])) if used.any() else np.inf,
        contained=all(
            part.contained for part, is_used in zip(lattices, used, strict=True) if is_used
        ),
        missed=missed,
        lattices=tuple(lattices),
        nodes=nodes,
        n_evaluations=sum(lattice.n_evaluations for lattice in lattices),
    )


def reweight(found: Quadrature, density: Density) -> Quadrature | None:
    """Integrate the same data under another prior, reusing the nodes.

    Args:
        found: Quadrature under one prior.
        density: The same data and model under another prior.

    Returns:
        The quadrature, whose error includes the difference of the two lattices and the mass at the
        edge; None if the coordinates of the two priors differ.
    """
    old, new = found.density.hypothesis, density.hypothesis
    form = scale_form(density)
    if (
        not found.lattices
        or (form is None) != (found.form is None)
        or not same_coordinates(old, new)
    ):
        return None
    n, left = len(new.names), found.left
    lattices = []
    for lattice in found.lattices:
        z = np.zeros((len(lattice.z), n))
        z[:, left] = lattice.z
        priors = [points_at(hypothesis, z)[1][:, left].sum(axis=1) for hypothesis in (old, new)]
        change = priors[1] - priors[0]
        if form is not None and found.form is not None:
            count, log_det, quadratic = lattice.extras[:, n:].T
            terms = (count, log_det, quadratic)
            change += log_scale_evidence(*terms, form) - log_scale_evidence(*terms, found.form)
        values = np.where(np.isfinite(lattice.log_values), lattice.log_values + change, -np.inf)
        lattices.append(_with_values(lattice, values))
    logs = np.array([lattice.log_integral for lattice in lattices])
    log_evidence = float(logsumexp(logs))
    weights = np.exp(logs - log_evidence)
    return replace(
        found,
        density=density,
        form=form,
        log_evidence=log_evidence,
        error=float(sum(w * part.error for w, part in zip(weights, lattices, strict=True))),
        lattices=tuple(lattices),
        nodes=replace(
            found.nodes,
            log_weights=np.concatenate([part.log_values + part.log_cell for part in lattices]),
        ),
        n_evaluations=0,
    )


def same_coordinates(old: Hypothesis, new: Hypothesis) -> bool:
    """Tell whether the likelihood is the same function of z under both priors."""
    pairs = ((prior, new.priors[name]) for name, prior in old.priors.items())
    return all(type(a) is type(b) and _constants(a) == _constants(b) for a, b in pairs)


def _constants(prior: AbstractPrior) -> tuple[float, ...]:
    """Return the numbers of a prior on which θ depends at a given z."""
    if isinstance(prior, Fixed):
        return (prior.value,)
    return (prior.low, prior.high) if isinstance(prior, Uniform) else ()


def _with_values(lattice: NodeLattice, values: FloatArray) -> NodeLattice:
    """Replace the values at the nodes of a lattice."""
    total = float(logsumexp(values))
    is_even = lattice.index[:, 0] % 2 == 0
    halves = [
        float(logsumexp(values[part])) if part.any() else -np.inf for part in (is_even, ~is_even)
    ]
    at_edge = _at_edge(lattice.index)
    edge = float(np.exp(logsumexp(values[at_edge]) - total)) if at_edge.any() else 0.0
    error = abs(halves[0] - halves[1]) + _EDGE_FACTOR * edge + lattice.error
    return replace(lattice, log_values=values, log_integral=total + lattice.log_cell, error=error)


def _at_edge(index: IntArray) -> NDArray[np.bool_]:
    """Find the nodes with a missing neighbour along any axis."""
    low = index.min(axis=0) - 2
    strides = np.cumprod(np.concatenate([[1], (index.max(axis=0) - low + 3)[:-1]]))
    keys = np.sort((index - low) @ strides)
    edge = np.zeros(len(index), dtype=bool)
    for axis in range(index.shape[1]):
        for step in (-2, 2):
            key = (index - low) @ strides + step * strides[axis]
            found = np.searchsorted(keys, key).clip(max=len(keys) - 1)
            edge |= keys[found] != key
    return edge


def _integrand(
    density: Density, left: IntArray, form: GammaForm | None
) -> Callable[[FloatArray], tuple[FloatArray, Nodes]]:
    """Make the integrand, which also returns θ and ln L, or Gaussian terms at unit scale."""
    n, place = len(density.hypothesis.names), density.scale

    def log_f(z_left: FloatArray) -> tuple[FloatArray, Nodes]:
        if form is None:
            points = density.at(z_left)
            values = points.integrand
            return values, Nodes(values, points.theta, points.log_likelihood[:, None])
        z = np.zeros((len(z_left), n))
        z[:, left] = z_left
        theta, log_priors, log_jacobians = points_at(density.hypothesis, z)
        theta = np.array(theta)
        theta[:, place] = 1.0
        terms = density.terms(theta)[1:]
        weight = (log_priors + log_jacobians)[:, left].sum(axis=1)
        values = log_scale_evidence(*terms, form) + weight
        # An infinite density is not normalisable.
        values = np.where(values < np.inf, values, -np.inf)
        return values, Nodes(values, theta, np.stack(terms, axis=1))

    return log_f


def _near(points: FloatArray, center: FloatArray, basis: FloatArray) -> FloatArray | None:
    """Select the points near the center of a lattice; None if there are none."""
    kept = np.all(np.abs(whiten(points, center, basis)) < _MAX_SEED_DISTANCE, axis=1)
    return points[kept] if kept.any() else None


def _covers(lattice: NodeLattice, z: FloatArray) -> bool:
    """Tell whether a lattice has nodes around a point."""
    (w,) = to_w(z[None], lattice.center, lattice.basis)
    return bool(np.any(np.all(np.abs(lattice.w - w) <= lattice.spacing, axis=1)))
