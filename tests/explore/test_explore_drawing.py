"""The panel of spreads: a model is drawn as it expects the observed displacements to be."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from driftbayes import Hypothesis
from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import Status
from driftbayes.explore.answers import model_spread
from driftbayes.inference import Evidence
from driftbayes.inference._evidence import make_estimates
from driftbayes.models import MODELS, model_named
from driftbayes.priors import Exponential, Fixed, Uniform

TAUS = np.array([0.5, 2.0])
KNOWN = ("exposure", "flow", "gradient", "reference")


def drawn(name, derived=None, sd=None, **theta):
    family = model_named(name, MODELS)

    def prior(n, about):
        if n in KNOWN:
            return Fixed(theta[n])
        return Exponential(1.0) if np.isinf(about.upper) else Uniform(0.0, about.upper)

    priors = {n: prior(n, about) for n, about in family.parameters.items()}
    hypothesis = Hypothesis(family, **priors)
    numbers = [theta[n] for n in hypothesis.names]
    fields = ("mode", "mean", "sd", "log_mean", "log_sd", "contraction")
    estimates = make_estimates(
        hypothesis, ("", ""), np.ones((len(numbers), 5)), **dict.fromkeys(fields, numbers)
    )
    record = Evidence(
        hypothesis=hypothesis,
        method="exact",
        log_evidence=0.0,
        log_evidence_err=0.0,
        log_likelihood_at_map=0.0,
        parameters=estimates,
        posterior_cov=np.eye(len(numbers)),
        expected_log_likelihood=0.0,
        status=Status.OK,
        tau=1.0,
        data_fingerprint="",
        derived=derived or {},
    )
    x = np.zeros((2, 3, 2))
    errors = None if sd is None else np.full((2, 3), sd)
    whole = Trajectories.from_arrays(x, dt=0.5, position_sd=errors)
    return 2 * TAUS * model_spread(hypothesis, record, TAUS, whole)


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("brownian", {}, 1.4 * TAUS),
        ("brownian", {"sd": 0.3}, 1.4 * TAUS + 0.18),
        ("brownian+noise", {"sigma": 0.4}, 1.4 * TAUS + 0.32),
        ("brownian+noise", {"sigma": 0.4, "sd": 0.3}, 1.4 * TAUS + 0.5),
        ("brownian+blur", {"exposure": 0.3}, 1.4 * (TAUS - 0.1)),
        (
            "brownian+mean",
            {"flow": 1.0, "derived": {"flow_1": 0.6, "flow_2": -0.8}},
            1.4 * TAUS + 0.5 * TAUS**2,
        ),
        (
            "brownian+anisotropic",
            {"h1": 0.1, "h2": 0.2, "derived": {"K_11": 2.0, "K_12": 0.3, "K_22": 1.0}},
            3.0 * TAUS,
        ),
        ("brownian+scatter", {"scatter": 0.5}, 1.4 / 0.75 * TAUS),
        ("brownian+scatter", {"scatter": 1.5}, np.nan * TAUS),
        ("brownian+linear", {"flow": 1.0, "gradient": 1.0}, np.nan * TAUS),
        ("brownian*2", {"ratio_2": 0.5, "share_2": 0.4}, 1.4 * 0.8 * TAUS),
        (
            "brownian+noise*2",
            {"ratio_2": 0.5, "share_2": 0.4, "sigma": 0.4, "sigma_2": 0.2},
            1.4 * 0.8 * TAUS + 2 * (0.6 * 0.16 + 0.4 * 0.04),
        ),
    ],
)
def test_a_model_is_drawn_as_it_expects_displacements_to_be_observed(name, given, expected):
    assert_allclose(drawn(name, kappa=0.7, **given), expected, rtol=1e-9)
