"""The figures of section 5 show the numbers that they were given, and can be read."""

from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from matplotlib.colors import to_hex
from numpy.testing import assert_allclose, assert_array_equal

from driftbayes.plots.style import COLOURS
from driftbayes.reproduce.study import along_tau, log_bayes_factors
from driftbayes.reproduce.turbulence.analysis import QUANTITIES
from driftbayes.reproduce.turbulence.experiment import PUBLISHED
from driftbayes.reproduce.turbulence.figures import all_figures, branches_figure, paired_ratio

pytestmark = pytest.mark.slow

NAMES = [*(f"figure{i}" for i in range(3, 10)), "flow", "effective", "branches"]
TURNOVER = PUBLISHED.eddy_turnover_time


@pytest.fixture(scope="module")
def analysis(whole_analysis):
    return whole_analysis


@pytest.fixture(scope="module")
def figures(analysis):
    return all_figures(analysis)


def line_of(ax, label):
    """The data of the line, or of the bars' centres, that a legend calls so."""
    found = [line for line in ax.lines if line.get_label().startswith(label)]
    found += [c[0] for c in ax.containers if c.get_label().startswith(label)]
    assert len(found) == 1, f"{len(found)} lines are called {label!r}"
    return found[0]


def labels_of(figure):
    """All that legends say."""
    legends = [ax.get_legend() for ax in figure.axes] + figure.legends
    return [text.get_text() for legend in legends if legend for text in legend.get_texts()]


# All of them


def test_all_are_there(figures):
    assert list(figures) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_it_is_drawn_without_a_warning_and_nothing_is_cut_off(figures, name):
    # Warnings are errors in all tests; a glyph that a font lacks is one.
    figure = figures[name]
    stream = BytesIO()
    figure.savefig(stream, format="png", dpi=100)
    assert stream.tell() > 10_000
    width, height = figure.get_size_inches()
    assert 3.4 <= width <= 3.6 or (name == "figure3" and width <= 7)
    assert height <= 7
    box = figure.get_tightbbox()
    assert box.x0 >= -0.01
    assert box.y0 >= -0.01
    assert box.x1 <= width + 0.01
    assert box.y1 <= height + 0.01


@pytest.mark.parametrize("name", NAMES)
def test_axes_are_labelled(figures, name):
    panels = [ax for ax in figures[name].axes if ax.get_label() != "<colorbar>"]
    assert panels
    for ax in panels:
        assert ax.get_ylabel()
        shared = ax.get_shared_x_axes().get_siblings(ax)
        assert any(other.get_xlabel() for other in shared)


@pytest.mark.parametrize("name", NAMES)
def test_no_legend_covers_a_line(figures, name):
    figure = figures[name]
    figure.draw_without_rendering()
    for ax in figure.axes:
        if ax.get_legend() is None:
            continue
        box = ax.get_legend().get_window_extent()
        for line in ax.lines:
            path = line.get_path().transformed(line.get_transform())
            if len(path) and np.isfinite(path.vertices).any():
                assert not path.intersects_bbox(box, filled=False), line.get_label()


@pytest.mark.parametrize("name", ["figure4", "figure6", "figure7", "figure8", "figure9"])
def test_the_band_over_realisations_is_named(figures, name):
    assert any("sd over 4 realisations" in text for text in labels_of(figures[name]))


def test_no_figure_is_left_with_pyplot(figures):
    import matplotlib.pyplot as plt

    assert figures
    assert plt.get_fignums() == []


# The flow


def test_vorticity_is_that_of_the_run_and_its_colours_are_symmetric(analysis, figures):
    whole, corner, bar = figures["figure3"].axes
    zeta = np.asarray(whole.images[0].get_array())
    first = analysis.realisations[0]
    assert first.seed == 1
    release = np.argmin(np.abs(first.summary["flow_time"].values - 500))
    enstrophy = first.summary["enstrophy_mean"].values[release]
    assert_allclose(0.5 * np.mean(zeta**2), enstrophy, rtol=1e-3)
    low, high = whole.images[0].get_clim()
    assert low == -high
    assert corner.images[0].get_clim() == (low, high)
    assert_allclose(np.mean(np.abs(zeta) > high), 0.01, rtol=0.1)
    assert "99 %" in bar.get_ylabel()
    assert_array_equal(np.asarray(corner.images[0].get_array()), zeta[:256, :256])
    assert_allclose(corner.images[0].get_extent(), [0, np.pi / 2] * 2)


def test_spectrum_holds_the_energy(analysis, figures):
    (ax,) = figures["figure4"].axes
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    k, energy = line_of(ax, "mean over").get_data()
    # Spectra are of snapshots, the mean energy of all times.
    assert_allclose(energy.sum(), analysis.scaling.energy_mean, rtol=0.01)
    at, guide = line_of(ax, "$k^{-4.").get_data()
    slope = np.log(guide[1] / guide[0]) / np.log(at[1] / at[0])
    inside = (k >= at[0]) & (k <= at[1])
    assert_allclose(slope, np.polyfit(np.log(k[inside]), np.log(energy[inside]), 1)[0], rtol=1e-6)
    assert any(
        f"{slope:.2f}" in text and "70 to 250" in text for text in labels_of(figures["figure4"])
    )
    assert any(np.all(np.asarray(line.get_xdata()) == 64) for line in ax.lines)


def test_trajectories_are_whole_and_each_has_its_colour(figures):
    (ax,) = figures["figure5"].axes
    paths = np.array([line.get_xydata() for line in ax.lines])
    assert len(paths) == 100
    assert len({to_hex(line.get_color()) for line in ax.lines}) == 100
    assert paths[:, 0].min() >= 0
    assert paths[:, 0].max() <= 2 * np.pi
    assert paths.max() > 2 * np.pi
    # Folded back into the domain they would jump by its width.
    assert np.abs(np.diff(paths, axis=1)).max() < 0.5
    assert_allclose(0.02 * (paths.shape[1] - 1), 100 * TURNOVER, atol=0.02)
    assert ax.get_aspect() == 1


def test_energy_and_enstrophy_stand_beside_the_published_means(analysis, figures):
    energy, enstrophy = figures["flow"].axes
    for ax, name, published in (
        (energy, "energy_mean", 0.2315),
        (enstrophy, "enstrophy_mean", 185.2),
    ):
        assert_allclose(line_of(ax, "published").get_data(), [[500, 1000], [published] * 2])
        for r in analysis.realisations:
            line = line_of(ax, f"seed {r.seed}")
            assert_array_equal(line.get_ydata(), r.summary[name].values)
            assert (line.get_xdata()[0], line.get_xdata()[-1]) == (0, 1000)


# Both models


def mean_mode(analysis, name, turnovers):
    modes = analysis.stack(lambda r: along_tau(r.exact, "langevin", "map", name))
    return modes[:, analysis.index(turnovers)].mean()


@pytest.mark.parametrize(("turnovers", "label"), [(5, "4.9"), (25, "25.3"), (100, "102")])
def test_langevin_curves_have_the_modes_of_their_tau(analysis, figures, turnovers, label):
    gamma, k = (mean_mode(analysis, name, turnovers) for name in ("gamma", "k"))
    name = rf"Langevin, $\tau$ = {label} "
    (ax,) = figures["figure6"].axes
    lag, r = line_of(ax, name).get_data()
    assert_allclose(r[0], k * gamma, rtol=1e-12)
    assert_allclose(np.diff(np.log(r)) / np.diff(lag * TURNOVER), -gamma, rtol=1e-9)
    assert ax.get_yscale() == "log"
    ax = figures["figure7"].axes[0]
    lag, diffusivity = line_of(ax, name).get_data()
    x = gamma * lag * TURNOVER
    assert_allclose(diffusivity, k * (1 - (1 - np.exp(-x)) / x), rtol=1e-6)
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")


PAIRS = [(0, 2), (2, 10), (10, 30), (30, 50)]


def test_the_autocovariance_falls_slower_than_exponentially(figures):
    (ax,) = figures["figure6"].axes
    lag, r = line_of(ax, "$r$").get_data()
    rates = [-np.log(np.interp(b, lag, r) / np.interp(a, lag, r)) / (b - a) for a, b in PAIRS]
    assert np.all(np.diff(rates) < 0)


def test_diffusivity_lies_between_its_limits(analysis, figures):
    ax = figures["figure7"].axes[0]
    _, absolute = line_of(ax, r"$\kappa").get_data()
    _, ballistic = line_of(ax, "ballistic").get_data()
    _, taylor = line_of(ax, "Taylor").get_data()
    # The velocity is a difference of positions: at the first lag they are one.
    assert_allclose(absolute[0], ballistic[0], rtol=1e-6)
    assert np.all(absolute <= 1.0001 * np.minimum(ballistic, taylor))
    kappa = line_of(ax, "Brownian").get_ydata()[0]
    last = [r.exact.evidences("brownian")[-1].map["kappa"] for r in analysis.realisations]
    assert_allclose(kappa, np.mean(last), rtol=1e-12)
    assert_allclose(absolute[-1], kappa, rtol=0.1)


@pytest.mark.parametrize(
    ("panel", "model", "name", "scale"),
    [
        (0, "brownian", "kappa", 2 * 0.2315 * TURNOVER),
        (1, "langevin", "gamma", 1 / TURNOVER),
        (2, "langevin", "k", 2 * 0.2315 * TURNOVER),
    ],
)
def test_parameters_are_modes_in_units_of_prior_means(analysis, figures, panel, model, name, scale):
    ax = figures["figure8"].axes[panel]
    assert ax.get_xscale() == "log"
    modes = analysis.stack(lambda r: along_tau(r.exact, model, "map", name)) / scale
    tau, mean = line_of(ax, "mode").get_data()
    assert_allclose(tau * TURNOVER, analysis.taus, rtol=1e-12)
    assert_allclose(mean, modes.mean(axis=0), rtol=1e-12)
    thin = [line.get_ydata() for line in ax.lines if line.get_linewidth() == 0.4]
    assert_allclose(thin, modes, rtol=1e-12)
    whole = analysis.stack(lambda r: along_tau(r.all_windows, model, "map", name)) / scale
    assert_allclose(line_of(ax, "all windows").get_ydata(), whole.mean(axis=0), rtol=1e-12)
    heavy = tau[np.isfinite(line_of(ax, "consistent").get_ydata())] * TURNOVER
    ranges = [r.exact.consistency[model][name] for r in analysis.realisations]
    assert_allclose(heavy[0], max(r.tau_min for r in ranges))
    assert_allclose(heavy[-1], min(r.tau_max for r in ranges))


def test_factors_are_those_of_the_scans(analysis, figures):
    above, below = figures["figure9"].axes
    assert (above.get_xscale(), above.get_yscale()) == ("log", "symlog")
    exact = analysis.stack(lambda r: log_bayes_factors(r.exact))
    laplace = analysis.stack(lambda r: log_bayes_factors(r.laplace))
    thin = [line.get_ydata() for line in above.lines if line.get_linewidth() == 0.4]
    assert_array_equal(thin, exact)
    assert_allclose(line_of(above, "exact").get_ydata(), exact.mean(axis=0), rtol=1e-12)
    assert_allclose(line_of(above, "Laplace").get_ydata(), laplace.mean(axis=0), rtol=1e-12)
    for model in ("brownian", "langevin"):
        line = line_of(below, model)
        occam = analysis.stack(
            lambda r, m=model: r.exact.to_dataset()["log_occam_factor"].sel(model=m).values
        )
        assert_allclose(line.get_ydata(), occam.mean(axis=0), rtol=1e-12)
        assert line.get_color() == COLOURS[model]


# Beyond the paper


def test_spreads_are_ratios_with_the_error_of_a_standard_deviation(analysis, figures):
    above, below = figures["effective"].axes
    spread = analysis.spread
    i = QUANTITIES.index("log_gamma")
    ratio = spread.over_flows[i] / spread.expected[i]
    (bars,) = [c for c in above.containers if c.get_label() == r"$\ln\,\gamma$, data sets"]
    assert_allclose(bars[0].get_ydata(), ratio, rtol=1e-12)
    lengths = np.array([np.ptp(segment[:, 1]) for segment in bars[2][0].get_segments()])
    relative = lengths / ratio / 2
    # Four data sets at the largest tau; draws add a little to all.
    assert spread.n_data_sets[-1] == 4
    assert_allclose(relative[-1], 1 / np.sqrt(6), rtol=0.02)
    assert np.all(relative > 1 / np.sqrt(2 * (spread.n_data_sets - 1)))
    among = line_of(above, r"$\ln\,\gamma$, particles").get_ydata()
    assert_allclose(among, spread.over_particles[i] / spread.expected[i], rtol=1e-12)
    assert_array_equal(line_of(below, "uncorrected").get_ydata(), spread.mean_log_bayes_factor)
    assert_array_equal(line_of(below, "and for unlike").get_ydata(), spread.log_bayes_factor_of_all)
    shared = line_of(below, "corrected for").get_ydata()
    assert_array_equal(shared, spread.log_bayes_factor_of_flows)
    assert (above.get_yscale(), below.get_yscale()) == ("log", "symlog")


def test_branches_are_compared_with_the_first(analysis, figures):
    above, below = figures["branches"].axes
    data = analysis.results.branches
    assert (above.get_xscale(), above.get_yscale(), below.get_xscale()) == ("log",) * 3
    for name in ("quintic", "single"):
        apart = line_of(above, f"{name}: particles").get_ydata()
        assert_allclose(apart * 2 * np.pi, data["separation"].sel(branch=name).values[1:])
        msd = data["group_msd"].mean("group")
        ratio = msd.sel(branch=name) / msd.sel(branch="bilinear")
        assert_allclose(line_of(below, name).get_ydata(), ratio, rtol=1e-12)
    # Interpolation does not change the flow: there is nothing to draw on a logarithmic axis.
    assert not data["vorticity_difference"].sel(branch="quintic").any()
    assert [line.get_label() for line in above.lines if "vorticity" in line.get_label()] == [
        "single: vorticity, relative"
    ]


def test_without_branches_there_is_no_figure_of_them(analysis):
    without = replace(analysis, results=replace(analysis.results, branches=None))
    assert branches_figure(without) is None
    assert list(all_figures(without)) == NAMES[:-1]


def test_ratio_of_means_has_the_error_of_a_paired_jackknife():
    rng = np.random.Generator(np.random.Philox(1))
    base = rng.gamma(3.0, size=(2, 40))
    values = 1.1 * base + 0.1 * rng.standard_normal((2, 40))
    ratio, sd = paired_ratio(values, base)
    assert_allclose(ratio, values.sum(axis=1) / base.sum(axis=1), rtol=1e-12)
    left = [
        np.delete(values, i, axis=1).sum(axis=1) / np.delete(base, i, axis=1).sum(axis=1)
        for i in range(40)
    ]
    assert_allclose(sd, np.sqrt(39 / 40 * np.sum((left - np.mean(left, axis=0)) ** 2, axis=0)))
    # Pairs that vary together: far less than if they were not paired.
    assert np.all(sd < 0.3 * paired_ratio(values[:, ::-1], base)[1])
    assert_allclose(paired_ratio(base, base), ([1, 1], [0, 0]), atol=1e-12)
