"""Maps by evidence: constant parameters stay whole, varying ones are found, errors are right."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import earth
from driftbayes import (
    Displacements,
    DriftbayesError,
    Trajectories,
    compare_hypotheses,
    displacements,
)
from driftbayes._representation import describe
from driftbayes.comparison import make_hypotheses
from driftbayes.data.sphere import on_plane
from driftbayes.space import map_tree
from driftbayes.space._cells import box_around, interleave

HOUR = 3600.0
N_DIVIDED = 200


def hypotheses(*names, u_rms=0.02, timescale=1.0):
    return make_hypotheses(names, u_rms=u_rms, timescale=timescale).hypotheses


def brownian(kappa, n=60, n_steps=15, seed=0):
    """Tracks in the unit square; `kappa` is a function of the position at which a step begins."""
    rng = np.random.default_rng(seed)
    x = np.empty((n, n_steps + 1, 2))
    x[:, 0] = rng.uniform(0, 1, (n, 2))
    for i in range(n_steps):
        size = np.sqrt(2 * kappa(x[:, i]))[:, None]
        x[:, i + 1] = x[:, i] + size * rng.standard_normal((n, 2))
    return Trajectories.from_arrays(x, dt=1.0)


def constant(x):
    return np.full(len(x), 2e-4)


def halves(x):
    return np.where(x[:, 0] < 0.5, 1e-4, 5e-4)


def centres(found, axis):
    """Middles of the cells of the finest grid along one axis."""
    edges = found.box.edges(found.levels.depth)[axis]
    return 0.5 * (edges[1:] + edges[:-1])


@pytest.fixture(scope="module")
def divided():
    tracks = brownian(halves, n=N_DIVIDED)
    return map_tree(tracks, hypotheses("brownian+mean", "langevin+mean"), 1.0)


def test_constant_parameters_are_not_divided():
    models = hypotheses("brownian")
    for seed in range(4):
        found = map_tree(brownian(constant, seed=seed), models, 1.0, depth=4, scatter=False)
        assert found.log_bayes_factor_inhomogeneous < -3
        assert found.probability_homogeneous > 0.95


@pytest.mark.slow
def test_two_hundred_sets_with_constant_parameters_are_not_divided():
    models = hypotheses("brownian")
    divided = [
        1
        - map_tree(
            brownian(constant, seed=s), models, 1.0, depth=5, scatter=False
        ).probability_homogeneous
        for s in range(200)
    ]
    assert max(divided) < 0.5
    assert np.mean(divided) < 0.005


def test_two_halves_are_found(divided):
    assert divided.best == "brownian+mean"
    assert divided.log_bayes_factor_inhomogeneous > 100
    assert divided.probability_homogeneous < 1e-40
    mean, sd, _ = divided.averaged("brownian+mean")["kappa"]
    x = centres(divided, 0)
    for inside, truth in ((x < 0.45, 1e-4), (x > 0.55, 5e-4)):
        middle = mean[:, inside]
        there = np.isfinite(middle)
        z = (middle - truth)[there] / sd[:, inside][there]
        assert np.abs(np.median(middle[there]) / truth - 1) < 0.1
        assert np.mean(np.abs(z) < 2) > 0.8


def test_the_whole_region_has_the_evidence_of_a_comparison(divided):
    data = displacements(brownian(halves, n=N_DIVIDED), 1.0)
    found = compare_hypotheses([t.hypothesis for t in divided.models.values()], data)
    for name, tree in divided.models.items():
        assert_allclose(tree.log_evidence_homogeneous, found[name].log_evidence, atol=1e-3)


def test_probabilities_and_bayes_factors_agree(divided):
    for tree in divided.models.values():
        k, p = tree.log_bayes_factor_inhomogeneous, divided.split
        assert_allclose(
            tree.log_evidence,
            tree.log_evidence_homogeneous + np.logaddexp(np.log(1 - p), np.log(p) + k),
            rtol=1e-13,
        )
        assert_allclose(tree.probability_homogeneous, 1 / (1 + np.exp(k)), atol=1e-12)
        # Every step is in one leaf.
        steps = sum(p @ n for p, n in zip(tree.prunings.leaf, divided.n_steps, strict=True))
        assert_allclose(steps, N_DIVIDED * 15, rtol=1e-10)
    both = divided.to_json()
    assert both["log_bayes_factor_inhomogeneous"] > 100
    assert both["rivals"]["particles"]["brownian+mean"] > 0
    assert set(both["rivals"]["scatter"]) == {"brownian+scatter", "langevin+scatter"}


@pytest.mark.slow
def test_errors_are_calibrated_for_maps_from_the_prior():
    """Regions divided and diffusivities drawn as the prior says: errors are as large as stated.

    Then the mean square of the difference from the truth is the mean of the stated variance, and
    the mean probability of a division is its prior probability.
    """
    rng = np.random.default_rng(5)
    (model,) = make_hypotheses(["brownian"], u_rms=0.1, timescale=0.01).hypotheses
    scale = float(model.priors["kappa"].scale)
    squares, variances, chances = [], [], []
    n_sets, n_steps = 25, 400
    for _ in range(n_sets):
        truth = np.full((4, 4), rng.exponential(scale))
        if rng.random() < 0.5:
            for i in range(2):
                for j in range(2):
                    block = truth[2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
                    block[:] = rng.exponential(scale)
                    if rng.random() < 0.5:
                        block[:] = rng.exponential(scale, (2, 2))
        start = np.concatenate([[[0.0, 0.0], [1.0, 1.0]], rng.uniform(0, 1, (n_steps, 2))])
        row, column = (np.minimum(4 * start[:, a], 3).astype(int) for a in (1, 0))
        size = np.sqrt(2 * truth[row, column])[:, None]
        x = np.stack([start, start + size * rng.standard_normal(start.shape)], axis=1)
        tracks = Trajectories.from_arrays(x, dt=1.0)
        found = map_tree(tracks, [model], 1.0, depth=2, scatter=False)
        mean, sd, _ = found.averaged("brownian")["kappa"]
        squares.append(np.mean((mean - truth) ** 2))
        variances.append(np.mean(sd**2))
        chances.append(1 - found.probability_homogeneous)
    ratio = np.mean(squares) / np.mean(variances)
    spread = np.std(np.array(squares) - np.array(variances)) / np.sqrt(n_sets)
    assert abs(np.mean(squares) - np.mean(variances)) < 4 * spread
    assert 0.6 < ratio < 1.6
    assert abs(np.mean(chances) - 0.5) < 4 * 0.5 / np.sqrt(n_sets)


def test_variation_within_cells_of_a_gradient_is_seen():
    """Of a constant gradient g over a side L, the variance is g² L² / 12."""
    rng = np.random.default_rng(2)
    start = np.concatenate([[[0.0, 0.0], [1.0, 1.0]], rng.uniform(0, 1, (40_000, 2))])
    kappa = 1e-4 * (1 + start[:, 0])
    x = np.stack([start, start + np.sqrt(2 * kappa)[:, None] * rng.normal(size=start.shape)], 1)
    found = map_tree(
        Trajectories.from_arrays(x, dt=1.0), hypotheses("brownian"), 1.0, depth=1, scatter=False
    )
    variation = found._variation(found["brownian"].leaves)[0, 0]
    assert_allclose(np.sqrt(variation), 1e-4 / np.sqrt(12), rtol=0.1)


@pytest.mark.slow
def test_a_shear_flow_is_resolved_or_disperses():
    """U sin ky: a map of the flow at a short time, Taylor's diffusivity at a long one."""
    rng = np.random.default_rng(1)
    u, kappa, dt, n, every = 1.0, 0.05, 0.02, 150, 5
    k = 2 * np.pi
    x = np.empty((n, 1001, 2))
    here = rng.uniform(0, 1, (n, 2)) * [1.0, 1.0]
    x[:, 0] = here
    for i in range(every * 1000):
        kick = np.sqrt(2 * kappa * dt) * rng.standard_normal((n, 2))
        # The flow half-way along the kick.
        here[:, 0] += u * np.sin(k * (here[:, 1] + 0.5 * kick[:, 1])) * dt
        here = here + kick
        if i % every == every - 1:
            x[:, i // every + 1] = here
    tracks = Trajectories.from_arrays(x, dt=every * dt)
    taylor = kappa + u**2 / (2 * kappa * k**2)
    long = map_tree(
        tracks,
        hypotheses("brownian+anisotropic", u_rms=0.7, timescale=1.0),
        10.0,
        depth=1,
        scatter=False,
    )
    tree = long["brownian+anisotropic"]
    parts = zip(tree.leaves.quantities, tree.leaves.mean[:, 0], tree.leaves.sd[:, 0], strict=True)
    found = {quantity.name: both for quantity, *both in parts}
    for name, truth in (("K_11", taylor), ("K_12", 0.0), ("K_22", kappa)):
        mean, sd = found[name]
        # The part of the variance that has not yet grown linearly is 1/(κ k² τ) of U²/(2κk²).
        late = (taylor - kappa) / (kappa * k**2 * 10.0) if name == "K_11" else 0.0
        assert abs(mean - (truth - late)) < 4 * sd
    assert long.probability_homogeneous > 0.9
    # In a strip of half a wavelength the flow is resolved.
    short = Trajectories.from_arrays(_within_strip(rng, u, k, kappa), dt=0.02)
    found = map_tree(
        short, hypotheses("brownian+mean", u_rms=1.0, timescale=0.1), 0.02, depth=4, scatter=False
    )
    flow, error, within = found.averaged("brownian+mean")["flow_1"]
    assert found.probability_homogeneous < 1e-10
    y = centres(found, 1)
    truth = np.broadcast_to(u * np.sin(k * y)[:, None], flow.shape)
    there = np.isfinite(flow)
    z = (flow - truth)[there] / np.hypot(error, within)[there]
    assert np.sqrt(np.mean((flow - truth)[there] ** 2)) < 0.25 * u
    assert np.mean(np.abs(z) < 2) > 0.8


def _within_strip(rng, u, k, kappa):
    start = rng.uniform(0, 1, (20_000, 2))
    kick = np.sqrt(2 * kappa * 0.02) * 0.1 * rng.standard_normal((20_000, 2))
    kick[:, 0] += u * np.sin(k * start[:, 1]) * 0.02
    return np.stack([start, start + kick], axis=1)


def test_the_map_as_a_dataset(divided):
    dataset = divided.to_dataset()
    assert dataset.attrs["Conventions"] == "CF-1.11"
    assert_allclose(
        dataset.attrs["log_bayes_factor_inhomogeneous"], divided.log_bayes_factor_inhomogeneous
    )
    assert int(dataset["n_steps"].sum()) == N_DIVIDED * 15
    for name in (
        "kappa",
        "kappa_sd",
        "kappa_within",
        "flow_1",
        "flow_2_sd",
        "cell_side",
        "no_data",
    ):
        assert dataset[f"brownian_mean_{name}"].dims == ("tau", "y", "x")
    times = dataset["langevin_mean_memory_time"].values
    assert (times[np.isfinite(times)] > 0).all()
    side = dataset["brownian_mean_cell_side"].values
    assert (side <= divided.attributes["side"] * (1 + 1e-9)).all()
    assert (side >= divided.attributes["side"] / 2**divided.levels.depth * (1 - 1e-9)).all()


def test_the_description_says_what_is_confounded(divided):
    text = str(divided)
    assert "very strong evidence for parameters that vary in space" in text
    assert "place, season and population are confounded" in " ".join(text.split())
    assert "separate parameters for each particle" in text
    card = describe(divided)
    assert any("same priors in all cells" in value for _, value in card.facts)


def test_seasons_are_compared_where_times_are_dates():
    """Diffusivity that differs between winter and summer, and not between places."""
    rng = np.random.default_rng(4)
    day = 86400.0
    kappa = np.where(np.arange(360) < 60, 100.0, 1000.0)
    size = np.sqrt(2 * kappa * day)[None, :, None]
    steps = size * rng.standard_normal((10, 360, 2))
    x = np.concatenate([rng.uniform(0, 1e6, (10, 1, 2)), steps], axis=1).cumsum(axis=1)
    origin = {"time_origin": "2020-01-01T00:00:00"}
    units = {"length_unit": "m", "time_unit": "s"}
    tracks = Trajectories.from_arrays(x, dt=day, provenance=origin, **units)
    models = hypotheses("brownian", u_rms=0.1, timescale=day)
    found = map_tree(tracks, models, day, scatter=False)
    constant = found["brownian"].log_evidence_homogeneous
    assert found.rivals["seasons"]["brownian"] > constant + 100
    whole = Trajectories.from_arrays(x, dt=day, **units)
    assert "seasons" not in map_tree(whole, models, day, scatter=False).rivals
    # Each season by itself, cut out of the displacements.
    data = displacements(tracks, day)
    months = (np.datetime64("2020-01-01") + np.tile(np.arange(360), 10)).astype("M8[M]")
    season = (months.astype(int) % 12 + 1) % 12 // 3
    parts = [data.dx[season == s] for s in range(4)]
    known = [
        compare_hypotheses(models, Displacements.from_array(part[:, None], day))["brownian"]
        for part in parts
    ]
    total = sum(record.log_evidence for record in known)
    assert_allclose(found.rivals["seasons"]["brownian"], total, rtol=1e-9)
    assert "separate parameters for each season" in str(found)


@pytest.mark.parametrize("kind", ["season", "place"])
def test_season_and_place_are_told_apart(kind):
    """Places gain where κ changes by season, since each has its share of the year, but less."""
    rng = np.random.default_rng(5)
    day = 86400.0
    x = np.empty((12, 361, 2))
    x[:, 0] = rng.uniform(-5e5, 5e5, (12, 2))
    for i in range(360):
        is_large = np.full(12, i >= 180) if kind == "season" else x[:, i, 0] > 0
        size = np.sqrt(2 * np.where(is_large, 2000.0, 500.0) * day)
        x[:, i + 1] = x[:, i] + size[:, None] * rng.standard_normal((12, 2))
    tracks = Trajectories.from_arrays(
        x,
        dt=day,
        provenance={"time_origin": "2020-01-01T00:00:00"},
        length_unit="m",
        time_unit="s",
    )
    models = hypotheses("brownian", u_rms=0.1, timescale=day)
    found = map_tree(tracks, models, day, depth=4, scatter=False)
    place = found["brownian"].log_evidence
    season = found.rivals["seasons"]["brownian"]
    if kind == "season":
        assert season > place + 100
    else:
        assert season < found["brownian"].log_evidence_homogeneous
        assert place > season + 100


def test_particles_that_move_together_are_reported():
    rng = np.random.default_rng(0)
    shared = np.sqrt(2 * 2e-4) * rng.standard_normal((1, 60, 2))
    own = 0.1 * np.sqrt(2 * 2e-4) * rng.standard_normal((15, 60, 2))
    start = rng.uniform(0, 1, (15, 1, 2))
    x = np.concatenate([start, shared + own], axis=1).cumsum(axis=1)
    together = Trajectories.from_arrays(x, dt=1.0)
    found = map_tree(together, hypotheses("brownian"), 1.0, scatter=False)
    assert found.to_json()["dependence"] is not None
    assert "so ln K is overstated" in " ".join(str(found).split())
    alone = map_tree(brownian(constant), hypotheses("brownian"), 1.0, scatter=False)
    assert alone.to_json()["dependence"] is None
    assert "overstated" not in str(alone)


def test_a_plane_is_used_where_positions_are_on_one():
    """A file may have x and y beside degrees: positions are then on its own plane."""
    rng = np.random.default_rng(0)
    plane = brownian(constant)
    degrees = rng.uniform(0, 1, plane.positions.shape)
    both = replace(plane, lonlat=degrees)
    found, known = (
        map_tree(tracks, hypotheses("brownian"), 1.0, scatter=False) for tracks in (both, plane)
    )
    assert not found.box.is_lonlat
    assert found.log_bayes_factor_inhomogeneous == known.log_bayes_factor_inhomogeneous


def test_a_rival_that_takes_too_long_is_named(monkeypatch):
    monkeypatch.setattr("driftbayes.space._tree._MAX_SCATTERED", (100, 100))
    found = map_tree(brownian(constant), hypotheses("brownian"), 1.0)
    assert set(found.rivals) == {"particles"}
    assert "(+scatter) were not compared" in " ".join(str(found).split())


def test_numbers_of_cells():
    column, row = np.array([0, 1, 0, 1, 3]), np.array([0, 0, 1, 1, 2])
    assert interleave(column, row, 2).tolist() == [0, 1, 2, 3, 13]


# Data that are hard to map


def test_places_around_the_date_line_are_one_region():
    lon = np.array([175.0, 179.5, -179.0, -176.0])
    box = box_around(np.stack([lon, np.full(4, 10.0) + np.arange(4)], 1), is_lonlat=True)
    assert 170 < box.low[0] < 180
    assert box.size[0] < 12
    assert abs(box.low[0] + 0.5 * box.size[0] - 179.5) < 1e-6
    codes = box.codes(np.stack([lon, np.full(4, 11.5)], 1), 3) & 0b010101
    assert len(np.unique(codes)) == 4


def drifters(first_lon, lat=10.0, seed=0):
    """Brownian drifters, faster in the east, for 20 hours."""
    rng = np.random.default_rng(seed)
    n, n_steps = 60, 20
    lon, lats = first_lon + rng.uniform(0, 4, n), lat + rng.uniform(0, 4, n)
    kappa = np.where(lon < first_lon + 2, 200.0, 2000.0)
    moves = rng.normal(0, np.sqrt(2 * kappa * HOUR)[:, None, None], (n, n_steps, 2)) / 111_195.0
    path = np.concatenate([np.zeros((n, 1, 2)), np.cumsum(moves, axis=1)], axis=1)
    path[..., 0] /= np.cos(np.radians(lats))[:, None]
    path += np.stack([lon, lats], axis=-1)[:, None]
    path[..., 0] = (path[..., 0] + 180) % 360 - 180
    return on_plane(Trajectories.from_arrays(path, dt=HOUR, time_unit="s"))


def test_a_map_across_the_date_line_is_that_elsewhere():
    models = hypotheses("brownian+mean", u_rms=0.5, timescale=HOUR)
    there, here = (
        map_tree(drifters(first), models, HOUR, depth=3, scatter=False) for first in (178.0, 20.0)
    )
    assert there.box.is_lonlat
    assert_allclose(
        there.log_bayes_factor_inhomogeneous, here.log_bayes_factor_inhomogeneous, rtol=1e-6
    )
    assert there.log_bayes_factor_inhomogeneous > 50
    for a, b in zip(
        there.averaged("brownian+mean")["kappa"],
        here.averaged("brownian+mean")["kappa"],
        strict=True,
    ):
        assert_allclose(a, b, rtol=1e-5)
    assert (np.diff(there.to_dataset()["x"].values) > 0).all()


def test_a_map_around_a_pole_is_on_a_plane():
    rng = np.random.default_rng(0)
    n, n_steps = 50, 20
    lonlat = np.stack([rng.uniform(-180, 180, n), rng.uniform(84, 89.9, n)], axis=-1)
    p = earth.points(lonlat)
    path = [p]
    for _ in range(n_steps):
        v = rng.normal(0, 2000.0, p.shape)
        v -= np.sum(v * path[-1], axis=-1, keepdims=True) * path[-1]
        path.append(earth.moved(path[-1], v))
    degrees = np.moveaxis(earth.lonlat_of(np.array(path)), 0, 1)
    tracks = on_plane(
        Trajectories.from_arrays(degrees, dt=HOUR, time_unit="s"), frame="transported"
    )
    found = map_tree(tracks, hypotheses("brownian", u_rms=0.8, timescale=HOUR), HOUR, depth=3)
    assert not found.box.is_lonlat
    assert found.probability_homogeneous > 0.9
    dataset = found.to_dataset()
    assert dataset["plane"].attrs["grid_mapping_name"] == "azimuthal_equidistant"
    assert dataset["plane"].attrs["latitude_of_projection_origin"] == 90.0
    assert 1e6 < found.attributes["side"] < 2e6


def test_all_at_one_place_is_refused():
    rng = np.random.default_rng(0)
    x = np.stack([np.zeros((30, 2)), rng.normal(size=(30, 2))], axis=1)
    with pytest.raises(DriftbayesError, match="all steps begin at the same position"):
        map_tree(Trajectories.from_arrays(x, dt=1.0), hypotheses("brownian"), 1.0)


def test_a_region_that_one_step_crosses_is_refused():
    rng = np.random.default_rng(0)
    start = rng.uniform(0, 1, (50, 2))
    x = np.stack([start, start + rng.normal(0, 5, (50, 2))], axis=1)
    tracks = Trajectories.from_arrays(x, dt=1.0)
    with pytest.raises(DriftbayesError, match="cells cannot be distinguished"):
        map_tree(tracks, hypotheses("brownian"), 1.0)
    assert map_tree(tracks, hypotheses("brownian"), 1.0, depth=1).levels.depth == 1


def test_data_in_one_cell_and_a_cell_with_one_step_work():
    tracks = brownian(constant, n=20)
    far = np.array([[[9.0, 9.0], [9.01, 9.02]]])
    x = [*(tracks.positions[16 * i : 16 * i + 16] for i in range(20)), far[0]]
    found = map_tree(Trajectories.from_arrays(x, dt=1.0), hypotheses("brownian+mean"), 1.0, depth=4)
    assert found.n_steps[1].min() == 1
    assert np.isfinite(found.log_bayes_factor_inhomogeneous)
    few = map_tree(brownian(constant, n=2, n_steps=2), hypotheses("brownian"), 1.0)
    assert few.levels.depth == 0
    assert few.probability_homogeneous == 1.0
    assert "too few steps to divide" in str(few)
    assert few.to_dataset()["brownian_kappa"].size == 1


def test_resting_particles_are_refused():
    x = np.broadcast_to(np.random.default_rng(0).uniform(0, 1, (20, 1, 2)), (20, 5, 2))
    with pytest.raises(
        DriftbayesError, match="displacements are zero: no diffusivity can be inferred"
    ):
        map_tree(Trajectories.from_arrays(np.array(x), dt=1.0), hypotheses("brownian"), 1.0)


def test_options_that_do_not_fit_are_refused():
    tracks = brownian(constant)
    models = hypotheses("brownian")
    with pytest.raises(DriftbayesError, match="depth must be a whole number from 1 to 10, got 11"):
        map_tree(tracks, models, 1.0, depth=11)
    with pytest.raises(DriftbayesError, match="between 0 and 1, got 1"):
        map_tree(tracks, models, 1.0, split=1.0)
    solid = Trajectories.from_arrays(np.random.default_rng(0).normal(size=(5, 5, 3)), dt=1.0)
    with pytest.raises(DriftbayesError, match="two dimensions, got 3"):
        map_tree(solid, models, 1.0)
    noisy = Trajectories.from_arrays(
        np.random.default_rng(0).normal(size=(5, 5, 2)), dt=1.0, position_sd=np.full((5, 5), 0.1)
    )
    with pytest.raises(DriftbayesError, match="needs exact positions"):
        map_tree(noisy, models, 1.0)
    with pytest.raises(DriftbayesError, match="one sampling time, got 2"):
        tracks.map([1.0, 2.0], models=models)
    with pytest.raises(DriftbayesError, match="seasons is for a fixed grid"):
        tracks.map(1.0, seasons=True, models=models)
