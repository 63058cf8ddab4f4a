"""Data, hypotheses and slow evidences for the tests of inference.

All data sets have 20 particles with 5 steps along one axis, so that each program is compiled once.
"""

import numpy as np
from targets import PeaksTarget

from driftbayes.data._sampling import Displacements
from driftbayes.inference import Hypothesis
from driftbayes.models import MODELS, Brownian, Langevin
from driftbayes.priors import Exponential
from driftbayes.testing import reference

SHAPE = (20, 5, 1)
BROWNIAN = Hypothesis(Brownian, kappa=Exponential(mean=1.0))
LANGEVIN = Hypothesis(Langevin, gamma=Exponential(mean=1.0), k=Exponential(mean=1.0))
HYPOTHESES = {"brownian": BROWNIAN, "langevin": LANGEVIN}


def one_peak(mean, sd):
    mean, sd = np.asarray(mean), np.asarray(sd)
    return PeaksTarget(np.ones(2), mean, mean, sd)


# As a Gaussian target and a bimodal one in two dimensions.
ONE_PEAK = one_peak([1.0, -1.0], [0.1, 0.5])
TWO_PEAKS = PeaksTarget.make(2)


def steps(tau, shape=SHAPE, *, gamma=1.0, k=1.0, seed=0):
    rng = np.random.default_rng(seed)
    return reference.simulate_langevin(rng, *shape, tau, gamma, k)


def langevin_data(tau, shape=SHAPE, **options):
    return Displacements.from_array(steps(tau, shape, **options), tau)


def with_errors(data, sd):
    """The same steps between positions that have an error."""
    n_positions = data.row_sizes.sum() + len(data.row_sizes)
    return Displacements(
        dx=data.dx,
        interval=data.interval,
        row_sizes=data.row_sizes,
        trajectory=data.trajectory,
        tau=data.tau,
        position_sd=np.broadcast_to(sd, n_positions).astype(float),
    )


def exponential(model, **means):
    return Hypothesis(MODELS[model], **{name: Exponential(mean=m) for name, m in means.items()})


def log_integral_1d(log_f, low, high, n=20_001):
    """ln ∫ exp(f(u)) du by the trapezoid rule; f takes an array."""
    u = np.linspace(low, high, n)
    values = log_f(u)
    peak = values.max()
    return peak + np.log(np.exp(values - peak).sum() * (u[1] - u[0]))


def log_integral_2d(rows, box, n=121):
    """ln ∫∫ exp(f(u, v)) du dv by the trapezoid rule; `rows(u, v)` gives f for all v at one u."""
    (u0, u1), (v0, v1) = box
    u, v = np.linspace(u0, u1, n), np.linspace(v0, v1, n)
    values = np.array([rows(a, v) for a in u])
    edge = max(values[0].max(), values[-1].max(), values[:, 0].max(), values[:, -1].max())
    peak = values.max()
    assert edge < peak - 20, "the box does not hold the peak"
    cell = (u[1] - u[0]) * (v[1] - v[0])
    return peak + np.log(np.exp(values - peak).sum() * cell)


def langevin_fit(dx, tau, gamma):
    """Slow log-likelihood at one γ as a function of ln k, from two calls of the slow filter."""
    one, two = (reference.kalman_log_likelihood(dx, tau, gamma, k) for k in (1.0, 2.0))
    quadratic = 4 * (two - one) + 2 * dx.size * np.log(2)
    return lambda v: one - 0.5 * dx.size * v + 0.5 * quadratic * (1 - np.exp(-v))


def log_density(prior, theta):
    return prior.log_density(np.asarray(theta))
