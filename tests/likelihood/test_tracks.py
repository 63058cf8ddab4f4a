"""Many short tracks by length: the same as one dense Gaussian, and one filter, for each track."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import toeplitz
from scipy.special import gammaln, logsumexp
from scipy.stats import multivariate_normal

from driftbayes.data._sampling import Displacements
from driftbayes.inference import Batch, Hypothesis
from driftbayes.inference._density import Density
from driftbayes.likelihood._engines import FilterEngine
from driftbayes.models import MODELS, model_named
from driftbayes.priors import Exponential, Uniform

TAU = 0.4
PRIORS = {
    **{name: Exponential(1.0) for name in ("kappa", "k", "gamma", "gamma_2", "scatter")},
    **{name: Exponential(0.5) for name in ("sigma", "sigma_2")},
    **{f"{name}_{c}": Uniform(0.0, 1.0) for name in ("ratio", "share") for c in (2, 3)},
}
SIZES = np.array([1, 2, 3, 3, 5, 5, 5, 8, 11, 11, 19, 1, 2])


def tracks(owner=None):
    """Runs of different lengths with correlated steps; by default each is a track."""
    rng = np.random.default_rng(5)
    dx = (
        rng.normal(size=(SIZES.sum(), 2))
        * np.repeat(rng.uniform(0.3, 2.0, len(SIZES)), SIZES)[:, None]
    )
    return Displacements(
        dx=dx,
        interval=np.full(len(dx), TAU),
        row_sizes=SIZES,
        trajectory=np.arange(len(SIZES)) if owner is None else np.asarray(owner),
        tau=TAU,
    )


def hypothesis(name):
    model = model_named(name, MODELS)
    return Hypothesis(model, **{p: PRIORS[p] for p in model.parameters})


def density(name, data):
    model = hypothesis(name).model
    return Density(hypothesis(name), Batch.of(data, model=model).engine(0, model))


def covariance(n, kappa, sigma=0.0, gamma=None):
    """Of n successive steps of one axis, from textbook formulas."""
    lags = np.arange(n)
    if gamma is None:
        first = np.where(lags == 0, 2 * kappa * TAU, 0.0)
    else:
        x = gamma * TAU
        later = kappa / gamma * (2 * np.cosh(x) - 2) * np.exp(-x * lags)
        first = np.where(lags == 0, 2 * kappa / gamma * (x - 1 + np.exp(-x)), later)
    first = first + sigma**2 * (2.0 * (lags == 0) - (lags == 1))
    return toeplitz(first)


def mixture(name, theta, data):
    """ln p of all tracks: direct sums over classes, each run by SciPy's Gaussian."""
    value = dict(zip(hypothesis(name).names, theta, strict=True))
    n_classes = 3 if "*3" in name else 2
    scale = "k" if name.startswith("langevin") else "kappa"
    size, left, classes = value[scale], 1.0, []
    for c in range(1, n_classes + 1):
        tail = "" if c == 1 else f"_{c}"
        size = size * value.get(f"ratio_{c}", 1.0)
        share = value.get(f"share_{c + 1}", 0.0)
        classes.append(
            (left * (1 - share), size, value.get(f"sigma{tail}", 0.0), value.get(f"gamma{tail}"))
        )
        left *= share
    edges = np.concatenate([[0], np.cumsum(data.row_sizes)])
    total = 0.0
    for track in np.unique(data.trajectory):
        logs = []
        for weight, *rest in classes:
            log = np.log(weight)
            for run in np.flatnonzero(data.trajectory == track):
                x = data.dx[edges[run] : edges[run + 1]]
                law = multivariate_normal(cov=covariance(len(x), *rest))
                log += np.sum(law.logpdf(x.T.reshape(2, -1)))
            logs.append(log)
        total += logsumexp(logs)
    return total


@pytest.mark.parametrize("name", ["brownian*2", "brownian*3", "brownian+noise*2", "langevin*2"])
@pytest.mark.parametrize("owner", [None, [0, 1, 2, 0, 1, 2, 3, 3, 3, 4, 5, 5, 6]])
def test_a_mixture_is_the_direct_sum_over_classes_of_each_track(name, owner):
    data = tracks(owner)
    found = density(name, data)
    assert found.engine.tracks is not None
    n = len(hypothesis(name).names)
    theta = np.random.default_rng(0).uniform(0.1, 0.95, size=(40, n))
    values = found.terms(theta)[0]
    for i in (0, 7, 39):
        assert_allclose(values[i], mixture(name, theta[i], data), rtol=1e-11)


def test_scatter_is_the_student_distribution_of_each_track():
    data = tracks([0, 1, 2, 0, 1, 2, 3, 3, 3, 4, 5, 5, 6])
    theta = np.array([[0.6, 0.8], [1.3, 0.05], [0.2, 3.0]])
    found = density("brownian+scatter", data)
    assert hypothesis("brownian+scatter").names == ("kappa", "scatter")
    sizes = np.repeat(data.trajectory, data.row_sizes)
    for (kappa, scatter), value in zip(theta, found.terms(theta)[0], strict=True):
        total, a = 0.0, 1 / scatter**2
        for track in np.unique(sizes):
            x = data.dx[sizes == track]
            q, n = np.sum(x**2) / (2 * kappa * TAU), x.size
            total += gammaln(a + n / 2) - gammaln(a) - n / 2 * np.log(2 * np.pi * a)
            total -= n / 2 * np.log(2 * kappa * TAU) + (a + n / 2) * np.log1p(q / (2 * a))
        assert_allclose(value, total, rtol=1e-10)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["brownian+blur+noise*2", "langevin*2", "langevin+noise*2"])
def test_forms_by_length_are_those_of_the_filter(name):
    model = model_named(name, MODELS)
    priors = {p: PRIORS.get(p, Exponential(0.1)) for p in model.parameters}
    data = tracks()
    engine = Batch.of(data, model=model).engine(0, model)
    fast = Density(Hypothesis(model, **priors), engine)

    class Slow(FilterEngine):
        tracks = None

    slow = Density(Hypothesis(model, **priors), Slow(engine.runs))
    theta = np.random.default_rng(1).uniform(0.05, 0.35, size=(9, len(priors)))
    for one, other in zip(fast.terms(theta), slow.terms(theta), strict=True):
        assert_allclose(one, other, rtol=1e-9)


def test_a_class_of_no_density_counts_as_nothing():
    data = tracks()
    theta = np.array([[0.5, 1e-300, 0.3], [0.5, 0.4, 0.3]])
    values = density("brownian*2", data).terms(theta)[0]
    assert np.isfinite(values).all()
    # All tracks in the first class, each with its weight.
    first = density("brownian*2", data).terms(np.array([[0.5, 0.5, 1e-12]]))[0][0]
    n_tracks = len(SIZES)
    assert_allclose(values[0], first + n_tracks * np.log(0.7), rtol=1e-9)


def test_memory_does_not_grow_with_points_times_tracks(monkeypatch):
    from driftbayes.inference import _density as module

    monkeypatch.setattr(module, "_SUM_BYTES", 8 * len(SIZES) * 2 * 4)
    seen = []
    found = density("brownian*2", tracks())
    forms = FilterEngine.slot_forms

    def watched(self, formulas):
        seen.append(formulas.n_rows)
        return forms(self, formulas)

    theta = np.random.default_rng(2).uniform(0.1, 0.9, size=(30, 3))
    together = found.terms(theta)[0]
    monkeypatch.setattr(FilterEngine, "slot_forms", watched)
    assert_allclose(found.terms(theta)[0], together, rtol=1e-14)
    assert max(seen) == 8
    assert sum(seen) == 60
