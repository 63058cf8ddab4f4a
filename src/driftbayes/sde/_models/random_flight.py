"""Well-mixed random flight in inhomogeneous turbulence."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from driftbayes.errors import DriftbayesError
from driftbayes.models import Parameter
from driftbayes.sde._model import SDE
from driftbayes.sde._models._parameters import LANGEVIN, merged

_OWN = {
    "gamma": LANGEVIN["gamma"],
    "k": Parameter("k", "diffusivity σ²/γ where s = 0, the origin by default", 2, -1),
}


def _ramp(x: Array, theta: Any) -> Array:
    """Return a logarithm of σ that rises from -1 to 1 along a gradient.

    It is bounded because particles reach infinity in a finite time if σ grows faster than linearly.
    """
    if len(x) != 2:
        msg = f"random_flight alone is for two dimensions, not {len(x)}; make it with log_sigma"
        raise DriftbayesError(msg)
    return jnp.tanh(jnp.dot(jnp.stack([theta.slope1, theta.slope2]), x))


def _slopes() -> dict[str, Parameter]:
    """Return the parameters of the default profile."""
    return {f"slope{i}": Parameter(f"g{i}", f"∂ ln σ/∂x{i} at the origin", -1, 0) for i in (1, 2)}


def random_flight(
    log_sigma: Callable[[Array, Any], Array] | None = None,
    parameters: Mapping[str, Any] | None = None,
    *,
    name: str = "",
    summary: str = "",
) -> SDE:
    r"""Random flight with a spatially varying turbulent velocity.

    Thomson's (1987) simplest well-mixed model for isotropic Gaussian velocities of standard
    deviation σ(x) per axis and a constant time scale $T = 1/\gamma$:

    $$\mathrm{d}X = U\,\mathrm{d}t, \qquad \mathrm{d}U = \Bigl[-\gamma U + \sigma\nabla\sigma +
      U\,\frac{U\cdot\nabla\sigma}{\sigma}\Bigr]\mathrm{d}t + \sigma\sqrt{2\gamma}\,\mathrm{d}W,
      \qquad \sigma(x) = \sqrt{\gamma k}\,\mathrm{e}^{s(x)}$$

    A uniform density of particles is stationary (well-mixed). With s = 0 it is
    `Langevin(gamma, k)`; at times much longer than T it is a diffusion with the local diffusivity
    $\sigma^2 T$. The velocity at the first fix is Gaussian with the local standard deviation σ.

    Args:
        log_sigma: Function `log_sigma(x, theta)` that returns the number s(x); by default
            $s = \tanh(g_1 x_1 + g_2 x_2)$ in two dimensions, in the coordinates of the data.
            σ must not grow faster than linearly with x, or particles reach infinity.
        parameters: Priors, or `Parameter`s, of the parameters of `log_sigma`.
        name: Name of the model.
        summary: Description in one line.

    Raises:
        DriftbayesError: Only one of `log_sigma` and `parameters` is given, or a parameter has the
            name of one of the equation.

    Example:
        >>> import driftbayes as db
        >>> from jax import numpy as jnp
        >>> from driftbayes.sde import random_flight
        >>> layer = random_flight(
        ...     lambda x, theta: theta.height * jnp.exp(-((x[0] / 50.0) ** 2)),
        ...     {"height": db.Normal(0.0, 1.0)},
        ...     name="layer",
        ... )
        >>> list(layer.parameters)
        ['gamma', 'k', 'height']
    """
    if (log_sigma is None) != (not parameters):
        raise DriftbayesError("log_sigma and its parameters must be given together")
    profile = _ramp if log_sigma is None else log_sigma

    def gradient(x: Array, theta: Any) -> Array:
        return jax.grad(lambda y: jnp.reshape(jnp.asarray(profile(y, theta)), ()))(x)

    def sigma(x: Array, t: Array, theta: Any) -> Array:
        return jnp.sqrt(theta.gamma * theta.k) * jnp.exp(profile(x, theta))

    def drift(x: Array, u: Array, t: Array, theta: Any) -> Array:
        slope = gradient(x, theta)
        return -theta.gamma * u + sigma(x, t, theta) ** 2 * slope + u * jnp.dot(u, slope)

    def diffusion(x: Array, u: Array, t: Array, theta: Any) -> Array:
        return jnp.sqrt(2 * theta.gamma) * sigma(x, t, theta)

    return SDE(
        drift,
        diffusion,
        merged(_OWN, parameters if log_sigma is not None else _slopes()),
        name=name or "random_flight",
        summary=summary or "well-mixed random flight, turbulent velocity varies in space",
        initial_velocity=sigma,
    )
