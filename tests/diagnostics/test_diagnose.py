"""The data set of diagnostics as a whole: lags, units, errors, edge cases."""

import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal
from observatory import DT, FIVE_SIGMA, brownian_paths, langevin_lvaf, langevin_msd, langevin_paths

from driftbayes.data._trajectories import Trajectories
from driftbayes.diagnostics import data_scales, diagnose
from driftbayes.errors import DriftbayesError

MODEL = {"gamma": 0.8, "k": 1.7}
STATISTICS = ("lvaf", "msd", "absolute_diffusivity", "taylor_diffusivity", "kurtosis")


@pytest.fixture(scope="module")
def langevin():
    x = langevin_paths(400, 200, 2, dt=DT, seed=0, **MODEL)
    return Trajectories.from_arrays(x, dt=DT, length_unit="km", time_unit="day")


@pytest.fixture(scope="module")
def dataset(langevin):
    return diagnose(langevin)


def test_langevin_data_lie_within_the_error_bars_of_the_model(dataset):
    lag, steps = dataset.lag.values, np.rint(dataset.lag.values / DT)
    msd = langevin_msd(np.where(lag > 0, lag, np.nan), **MODEL)
    every = langevin_lvaf(np.arange(steps[-1] + 1), dt=DT, **MODEL)
    taylor = DT * (np.cumsum(every) - every[0] / 2 - every / 2)
    exact = {
        "lvaf": langevin_lvaf(steps, dt=DT, **MODEL),
        "msd": msd,
        "absolute_diffusivity": msd / (2 * lag + (lag == 0)),
        "taylor_diffusivity": taylor[steps.astype(int)],
        "kurtosis": np.full(len(lag), 3.0),
    }
    for name, truth in exact.items():
        first = 0 if name == "lvaf" else 1
        z = ((dataset[name] - truth) / dataset[f"{name}_sd"]).values[first:]
        assert np.abs(z).max() < FIVE_SIGMA, name
        # Error bars that were far too wide would pass the line above.
        assert np.sqrt(np.mean(z**2)) > 0.1, name


def test_brownian_data_have_a_flat_diffusivity_equal_to_taylors():
    x = brownian_paths(300, 100, 2, kappa=0.6, dt=DT, seed=1)
    found = diagnose(Trajectories.from_arrays(x, dt=DT)).isel(lag=slice(1, None))
    for name in ("absolute_diffusivity", "taylor_diffusivity"):
        assert (abs(found[name] - 0.6) < FIVE_SIGMA * found[f"{name}_sd"]).all()
    assert (abs(found.kurtosis - 3) < FIVE_SIGMA * found.kurtosis_sd).all()


def test_lags_are_distinct_whole_intervals_from_zero_to_a_quarter(dataset, langevin):
    steps = dataset.lag.values / langevin.recording_interval
    assert_allclose(steps, np.rint(steps), atol=1e-9)
    assert (np.diff(steps) > 0.5).all()
    assert steps[0] == 0
    assert np.rint(steps[-1]) == 199 // 4
    assert len(steps) <= 61


def test_everything_is_labelled(dataset, langevin):
    assert set(dataset.data_vars) == {
        *STATISTICS,
        *(f"{name}_sd" for name in STATISTICS),
        "n_pairs",
    }
    units = {name: dataset[name].attrs["units"] for name in ("lag", *STATISTICS, "n_pairs")}
    assert units == {
        "lag": "day",
        "lvaf": "km2 day-2",
        "msd": "km2",
        "absolute_diffusivity": "km2 day-1",
        "taylor_diffusivity": "km2 day-1",
        "kurtosis": "1",
        "n_pairs": "1",
    }
    assert all(dataset[name].attrs["long_name"] for name in dataset.variables)
    assert dataset.attrs["n_trajectories"] == 400
    assert dataset.attrs["n_dim"] == 2
    assert dataset.attrs["data_fingerprint"] == langevin.fingerprint
    assert dataset.attrs["u_rms"] == data_scales(langevin).u_rms
    assert dataset.attrs["timescale"] == data_scales(langevin).timescale
    assert (dataset.attrs["seed"], dataset.attrs["n_resamples"]) == (0, 200)
    assert dataset.attrs["driftbayes_version"]


def test_unknown_units_stay_unknown_and_odd_ones_are_bracketed():
    x = brownian_paths(2, 9, 1, kappa=1.0, dt=1.0, seed=2)
    assert diagnose(Trajectories.from_arrays(x, dt=1.0)).msd.attrs["units"] == ""
    odd = Trajectories.from_arrays(x, dt=1.0, length_unit="cell width", time_unit="s")
    assert diagnose(odd).lvaf.attrs["units"] == "(cell width)2 s-2"


def test_changing_units_changes_only_units(langevin, dataset):
    length, time = 1000.0, 86400.0
    x = langevin.positions.reshape(400, 200, 2)
    other = diagnose(Trajectories.from_arrays(x * length, dt=DT * time))
    powers = {"lvaf": (2, -2), "msd": (2, 0), "kurtosis": (0, 0)}
    for name in STATISTICS:
        a, b = powers.get(name, (2, -1))
        for column in (name, f"{name}_sd"):
            factor = length**a * time**b
            expected = dataset[column].values * factor
            noise = 1e-9 * np.nanmax(np.abs(expected))
            assert_allclose(other[column].values, expected, rtol=1e-6, atol=noise)


def test_what_is_not_defined_at_lag_zero_is_nan_there(dataset):
    first = dataset.isel(lag=0)
    for name in ("msd", "msd_sd", "absolute_diffusivity", "absolute_diffusivity_sd", "kurtosis"):
        assert np.isnan(first[name]), name
    assert np.isfinite(first.lvaf)
    assert first.taylor_diffusivity == 0
    assert first.n_pairs == 400 * 200
    assert np.isfinite(dataset.isel(lag=slice(1, None)).to_array()).all()


def test_one_trajectory_has_values_but_no_error_bars():
    x = brownian_paths(1, 200, 2, kappa=1.0, dt=DT, seed=3)
    found = diagnose(Trajectories.from_arrays(x, dt=DT))
    assert "one trajectory" in found.attrs["error_bars"]
    for name in STATISTICS:
        assert np.isfinite(found[name][1:]).all(), name
        assert np.isnan(found[f"{name}_sd"]).all(), name


def test_one_step_trajectories_have_one_lag():
    x = brownian_paths(50, 2, 2, kappa=1.0, dt=DT, seed=4)
    found = diagnose(Trajectories.from_arrays(x, dt=DT))
    assert_array_equal(found.lag, [0.0, DT])
    assert_array_equal(found.n_pairs, [100, 50])
    assert_allclose(found.lvaf[0] * DT**2, found.msd[1])
    # One velocity each: no pair of them, hence no integral.
    assert np.isnan(found.lvaf[1])
    assert np.isnan(found.taylor_diffusivity[1])
    assert np.isnan(found.taylor_diffusivity_sd[1])


def test_an_integral_over_a_lag_without_pairs_is_unknown_and_so_is_its_error():
    x = brownian_paths(4, 31, 1, kappa=1.0, dt=1.0, seed=7)
    x[:, 2::3] = np.nan
    # Two fixes, one gap: velocities meet at lags 0, 3, 6, ... only.
    found = diagnose(Trajectories.from_arrays(x, dt=1.0))
    assert_array_equal(found.lag[:5], [0, 1, 2, 3, 4])
    assert_array_equal(np.isfinite(found.lvaf[:5]), [True, False, False, True, False])
    assert np.isfinite(found.msd[1:]).all()
    for name in ("taylor_diffusivity", "taylor_diffusivity_sd"):
        assert_array_equal(np.isfinite(found[name][:5]), [True, False, False, False, False])


def test_a_trajectory_of_one_position_adds_nothing():
    x = brownian_paths(5, 30, 2, kappa=1.0, dt=DT, seed=5)
    with_a_lonely_one = Trajectories.from_arrays([*x, np.zeros((1, 2))], dt=DT)
    plain, found = diagnose(Trajectories.from_arrays(x, dt=DT)), diagnose(with_a_lonely_one)
    for name in STATISTICS:
        assert_allclose(found[name], plain[name])


def test_the_order_of_trajectories_does_not_matter():
    x = [t[: 9 + 4 * i] for i, t in enumerate(brownian_paths(6, 40, 2, kappa=1.0, dt=1.0, seed=6))]
    plain = diagnose(Trajectories.from_arrays(x, dt=1.0))
    turned = diagnose(Trajectories.from_arrays(x[::-1], dt=1.0))
    for name in (*STATISTICS, "n_pairs"):
        assert_allclose(turned[name], plain[name], rtol=1e-9, atol=1e-12)


def test_it_is_repeatable_from_its_seed(langevin, dataset):
    xr.testing.assert_identical(diagnose(langevin), dataset)
    other = diagnose(langevin, seed=1)
    assert_array_equal(other.msd, dataset.msd)
    assert (other.msd_sd != dataset.msd_sd)[1:].all()


def test_it_can_be_written_and_read(dataset, tmp_path):
    # NetCDF 3, the strictest about what an attribute may hold.
    dataset.to_netcdf(tmp_path / "diagnostics.nc", engine="scipy")
    with xr.open_dataset(tmp_path / "diagnostics.nc", engine="scipy") as back:
        xr.testing.assert_equal(back, dataset)
        for name in ("data_fingerprint", "error_bars", "u_rms", "seed"):
            assert back.attrs[name] == dataset.attrs[name]


def test_the_largest_lag_can_be_chosen(langevin):
    assert_allclose(diagnose(langevin, max_lag=10 * DT, n_lags=4).lag[-1], 10 * DT)
    assert_allclose(diagnose(langevin, max_lag=199 * DT, n_lags=4).lag[-1], 199 * DT)


@pytest.mark.parametrize("max_lag", [0.0, -1.0, DT / 2, 200 * DT, np.nan, np.inf])
def test_an_impossible_largest_lag_is_refused(langevin, max_lag):
    with pytest.raises(
        DriftbayesError, match=r"max_lag must lie between .* 0\.25 day and .* 49\.75"
    ):
        diagnose(langevin, max_lag=max_lag)


@pytest.mark.parametrize("n_lags", [0, -3, 2.5])
def test_an_impossible_number_of_lags_is_refused(langevin, n_lags):
    with pytest.raises(DriftbayesError, match="n_lags must be a whole number, 1 or more"):
        diagnose(langevin, n_lags=n_lags)


def test_irregular_times_are_refused():
    irregular = Trajectories.from_arrays([[[0.0], [1.0], [3.0]]], times=[[0.0, 1.0, 2.7]])
    with pytest.raises(DriftbayesError, match=r"times are irregular .* diagnostics need regular"):
        diagnose(irregular)


def test_lonely_positions_are_refused():
    with pytest.raises(DriftbayesError, match="no trajectory has two positions"):
        diagnose(Trajectories.from_arrays([np.zeros((1, 2)), np.ones((1, 2))], dt=1.0))
