"""One of each thing that shows itself, made by hand: nothing is computed or compiled."""

import numpy as np

from driftbayes.checks import FitCheck
from driftbayes.checks._calibrate import Deviation
from driftbayes.checks._check import ModelCheck
from driftbayes.checks._statistics import Quantity
from driftbayes.comparison import Comparison, Scan
from driftbayes.data._sampling import displacements
from driftbayes.data._trajectories import Trajectories
from driftbayes.inference import QUANTILES, Hypothesis
from driftbayes.models import MODELS, Langevin
from driftbayes.priors import Exponential, Gamma
from made import made_evidence

HOSTILE = "<script>alert('a')</script>\x1b[31m\n</table>&"


def tracks(**changes):
    x = np.array([[[0.0, 0.0], [1.0, 2.0], [3.0, 1.0]], [[0.0, 5.0], [-1.0, 4.0], [2.0, 2.5]]])
    return Trajectories.from_arrays(
        x, dt=0.5, **{"length_unit": "km", "time_unit": "d", "ids": ["a", "b"], **changes}
    )


def steps(**changes):
    return displacements(tracks(**changes), 0.5)


def hypothesis():
    return Hypothesis(Langevin, gamma=Exponential(mean=2.0), k=Gamma(shape=2.0, mean=5.0))


def evidence(name="langevin", parameters=None, value=1.0, units=("km", "d"), **changes):
    names = parameters or MODELS[name].parameters
    plain = dict.fromkeys(names, value)
    record = {
        "log_evidence": -10.0 if name == "langevin" else -14.0,
        "log_likelihood_at_map": -7.0,
        "map": plain,
        "posterior_mean": plain,
        "posterior_sd": dict.fromkeys(names, 0.1 * value),
        "posterior_quantiles": {n: value + np.linspace(-0.2, 0.2, len(QUANTILES)) for n in names},
        "posterior_cov": np.diag(np.full(len(names), (0.1 * value) ** 2)),
        "expected_log_likelihood": -8.0,
    }
    return made_evidence(name, names=parameters, units=units, **{**record, **changes})


def comparison(evidences=None, tau=0.5, **changes):
    found = evidences or [evidence("brownian", tau=tau), evidence("langevin", tau=tau)]
    share = 1.0 / (1.0 + np.exp(-4.0))
    record = {
        "evidences": {e.name: e for e in found},
        "probabilities": {e.name: p for e, p in zip(found, [1 - share, share], strict=False)},
        "tau": tau,
        "n_particles": 2,
        "n_steps": 2,
        "n_dim": 2,
        "n_displacements": 8,
        "time_unit": "d",
        "length_unit": "km",
    }
    return Comparison(**{**record, **changes})


def scan(n_taus=3, **changes):
    taus = 0.5 * np.arange(1, n_taus + 1)
    attributes = {"data_fingerprint": "fedcba9876543210", "options": "{}"}
    return Scan(
        tuple(comparison(tau=float(tau)) for tau in taus), {9.0: "too long"}, attributes, **changes
    )


def fit_check():
    band = np.ones((3, 2))
    words = {"msd": "the mean square displacement", "kurtosis": "the kurtosis"}
    chosen = tuple(Quantity(name, text, "lag", np.arange(2.0)) for name, text in words.items())
    models = {}
    for model, p_values in (("brownian", (1 / 101, 0.4)), ("langevin", (0.5, 0.7))):
        compared = {
            q.name: Deviation(np.ones(2), band, band, np.zeros(2), np.full(2, p), p, 1.0, band[0])
            for q, p in zip(chosen, p_values, strict=True)
        }
        adjusted = dict(zip(compared, p_values, strict=True))
        models[model] = ModelCheck(model, chosen, compared, adjusted, 100, 0, {})
    return FitCheck(models, comparison())


# What each of them says in one line.
LINES = {
    "Trajectories": (tracks, "<Trajectories: 2 in 2D, 6 points, every 0.5 d>"),
    "Displacements": (
        steps,
        "<Displacements: tau = 0.5 d, 2 particles, up to 2 steps, 2D>",
    ),
    "Hypothesis": (hypothesis, "<Hypothesis: langevin, gamma ~ exponential:2, k ~ gamma:2:5>"),
    "Evidence": (
        evidence,
        "<Evidence: langevin (exact), ln Z = -10.0000, gamma = 1.00 ± 0.10 1/d, "
        "k = 1.00 ± 0.10 km²/d, ok>",
    ),
    "Comparison": (
        comparison,
        "<Comparison: langevin is strongly favoured over brownian at tau = 0.5 d (ln K = 4)>",
    ),
    "Scan": (scan, "<Scan: 3 values of tau from 0.5 d to 1.5 d, brownian, langevin>"),
    "FitCheck": (
        fit_check,
        "<FitCheck: langevin is the best of the set, and nothing checked contradicts it "
        "(p = 0.5); 100 replicas, seed 0>",
    ),
}
