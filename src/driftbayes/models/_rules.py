"""Names and order of model options, and rules for combining them."""

from collections.abc import Sequence

from driftbayes.errors import DriftbayesError
from driftbayes.models._base import AbstractModel

# In the order of application, which does not depend on the order in a name.
OPTIONS: dict[str, str] = {
    "blur": "every position is the mean over a known exposure",
    "noise": "every position has an independent error",
    "outliers": "some positions have far larger errors; with noise",
    "anisotropic": "a diffusivity tensor, in two or three dimensions",
    "mean": "a mean flow shared by all particles, integrated out",
    "linear": "a mean flow linear in space, shared by all particles, integrated out",
    "common": "a part of the motion is common to all particles",
    "flow": "random increments are correlated in space, as in one flow",
    "eddies": "the same in two dimensions, divergence-free except for a share",
    "rotating": "of oscillating velocities in a plane, one sense of rotation for all particles",
    "scatter": "every trajectory has its own diffusivity (superstatistics)",
    "student": "innovations with heavy tails",
}
# Options that change which sums are needed: one per model, or one of the pairs below.
_DATA_OPTIONS = (
    *("outliers", "anisotropic", "mean", "linear", "common", "flow", "eddies"),
    *("rotating", "scatter", "student"),
)
_PAIRS = ({"anisotropic", "mean"}, {"anisotropic", "linear"}, {"mean", "rotating"})


def check_options(text: str, base: AbstractModel, options: Sequence[str]) -> None:
    """Raise an error for options that exclude each other or do not suit the model.

    Args:
        text: Full name, for messages.
        base: The model without options.
        options: Names of the options.
    """
    repeated = [option for option in options if options.count(option) > 1]
    if repeated:
        raise DriftbayesError(f"option {repeated[0]!r} is repeated in {text!r}; give it once")
    if base.kind == "sde" and set(options) - {"noise"}:
        wrong = next(option for option in options if option != "noise")
        msg = f"{base.name!r} is an SDE and takes only the option 'noise', not {wrong!r}"
        raise DriftbayesError(msg)
    if base.kind == "jumps" and options:
        msg = f"{base.name!r} takes no options, got {options[0]!r}; omit it"
        raise DriftbayesError(msg)
    chosen = [option for option in _DATA_OPTIONS if option in options]
    if len(chosen) > 1 and set(chosen) not in _PAIRS:
        msg = f"{chosen[0]!r} and {chosen[1]!r} cannot be combined in {text!r}; choose one"
        raise DriftbayesError(msg)
    if "anisotropic" in options and "noise" in options:
        raise DriftbayesError(
            f"noise that is the same on all axes cannot be combined with a tensor in {text!r}; "
            "omit one of them"
        )
    for option in ("student", "outliers"):
        lacks_form = not base.has_state_space or (option == "student" and "blur" in options)
        if option in options and lacks_form:
            raise DriftbayesError(
                f"{option!r} needs a model with a state-space form, and {text!r} has none; omit it"
            )
    if "outliers" in options and "noise" not in options:
        raise DriftbayesError(
            f"'outliers' needs measurement errors of the other positions, and {text!r} has none; "
            "add '+noise'"
        )
    can_rotate = "oscillating" in base.name.split("&") and base.has_state_space
    if "rotating" in options and ("blur" in options or not can_rotate):
        raise DriftbayesError(
            "'rotating' is for the model 'oscillating' and its sums with models that have a "
            f"state-space form, with noise and a mean flow at most, not for {text!r}; omit it"
        )
    shared = [option for option in ("flow", "eddies") if option in options]
    if shared and (base.name not in ("brownian", "langevin") or set(options) - {*shared, "noise"}):
        raise DriftbayesError(
            f"{shared[0]!r} is for the models 'brownian' and 'langevin', with noise at most, not "
            f"for {text!r}; omit it"
        )
    if "common" in options and "&" in base.name:
        msg = f"'common' is for single models, not for the sum {text!r}; omit it"
        raise DriftbayesError(msg)
    if "scatter" in options and "noise" in options:
        msg = f"'scatter' scales all of the covariance, noise included, in {text!r}; choose one"
        raise DriftbayesError(msg)
