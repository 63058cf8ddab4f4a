"""Closed-form integration over a scale that multiplies the whole covariance."""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from driftbayes._typing import FloatArray
from driftbayes.inference._density import Density
from driftbayes.inference._hypothesis import points_at
from driftbayes.inference._newton import Maximum
from driftbayes.inference._search import Modes
from driftbayes.likelihood._gaussian import LOG_2PI, gaussian_log_density
from driftbayes.priors import AbstractPrior, Exponential, Gamma

# The integrand is summed down to exp(-_DEPTH) of its peak, below the rounding of the sum.
_DEPTH = 40.0
_N_NODES = 129
# Fewer nodes suffice if the root of order² + x² is larger than this, and for posterior moments.
_N_NODES_NARROW, _MIN_NARROW = 49, 50.0
_N_NODES_MOMENTS = 33


@dataclass(frozen=True)
class GammaForm:
    r"""A prior of the form $e^{c} \theta^{\alpha-1} e^{-\lambda\theta}$.

    Args:
        shape: α.
        rate: λ.
        log_norm: c, the logarithm of its normalisation.
    """

    shape: float
    rate: float
    log_norm: float


def gamma_form(prior: AbstractPrior) -> GammaForm | None:
    """Return a prior in gamma form; None if the integral over the scale has no closed form."""
    if isinstance(prior, Exponential):
        rate = 1 / prior.scale
        return GammaForm(1.0, rate, float(np.log(rate)))
    if isinstance(prior, Gamma):
        shape, rate = prior.shape, 1 / prior.scale
        return GammaForm(shape, rate, shape * float(np.log(rate)) - float(gammaln(shape)))
    return None


# Non-finite values are reported by the status, not by NumPy warnings.
@np.errstate(all="ignore")
def log_scale_evidence(
    n: FloatArray, log_det: FloatArray, quadratic: FloatArray, form: GammaForm
) -> FloatArray:
    r"""Compute the log-evidence for covariance cS with a gamma prior on c. Paper: [eq:evidence].

    With $a = n/2$ and $b = Q/2$,

    $$\int_0^\infty c^{-a} e^{-b/c}\, c^{\alpha-1} e^{-\lambda c}\,\mathrm{d}c
      = 2\, (b/\lambda)^{(\alpha-a)/2} K_{a-\alpha}\!\left(2\sqrt{\lambda b}\right).$$

    Args:
        n: Number of scalar displacements.
        log_det: Log-determinants at c = 1.
        quadratic: Quadratic forms Q at c = 1.
        form: Shape α and rate λ of the prior, with its normalisation.
    """
    order = 0.5 * n - form.shape
    b = 0.5 * quadratic
    log_evidence = (
        -0.5 * (n * LOG_2PI + log_det)
        + form.log_norm
        - 0.5 * order * (np.log(b) - np.log(form.rate))
        + (log_bessel_k(np.asarray(order), np.asarray(2 * np.sqrt(form.rate * b))) + np.log(2.0))
    )
    return np.where(np.isnan(log_evidence), -np.inf, log_evidence)


@np.errstate(all="ignore")
def most_likely_scale(
    n: FloatArray, quadratic: FloatArray, form: GammaForm, *, natural: bool
) -> FloatArray:
    r"""Compute the scale c at which the joint density is highest.

    $$\lambda c^2 + \beta c - Q/2 = 0, \qquad \beta = n/2 - \alpha\; (+ 1)$$

    Args:
        n: Number of scalar displacements.
        quadratic: Quadratic forms Q at c = 1.
        form: Shape α and rate λ of the prior.
        natural: Whether to use the density of c instead of that of ln c.
    """
    beta = np.asarray(0.5 * n - form.shape + float(natural))
    root = np.sqrt(beta**2 + 2 * form.rate * quadratic)
    # Use the form without cancellation.
    return np.where(beta > 0, quadratic / (beta + root), (root - beta) / (2 * form.rate))


def scale_posterior(
    n: FloatArray, quadratic: FloatArray, form: GammaForm
) -> tuple[FloatArray, FloatArray]:
    """Represent the posterior of the scale by nodes and log-weights; arrays broadcast.

    The last axis of both results runs over the nodes; the weights are not normalised.
    """
    order = np.asarray(0.5 * n - form.shape)[..., None]
    b = np.asarray(0.5 * quadratic)[..., None]
    _, t, log_weights = _bessel_integral(order, 2 * np.sqrt(form.rate * b), _N_NODES_MOMENTS)
    nodes = np.sqrt(b / form.rate) * np.exp(-t)
    return nodes, np.broadcast_to(log_weights, nodes.shape)


@np.errstate(all="ignore")
def draw_scales(
    n: FloatArray, quadratic: FloatArray, form: GammaForm, rng: np.random.Generator
) -> FloatArray:
    r"""Draw one scale from each of many posteriors, generalised inverse Gaussian distributions.

    The density $e^{\nu t - x \cosh t}$ of $t = -\ln(c\sqrt{\lambda/b})$ has a single peak. Between
    two neighbouring nodes its upper bound is the larger of its values there, or its peak. Rejection
    sampling from these steps is exact, except for values below $e^{-40}$ of the peak.

    Args:
        n: Number of scalar displacements of each posterior.
        quadratic: Quadratic form of each at unit scale.
        form: Shape and rate of the prior.
        rng: Random number generator.
    """
    order = np.asarray(0.5 * n - form.shape)[..., None]
    b = np.asarray(0.5 * quadratic)[..., None]
    x = 2 * np.sqrt(form.rate * b)
    _, t, exponent = _bessel_integral(order, x, _N_NODES)
    nu, sign = np.abs(order), np.where(order < 0, -1.0, 1.0)
    root = np.sqrt(nu**2 + x**2)
    peak, excess = np.log((nu + root) / x), x**2 / (root + nu)
    s = sign * t - peak
    top = np.maximum(exponent[:, 1:], exponent[:, :-1])
    top = np.where((s[:, :-1] <= 0) & (s[:, 1:] >= 0), 0.0, top)
    rise = np.cumsum(np.exp(top), axis=1)
    found = np.full(len(order), np.nan)
    pending = np.flatnonzero(np.isfinite(rise[:, -1]) & np.isfinite(s).all(axis=1))
    while len(pending):
        # Uniforms for the choice of the step, the position within it, and the height.
        step, along, height = rng.random((3, len(pending)))
        cell = np.sum(rise[pending] < (step * rise[pending, -1])[:, None], axis=1)
        low, high = s[pending, cell], s[pending, cell + 1]
        place = low + along * (high - low)
        value = _below_peak(place, nu[pending, 0], excess[pending, 0])
        kept = np.log(height) < value - top[pending, cell]
        found[pending[kept]] = place[kept]
        pending = pending[~kept]
    return np.sqrt(b / form.rate)[:, 0] * np.exp(-(sign * (peak + found[:, None]))[:, 0])


def log_bessel_k(order: FloatArray, x: FloatArray) -> FloatArray:
    r"""Compute $\ln K_\nu(x)$ for any real order and x > 0, also where SciPy's `kve` overflows."""
    order, x = np.asarray(order)[..., None], np.asarray(x)[..., None]
    # For large order or argument the integrand is nearly Gaussian.
    order, x = np.broadcast_arrays(order, x)
    is_narrow = (order**2 + x**2 > _MIN_NARROW**2)[..., 0]
    if is_narrow.all() or not is_narrow.any():
        n_nodes = _N_NODES_NARROW if is_narrow.all() else _N_NODES
        return _bessel_integral(order, x, n_nodes)[0][..., 0]
    out = np.empty(is_narrow.shape)
    for part, n_nodes in ((is_narrow, _N_NODES_NARROW), (~is_narrow, _N_NODES)):
        out[part] = _bessel_integral(order[part], x[part], n_nodes)[0][..., 0]
    return out


def _bessel_integral(
    order: FloatArray, x: FloatArray, n_nodes: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""Compute $\ln K_\nu(x)$, and nodes t and log-weights of the sum.

    $$K_\nu(x) = \tfrac12 \int_{-\infty}^{\infty} e^{\nu t - x\cosh t}\,\mathrm{d}t$$

    The integrand is entire and falls doubly exponentially, so the trapezoid rule converges
    exponentially. With s the distance from its peak, $\sinh t_0 = \nu/x$, its logarithm relative to
    the peak is $-\nu(e^s - 1 - s) - (R - \nu)(\cosh s - 1)$ with $R = \sqrt{\nu^2 + x^2}$. Both
    terms have the same sign, so there is no cancellation at orders of 1e6 or x of 1e-6. The last
    axis runs over the nodes and has length 1 in `order`, `x` and the first result.
    """
    nu = np.abs(order)
    root = np.sqrt(nu**2 + x**2)
    peak = np.log((nu + root) / x)
    right = _arccosh1p(_DEPTH / root)
    # On the left the exponent falls at least as fast as each of two terms: ν(|s| - 1 + e^-|s|),
    # which exceeds the depth at c + sqrt(2c), c = depth/ν; and (R - ν)(cosh s - 1).
    excess = x**2 / (root + nu)  # R - ν
    slow = _DEPTH / np.maximum(nu, 1e-300)
    left = np.minimum(slow + np.sqrt(2 * slow), _arccosh1p(_DEPTH / excess))
    width = left + right
    s = -left + width * np.linspace(0.0, 1.0, n_nodes)
    exponent = _below_peak(s, nu, excess)
    total = np.sum(np.exp(exponent), axis=-1, keepdims=True) * (0.5 / (n_nodes - 1)) * width
    log_k = nu * peak - root + np.log(total)
    return log_k, np.where(order < 0, -1.0, 1.0) * (peak + s), exponent


def _below_peak(s: FloatArray, nu: FloatArray, excess: FloatArray) -> FloatArray:
    """Compute ln of the integrand relative to its peak, at a distance s from the peak."""
    growth = np.expm1(s)
    cosh_less_1 = 0.5 * growth**2 * np.exp(-s)
    return -nu * (growth - s) - excess * cosh_less_1


def _arccosh1p(u: FloatArray) -> FloatArray:
    """Compute arccosh(1 + u) without cancellation."""
    return np.log1p(u + np.sqrt(u * (u + 2)))


@np.errstate(all="ignore")
def closed_modes(density: Density, form: GammaForm) -> Modes:
    """Compute the modes of the densities of θ and of z if the scale is the only parameter.

    Args:
        density: Hypothesis and data.
        form: Prior of the scale.
    """
    _, n, log_det, quadratic = density.terms(np.ones((1, 1)))
    both = []
    for natural in (True, False):
        scale = most_likely_scale(n, quadratic, form, natural=natural)
        z = density.hypothesis.to_unconstrained(scale[:, None])
        _, log_prior, log_jacobian = points_at(density.hypothesis, z)
        fit = gaussian_log_density(n, log_det, quadratic, scale, np)
        value = float((fit + log_prior[:, 0] + (0.0 if natural else log_jacobian[:, 0]))[0])
        # Minus the second derivative of - β ln c - Q/2c - λc with respect to ln c.
        curvature = float((0.5 * quadratic / scale + form.rate * scale)[0])
        converged = bool(np.isfinite(value) and curvature > 0)
        both.append(Maximum(z[0], value, np.array([[-curvature]]), converged))
    natural_mode, free = both
    log_mass = free.value + 0.5 * np.log(2 * np.pi) - 0.5 * np.log(-free.hessian[0, 0])
    mass = np.array([log_mass if free.converged else -np.inf])
    return Modes(natural_mode, free, (free,), mass, np.zeros((0, 1)), np.zeros(0))
