"""A model made from another by an option: what it takes over unchanged."""

__all__ = ["AbstractOption", "check_base", "with_own"]

from typing import Any

import jax
from jaxtyping import Array, Float

from driftbayes.errors import DriftbayesError
from driftbayes.jax_typing import Key, Scalar, ScalarLike
from driftbayes.likelihood.kalman import Transition
from driftbayes.models._base import AbstractModel, Parameter
from driftbayes.models._prepare import Data

# What a class of models says of itself, and an option of it as well unless it says otherwise.
_FACTS = (
    "parameters",
    "scale_parameter",
    "is_gaussian",
    "has_state_space",
    "observes_position",
    "has_many_nodes",
    "memory",
    "kind",
    "exact_positions",
    "needs_positions",
)


class AbstractOption(AbstractModel):
    """A model that consists of another and something more.

    Classes are made by functions, one for each class of models that takes the option: their
    parameters are those of the other model and their own. All that an option does not define is
    the other model's: its methods here, its facts by the class keyword `of`.

    Args:
        base: The other model.
    """

    base: AbstractModel

    def __init_subclass__(cls, of: type[AbstractModel] | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        for fact in _FACTS if of is not None else ():
            if fact not in cls.__dict__:
                setattr(cls, fact, getattr(of, fact))

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

    def stepper(self) -> Transition:
        is_own = type(self).transition is not AbstractOption.transition
        return self.transition if is_own else self.base.stepper()

    def initial_covariance(self) -> Float[Array, "state state"]:
        return self.base.initial_covariance()

    def generator(self) -> tuple[Float[Array, "state state"], Float[Array, "state state"]]:
        return self.base.generator()

    def engine_generator(self) -> tuple[Array, Array] | None:
        own = type(self)
        is_same = (
            own.transition is AbstractOption.transition
            and own.engine_transition is AbstractModel.engine_transition
        )
        return self.base.engine_generator() if is_same else None

    def fix_variance(self) -> ScalarLike:
        return self.base.fix_variance()

    def mean_square_displacement(self, lag: Float[Array, "..."]) -> Float[Array, "..."]:
        return self.base.mean_square_displacement(lag)

    def lvaf(self, lag: Float[Array, "..."]) -> Float[Array, "..."]:
        return self.base.lvaf(lag)

    def inverse_shape(self, n_dim: int) -> Float[Array, "dim dim"]:
        return self.base.inverse_shape(n_dim)

    def derived(self, data: Data) -> dict[str, Scalar]:
        return self.base.derived(data)

    def value_of(self, name: str) -> ScalarLike:
        if name in type(self).__dataclass_fields__:
            return super().value_of(name)
        return self.base.value_of(name)

    def check_step(self, shortest: float) -> None:
        self.base.check_step(shortest)

    def simulate(
        self, key: Key, *, n_particles: int, n_steps: int, n_dim: int, tau: ScalarLike
    ) -> Float[Array, "particle position dim"]:
        key_base, key_own = jax.random.split(key)
        positions = self.base.simulate(
            key_base, n_particles=n_particles, n_steps=n_steps, n_dim=n_dim, tau=tau
        )
        return self.changed(key_own, positions, tau)

    def changed(
        self, key: Key, positions: Float[Array, "particle position dim"], tau: ScalarLike
    ) -> Float[Array, "particle position dim"]:
        """Positions of the other model, simulated, with the option applied."""
        return positions


def with_own(model: type[AbstractModel], own: dict[str, Parameter]) -> dict[str, Parameter]:
    """Parameters of a model and those that an option adds; refuse a name that stands for two."""
    twice = [name for name in own if name in model.parameters]
    if twice:
        msg = f"{model.name} already has a parameter {twice[0]!r}; the option needs another name"
        raise DriftbayesError(msg)
    return {**model.parameters, **own}


def check_base(
    model: type[AbstractModel], option: str, kinds: tuple[str, ...] = ("summed",)
) -> None:
    """Refuse a model that has an option already which this one would silently undo."""
    if model.kind not in kinds:
        msg = (
            f"the option {option!r} cannot be added to {model.name}; options are applied in the "
            "order in which model_named applies them"
        )
        raise DriftbayesError(msg)
