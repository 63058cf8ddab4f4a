"""Hypothesis: a model family and a prior, the paper's "single, complete hypothesis"."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import inf
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from driftbayes._jax_typing import AnyArray, ScalarLike
from driftbayes._representation import Described
from driftbayes._typing import FloatArray
from driftbayes.errors import DriftbayesError, did_you_mean, expect
from driftbayes.models import AbstractModel, as_template
from driftbayes.priors import AbstractPrior, Fixed, Numbers, Uniform

# Probability beyond which a posterior is in conflict with its prior.
UNEXPECTED = 1e-3


@dataclass(frozen=True, init=False, repr=False)
class Hypothesis(Described):
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
    model: AbstractModel
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
        object.__setattr__(self, "model", model)
        object.__setattr__(self, "priors", {name: priors[name] for name in wanted})

    def __hash__(self) -> int:
        return hash((self.model, *self.priors.items()))

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

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the inferred parameters, in the order of θ."""
        return tuple(name for name in self.priors if name not in self.fixed)

    @cached_property
    def fixed(self) -> dict[str, float]:
        """Values of the parameters that are not inferred."""
        return {name: p.value for name, p in self.priors.items() if isinstance(p, Fixed)}

    @cached_property
    def family(self) -> "Family":
        """The model and the names of the known parameters, on which compiled programs depend."""
        return family_of(self.model, tuple(self.fixed))

    @cached_property
    def signed(self) -> NDArray[np.bool_]:
        """Whether each inferred parameter may be negative."""
        return np.array([self.priors[name].is_signed for name in self.names])

    @cached_property
    def prior_means(self) -> FloatArray:
        """Means of the priors of the inferred parameters, in the order of θ."""
        return np.array([self.priors[name].mean() for name in self.names])

    @cached_property
    def prior_log_sd(self) -> FloatArray:
        """Prior standard deviations of ln θ; of θ if it is signed."""
        return np.array([self.priors[name].log_sd() for name in self.names])

    @cached_property
    def expected(self) -> FloatArray:
        """Prior quantiles at `UNEXPECTED`, 1/2 and 1 - `UNEXPECTED`, (parameter, 3).

        The first is minus infinity unless the density falls towards zero, as for a lognormal prior.
        """
        found = np.empty((len(self.names), 3))
        for row, name in zip(found, self.names, strict=True):
            prior = self.priors[name]
            row[:] = prior.quantile(np.array([UNEXPECTED, 0.5, 1 - UNEXPECTED]))
            low, median = prior.log_density(row[:2])
            if not low < median:
                row[0] = -np.inf
        return found

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
        return {**self.fixed, **dict(zip(self.names, theta, strict=True))}

    def columns(self, theta: FloatArray) -> dict[str, FloatArray]:
        """Return the values of every parameter at points θ, (point, parameter)."""
        fixed = {name: np.full(len(theta), value) for name, value in self.fixed.items()}
        return {**fixed, **dict(zip(self.names, theta.T, strict=True))}

    def at(self, theta: Float[AnyArray, " parameter"]) -> AbstractModel:
        """Return the model with parameters θ."""
        return self.model(**self.values(theta))

    def log_prior(self, theta: FloatArray) -> Numbers:
        """Compute ln p(θ | M) at points θ, (..., parameter)."""
        return self.log_priors(theta).sum(axis=-1)

    def log_priors(self, theta: FloatArray) -> FloatArray:
        """Compute ln p of each parameter at points θ, (..., parameter)."""
        return self._each(theta, lambda prior, values: prior.log_density(values))

    def quantiles(self, probabilities: FloatArray) -> FloatArray:
        """Compute quantiles of the priors, (..., parameter)."""
        return self._each(probabilities, lambda prior, values: prior.quantile(values))

    def from_unconstrained(self, z: FloatArray) -> FloatArray:
        """Transform points z to θ, (..., parameter)."""
        return self._each(z, lambda prior, values: prior.from_unconstrained(values))

    def to_unconstrained(self, theta: FloatArray) -> FloatArray:
        """Transform points θ to z, (..., parameter)."""
        return self._each(theta, lambda prior, values: prior.to_unconstrained(values))

    def log_jacobians(self, z: FloatArray) -> FloatArray:
        """Compute ln |dθ/dz| of each parameter at points z, (..., parameter)."""
        return self._each(z, lambda prior, values: prior.log_jacobian(values))

    def unconstrained_log_prior(self, z: FloatArray) -> Numbers:
        """Compute ln of the prior density of z at points z, (..., parameter)."""
        each = self.log_priors(self.from_unconstrained(z)) + self.log_jacobians(z)
        return each.sum(axis=-1)

    # Points far out in the prior may overflow; their densities are zero.
    @np.errstate(all="ignore")
    def _each(
        self, points: FloatArray, function: Callable[[AbstractPrior, FloatArray], FloatArray]
    ) -> FloatArray:
        """Apply a function of the priors to each parameter of points, (..., parameter)."""
        points = np.asarray(points, dtype=np.float64)
        found = np.empty_like(points)
        for i, name in enumerate(self.names):
            found[..., i] = function(self.priors[name], points[..., i])
        return found

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
        values = dict.fromkeys(self.priors, 0.0) | self.fixed
        if any(self.model.parameters[name].within_step for name in values):
            self.model(**values).check_step(shortest)

    def describe(self) -> dict[str, str]:
        """Return the priors as text, for records and tables."""
        return {name: prior.describe() for name, prior in self.priors.items()}


def prior_quantiles(hypothesis: Hypothesis, probabilities: FloatArray) -> FloatArray:
    """Compute unconstrained coordinates at quantiles of the priors, (point, parameter)."""
    return hypothesis.to_unconstrained(hypothesis.quantiles(probabilities))


def points_at(hypothesis: Hypothesis, z: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Compute θ, ln p and ln |dθ/dz| of each parameter at points z, all (point, parameter)."""
    theta = hypothesis.from_unconstrained(z)
    return theta, hypothesis.log_priors(theta), hypothesis.log_jacobians(z)


@dataclass(frozen=True, eq=False)
class Family:
    """A model and which of its parameters are known; one object for each such pair.

    Args:
        model: Template of the model.
        fixed: Names of the known parameters.
    """

    model: AbstractModel
    fixed: tuple[str, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return family_of, (self.model, self.fixed)

    def at(self, fixed: Any, theta: Any) -> AbstractModel:
        """Return the model with the values of the known and of the inferred parameters."""
        known = dict(zip(self.fixed, fixed, strict=True))
        names = [name for name in self.model.parameters if name not in known]
        return self.model(**known, **dict(zip(names, theta, strict=True)))


@lru_cache(maxsize=256)
def family_of(model: AbstractModel, fixed: tuple[str, ...]) -> Family:
    """Return the family; a second call returns the same object, which is quick to look up."""
    return Family(model, fixed)


def _check_bound(model: AbstractModel, name: str, prior: AbstractPrior) -> None:
    """Raise an error if a prior extends beyond the upper bound of its parameter."""
    upper = model.parameters[name].upper
    if upper == inf:
        return
    largest = prior.value if isinstance(prior, Fixed) else inf
    if isinstance(prior, Uniform):
        largest = prior.high
    if largest <= upper:
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
    low, high = prior.low, min(prior.high, upper)
    return Uniform(low, high) if low < high else old


def _held_priors(model: AbstractModel) -> dict[str, AbstractPrior]:
    """Return the priors that a model holds; a template holds names instead."""
    found = {}
    for name, leaf in model.leaves().items():
        if isinstance(leaf, str) and leaf == name:
            continue
        if leaf is None or isinstance(leaf, str):
            wanted = "a prior, for example Exponential(mean=1.0), or a known number"
            raise DriftbayesError(f"{name} of {model.name} must be {wanted}, got {leaf!r}")
        found[name] = leaf if isinstance(leaf, AbstractPrior) else Fixed(leaf)
    return found


def check_plain(
    models: Iterable[AbstractModel | Hypothesis], purpose: str, *, state_space: bool = False
) -> None:
    """Raise an error for models that a computation does not support.

    Args:
        models: Models, or hypotheses about them.
        purpose: Name of the computation, for the message.
        state_space: Whether it needs a state-space form.
    """
    for given in models:
        model = given.model if isinstance(given, Hypothesis) else given
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
            raise DriftbayesError(f"{purpose} cannot take {model.name}: {reason}; omit it")
