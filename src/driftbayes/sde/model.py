"""A model from a user's own drift and diffusion."""

__all__ = ["SDE", "with_values"]

from collections.abc import Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from driftbayes.errors import DriftbayesError, expect
from driftbayes.jax_typing import Key, Scalar, ScalarLike
from driftbayes.models import AbstractModel, Parameter
from driftbayes.models._base import fact
from driftbayes.models._prepare import Kind
from driftbayes.precision import as_leaf
from driftbayes.priors import AbstractPrior
from driftbayes.sde.law import Function, Hidden, Law
from driftbayes.sde.simulate import resolved_substeps, simulate_paths
from driftbayes.sde.validation import check_law


class BareParameter(Parameter):
    """A parameter whose unit was not told."""

    def unit(self, length: str = "", time: str = "") -> str:
        """No unit is known."""
        return ""


class SDE(AbstractModel):
    r"""A stochastic differential equation, written as Python functions of JAX arrays.

    With a hidden velocity, per axis,

    $$\mathrm{d}X = U\,\mathrm{d}t, \qquad
      \mathrm{d}U = a(X, U, t; \theta)\,\mathrm{d}t + b(X, U, t; \theta)\,\mathrm{d}W,$$

    without, $\mathrm{d}X = a(X, t; \theta)\,\mathrm{d}t + b(X, t; \theta)\,\mathrm{d}W$ (Itô).
    Its likelihood is estimated by particle filters; see `docs/sde.md` for what is approximate.

    Args:
        drift: Function `drift(x, u, t, theta)`, or `drift(x, t, theta)` without a velocity, of one
            particle: x and u are arrays of one number per axis, `theta.name` is a parameter. It
            returns one number per axis.
        diffusion: The same for the diffusion b > 0; one number for all axes will do.
        parameters: For each parameter its prior; or a `Parameter`, which tells its unit and
            leaves the prior to the rules that other models follow; or a pair of both.
        hidden_velocity: Whether the equation is one of the velocity.
        name: Name of the model.
        summary: What it is, in a line.
        initial_velocity: Function `initial_velocity(x, t, theta)` that gives the standard deviation
            of the velocity at the first fix, or its mean and standard deviation; by default the
            steady state of the equation linearised about rest.
        hidden: Further hidden variables that drift and diffusion take as a last argument.

    Raises:
        DriftbayesError: A function fails, or does not return finite numbers of the right shape.

    Example:
        >>> import driftbayes as db
        >>> langevin = db.SDE(
        ...     drift=lambda x, u, t, theta: -theta.gamma * u,
        ...     diffusion=lambda x, u, t, theta: theta.gamma * (2 * theta.k) ** 0.5,
        ...     parameters={"gamma": db.Exponential(1.0), "k": db.Exponential(1.0)},
        ... )
        >>> langevin.parameters.keys()
        dict_keys(['gamma', 'k'])
    """

    law: Law = eqx.field(static=True)
    values: tuple[Any, ...]

    name: ClassVar[str] = fact(lambda self: self.law.name)
    summary: ClassVar[str] = fact(lambda self: self.law.summary)
    parameters: ClassVar[dict[str, Parameter]] = fact(lambda self: dict(self.law.parameters))
    scale_parameter: ClassVar[str] = ""
    limit: ClassVar[str] = "as its equation says"
    is_gaussian: ClassVar[bool] = False
    has_state_space: ClassVar[bool] = False
    kind: ClassVar[Kind] = "sde"
    needs_positions: ClassVar[bool] = True

    def __init__(
        self,
        drift: Function,
        diffusion: Function,
        parameters: Mapping[str, Any],
        *,
        hidden_velocity: bool = True,
        name: str = "sde",
        summary: str = "",
        initial_velocity: Function | None = None,
        hidden: Hidden | None = None,
    ) -> None:
        expect(parameters, Mapping, "parameters", "priors by name, for example Exponential(1.0)")
        about, priors = {}, {}
        for key, given in parameters.items():
            about[key], prior = _told(key, given)
            if prior is not None:
                priors[key] = prior
        law = Law(
            name=name,
            summary=summary or "stochastic differential equation of the user",
            drift=drift,
            diffusion=diffusion,
            parameters=about,
            defaults=priors,
            hidden_velocity=hidden_velocity,
            initial_velocity=initial_velocity,
            hidden=hidden,
        )
        check_law(law)
        self.law = law
        self.values = tuple(priors.get(key, key) for key in about)

    def leaves(self) -> dict[str, Any]:
        return dict(zip(self.law.parameters, self.values, strict=True))

    def template(self) -> "SDE":
        return with_values(self.law, tuple(self.law.parameters))

    def __call__(self, **values: Any) -> "SDE":
        return with_values(self.law, tuple(as_leaf(values[key]) for key in self.law.parameters))

    def __repr__(self) -> str:
        """Name and values."""
        told = ", ".join(f"{key}={value!r}" for key, value in self.leaves().items())
        return f"SDE {self.name}({told})"

    def default_priors(self) -> dict[str, AbstractPrior]:
        """Priors that came with the model."""
        return dict(self.law.defaults)

    def theta(self) -> Any:
        """Parameters as the user's functions take them."""
        return self.law.theta(*(jnp.asarray(value) for value in self.values))

    def _no_form(self) -> DriftbayesError:
        return DriftbayesError(
            f"{self.name} is an SDE without a closed form; compare, scan and simulate take it, and "
            "nothing else does"
        )

    def increment_autocovariance(
        self, lags: Float[Array, " lag"], tau: Scalar
    ) -> Float[Array, " lag"]:
        raise self._no_form()

    def mean_square_displacement(self, lag: Float[Array, "..."]) -> Float[Array, "..."]:
        raise self._no_form()

    def lvaf(self, lag: Float[Array, "..."]) -> Float[Array, "..."]:
        raise self._no_form()

    def simulate(
        self, key: Key, *, n_particles: int, n_steps: int, n_dim: int, tau: ScalarLike
    ) -> Float[Array, "particle position dim"]:
        """Positions at times 0, tau, 2 tau, ..., from the origin, by small steps."""
        start = jnp.zeros((n_particles, n_dim))
        theta = self.theta()
        substeps = resolved_substeps(self.law, theta, key, n_dim, tau)
        x, _ = simulate_paths(
            self.law, theta, key, start, n_steps=n_steps, tau=tau, substeps=substeps
        )
        return x


def with_values(law: Law, values: tuple[Any, ...]) -> SDE:
    """The model of a law with values: past the checks of a new one."""
    model = object.__new__(SDE)
    object.__setattr__(model, "law", law)
    object.__setattr__(model, "values", values)
    return model


def _told(name: str, given: Any) -> tuple[Parameter, AbstractPrior | None]:
    """What a parameter is, and its prior."""
    parts = given if isinstance(given, tuple) else (given,)
    about = [part for part in parts if isinstance(part, Parameter)]
    priors = [part for part in parts if isinstance(part, AbstractPrior)]
    if not name.isidentifier() or name.startswith("_"):
        msg = f"a parameter's name must be a plain word, got {name!r}"
        raise DriftbayesError(msg)
    if not parts or len(about) + len(priors) != len(parts) or len(about) > 1 or len(priors) > 1:
        msg = (
            f"parameter {name!r} must be a prior, for example Exponential(1.0), a Parameter, or a "
            f"pair of both, got {given!r}"
        )
        raise DriftbayesError(msg)
    bare = BareParameter(name, "parameter of the equation", 0, 0)
    return (about[0] if about else bare), (priors[0] if priors else None)
