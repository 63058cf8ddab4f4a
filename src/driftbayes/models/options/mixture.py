"""Populations: every trajectory belongs to one of a few classes, nobody knows to which."""

__all__ = ["mixture_of"]

from dataclasses import replace
from functools import cache
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np
from jaxtyping import Array, Float

from driftbayes.errors import DriftbayesError
from driftbayes.jax_typing import Key, Scalar, ScalarLike
from driftbayes.likelihood import Collected, GaussianTerms
from driftbayes.likelihood.sums import SlotForms
from driftbayes.likelihood.terms import LOG_2PI
from driftbayes.models._base import AbstractModel, Parameter
from driftbayes.models._prepare import Data, Kind
from driftbayes.models.options._base import AbstractOption, check_base, with_own
from driftbayes.precision import as_number
from driftbayes.typing import FloatArray


@cache
def mixture_of(model: type[AbstractModel], n_classes: int) -> type[AbstractModel]:
    r"""A finite mixture over trajectories, for example of trapped and free particles.

    $$p(D) = \prod_p \sum_c w_c\, p(D_p \mid \theta_c), \qquad
      w_1 = 1 - s_2, \quad w_2 = s_2 (1 - s_3), \ \dots$$

    Classes are numbered by falling scale, $k_c = r_c\,k_{c-1}$ with $r_c < 1$, so that no two
    numberings describe the same mixture. Other parameters are each class's own.

    Args:
        model: The class of models, Gaussian.
        n_classes: Number of classes, 2 or more.
    """
    if n_classes < 2:
        msg = f"a mixture needs two classes or more, got {n_classes}; write *2, or leave it out"
        raise DriftbayesError(msg)
    scale = model.scale_parameter
    check_base(model, "*N")
    others = [name for name in model.parameters if name != scale]
    # A model may have a ratio and a share of its own.
    ratio, share = (
        f"class_{name}" if name in model.parameters else name for name in ("ratio", "share")
    )
    own: dict[str, Parameter] = {}
    for c in range(2, n_classes + 1):
        for name in others:
            old = model.parameters[name]
            own[f"{name}_{c}"] = replace(
                old, symbol=f"{old.symbol}_{c}", meaning=f"{old.meaning}, class {c}"
            )
        own[f"{ratio}_{c}"] = Parameter(
            f"r_{c}", f"{scale} of class {c} over class {c - 1}, below 1", 0, 0, upper=1.0
        )
        own[f"{share}_{c}"] = Parameter(
            f"s_{c}", f"share of classes {c} and up in the rest, below 1", 0, 0, upper=1.0
        )

    class Mixture(AbstractOption, of=model):
        classes: tuple[AbstractModel, ...]
        log_weights: Float[Array, " class"]

        name: ClassVar[str] = f"{model.name}*{n_classes}"
        summary: ClassVar[str] = f"{n_classes} classes of particles, each {model.name}"
        parameters: ClassVar[dict[str, Parameter]] = with_own(model, own)
        limit: ClassVar[str] = f"{model.name}, as all ratios → 1 or shares → 0"
        is_gaussian: ClassVar[bool] = False
        kind: ClassVar[Kind] = "trajectories"

        def __init__(self, **values: Any) -> None:
            values = {name: as_number(value) for name, value in values.items()}
            first = {name: values[name] for name in model.parameters}
            classes, left, log_weights = [model(**first)], jnp.zeros(()), []
            size = values[scale]
            for c in range(2, n_classes + 1):
                size = size * values[f"{ratio}_{c}"]
                theta = {name: values[f"{name}_{c}"] for name in others}
                classes.append(model(**theta, **{scale: size}))
                rest = values[f"{share}_{c}"]
                log_weights.append(left + jnp.log1p(-rest))
                left = left + jnp.log(rest)
            self.base = classes[0]
            self.classes = tuple(classes)
            self.log_weights = jnp.stack([*log_weights, left])

        def log_density(self, data: Data) -> Scalar:
            return jnp.sum(jsp.logsumexp(self.log_joint(data), axis=0))

        def log_joint(self, data: Data) -> Float[Array, "class trajectory"]:
            """Ln of weight times density of each trajectory in each class."""
            if isinstance(data, Collected):
                each = [data.component(c) for c in range(n_classes)]
                terms = [one.terms(seen) for one, seen in zip(self.classes, each, strict=True)]
                fits = jnp.stack([t.log_likelihood() for t in terms])[:, None]
                return fits + self.log_weights[:, None]
            terms = [one.terms(data) for one in self.classes]
            return jnp.stack([t.log_likelihood() for t in terms]) + self.log_weights[:, None]

        def components(self) -> tuple[AbstractModel, ...]:
            return self.classes

        def trajectory_numbers(self) -> tuple[Array, ...]:
            return (self.log_weights,)

        @classmethod
        def sum_over_trajectories(cls, numbers: tuple[Any, ...], forms: SlotForms) -> FloatArray:
            from driftbayes.kernels.classes import sum_over_classes

            (log_weights,) = numbers
            constants = log_weights[:, :, None] - 0.5 * (forms.n * LOG_2PI + forms.log_det)
            total = np.empty(len(constants))
            sum_over_classes(constants, forms.quadratic, forms.pattern, total)
            return total

        def responsibilities(self, data: Data) -> Float[Array, "class trajectory"]:
            """Probability of each class for each trajectory."""
            return jax.nn.softmax(self.log_joint(data), axis=0)

        def derived(self, data: Data) -> dict[str, Scalar]:
            """Weight and scale of each class."""
            weights = jnp.exp(self.log_weights)
            out = {f"weight_{c + 1}": weights[c] for c in range(n_classes)}
            return out | {
                f"{scale}_{c + 1}": jnp.asarray(one.value_of(scale))
                for c, one in enumerate(self.classes)
            }

        def check_step(self, shortest: float) -> None:
            for one in self.classes:
                one.check_step(shortest)

        def terms(self, data: Data, noise_variance: ScalarLike = 0.0) -> GaussianTerms:
            """Of the first class alone: enough to find a scale to start from."""
            return self.base.terms(data, noise_variance)

        def mean_square_displacement(self, lag: Float[Array, "..."]) -> Float[Array, "..."]:
            parts = [w * one.mean_square_displacement(lag) for w, one in self._weighted()]
            return sum(parts, start=jnp.zeros_like(lag))

        def lvaf(self, lag: Float[Array, "..."]) -> Float[Array, "..."]:
            parts = [w * one.lvaf(lag) for w, one in self._weighted()]
            return sum(parts, start=jnp.zeros_like(lag))

        def simulate(
            self, key: Key, *, n_particles: int, n_steps: int, n_dim: int, tau: ScalarLike
        ) -> Float[Array, "particle position dim"]:
            key_class, *keys = jax.random.split(key, 1 + n_classes)
            which = jax.random.categorical(key_class, self.log_weights, shape=(n_particles,))
            positions = jnp.stack(
                [
                    one.simulate(k, n_particles=n_particles, n_steps=n_steps, n_dim=n_dim, tau=tau)
                    for k, one in zip(keys, self.classes, strict=True)
                ]
            )
            return positions[which, jnp.arange(n_particles)]

        def _weighted(self) -> list[tuple[Scalar, AbstractModel]]:
            weights = jnp.exp(self.log_weights)
            return [(weights[c], one) for c, one in enumerate(self.classes)]

    return Mixture
