"""A model from a user's own drift and diffusion."""

from collections.abc import Mapping
from keyword import iskeyword
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp

from driftbayes._jax_typing import Key, Positions, ScalarLike
from driftbayes._precision import as_leaf
from driftbayes.errors import DriftbayesError, expect, shown
from driftbayes.models import MODELS, Parameter
from driftbayes.models._base import AbstractUnsolved, Kind, fact
from driftbayes.priors import AbstractPrior
from driftbayes.sde._law import Function, Hidden, Law
from driftbayes.sde._simulate import resolved_substeps, simulate_paths
from driftbayes.sde._validation import check_law


class BareParameter(Parameter):
    """A parameter without a unit."""

    def unit(self, length: str = "", time: str = "") -> str:
        """Return an empty unit."""
        return ""


class SDE(AbstractUnsolved):
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
        diffusion: Function of the same arguments that returns the diffusion b > 0, one number per
            axis or one for all.
        parameters: For each parameter its prior; or a `Parameter` with its unit, whose prior
            follows the rules of other models; or a pair of both.
        hidden_velocity: Whether drift and diffusion are those of the velocity.
        name: Name of the model.
        summary: Description in one line.
        initial_velocity: Function `initial_velocity(x, t, theta)` that returns the standard
            deviation of the velocity at the first fix, or its mean and standard deviation; by
            default the stationary state of the equation linearised about rest.
        hidden: Further hidden variables, the last argument of drift and diffusion.

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
        if not _is_word(name) or (name in MODELS and not isinstance(MODELS[name], SDE)):
            wanted = "a plain word that is not the name of a model of the package"
            raise DriftbayesError(f"name must be {wanted}, got {shown(name)}; choose another")
        descriptions, priors = {}, {}
        for key, specification in parameters.items():
            descriptions[key], prior = _parameter_and_prior(key, specification)
            if prior is not None:
                priors[key] = prior
        law = Law(
            name=name,
            summary=summary or "stochastic differential equation of the user",
            drift=drift,
            diffusion=diffusion,
            parameters=descriptions,
            defaults=priors,
            hidden_velocity=hidden_velocity,
            initial_velocity=initial_velocity,
            hidden=hidden,
        )
        check_law(law)
        self.law = law
        self.values = tuple(priors.get(key, key) for key in descriptions)

    def leaves(self) -> dict[str, Any]:
        return dict(zip(self.law.parameters, self.values, strict=True))

    def template(self) -> "SDE":
        return with_values(self.law, tuple(self.law.parameters))

    def __call__(self, **values: Any) -> "SDE":
        return with_values(self.law, tuple(as_leaf(values[key]) for key in self.law.parameters))

    def __repr__(self) -> str:
        """Name and values."""
        parameters = ", ".join(f"{key}={value!r}" for key, value in self.leaves().items())
        return f"SDE {self.name}({parameters})"

    def default_priors(self) -> dict[str, AbstractPrior]:
        """Default priors of the model."""
        return dict(self.law.defaults)

    def theta(self) -> Any:
        """Return the parameters in the form that the user's functions take."""
        return self.law.theta(*(jnp.asarray(value) for value in self.values))

    def _no_moments(self) -> str:
        return f"{self.name} is an SDE without a closed form; use it with compare, scan or simulate"

    def simulate(
        self, key: Key, *, n_particles: int, n_steps: int, n_dim: int, tau: ScalarLike
    ) -> Positions:
        """Simulate positions at times 0, tau, 2 tau, ..., from the origin, by small steps."""
        start = jnp.zeros((n_particles, n_dim))
        theta = self.theta()
        substeps = resolved_substeps(self.law, theta, key, n_dim, tau)
        x, _ = simulate_paths(
            self.law, theta, key, start, n_steps=n_steps, tau=tau, substeps=substeps
        )
        return x


def with_values(law: Law, values: tuple[Any, ...]) -> SDE:
    """Return the model of a law with values, without the checks of a new model."""
    model = object.__new__(SDE)
    object.__setattr__(model, "law", law)
    object.__setattr__(model, "values", values)
    return model


def _is_word(name: Any) -> bool:
    plain = isinstance(name, str) and name.isidentifier() and not name.startswith("_")
    return plain and not iskeyword(name)


def _parameter_and_prior(name: str, specification: Any) -> tuple[Parameter, AbstractPrior | None]:
    """Return the description of a parameter and its prior, if any."""
    parts = specification if isinstance(specification, tuple) else (specification,)
    descriptions = [part for part in parts if isinstance(part, Parameter)]
    priors = [part for part in parts if isinstance(part, AbstractPrior)]
    if not _is_word(name):
        raise DriftbayesError(f"a parameter's name must be a plain word, got {name!r}")
    if (
        not parts
        or len(descriptions) + len(priors) != len(parts)
        or len(descriptions) > 1
        or len(priors) > 1
    ):
        raise DriftbayesError(
            f"parameter {name!r} must be a prior, for example Exponential(1.0), a Parameter, or a "
            f"pair of both, got {specification!r}"
        )
    bare = BareParameter(name, "parameter of the equation", 0, 0)
    return (descriptions[0] if descriptions else bare), (priors[0] if priors else None)
