"""Laws of relative dispersion: relative diffusivity as a function of separation."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import equinox as eqx
import numpy as np

from driftbayes._jax_typing import Leaf
from driftbayes._precision import as_leaf
from driftbayes.errors import DriftbayesError, did_you_mean
from driftbayes.inference import Hypothesis
from driftbayes.models import Parameter
from driftbayes.models._base import AbstractUnsolved, Kind
from driftbayes.priors import AbstractPrior, Exponential, Uniform, parse_prior
from driftbayes.relative._separations import Separations

_K = Parameter("K", "relative diffusivity at the reference separation", 2, -1)
_XI = Parameter("ξ", "exponent of the relative diffusivity", 0, 0, upper=2.0)


class AbstractLaw(AbstractUnsolved):
    r"""A separation that diffuses with $K(r) = K\,(r/r_*)^\xi$, r_* the reference separation."""

    scale_parameter: ClassVar[str] = "K"
    kind: ClassVar[Kind] = "pairs"
    # Exponent ξ if the law fixes it.
    exponent: ClassVar[float | None]

    def _no_moments(self) -> str:
        return f"{self.name} is a law of separations, not of single particles"


class AbstractFixedLaw(AbstractLaw):
    """A law with a known exponent."""

    K: Leaf = eqx.field(converter=as_leaf)

    parameters: ClassVar[dict[str, Parameter]] = {"K": _K}


class Rayleigh(AbstractFixedLaw):
    """Particles that diffuse independently: the relative diffusivity is constant, ξ = 0.

    Args:
        K: Relative diffusivity, twice that of one particle.
    """

    name: ClassVar[str] = "rayleigh"
    summary: ClassVar[str] = "independent diffusion, ξ = 0"
    limit: ClassVar[str] = "the simplest law"
    exponent: ClassVar[float | None] = 0.0


class Richardson(AbstractFixedLaw):
    """Local dispersion in the inertial range: ξ = 4/3.

    Args:
        K: Relative diffusivity at the reference separation.
    """

    name: ClassVar[str] = "richardson"
    summary: ClassVar[str] = "Richardson's law, ξ = 4/3"
    limit: ClassVar[str] = "power, at xi = 4/3"
    exponent: ClassVar[float | None] = 4 / 3


class Lundgren(AbstractFixedLaw):
    """Nonlocal dispersion by eddies larger than the separation: ξ = 2, ln r is normal.

    Args:
        K: Relative diffusivity at the reference separation.
    """

    name: ClassVar[str] = "lundgren"
    summary: ClassVar[str] = "exponential growth, ξ = 2"
    limit: ClassVar[str] = "power, as xi → 2"
    exponent: ClassVar[float | None] = 2.0


class PowerLaw(AbstractLaw):
    """Any exponent between 0 and 2.

    Args:
        xi: Exponent.
        K: Relative diffusivity at the reference separation.
    """

    xi: Leaf = eqx.field(converter=as_leaf)
    K: Leaf = eqx.field(converter=as_leaf)

    name: ClassVar[str] = "power"
    summary: ClassVar[str] = "a power of the separation, ξ free"
    parameters: ClassVar[dict[str, Parameter]] = {"xi": _XI, "K": _K}
    limit: ClassVar[str] = "rayleigh, as xi → 0"
    exponent: ClassVar[float | None] = None


LAWS: dict[str, type[AbstractLaw]] = {
    law.name: law for law in (Rayleigh, Richardson, Lundgren, PowerLaw)
}


def law_hypotheses(
    models: Sequence[str] | str,
    data: Separations,
    priors: Mapping[str, AbstractPrior | str] | None = None,
) -> list[Hypothesis]:
    """Make hypotheses of laws, with given priors or priors set from the data.

    By default ξ is uniform from 0 to 2 and K exponential. The prior mean of K is the mean square
    change of the separation vector over 2τ per axis, its value for a constant diffusivity.

    Args:
        models: Names of laws, separated by commas or in a list, or "all".
        data: Separations, for the scale of the prior.
        priors: Priors of `xi` and `K`, as objects or as text.
    """
    if isinstance(models, str):
        models = [*LAWS] if models == "all" else [name.strip() for name in models.split(",")]
    names = list(models)
    for name in names:
        if name not in LAWS:
            suggestion = did_you_mean(name, LAWS)
            msg = f"unknown law of pairs {name!r}; known are {', '.join(LAWS)}{suggestion}"
            raise DriftbayesError(msg)
    extra = [name for name in priors or {} if name not in PowerLaw.parameters]
    if extra:
        msg = f"unknown parameter {extra[0]!r} of a law of pairs; laws have xi and K"
        raise DriftbayesError(msg)
    known: dict[str, AbstractPrior] = {"xi": Uniform(0.0, 2.0)}
    for name, prior in (priors or {}).items():
        known[name] = parse_prior(prior) if isinstance(prior, str) else prior
    if "K" not in known:
        scale = float(np.mean(data.moved / data.interval)) / (2 * data.n_dim)
        known["K"] = Exponential(scale)
    return [
        Hypothesis(LAWS[name], **{p: known[p] for p in LAWS[name].parameters}) for name in names
    ]
