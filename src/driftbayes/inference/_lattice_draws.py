"""Draw from a density on lattices by rejection, with proposals around the nodes."""

from collections.abc import Sequence

import numpy as np
from scipy.special import gammaln

from driftbayes._typing import FloatArray, IntArray
from driftbayes.errors import DriftbayesError
from driftbayes.inference._lattice import log_stretch, to_points, to_w
from driftbayes.inference._log_sums import logsumexp
from driftbayes.inference._node_lattice import NodeLattice, log_masses

# Width of a Gaussian around a node in spacings, by the number of dimensions, chosen so that the sum
# over nodes is nearly smooth and little wider than the density.
_WIDTHS = {1: 0.25, 2: 0.35, 3: 0.38}
_DEFAULT_WIDTH = 0.4
# Share of a Student t component around each node, which covers the tails beyond the last nodes.
_T_SHARE = 0.05
# Total mass of the lowest nodes that have no proposals around them.
_NEGLIGIBLE_MASS = 1e-6
# Largest number of points times nodes in one evaluation.
_MAX_AT_ONCE = 2_000_000


def propose(
    lattices: Sequence[NodeLattice],
    n: int,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """Draw points from a density close to that on the lattices, but with heavier tails.

    The mean of f(z) / q(z) over the points is an unbiased estimate of the integral of f. Points
    that `keep_by_ratio` accepts are independent draws from f.

    Args:
        lattices: Lattices of the parts of a density, one per mode.
        n: Number of points.
        rng: Random number generator.

    Returns:
        Points z (n, p), and ln of the density q of proposals there (n,).

    Example:
        >>> import numpy as np
        >>> from driftbayes.inference._node_lattice import integrate
        >>> def log_f(z):
        ...     return -0.5 * np.sum(z**2, axis=1), z[:, :0]
        >>> lattice = integrate(log_f, np.zeros(2), np.eye(2), tolerance=1e-3, max_nodes=10_000)
        >>> rng = np.random.default_rng(1)
        >>> z, log_q = propose([lattice], 1000, rng)
        >>> kept = z[keep_by_ratio(log_f(z)[0] - log_q, rng.random(1000))]
        >>> len(kept) > 400
        True
    """
    masses = log_masses(lattices)
    if n < 1:
        raise DriftbayesError(f"the number of points must be at least 1, got {n}")
    shares = np.exp(masses - logsumexp(masses))
    parts = rng.choice(len(lattices), size=n, p=shares / np.sum(shares))
    z = np.empty((n, len(lattices[0].center)))
    for k, lattice in enumerate(lattices):
        is_here = parts == k
        z[is_here] = _draw(lattice, int(np.sum(is_here)), rng)
    log_q = np.stack([_log_density(lattice, z) for lattice in lattices])
    with np.errstate(divide="ignore"):
        return z, logsumexp(log_q + np.log(shares)[:, None], axis=0)


def keep_by_ratio(log_ratios: FloatArray, uniforms: FloatArray) -> IntArray:
    """Select points by rejection sampling: independent draws from the density.

    Args:
        log_ratios: ln of the ratio of the density to that of the proposals at each point.
        uniforms: One uniform random number per point.

    Returns:
        Indices of the accepted points.
    """
    with np.errstate(divide="ignore"):
        return np.flatnonzero(np.log(uniforms) < log_ratios - np.max(log_ratios))


def _kernels(lattice: NodeLattice) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the nodes that propose, their probabilities, and the width along each axis."""
    order = np.argsort(lattice.log_values)
    weights = np.exp(lattice.log_values[order] - lattice.log_values[order[-1]])
    rise = np.cumsum(weights)
    used = rise > _NEGLIGIBLE_MASS * rise[-1]
    widths = _WIDTHS.get(len(lattice.center), _DEFAULT_WIDTH) * lattice.spacing
    return lattice.w[order[used]], weights[used] / np.sum(weights[used]), widths


def _degrees_of_freedom(n_dim: int) -> int:
    """Choose 3 or 4, so that the exponent in the t density is an integer."""
    return 3 if n_dim % 2 else 4


def _draw(lattice: NodeLattice, n: int, rng: np.random.Generator) -> FloatArray:
    """Draw points from the proposals of one lattice."""
    nodes, weights, widths = _kernels(lattice)
    chosen = rng.choice(len(nodes), size=n, p=weights)
    is_t = rng.random(n) < _T_SHARE
    nu = _degrees_of_freedom(nodes.shape[1])
    scale = np.where(is_t, np.sqrt(nu / rng.chisquare(nu, size=n)), 1.0)
    w = nodes[chosen] + widths * scale[:, None] * rng.standard_normal((n, nodes.shape[1]))
    return to_points(w, lattice.center, lattice.basis)


def _log_density(lattice: NodeLattice, z: FloatArray) -> FloatArray:
    """Compute the log-density of the proposals of one lattice."""
    nodes, weights, widths = _kernels(lattice)
    n_dim = nodes.shape[1]
    nu = _degrees_of_freedom(n_dim)
    w = to_w(z, lattice.center, lattice.basis)
    scaled_nodes, scaled = nodes / widths, w / widths
    log_gaussian = np.log1p(-_T_SHARE) - 0.5 * n_dim * np.log(2 * np.pi)
    log_t = (
        np.log(_T_SHARE)
        + gammaln(0.5 * (nu + n_dim))
        - gammaln(0.5 * nu)
        - 0.5 * n_dim * np.log(nu * np.pi)
    )
    out = np.empty(len(z))
    squares = np.sum(scaled_nodes**2, axis=1)
    step = max(1, _MAX_AT_ONCE // len(nodes))
    for begin in range(0, len(z), step):
        part = scaled[begin : begin + step]
        distance = squares + np.sum(part**2, axis=1)[:, None] - 2 * part @ scaled_nodes.T
        distance = np.maximum(distance, 0.0)
        gaussian = np.exp(-0.5 * distance) @ weights
        inverse = 1 / (1 + distance / nu)
        student = inverse
        # An integer power by products, since `**` would dominate the time.
        for _ in range((nu + n_dim) // 2 - 1):
            student = student * inverse
        out[begin : begin + step] = np.log(
            np.exp(log_gaussian) * gaussian + np.exp(log_t) * (student @ weights)
        )
    log_det = np.sum(np.log(widths * np.abs(np.diag(lattice.basis))))
    return out - log_det - log_stretch(w)
