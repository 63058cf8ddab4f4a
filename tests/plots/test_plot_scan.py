"""Figures of a scan: what is drawn is what the data set holds, for either method."""

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from numpy.testing import assert_allclose, assert_array_equal

from driftbayes._representation import Curve, Panel, colours_of
from driftbayes.comparison import PriorSensitivity
from driftbayes.inference import QUANTILES
from driftbayes.io import read_dataset, write_scan
from driftbayes.plots.scan import (
    plot_log_bayes_factor,
    plot_log_occam_factor,
    plot_parameter,
    plot_prior_sensitivity,
)
from driftbayes.plots.style import COLOURS, GUIDE, MORE_COLOURS, draw_panel

TAU = np.geomspace(0.01, 100, 9)
PARAMETERS = ("brownian.kappa", "langevin.gamma", "langevin.k")


def made(method: str, time_unit: str = "") -> xr.Dataset:
    """A data set with the variables of a scan, without the cost of one."""
    rng = np.random.default_rng(0)
    centre = 1 + 0.1 * rng.random((3, 9))
    spread = np.array([-0.2, -0.1, 0.0, 0.1, 0.2])
    return xr.Dataset(
        {
            "map": (("parameter", "tau"), centre),
            "posterior_sd": (("parameter", "tau"), 0.1 * centre),
            "posterior_quantile": (
                ("parameter", "tau", "quantile"),
                centre[..., None] + spread,
            ),
            "consistent": (("parameter", "tau"), np.arange(27).reshape(3, 9) % 9 > 4),
            "log_bayes_factor": (("pair", "tau"), np.geomspace(1000, 0.1, 9)[None] - 0.5),
            "log_occam_factor": (("model", "tau"), -5 - rng.random((2, 9))),
        },
        coords={
            "tau": TAU,
            "parameter": list(PARAMETERS),
            "quantile": list(QUANTILES),
            "model": ["brownian", "langevin"],
            "pair": ["langevin:brownian"],
        },
        attrs={"method": method, "time_unit": time_unit},
    )


@pytest.fixture(params=["exact", "laplace (natural)", "laplace (log)"])
def dataset(request):
    return made(request.param)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


FIGURES = {
    "parameter": lambda dataset, ax=None: plot_parameter(dataset, "langevin.gamma", ax),
    "bayes": lambda dataset, ax=None: plot_log_bayes_factor(dataset, ax=ax),
    "occam": lambda dataset, ax=None: plot_log_occam_factor(dataset, ax),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("figure", FIGURES)
def test_axes_come_back_labelled_and_can_be_drawn(figure, dataset):
    ax = FIGURES[figure](dataset)
    assert isinstance(ax, Axes)
    assert ax.get_xlabel() == r"sampling time $\tau$"
    assert ax.get_ylabel()
    assert ax.get_xscale() == "log"
    assert all(line.get_label() for line in ax.lines)
    ax.legend()
    ax.figure.canvas.draw()


@pytest.mark.parametrize("figure", FIGURES)
def test_given_axes_are_used_and_returned(figure, dataset):
    _, (left, right) = plt.subplots(1, 2)
    assert FIGURES[figure](dataset, right) is right
    assert right.has_data()
    assert not left.has_data()
    assert len(plt.get_fignums()) == 1


@pytest.mark.parametrize("figure", FIGURES)
def test_the_unit_of_tau_is_on_the_axis(figure):
    ax = FIGURES[figure](made("exact", "days"))
    assert ax.get_xlabel() == r"sampling time $\tau$ (days)"


@pytest.mark.parametrize("figure", FIGURES)
def test_figures_leave_the_style_as_it_was(figure, dataset):
    before = mpl.rcParams.copy()
    FIGURES[figure](dataset)
    assert mpl.rcParams == before


@pytest.mark.sampled(3)
@pytest.mark.parametrize("figure", FIGURES)
def test_a_data_set_from_a_file_is_drawn_alike(figure, dataset, tmp_path):
    write_scan(dataset, tmp_path / "scan.nc")
    stored = read_dataset(tmp_path / "scan.nc", kind="scan")
    before, after = FIGURES[figure](dataset), FIGURES[figure](stored)
    for one, other in zip(before.lines, after.lines, strict=True):
        assert_array_equal(one.get_ydata(), other.get_ydata())


# What is drawn


def line(ax, label):
    return next(one for one in ax.lines if one.get_label() == label)


@pytest.mark.parametrize("parameter", PARAMETERS)
def test_laplace_is_drawn_as_in_the_paper(parameter):
    dataset = made("laplace (natural)")
    ax = plot_parameter(dataset, parameter)
    mode = line(ax, "Laplace: mode ± sd")
    assert_array_equal(mode.get_xdata(), TAU)
    assert_array_equal(mode.get_ydata(), dataset["map"].sel(parameter=parameter))
    assert mode.get_linestyle() == "--"
    low, high = band(ax)
    values = dataset.sel(parameter=parameter)
    assert_allclose(low, float((values["map"] - values["posterior_sd"]).min()))
    assert_allclose(high, float((values["map"] + values["posterior_sd"]).max()))


@pytest.mark.parametrize("parameter", PARAMETERS)
def test_exact_is_drawn_as_median_and_quantiles(parameter):
    dataset = made("exact")
    ax = plot_parameter(dataset, parameter)
    quantiles = dataset["posterior_quantile"].sel(parameter=parameter)
    median = line(ax, "exact: median, 68 %")
    assert_array_equal(median.get_ydata(), quantiles.sel(quantile=0.5))
    assert to_hex(median.get_color()).upper() == COLOURS[parameter.split(".")[0]]
    low, high = band(ax)
    assert_allclose(low, float(quantiles.sel(quantile=0.16).min()))
    assert_allclose(high, float(quantiles.sel(quantile=0.84).max()))
    heavy = line(ax, "consistent in τ")
    inside = dataset["consistent"].sel(parameter=parameter).values
    assert_array_equal(np.isfinite(heavy.get_ydata()), inside)
    assert heavy.get_linewidth() > median.get_linewidth()


def band(ax):
    vertices = ax.collections[0].get_paths()[0].vertices
    return vertices[:, 1].min(), vertices[:, 1].max()


def test_what_is_consistent_nowhere_gets_no_heavy_line():
    dataset = made("exact")
    dataset["consistent"] = xr.zeros_like(dataset["consistent"])
    labels = [one.get_label() for one in plot_parameter(dataset, "langevin.k").lines]
    assert labels == ["exact: median, 68 %"]


def test_a_label_may_be_given():
    assert line(plot_parameter(made("exact"), "langevin.k", label="mine"), "mine")
    assert line(plot_log_bayes_factor(made("exact"), label="mine"), "mine")


def test_symbols_are_greek():
    labels = [plot_parameter(made("exact"), name).get_ylabel() for name in PARAMETERS]
    assert labels == [r"brownian  $\kappa$", r"langevin  $\gamma$", "langevin  $k$"]


def test_the_bayes_factor_is_linear_where_models_are_indistinguishable():
    ax = plot_log_bayes_factor(made("exact"))
    assert_array_equal(
        line(ax, "exact").get_ydata(),
        made("exact")["log_bayes_factor"].sel(pair="langevin:brownian"),
    )
    assert ax.get_yscale() == "symlog"
    assert ax.get_ylabel() == r"$\ln K_{L,B}$"
    shaded = ax.patches[0].get_extents().transformed(ax.transData.inverted())
    assert_allclose([shaded.y0, shaded.y1], [-1, 1], atol=1e-9)


def test_both_methods_lie_over_each_other():
    ax = plot_log_bayes_factor(made("laplace (natural)"))
    plot_log_bayes_factor(made("exact"), ax=ax)
    laplace, exact = line(ax, "Laplace"), line(ax, "exact")
    assert laplace.get_linestyle() == "--"
    assert exact.get_linestyle() == "-"
    assert to_hex(laplace.get_color()) == GUIDE
    # The shaded band is drawn once.
    assert len(ax.patches) == 1


def test_every_model_has_its_occam_factor(dataset):
    ax = plot_log_occam_factor(dataset)
    word = "exact" if dataset.attrs["method"] == "exact" else "Laplace"
    for model in ("brownian", "langevin"):
        drawn = line(ax, f"{model}, {word}")
        assert_array_equal(drawn.get_ydata(), dataset["log_occam_factor"].sel(model=model))
        assert to_hex(drawn.get_color()).upper() == COLOURS[model]


def test_a_model_has_one_colour_everywhere():
    assert colours_of(["langevin", "brownian"]) == COLOURS
    assert colours_of(["brownian", "langevin", "matern"])["matern"] == MORE_COLOURS[0]
    # Where a plain model is not shown, its colour is free.
    assert colours_of(["matern", "langevin"])["matern"] == COLOURS["brownian"]


def test_a_model_with_options_has_the_colour_of_the_plain_model_unless_that_is_shown():
    assert colours_of(["langevin+noise"])["langevin+noise"] == COLOURS["langevin"]
    assert colours_of(["langevin+common", "brownian*2"]) == {
        "langevin+common": COLOURS["langevin"],
        "brownian*2": COLOURS["brownian"],
    }
    models = ["langevin+noise", "langevin", "langevin+blur", "brownian"]
    shown = colours_of(models)
    assert list(shown) == models
    assert len(set(shown.values())) == 4
    assert shown["langevin"] == COLOURS["langevin"]


def test_a_panel_is_drawn_as_it_is_described():
    x = np.array([1.0, 2.0, 4.0])
    strong = np.array([False, True, True])
    curves = [
        Curve("median", "langevin", 2 * x, x, 3 * x, strong),
        Curve("data", "data", x, kind="points"),
    ]
    panel = Panel("a", "A", x, "τ (s)", "k (m²/s)", curves, ("log", "linear"), (1.0,))
    ax = draw_panel(panel)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("τ (s)", "k (m²/s)")
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert to_hex(line(ax, "median").get_color()).upper() == COLOURS["langevin"]
    assert_array_equal(line(ax, "median").get_ydata(), 2 * x)
    heavy = max(ax.lines, key=lambda one: one.get_linewidth())
    assert_array_equal(np.isfinite(heavy.get_ydata()), strong)
    assert line(ax, "data").get_linestyle() == "None"
    assert band(ax) == (1.0, 12.0)


def test_a_logarithmic_axis_with_one_power_of_ten_has_more_labels():
    x = np.array([1.0, 2.0, 4.0])
    cases = (
        ((30.0, 100.0, 400.0), {"50", "100", "200"}),
        ((3e-5, 1e-4, 4e-4), {"10^{-4}", "2\\times10^{-4}"}),
        ((0.75, 1.0, 1.3), {"0.75", "0.90", "1.20"}),
    )
    for values, expected in cases:
        y = np.array(values)
        panel = Panel("a", "A", x, "τ (s)", "k", [Curve("m", "langevin", y)], ("log",))
        ax = draw_panel(panel)
        ax.figure.canvas.draw()
        low, high = ax.get_ylim()
        labels = zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)
        shown = [label.get_text() for at, label in labels if low <= at <= high]
        assert all(any(part in text for text in shown) for part in expected)


def test_the_label_of_ln_k_names_models_whose_initials_are_ambiguous():
    factors, zeros = np.array([0.5, 1.0, 2.0]), np.zeros((3, 3))
    groups = (("k", "sigma"), ("k",), ("sigma",))
    pair = "langevin+noise:langevin"
    result = PriorSensitivity(factors, groups, {pair: zeros}, {pair: zeros}, 1.0, "exact")
    ax = plot_prior_sensitivity(result)
    assert ax.get_ylabel() == "ln K(langevin+noise:langevin)"
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["indistinguishable", "all: k, σ", "k", "σ"]
