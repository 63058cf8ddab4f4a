"""Models by name: `langevin`, `langevin+noise+mean`, `langevin&oscillating`, `brownian*2`."""

from collections import UserDict
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from driftbayes.errors import DriftbayesError, did_you_mean
from driftbayes.models._base import AbstractModel, as_template
from driftbayes.models._rules import OPTIONS, check_options

Family = type[AbstractModel] | AbstractModel


class _Models(UserDict[str, Any]):
    """Models by name; add your own as to a dictionary. Classes are imported on first use.

    Example:
        >>> import driftbayes as db
        >>> "langevin" in db.MODELS, db.MODELS["langevin"].name
        (True, 'langevin')
    """

    def __init__(self, package: str, paths: dict[str, str]) -> None:
        super().__init__({name: f"{package}.{path}" for name, path in paths.items()})

    def __getitem__(self, name: str) -> Any:
        found = self.data[name]
        if isinstance(found, str):
            module, _, family = found.rpartition(".")
            found = getattr(import_module(f"driftbayes.{module}"), family)
            # Some paths name a function that makes the model.
            found = found if isinstance(found, type) else found()
            self.data[name] = found
        return found

    def __repr__(self) -> str:
        return f"models: {', '.join(self)}"


# Name of learned densities, which have scores but no evidence.
LEARNED = "learned"
# Names of models of relative dispersion, which describe pairs, not single particles.
PAIR_LAWS = ("rayleigh", "richardson", "lundgren", "power")
# Models by name, from simple to complex.
MODELS = _Models(
    "models",
    {
        "brownian": "_brownian.Brownian",
        "langevin": "_langevin.Langevin",
        "fractional": "_fractional.FractionalBrownian",
        "confined_brownian": "_ornstein.ConfinedBrownian",
        "second_order": "_second_order.SecondOrderLangevin",
        "matern": "_matern.MaternVelocity",
        "oscillating": "_oscillating.OscillatingLangevin",
        "confined": "_confined.ConfinedLangevin",
        "two_scale": "_two_scale.TwoScaleLangevin",
    },
)
# Stochastic differential equations, whose likelihoods are estimated; not part of "all". Loading a
# user's file adds its equations.
SDES = _Models(
    "sde",
    {
        "sde_langevin": "_models.langevin.langevin",
        "random_flight": "_models.random_flight.random_flight",
        "nonlinear_friction": "_models.friction.nonlinear_friction",
        "double_well": "_models.potential.double_well",
        "fluctuating_dissipation": "_models.dissipation.fluctuating_dissipation",
        "student_langevin": "_models.student.student_langevin",
    },
)
# Random walks, with neither a Gaussian density nor an equation of motion; not part of "all".
WALKS = _Models("models", {"random_walk": "_random_walk.RandomWalk"})


# Module and class of each option, and the names of its parameters.
_OPTION_CLASSES = {
    "blur": ("measurement.Blur", "exposure"),
    "noise": ("measurement.Noise", "sigma"),
    "outliers": ("outliers.Outliers", "fraction", "spread"),
    "mean": ("flows.MeanFlow", "flow"),
    "linear": ("flows.LinearFlow", "flow", "gradient"),
    "flow": ("correlated.Flow", "length", "own_share", "nu"),
    "eddies": ("correlated.Eddies", "length", "own_share", "nu", "divergence"),
    "rotating": ("rotating.Rotating",),
    "scatter": ("populations.Scatter", "scatter"),
    "student": ("student.Student", "tail"),
}


def _wrap(model: AbstractModel, option: str, n_dim: int) -> AbstractModel:
    """Return the template of a model with an option, after importing its module."""
    if option == "anisotropic":
        from driftbayes.models._options.anisotropy import Anisotropic, n_components

        return Anisotropic(model, tuple(f"h{i + 1}" for i in range(n_components(n_dim))))
    if option == "common":
        from driftbayes.models._options.common import common_of

        return common_of(model)
    path, *names = _OPTION_CLASSES[option]
    module, family = path.split(".")
    wrap = getattr(import_module(f"driftbayes.models._options.{module}"), family)
    found: AbstractModel = wrap(model, *names)
    return found


# One object per template, so that comparisons by identity are enough.
_TEMPLATES: dict[AbstractModel, AbstractModel] = {}


def model_named(
    text: str, models: Mapping[str, type[AbstractModel] | AbstractModel], n_dim: int = 2
) -> AbstractModel:
    """Return the template of the model with a name; call it with parameter values.

    Args:
        text: A model or a sum of models joined by `&`, options after plus signs, and a number of
            classes after a star. Options apply to the whole sum, `rotating` to its oscillating
            component.
        models: The register of plain models.
        n_dim: Number of spatial dimensions, for options that depend on it.
    """
    name, star, classes = text.partition("*")
    components = [part.split("+") for part in name.split("&")]
    bases = [base for base, *_ in components]
    options = [option for _, *own in components for option in own]
    for base in bases:
        if base in PAIR_LAWS and base not in models:
            msg = f"{base!r} is a law of pairs of particles; compare it with `driftbayes pairs`"
            raise DriftbayesError(msg)
        if base.partition(":")[0] == LEARNED and base not in models:
            raise DriftbayesError(
                f"{base!r} is a density learned from the data, without a prior and so without an "
                "evidence; score it beside models with `driftbayes score FILE --tau T --learned`"
            )
        if ".py:" in base:
            raise DriftbayesError(
                f"{base!r} names a file, whose code is run only for --models of a command; in "
                "Python, pass the SDE itself"
            )
        if base not in models and base not in SDES and base not in WALKS:
            near = did_you_mean(base, (*models, *SDES, *WALKS))
            raise DriftbayesError(f"unknown model {base!r}; known are {', '.join(models)}{near}")
    unknown = [option for option in options if option not in OPTIONS]
    if unknown:
        near = did_you_mean(unknown[0], OPTIONS)
        msg = f"unknown option {unknown[0]!r} in {text!r}; known are {', '.join(OPTIONS)}{near}"
        raise DriftbayesError(msg)
    plain = tuple(as_template(_family(base, models)) for base in bases)
    unsummable = [model for model in plain if model.kind in ("sde", "jumps")]
    if len(plain) > 1 and unsummable:
        what = "an SDE" if unsummable[0].kind == "sde" else unsummable[0].name
        msg = f"{what} cannot be a part of a sum such as {text!r}; compare it separately"
        raise DriftbayesError(msg)
    model = plain[0]
    if len(plain) > 1:
        from driftbayes.models._sums import sum_of

        model = sum_of(plain)
    check_options(text, model, options)
    for option in OPTIONS:
        if option in options:
            model = _wrap(model, option, n_dim)
    if not star:
        return _TEMPLATES.setdefault(model, model)
    if not classes.isdigit() or model.kind != "summed":
        raise DriftbayesError(
            f"{text!r} must be a model, with noise or blur at most, and a whole number of classes "
            "after the star, for example brownian*2"
        )
    from driftbayes.models._options.populations import mixture_of

    mixture = mixture_of(model, int(classes))
    return _TEMPLATES.setdefault(mixture, mixture)


def _family(name: str, models: Mapping[str, Family]) -> Family:
    """Return the family with a name from the first register that has it."""
    registers: tuple[Mapping[str, Family], ...] = (models, SDES, WALKS)
    return next(register[name] for register in registers if name in register)
