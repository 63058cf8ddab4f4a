"""Files of other programs, cut by `tools/make_format_samples.py`: their known answers come out."""

from pathlib import Path

import h5py
import numpy as np
import pytest
from scipy.optimize import brentq

from driftbayes.io import read_trajectories, write_trajectories

DATA = Path(__file__).parent / "data"
# A Monte Carlo estimate may stray by this many of its standard errors.
STANDARD_ERRORS = 4.0
HOUR = 3600.0


def increments(tracks):
    """Displacements between successive rows, and the trajectory of each."""
    same = np.diff(tracks.trajectory_index) == 0
    return np.diff(tracks.positions, axis=0)[same], tracks.trajectory_index[1:][same]


def langevin_moments(tracks, chosen):
    """The velocity's standard deviation and decorrelation time, from hourly steps.

    With x = τ/T and g(x) = x - 1 + exp(-x) the variance of a step is 2σ²T² g(x). That of the
    difference between neighbouring steps is 2σ²T² (4g(x) - g(2x)): it tells T from σ.
    """

    def shape(x):
        return x + np.expm1(-x)

    steps, owner = increments(tracks)
    of_steps = np.mean(steps[np.isin(owner, chosen)] ** 2)
    neighbours = (owner[1:] == owner[:-1]) & np.isin(owner[1:], chosen)
    of_differences = np.mean(np.diff(steps, axis=0)[neighbours] ** 2)
    x = brentq(lambda x: 4 - shape(2 * x) / shape(x) - of_differences / of_steps, 1e-4, 10.0)
    return np.array([np.sqrt(of_steps * x**2 / (2 * HOUR**2 * shape(x))), HOUR / x])


@pytest.mark.parametrize("name", ["v3_brownian_flat.zarr", "v4_brownian_flat.parquet"])
def test_flat_parcels_diffuse_with_100_square_metres_per_second(name):
    tracks = read_trajectories(DATA / name)
    assert (tracks.n_trajectories, tracks.length_unit, tracks.time_unit) == (48, "m", "s")
    assert tracks.recording_interval == HOUR
    steps, _ = increments(tracks)
    kappa = np.mean(steps**2) / (2 * HOUR)
    # The relative error of a variance of n normal numbers is √(2/n).
    error = 100 * np.sqrt(2 / steps.size)
    assert abs(kappa - 100) < STANDARD_ERRORS * error
    assert error < 3
    assert tracks.lonlat is None


def test_padding_of_parcels_is_no_gap():
    tracks = read_trajectories(DATA / "v3_brownian_flat.zarr")
    assert (tracks.row_sizes == 48).all()
    assert tracks.observed.all()


def test_two_releases_of_parcels_and_deleted_particles_keep_their_own_times():
    tracks = read_trajectories(DATA / "v3_eddies_spherical.zarr")
    starts = tracks.times[tracks.starts[:-1]]
    assert np.unique(starts - starts.min()).tolist() == [0.0, 5 * 24 * HOUR]
    assert tracks.row_sizes.tolist() == [232, 232, 223, 88, 175, 192, 192, 175, 134, 58]
    assert np.abs(tracks.lonlat[:, 1]).max() < 90


def test_parcels_4_is_the_same_as_a_table_and_converted_to_zarr():
    table = read_trajectories(DATA / "v4_eddies_spherical.parquet")
    store = read_trajectories(DATA / "v4_eddies_as_v3.zarr")
    assert table.fingerprint == store.fingerprint
    assert table.ids.tolist() == store.ids.tolist()


def test_the_three_containers_of_clouddrift_hold_the_same_trajectories():
    nc, store, table = (
        read_trajectories(DATA / f"ragged_langevin{suffix}")
        for suffix in (".nc", ".zarr", ".parquet")
    )
    assert nc.fingerprint == store.fingerprint == table.fingerprint
    assert nc.ids.tolist() == store.ids.tolist() == table.ids.tolist()
    assert nc.lonlat.tobytes() == store.lonlat.tobytes() == table.lonlat.tobytes()
    assert nc.provenance["reader"] == table.provenance["reader"] == "clouddrift"
    assert (nc.row_sizes == 60 + 4 * np.arange(25)).all()


def test_the_velocity_of_clouddrift_drifters_has_the_moments_it_was_made_with():
    tracks = read_trajectories(DATA / "ragged_langevin.nc")
    everyone = np.arange(tracks.n_trajectories)
    estimate = langevin_moments(tracks, everyone)
    left_out = np.array([langevin_moments(tracks, np.delete(everyone, i)) for i in everyone])
    n = len(everyone)
    # The jackknife: trajectories are independent, their steps are not.
    error = np.sqrt((n - 1) / n * np.sum((left_out - left_out.mean(axis=0)) ** 2, axis=0))
    truth = np.array([0.20, 48 * HOUR])
    assert (np.abs(estimate - truth) < STANDARD_ERRORS * error).all()
    assert (error < 0.25 * truth).all()


def test_steps_on_the_plane_are_those_of_the_velocities_in_the_file():
    # A second way to the same displacements: the file's own velocities, from before the projection.
    tracks = read_trajectories(DATA / "ragged_langevin.nc")
    with h5py.File(DATA / "ragged_langevin.nc") as raw:
        velocity = np.column_stack([raw["ve"][:], raw["vn"][:]]).astype(float)
    same = np.diff(tracks.trajectory_index) == 0
    middle = 0.5 * (velocity[1:] + velocity[:-1])[same]
    steps, _ = increments(tracks)
    assert np.corrcoef(steps[:, 0], middle[:, 0])[0, 1] > 0.99
    slopes = np.sum(steps * middle, axis=0) / np.sum(middle**2, axis=0)
    np.testing.assert_allclose(slopes, HOUR, rtol=0.02)


def test_late_seeding_and_deactivation_of_opendrift_are_no_positions():
    tracks = read_trajectories(DATA / "oceandrift_eddy.nc")
    assert tracks.provenance["reader"] == "opendrift"
    assert tracks.observed.all()
    # Seeded at once and retired after nine days, or seeded after two days and never retired.
    assert tracks.row_sizes.tolist() == [216] * 7 + [193] * 7
    starts = tracks.times[tracks.starts[:-1]]
    assert (starts - starts[0]).tolist() == [0.0] * 7 + [48 * HOUR] * 7
    # 2015-01-01
    assert starts[0] == 1420070400.0


def test_opendrift_diffuses_with_20_square_metres_per_second_around_its_current():
    tracks = read_trajectories(DATA / "oceandrift_eddy.nc")
    with h5py.File(DATA / "oceandrift_eddy.nc") as raw:
        there = np.isfinite(raw["lon"][:])
        velocity = np.column_stack(
            [raw[f"{axis}_sea_water_velocity"][:][there] for axis in "xy"]
        ).astype(float)
    same = np.diff(tracks.trajectory_index) == 0
    # Two Euler steps of half an hour: the second with the velocity half way.
    current = (0.75 * velocity[:-1] + 0.25 * velocity[1:])[same]
    steps, _ = increments(tracks)
    rest = steps - current * HOUR
    kappa = np.mean(rest**2) / (2 * HOUR)
    error = 20 * np.sqrt(2 / rest.size)
    assert abs(kappa - 20) < STANDARD_ERRORS * error
    assert error < 0.5


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".nc", ".zarr"])
@pytest.mark.parametrize("sample", ["ragged_langevin.parquet", "oceandrift_eddy.nc"])
def test_what_was_read_can_be_written_and_read_again(tmp_path, sample, suffix):
    tracks = read_trajectories(DATA / sample)
    write_trajectories(tracks, tmp_path / f"a{suffix}")
    units = {"length_unit": "m", "time_unit": "s"} if suffix == ".csv" else {}
    again = read_trajectories(tmp_path / f"a{suffix}", **units)
    assert again.fingerprint == tracks.fingerprint
    assert again.lonlat.tobytes() == tracks.lonlat.tobytes()
