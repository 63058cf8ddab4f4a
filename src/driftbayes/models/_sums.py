"""Sums of independent motions."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Inexact

from driftbayes._jax_typing import LagArray, Leaf, Scalar, StateMatrices, StateMatrix, TimeArray
from driftbayes._precision import as_leaf
from driftbayes.errors import DriftbayesError
from driftbayes.likelihood import Collected
from driftbayes.models._base import AbstractModel, Parameter, fact, shape_names

Matrix = Inexact[Array, "state state"]


class AbstractSum(AbstractModel):
    """The sum of independent motions, from which all its moments follow."""

    @property
    @abstractmethod
    def parts(self) -> tuple[AbstractModel, ...]:
        """Components, each with its part of the diffusivity."""

    def increment_autocovariance(self, lags: LagArray, tau: Scalar) -> LagArray:
        return total([part.increment_autocovariance(lags, tau) for part in self.parts])

    def first_autocovariances(self, n_lags: int, tau: Scalar) -> LagArray:
        return total([part.first_autocovariances(n_lags, tau) for part in self.parts])

    def transition(self, interval: Scalar) -> StateMatrices:
        """State (X, V_1, V_2, ...), with the velocities of all components."""
        propagators, noises = zip(*(part.transition(interval) for part in self.parts), strict=True)
        return combine_propagators(propagators), combine_covariances(noises)

    def generator(self) -> StateMatrices:
        drifts, intensities = zip(*(part.generator() for part in self.parts), strict=True)
        return _join(drifts), combine_covariances(intensities)

    def initial_covariance(self) -> StateMatrix:
        return combine_covariances([part.initial_covariance() for part in self.parts])

    def mean_square_displacement(self, lag: TimeArray) -> TimeArray:
        return total([part.mean_square_displacement(lag) for part in self.parts])

    def lvaf(self, lag: TimeArray) -> TimeArray:
        return total([part.lvaf(lag) for part in self.parts])


class Sum(AbstractSum):
    r"""The sum of independent motions, each with its own model.

    $$X(t) = \sum_c X_c(t), \qquad k_c = w_c\,k, \qquad
      w_1 = 1 - s_2, \quad w_2 = s_2 (1 - s_3), \ \dots$$

    The scale k is the total diffusivity. $s_c$ is the share of component c and all later ones in
    the diffusivity that remains after the earlier ones. The names of other parameters end with the
    name of their component, for example `gamma_langevin`. As $s_2 \to 0$ the sum becomes its first
    component.

    Args:
        models: Templates of two or more different models.
        values: The parameters, in order.

    Example:
        >>> import driftbayes as db
        >>> from driftbayes.models import MODELS, model_named
        >>> model = model_named("brownian&langevin", MODELS)
        >>> type(model).__name__, list(model.parameters)
        ('Sum', ['gamma_langevin', 'share_langevin', 'k'])
    """

    models: tuple[AbstractModel, ...] = eqx.field(static=True)
    values: tuple[Leaf, ...]

    name: ClassVar[str] = fact(lambda self: "&".join(model.name for model in self.models))
    summary: ClassVar[str] = fact(
        lambda self: (
            f"sum of independent motions, {' and '.join(model.name for model in self.models)}"
        )
    )
    parameters: ClassVar[dict[str, Parameter]] = fact(lambda self: _parameters(self.models))
    scale_parameter: ClassVar[str] = "k"
    # Diffusivities of independent motions add up, if none of them is confined.
    diffusivity: ClassVar[str | None] = fact(
        lambda self: "k" if all(model.diffusivity for model in self.models) else None
    )
    limit: ClassVar[str] = fact(
        lambda self: f"{self.models[0].name}, as share_{self.models[1].name} → 0"
    )
    has_state_space: ClassVar[bool] = fact(
        lambda self: all(model.has_state_space for model in self.models)
    )
    moves_by_generator: ClassVar[bool] = fact(
        lambda self: all(model.moves_by_generator for model in self.models)
    )
    has_many_nodes: ClassVar[bool] = fact(
        lambda self: any(model.has_many_nodes for model in self.models)
    )
    memory: ClassVar[int | None] = None
    has_derived: ClassVar[bool] = True

    def __check_init__(self) -> None:
        """Refuse models with values, which the sum would ignore, and too few or many values."""
        are_templates = isinstance(self.models, tuple) and all(map(_is_template, self.models))
        are_values = are_templates and isinstance(self.values, tuple)
        if are_values and len(self.values) == len(self.parameters):
            return
        raise DriftbayesError(
            "Sum needs a tuple of templates of models and a tuple of one value for each of its "
            "parameters; write its name instead, for example models='brownian&langevin', with "
            "priors for its parameters"
        )

    def leaves(self) -> dict[str, Any]:
        return dict(zip(self.parameters, self.values, strict=True))

    def template(self) -> AbstractModel:
        return Sum(self.models, tuple(self.parameters))

    def __call__(self, **values: Any) -> AbstractModel:
        return Sum(self.models, tuple(as_leaf(values[name]) for name in self.parameters))

    @property
    def parts(self) -> tuple[AbstractModel, ...]:
        values = self.leaves()
        left, parts = values["k"], []
        for model, later in zip(self.models, [*self.models[1:], None], strict=True):
            share = 0.0 if later is None else values[f"share_{later.name}"]
            own = {name: values[f"{name}_{model.name}"] for name in shape_names(model)}
            parts.append(model(**own, **{model.scale_parameter: left * (1 - share)}))
            left = left * share
        return tuple(parts)

    def derived(self, sums: Collected) -> dict[str, Scalar]:
        """Return the diffusivity of each component."""
        return {
            f"k_{part.name}": jnp.asarray(part.value_of(part.scale_parameter))
            for part in self.parts
        }


def _is_template(model: Any) -> bool:
    """Whether a model holds names in place of its parameters."""
    return isinstance(model, AbstractModel) and all(
        isinstance(leaf, str) for leaf in model.leaves().values()
    )


def sum_of(models: tuple[AbstractModel, ...]) -> AbstractModel:
    """Return the template of a sum of independent motions.

    Args:
        models: Templates of two or more different models.
    """
    names = [model.name for model in models]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DriftbayesError(
            f"{twice!r} is repeated in {'&'.join(names)!r}, and the two cannot be distinguished; "
            "give it once (two Langevin velocities are the model 'two_scale')"
        )
    return Sum(models, tuple(_parameters(models)))


def _parameters(models: tuple[AbstractModel, ...]) -> dict[str, Parameter]:
    """Return the parameters of a sum."""
    found: dict[str, Parameter] = {}
    for c, model in enumerate(models, start=1):
        for name in shape_names(model):
            found[f"{name}_{model.name}"] = model.parameters[name].of(model.name)
        if c > 1:
            rest = " and up" if c < len(models) else ""
            meaning = f"share of k that {model.name}{rest} carries, below 1"
            found[f"share_{model.name}"] = Parameter(f"s_{model.name}", meaning, 0, 0, upper=1.0)
    return {**found, "k": Parameter("k", "diffusivity of all components together", 2, -1)}


def combine_propagators(matrices: Sequence[Array]) -> Matrix:
    """Join propagators over (X_c, V_c) into one over (X_1 + X_2 + ..., V_1, V_2, ...).

    In every model the position is an integral that affects no other component: the first column of
    a propagator is (1, 0, ..., 0), so that one sum can replace the positions of all components.
    """
    return _join(matrices).at[0, 0].set(1.0)


def combine_covariances(matrices: Sequence[Array]) -> Matrix:
    """Join covariances of independent (X_c, V_c) into one of (X_1 + X_2 + ..., V_1, V_2, ...)."""
    return _join(matrices).at[0, 0].set(total([matrix[0, 0] for matrix in matrices]))


def _join(matrices: Sequence[Array]) -> Matrix:
    """Join matrices over (X_c, V_c) into one over (X_1 + X_2 + ..., V_1, V_2, ...)."""
    size = 1 + sum(len(matrix) - 1 for matrix in matrices)
    whole = jnp.zeros((size, size), dtype=matrices[0].dtype)
    start = 1
    for matrix in matrices:
        stop = start + len(matrix) - 1
        whole = whole.at[start:stop, start:stop].set(matrix[1:, 1:])
        whole = whole.at[0, start:stop].set(matrix[0, 1:])
        whole = whole.at[start:stop, 0].set(matrix[1:, 0])
        start = stop
    return whole


def total(values: Sequence[Array]) -> Array:
    """Return the sum of arrays of one shape."""
    return jnp.sum(jnp.stack(values), axis=0)
