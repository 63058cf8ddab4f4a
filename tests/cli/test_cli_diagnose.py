"""`driftbayes diagnose`: what the data say before any model."""

import pytest
from numpy.testing import assert_allclose, assert_array_equal

from driftbayes.diagnostics import diagnose
from driftbayes.io import read_dataset, read_trajectories


@pytest.fixture(scope="module")
def expected(tracks_csv):
    return diagnose(read_trajectories(tracks_csv), n_lags=60, seed=0)


def test_json_holds_what_the_library_finds(ask, tracks_csv, expected):
    answer = ask("diagnose", tracks_csv, "--json")
    assert (answer.code, answer.err) == (0, "")
    found = answer.json
    assert set(found) == {"attributes", "lag", *map(str, expected.data_vars)}
    for name in ("lag", *expected.data_vars):
        assert_array_equal(
            [float("nan") if value is None else value for value in found[str(name)]],
            expected[name].values,
        )
    assert found["attributes"]["u_rms"] == expected.attrs["u_rms"]


def test_people_get_a_table(ask, tracks_csv, expected):
    answer = ask("diagnose", tracks_csv)
    assert answer.code == 0
    first = answer.out.splitlines()[0]
    assert first.startswith(f"Diagnostics: u_rms = {expected.attrs['u_rms']:.4g}, T = ")
    assert "Var(Δx_i) = 2κτ per axis" in answer.out
    for column in ("lag", "κ_abs", "∫r", "MSD", "kurtosis"):
        assert column in answer.out


def test_the_file_holds_the_same(ask, tracks_csv, tmp_path, expected):
    path = tmp_path / "diagnostics.nc"
    answer = ask("diagnose", tracks_csv, "-o", path)
    assert answer.err == f"wrote {path}\n"
    dataset = read_dataset(path, kind="diagnostics")
    assert_array_equal(dataset["lvaf"], expected["lvaf"])
    assert_array_equal(dataset["msd_sd"], expected["msd_sd"])


def test_the_velocity_forgets_as_the_model_does(ask, tracks_csv):
    # r(lag)/r(0) of the Langevin model is e^-lag, nearly so for velocities over 0.1.
    found = ask("diagnose", tracks_csv, "--json").json
    ratio = found["lvaf"][2] / found["lvaf"][1]
    assert_allclose(ratio, 0.905, atol=0.05)


def test_the_seed_moves_error_bars_and_nothing_else(ask, tracks_csv):
    one, same, other = (
        ask("diagnose", tracks_csv, "--seed", seed, "--json").json for seed in (1, 1, 2)
    )
    assert one == same
    assert one["msd"] == other["msd"]
    assert one["msd_sd"] != other["msd_sd"]


def test_lags_are_chosen(ask, tracks_csv):
    found = ask("diagnose", tracks_csv, "--max-lag", "0.5", "--json").json
    assert_allclose(max(found["lag"]), 0.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--seed", "-1"), "seed must be a whole number, 0 or more, got -1"),
        (("--lags", "0"), "n_lags must be a whole number, 1 or more, got 0"),
        (("--max-lag", "nan"), "max_lag must lie between the recording interval 0.1 and the "),
        (("-o", "diagnostics.txt"), "results are NetCDF files: expected a name ending in .nc, "),
        (("-o", "no/such/d.nc"), "cannot write 'no/such/d.nc': its directory does not exist; "),
    ],
)
def test_slips_are_answered_in_one_line(ask, tracks_csv, options, message):
    answer = ask("diagnose", tracks_csv, *options)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"driftbayes: {message}")
    assert answer.err.count("\n") == 1
