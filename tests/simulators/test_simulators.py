"""Numbers for simulators: which are chosen, what the text says, and that it does what it says."""

import json
import os
import subprocess
import sys
import types

import jax.numpy as jnp
import numpy as np
import pytest
from drivers import OPENDRIFT, PARCELS_3, PARCELS_4
from numpy.testing import assert_allclose

from driftbayes import DriftbayesError, compare, displacements, read_trajectories
from driftbayes.cli import export as command
from driftbayes.comparison import make_hypotheses, scan
from driftbayes.models import MODELS, Langevin
from driftbayes.simulators import SIMULATORS, export, recommend
from driftbayes.simulators.recommend import DIFFUSIVITY, Estimate, Recommendation
from driftbayes.trajectories import Trajectories

GAMMA, K = 1 / 6.0, 0.9  # per hour, km²/h


@pytest.fixture(scope="module")
def langevin_scan():
    import jax

    x = Langevin(gamma=GAMMA, k=K).simulate(
        jax.random.key(3), n_particles=300, n_steps=100, n_dim=2, tau=1.0
    )
    tracks = Trajectories.from_arrays(np.asarray(x), dt=1.0, length_unit="km", time_unit="h")
    hypotheses = make_hypotheses(["brownian", "langevin"], u_rms=0.4, timescale=6.0).hypotheses
    return scan(tracks, hypotheses, [1, 2, 4, 8]).to_dataset()


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
    assert "not consistent around this sampling time" in found.notes[0]
    assert "langevin is the best" in found.notes[1]
    assert "and at no other" in export(found, "parcels")


def test_units_are_needed_and_may_be_given(langevin_scan):
    bare = langevin_scan.assign_attrs(length_unit="", time_unit="")
    with pytest.raises(DriftbayesError, match=r"does not say its unit of length.*--length-unit"):
        recommend(bare)
    given = recommend(bare, length_unit="km", time_unit="h")
    assert given.parameters == recommend(langevin_scan).parameters


def test_unknown_names_are_refused(langevin_scan):
    with pytest.raises(DriftbayesError, match="no model 'matern'; it has brownian, langevin"):
        recommend(langevin_scan, model="matern")
    with pytest.raises(DriftbayesError, match="unknown simulator 'roms'"):
        export(recommend(langevin_scan), "roms")


def test_the_command_knows_all_simulators():
    assert set(command.SIMULATORS) == set(SIMULATORS)


@pytest.mark.parametrize("name", DIFFUSIVITY)
def test_what_is_called_a_diffusivity_is_one(name):
    model = MODELS[name]
    theta = {parameter: 0.5 for parameter in model.parameters}
    found = model(**theta).absolute_diffusivity(jnp.array([1e9]))
    assert_allclose(found, 0.5, rtol=1e-6)


def test_models_that_do_not_disperse_give_no_diffusivity():
    estimate = Estimate(1.0, 0.1, 1.0, 1.0, "m²/s")
    for name in set(MODELS) - set(DIFFUSIVITY):
        one = Recommendation(name, {"kappa": estimate, "k": estimate}, 1, 1, 2, 1, (), {})
        with pytest.raises(DriftbayesError, match="has no one long-time diffusivity"):
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
        assert "from 1800 s to 24 h" in text


@pytest.mark.parametrize("dt", [60.0, 3600.0, 1e5])
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
            assert abs(products.mean() - expected[lag]) < 4.5 * error


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
    result = compare(hypotheses, data)
    assert result.best == model
    for parameter, value in truth.items():
        evidence = result.evidences[model]
        assert (
            abs(evidence.posterior_mean[parameter] - value) < 4 * evidence.posterior_sd[parameter]
        )
