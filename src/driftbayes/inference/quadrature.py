"""The posterior of one hypothesis by quadrature: a lattice of nodes around every mode."""

__all__ = ["Quadrature", "integrate_posterior", "reweight", "same_coordinates", "scale_form"]

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from driftbayes.inference.density import Density
from driftbayes.inference.formulas import points_at
from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.inference.lattice import to_w, whiten
from driftbayes.inference.log_sums import logsumexp
from driftbayes.inference.node_lattice import NodeLattice, integrate
from driftbayes.inference.scale import GammaForm, gamma_form, log_scale_evidence
from driftbayes.inference.search import Modes
from driftbayes.priors import AbstractPrior, Fixed, Uniform
from driftbayes.typing import FloatArray, IntArray

# Modes whose mass is within exp(-_DEPTH) of the largest may have a lattice of their own.
_DEPTH = 23.0
_MAX_PARTS = 11
# A share of the mass at modes without nodes that is told as an error; more is not accepted.
MAX_MISSED = 1e-3
_NOTHING = 1e-12
# What lies beyond the edge of a lattice is at most so many times what lies at the edge.
_EDGE = 10.0
# Modes within so many widths of the center of a lattice are seeds of it.
_NEAR = 10.0
# The stated error is so many times the lattice's own estimate, which is now and then too small:
# a thin arm of a posterior of three parameters may carry some 1e-4 of it, so that with three and
# more it is no less than the tolerance.
CAUTION = {1: 3.0, 2: 3.0}
_MOST_CAUTION = 6.0
# Mass beyond the last nodes, relative, that moments can do without.
MAX_TAIL = 1e-5
_MAX_NODES = {1: 4_000, 2: 60_000, 3: 300_000}


@dataclass(frozen=True, eq=False)
class Quadrature:
    """An integral over the coordinates that are left, and what it stands on.

    Args:
        density: What was integrated.
        left: Places in θ of the coordinates that are left for quadrature.
        form: Prior of the scale, if it was integrated out in closed form.
        log_evidence: ln Z.
        error: Estimate of its error.
        contained: Whether the mass beyond the last nodes is negligible.
        missed: Share of the mass at modes that no lattice covers.
        lattices: One for each part; empty if no coordinate was left.
        shares: Division of space among the parts.
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
    shares: "Shares | None"
    nodes: "Nodes"
    n_evaluations: int

    def log_values(self, z: FloatArray) -> tuple[FloatArray, "Nodes"]:
        """Ln of the whole integrand at points of the coordinates left, and what is found there."""
        return _integrand(self.density, self.left, self.form)(z)


@dataclass(frozen=True)
class Nodes:
    """Points with what was found there.

    Args:
        log_weights: ln of the weight of each in the integral.
        theta: Parameters; the scale is 1 if it was integrated out.
        fits: ln L, or count, log-determinant and quadratic form at unit scale.
    """

    log_weights: FloatArray
    theta: FloatArray
    fits: FloatArray


@dataclass(frozen=True)
class Shares:
    r"""A smooth division of space among modes: each has the share of its Gaussian in their sum.

    $$\rho_k(z) = \frac{m_k\,N(z; c_k, S_k)}{\sum_j m_j\,N(z; c_j, S_j)}$$

    Args:
        centers: Modes.
        bases: Lower-triangular factor of the covariance of each Gaussian.
        log_masses: ln of the integral of each.
    """

    centers: FloatArray
    bases: FloatArray
    log_masses: FloatArray

    def log_share(self, z: FloatArray, part: int) -> FloatArray:
        """Ln of the share of one mode at each point."""
        if len(self.log_masses) == 1:
            return np.zeros(len(z))
        each = []
        for center, basis, mass in zip(self.centers, self.bases, self.log_masses, strict=True):
            w = whiten(z, center, basis)
            each.append(mass - 0.5 * np.sum(w**2, axis=1) - np.sum(np.log(np.diag(basis))))
        return np.asarray(each[part] - logsumexp(each, axis=0))


def scale_form(density: Density) -> GammaForm | None:
    """The scale's prior, if the scale multiplies all and can be integrated out."""
    place, hypothesis = density.scale, density.hypothesis
    return None if place is None else gamma_form(hypothesis.priors[hypothesis.names[place]])


def integrate_posterior(density: Density, modes: Modes, tolerance: float) -> Quadrature:
    """Integrate around the highest mode, or, where that is not enough, around each.

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
            *((), None, whole, 1),
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
    log_f = _integrand(density, left, form)
    # The highest, even if the search for it did not converge.
    chosen = [0] if n_parts == 1 else np.argsort(-modes.log_mass, kind="stable")[:n_parts]
    centers = np.stack([modes.every[i].z[left] for i in chosen])
    bases = np.stack([_basis(modes.every[i].hessian, left) for i in chosen])
    shares = Shares(centers, bases, np.array([modes.log_mass[i] for i in chosen]))
    others = np.array([m.z[left] for m in modes.every if m.converged]).reshape(-1, len(left))
    caution = CAUTION.get(len(left), _MOST_CAUTION)
    lattices = []
    for part in range(n_parts):

        def integrand(z: FloatArray, part: int = part) -> tuple[FloatArray, FloatArray]:
            values, nodes = log_f(z)
            return values + shares.log_share(z, part), np.hstack([nodes.theta, nodes.fits])

        seeds = _near(others, centers[part], bases[part]) if n_parts == 1 else None
        lattices.append(
            integrate(
                integrand,
                centers[part],
                bases[part],
                tolerance=tolerance / caution,
                seeds=seeds,
                max_nodes=_MAX_NODES.get(len(left), 500_000),
                max_tail=MAX_TAIL,
            )
        )
    logs = np.array([lattice.log_integral for lattice in lattices])
    log_evidence = float(logsumexp(logs)) if np.isfinite(logs).any() else -np.inf
    with np.errstate(all="ignore"):
        weight = np.nan_to_num(np.exp(logs - log_evidence))
    errors = caution * np.array([lattice.error for lattice in lattices])
    if len(left) > 2:
        errors = np.maximum(errors, tolerance)
    # A part that carries nothing need not be contained.
    counts = weight > _NOTHING
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
        error=float(np.sum(weight[counts] * errors[counts])) if counts.any() else np.inf,
        contained=all(
            lattice.contained for lattice, one in zip(lattices, counts, strict=True) if one
        ),
        missed=missed,
        lattices=tuple(lattices),
        shares=shares,
        nodes=nodes,
        n_evaluations=sum(lattice.n_evaluations for lattice in lattices),
    )


def reweight(found: Quadrature, density: Density) -> Quadrature | None:
    """Integrate the same data under another prior, from the nodes alone.

    Args:
        found: Quadrature under one prior.
        density: The same data and model under another.

    Returns:
        The quadrature, with an error from the difference of the two lattices and from the nodes at
        the edge; None where the coordinates of the two priors differ.
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
        error=float(sum(w * one.error for w, one in zip(weights, lattices, strict=True))),
        lattices=tuple(lattices),
        nodes=replace(
            found.nodes,
            log_weights=np.concatenate([one.log_values + one.log_cell for one in lattices]),
        ),
        n_evaluations=0,
    )


def same_coordinates(old: Hypothesis, new: Hypothesis) -> bool:
    """Whether the likelihood is the same function of z under both priors."""
    for name, one in old.priors.items():
        other = new.priors[name]
        given = [_constants(prior) for prior in (one, other)]
        if type(one) is not type(other) or given[0] != given[1]:
            return False
    return True


def _constants(prior: AbstractPrior) -> tuple[float, ...]:
    """Numbers of a prior on which θ depends at a given z."""
    if isinstance(prior, Fixed):
        return (float(prior.value),)
    return (float(prior.low), float(prior.high)) if isinstance(prior, Uniform) else ()


def _with_values(lattice: NodeLattice, values: FloatArray) -> NodeLattice:
    """A lattice with other values at its nodes."""
    total = float(logsumexp(values))
    is_even = lattice.index[:, 0] % 2 == 0
    halves = [
        float(logsumexp(values[part])) if part.any() else -np.inf for part in (is_even, ~is_even)
    ]
    at_edge = _at_edge(lattice.index)
    edge = float(np.exp(logsumexp(values[at_edge]) - total)) if at_edge.any() else 0.0
    error = abs(halves[0] - halves[1]) + _EDGE * edge + lattice.error
    return replace(lattice, log_values=values, log_integral=total + lattice.log_cell, error=error)


def _at_edge(index: IntArray) -> NDArray[np.bool_]:
    """Which nodes have a neighbour along some axis that is not a node."""
    low = index.min(axis=0) - 2
    place = np.cumprod(np.concatenate([[1], (index.max(axis=0) - low + 3)[:-1]]))
    keys = np.sort((index - low) @ place)
    edge = np.zeros(len(index), dtype=bool)
    for axis in range(index.shape[1]):
        for step in (-2, 2):
            key = (index - low) @ place + step * place[axis]
            found = np.searchsorted(keys, key).clip(max=len(keys) - 1)
            edge |= keys[found] != key
    return edge


def _integrand(
    density: Density, left: IntArray, form: GammaForm | None
) -> Callable[[FloatArray], tuple[FloatArray, Nodes]]:
    """Ln of what is integrated, with θ and ln L, or the Gaussian terms if the scale is not left."""
    n, place = len(density.hypothesis.names), density.scale

    def log_f(z_left: FloatArray) -> tuple[FloatArray, Nodes]:
        if form is None:
            points = density.at(z_left)
            values = np.where(points.free < np.inf, points.free, -np.inf)
            return values, Nodes(values, points.theta, points.log_likelihood[:, None])
        z = np.zeros((len(z_left), n))
        z[:, left] = z_left
        theta, log_priors, log_jacobians = points_at(density.hypothesis, z)
        theta = np.array(theta)
        theta[:, place] = 1.0
        terms = density.terms(theta)[1:]
        weight = (log_priors + log_jacobians)[:, left].sum(axis=1)
        values = log_scale_evidence(*terms, form) + weight
        # A density without bound is no density.
        values = np.where(values < np.inf, values, -np.inf)
        return values, Nodes(values, theta, np.stack(terms, axis=1))

    return log_f


def _basis(hessian: FloatArray, left: IntArray) -> FloatArray:
    """Factor of the covariance of a Gaussian of the same curvature, widths kept within reason."""
    curvature, axes = np.linalg.eigh(-np.nan_to_num(hessian))
    variance = np.clip(1 / np.maximum(np.abs(curvature), 1e-30), 1e-20, 4.0)
    covariance = (axes * variance) @ axes.T
    return np.asarray(np.linalg.cholesky(covariance[np.ix_(left, left)]))


def _near(places: FloatArray, center: FloatArray, basis: FloatArray) -> FloatArray | None:
    """Those of some places that lie within reach of a lattice."""
    away = whiten(places, center, basis)
    kept = np.all(np.abs(away) < _NEAR, axis=1) if len(places) else np.zeros(0, dtype=bool)
    return places[kept] if kept.any() else None


def _covers(lattice: NodeLattice, z: FloatArray) -> bool:
    """Whether a lattice has nodes around a place."""
    (w,) = to_w(z[None], lattice.center, lattice.basis)
    return bool(np.any(np.all(np.abs(lattice.w - w) <= lattice.spacing, axis=1)))
