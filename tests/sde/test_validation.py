"""A user's slips: each has one message, with the line."""

import re

import jax.numpy as jnp
import pytest
from equations import UNIT, langevin, langevin_data

from driftbayes import (
    SDE,
    DriftbayesError,
    Hypothesis,
    Scales,
    evidence,
    predict,
    score,
    simulate,
)
from driftbayes.inference import Batch
from driftbayes.models import Parameter
from driftbayes.sde._files import load_model, register_file_models
from driftbayes.workflow._fits import bootstrap

HERE = re.escape(__file__)


def drift(x, u, t, theta):
    return -theta.gamma * u


def diffusion(x, u, t, theta):
    return theta.gamma


def sde(drift=drift, diffusion=diffusion, parameters=None, **options):
    return SDE(drift, diffusion, parameters or {"gamma": UNIT}, **options)


def one_number(x, u, t, theta):
    return -theta.gamma


def a_pair(x, u, t, theta):
    return u, u


def misspelt(x, u, t, theta):
    return -theta.gama * u


def too_few(x, u):
    return -u


def whole(x, u, t, theta):
    return jnp.zeros(x.shape, dtype=int)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (one_number, r"drift of sde must return 2 numbers, one per axis, got an array of shape"),
        (a_pair, r"drift of sde must return 2 numbers, one per axis, got a tuple"),
        (misspelt, r"drift of sde failed with AttributeError: .* no attribute 'gama'"),
        (too_few, r"drift of sde failed with TypeError: .*takes 2 positional arguments"),
        (whole, r"drift of sde must return real numbers, got int"),
        (3.0, r"drift of sde must be a function, got 3.0"),
    ],
)
def test_a_drift_that_cannot_be_is_refused_when_it_is_given(function, message):
    with pytest.raises(DriftbayesError, match=message) as caught:
        sde(drift=function)
    if callable(function):
        line = function.__code__.co_firstlineno
        assert re.search(rf"{HERE}, line ({line}|{line + 1})\)", str(caught.value))


def test_a_diffusion_of_a_wrong_shape_is_refused():
    with pytest.raises(DriftbayesError, match="one per axis, or one number for all, got an array"):
        sde(diffusion=lambda x, u, t, theta: jnp.ones((2, 2)))


def test_functions_for_two_dimensions_alone_are_taken():
    planar = sde(drift=lambda x, u, t, theta: -theta.gamma * jnp.stack([u[0], u[1]]))
    data = langevin_data(1.0, 1.0, n_dim=1)
    with pytest.raises(DriftbayesError, match="with data of 1 dimensions, drift of sde"):
        evidence(planar, data)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"drift": lambda x, u, t, theta: -theta.gamma * u * jnp.sqrt(99.0 - x)},
            r"drift of sde gives NaN or infinity at x = \[100.0, 100.0\], u = .*gamma = 0.69",
        ),
        (
            {"diffusion": lambda x, u, t, theta: theta.gamma * jnp.maximum(99.0 - x, 0.0)},
            r"diffusion of sde gives a value that is not positive at x = \[100.0, 100.0\]",
        ),
        (
            {"initial_velocity": lambda x, t, theta: theta.gamma * 0.0 * x[0] / 0.0},
            r"initial_velocity of sde gives NaN or infinity",
        ),
        (
            {"drift": lambda x, u, t, theta: theta.gamma * u},
            r"sde has no stationary velocity.*pass initial_velocity",
        ),
    ],
)
def test_functions_that_fail_at_the_data_are_refused_before_the_work(options, message):
    data = langevin_data(1.0, 1.0)
    with pytest.raises(DriftbayesError, match=message) as caught:
        evidence(sde(**options), data)
    assert __file__ in str(caught.value)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"gamma": 1.0}, "parameter 'gamma' must be a prior, .* got 1.0"),
        ({"2k": UNIT}, "a parameter's name must be a plain word, got '2k'"),
        ({"class": UNIT}, "a parameter's name must be a plain word, got 'class'"),
        ({1: UNIT}, "a parameter's name must be a plain word, got 1"),
        ({"gamma": (UNIT, UNIT)}, "a pair of both"),
        ([UNIT], "parameters must be priors by name"),
    ],
)
def test_parameters_are_priors_by_name(parameters, message):
    with pytest.raises(DriftbayesError, match=message):
        sde(parameters=parameters)


@pytest.mark.parametrize("name", ["", "a+b", 3, "langevin"])
def test_a_name_that_means_another_model_is_refused(name):
    with pytest.raises(DriftbayesError, match="name must be a plain word that is not the name"):
        sde(name=name)


def test_a_prior_may_be_left_to_the_rules():
    model = sde(parameters={"gamma": Parameter("γ", "rate", 0, -1)})
    assert model.parameters["gamma"].unit("m", "s") == "1/s"
    with pytest.raises(DriftbayesError, match="no prior for gamma"):
        Hypothesis(model)


@pytest.mark.parametrize("method", ["quadrature", "laplace", "bridge"])
def test_methods_that_need_an_exact_likelihood_are_refused(method):
    data = langevin_data(1.0, 1.0)
    with pytest.raises(
        DriftbayesError, match=r"needs an exact likelihood.*estimated by a particle"
    ):
        evidence(Hypothesis(langevin(), gamma=UNIT, k=UNIT), data, method=method)


FILE = """import driftbayes as db

Mine = db.SDE(
    drift=lambda x, u, t, theta: -theta.gamma * u,
    diffusion=lambda x, u, t, theta: theta.s,
    parameters={"gamma": db.Exponential(1.0), "s": db.Exponential(1.0)},
)
other = 3
"""


def test_a_model_is_loaded_from_a_file(tmp_path):
    file = tmp_path / "my_model.py"
    file.write_text(FILE)
    model = load_model(f"{file}:Mine")
    assert model.name == "Mine"
    assert list(model.parameters) == ["gamma", "s"]
    assert not (tmp_path / "__pycache__").exists()


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        (FILE, "Mien", "'Mien' is missing in .*; it has Mine; did you mean 'Mine'"),
        (FILE, "other", "'other' is of type int, not SDE, in .*; it has Mine"),
        (FILE.replace("import driftbayes", "import driftbays"), "Mine", "line 1: ModuleNotFound"),
        (FILE.replace("Mine = db.SDE(", "Mine = db.SDE(("), "Mine", "line 3: .*never closed"),
        (FILE.replace("theta.gamma", "theta.gama"), "Mine", "line 3: drift of sde failed with"),
    ],
)
def test_a_file_that_gives_no_model_says_where(tmp_path, text, name, message):
    file = tmp_path / "my_model.py"
    file.write_text(text)
    with pytest.raises(DriftbayesError, match=message):
        load_model(f"{file}:{name}")


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(DriftbayesError, match=r"no file '\./nowhere\.py' to take the model"):
        register_file_models(["brownian", "./nowhere.py:Mine+noise"])


def test_a_name_alone_never_runs_a_file(tmp_path):
    from driftbayes.models import MODELS, model_named

    file = tmp_path / "my_model.py"
    file.write_text("raise SystemExit('this file was run')")
    with pytest.raises(DriftbayesError, match="names a file, whose code is run only for --models"):
        model_named(f"{file}:Mine", MODELS)


@pytest.fixture(scope="module")
def tracks():
    return simulate("langevin", {"gamma": 1.0, "k": 1.0}, tau=0.4, n_particles=3, n_steps=8)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda t, **how: predict(t, 0.4, [1.0], **how), "draws from its posterior are `evidence"),
        (lambda t, **how: score(t, 0.4, **how), "a score cannot take sde_langevin"),
        (lambda t, **how: bootstrap(t, 0.4, **how), "the bootstrap needs exact positions"),
    ],
)
def test_what_no_sde_can_be_used_for_is_refused(tracks, use, message):
    with pytest.raises(DriftbayesError, match=message):
        use(tracks, models="langevin, sde_langevin", scales=Scales(1.0, 1.0))


def test_the_engines_of_other_models_refuse_an_sde():
    data = langevin_data(1.0, 1.0)
    model = langevin().template()
    with pytest.raises(DriftbayesError, match="is an SDE, whose likelihood is only estimated"):
        Batch.of(data, model=model).engine(0, model)
    with pytest.raises(DriftbayesError, match="is an SDE without a closed form"):
        model.mean_square_displacement(data.interval)
