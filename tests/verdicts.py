"""Evidences made by hand, and the few shapes of data that these tests compile for.

Every comparison is of runs of ten steps and every scan of five sampling times: each further
shape would cost seconds of compilation.
"""

import numpy as np

from driftbayes.data._sampling import Displacements
from driftbayes.data._trajectories import Trajectories
from driftbayes.inference import Hypothesis
from driftbayes.models import Brownian, Langevin
from driftbayes.priors import Exponential
from driftbayes.testing import reference

N_STEPS = 10
TAUS = (0.1, 0.2, 0.3, 0.4, 0.5)


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
