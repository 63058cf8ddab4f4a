"""Probability of presence: conserved, equal to known Gaussians, and right on the earth."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from dense_motion import Motion
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal, norm

import driftbayes as db
from driftbayes.data.sphere import between, metres_per_degree
from driftbayes.errors import DriftbayesError, DriftbayesWarning
from driftbayes.inference import PosteriorDraws
from driftbayes.models import MODELS, model_named
from driftbayes.prediction import _presence as presence
from driftbayes.prediction._forecast import gaussians
from driftbayes.prediction._presence import Gaussians, presence_map
from driftbayes.priors import Exponential
from made import made_evidence

TIMES = np.array([0.5, 2.0])


def some(seed=0, n_draws=3, n_particles=5, n_horizons=2, spread=3.0):
    rng = np.random.default_rng(seed)
    weights = rng.uniform(size=n_draws)
    return Gaussians(
        spread * rng.normal(size=(n_draws, n_particles, n_horizons, 2)),
        rng.uniform(0.3, 1.5, (n_draws, n_particles, n_horizons)),
        weights / weights.sum(),
    )


@pytest.mark.parametrize("reach", [0.3, 1.0, 4.0])
def test_cells_and_what_is_outside_sum_to_one(monkeypatch, reach):
    monkeypatch.setattr(presence, "_REACH", reach)
    found = presence_map(some(), TIMES, np.zeros((5, 2)))
    assert (found.probability >= 0).all()
    assert_allclose(found.probability.sum(axis=(1, 2)) + found.outside, 1, rtol=1e-12)
    assert (found.outside > 1e-3).all() == (reach < 4)


def test_a_cell_holds_the_integral_of_the_densities():
    found = some(n_draws=2, n_particles=2, n_horizons=1)
    result = presence_map(found, TIMES[:1], np.zeros((2, 2)), cell=0.05)
    x, y = (0.5 * (edges[1:] + edges[:-1]) for edges in result.edges)
    xy = np.stack(np.meshgrid(x, y), axis=-1)
    density = sum(
        found.weights[m]
        / 2
        * multivariate_normal(found.means[m, p, 0], found.sds[m, p, 0] ** 2).pdf(xy)
        for m in range(2)
        for p in range(2)
    )
    # By the midpoint rule, of second order in the side.
    assert_allclose(result.probability[0], density * 0.05**2, atol=4e-3 * 0.05**2 * density.max())


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_regions_of_one_gaussian_have_the_area_of_its_ellipse(level):
    one = Gaussians(np.zeros((1, 1, 1, 2)), np.full((1, 1, 1), 2.0), np.ones(1))
    result = presence_map(one, TIMES[:1], np.zeros((1, 2)), cell=0.05)
    area = -2 * np.log(1 - level) * np.pi * 4.0
    assert_allclose(result.region_areas(level), area, rtol=2e-3)
    inside = result.probability[result.level < level].sum()
    assert_allclose(inside, level, atol=2e-4)


@pytest.mark.parametrize("name", ["brownian", "langevin", "langevin+noise"])
def test_gaussians_are_the_conditional_ones_given_the_track(name):
    theta = {"kappa": 0.7, "k": 1.2, "gamma": 0.9, "sigma": 0.4}
    family = model_named(name, MODELS)
    values = {n: theta[n] for n in family.parameters}
    x = np.cumsum(np.random.default_rng(1).normal(size=(3, 6, 2)), axis=1)
    times = 0.5 * np.arange(6)
    frame = pd.DataFrame(
        {
            "id": np.repeat(np.arange(3), 6),
            "time": np.tile(times, 3),
            "x": x[..., 0].ravel(),
            "y": x[..., 1].ravel(),
        }
    )
    tracks = db.Trajectories.from_dataframe(frame)
    hypothesis = db.Hypothesis(family, **{n: Exponential(1.0) for n in values})
    point = np.array([[values[n] for n in hypothesis.names]])
    draws = PosteriorDraws(
        hypothesis, point, np.zeros(1), replace(made_evidence(), hypothesis=hypothesis), 0
    )
    found = gaussians([draws], tracks, TIMES, tau=0.5, probabilities=[1.0])
    for p in range(3):
        mean, cov = Motion(name, values).future(times, x[p], np.zeros(6), TIMES)
        assert_allclose(found.means[0, p], mean, rtol=1e-7, atol=1e-7)
        assert_allclose(found.sds[0, p] ** 2, np.diag(cov), rtol=1e-7)


def drifters(lon, lat, n=6, n_fixes=40, kappa=500.0, seed=2):
    """Brownian drifters around a place, every hour."""
    rng = np.random.default_rng(seed)
    steps = rng.normal(0, np.sqrt(2 * kappa * 3600), (n, n_fixes, 2)).cumsum(axis=1)
    steps += rng.normal(0, 3e4, (n, 1, 2))
    frame = pd.DataFrame(
        {
            "id": np.repeat(np.arange(n), n_fixes),
            "time": np.tile(3600.0 * np.arange(n_fixes), n),
            "lon": ((lon + steps[..., 0] / (111e3 * np.cos(np.radians(lat)))).ravel() + 180) % 360
            - 180,
            "lat": (lat + steps[..., 1] / 111e3).ravel(),
        }
    )
    scales = db.Scales(u_rms=0.5, time=3600.0)
    return db.predict(
        db.read(frame), 3600.0, [86400.0], models="brownian", scales=scales, n_draws=60
    )


@pytest.mark.parametrize(
    "place", [pytest.param((20.0, 10.0), marks=pytest.mark.slow), (179.9, 50.0)]
)
def test_on_the_earth_it_is_the_histogram_of_members(place):
    made = drifters(*place)
    found = made.presence("0.05deg", n_draws=60)
    assert found.in_degrees
    assert_allclose(found.probability.sum() + found.outside, 1, rtol=1e-12)
    members = made.particles(1500)
    lonlat = members.lonlat[:, :, 1].reshape(-1, 2).copy()
    middle = found.edges[0].mean()
    lonlat[:, 0] = (lonlat[:, 0] - middle + 180) % 360 - 180 + middle
    counts = np.histogram2d(*lonlat.T, bins=found.edges)[0].T

    def coarse(table):
        """Cells of five by five, which hold many members each."""
        rows, columns = (size // 5 * 5 for size in table.shape)
        return table[:rows, :columns].reshape(rows // 5, 5, columns // 5, 5).sum(axis=(1, 3))

    expected = coarse(found.probability[0]) * len(lonlat)
    seen = coarse(counts)[expected > 50]
    expected = expected[expected > 50]
    chi2 = np.sum((seen - expected) ** 2 / expected) / len(expected)
    # Members share 60 draws and six last positions; binomial scatter dominates all the same.
    assert chi2 < 1.5, chi2
    # The test can fail: a map twice as wide does not fit.
    assert np.abs(seen - expected).sum() / len(lonlat) < 0.05


def test_a_map_that_reaches_a_pole_is_refused_and_a_wide_one_told():
    with pytest.raises(DriftbayesError, match="may reach a pole"):
        drifters(0.0, 89.5).presence()
    made = drifters(0.0, 75.0, kappa=5e5)
    with pytest.warns(DriftbayesWarning, match="a degree of longitude changes by"):
        made.presence()


def test_longitudes_come_round_the_earth():
    made = drifters(30.0 * np.arange(12)[:, None], 10.0, n=12, kappa=2e6)
    found = made.presence("2deg", n_draws=60)
    edges = found.edges[0]
    assert_allclose(np.ptp(edges), 360)
    assert_allclose(found.probability.sum() + found.outside, 1, rtol=1e-12)
    # A Brownian particle is normal about its last position, and that comes round.
    kappa = made.draws[0].theta[:, 0]
    expected = np.zeros(len(edges) - 1)
    for lon, lat in found.last:
        sd = np.sqrt(2 * kappa * 86400.0) / metres_per_degree(lat)[0]
        for turn in 360.0 * np.arange(-2, 3):
            expected += np.diff(norm.cdf(edges[:, None], lon + turn, sd), axis=0).mean(axis=1) / 12
    assert_allclose(found.probability[0].sum(axis=0), expected, rtol=1e-3)


def test_a_degree_is_as_long_as_the_steps_on_the_ellipsoid_say():
    for lat in (0.0, 35.0, -72.0):
        for radius in (None, 6.371e6):
            start = np.radians([20.0, lat])
            ends = np.radians([[20.001, lat], [20.0, lat + 0.001]])
            arc, _, _ = between(start, ends, radius)
            assert_allclose(arc, 0.001 * np.array(metres_per_degree(lat, radius)), rtol=1e-4)


@pytest.mark.parametrize(
    ("cell", "message"),
    [("3", None), (-1.0, "positive"), (1e-6, "more than 200,000"), ("1deg", "is an angle")],
)
def test_cells_are_checked(cell, message):
    x = np.cumsum(np.random.default_rng(1).normal(size=(3, 20, 2)), axis=1)
    frame = pd.DataFrame(
        {
            "id": np.repeat(np.arange(3), 20),
            "time": np.tile(np.arange(20.0), 3),
            "x": x[..., 0].ravel(),
            "y": x[..., 1].ravel(),
        }
    )
    made = db.predict(
        db.Trajectories.from_dataframe(frame),
        1.0,
        [4.0],
        models="brownian",
        scales=db.Scales(u_rms=1.0, time=1.0),
        n_draws=20,
    )
    if message is None:
        found = made.presence(cell, n_draws=20)
        assert_allclose(np.diff(found.edges[0]), 3.0)
        assert found.n_draws == 20
        return
    with pytest.raises(DriftbayesError, match=message):
        made.presence(cell)
