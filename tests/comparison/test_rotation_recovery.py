"""The rate of rotation of drifters that also drift and eddy: biased alone, right in a sum."""

import jax
import numpy as np
import pytest

from driftbayes.comparison import make_hypotheses
from driftbayes.data._sampling import Displacements
from driftbayes.inference import evidence
from driftbayes.models import MODELS, model_named

HOUR, DAY, OMEGA = 3600.0, 86400.0, 7.3e-5


def drifters(seed, mean=0.08, eddy=0.15, turning=0.15, n_particles=8, n_steps=240):
    """Hourly steps of drifters with inertial motion, a slow eddy field and a constant current."""
    rates = {"eddy": 1 / (5 * DAY), "turning": 1 / (3 * DAY)}
    options = {"n_particles": n_particles, "n_steps": n_steps, "n_dim": 2, "tau": HOUR}
    key_turn, key_eddy = jax.random.split(jax.random.key(seed))
    k = turning**2 * rates["turning"] / (rates["turning"] ** 2 + OMEGA**2)
    rotating = model_named("oscillating+rotating", MODELS)
    x = rotating(gamma=rates["turning"], omega=OMEGA, k=k).simulate(key_turn, **options)
    slow = MODELS["langevin"](gamma=rates["eddy"], k=eddy**2 / rates["eddy"])
    x = np.asarray(x) + np.asarray(slow.simulate(key_eddy, **options))
    x[..., 0] += mean * HOUR * np.arange(n_steps + 1)
    return Displacements.from_array(np.diff(x, axis=1), HOUR)


def omega_of(text, data, seed=0):
    (hypothesis,) = make_hypotheses([text], u_rms=0.3, timescale=DAY).hypotheses
    found = evidence(hypothesis, data, method="laplace_is", seed=seed)
    name = next(name for name in hypothesis.names if name.startswith("omega"))
    return found.posterior_mean[name], found.posterior_sd[name], found


@pytest.mark.slow
def test_a_sum_recovers_the_rate_of_rotation_that_alone_is_biased():
    scores, biases = [], []
    for seed in range(3):
        data = drifters(seed)
        mean, sd, record = omega_of("langevin&oscillating+rotating+mean", data)
        assert record.status.name == "OK", record.warnings
        alone, alone_sd, other = omega_of("oscillating+rotating", data)
        scores.append((mean - OMEGA) / sd)
        biases.append((alone - OMEGA) / alone_sd)
        assert record.log_evidence > other.log_evidence + 20
    # Three standard normal numbers; the other model is off by many of its own errors.
    assert np.max(np.abs(scores)) < 3.5
    assert np.median(np.abs(biases)) > 5
