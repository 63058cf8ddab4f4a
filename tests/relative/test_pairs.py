"""Pairs: how they are found, what they tell of known laws, and what is refused."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

import driftbayes as db
from driftbayes.cli.main import main
from driftbayes.comparison import compare_hypotheses
from driftbayes.data import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.relative import Separations, compare_pairs, pair_statistics, separations
from driftbayes.relative.models import law_hypotheses

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
            "are at the same place",
        ),
        (
            [np.arange(3.0), np.arange(3.0)],
            [np.zeros((3, 2)), np.ones((3, 2))],
            {"within": 0.5},
            "no two particles come within 0.5",
        ),
        (
            [np.arange(3.0), 10 + np.arange(3.0)],
            [np.zeros((3, 2)), np.ones((3, 2))],
            {},
            "no two particles are seen at the same times",
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


def test_a_scan_states_the_diffusivity_at_one_separation():
    tracks = tracks_of(chains(1.0, 30, 16, np.random.default_rng(5)))
    scan = tracks.pairs([0.1, 0.2, 0.4, 99.0], within=2.0, models=["power"])
    assert scan.taus.tolist() == [0.1, 0.2, 0.4]
    assert list(scan.skipped) == [99.0]
    values = [record.parameters["K"] for record in scan.evidences("power")]
    assert all(abs(v.mean - values[0].mean) < 4 * (v.sd + values[0].sd) for v in values)
    assert scan.consistency["power"]["xi"] is not None


def test_particles_released_at_one_place_are_a_pair_once_they_parted():
    x = [np.zeros((4, 2)), np.array([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0], [2.0, 0.0]])]
    found = separations(Trajectories.from_arrays(x, dt=1.0), 1.0)
    assert found.first.tolist() == [1.0, 3.0]
    assert found.last.tolist() == [3.0, 2.0]
