"""Evidence from estimated likelihoods against exact integration."""

from dataclasses import replace

import numpy as np
import pytest
from equations import UNIT, brownian, cubic, data_of, langevin, langevin_data

from driftbayes import (
    Brownian,
    DriftbayesError,
    Exponential,
    Fixed,
    Hypothesis,
    Langevin,
    Noise,
    Scales,
    Status,
    Trajectories,
    compare,
    evidence,
)
from driftbayes.inference import evidence_with_variants
from driftbayes.models import MODELS, model_named

THETA = {"gamma": 1.3, "k": 0.7}
PRIORS = {"gamma": UNIT, "k": UNIT}


def compared(models, **options):
    """A comparison by names, with priors by the rules."""
    dx = langevin_data(**THETA).dx.reshape(4, 12, 2)
    x = np.concatenate([np.zeros((4, 1, 2)), dx.cumsum(axis=1)], axis=1)
    tracks = Trajectories.from_arrays(x, dt=0.4)
    return compare(tracks, 0.4, models=models, scales=Scales(1.0, 1.0), seed=3, **options)


@pytest.fixture(scope="module")
def found():
    return compared("langevin, sde_langevin", sensitivity=True)


def test_the_evidence_of_a_linear_equation_is_that_of_quadrature(found):
    exact, estimated = found["langevin"], found["sde_langevin"]
    assert estimated.status is Status.OK
    assert 0 < estimated.log_evidence_err < 0.05
    off = estimated.log_evidence - exact.log_evidence
    assert abs(off) < 4 * estimated.log_evidence_err
    for name in THETA:
        sd = exact.posterior_sd[name]
        assert abs(estimated.posterior_mean[name] - exact.posterior_mean[name]) < 0.2 * sd
        assert abs(estimated.map[name] - exact.map[name]) < 0.3 * sd
    assert abs(estimated.log_likelihood_at_map - exact.log_likelihood_at_map) < 0.1
    assert estimated.data_fingerprint == exact.data_fingerprint
    assert estimated.seed == 3
    assert estimated.diagnostics["inner_variance"] < 1e-12
    assert estimated.diagnostics["substep_error"] < 1e-8


def test_smc_of_a_linear_equation_gives_the_evidence_of_quadrature(found):
    exact = found["langevin"]
    method = "smc:particles=32,islands=4,moves=4"
    estimated = compared("sde_langevin", method=method)["sde_langevin"]
    assert estimated.status is Status.OK
    assert 0 < estimated.log_evidence_err < 0.5
    off = estimated.log_evidence - exact.log_evidence
    assert abs(off) < 4 * estimated.log_evidence_err
    assert estimated.draws.shape[1] == len(THETA)
    # Both runs of the sampler count.
    assert estimated.n_evaluations == 2 * 4 * 32 * (1 + estimated.diagnostics["n_temperatures"])


def test_other_priors_are_served_by_the_same_points(found):
    for row in found.sensitivity:
        log_k = row["log_bayes_factors"]["sde_langevin:langevin"]
        assert abs(log_k) < 0.1


def test_the_rules_for_priors_hold_for_equations_that_come_with_the_package(found):
    assert found["sde_langevin"].priors == found["langevin"].priors
    assert found["sde_langevin"].parameters["k"].unit == "length²/time"
    off = found.log_bayes_factors["sde_langevin:langevin"]
    assert abs(off) < 4 * found["sde_langevin"].log_evidence_err


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sde_langevin+mean", "takes only the option 'noise', not 'mean'"),
        ("sde_langevin&langevin", "cannot be a part of a sum"),
        ("sde_langevin*2", "must be a model, with noise or blur at most"),
        ("sde_langevn", "did you mean 'sde_langevin'"),
    ],
)
def test_what_an_sde_cannot_have_is_refused(name, message):
    with pytest.raises(DriftbayesError, match=message):
        model_named(name, MODELS)


def noisy(data, sd):
    """The same with errors added to the fixes."""
    rng = np.random.default_rng(1)
    n_runs, n_steps = len(data.row_sizes), int(data.row_sizes[0])
    errors = rng.normal(scale=sd, size=(n_runs, n_steps + 1, data.n_dim))
    dx = data.dx.reshape(n_runs, n_steps, -1) + np.diff(errors, axis=1)
    return replace(data, dx=dx.reshape(-1, data.n_dim))


CASES = {
    "brownian": (Hypothesis(Brownian, kappa=UNIT), lambda: Hypothesis(brownian())),
    "langevin": (Hypothesis(Langevin, **PRIORS), lambda: Hypothesis(langevin(), **PRIORS)),
    "langevin+noise": (
        Hypothesis(Noise(Langevin(gamma=UNIT, k=UNIT), sigma=Exponential(0.2))),
        lambda: Hypothesis(Noise(langevin(), sigma="sigma"), **PRIORS, sigma=Exponential(0.2)),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["laplace_is", "smc"])
@pytest.mark.parametrize("name", CASES)
def test_errors_of_the_evidence_are_as_stated(name, method):
    exact, own = CASES[name]
    data = data_of(langevin(), THETA, n_particles=4, n_steps=12)
    data = noisy(data, 0.2) if "noise" in name else data
    wanted = evidence(exact, data).log_evidence
    runs = [evidence(own(), data, method=method, seed=seed) for seed in range(20)]
    z = np.array([(e.log_evidence - wanted) / e.log_evidence_err for e in runs])
    errors = [e.log_evidence_err for e in runs]
    spread = f"z mean {z.mean():.2f}, sd {z.std(ddof=1):.2f}"
    print(f"{name} by {method}: {spread}; stated error {np.mean(errors):.3f}")
    assert evidence(own(), data, method=method, seed=0).log_evidence == runs[0].log_evidence
    assert all(e.status is Status.OK for e in runs)
    assert abs(z.mean()) < 1
    assert z.std(ddof=1) < 1.6


@pytest.mark.slow
def test_true_parameters_have_uniform_ranks_in_the_posterior():
    rng = np.random.default_rng(7)
    hypothesis = Hypothesis(cubic(), gamma=Fixed(1.0))
    ranks = []
    for seed in range(60):
        values = {"gamma": 1.0, **{name: float(rng.exponential()) for name in hypothesis.names}}
        data = data_of(cubic(), values, n_particles=3, n_steps=6, n_dim=1, seed=seed)
        found = evidence(hypothesis, data, seed=seed)
        ranks.append(
            [np.mean(found.draws[:, i] < values[n]) for i, n in enumerate(hypothesis.names)]
        )
    counts = np.stack(
        [np.histogram(column, bins=5, range=(0, 1))[0] for column in np.array(ranks).T]
    )
    chi_square = np.sum((counts - 12) ** 2 / 12, axis=1)
    print("ranks", counts.tolist(), "chi-square", chi_square.round(1).tolist())
    # 99.9 % of chi-square with four degrees of freedom.
    assert (chi_square < 18.5).all()


@pytest.mark.slow
def test_evidence_under_other_priors_is_that_of_quadrature():
    data = data_of(langevin(), THETA, n_particles=4, n_steps=12)
    others = [{"gamma": Exponential(g), "k": Exponential(k)} for g, k in ((0.25, 4.0), (4.0, 0.25))]
    _, logs = evidence_with_variants(
        Hypothesis(langevin(), **PRIORS), [Hypothesis(langevin(), **o) for o in others], data
    )
    for one, prior in zip(logs, others, strict=True):
        wanted = evidence(Hypothesis(Langevin, **prior), data).log_evidence
        assert abs(one.log_evidence - wanted) < 4 * one.log_evidence_err
