"""Numbers for simulators: which are chosen, what the text says, and that it does what it says."""

import json
import os
import re
import subprocess
import sys
import types
from functools import cache

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from drivers import OPENDRIFT, PARCELS_3, PARCELS_4
from numpy.testing import assert_allclose
from scipy import stats
from scipy.integrate import quad
from scipy.linalg import expm

from driftbayes import DriftbayesError, compare_hypotheses, displacements, read_trajectories
from driftbayes.cli import report as command
from driftbayes.comparison import make_hypotheses, scan_hypotheses
from driftbayes.data._trajectories import Trajectories
from driftbayes.models import MODELS, Langevin, model_named
from driftbayes.simulators import SIMULATORS, export, recommend
from driftbayes.simulators._long_time import Estimate
from driftbayes.simulators._recommend import Recommendation
from driftbayes.testing import reference

GAMMA, K = 1 / 6.0, 0.9  # per hour, km²/h


@pytest.fixture(scope="module")
def langevin_scan():
    dx = reference.simulate_langevin(np.random.default_rng(3), 300, 100, 2, 1.0, GAMMA, K)
    x = np.concatenate([np.zeros((300, 1, 2)), np.cumsum(dx, axis=1)], axis=1)
    tracks = Trajectories.from_arrays(x, dt=1.0, length_unit="km", time_unit="h")
    hypotheses = make_hypotheses(["brownian", "langevin"], u_rms=0.4, timescale=6.0).hypotheses
    return scan_hypotheses(tracks, hypotheses, [1, 2, 4, 8]).to_dataset()


def test_the_consistent_and_probable_model_is_chosen_and_given_in_metres_and_seconds(langevin_scan):
    found = recommend(langevin_scan)
    assert found.model == "langevin"
    gamma, k = found.parameters["gamma"], found.parameters["k"]
    assert (gamma.unit, k.unit) == ("1/s", "m²/s")
    assert abs(gamma.value - GAMMA / 3600) < 4 * gamma.sd
    assert abs(k.value - K * 1e6 / 3600) < 4 * k.sd
    assert k.low <= k.value <= k.high
    assert found.tau_min <= found.tau <= found.tau_max
    assert found.probability > 0.99
    assert found.notes == ()


def test_where_nothing_is_consistent_a_time_scale_is_asked_for(langevin_scan):
    with pytest.raises(DriftbayesError, match=r"no parameters of brownian are consistent .* --tau"):
        recommend(langevin_scan, model="brownian")
    found = recommend(langevin_scan, model="brownian", tau=4.2)
    assert found.tau == 4 * 3600
    assert np.isnan(found.tau_min)
    assert "depend on the sampling time around this one" in found.notes[0]
    assert "langevin is the best" in found.notes[1]
    assert "valid only at the sampling time 4 h" in export(found, "parcels")


def test_units_are_needed_and_may_be_given(langevin_scan):
    bare = langevin_scan.assign_attrs(length_unit="", time_unit="")
    with pytest.raises(DriftbayesError, match=r"has no unit of length.*--length-unit"):
        recommend(bare)
    given = recommend(bare, length_unit="km", time_unit="h")
    assert given.parameters == recommend(langevin_scan).parameters


@pytest.mark.parametrize(
    ("option", "unit", "own"), [("length_unit", "m", "km"), ("time_unit", "d", "h")]
)
def test_units_that_contradict_the_scan_are_refused(langevin_scan, option, unit, own):
    flag = f"--{option.replace('_', '-')} {unit}"
    with pytest.raises(DriftbayesError, match=rf"{flag} contradicts the scan.* is {own}; omit"):
        recommend(langevin_scan, **{option: unit})


def test_the_same_unit_in_other_words_is_no_contradiction(langevin_scan):
    found = recommend(langevin_scan, length_unit="kilometres", time_unit="hours")
    assert found.parameters == recommend(langevin_scan).parameters


def test_a_parameter_that_was_given_is_exported_too(langevin_scan):
    """Of a scan with γ known, as if it had been left out of the inference."""
    priors = json.loads(langevin_scan.attrs["priors"])
    priors["langevin"]["gamma"] = "fixed:0.25"
    kept = [p for p in langevin_scan["parameter"].values if p != "langevin.gamma"]
    known = langevin_scan.sel(parameter=kept).assign_attrs(priors=json.dumps(priors))
    found = recommend(known, model="langevin", tau=2.0)
    assert_allclose(found.parameters["gamma"].value, 0.25 / 3600)
    assert found.parameters["gamma"].sd == 0
    assert "LangevinVelocity" in export(found, "parcels")


def test_numbers_that_could_not_be_computed_are_not_exported(langevin_scan):
    broken = langevin_scan.copy(deep=True)
    broken["posterior_mean"].loc[{"parameter": "langevin.k"}] = np.nan
    with pytest.raises(DriftbayesError, match="k of langevin has no finite estimate"):
        recommend(broken, model="langevin", tau=2.0)


def test_unknown_names_are_refused(langevin_scan):
    with pytest.raises(DriftbayesError, match="no model 'matern'; it has brownian, langevin"):
        recommend(langevin_scan, model="matern")
    with pytest.raises(DriftbayesError, match="unknown simulator 'roms'"):
        export(recommend(langevin_scan), "roms")


def test_the_command_knows_all_simulators():
    assert set(command.SIMULATORS) == set(SIMULATORS)


DISPERSING = ("brownian", "langevin", "second_order", "oscillating", "two_scale", "matern")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", DISPERSING)
def test_what_is_called_a_diffusivity_is_one(name):
    model = MODELS[name]
    one = model(**{parameter: 0.5 for parameter in model.parameters})
    found = eqx.filter_jit(type(one).absolute_diffusivity)(one, np.array([1e9]))
    assert_allclose(found, 0.5, rtol=1e-6)


def test_models_that_do_not_disperse_give_no_diffusivity():
    estimate = Estimate(1.0, 0.1, 1.0, 1.0, "m²/s")
    for name in set(MODELS) - set(DISPERSING):
        one = Recommendation(name, {"kappa": estimate, "k": estimate}, 1, 1, 2, 1, (), {})
        with pytest.raises(DriftbayesError, match="has no single long-time diffusivity"):
            export(one, "opendrift")
        assert json.loads(export(one, "json"))["model"] == name


def exported(model, simulator, **values):
    units = {"gamma": "1/s", "k": "m²/s", "kappa": "m²/s"}
    parameters = {n: Estimate(v, 0.01 * v, v, v, units[n]) for n, v in values.items()}
    return export(Recommendation(model, parameters, 3600, 1800, 86400, 1, (), {}), simulator)


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_every_text_carries_error_convention_and_validity(simulator):
    text = exported("brownian", simulator, kappa=900.0)
    assert "Var(dx) = 2 K t" in text
    assert "900" in text
    if simulator != "json":
        assert "kappa = 900 +- 9 m²/s" in text
        assert "from 30 min to 1 d" in text


@pytest.mark.parametrize("dt", [0.0, 60.0, 3600.0, 1e5])
@pytest.mark.parametrize("degree", [1.0, 1852 * 60.0])
def test_the_kernel_for_parcels_moves_particles_as_the_model_does(dt, degree, monkeypatch):
    """Run on plain arrays, in place of Parcels' own."""
    gamma, k = 1 / 21600, 900.0
    fake = types.ModuleType("parcels")
    fake.Variable = lambda *args, **kwargs: None
    fake.Particle = types.SimpleNamespace(add_variable=lambda variables: None)
    monkeypatch.setitem(sys.modules, "parcels", fake)
    scope = {}
    exec(exported("langevin", "parcels", gamma=gamma, k=k), scope)
    n, lat = 20000, 60.0
    # The kernel draws from the old generator, as Parcels does.
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(5)  # noqa: NPY002
    try:
        particles = types.SimpleNamespace(
            dt=np.full(n, dt), y=np.full(n, lat), **scope["start_velocities"](n, seed=4)
        )
        fieldset = types.SimpleNamespace(langevin_deg2m=degree)
        steps = []
        for _ in range(3):
            particles.dx, particles.dy = np.zeros(n), np.zeros(n)
            scope["LangevinVelocity"](particles, fieldset)
            scale = degree * (np.cos(np.radians(lat)) if degree > 1 else 1.0)
            steps.append([particles.dx * scale, particles.dy * degree])
    finally:
        np.random.set_state(state)  # noqa: NPY002
    found = np.array(steps)
    model = Langevin(gamma=gamma, k=k)
    expected = np.asarray(model.increment_autocovariance(jnp.arange(3.0), jnp.asarray(dt)))
    for axis in (0, 1):
        x = found[:, axis]
        for lag in range(3):
            products = x[0] * x[lag]
            error = products.std() / np.sqrt(n)
            # Nothing moves in a step of no length, as before a later release.
            assert abs(products.mean() - expected[lag]) <= 4.5 * error


# --- Every model and option -----------------------------------------------------------------------

VALUES = {
    **{"kappa": 2.0, "k": 2.0, "gamma": 0.7, "accel": 4.0, "omega": 0.5, "ratio": 0.3},
    **{"share": 0.4, "smoothness": 0.8, "hurst": 0.4, "reference": 1.0, "well": 0.2},
    **{"sigma": 0.5, "exposure": 0.2, "scatter": 0.6, "tail": 0.2, "h1": 0.98, "h2": 0.4},
    **{"h3": 0.2, "h4": -0.1, "h5": 0.3, "flow": 1.0, "gradient": 1.0},
    **{"ratio_2": 0.25, "share_2": 0.3},
}
SUFFIXES = (
    *("", "+noise", "+blur", "+blur+noise", "+mean", "+linear", "+anisotropic", "+scatter"),
    *("+student", "+rotating", "*2", "+noise*2", "+anisotropic+mean", "+noise+mean"),
)


def families():
    """Every model with every option that it can have."""
    for base in MODELS:
        for suffix in SUFFIXES:
            try:
                yield base + suffix, model_named(base + suffix, MODELS)
            except DriftbayesError:
                continue


def value_of(name):
    name = name.removeprefix("class_")
    return VALUES[name] if name in VALUES else VALUES[name.partition("_")[0]]


def recommended(name, n_dim=2, **changes):
    about = model_named(name, MODELS, n_dim).parameters
    estimates = {
        n: Estimate(changes.get(n, value_of(n)), 0.01, value_of(n), value_of(n), "")
        for n, p in about.items()
        if not p.is_prior_scale
    }
    return Recommendation(name, estimates, 3600, 1800, 86400, 1, (), {})


def diffusivities(name):
    """Along both axes, by hand."""
    model = model_named(name, MODELS)
    k = VALUES["kappa"]
    if "anisotropic" in model.options:
        h = np.array([[VALUES["h1"], VALUES["h2"]], [VALUES["h2"], -VALUES["h1"]]]) / np.sqrt(2)
        values, vectors = np.linalg.eigh(h)
        return k * np.diag(vectors @ np.diag(np.exp(values)) @ vectors.T)
    if "scatter" in model.options:
        # E[1/g] of a gamma density of shape a and mean 1, by quadrature.
        a = 1 / VALUES["scatter"] ** 2
        k = k * quad(lambda g: stats.gamma(a, scale=1 / a).pdf(g) / g, 0, np.inf)[0]
    if model.is_mixture:
        share = VALUES["share_2"]
        k = (1 - share) * k + share * VALUES["ratio_2"] * k
    return np.array([k, k])


def random_walk(text, dt):
    """Displacements (particle, axis) of plain NumPy particles that do what the text says."""
    found = dict(re.findall(r'add_constant_field\("(Kh_\w+)", ([^,)]+)', text))
    if found:
        sizes = [float(found[name]) for name in ("Kh_zonal", "Kh_meridional")]
        return diffusion() * np.sqrt(2 * np.array(sizes) * dt)
    k_x, k_y = map(float, re.search(r"K_ZONAL, K_MERIDIONAL = (\S+), (\S+)  #", text).groups())
    gamma = float(re.search(r"GAMMA = (\S+)", text)[1])
    return random_flight(gamma, dt) * np.sqrt(gamma * np.array([k_x, k_y]))


@cache
def diffusion(n=40_000):
    return np.random.default_rng(7).normal(size=(n, 2))


@cache
def random_flight(gamma, dt, n=40_000):
    """Displacements of particles with velocities of variance one."""
    rng = np.random.default_rng(7)
    # In steps of a tenth of the time scale of velocities: the variance errs by a twelfth of 0.1².
    velocity, x = rng.normal(size=(n, 2)), np.zeros((n, 2))
    step = 0.1 / gamma
    for _ in range(round(dt / step)):
        new = velocity * np.exp(-gamma * step)
        new += np.sqrt(-np.expm1(-2 * gamma * step)) * rng.normal(size=(n, 2))
        x += 0.5 * (velocity + new) * step
        velocity = new
    return x


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [name for name, _ in families()])
def test_exported_numbers_spread_particles_as_the_model_does_or_are_refused(name):
    one, model = recommended(name), model_named(name, MODELS)
    base = model.core.name
    if model.diffusivity is None:
        for simulator in ("parcels", "parcels3", "opendrift"):
            with pytest.raises(DriftbayesError, match="has no single long-time diffusivity"):
                export(one, simulator)
        assert json.loads(export(one, "json"))["diffusivity"] is None
        return
    expected = diffusivities(name)
    told = json.loads(export(one, "json"))["diffusivity"]
    elements = [told["K"]] * 2 if "K" in told else [told["K_11"], told["K_22"]]
    assert_allclose([e["value"] for e in elements], expected, rtol=1e-6)
    for simulator in ("parcels", "parcels3"):
        text = export(one, simulator)
        has_memory = "LangevinVelocity" in text
        assert has_memory == (base == "langevin" and "*" not in name)
        dt = 20.0
        x = random_walk(text, dt)
        growth = 2 * dt
        if has_memory:
            gamma = VALUES["gamma"]
            growth = 2 * (dt + np.expm1(-gamma * dt) / gamma)
        # Five standard errors of a variance from 40,000 particles, and the scheme's own error.
        assert_allclose(x.var(axis=0), expected * growth, rtol=5 * np.sqrt(2 / 40_000) + 2e-3)
        if not has_memory and base != "brownian":
            assert "not its memory" in text
    if "anisotropic" in name:
        with pytest.raises(DriftbayesError, match="one diffusivity for both axes"):
            export(one, "opendrift")
        assert "K_12" in export(one, "parcels")
    else:
        written = re.search(r'diffusivity", (\S+)\)', export(one, "opendrift"))[1]
        assert_allclose(float(written), expected[0], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n, _ in families() if model_named(n, MODELS).diffusivity])
def test_what_is_exported_is_the_growth_of_the_model_s_own_simulation(name):
    import jax

    if "linear" in name:
        pytest.skip("particles of a flow with a gradient leave exponentially")
    family = model_named(name, MODELS)
    theta = {n: value_of(n) for n in family.parameters} | (
        {"flow": 1e-12} if "flow" in family.parameters else {}
    )
    n, tau = 40_000, 4000.0
    n = n if "student" not in name else 10_000
    x = np.asarray(
        family(**theta).simulate(jax.random.key(0), n_particles=n, n_steps=1, n_dim=2, tau=tau)
    )
    found = (x[:, 1] - x[:, 0]) / np.sqrt(2 * tau)
    variance = (found**2).mean(axis=0)
    error = (found**2).std(axis=0) / np.sqrt(n)
    expected = diffusivities(name) * (1 - VALUES["exposure"] / 3 / tau)
    assert (np.abs(variance - expected) < 5 * error + 2e-3 * expected).all()


def test_in_three_dimensions_the_tensor_has_three_axes():
    one = recommended("langevin+anisotropic", 3)
    told = json.loads(export(one, "json"))["diffusivity"]
    h = [VALUES[f"h{i}"] for i in range(1, 6)]
    root = np.sqrt
    matrix = np.diag([h[0] / root(2) + h[1] / root(6), -h[0] / root(2) + h[1] / root(6), 0.0])
    matrix[2, 2] = -2 * h[1] / root(6)
    for value, (i, j) in zip(h[2:], ((0, 1), (0, 2), (1, 2)), strict=True):
        matrix[i, j] = matrix[j, i] = value / root(2)
    expected = 2.0 * expm(matrix)
    assert_allclose([told[f"K_{i}{i}"]["value"] for i in (1, 2, 3)], np.diag(expected), rtol=1e-8)
    assert_allclose(told["K_12"]["value"], expected[0, 1], rtol=1e-8)
    assert "K_33" in export(one, "parcels")


def test_errors_of_a_diffusivity_follow_from_those_of_its_parameters():
    told = json.loads(export(recommended("brownian+scatter"), "json"))["diffusivity"]["K"]
    k, s = VALUES["kappa"], VALUES["scatter"]
    slopes = 1 / (1 - s**2), 2 * k * s / (1 - s**2) ** 2
    assert_allclose(told["sd"], 0.01 * np.hypot(*slopes), rtol=1e-2)


def test_a_mean_that_may_be_infinite_is_refused():
    one = recommended("langevin+scatter", scatter=0.98)
    with pytest.raises(DriftbayesError, match=r"mean diffusivity of .*scatter is undetermined"):
        export(one, "parcels")
    assert json.loads(export(one, "json"))["diffusivity"] is None


# --- With the simulators themselves -------------------------------------------------------------

# Each in an environment of its own, named by a variable: they need hundreds of packages.
REAL = {
    "parcels": ("PARCELS_PYTHON", PARCELS_4, "out.parquet"),
    "parcels3": ("PARCELS3_PYTHON", PARCELS_3, "out.zarr"),
    "opendrift": ("OPENDRIFT_PYTHON", OPENDRIFT, "out.nc"),
}


@pytest.mark.slow
@pytest.mark.parametrize("model", ["brownian", "langevin"])
@pytest.mark.parametrize("simulator", REAL)
def test_a_simulator_gives_back_the_numbers_it_was_given(simulator, model, tmp_path):
    variable, driver, name = REAL[simulator]
    if variable not in os.environ:
        pytest.skip(f"set {variable} to a Python that has the simulator")
    if (simulator, model) == ("opendrift", "langevin"):
        pytest.skip("OpenDrift has no velocity with memory")
    truth = {"kappa": 900.0} if model == "brownian" else {"gamma": 1 / 21600, "k": 900.0}
    (tmp_path / "exported.py").write_text(exported(model, simulator, **truth))
    (tmp_path / "driver.py").write_text(driver)
    subprocess.run(
        [os.environ[variable], "driver.py", "exported.py", name],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        timeout=600,
    )
    data = displacements(read_trajectories(tmp_path / name), 7200.0)
    hypotheses = make_hypotheses(["brownian", "langevin"], u_rms=0.2, timescale=21600.0).hypotheses
    result = compare_hypotheses(hypotheses, data)
    assert result.best == model
    for parameter, value in truth.items():
        evidence = result.evidences[model]
        assert (
            abs(evidence.posterior_mean[parameter] - value) < 4 * evidence.posterior_sd[parameter]
        )
