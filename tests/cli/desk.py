"""Small files to work with, of the few shapes that the tests compile for."""

import numpy as np

from driftbayes.data._trajectories import Trajectories
from driftbayes.testing import reference

# With these no scale is taken from the data, and no sensitivity is shown.
PRIORS = (
    *("--prior", "kappa=exponential:1"),
    *("--prior", "gamma=exponential:1"),
    *("--prior", "k=exponential:1"),
)
# Five values of tau, as in the tests of the scan itself.
TAUS = "0.1,0.2,0.3,0.4,0.5"

TOP_KEYS = {
    *("tau", "n_particles", "n_steps", "n_dim", "data_fingerprint", "method", "models"),
    *("log_bayes_factors", "verdict"),
}
MODEL_KEYS = {
    *("log_evidence", "log_evidence_err", "log_likelihood_at_map", "log_occam_factor", "map"),
    *("posterior_sd", "posterior_mean", "probability", "status", "warnings"),
}
PARAMETERS = {"brownian": {"kappa"}, "langevin": {"gamma", "k"}}


def langevin_positions(n_particles=60, n_positions=11, n_dim=2, seed=0):
    rng = np.random.default_rng(seed)
    dx = reference.simulate_langevin(rng, n_particles, n_positions - 1, n_dim, 0.1, 1.0, 1.0)
    return np.concatenate([np.zeros((n_particles, 1, n_dim)), np.cumsum(dx, axis=1)], axis=1)


def langevin_tracks(n_particles=60, n_positions=11, n_dim=2, seed=0, **attributes):
    x = langevin_positions(n_particles, n_positions, n_dim, seed)
    return Trajectories.from_arrays(x, dt=0.1, **attributes)


def check_comparison(found):
    """The keys that the issue promises, no less."""
    assert set(found) >= TOP_KEYS
    for name, model in found["models"].items():
        assert set(model) >= MODEL_KEYS
        for key in ("map", "posterior_sd", "posterior_mean"):
            assert set(model[key]) == PARAMETERS[name]
        assert isinstance(model["warnings"], list)
        assert isinstance(model["status"], str)
    assert isinstance(found["verdict"], str)
