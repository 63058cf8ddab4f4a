"""Draws handed over to arviz-plots: it imports, and draws our trees without a change."""

import tomllib
import warnings
from importlib.metadata import version
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import jax
import numpy as np
import pytest
from court import LANGEVIN, langevin_data
from packaging.requirements import Requirement
from packaging.version import Version

from driftbayes.inference import posterior_draws

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def data():
    return langevin_data(1.0, (30, 5, 1))


@pytest.fixture(scope="module")
def draws(data):
    return posterior_draws(LANGEVIN, data, n_draws=200)


def allows(requirements, package, found, python):
    """Whether all requirements let a version of a package be installed on a Python."""
    named = [Requirement(text) for text in requirements]
    return all(
        one.specifier.contains(found)
        for one in named
        if one.name == package
        and (one.marker is None or one.marker.evaluate({"python_version": python}))
    )


@pytest.mark.parametrize("where", ["extra", "test"])
def test_versions_that_cannot_be_imported_together_are_not_installed_together(where):
    extra = PROJECT["project"]["optional-dependencies"]["arviz"]
    chosen = extra if where == "extra" else PROJECT["dependency-groups"]["test"]
    # arviz-plots 0.8 is the last for Python 3.11, and 1.2 the first that takes matplotlib 3.11.
    assert allows(chosen, "arviz-plots", "0.8.0", "3.11")
    assert allows(chosen, "matplotlib", "3.10.9", "3.11")
    assert not allows(chosen, "matplotlib", "3.11.2", "3.11")
    assert allows(chosen, "matplotlib", "3.11.2", "3.12")
    assert not allows(chosen, "arviz-plots", "0.8.0", "3.12")


@pytest.fixture
def arviz_plots():
    old = Version(version("arviz-plots")) < Version("1.2")
    if old and Version(mpl.__version__) >= Version("3.11"):
        pytest.skip("matplotlib here is newer than pyproject.toml allows beside this arviz-plots")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz_plots

    return arviz_plots


@pytest.mark.parametrize("name", ["plot_dist", "plot_forest", "plot_trace", "plot_pair"])
def test_arviz_plots_draws_the_tree(arviz_plots, draws, data, name, tmp_path):
    with warnings.catch_warnings():
        # Of other packages; our tree is made outside.
        tree = draws.to_datatree(data)
        warnings.simplefilter("ignore")
        drawn = getattr(arviz_plots, name)(tree, backend="matplotlib")
    figure = drawn.viz["figure"].item()
    figure.savefig(tmp_path / "figure.png")
    words = {text.get_text() for text in figure.findobj(mpl.text.Text)}
    assert {"gamma", "k"} <= words
    assert (tmp_path / "figure.png").stat().st_size > 5_000


def test_the_tree_is_made_in_double_precision(draws, data):
    expected = draws.to_datatree(data)["log_likelihood"].to_dataset()
    with jax.enable_x64(False):
        found = draws.to_datatree(data)["log_likelihood"].to_dataset()
    for name in expected:
        assert found[name].dtype == np.float64
        np.testing.assert_array_equal(found[name].values, expected[name].values)
