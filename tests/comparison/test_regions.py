"""Maps: each cell gets its own windows, and what was put into it comes out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import earth
from driftbayes import DriftbayesError, Trajectories, compare_hypotheses, displacements
from driftbayes.comparison import make_hypotheses, regions
from driftbayes.comparison.regions import map_regions
from driftbayes.data._sampling import subset
from driftbayes.data.sphere import on_plane

HOUR, DEGREE = 3600.0, 111_000.0


def drifters(kappa_west=100.0, kappa_east=900.0, n=200, n_steps=60, first_lon=-10.0, seed=0):
    """Brownian drifters that diffuse faster in the east; hourly, in degrees near 40 N."""
    rng = np.random.default_rng(seed)
    lon = first_lon + rng.uniform(0, 20, n)
    kappa = np.where(lon < first_lon + 10, kappa_west, kappa_east)
    steps = rng.normal(0, np.sqrt(2 * kappa * HOUR)[:, None, None], (n, n_steps, 2))
    lat = 40 + np.concatenate([np.zeros((n, 1)), np.cumsum(steps[..., 1], axis=1)], 1) / DEGREE
    width = DEGREE * np.cos(np.radians(40))
    moved = np.concatenate([np.zeros((n, 1)), np.cumsum(steps[..., 0], axis=1)], 1) / width
    lon = (lon[:, None] + moved + 180) % 360 - 180
    tracks = Trajectories.from_arrays(np.stack([lon, lat], axis=-1), dt=HOUR, time_unit="s")
    return on_plane(tracks)


def hypotheses(*names):
    return make_hypotheses(names, u_rms=0.3, timescale=HOUR).hypotheses


@pytest.fixture(scope="module")
def mapped():
    return map_regions(
        drifters(),
        hypotheses("brownian", "langevin"),
        cell=10.0,
        taus=[HOUR, 2 * HOUR],
        n_tau=10,
        min_windows=20,
    )


def test_each_half_has_its_own_diffusivity(mapped):
    kappa, sd = mapped["brownian_kappa"], mapped["brownian_kappa_sd"]
    for centre, truth in ((-5.0, 100.0), (5.0, 900.0)):
        here = dict(x=centre, tau=HOUR, season="all")
        values = kappa.sel(here).values.ravel()
        errors = sd.sel(here).values.ravel()
        there = np.isfinite(values)
        assert there.any()
        # A few drifters cross from one half into the other and keep their own diffusivity.
        assert (np.abs(values[there] - truth) < 5 * errors[there] + 0.02 * truth).all()
    assert (
        mapped["log_k_langevin_over_brownian"]
        .sel(tau=HOUR)
        .values[mapped["n_windows"].sel(tau=HOUR).values >= 100]
        < 0
    ).all()


def test_windows_are_counted_once_and_small_cells_left_empty(mapped):
    assert_array_equal(mapped["n_windows"].sum(["x", "y", "season"]), [200 * 6, 200 * 3])
    empty = mapped["n_windows"] < 20
    assert_array_equal(np.isnan(mapped["brownian_kappa"]), empty)
    assert set(mapped["brownian_kappa"].attrs) >= {"units", "long_name"}
    assert mapped["brownian_kappa"].attrs["units"] == "m²/s"
    assert mapped["x"].attrs["standard_name"] == "longitude"


def test_a_cell_says_what_a_comparison_of_its_windows_says():
    tracks = drifters(n=60)
    models = hypotheses("brownian", "brownian+mean")
    found = map_regions(tracks, models, cell=10.0, taus=[HOUR], n_tau=10)
    data = displacements(tracks, HOUR, n_tau=10, windows="all")
    here = tracks.lonlat[data.start_row]
    keep = (here[:, 0] >= -10) & (here[:, 0] < 0) & (here[:, 1] >= 40) & (here[:, 1] < 50)
    single = compare_hypotheses(models, subset(data, keep))
    cell = found.sel(x=-5.0, y=45.0, tau=HOUR, season="all")
    assert cell["n_windows"] == keep.sum()
    assert_allclose(
        cell["log_k_brownian_mean_over_brownian"],
        single.log_bayes_factors["brownian+mean:brownian"],
        rtol=1e-9,
    )
    assert_allclose(
        cell["brownian_mean_kappa"],
        single.evidences["brownian+mean"].posterior_mean["kappa"],
        rtol=1e-9,
    )


def test_positions_in_a_cell_are_those_around_its_middle(monkeypatch):
    # Two seas a third of the earth apart: on one tangent plane, both would be turned.
    both = np.concatenate([earth.drifters(lon, 55.0, n=30, n_steps=10) for lon in (-60.0, 60.0)])
    tracks = on_plane(Trajectories.from_arrays(both, dt=HOUR), radius=earth.R)
    seen = []

    def capture(parts, *_, **__):
        seen.extend(parts)
        raise DriftbayesError("enough")

    monkeypatch.setattr(regions, "scan_displacements", capture)
    with pytest.raises(DriftbayesError, match="enough"):
        map_regions(tracks, hypotheses("brownian+linear"), cell=30.0, taus=[HOUR], min_windows=1)
    assert len(seen) >= 2
    for part in seen:
        p = earth.points(part.start_lonlat)
        middle = earth.lonlat_of(p.mean(axis=0))
        assert_allclose(part.start, earth.on_tangent_plane(p, *middle), atol=1e-3)


def test_the_dateline_is_a_place_like_any_other():
    west = map_regions(drifters(), hypotheses("brownian"), cell=10.0, taus=[HOUR])
    over = map_regions(drifters(first_lon=170.0), hypotheses("brownian"), cell=10.0, taus=[HOUR])
    assert over.sizes["x"] == west.sizes["x"]
    kappa = over["brownian_kappa"].isel(tau=0, season=0)
    assert_allclose(
        kappa.sel(x=[-185.0, -175.0]).values,
        west["brownian_kappa"].isel(tau=0, season=0).sel(x=[-5.0, 5.0]).values,
        rtol=1e-6,
    )


def test_seasons_are_kept_apart():
    tracks = drifters(n=40, n_steps=24)
    with pytest.raises(DriftbayesError, match="seasons need times in seconds with a known origin"):
        map_regions(tracks, hypotheses("brownian"), cell=20.0, taus=[HOUR], seasons=True)
    # Half of them in January, half in July.
    shifted = np.where(tracks.trajectory_index < 20, 0.0, 182 * 86400.0)
    dated = Trajectories(
        **{
            **{name: getattr(tracks, name) for name in tracks.__dataclass_fields__},
            "times": tracks.times + shifted,
            "provenance": {**tracks.provenance, "time_origin": "2020-01-15T00:00:00"},
        }
    )
    found = map_regions(
        dated, hypotheses("brownian"), cell=20.0, taus=[HOUR], seasons=True, min_windows=5
    )
    windows = found["n_windows"].sum(["tau", "x", "y"])
    assert_array_equal(windows.sel(season=["DJF", "MAM", "JJA", "SON"]), [40, 0, 40, 0])


def test_a_plane_is_mapped_in_its_own_unit():
    rng = np.random.default_rng(1)
    x = np.cumsum(rng.normal(size=(30, 41, 2)), axis=1) + rng.uniform(0, 100, (30, 1, 2))
    tracks = Trajectories.from_arrays(x, dt=1.0, length_unit="µm", time_unit="s")
    found = map_regions(tracks, hypotheses("brownian"), cell=50.0, taus=[1.0], min_windows=10)
    assert found["x"].attrs["units"] == "µm"
    assert found["n_windows"].sum() == 30 * 4
    assert abs(float(found["brownian_kappa"].mean()) - 0.5) < 0.1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cell": 0.0}, "the side of a cell must be positive"),
        ({"cell": 1e-3}, "more than 200,000; use larger cells"),
        ({"cell": 10.0, "min_windows": 10**6}, "no cell holds 1000000 windows of 10 steps"),
        ({"cell": 10.0, "min_windows": 0}, "min_windows must be a whole number, 1 or more"),
    ],
)
def test_what_cannot_be_mapped_is_refused(options, message):
    with pytest.raises(DriftbayesError, match=message):
        map_regions(drifters(n=20), hypotheses("brownian"), taus=[HOUR], **options)
