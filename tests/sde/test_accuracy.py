"""Estimated likelihoods against Kalman's and against a grid solution of Chapman and Kolmogorov."""

from dataclasses import replace

import numpy as np
import pytest
from double_well import double_well, grid_log_evidence, grid_log_likelihood, well_data
from equations import brownian, data_of, langevin, langevin_data
from spinning import VALUES, exact_log_likelihood, spinning, spinning_bias

from driftbayes import Brownian, Hypothesis, Langevin, Noise, Status, evidence
from driftbayes.models import MODELS, model_named
from driftbayes.sde import Filter, ParticleDensity

THETA = {"gamma": 1.3, "k": 0.7}


def estimates(model, data, values, how, substeps, n):
    """Ln of n independent estimates of the likelihood."""
    columns = {name: np.full(n, value) for name, value in values.items()}
    return ParticleDensity(data, how, substeps, 0).log_densities(model, columns)


def described(log_ratio):
    """Bias of the mean estimate in nats, its standard error, and mean and sd of z of each."""
    n = len(log_ratio)
    ratio = np.exp(log_ratio)
    bias, error = np.log(ratio.mean()), ratio.std(ddof=1) / ratio.mean() / np.sqrt(n)
    z = (ratio - 1) / max(ratio.std(ddof=1), 1e-9)
    print(
        f"bias {bias:.4f} ± {error:.4f}, z {z.mean():.2f} ± {z.std(ddof=1):.2f}, "
        f"Var ln L {log_ratio.var():.2g}"
    )
    return bias, error


FILTERS = {
    "lookahead": (Filter(8), 2, 128),
    "guided": (Filter(128, lookahead=False), 2, 512),
    "bootstrap": (Filter(1024, guided=False), 1, 512),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", FILTERS)
@pytest.mark.parametrize("name", ["brownian", "langevin", "langevin+noise"])
def test_filters_are_unbiased_where_kalman_is_exact(name, how):
    data = data_of(langevin(), THETA, n_particles=4, n_steps=8)
    noise = 0.3
    if name == "brownian":
        model, values, exact = brownian().template(), {"kappa": 0.7}, Brownian(0.7)
    elif name == "langevin":
        model, values, exact = langevin().template(), THETA, Langevin(**THETA)
    else:
        model, values = model_named("sde_langevin+noise", MODELS), {**THETA, "sigma": noise}
        exact = Noise(Langevin(**THETA), noise)
    if how == "bootstrap" and name != "langevin+noise":
        # Without guidance no particle reaches an exact fix.
        data = replace(data, position_sd=np.full(int((data.row_sizes + 1).sum()), noise))
    wanted = float(exact.log_likelihood(data))
    chosen, substeps, n = FILTERS[how]
    log_ratio = estimates(model, data, values, chosen, substeps, n) - wanted
    print(name, how, end=": ")
    bias, error = described(log_ratio)
    assert abs(bias) < max(4 * error, 1e-9)
    assert error < 0.05
    assert abs(bias) < 0.05 + 2 * error


@pytest.mark.slow
@pytest.mark.parametrize("a", [0.5, 1.0, 2.0])
def test_a_double_well_has_the_likelihood_of_a_grid_solution(a):
    wanted = grid_log_likelihood(a)
    assert abs(wanted - grid_log_likelihood(a, 256)) < 0.003
    print()
    biases = {}
    for substeps in (4, 16, 32):
        template = double_well().template()
        found = estimates(template, well_data(), {"a": a}, Filter(64), substeps, 256) - wanted
        print(f"a = {a}, {substeps} substeps", end=": ")
        biases[substeps] = described(found)
    (coarse, coarse_error), (fine, fine_error) = biases[16], biases[32]
    # The error of finite substeps is of first order: twice the change when they are doubled.
    limit, error = 2 * fine - coarse, np.hypot(2 * fine_error, coarse_error)
    print(f"extrapolated: bias {limit:.4f} ± {error:.4f}")
    assert error < 0.05
    assert abs(limit) < 3 * error + 0.02
    assert abs(coarse) < 2 * abs(fine - coarse) + 3 * error
    assert abs(fine) < 0.2 * abs(biases[4][0])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["laplace_is", "smc"])
def test_the_evidence_of_a_double_well_is_that_of_a_grid_solution(method):
    wanted, coarse = grid_log_evidence()
    assert abs(wanted - coarse) < 0.005
    print(f"\nln Z of the grid {wanted:.4f}")
    off, errors = [], []
    for seed in range(6):
        found = evidence(Hypothesis(double_well()), well_data(), method=method, seed=seed)
        off.append(found.log_evidence - wanted)
        errors.append(found.log_evidence_err)
        print(f"{method} seed {seed}: off by {off[-1]:.3f} ± {errors[-1]:.3f}", found.diagnostics)
        assert found.status is Status.OK
        assert abs(off[-1]) < 4 * errors[-1]
    print(f"bias {np.mean(off):.3f} ± {np.std(off, ddof=1) / 6**0.5:.3f}")
    assert abs(np.mean(off)) < 0.05 + 2 * np.mean(errors) / 6**0.5


def test_the_exact_likelihood_of_a_spinning_velocity_is_langevins_without_spin():
    data = langevin_data(**THETA, n_particles=2, n_steps=4)
    wanted = float(Langevin(**THETA).log_likelihood(data))
    assert abs(exact_log_likelihood(data, **THETA, omega=0.0) - wanted) < 1e-9


@pytest.mark.slow
def test_the_usual_filter_is_unbiased_where_its_guide_is_imperfect():
    """By the filter that trial runs choose, extrapolated to short substeps as the evidence is."""
    data = data_of(spinning(), VALUES, n_particles=4, n_steps=12)
    wanted = exact_log_likelihood(data, **VALUES)
    bias, error = spinning_bias(data, VALUES, 4096)
    print(f"\nspinning: bias {bias:.4f} ± {error:.4f}")
    assert abs(wanted - float(Langevin(**THETA).log_likelihood(data))) > 0.3
    assert error < 0.015
    assert abs(bias) < 4 * error
    assert abs(bias) + 2 * error < 0.05
