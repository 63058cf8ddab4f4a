"""Base class of models that wrap another model."""

from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar, cast

import jax

from driftbayes._jax_typing import Key, Positions, ScalarLike
from driftbayes.errors import DriftbayesError
from driftbayes.models._base import AbstractModel, Kind, Parameter, fact
from driftbayes.models._rules import OPTIONS, check_options

Method = TypeVar("Method", bound=Callable[..., Any])
# `__check_init__` checks the type at run time.
if TYPE_CHECKING:
    Model: TypeAlias = AbstractModel
else:
    Model: TypeAlias = Any


def _of_base(name: str) -> Any:
    """Return a property with the value that the wrapped model has."""
    return fact(attrgetter(f"base.{name}"))


def _method_of_base(method: Method) -> Method:
    """Return a method that calls the same method of the wrapped model."""
    name = method.__name__

    def call(self: "AbstractOption", *args: Any) -> Any:
        return getattr(self.base, name)(*args)

    call.__name__, call.__doc__ = name, method.__doc__
    return cast("Method", call)


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
    options: ClassVar[tuple[str, ...]] = fact(lambda self: (*self.base.options, self.option))
    scale_parameter: ClassVar[str] = _of_base("scale_parameter")
    diffusivity: ClassVar[str | None] = _of_base("diffusivity")
    is_gaussian: ClassVar[bool] = _of_base("is_gaussian")
    has_state_space: ClassVar[bool] = _of_base("has_state_space")
    observes_position: ClassVar[bool] = _of_base("observes_position")
    has_many_nodes: ClassVar[bool] = _of_base("has_many_nodes")
    moves_by_generator: ClassVar[bool] = _of_base("moves_by_generator")
    memory: ClassVar[int | None] = _of_base("memory")
    has_derived: ClassVar[bool] = _of_base("has_derived")
    kind: ClassVar[Kind] = _of_base("kind")
    exact_positions: ClassVar[bool] = _of_base("exact_positions")
    needs_positions: ClassVar[bool] = _of_base("needs_positions")

    default_priors = _method_of_base(AbstractModel.default_priors)
    increment_autocovariance = _method_of_base(AbstractModel.increment_autocovariance)
    first_autocovariances = _method_of_base(AbstractModel.first_autocovariances)
    transition = _method_of_base(AbstractModel.transition)
    initial_covariance = _method_of_base(AbstractModel.initial_covariance)
    generator = _method_of_base(AbstractModel.generator)
    fix_variance = _method_of_base(AbstractModel.fix_variance)
    mean_square_displacement = _method_of_base(AbstractModel.mean_square_displacement)
    lvaf = _method_of_base(AbstractModel.lvaf)
    inverse_shape = _method_of_base(AbstractModel.inverse_shape)
    derived = _method_of_base(AbstractModel.derived)
    check_step = _method_of_base(AbstractModel.check_step)

    def __check_init__(self) -> None:
        """Apply the rules of `check_options`, which hold for names, to composed models."""
        base, kind = self.base, type(self).__name__
        if not isinstance(base, AbstractModel):
            raise DriftbayesError(
                f"{kind} wraps a model, got {base!r}; write for example {kind}(Langevin(...), ...)"
            )
        inner = base.options
        if base.is_mixture:
            msg = f"{kind} cannot wrap the mixture {base.name}; wrap the model of its classes"
            raise DriftbayesError(msg)
        if self.is_mixture and base.kind != "summed":
            msg = f"a mixture is of a model with noise or blur at most, not of {base.name}"
            raise DriftbayesError(msg)
        self._check_tuples()
        twice = [own for own in self.own if own in base.parameters]
        if twice:
            raise DriftbayesError(
                f"{base.name} already has a parameter {twice[0]!r}; {kind} needs a model without it"
            )
        if self.is_mixture:
            return
        check_options(self.name, base.core, [*inner, self.option])
        order = list(OPTIONS)
        later = [name for name in inner if order.index(name) > order.index(self.option)]
        if later:
            msg = f"{kind} cannot wrap {base.name}: apply it before the option {later[0]!r}"
            raise DriftbayesError(msg)

    def _check_tuples(self) -> None:
        """Refuse tuples of parameters that do not have one entry for each."""
        kind = type(self).__name__
        try:
            if len(self.own_values()) == len(self.own):
                return
            each = f"each of {', '.join(self.own)}"
        except (TypeError, ValueError):
            each = "each parameter"
        raise DriftbayesError(
            f"{kind} of {self.base.name} needs one prior or number for {each}, in tuples as in "
            f"the example of help({kind})"
        )

    @property
    def core(self) -> AbstractModel:
        core: AbstractModel = self.base.core
        return core

    def leaves(self) -> dict[str, Any]:
        return {**self.base.leaves(), **dict(zip(self.own, self.own_values(), strict=True))}

    def template(self) -> "AbstractModel":
        return self.rebuilt(self.base.template(), list(self.own))

    def __call__(self, **values: Any) -> "AbstractModel":
        own = [values.pop(name) for name in self.own]
        return self.rebuilt(self.base(**values), own)

    def own_values(self) -> tuple[Any, ...]:
        """Return the values of the added parameters, in order."""
        return tuple(getattr(self, name) for name in self.own)

    def rebuilt(self, base: AbstractModel, own: list[Any]) -> "AbstractModel":
        """Return the option with another base and other values of the added parameters."""
        return replace(self, base=base, **dict(zip(self.own, own, strict=True)))

    def simulate(
        self, key: Key, *, n_particles: int, n_steps: int, n_dim: int, tau: ScalarLike
    ) -> Positions:
        key_base, key_own = jax.random.split(key)
        positions = self.base.simulate(
            key_base, n_particles=n_particles, n_steps=n_steps, n_dim=n_dim, tau=tau
        )
        return self.apply(key_own, positions, tau)

    def apply(self, key: Key, positions: Positions, tau: ScalarLike) -> Positions:
        """Apply the option to simulated positions of the wrapped model."""
        return positions
