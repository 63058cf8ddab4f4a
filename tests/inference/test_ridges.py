"""Gaussians along ridges: integrals in closed form, with fewer evaluations than without them."""

import numpy as np
import pytest

from driftbayes.data._sampling import Displacements
from driftbayes.errors import Status
from driftbayes.inference import Batch, Hypothesis, evidence, evidence_with_variants
from driftbayes.inference._density import Density
from driftbayes.inference._newton import Maximum
from driftbayes.inference._quasi_importance import quasi_importance
from driftbayes.inference._ridges import find_ridges
from driftbayes.inference._search import Modes, find_modes
from driftbayes.inference._target import components_of
from driftbayes.models import MODELS, model_named
from driftbayes.priors import Exponential, Uniform

THICK, LONG, BEND = 0.02, 1.2, 0.15


class Peak:
    """A function that counts its evaluations."""

    def __init__(self, log_f):
        self.log_f, self.count = log_f, 0

    def value(self, z):
        self.count += len(z)
        return self.log_f(z)

    def both(self, z):
        value = self.value(z)
        return value, value


def curved(z):
    """A banana in the first two of four coordinates, of unit Jacobian: its integral is known."""
    across = (z[:, 1] - BEND * z[:, 0] ** 2) / THICK
    return -0.5 * ((z[:, 0] / LONG) ** 2 + across**2 + np.sum((z[:, 2:] / THICK) ** 2, axis=1))


CURVED = 2 * np.log(2 * np.pi) + np.log(LONG * THICK**3)


def one_sided(z):
    """Along the first coordinate Gaussian on one side, with an exponential tail on the other."""
    along = np.where(
        z[:, 0] > 0, -0.5 * (z[:, 0] / 0.15) ** 2, -0.5 * z[:, 0] ** 2 / (0.0225 - z[:, 0])
    )
    return along - 0.5 * np.sum((z[:, 1:] / THICK) ** 2, axis=1)


def modes_of(widths):
    n = len(widths)
    hessian = -np.diag(1 / np.asarray(widths) ** 2)
    top = Maximum(np.zeros(n), 0.0, hessian, converged=True)
    mass = 0.5 * n * np.log(2 * np.pi) + np.sum(np.log(widths))
    empty = np.zeros((0, n))
    return Modes(top, top, (top,), np.array([mass]), empty, np.zeros(0))


def integral(log_f, widths, *, with_ridges, seed, **options):
    peak, modes = Peak(log_f), modes_of(widths)
    ridges = find_ridges(peak.value, modes) if with_ridges else None
    found = quasi_importance(peak.both, components_of(modes), seed=seed, ridges=ridges, **options)
    return found, peak.count


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_curved_ridge_has_its_integral_with_fewer_evaluations(seed):
    widths = [LONG, THICK, THICK, THICK]
    how = {"seed": seed, "tolerance": 0.02}
    found, count = integral(curved, widths, with_ridges=True, **how)
    # Twice as many are enough to tell.
    _, without = integral(curved, widths, with_ridges=False, **how, max_evaluations=2 * count)
    assert found.status is Status.OK
    assert abs(found.log_evidence - CURVED) < 5 * found.log_evidence_err
    assert count < 0.7 * without


def test_a_long_tail_on_one_side_is_followed_to_its_end():
    widths = [0.15, THICK, THICK, THICK]
    ridges = find_ridges(one_sided, modes_of(widths))
    assert ridges.centers[:, 0].min() < -8.0
    assert ridges.centers[:, 0].max() < 0.8
    found, _ = integral(one_sided, widths, with_ridges=True, seed=0)
    line = np.concatenate([-np.geomspace(1e-7, 200.0, 200_001)[::-1], np.linspace(0, 2, 20_001)])
    points = np.zeros((len(line), 4))
    points[:, 0] = line
    exact = np.log(np.trapezoid(np.exp(one_sided(points)), line)) + 3 * np.log(
        THICK * np.sqrt(2 * np.pi)
    )
    assert abs(found.log_evidence - exact) < 5 * found.log_evidence_err


def test_a_narrow_peak_has_no_ridge():
    def narrow(z):
        return -0.5 * np.sum((z / 0.05) ** 2, axis=1)

    assert find_ridges(narrow, modes_of([0.05] * 4)) is None


def two_classes(n=200):
    """Short tracks in two classes, with errors."""
    rng = np.random.default_rng(3)
    sizes = rng.integers(3, 12, size=n)
    kappa = np.where(rng.uniform(size=n) < 0.6, 0.05, 1.0)
    steps = []
    for size, one in zip(sizes, kappa, strict=True):
        x = np.cumsum(np.sqrt(2 * one * 0.02) * rng.normal(size=(size + 1, 2)), axis=0)
        steps.append(np.diff(x + 0.02 * rng.normal(size=x.shape), axis=0))
    dx = np.concatenate(steps)
    return Displacements(
        dx=dx, interval=np.full(len(dx), 0.02), row_sizes=sizes, trajectory=np.arange(n), tau=0.02
    )


def noisy(factor=1.0):
    model = model_named("brownian+noise*2", MODELS)
    return Hypothesis(
        model,
        kappa=Exponential(factor),
        sigma=Exponential(0.02 * factor),
        sigma_2=Exponential(0.02 * factor),
        ratio_2=Uniform(0.0, 1.0),
        share_2=Uniform(0.0, 1.0),
    )


@pytest.mark.slow
def test_other_priors_cost_no_evaluations_and_agree_with_those_computed_anew(monkeypatch):
    data, n_points = two_classes(), [0]
    terms = Density.terms

    def counted(self, theta):
        if self.factor == 1:
            n_points[0] += len(theta)
        return terms(self, theta)

    monkeypatch.setattr(Density, "terms", counted)
    alone = evidence(noisy(), data)
    n_alone, n_points[0] = n_points[0], 0
    first, others = evidence_with_variants(noisy(), [noisy(1.3), noisy(0.8)], data)
    assert first.log_evidence == alone.log_evidence
    assert n_points[0] <= n_alone
    assert len(others) == 2
    anew, error = evidence(noisy(0.8), data), others[1].log_evidence_err
    error = np.hypot(error, anew.log_evidence_err)
    assert abs(others[1].log_evidence - anew.log_evidence) < 5 * error
    # Which the other prior would not pass.
    assert abs(others[0].log_evidence - anew.log_evidence) > 5 * error


def test_the_mode_of_theta_is_no_lower_than_its_density_at_that_of_z():
    data = two_classes()
    model = noisy().model
    density = Density(noisy(), Batch.of(data, model=model).engine(0, model))
    modes = find_modes(density)
    assert modes.natural.value >= density.at(modes.free.z[None]).natural[0]
