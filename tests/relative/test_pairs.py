"""Pairs: how they are found, what they tell of known laws, and what is refused."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import kstest

import driftbayes as db
from driftbayes._representation import describe
from driftbayes.cli.main import main
from driftbayes.comparison import compare_hypotheses
from driftbayes.data import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.relative import (
    Separations,
    compare_pairs,
    log_separation_density,
    pair_statistics,
    replicate,
    separations,
)
from driftbayes.relative._describe import pair_scan_panels
from driftbayes.relative._models import law_hypotheses

KAPPA, TAU = 0.1, 0.1


def chains(xi, n_pairs, n_steps, rng, n_dim=2):
    """Separations by the law itself: a squared Bessel process, sampled exactly."""
    r = np.ones(n_pairs)
    out = [r]
    h = 2 - xi
    for _ in range(n_steps):
        if h == 0:
            kick = np.sqrt(2 * KAPPA * TAU) * rng.normal(size=n_pairs)
            r = r * np.exp(KAPPA * n_dim * TAU + kick)
        else:
            scale = 2 / (KAPPA * h**2)
            y = TAU * rng.noncentral_chisquare(2 * n_dim / h, scale * r**h / TAU)
            r = (y / scale) ** (1 / h)
        out.append(r)
    return np.array(out).T


def separations_of(r):
    n_pairs, n_steps = r.shape[0], r.shape[1] - 1
    first, last = r[:, :-1].ravel(), r[:, 1:].ravel()
    return Separations(
        first,
        last,
        np.full(first.size, TAU),
        (last - first) ** 2 + 2 * KAPPA * TAU,
        np.repeat(np.arange(n_pairs), n_steps),
        np.arange(2 * n_pairs).reshape(-1, 2),
        TAU,
        2,
    )


def tracks_of(r):
    """Two tracks for each pair, its first particle at rest far from all other pairs."""
    x = []
    for i, chain in enumerate(r):
        place = np.tile([1000.0 * i, 0.0], (len(chain), 1))
        x += [place, place + np.column_stack([chain, np.zeros(len(chain))])]
    return Trajectories.from_arrays(x, dt=TAU)


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("xi", "law"), [(0.0, "rayleigh"), (4 / 3, "richardson"), (1.0, "power"), (2.0, "lundgren")]
)
def test_the_law_of_simulated_pairs_is_found(xi, law):
    r = chains(xi, 100, 20, np.random.default_rng(1))
    result = compare_pairs(tracks_of(r), TAU, within=2.0)
    assert result.data.n_pairs == 100
    assert result.comparison.best == law
    own = result.coefficients["power"]
    assert abs(own["xi"][0] - xi) < 4 * own["xi"][1] + 0.05
    kappa, sd = result.coefficients[law]["kappa"]
    assert abs(kappa - KAPPA) < 4 * sd


@pytest.mark.slow
def test_intervals_of_the_exponent_hold_their_level():
    rng = np.random.default_rng(7)
    inside = []
    for _ in range(100):
        xi = rng.uniform(0.2, 1.8)
        data = separations_of(chains(xi, 40, 20, rng))
        found = compare_hypotheses(law_hypotheses(["power"], data), data)["power"]
        low, high = found.parameters["xi"].interval
        inside.append(low < xi < high)
    # 95 of 100, within four standard errors.
    assert abs(np.mean(inside) - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 100)


def test_units_change_nothing_but_the_constant():
    r = chains(1.0, 20, 10, np.random.default_rng(2))
    small, large = separations_of(r), separations_of(1000 * r)
    large = Separations(**{**vars(large), "moved": 1e6 * small.moved})
    one, other = (compare_hypotheses(law_hypotheses("all", data), data) for data in (small, large))
    for name, record in one.evidences.items():
        constant = len(small.first) * np.log(1000)
        assert_allclose(other[name].log_evidence, record.log_evidence - constant, atol=1e-6)


def test_every_number_is_printed_with_its_unit():
    tracks = tracks_of(chains(0.0, 6, 40, np.random.default_rng(5)))
    named = db.Trajectories.from_arrays(
        np.stack([tracks[i].positions for i in range(len(tracks))]),
        dt=TAU,
        length_unit="km",
        time_unit="d",
    )
    text = str(compare_pairs(named, TAU, models="rayleigh, power"))
    assert "K(r) of rayleigh" in text
    assert "K(r) of power" in text
    assert "richardson" not in text
    for unit in ("(km²/d²)", "(km²/d)", "(1/d)", "km^(2-ξ)/d"):
        assert unit in text


def test_no_particle_is_in_two_pairs_and_the_closest_go_first():
    x = np.array([0.0, 1.0, 1.4, 9.0])
    tracks = Trajectories.from_arrays(
        [np.column_stack([np.full(3, v), (i + 1) * np.arange(3.0)]) for i, v in enumerate(x)],
        dt=1.0,
    )
    assert separations(tracks, 1.0).members.tolist() == [[1, 2], [0, 3]]
    assert separations(tracks, 1.0, within=2.0).members.tolist() == [[1, 2]]


def test_in_a_periodic_domain_pairs_begin_with_the_nearest_images():
    tracks = tracks_of(chains(1.0, 10, 12, np.random.default_rng(9)))
    x = [tracks.positions[a:b].copy() for a, b in itertools.pairwise(tracks.starts)]
    for i, path in enumerate(x):
        path[:, 1] += 5000.0 * (i % 2) - 3000.0 * (i % 3)
    moved = Trajectories.from_arrays(x, dt=TAU)
    # Periods of 1000 in y: shifts by whole periods change nothing.
    folded = replace(moved, provenance={**moved.provenance, "unwrapped": [None, 1000.0]})
    for within in (2.0, None):
        known = separations(tracks, TAU, within=within)
        found = separations(folded, TAU, within=within)
        assert found.members.tolist() == known.members.tolist()
        assert_allclose(found.last, known.last, rtol=1e-9)
        assert_allclose(found.moved, known.moved, rtol=1e-6, atol=1e-12)
    with pytest.raises(DriftbayesError, match="no two particles come within 2 of each other"):
        separations(moved, TAU, within=2.0)
    with pytest.raises(DriftbayesError, match=r"no two particles come within 0\.001 of each other"):
        separations(folded, TAU, within=0.001)


def test_a_missing_position_is_spanned_by_a_longer_step():
    times = [np.arange(4.0), np.array([0.0, 1.0, 3.0])]
    x = [np.zeros((4, 2)), np.array([[1.0, 0.0], [2.0, 0.0], [5.0, 0.0]])]
    found = separations(Trajectories.from_arrays(x, times=times), 1.0)
    assert found.first.tolist() == [1.0, 2.0]
    assert found.last.tolist() == [2.0, 5.0]
    assert found.interval.tolist() == [1.0, 2.0]


def test_distances_on_the_earth_are_along_it(tmp_path):
    path = tmp_path / "earth.csv"
    rows = ["id,time,lon,lat"]
    for name, lat in (("a", 60.0), ("b", 60.1)):
        rows += [
            f"{name},{t},{179.95 + 0.05 * t},{lat + 0.01 * t * (name == 'b')}" for t in range(3)
        ]
    path.write_text("\n".join(rows))
    found = separations(db.read(path), 1.0)
    # A degree of latitude at 60° on WGS 84.
    assert_allclose(found.first, 111412.0 * np.array([0.1, 0.11]), rtol=2e-5)


@pytest.mark.parametrize(
    ("times", "x", "options", "message"),
    [
        ([np.arange(3.0)], [np.ones((3, 2))], {}, "pairs need two particles or more"),
        (
            [np.arange(3.0), np.arange(3.0)],
            [np.zeros((3, 2)), np.zeros((3, 2))],
            {},
            "are at the same position",
        ),
        (
            [np.arange(3.0), np.arange(3.0)],
            [np.zeros((3, 2)), np.ones((3, 2))],
            {"within": 0.5},
            "no two particles come within 0.5 of each other; the closest are 1.414 apart",
        ),
        (
            [np.arange(3.0), 10 + np.arange(3.0)],
            [np.zeros((3, 2)), np.ones((3, 2))],
            {},
            "no two particles are observed together at two times, tau = 1 or a multiple apart",
        ),
        (
            [np.arange(3.0), 10 + np.arange(3.0)],
            [np.zeros((3, 2)), np.ones((3, 2))],
            {"within": 2.0},
            "no two particles are observed together at two times",
        ),
        (
            [np.arange(3.0), np.arange(3.0)],
            [np.zeros((3, 2)), np.ones((3, 2))],
            {"within": -1.0},
            "must be positive",
        ),
    ],
)
def test_bad_data_get_one_sentence(times, x, options, message):
    with pytest.raises(DriftbayesError, match=message):
        separations(Trajectories.from_arrays(x, times=times), 1.0, **options)


def test_statistics_of_diffusing_pairs_are_those_of_theory():
    # Pairs of particles that diffuse: ⟨|Δr|²⟩ = 4Kτ, ½ d⟨r²⟩/dt = 2K, whatever the separation.
    rng = np.random.default_rng(3)
    n, steps = 400, 50
    x = np.cumsum(rng.normal(size=(2 * n, steps, 2)), axis=1)
    x[:, :, 0] += np.repeat(1e4 * np.arange(n), 2)[:, None]
    x[1::2, :, 1] += 5.0
    tracks = Trajectories.from_arrays(x, dt=1.0)
    found = pair_statistics(separations(tracks, 1.0, within=1e3))
    for name, known in (("structure", 4.0), ("diffusivity", 2.0)):
        value, error = found.values[name], found.errors[name]
        good = np.isfinite(error) & (found.n_steps > 200)
        assert good.sum() > 5
        assert np.all(np.abs(value - known)[good] < 4.5 * error[good])


def test_lyapunov_exponent_of_exponential_growth_is_its_rate():
    r = np.exp(0.3 * np.arange(30) * TAU) * np.linspace(1.0, 1.4, 10)[:, None]
    found = pair_statistics(separations_of(r))
    known = np.isfinite(found.values["fsle"])
    assert_allclose(found.values["fsle"][known], 0.3, rtol=1e-9)
    assert known.any()


def test_the_command_prints_the_promised_json(tmp_path, capsys):
    path = tmp_path / "pairs.csv"
    tracks = tracks_of(chains(4 / 3, 30, 10, np.random.default_rng(4)))
    tracks.to_dataframe().to_csv(path, index=False)
    assert main(["pairs", str(path), "--tau", "0.1", "--within", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["n_pairs"] == 30
    assert found["tau"] == 0.1
    assert set(found["models"]) == {"rayleigh", "richardson", "lundgren", "power"}
    for record in found["models"].values():
        assert {"log_evidence", "log_evidence_err", "status"} <= set(record)
        for key in ("posterior_mean", "posterior_sd"):
            assert {"xi", "kappa"} <= set(record[key])
    assert found["models"]["richardson"]["posterior_mean"]["xi"] == 4 / 3
    assert "favoured" in found["verdict"] or "indistinguishable" in found["verdict"]


@pytest.fixture(scope="module")
def local():
    """A scan of pairs with ξ = 1."""
    tracks = tracks_of(chains(1.0, 30, 16, np.random.default_rng(5)))
    return tracks.pairs([0.1, 0.2, 0.4, 99.0], within=2.0, models=["rayleigh", "power"])


def test_a_scan_states_the_diffusivity_at_one_separation(local):
    scan = local.scan
    assert scan.taus.tolist() == pytest.approx([0.1, 0.2, 0.4])
    assert [round(tau, 9) for tau in scan.skipped] == [99.0]
    values = [record.parameters["K"] for record in scan.evidences("power")]
    assert all(abs(v.mean - values[0].mean) < 4 * (v.sd + values[0].sd) for v in values)


def test_a_scan_states_where_the_exponent_does_not_depend_on_tau(local):
    found = local.scan.consistency["power"]["xi"]
    assert (found.tau_min, found.tau_max) == pytest.approx((0.1, 0.4))
    assert abs(found.value - 1.0) < 4 * found.sd
    card = describe(local)
    assert card.kind == "Relative dispersion"
    assert any("power is sampling-time consistent" in text for text in card.sentences)
    rows = local.to_json()
    assert [row["n_pairs"] for row in rows] == [30, 30, 30]
    assert rows[0]["consistency"]["power"]["xi"]["n_taus"] == 3
    assert set(rows[0]["models"]["power"]["posterior_mean"]) == {"xi", "K", "kappa"}


def test_the_panels_show_evidence_exponent_and_statistics_beside_the_fitted_law(local):
    panels = {panel.name: panel for panel in pair_scan_panels(local)}
    assert list(panels)[:3] == ["pairs_evidence", "pairs_parameter_xi", "pairs_parameter_K"]
    logs = np.array([c.evidences["rayleigh"].log_evidence for c in local.scan.comparisons])
    rayleigh, power = panels["pairs_evidence"].curves
    assert_allclose(np.maximum(rayleigh.y, power.y), 0.0, atol=1e-12)
    assert_allclose(
        rayleigh.y - power.y,
        logs - [e.log_evidence for e in local.scan.evidences("power")],
        atol=1e-9,
    )
    xi = panels["pairs_parameter_xi"]
    assert xi.reference == (0.0, 4 / 3, 2.0)
    assert xi.curves[0].strong.all()
    for name in ("dispersion", "longitudinal", "diffusivity", "fsle"):
        data, fitted = panels[f"pairs_{name}"].curves
        assert (data.kind, fitted.kind, fitted.label) == ("points", "dashed", "power, fitted")
        known = np.isfinite(data.y) & np.isfinite(data.low) & np.isfinite(fitted.y)
        assert known.sum() >= 2
        inside = (data.low <= fitted.y) & (fitted.y <= data.high)
        # The law that the pairs were drawn from is within most of the 95 % errors.
        assert inside[known].mean() > 0.6, name
    # The vector between particles is not part of the laws.
    assert len(panels["pairs_structure"].curves) == 1


def test_replicas_are_drawn_from_the_density():
    data = separations_of(chains(1.0, 1, 1, np.random.default_rng(0)))
    grid = np.linspace(1e-4, 4.0, 40_001)
    for xi in (0.0, 0.7, 4 / 3, 1.9, 2.0):
        drawn = replicate(data, xi, KAPPA, n_copies=4000, seed=1).last
        density = np.exp(
            log_separation_density(np.ones_like(grid), grid, np.full_like(grid, TAU), xi, KAPPA, 2)
        )
        cdf = np.concatenate([[0.0], np.cumsum(0.5 * np.diff(grid) * (density[1:] + density[:-1]))])
        assert abs(cdf[-1] - 1) < 1e-6
        assert kstest(np.interp(drawn, grid, cdf), "uniform").pvalue > 1e-3


@pytest.mark.parametrize("xi", [0.0, 2.0])
def test_relative_dispersion_is_that_of_theory(xi):
    # ⟨r²⟩ = r_0² + 2dKt for diffusion, and r_0² exp(2(d + 2)κt) for Lundgren's law.
    data = separations_of(chains(xi, 40, 30, np.random.default_rng(1)))
    drawn = replicate(replace(data, reference=1.0), xi, KAPPA, n_copies=150, seed=2)
    found = pair_statistics(drawn, n_replicates=30)
    t = found.times
    assert (t[0], t[-1]) == pytest.approx((0.0, 3.0))
    known = 1 + 4 * KAPPA * t if xi == 0.0 else np.exp(8 * KAPPA * t)
    assert_allclose(found.dispersion[0], 1.0)
    assert np.all(np.abs(found.dispersion - known)[1:] < 4.5 * found.dispersion_err[1:])
    assert np.isnan(found.values["structure"]).all()


def test_relative_dispersion_is_over_the_pairs_that_are_seen():
    times = [np.arange(4.0), np.array([0.0, 1.0, 3.0]), np.arange(3.0), np.arange(3.0)]
    x = [np.zeros((4, 2)), np.array([[1.0, 0.0], [2.0, 0.0], [5.0, 0.0]])]
    far = np.full((3, 2), 100.0)
    x += [far, far + np.array([[0.0, 3.0], [0.0, 4.0], [0.0, 6.0]])]
    found = pair_statistics(separations(Trajectories.from_arrays(x, times=times), 1.0))
    assert found.times.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert found.dispersion.tolist() == [5.0, 10.0, 36.0, 25.0]


@pytest.mark.slow
def test_the_command_scans_by_itself_and_writes_a_figure(tmp_path, capsys):
    path, picture = tmp_path / "pairs.csv", tmp_path / "pairs.png"
    tracks = tracks_of(chains(1.0, 10, 12, np.random.default_rng(6)))
    tracks.to_dataframe().to_csv(path, index=False)
    given = ["pairs", str(path), "--within", "2", "--models", "rayleigh,power"]
    assert main([*given, "--figure", str(picture)]) == 0
    assert "Relative dispersion: 10 pairs" in capsys.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert main([*given, "--tau", "0.1", "--taus", "0.1,0.2"]) == 2
    assert "--tau and --taus exclude each other" in capsys.readouterr().err
    assert main([*given, "--tau", "0.15"]) == 2
    assert "whole multiple of the recording interval" in capsys.readouterr().err


@pytest.mark.slow
def test_a_report_has_a_section_on_pairs(tmp_path, capsys):
    path, page = tmp_path / "pairs.csv", tmp_path / "pairs.html"
    r, turn = chains(1.0, 12, 20, np.random.default_rng(8)), np.arange(12.0)
    apart = 0.5 * r[..., None] * np.stack([np.cos(turn), np.sin(turn)], axis=-1)[:, None]
    place = np.column_stack([1000 * turn, turn])[:, None]
    tracks = Trajectories.from_arrays([*(place + apart), *(place - apart)], dt=TAU)
    tracks.to_dataframe().to_csv(path, index=False)
    given = ["report", str(path), "-o", str(page), "--replicas", "0", "--models", "brownian"]
    assert main([*given, "--taus", "0.1,0.2,0.4", "--pairs", "--within", "2"]) == 0
    assert "Pairs of particles:" in capsys.readouterr().out
    html = page.read_text(encoding="utf-8")
    section = html.split('<section id="pairs">')[1].split("</section>")[0]
    assert "Relative dispersion of pairs" in section
    assert section.count('<svg class="panel"') >= 7
    assert "12, begun within 2; 240 steps" in section
    numbers = (tmp_path / "pairs.report.csv").read_text()
    assert "pairs_evidence: power" in numbers
    given += ["--taus", "0.1"]
    assert main([*given, "--overwrite", "--pairs", "--within", "1e-9"]) == 0
    capsys.readouterr()
    assert "Not computed: no pairs at any tau: no two particles come within" in page.read_text()
    for wrong, message in [
        (["--within", "2"], "add --pairs"),
        (["--pairs", "--brief"], "exclude each other"),
    ]:
        assert main([*given, "--overwrite", *wrong]) == 2
        assert message in capsys.readouterr().err


def test_particles_released_at_one_place_are_a_pair_once_they_parted():
    x = [np.zeros((4, 2)), np.array([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0], [2.0, 0.0]])]
    found = separations(Trajectories.from_arrays(x, dt=1.0), 1.0)
    assert found.first.tolist() == [1.0, 3.0]
    assert found.last.tolist() == [3.0, 2.0]
