"""Evidences made by hand, and the few shapes of data that these tests compile for.

Every comparison is of runs of ten steps and every scan of five sampling times: each further
shape would cost seconds of compilation.
"""

import numpy as np

from driftbayes.errors import Status
from driftbayes.inference import QUANTILES, Evidence, Hypothesis
from driftbayes.models import Brownian, Langevin
from driftbayes.priors import Exponential
from driftbayes.sampling import Displacements
from driftbayes.testing import reference
from driftbayes.trajectories import Trajectories

N_STEPS = 10
TAUS = (0.1, 0.2, 0.3, 0.4, 0.5)
PARAMETERS = {"brownian": ("kappa",), "langevin": ("gamma", "k"), "third": ("a", "b", "c")}


def unit_hypotheses() -> list[Hypothesis]:
    """Both models with the paper's priors."""
    unit = Exponential(mean=1.0)
    return [Hypothesis(Brownian, kappa=unit), Hypothesis(Langevin, gamma=unit, k=unit)]


def langevin_data(tau, *, n_particles=100, n_dim=3, seed=0, gamma=1.0, k=1.0) -> Displacements:
    """The paper's data: by default 100 particles, ten steps, three dimensions."""
    rng = np.random.default_rng(seed)
    dx = reference.simulate_langevin(rng, n_particles, N_STEPS, n_dim, tau, gamma, k)
    return Displacements.from_array(dx, tau)


def langevin_tracks(n_particles=100, n_positions=51, n_dim=2, seed=0, **attributes) -> Trajectories:
    """Positions every 0.1 from the Langevin model with gamma = k = 1."""
    rng = np.random.default_rng(seed)
    dx = reference.simulate_langevin(rng, n_particles, n_positions - 1, n_dim, 0.1, 1.0, 1.0)
    x = np.concatenate([np.zeros((n_particles, 1, n_dim)), np.cumsum(dx, axis=1)], axis=1)
    return Trajectories.from_arrays(x, dt=0.1, **attributes)


def made_evidence(hypothesis="brownian", log_evidence=-10.0, **changes) -> Evidence:
    """An evidence with the numbers that a test is about; all others are plain."""
    names = PARAMETERS[hypothesis]
    ones = dict.fromkeys(names, 1.0)
    record = {
        "hypothesis": hypothesis,
        "method": "exact",
        "log_evidence": log_evidence,
        "log_evidence_err": 1e-9,
        "log_likelihood_at_map": log_evidence + 3.0,
        "map": ones,
        "posterior_mean": ones,
        "posterior_sd": dict.fromkeys(names, 0.1),
        "posterior_quantiles": {name: np.linspace(0.8, 1.2, len(QUANTILES)) for name in names},
        "posterior_cov": 0.01 * np.eye(len(names)),
        "log_mean": dict.fromkeys(names, 0.0),
        "log_sd": dict.fromkeys(names, 0.1),
        "contraction": dict.fromkeys(names, 0.9),
        "expected_log_likelihood": log_evidence + 2.0,
        "status": Status.OK,
        "tau": 0.5,
        "data_fingerprint": "0123456789abcdef",
        "priors": dict.fromkeys(names, "exponential:1"),
    }
    return Evidence(**{**record, **changes})
