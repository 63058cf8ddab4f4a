"""Evidences made by hand: nothing is computed or compiled."""

import numpy as np

from driftbayes.errors import Status
from driftbayes.inference import QUANTILES, Evidence, Hypothesis
from driftbayes.inference._evidence import make_estimates
from driftbayes.models import MODELS, AbstractModel, model_named
from driftbayes.models._base import Parameter
from driftbayes.priors import Exponential, Uniform, parse_prior

_PLAIN = {"mode": 1.0, "mean": 1.0, "sd": 0.1, "log_mean": 0.0, "log_sd": 0.1, "contraction": 0.9}
# The older names of the same numbers.
_FIELDS = {
    "map": "mode",
    "posterior_mean": "mean",
    "posterior_sd": "sd",
    "log_mean": "log_mean",
    "log_sd": "log_sd",
    "contraction": "contraction",
}


class _Nameless(AbstractModel):
    """A model that is never evaluated."""

    def increment_autocovariance(self, lags, tau):
        raise AssertionError

    def mean_square_displacement(self, lag):
        raise AssertionError

    def lvaf(self, lag):
        raise AssertionError


def made_hypothesis(name, names=None, priors=None) -> Hypothesis:
    """A hypothesis of a known model, or of one that has nothing but names."""
    model = model_named(name, MODELS) if name.partition("+")[0] in MODELS else None
    if model is None or names is not None:
        # Names with the powers of length and time in their units, or names alone.
        powers = names if isinstance(names, dict) else dict.fromkeys(names or "abc", (0, 0))
        about = {n: Parameter(n, n, *of_unit) for n, of_unit in powers.items()}
        model = type("Made", (_Nameless,), {"name": name, "parameters": about, "summary": name})
    texts = priors or {}
    plain = {
        n: Uniform(0.0, about.upper) if about.upper < np.inf else Exponential(1.0)
        for n, about in model.parameters.items()
    }
    own = plain | {n: parse_prior(texts[n]) for n in texts if n in plain}
    return Hypothesis(model, **own)


def made_evidence(
    hypothesis="brownian", log_evidence=-10.0, *, names=None, units=("", ""), **changes
) -> Evidence:
    """An evidence with the numbers that a test is about; all others are plain."""
    family = made_hypothesis(hypothesis, names, changes.pop("priors", None))
    n = len(family.names)
    numbers = {}
    for old, field in _FIELDS.items():
        given = changes.pop(old, {})
        numbers[field] = [given.get(name, _PLAIN[field]) for name in family.names]
    quantiles = changes.pop("posterior_quantiles", {})
    usual = np.linspace(0.8, 1.2, len(QUANTILES))
    record = {
        "hypothesis": family,
        "method": "exact",
        "log_evidence": log_evidence,
        "log_evidence_err": 1e-9,
        "log_likelihood_at_map": log_evidence + 3.0,
        "parameters": make_estimates(
            family, units, [quantiles.get(name, usual) for name in family.names], **numbers
        ),
        "posterior_cov": 0.01 * np.eye(n),
        "expected_log_likelihood": log_evidence + 2.0,
        "status": Status.OK,
        "tau": 0.5,
        "time_unit": units[1],
        "data_fingerprint": "0123456789abcdef",
    }
    return Evidence(**{**record, **changes})
