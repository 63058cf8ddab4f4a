"""Section 5 from the packaged results: numbers, each reached twice where it can be."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from driftbayes.cli.main import main
from driftbayes.errors import DriftbayesError
from driftbayes.reproduce.study import along_tau, log_bayes_factors
from driftbayes.reproduce.turbulence import TurbulenceExperiment, figures
from driftbayes.reproduce.turbulence.analysis import QUANTITIES
from driftbayes.reproduce.turbulence.claims import (
    _energy_drift,
    _taylor_diffusivities,
    claims,
    consistent_from,
    spectrum_slope,
)
from driftbayes.reproduce.turbulence.experiment import PAPER, PUBLISHED, Scaling
from driftbayes.reproduce.turbulence.results import load_results
from driftbayes.reproduce.turbulence.summary import unpack
from driftbayes.turbulence.config import RunConfig


def _late(dataset, name):
    return dataset[name].values[dataset["flow_time"].values >= 500]


# What was run


def test_the_runs_are_the_papers_with_different_seeds(packaged):
    configs = {name: RunConfig.from_json(packaged.config(name)) for name in packaged.realisations}
    assert configs == dict(PAPER.realisations)
    assert len({config.seed for config in configs.values()}) == len(configs) >= 3
    assert "double" in {config.precision for config in configs.values()}
    for config in configs.values():
        assert config.n_steps == 4_000_000
        assert config.particles == 1000


def test_every_data_set_says_where_it_comes_from(packaged):
    for dataset in packaged.realisations.values():
        versions = json.loads(dataset.attrs["versions"])
        assert versions["backend"] == "gpu"
        assert {"jax", "numpy", "driftbayes"} <= versions.keys()
        assert len(dataset.attrs["data_fingerprint"]) == 16
    assert len({d.attrs["data_fingerprint"] for d in packaged.realisations.values()}) == 4


def test_a_directory_without_results_is_refused(tmp_path):
    with pytest.raises(DriftbayesError, match="no results in"):
        load_results(tmp_path)


# The flow: ranges of the notes


def test_energy_enstrophy_and_kurtosis_are_as_expected_and_do_not_drift(packaged, analysis):
    for dataset in packaged.realisations.values():
        assert abs(_late(dataset, "energy_mean").mean() - 0.220) < 0.005
        assert abs(_late(dataset, "enstrophy_mean").mean() - 142) < 6
        assert 0.18 < _late(dataset, "cfl").mean() < 0.24
        assert 8 < _late(dataset, "kurtosis_u").mean() < 13
        assert 65 < _late(dataset, "kurtosis_zeta").mean() < 95
    drift = np.array([_energy_drift(r) for r in analysis.realisations])
    assert np.abs(drift).max() < 0.03


def test_the_early_record_is_the_papers(packaged):
    """Energies of the notes: early ones to 2 %, but that at t = 5, where the forcing matters."""
    for dataset in packaged.realisations.values():
        energy = dict(zip(dataset["flow_time"].values, dataset["energy_mean"].values, strict=True))
        assert_allclose([energy[1], energy[2]], [0.4458, 0.3992], rtol=0.02)
        assert_allclose(energy[5], 0.2856, rtol=0.04)
        assert_allclose([energy[10], energy[50], energy[100]], [0.176, 0.158, 0.19], rtol=0.1)


def test_the_budget_of_energy_closes(packaged):
    """What friction and filter take is what the forcing gives, ε = 0.00636."""
    lost = []
    for dataset in packaged.realisations.values():
        mean = dict(zip(dataset["column"].values, dataset["column_mean"].values, strict=True))
        lost.append(mean["energy_linear_rate"] + mean["energy_filter_rate"])
        assert abs(mean["energy_residual_rate"]) < 1e-13
        sd = dict(zip(dataset["column"].values, dataset["column_sd"].values, strict=True))
        error = sd["energy_injection_rate"] / np.sqrt(2501)
        assert abs(mean["energy_injection_rate"] - 0.00636) < 4 * error
    # The kicks' own noise over 500 time units would be 0.3 %.
    assert_allclose(-np.mean(lost), 0.00636, rtol=0.01)


def test_the_spectrum_has_the_expected_slopes_and_no_spike(packaged, analysis):
    for realisation in analysis.realisations:
        assert abs(spectrum_slope(realisation, 10, 60) + 2) < 0.1
        assert abs(spectrum_slope(realisation, 70, 250) + 4.2) < 0.1
        summary = realisation.summary
        energy = summary["energy_spectrum"].values
        # Forcing brightens its ring by less than a half; the published spike is a factor of five.
        assert energy[62:67].max() < 1.5 * np.sqrt(energy[58] * energy[70])
        assert_allclose(energy.sum(), _late(summary, "energy_mean").mean(), rtol=0.01)
        total = summary["enstrophy_spectrum"].values.sum()
        assert_allclose(total, _late(summary, "enstrophy_mean").mean(), rtol=0.01)


def test_the_snapshot_has_the_enstrophy_of_its_instant(packaged):
    for dataset in packaged.realisations.values():
        zeta = dataset["vorticity"].values * dataset["vorticity"].attrs["scale"]
        then = dataset["enstrophy_mean"].values[dataset["flow_time"].values == 500.0]
        assert_allclose(0.5 * np.mean(zeta**2), then, rtol=1e-3)
        assert abs(zeta.mean()) < 1e-3 * zeta.std()


# Particles


def test_moments_agree_with_the_mean_square_displacement(packaged):
    """Two ways to one number: 25 steps of 1000 particles, and all pairs of the record."""
    for dataset in packaged.realisations.values():
        tau = dataset["tau"].values
        moments = unpack(dataset["moment_all"].values)
        n_runs = 1000 * dataset["n_windows"].values
        variance = np.trace(moments, axis1=1, axis2=2) / (n_runs * 25 * 2)
        expected = np.exp(
            np.interp(
                np.log(tau), np.log(dataset["lag"].values[1:]), np.log(dataset["msd"].values[1:])
            )
        )
        assert_allclose(variance, expected, rtol=0.03)


def test_the_variance_of_the_velocity_is_the_energy_of_the_flow(packaged):
    """Particles stay uniform: r(0) per axis is E, less what the recording interval averages out."""
    for name, dataset in packaged.realisations.items():
        r0 = float(dataset["lvaf"].values[0])
        energy = packaged.scaling(name).energy_mean
        assert 0.9 * energy < r0 < energy


def test_taylor_and_brownian_diffusivity_agree(analysis):
    for realisation in analysis.realisations:
        kappa = along_tau(realisation.exact, "brownian", "map", "kappa")[-1]
        k = along_tau(realisation.exact, "langevin", "map", "k")[-1]
        integral, at_tau = _taylor_diffusivities(realisation)
        error = float(realisation.summary["taylor_diffusivity_sd"].values.max())
        assert abs(kappa - at_tau) < 0.02 * at_tau
        assert abs(k - integral) < 3 * error
        assert 0.048 < kappa < 0.052


# Inference


def test_the_published_scaling_gives_the_papers_prior_means():
    assert_allclose(PUBLISHED.u_rms, 0.6805, atol=1e-4)
    assert_allclose(PUBLISHED.eddy_turnover_time, 0.07347, atol=2e-5)
    assert_allclose(PUBLISHED.u_rms**2 * PUBLISHED.eddy_turnover_time, 0.03402, atol=1e-5)
    assert_allclose(Scaling(0.5, 4 * np.pi**2).eddy_turnover_time * 2 * np.pi, 1.0)


def test_parameters_are_in_the_range_of_independent_realisations(analysis):
    """The notes: κ* about 0.050 at τ = 18 to 20, γ* from 1.3 to 2.2 for τ from 3 to 20."""
    tau = analysis.taus
    inside = (tau >= 3) & (tau <= 15)
    for realisation in analysis.realisations:
        kappa = along_tau(realisation.exact, "brownian", "map", "kappa")
        gamma = along_tau(realisation.exact, "langevin", "map", "gamma")
        assert_allclose(kappa[tau > 17], 0.050, rtol=0.04)
        assert np.mean((gamma[inside] > 1.3) & (gamma[inside] < 2.2)) > 0.9


def test_scans_from_the_paper_s_data(analysis):
    assert len(analysis.taus) == 100
    low, high = PAPER.tau_range
    assert low <= analysis.taus[0] < analysis.taus[-1] <= high
    assert_allclose(analysis.taus / 0.02, np.round(analysis.taus / 0.02), atol=1e-9)
    mean, sd = analysis.band(lambda r: log_bayes_factors(r.exact))
    assert mean[0] > 5000
    assert 0 < mean[-1] < 15
    assert sd[0] > 100
    for realisation in analysis.realisations:
        statuses = {
            e.status.value for m in ("brownian", "langevin") for e in realisation.exact.evidences(m)
        }
        assert statuses == {"ok"}
        # Laplace's method is right while γ is well known.
        short = analysis.taus < 50 * PUBLISHED.eddy_turnover_time
        off = log_bayes_factors(realisation.laplace) - log_bayes_factors(realisation.exact)
        assert np.abs(off[short]).max() < 0.02


def test_langevin_is_consistent_where_brownian_is_not(analysis):
    for realisation in analysis.realisations:
        langevin = consistent_from(realisation.exact, "langevin", ["gamma", "k"])
        brownian = consistent_from(realisation.exact, "brownian", ["kappa"])
        assert langevin < 0.7 * brownian
        assert 90 < brownian < 160


def test_particles_of_one_flow_are_worth_fewer(analysis):
    """At large τ the model holds for single particles, and only the shared flow is left."""
    spread = analysis.spread
    kappa = QUANTITIES.index("log_kappa")
    several = spread.n_data_sets >= 8
    large = several & (spread.taus > 40 * PUBLISHED.eddy_turnover_time)
    by_particles = spread.over_particles[kappa] / spread.expected[kappa]
    between_flows = spread.over_flows[kappa] / spread.expected[kappa]
    assert_allclose(np.mean(by_particles[large]), 1.0, atol=0.2)
    assert np.mean(between_flows[large]) > 1.5
    assert (between_flows[spread.taus < 0.2] > 2).all()
    # More caution, less evidence.
    assert (spread.log_bayes_factor_of_flows <= spread.mean_log_bayes_factor).all()
    small = spread.taus < 1
    assert (spread.log_bayes_factor_of_all < spread.log_bayes_factor_of_flows)[small].all()


def test_the_expected_spread_is_the_posterior_s_own(analysis):
    """Draws of Wishart moments against the width of the posterior, which is another derivation."""
    spread = analysis.spread
    places = [int(np.argmin(np.abs(analysis.taus - tau))) for tau in spread.taus]
    for row, (model, name) in enumerate(
        [("brownian", "kappa"), ("langevin", "gamma"), ("langevin", "k")]
    ):
        own = np.mean(
            [
                [r.exact.evidences(model)[i].log_sd[name] for i in places]
                for r in analysis.realisations
            ],
            axis=0,
        )
        narrow = own < 0.1
        # 128 draws: 6 % each; 32 draws: 13 %.
        error = 0.063 if len(analysis.realisations) == 4 else 0.127
        # Brownian draws are of correlated steps, which its posterior ignores.
        if name == "kappa":
            narrow &= spread.taus > 5
        ratio = spread.expected[row][narrow] / own[narrow]
        assert abs(np.mean(ratio) - 1) < 4 * error / np.sqrt(narrow.sum()) + 0.03


# What is written


def test_json_has_what_was_promised(analysis):
    found = TurbulenceExperiment(analysis).to_json()
    content = json.loads(json.dumps(found, allow_nan=False))
    assert len(content["realisations"]) == len(analysis.realisations)
    for realisation in content["realisations"]:
        assert {
            *("seed", "precision", "energy_mean", "enstrophy_mean", "u_rms"),
            *("eddy_turnover_time", "scan"),
        } <= realisation.keys()
        assert len(realisation["scan"]) == 100
        for row in realisation["scan"]:
            assert {
                *("tau", "kappa", "gamma", "gamma_sd", "k"),
                *("log_bayes_factor_laplace", "log_bayes_factor"),
            } <= row.keys()
    for claim in content["claims"]:
        assert claim.keys() == {"claim", "paper", "ours", "agrees"}
        assert claim["agrees"] in ("yes", "no", "in part", "-")


def test_the_verdicts_of_the_table(analysis):
    """A change of any of these is a change of a result, and goes into the changelog."""
    verdicts = {claim.claim: claim.agrees for claim in claims(analysis)}
    against = {claim for claim, agrees in verdicts.items() if agrees == "no"}
    expected = {
        "mean energy and enstrophy per unit area",
        "the data cannot distinguish the two from about 150 τ_ζ on",
        "Laplace's method is accurate",
        "1000 particles count as independent",
    }
    if len(analysis.realisations) == 2:
        # Both of these happen to lose energy.
        expected |= {"the energy is stationary after it"}
    assert {claim.split(" (")[0] for claim in against} == expected
    assert len(verdicts) == 26


def test_the_documentation_has_the_same_table(analysis):
    page = Path(__file__).parents[2] / "docs" / "turbulence-experiment.md"
    text = page.read_text(encoding="utf-8")
    # The page has the numbers of all realisations.
    n_columns = 4 if len(analysis.realisations) == 4 else 2
    for claim in claims(analysis):
        columns = [claim.claim, claim.paper, claim.ours, claim.agrees][:n_columns]
        row = " | ".join(columns).replace("||", "")
        assert f"| {row} |" in text


@pytest.mark.parametrize(
    "drawn",
    [
        {"figure6": figures._lvaf_figure},
        # To draw and save all of them takes most of the time.
        pytest.param({}, marks=pytest.mark.slow),
    ],
    ids=["one", "all"],
)
def test_the_command_writes_everything_and_prints_the_table(
    tmp_path, capsys, monkeypatch, packaged, analysis, drawn
):
    import driftbayes.reproduce.turbulence as module

    numbered = (f"figure{number}" for number in range(3, 10))
    saved = list(drawn) or [*numbered, "flow", "effective", "branches"]
    if drawn:
        monkeypatch.setattr(
            module, "all_figures", lambda found: {name: draw(found) for name, draw in drawn.items()}
        )

    # The analysis is tested above, and takes most of the command's time with what it reads.
    monkeypatch.setattr(module, "load_results", lambda: packaged)
    monkeypatch.setattr(module, "analyse", {packaged: analysis}.__getitem__)
    monkeypatch.setenv("DRIFTBAYES_CACHE", "off")
    assert main(["reproduce", "turbulence", "-o", str(tmp_path / "out"), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content == json.loads((tmp_path / "out" / "turbulence.json").read_text())
    names = {path.name for path in (tmp_path / "out").iterdir()}
    for name in saved:
        assert {f"{name}.png", f"{name}.pdf"} <= names
    assert "turbulence.csv" in names
    assert "scan_seed1_exact.nc" in names
    rows = (tmp_path / "out" / "turbulence.csv").read_text().splitlines()
    assert len(rows) == 1 + len(analysis.realisations) * 100


@pytest.mark.slow
def test_simulating_anew_takes_the_place_of_the_packaged_results(
    tmp_path, capsys, monkeypatch, analysis, packaged
):
    """The way from runs to results is tested at a small size in its own file."""
    import driftbayes.reproduce.turbulence as module

    asked = []
    summaries = {"a": tmp_path / "a.nc"}
    monkeypatch.setattr(module, "simulate", lambda folder, runner: summaries)
    monkeypatch.setattr(
        module, "write_results", lambda made, folder: asked.append((made, folder)) or packaged
    )
    monkeypatch.setattr(module, "analyse", lambda results: analysis)
    monkeypatch.setenv("DRIFTBAYES_CACHE", "off")
    assert main(["reproduce", "turbulence", "-o", str(tmp_path / "out"), "--simulate"]) == 0
    assert asked == [(summaries, tmp_path / "out" / "results")]
    out = capsys.readouterr().out
    assert "claim of section 5" in out
    assert "seed 4: langevin is sampling-time consistent" in out


@pytest.mark.parametrize("experiment", ["turbulence", "discrepancies"])
def test_a_file_in_place_of_the_folder_is_refused_before_the_work(experiment, tmp_path, capsys):
    (tmp_path / "taken").write_text("")
    assert main(["reproduce", experiment, "-o", str(tmp_path / "taken")]) == 2
    assert "is a file, expected a directory" in " ".join(capsys.readouterr().err.split())
