"""Data, true and false, of the few shapes that these tests compile for."""

import numpy as np

from driftbayes.data._sampling import Displacements, displacements
from driftbayes.data._trajectories import Trajectories
from driftbayes.inference import Hypothesis
from driftbayes.models import Brownian, Langevin
from driftbayes.priors import Exponential
from driftbayes.testing import reference

TAU = 0.5
SHAPE = (20, 10, 2)
UNIT = Exponential(mean=1.0)
BROWNIAN = Hypothesis(Brownian, kappa=UNIT)
LANGEVIN = Hypothesis(Langevin, gamma=UNIT, k=UNIT)


def langevin_data(seed=0, shape=SHAPE):
    rng = np.random.default_rng(seed)
    return Displacements.from_array(reference.simulate_langevin(rng, *shape, TAU, 1.0, 1.0), TAU)


def brownian_data(seed=0, shape=SHAPE, kappa=1.0):
    """One kappa for all particles, or one for each."""
    steps = np.random.default_rng(seed).standard_normal(shape)
    scale = np.sqrt(2 * np.broadcast_to(kappa, shape[:1]) * TAU)
    return Displacements.from_array(steps * scale[:, None, None], TAU)


def gappy_tracks(seed=0, n_particles=20, n_positions=11):
    """Langevin trajectories of which some fixes are missing, always the same ones."""
    dx = langevin_data(seed, (n_particles, n_positions - 1, 2)).as_array()
    x = np.concatenate([np.zeros((n_particles, 1, 2)), np.cumsum(dx, axis=1)], axis=1)
    keep = np.random.default_rng(99).random((n_particles, n_positions)) > 0.15
    keep[:, [0, 1, -1]] = True
    times = np.broadcast_to(TAU * np.arange(n_positions), keep.shape)
    return Trajectories(
        positions=x[keep],
        times=times[keep],
        row_sizes=keep.sum(axis=1),
        ids=np.arange(n_particles).astype(str),
    )


def gappy_data(gaps, seed=0):
    return displacements(gappy_tracks(seed), TAU, gaps=gaps)
