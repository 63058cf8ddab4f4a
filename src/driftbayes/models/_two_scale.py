"""Two-scale Langevin model: a fast and a slow velocity, independent of each other."""

from typing import ClassVar

import equinox as eqx

from driftbayes._jax_typing import Leaf
from driftbayes._precision import as_leaf
from driftbayes.models._base import AbstractModel, Parameter
from driftbayes.models._langevin import Langevin
from driftbayes.models._sums import AbstractSum


class TwoScaleLangevin(AbstractSum):
    r"""Particles carried by the sum of a fast and a slow Langevin velocity.

    $$r(t) = k \left[ (1 - s)\,\gamma e^{-\gamma |t|} + s\,\gamma\rho\,e^{-\gamma\rho |t|} \right]$$

    As $s \to 0$ the model becomes `Langevin(gamma, k)`.

    A weak, slow velocity is visible only over many steps, so each step of a long regular run is
    predicted from all earlier ones.

    Args:
        gamma: Inverse decorrelation time of the fast velocity $\gamma > 0$, in 1/time.
        ratio: Slow rate over fast rate, $0 < \rho < 1$.
        share: Share of the slow velocity in the diffusivity, $0 < s < 1$.
        k: Total long-time diffusivity $k > 0$, in length²/time: the variance of a
            displacement tends to $2k\tau$ per axis.

    Example:
        >>> import driftbayes as db
        >>> rate, part = db.Exponential(1.0), db.Uniform(0, 1)
        >>> model = db.TwoScaleLangevin(gamma=rate, ratio=part, share=part, k=db.Exponential(2.0))
        >>> db.Hypothesis(model).names
        ('gamma', 'ratio', 'share', 'k')
    """

    gamma: Leaf = eqx.field(converter=as_leaf)
    ratio: Leaf = eqx.field(converter=as_leaf)
    share: Leaf = eqx.field(converter=as_leaf)
    k: Leaf = eqx.field(converter=as_leaf)

    name: ClassVar[str] = "two_scale"
    summary: ClassVar[str] = "sum of a fast and a slow Langevin velocity"
    parameters: ClassVar[dict[str, Parameter]] = {
        "gamma": Parameter("γ", "inverse decorrelation time of the fast velocity", 0, -1),
        "ratio": Parameter("ρ", "slow rate over fast rate, below 1", 0, 0, upper=1.0),
        "share": Parameter(
            "s", "share of k carried by the slow velocity, below 1", 0, 0, upper=1.0
        ),
        "k": Parameter("k", "long-time diffusivity, Var(Δx_i) → 2kτ per axis", 2, -1),
    }
    moves_by_generator: ClassVar[bool] = True
    scale_parameter: ClassVar[str] = "k"
    diffusivity: ClassVar[str | None] = "k"
    limit: ClassVar[str] = "langevin, as share → 0"
    memory: ClassVar[int | None] = None

    @property
    def parts(self) -> tuple[AbstractModel, ...]:
        return (
            Langevin(gamma=self.gamma, k=self.k * (1 - self.share)),
            Langevin(gamma=self.gamma * self.ratio, k=self.k * self.share),
        )
