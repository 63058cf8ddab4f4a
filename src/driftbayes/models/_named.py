"""Models by name: `langevin`, `langevin+noise+mean`, `langevin&oscillating`, `brownian*2`."""

__all__ = ["OPTIONS", "model_named"]

from collections.abc import Callable, Mapping

from driftbayes.errors import DriftbayesError
from driftbayes.models._base import AbstractModel
from driftbayes.models.options import (
    mixture_of,
    with_anisotropy,
    with_blur,
    with_linear_flow,
    with_mean_flow,
    with_noise,
    with_rotation,
    with_scatter,
    with_student,
)
from driftbayes.models.sums import sum_of
from driftbayes.suggest import did_you_mean

Family = type[AbstractModel]

# In the order in which they are applied, whatever the order in which they are written.
OPTIONS: dict[str, str] = {
    "blur": "every fix is the mean over a known exposure",
    "noise": "every fix has an independent error",
    "anisotropic": "a diffusivity tensor, in two or three dimensions",
    "mean": "a mean flow shared by all particles, integrated out",
    "linear": "a mean flow linear in space, shared by all particles, integrated out",
    "rotating": "of oscillating velocities in a plane, one sense of rotation for all particles",
    "scatter": "every trajectory has its own diffusivity (superstatistics)",
    "student": "innovations with heavy tails",
}
# Those that change what is summed, of which a model can have but one, save for some pairs.
_DATA_OPTIONS = ("anisotropic", "mean", "linear", "rotating", "scatter", "student")
_PAIRS = ({"anisotropic", "mean"}, {"anisotropic", "linear"}, {"mean", "rotating"})
_MAKERS: dict[str, Callable[[Family], Family]] = {
    "blur": with_blur,
    "noise": with_noise,
    "mean": with_mean_flow,
    "linear": with_linear_flow,
    "rotating": with_rotation,
    "scatter": with_scatter,
    "student": with_student,
}


def model_named(text: str, models: Mapping[str, Family], n_dim: int = 2) -> Family:
    """The class of models that a name stands for.

    Args:
        text: A model or a sum of models joined by `&`, options after plus signs, and a number of
            classes after a star. Options belong to the whole sum; `rotating` to its oscillating
            component.
        models: The register of plain models.
        n_dim: Number of spatial dimensions, for options that need to know it.
    """
    name, star, classes = text.partition("*")
    components = [part.split("+") for part in name.split("&")]
    bases = [base for base, *_ in components]
    options = [option for _, *own in components for option in own]
    for base in bases:
        if base not in models:
            near = did_you_mean(base, models)
            msg = f"unknown model {base!r}; known are {', '.join(models)}{near}"
            raise DriftbayesError(msg)
    unknown = [option for option in options if option not in OPTIONS]
    if unknown:
        near = did_you_mean(unknown[0], OPTIONS)
        msg = f"unknown option {unknown[0]!r} in {text!r}; known are {', '.join(OPTIONS)}{near}"
        raise DriftbayesError(msg)
    plain = tuple(models[base] for base in bases)
    model = plain[0] if len(plain) == 1 else sum_of(plain)
    _check(text, model, options)
    for option in OPTIONS:
        if option in options:
            maker = _MAKERS.get(option)
            model = with_anisotropy(model, n_dim) if maker is None else maker(model)
    if not star:
        return _remembered(model, text, n_dim)
    if not classes.isdigit() or model.kind != "summed":
        msg = (
            f"{text!r} must be a model, with noise or blur at most, and a whole number of classes "
            "after the star, for example brownian*2"
        )
        raise DriftbayesError(msg)
    return _remembered(mixture_of(model, int(classes)), text, n_dim)


def _remembered(model: Family, text: str, n_dim: int) -> Family:
    """A class that knows by which name it is found again, in another process."""
    if "origin" not in vars(model):
        model.origin = (text, n_dim)
    return model


def _check(text: str, base: Family, options: list[str]) -> None:
    repeated = [option for option in options if options.count(option) > 1]
    if repeated:
        msg = f"option {repeated[0]!r} stands twice in {text!r}; write it once"
        raise DriftbayesError(msg)
    chosen = [option for option in _DATA_OPTIONS if option in options]
    if len(chosen) > 1 and set(chosen) not in _PAIRS:
        msg = f"{chosen[0]!r} and {chosen[1]!r} cannot be combined in {text!r}; choose one"
        raise DriftbayesError(msg)
    if "anisotropic" in options and "noise" in options:
        msg = (
            f"noise that is alike on all axes cannot be combined with a tensor in {text!r}; "
            "leave one out"
        )
        raise DriftbayesError(msg)
    if "student" in options and ("blur" in options or not base.has_state_space):
        msg = (
            f"'student' needs a model with a state-space form, which {text!r} has not; leave it out"
        )
        raise DriftbayesError(msg)
    turns = "oscillating" in base.name.split("&") and base.has_state_space
    if "rotating" in options and ("blur" in options or not turns):
        msg = (
            "'rotating' is for the model 'oscillating' and its sums with models that have a "
            f"state-space form, with noise and a mean flow at most, not for {text!r}; leave it out"
        )
        raise DriftbayesError(msg)
    if "scatter" in options and "noise" in options:
        msg = f"'scatter' scales all of the covariance, noise included, in {text!r}; choose one"
        raise DriftbayesError(msg)
