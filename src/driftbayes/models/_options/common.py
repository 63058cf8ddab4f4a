"""Motion common to all particles, for example of a camera, pack ice or a herd."""

from dataclasses import replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from driftbayes._jax_typing import Key, LagArray, Leaf, Positions, Scalar, ScalarLike, TimeArray
from driftbayes._precision import as_leaf
from driftbayes.likelihood import Collected
from driftbayes.models._base import AbstractModel, Kind, Parameter, fact, shape_names
from driftbayes.models._options._base import AbstractOption
from driftbayes.models._options.measurement import Blur, Noise
from driftbayes.models._sums import total


class Common(AbstractOption):
    r"""The model with a part of the motion common to all particles.

    $$x_p(t) = c(t) + y_p(t), \qquad k_c = s\,k, \quad k_y = (1 - s)\,k$$

    c and each $y_p$ are independent motions of the same family. They have separate parameters
    except for the scale k, the diffusivity of one particle; s is the share of the common motion.
    Measurement errors are independent between particles; an exposure blurs both parts. As
    $s \to 0$ the particles become independent.

    Args:
        base: Model of one particle; its scale is the total of both parts.
        others: Parameters of the common motion except the scale, in the order of the model.
        share: Share s of the common motion in k.

    Example:
        >>> import driftbayes as db
        >>> langevin = db.Langevin(gamma=db.Exponential(1), k=db.Exponential(2))
        >>> db.Common(langevin, others=(db.Exponential(1),), share=db.Uniform(0, 1)).name
        'langevin+common'
    """

    others: tuple[Leaf, ...]
    share: Leaf

    option: ClassVar[str] = "common"
    summary: ClassVar[str] = fact(
        lambda self: f"{self.base.summary}, partly in common to all particles"
    )
    own: ClassVar[dict[str, Parameter]] = fact(lambda self: _own(self.base))
    limit: ClassVar[str] = fact(lambda self: f"{self.base.name}, as common → 0")
    kind: ClassVar[Kind] = "together"
    memory: ClassVar[int | None] = None
    has_derived: ClassVar[bool] = True

    def own_values(self) -> tuple[Any, ...]:
        return (*self.others, self.share)

    def rebuilt(self, base: AbstractModel, own: list[Any]) -> AbstractModel:
        *others, share = map(as_leaf, own)
        return Common(base, tuple(others), share)

    def components(self) -> tuple[AbstractModel, ...]:
        """Return the models of the individual and of the common motion."""
        scale = self.scale_parameter
        size = self.base.value_of(scale)
        own = self.base.template()(**{**self.base.leaves(), scale: size * (1 - self.share)})
        return own, _common(self.base, self.others, size * self.share)

    def derived(self, sums: Collected) -> dict[str, Scalar]:
        """Return the scale of each part."""
        scale = self.scale_parameter
        own, common = self.components()
        return {
            f"{scale}_own": jnp.asarray(own.value_of(scale)),
            f"{scale}_common": jnp.asarray(common.value_of(scale)),
        }

    def increment_autocovariance(self, lags: LagArray, tau: Scalar) -> LagArray:
        return total([part.increment_autocovariance(lags, tau) for part in self.components()])

    def first_autocovariances(self, n_lags: int, tau: Scalar) -> LagArray:
        return total([part.first_autocovariances(n_lags, tau) for part in self.components()])

    def mean_square_displacement(self, lag: TimeArray) -> TimeArray:
        return total([part.mean_square_displacement(lag) for part in self.components()])

    def lvaf(self, lag: TimeArray) -> TimeArray:
        return total([part.lvaf(lag) for part in self.components()])

    def simulate(
        self, key: Key, *, n_particles: int, n_steps: int, n_dim: int, tau: ScalarLike
    ) -> Positions:
        own, common = self.components()
        key_own, key_common = jax.random.split(key)

        def draw(model: AbstractModel, key: Key, n: int) -> Positions:
            return model.simulate(key, n_particles=n, n_steps=n_steps, n_dim=n_dim, tau=tau)

        return draw(common, key_common, 1) + draw(own, key_own, n_particles)


def common_of(base: AbstractModel) -> AbstractModel:
    """Return the template of a model with common motion.

    Args:
        base: Template of the model of one particle.
    """
    *others, share = _own(base)
    return Common(base, tuple(others), share)


def _own(base: AbstractModel) -> dict[str, Parameter]:
    """Return the parameters of the common motion."""
    core = base.core
    own = {
        f"{name}_common": replace(
            old, symbol=f"{old.symbol}_c", meaning=f"{old.meaning}, of the common motion"
        )
        for name, old in core.parameters.items()
        if name != core.scale_parameter
    }
    share = Parameter(
        "s", "share of the common motion in the diffusivity, below 1", 0, 0, upper=1.0
    )
    return {**own, "common": share}


def _common(base: AbstractModel, others: tuple[Leaf, ...], size: ScalarLike) -> AbstractModel:
    """Return the model of the common motion: blurred like the particles, without errors."""
    if isinstance(base, Noise):
        return _common(base.base, others, size)
    if isinstance(base, Blur):
        return replace(base, base=_common(base.base, others, size))
    values = dict(zip(shape_names(base), others, strict=True))
    return base.template()(**values, **{base.scale_parameter: size})
