"""Base class of models that wrap another model."""

__all__ = ["AbstractOption", "core_of"]

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import jax
from jaxtyping import Array, Float

from driftbayes.errors import DriftbayesError
from driftbayes.jax_typing import Key, Scalar, ScalarLike
from driftbayes.likelihood import Collected
from driftbayes.models._base import AbstractModel, Parameter, fact
from driftbayes.models._prepare import Kind
from driftbayes.models._rules import OPTIONS, check_options

# `__check_init__` checks the type at run time.
if TYPE_CHECKING:
    Model: TypeAlias = AbstractModel
else:
    Model: TypeAlias = Any


class AbstractOption(AbstractModel):
    """A model that wraps another and adds something to it.

    Attributes and methods that an option does not define are those of the wrapped model.

    Args:
        base: The wrapped model.
    """

    base: Model

    # The part of the model's name after the plus sign, and the parameters added, each a field.
    option: ClassVar[str]
    own: ClassVar[dict[str, Parameter]]
    name: ClassVar[str] = fact(lambda self: f"{self.base.name}+{self.option}")
    parameters: ClassVar[dict[str, Parameter]] = fact(
        lambda self: {**self.base.parameters, **self.own}
    )
    scale_parameter: ClassVar[str] = fact(lambda self: self.base.scale_parameter)
    is_gaussian: ClassVar[bool] = fact(lambda self: self.base.is_gaussian)
    has_state_space: ClassVar[bool] = fact(lambda self: self.base.has_state_space)
    observes_position: ClassVar[bool] = fact(lambda self: self.base.observes_position)
    has_many_nodes: ClassVar[bool] = fact(lambda self: self.base.has_many_nodes)
    moves_by_generator: ClassVar[bool] = fact(lambda self: self.base.moves_by_generator)
    memory: ClassVar[int | None] = fact(lambda self: self.base.memory)
    has_derived: ClassVar[bool] = fact(lambda self: self.base.has_derived)
    kind: ClassVar[Kind] = fact(lambda self: self.base.kind)
    exact_positions: ClassVar[bool] = fact(lambda self: self.base.exact_positions)
    needs_positions: ClassVar[bool] = fact(lambda self: self.base.needs_positions)

    def __check_init__(self) -> None:
        """Apply the rules of `check_options`, which hold for names, to composed models."""
        base, kind = self.base, type(self).__name__
        if not isinstance(base, AbstractModel):
            raise DriftbayesError(
                f"{kind} wraps a model, got {base!r}; write for example {kind}(Langevin(...), ...)"
            )
        core, inner = base, []
        while isinstance(core, AbstractOption):
            inner.append(core.option)
            core = core.base
        if "*N" in inner:
            msg = f"{kind} cannot wrap the mixture {base.name}; wrap the model of its classes"
            raise DriftbayesError(msg)
        twice = [own for own in self.own if own in base.parameters]
        if twice:
            raise DriftbayesError(
                f"{base.name} already has a parameter {twice[0]!r}; {kind} needs a model without it"
            )
        if self.option == "*N":
            if base.kind != "summed":
                msg = f"a mixture is of a model with noise or blur at most, not of {base.name}"
                raise DriftbayesError(msg)
            return
        check_options(self.name, core, [*inner, self.option])
        order = list(OPTIONS)
        later = [name for name in inner if order.index(name) > order.index(self.option)]
        if later:
            msg = f"{kind} cannot wrap {base.name}: apply it before the option {later[0]!r}"
            raise DriftbayesError(msg)

    def leaves(self) -> dict[str, Any]:
        return {**self.base.leaves(), **{name: getattr(self, name) for name in self.own}}

    def template(self) -> "AbstractModel":
        return replace(self, base=self.base.template(), **{name: name for name in self.own})

    def __call__(self, **values: Any) -> "AbstractModel":
        own = {name: values.pop(name) for name in self.own}
        return replace(self, base=self.base(**values), **own)

    def default_priors(self) -> dict[str, Any]:
        return self.base.default_priors()

    def increment_autocovariance(
        self, lags: Float[Array, " lag"], tau: Scalar
    ) -> Float[Array, " lag"]:
        return self.base.increment_autocovariance(lags, tau)

    def first_autocovariances(self, n_lags: int, tau: Scalar) -> Float[Array, " lag"]:
        return self.base.first_autocovariances(n_lags, tau)

    def transition(
        self, interval: Scalar
    ) -> tuple[Float[Array, "state state"], Float[Array, "state state"]]:
        return self.base.transition(interval)

    def initial_covariance(self) -> Float[Array, "state state"]:
        return self.base.initial_covariance()

    def generator(self) -> tuple[Float[Array, "state state"], Float[Array, "state state"]]:
        return self.base.generator()

    def fix_variance(self) -> ScalarLike:
        return self.base.fix_variance()

    def mean_square_displacement(self, lag: Float[Array, "..."]) -> Float[Array, "..."]:
        return self.base.mean_square_displacement(lag)

    def lvaf(self, lag: Float[Array, "..."]) -> Float[Array, "..."]:
        return self.base.lvaf(lag)

    def inverse_shape(self, n_dim: int) -> Float[Array, "dim dim"]:
        return self.base.inverse_shape(n_dim)

    def derived(self, sums: Collected) -> dict[str, Scalar]:
        return self.base.derived(sums)

    def check_step(self, shortest: float) -> None:
        self.base.check_step(shortest)

    def simulate(
        self, key: Key, *, n_particles: int, n_steps: int, n_dim: int, tau: ScalarLike
    ) -> Float[Array, "particle position dim"]:
        key_base, key_own = jax.random.split(key)
        positions = self.base.simulate(
            key_base, n_particles=n_particles, n_steps=n_steps, n_dim=n_dim, tau=tau
        )
        return self.apply(key_own, positions, tau)

    def apply(
        self, key: Key, positions: Float[Array, "particle position dim"], tau: ScalarLike
    ) -> Float[Array, "particle position dim"]:
        """Apply the option to simulated positions of the wrapped model."""
        return positions


def core_of(model: AbstractModel) -> AbstractModel:
    """Return the plain model inside all options."""
    while isinstance(model, AbstractOption):
        model = model.base
    return model
