"""Hypothesis: a model family and a prior, the paper's "single, complete hypothesis"."""

__all__ = ["Hypothesis", "check_plain", "check_plain_models"]

from collections.abc import Iterable, Mapping, Sequence
from math import inf

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftbayes.errors import DriftbayesError, did_you_mean, expect
from driftbayes.jax_typing import Scalar, ScalarLike
from driftbayes.likelihood.moments import AnyArray
from driftbayes.models import AbstractModel, as_template
from driftbayes.priors import AbstractPrior, Fixed, Uniform
from driftbayes.representation import Described


class Hypothesis(Described, eqx.Module):
    """A model family together with the prior of each of its parameters.

    Models know nothing of positivity and coordinates, which belong to the priors. The vector θ
    holds the parameters that are not `Fixed`, in the order of the model; z is θ in unconstrained
    coordinates.

    Args:
        model: A model with a prior in place of each parameter (a number is a known value), or the
            class or template of the family.
        **priors: One prior per parameter, by name, unless the model holds them.

    Example:
        >>> from driftbayes import Exponential, Hypothesis, Langevin
        >>> one = Hypothesis(Langevin(gamma=Exponential(1), k=Exponential(2)))
        >>> another = Hypothesis(Langevin, gamma=Exponential(1), k=Exponential(2))
        >>> one == another
        True
    """

    # The template, with names in place of parameters.
    model: AbstractModel = eqx.field(static=True)
    priors: dict[str, AbstractPrior]

    def __init__(self, model: AbstractModel | type[AbstractModel], **priors: AbstractPrior) -> None:
        if not (isinstance(model, type) and issubclass(model, AbstractModel)):
            kind = "a model, for example Langevin or Noise(Langevin(...), sigma=...)"
            expect(model, AbstractModel, "model", kind)
        for name, prior in priors.items():
            kind = "a prior, for example Exponential(mean=1.0)"
            expect(prior, AbstractPrior, f"the prior of {name}", kind)
        if isinstance(model, AbstractModel):
            priors = {**_held_priors(model), **priors}
        model = as_template(model)
        wanted = list(model.parameters)
        missing = [name for name in wanted if name not in priors]
        extra = [name for name in priors if name not in wanted]
        if missing or extra:
            complaint = f"no prior for {', '.join(missing)}" if missing else ""
            complaint += ", and " if missing and extra else ""
            complaint += f"a prior for {', '.join(extra)}, which it does not have" if extra else ""
            near = did_you_mean(extra[0], wanted) if extra else ""
            raise DriftbayesError(
                f"{model.name} has parameters {', '.join(wanted)}; got {complaint}{near}"
            )
        if all(isinstance(priors[name], Fixed) for name in wanted):
            raise DriftbayesError(
                f"all parameters of {model.name} are fixed: nothing is left to infer; free one"
            )
        for name in wanted:
            _check_bound(model, name, priors[name])
        self.model = model
        self.priors = {name: priors[name] for name in wanted}

    @classmethod
    def from_table(
        cls, model: AbstractModel | type[AbstractModel], priors: Mapping[str, AbstractPrior]
    ) -> "Hypothesis":
        """Make a hypothesis with the priors in a table that the model needs."""
        return cls(model, **{name: priors[name] for name in model.parameters if name in priors})

    @property
    def name(self) -> str:
        """Name of the model family."""
        return self.model.name

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the inferred parameters, in the order of θ."""
        # The order of the model, since JAX sorts the keys of a dict.
        return tuple(
            name for name in self.model.parameters if not isinstance(self.priors[name], Fixed)
        )

    @property
    def signed(self) -> tuple[bool, ...]:
        """Whether each inferred parameter may be negative."""
        return tuple(self.priors[name].is_signed for name in self.names)

    @property
    def scale_index(self) -> int | None:
        """Index in θ of a parameter that multiplies the whole covariance; None if there is none.

        This is the model's scale parameter, unless another parameter has a unit with length.
        """
        model = self.model
        if not model.is_gaussian or model.scale_parameter not in self.names:
            return None
        others = (p for name, p in model.parameters.items() if name != model.scale_parameter)
        has_length = any(p.length_power and not p.is_distance for p in others)
        return None if has_length else self.names.index(model.scale_parameter)

    def values(self, theta: Float[AnyArray, " parameter"]) -> dict[str, ScalarLike]:
        """Return the value of every parameter of the model at θ, including fixed ones."""
        free = dict(zip(self.names, theta, strict=True))
        return {
            name: prior.value if isinstance(prior, Fixed) else free[name]
            for name, prior in self.priors.items()
        }

    def at(self, theta: Float[AnyArray, " parameter"]) -> AbstractModel:
        """Return the model with parameters θ."""
        return self.model(**self.values(theta))

    def log_prior(self, theta: Float[Array, " parameter"]) -> Scalar:
        """Compute ln p(θ | M)."""
        return sum(
            (self.priors[name].log_density(theta[i]) for i, name in enumerate(self.names)),
            start=jnp.zeros(()),
        )

    def from_unconstrained(self, z: Float[Array, " parameter"]) -> Float[Array, " parameter"]:
        """Transform z to θ."""
        return jnp.stack(
            [self.priors[name].from_unconstrained(z[i]) for i, name in enumerate(self.names)]
        )

    def to_unconstrained(self, theta: Float[Array, " parameter"]) -> Float[Array, " parameter"]:
        """Transform θ to z."""
        return jnp.stack(
            [self.priors[name].to_unconstrained(theta[i]) for i, name in enumerate(self.names)]
        )

    def log_jacobian(self, z: Float[Array, " parameter"]) -> Scalar:
        """Compute ln |dθ/dz|."""
        return sum(
            (self.priors[name].log_jacobian(z[i]) for i, name in enumerate(self.names)),
            start=jnp.zeros(()),
        )

    def rescaled(self, factors: Mapping[str, float]) -> "Hypothesis":
        """Multiply the scales of the named priors.

        A uniform prior is truncated at the upper bound of its parameter.
        """
        priors = {
            name: _truncate(prior.rescaled(factors[name]), prior, self.model.parameters[name].upper)
            if name in factors
            else prior
            for name, prior in self.priors.items()
        }
        return Hypothesis(self.model, **priors)

    def check_step(self, shortest: float) -> None:
        """Raise an error if fixed parameters are impossible for steps this short.

        Args:
            shortest: Duration of the shortest step.
        """
        values = {
            name: prior.value if isinstance(prior, Fixed) else 0.0
            for name, prior in self.priors.items()
        }
        if any(self.model.parameters[name].within_step for name in values):
            self.model(**values).check_step(shortest)

    def describe(self) -> dict[str, str]:
        """Return the priors as text, for records and tables."""
        return {name: prior.describe() for name, prior in self.priors.items()}


def _check_bound(model: AbstractModel, name: str, prior: AbstractPrior) -> None:
    """Raise an error if a prior extends beyond the upper bound of its parameter."""
    upper = model.parameters[name].upper
    if upper == inf:
        return
    largest = prior.value if isinstance(prior, Fixed) else inf
    if isinstance(prior, Uniform):
        largest = prior.high
    if isinstance(largest, jax.core.Tracer) or np.all(np.asarray(largest) <= upper):
        return
    raise DriftbayesError(
        f"{name} of {model.name} cannot exceed {upper:g}, but its prior {prior.describe(6)} "
        f"does; give for example {name}=uniform:0:{upper:g}"
    )


def _truncate(prior: AbstractPrior, old: AbstractPrior, upper: float) -> AbstractPrior:
    """Truncate a rescaled prior at the upper bound; return the old one if nothing would remain."""
    if upper == inf:
        return prior
    if not isinstance(prior, Uniform):
        return old
    low, high = float(prior.low), min(float(prior.high), upper)
    return Uniform(low, high) if low < high else old


def _held_priors(model: AbstractModel) -> dict[str, AbstractPrior]:
    """Return the priors that a model holds; a template holds names instead."""
    return {
        name: leaf if isinstance(leaf, AbstractPrior) else Fixed(leaf)
        for name, leaf in model.leaves().items()
        if not isinstance(leaf, str)
    }


def check_plain(
    hypotheses: Sequence[Hypothesis], purpose: str, *, state_space: bool = False
) -> None:
    """Raise an error for hypotheses that a computation does not support.

    Args:
        hypotheses: The models with their priors.
        purpose: Name of the computation, for the message.
        state_space: Whether it needs a state-space form.
    """
    check_plain_models((h.model for h in hypotheses), purpose, state_space=state_space)


def check_plain_models(
    models: Iterable[AbstractModel], purpose: str, *, state_space: bool = False
) -> None:
    """Check models as `check_plain` checks hypotheses."""
    for model in models:
        reason = ""
        if model.kind == "sde":
            reason = "its likelihood is only estimated"
        elif model.kind != "summed":
            reason = "its axes, trajectories or steps are not all alike"
        elif state_space and not model.has_state_space:
            reason = "it has no state-space form"
        elif state_space and not model.observes_position:
            reason = "its positions are means over an exposure, not instantaneous"
        if reason:
            raise DriftbayesError(f"{purpose} cannot take {model.name}: {reason}; leave it out")
