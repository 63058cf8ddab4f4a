"""The overall scale of a covariance, integrated out analytically."""

__all__ = [
    "GammaForm",
    "draw_scales",
    "gamma_form",
    "log_bessel_k",
    "log_scale_evidence",
    "scale_posterior",
]

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np

from driftbayes.jax_typing import Scalar
from driftbayes.likelihood import GaussianTerms
from driftbayes.likelihood.terms import LOG_2PI
from driftbayes.priors import AbstractPrior, Exponential, Gamma
from driftbayes.typing import FloatArray

# The integrand is followed down to exp(-_DEPTH) of its peak: below the rounding of the sum.
_DEPTH = 40.0
_N_NODES = 129
# Fewer are enough for the moments of the posterior.
_N_POSTERIOR = 33


class GammaForm(eqx.Module):
    r"""A prior of the form $e^{c} \theta^{\alpha-1} e^{-\lambda\theta}$.

    Args:
        shape: α.
        rate: λ.
        log_norm: c, the logarithm of its normalisation.
    """

    shape: Scalar
    rate: Scalar
    log_norm: Scalar


def gamma_form(prior: AbstractPrior) -> GammaForm | None:
    """A prior in gamma form; None if the scale has no closed integral under it."""
    if isinstance(prior, Exponential):
        rate = 1 / prior.scale
        return GammaForm(jnp.ones_like(rate), rate, jnp.log(rate))
    if isinstance(prior, Gamma):
        rate = 1 / prior.scale
        log_norm = prior.shape * jnp.log(rate) - jsp.gammaln(prior.shape)
        return GammaForm(prior.shape, rate, log_norm)
    return None


def log_scale_evidence(terms: GaussianTerms, form: GammaForm) -> Scalar:
    r"""The log-evidence for covariance cS with a gamma prior on c. Paper: [eq:evidence].

    With $a = n/2$ and $b = Q/2$,

    $$\int_0^\infty c^{-a} e^{-b/c}\, c^{\alpha-1} e^{-\lambda c}\,\mathrm{d}c
      = 2\, (b/\lambda)^{(\alpha-a)/2} K_{a-\alpha}\!\left(2\sqrt{\lambda b}\right).$$

    Args:
        terms: Gaussian terms at c = 1.
        form: Shape α and rate λ of the prior, with its normalisation.
    """
    order = 0.5 * terms.n - form.shape
    b = 0.5 * terms.quadratic
    log_evidence = (
        -0.5 * (terms.n * LOG_2PI + terms.log_det)
        + form.log_norm
        - 0.5 * order * (jnp.log(b) - jnp.log(form.rate))
        + (log_bessel_k(order, 2 * jnp.sqrt(form.rate * b)) + np.log(2.0))
    )
    return jnp.where(jnp.isnan(log_evidence), -jnp.inf, log_evidence)


def scale_posterior(
    n: FloatArray, quadratic: FloatArray, shape: FloatArray, rate: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Nodes and log-weights that stand for the posterior of the scale; arrays broadcast.

    The last axis of both results runs over the nodes; the weights are not normalised.
    """
    order = np.asarray(0.5 * n - shape)[..., None]
    b = np.asarray(0.5 * quadratic)[..., None]
    _, t, log_weights = _bessel_integral(order, 2 * np.sqrt(rate[..., None] * b), _N_POSTERIOR, np)
    nodes = np.sqrt(b / rate[..., None]) * np.exp(-t)
    return nodes, np.broadcast_to(log_weights, nodes.shape)


# Where nothing is finite the result says so in its status, not NumPy in a warning.
@np.errstate(all="ignore")
def draw_scales(
    n: FloatArray,
    quadratic: FloatArray,
    shape: FloatArray,
    rate: FloatArray,
    rng: np.random.Generator,
) -> FloatArray:
    r"""One draw of the scale from each of many posteriors, a generalised inverse Gaussian law each.

    Of $t = -\ln(c\sqrt{\lambda/b})$, whose density $e^{\nu t - x \cosh t}$ rises to one peak and
    falls: within two neighbouring nodes it is nowhere above the greater of its values there, but
    for the peak itself. Draws below these steps are kept if they fall below the density; exact, but
    for what lies beyond $e^{-40}$ of the peak.

    Args:
        n: Number of displacements, one for each draw, as are all that follow.
        quadratic: Quadratic form at unit scale.
        shape: Shape of the prior's gamma form.
        rate: Its rate.
        rng: Random numbers.
    """
    order = np.asarray(0.5 * n - shape)[..., None]
    b = np.asarray(0.5 * quadratic)[..., None]
    x = 2 * np.sqrt(rate[..., None] * b)
    _, t, exponent = _bessel_integral(order, x, _N_NODES, np)
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
        # Which step, where along it, how high.
        step, along, height = rng.random((3, len(pending)))
        cell = np.sum(rise[pending] < (step * rise[pending, -1])[:, None], axis=1)
        low, high = s[pending, cell], s[pending, cell + 1]
        place = low + along * (high - low)
        value = _below_peak(place, nu[pending, 0], excess[pending, 0], np)
        kept = np.log(height) < value - top[pending, cell]
        found[pending[kept]] = place[kept]
        pending = pending[~kept]
    return np.sqrt(b / rate[..., None])[:, 0] * np.exp(-(sign * (peak + found[:, None]))[:, 0])


def log_bessel_k(order: Scalar, x: Scalar) -> Scalar:
    r"""$\ln K_\nu(x)$ for any real order and x > 0, where SciPy's `kve` overflows."""
    return _bessel_integral(order[..., None], x[..., None], _N_NODES, jnp)[0][..., 0]


def _bessel_integral(order: Any, x: Any, n_nodes: int, xp: Any) -> tuple[Any, Any, Any]:
    r"""$\ln K_\nu(x)$, and the nodes t with log-weights whose sum it is.

    $$K_\nu(x) = \tfrac12 \int_{-\infty}^{\infty} e^{\nu t - x\cosh t}\,\mathrm{d}t$$

    The integrand is entire and falls doubly exponentially, so the trapezoid rule converges
    exponentially. Counted from its peak, $\sinh t_0 = \nu/x$, its logarithm is
    $-\nu(e^s - 1 - s) - (R - \nu)(\cosh s - 1)$ with $R = \sqrt{\nu^2 + x^2}$: two terms of the
    same sign, free of cancellation at orders of millions and at x of millionths. Written once for
    NumPy and for JAX (`xp`); the last axis runs over the nodes and has length 1 in `order`, `x` and
    the result.
    """
    nu = xp.abs(order)
    root = xp.sqrt(nu**2 + x**2)
    peak = xp.log((nu + root) / x)
    right = _arccosh1p(_DEPTH / root, xp)
    # To the left the exponent falls at least as fast as each of two parts: ν(|s| - 1 + e^-|s|),
    # which is beyond the depth at c + sqrt(2c), c = depth/ν; and (R - ν)(cosh s - 1).
    excess = x**2 / (root + nu)  # R - ν
    slow = _DEPTH / xp.maximum(nu, 1e-300)
    left = xp.minimum(slow + xp.sqrt(2 * slow), _arccosh1p(_DEPTH / excess, xp))
    width = left + right
    s = -left + width * np.linspace(0.0, 1.0, n_nodes)
    exponent = _below_peak(s, nu, excess, xp)
    total = xp.sum(xp.exp(exponent), axis=-1, keepdims=True) * (0.5 / (n_nodes - 1)) * width
    log_k = nu * peak - root + xp.log(total)
    return log_k, xp.where(order < 0, -1.0, 1.0) * (peak + s), exponent


def _below_peak(s: Any, nu: Any, excess: Any, xp: Any) -> Any:
    """Logarithm of the integrand at a distance s from its peak, where it is 0."""
    growth = xp.expm1(s)
    cosh_less_1 = 0.5 * growth**2 * xp.exp(-s)
    return -nu * (growth - s) - excess * cosh_less_1


def _arccosh1p(u: Any, xp: Any) -> Any:
    return xp.log1p(u + xp.sqrt(u * (u + 2)))
