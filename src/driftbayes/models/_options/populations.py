"""Populations of trajectories: individual scales, or several classes."""

from dataclasses import replace
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np
from jaxtyping import Array, Float

from driftbayes._aliases import public
from driftbayes._jax_typing import Key, Leaf, Positions, Scalar, ScalarLike, TimeArray
from driftbayes._precision import as_leaf
from driftbayes._typing import FloatArray
from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.likelihood import Collected, GaussianTerms
from driftbayes.likelihood._gaussian import LOG_2PI
from driftbayes.likelihood._sums import SlotForms
from driftbayes.models._base import AbstractModel, Kind, Parameter, fact, shape_names
from driftbayes.models._gamma_ratio import log_gamma_ratio
from driftbayes.models._options._base import AbstractOption

# A square of the scatter below this does not change the density; far below, Q/a would underflow and
# the term in Q be lost.
_MIN_SQUARE = 1e-30


class Scatter(AbstractOption):
    r"""The model with a scale that differs from trajectory to trajectory (superstatistics).

    $$k_p = k / g_p, \qquad g_p \sim \mathrm{Gamma}(a, a), \qquad a = 1/s^2$$

    The scale of each trajectory is integrated out: with n displacements and the quadratic form Q,

    $$p(x) = \frac{\Gamma(a + n/2)}{\Gamma(a)\,(2\pi a)^{n/2} \det{}^{1/2} S}
      \left( 1 + \frac{Q}{2a} \right)^{-a - n/2},$$

    a multivariate Student distribution. The sizes of displacements of one trajectory are
    correlated, and the pooled distribution of displacements has heavy tails.

    Args:
        base: The wrapped model.
        scatter: Relative spread s of 1/k between trajectories.

    Example:
        >>> import driftbayes as db
        >>> langevin = db.Langevin(gamma=db.Exponential(1), k=db.Exponential(2))
        >>> db.Scatter(langevin, scatter=db.Exponential(0.5)).name
        'langevin+scatter'
    """

    scatter: Leaf = eqx.field(converter=as_leaf)

    option: ClassVar[str] = "scatter"
    summary: ClassVar[str] = fact(
        lambda self: f"{self.base.summary}, each trajectory with its own diffusivity"
    )
    own: ClassVar[dict[str, Parameter]] = {
        "scatter": Parameter("s", "spread of 1/k between trajectories, relative", 0, 0)
    }
    limit: ClassVar[str] = fact(lambda self: f"{self.base.name}, as scatter → 0")
    is_gaussian: ClassVar[bool] = False
    kind: ClassVar[Kind] = "trajectories"
    exact_positions: ClassVar[bool] = True

    def log_density(self, sums: Collected) -> Scalar:
        terms = self.base.terms(sums)
        (a,), m = self.trajectory_numbers(), 0.5 * terms.n
        value = (
            log_gamma_ratio(jnp.broadcast_to(a, m.shape), m)
            - (a + m) * jnp.log1p(0.5 * terms.quadratic / a)
            - 0.5 * (terms.n * LOG_2PI + terms.log_det)
        )
        return jnp.where(jnp.isnan(value), -jnp.inf, value)

    def trajectory_numbers(self) -> tuple[Array, ...]:
        return (1 / jnp.maximum(jnp.asarray(self.scatter) ** 2, _MIN_SQUARE),)

    def sum_over_trajectories(self, numbers: tuple[Any, ...], forms: SlotForms) -> FloatArray:
        a, m = numbers[0][:, None], 0.5 * forms.n
        log_det, quadratic = forms.log_det[:, 0], forms.quadratic[:, 0]
        # Trajectories with the same pattern differ only in Q.
        count = np.bincount(forms.pattern, minlength=len(m))
        shape = np.broadcast_shapes(a.shape, m.shape)
        ratios = log_gamma_ratio(np.broadcast_to(a, shape), np.broadcast_to(m, shape), np)
        same = ratios - 0.5 * (forms.n * LOG_2PI + log_det)
        spread = np.log1p(quadratic * (0.5 / a))
        value = same @ count - (a[:, 0] * spread.sum(axis=1) + spread @ m[forms.pattern])
        return np.where(np.isnan(value), -np.inf, value)

    def components(self) -> tuple[AbstractModel, ...]:
        return (self.base,)

    def apply(self, key: Key, positions: Positions, tau: ScalarLike) -> Positions:
        a = 1 / self.scatter**2
        precision = jax.random.gamma(key, a, (len(positions), 1, 1)) / a
        return positions / jnp.sqrt(precision)


class Mixture(AbstractOption):
    r"""A finite mixture over trajectories, for example of trapped and free particles.

    $$p(D) = \prod_p \sum_c w_c\, p(D_p \mid \theta_c), \qquad
      w_1 = 1 - s_2, \quad w_2 = s_2 (1 - s_3), \ \dots$$

    Classes are numbered by decreasing scale, $k_c = r_c\,k_{c-1}$ with $r_c < 1$, so that each
    mixture has one numbering. Each class has its own values of the other parameters.

    Args:
        base: Gaussian model of the first class.
        others: For each further class its parameters except the scale, in the order of the model.
        ratio: For each further class its scale over that of the class before, $r_c$.
        share: For each further class the share $s_c$ of this and later classes in the remainder.

    Example:
        >>> import driftbayes as db
        >>> part = db.Uniform(0, 1)
        >>> brownian = db.Brownian(kappa=db.Exponential(1.0))
        >>> db.Mixture(brownian, others=((),), ratio=(part,), share=(part,)).name
        'brownian*2'
    """

    others: tuple[tuple[Leaf, ...], ...]
    ratio: tuple[Leaf, ...]
    share: tuple[Leaf, ...]

    is_mixture: ClassVar[bool] = True
    name: ClassVar[str] = fact(lambda self: f"{self.base.name}*{len(self.share) + 1}")
    options: ClassVar[tuple[str, ...]] = fact(lambda self: self.base.options)
    summary: ClassVar[str] = fact(
        lambda self: f"{len(self.share) + 1} classes of particles, each {self.base.name}"
    )
    own: ClassVar[dict[str, Parameter]] = fact(lambda self: _own(self.base, len(self.share) + 1))
    limit: ClassVar[str] = fact(lambda self: f"{self.base.name}, as all ratios → 1 or shares → 0")
    is_gaussian: ClassVar[bool] = False
    kind: ClassVar[Kind] = "trajectories"
    has_derived: ClassVar[bool] = True

    def own_values(self) -> tuple[Any, ...]:
        each = zip(self.others, self.ratio, self.share, strict=True)
        return tuple(value for other, *both in each for value in (*other, *both))

    def rebuilt(self, base: AbstractModel, own: list[Any]) -> AbstractModel:
        return _assemble(base, list(map(as_leaf, own)))

    @property
    def classes(self) -> tuple[AbstractModel, ...]:
        """Model of each class."""
        family, scale = self.base.template(), self.scale_parameter
        classes, size = [self.base], self.base.value_of(scale)
        for other, ratio in zip(self.others, self.ratio, strict=True):
            size = size * ratio
            own = dict(zip(shape_names(family), other, strict=True))
            classes.append(family(**own, **{scale: size}))
        return tuple(classes)

    @property
    def log_weights(self) -> Float[Array, " class"]:
        """Logarithm of the share of each class in all trajectories."""
        left, found = jnp.zeros(()), []
        for rest in self.share:
            found.append(left + jnp.log1p(-rest))
            left = left + jnp.log(rest)
        return jnp.stack([*found, left])

    def log_density(self, sums: Collected) -> Scalar:
        return jsp.logsumexp(self.log_joint(sums))

    def log_joint(self, sums: Collected) -> Float[Array, " class"]:
        """Compute ln(weight × density) of one trajectory in each class."""
        each = [sums.component(c) for c in range(len(self.share) + 1)]
        terms = [model.terms(own) for model, own in zip(self.classes, each, strict=True)]
        return jnp.stack([t.log_likelihood() for t in terms]) + self.log_weights

    def components(self) -> tuple[AbstractModel, ...]:
        return self.classes

    def trajectory_numbers(self) -> tuple[Array, ...]:
        return (self.log_weights,)

    def sum_over_trajectories(self, numbers: tuple[Any, ...], forms: SlotForms) -> FloatArray:
        from driftbayes._kernels.classes import sum_over_classes

        (log_weights,) = numbers
        constants = log_weights[:, :, None] - 0.5 * (forms.n * LOG_2PI + forms.log_det)
        total = np.empty(len(constants))
        sum_over_classes(constants, forms.quadratic, forms.pattern, total)
        return total

    def responsibilities(self, data: Displacements) -> FloatArray:
        """Compute the probability of each class for each trajectory, (class, trajectory)."""
        compute = public("class_probabilities", "driftbayes.inference")
        found: FloatArray = compute(self, data)
        return found

    def derived(self, sums: Collected) -> dict[str, Scalar]:
        """Return the weight and scale of each class."""
        weights = jnp.exp(self.log_weights)
        out = {f"weight_{c + 1}": weights[c] for c in range(len(self.share) + 1)}
        return out | {
            f"{self.scale_parameter}_{c + 1}": jnp.asarray(model.value_of(self.scale_parameter))
            for c, model in enumerate(self.classes)
        }

    def check_step(self, shortest: float) -> None:
        for model in self.classes:
            model.check_step(shortest)

    def terms(self, sums: Collected) -> GaussianTerms:
        """Terms of the first class only, enough for a starting value of the scale."""
        return self.base.terms(sums)

    def mean_square_displacement(self, lag: TimeArray) -> TimeArray:
        parts = [w * model.mean_square_displacement(lag) for w, model in self._weighted()]
        return sum(parts, start=jnp.zeros_like(lag))

    def lvaf(self, lag: TimeArray) -> TimeArray:
        parts = [w * model.lvaf(lag) for w, model in self._weighted()]
        return sum(parts, start=jnp.zeros_like(lag))

    def simulate(
        self, key: Key, *, n_particles: int, n_steps: int, n_dim: int, tau: ScalarLike
    ) -> Positions:
        key_class, *keys = jax.random.split(key, 2 + len(self.share))
        which = jax.random.categorical(key_class, self.log_weights, shape=(n_particles,))
        positions = jnp.stack(
            [
                model.simulate(k, n_particles=n_particles, n_steps=n_steps, n_dim=n_dim, tau=tau)
                for k, model in zip(keys, self.classes, strict=True)
            ]
        )
        return positions[which, jnp.arange(n_particles)]

    def _weighted(self) -> list[tuple[Scalar, AbstractModel]]:
        """Return weight and model of each class."""
        weights = jnp.exp(self.log_weights)
        return [(weights[c], model) for c, model in enumerate(self.classes)]


def mixture_of(model: AbstractModel, n_classes: int) -> AbstractModel:
    """Return the template of a mixture of several classes of one model.

    Args:
        model: Template of the model.
        n_classes: Number of classes, 2 or more.
    """
    if n_classes < 2:
        msg = f"a mixture needs two classes or more, got {n_classes}; write *2, or omit it"
        raise DriftbayesError(msg)
    return _assemble(model, list(_own(model, n_classes)))


def _assemble(base: AbstractModel, own: list[Any]) -> Mixture:
    """Make a mixture from the first class and the values of all others, in order."""
    size = len(shape_names(base)) + 2
    each = [tuple(own[i : i + size]) for i in range(0, len(own), size)]
    others, ratio, share = zip(*((c[:-2], c[-2], c[-1]) for c in each), strict=True)
    return Mixture(base, others, ratio, share)


def _own(model: AbstractModel, n_classes: int) -> dict[str, Parameter]:
    """Return the parameters of all classes but the first."""
    # The model itself may have parameters named ratio or share.
    ratio, share = (
        f"class_{name}" if name in model.parameters else name for name in ("ratio", "share")
    )
    own: dict[str, Parameter] = {}
    for c in range(2, n_classes + 1):
        for name in shape_names(model):
            old = model.parameters[name]
            own[f"{name}_{c}"] = replace(
                old, symbol=f"{old.symbol}_{c}", meaning=f"{old.meaning}, class {c}"
            )
        own[f"{ratio}_{c}"] = Parameter(
            f"r_{c}",
            f"{model.scale_parameter} of class {c} over class {c - 1}, below 1",
            *(0, 0),
            upper=1.0,
        )
        own[f"{share}_{c}"] = Parameter(
            f"s_{c}", f"share of classes {c} and up in the rest, below 1", 0, 0, upper=1.0
        )
    return own
