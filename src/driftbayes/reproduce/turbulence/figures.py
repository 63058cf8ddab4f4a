"""Figures of section 5: the paper's 3 to 9, the flow, the effective sample size, the branches.

Lengths are those of a domain 2π wide. Times are in published eddy turnover times, τ_ζ = 0.0735.
"""

__all__ = ["all_figures", "branches_figure", "paired_ratio"]

import json
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._typing import FloatArray
from driftbayes.plots.style import (
    COLOURS,
    GUIDE,
    INK,
    MORE_COLOURS,
    draw_band,
    inward_ticks,
    journal_figure,
    shared_legend,
)
from driftbayes.reproduce.study import jackknife_variance, log_bayes_factors
from driftbayes.reproduce.turbulence.analysis import (
    N_DRAWS,
    QUANTITIES,
    Analysis,
    Realisation,
    mean_sd,
)
from driftbayes.reproduce.turbulence.claims import log_slope
from driftbayes.reproduce.turbulence.experiment import PUBLISHED

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TURNOVER = PUBLISHED.eddy_turnover_time
# The realisation of figures 3 to 5.
_SHOWN_SEED = 1
# Quantile of |ζ| at which colours saturate; only the cores of vortices are beyond it.
_CLIP = 0.99
_TRAJECTORY_TIME = 100.0
_WIDTH = 2 * np.pi
# Range of the fitted slope beyond the forcing; the slope depends on it, as there is no power law.
_FITTED = (70, 250)
# Energy and enstrophy without the spurious mode, from earlier runs.
_EARLIER = {"energy_mean": (0.220, 0.005), "enstrophy_mean": (142.0, 6.0)}
# Sampling times whose Langevin models are shown, in τ_ζ, and their lines.
_SHOWN = {5: "--", 25: "-.", 100: ":"}
_BROWNIAN, _LANGEVIN = COLOURS["brownian"], COLOURS["langevin"]
_BRANCH_COLOURS = (_BROWNIAN, _LANGEVIN, *MORE_COLOURS)
_TAU = r"sampling time $\tau$ / $\tau_\zeta$"
_LAG = r"lag / $\tau_\zeta$"
# Limits of the insets at large τ, in units of the prior mean.
_ZOOMED = {"kappa": (1.25, 1.53), "k": (1.41, 1.62)}
# Beyond this the autocovariance is smaller than its noise.
_LVAF_TURNOVERS = 60.0
# Label, colour, marker and horizontal shift of each parameter.
_PARAMETERS = {
    "log_kappa": (r"$\ln\,\kappa$", _BROWNIAN, "o", 0.96),
    "log_gamma": (r"$\ln\,\gamma$", _LANGEVIN, "s", 1.0),
    "log_k": (r"$\ln\,k$", MORE_COLOURS[0], "^", 1.04),
}


def all_figures(analysis: Analysis) -> "dict[str, Figure]":
    """Draw all figures by name; those with a number have the paper's.

    Args:
        analysis: From `analyse`.
    """
    figures = {
        "figure3": _vorticity_figure(analysis),
        "figure4": _spectrum_figure(analysis),
        "figure5": _trajectories_figure(analysis),
        "figure6": _lvaf_figure(analysis),
        "figure7": _diffusivity_figure(analysis),
        "figure8": _parameters_figure(analysis),
        "figure9": _factors_figure(analysis),
        "flow": _flow_figure(analysis),
        "effective": _effective_figure(analysis),
        "branches": branches_figure(analysis),
    }
    return {name: figure for name, figure in figures.items() if figure is not None}


def _vorticity_figure(analysis: Analysis) -> "Figure":
    """Draw figure 3: vorticity at the release of the particles, in the domain and a corner."""
    from matplotlib.patches import Rectangle

    stored = _shown(analysis).summary["vorticity"]
    zeta = stored.values * float(stored.attrs["scale"])
    limit = float(np.quantile(np.abs(zeta), _CLIP))
    n = zeta.shape[0] // 4
    options: dict[str, Any] = {"origin": "lower", "cmap": "RdBu_r", "interpolation": "antialiased"}
    with journal_figure(7.0, 3.1, 1, 2) as (figure, (whole, corner)):
        for ax, field, width in ((whole, zeta, _WIDTH), (corner, zeta[:n, :n], _WIDTH / 4)):
            extent = (0, width, 0, width)
            image = ax.imshow(field, extent=extent, vmin=-limit, vmax=limit, **options)
            ax.set_xlabel("$x$")
            ax.set_ylabel("$y$", rotation=0)
        inward_ticks(whole, corner)
        _ticks_of_pi(whole, [0, 1, 2])
        _ticks_of_pi(corner, [0, 0.25, 0.5])
        whole.add_patch(Rectangle((0, 0), _WIDTH / 4, _WIDTH / 4, fill=False, ec=INK, lw=0.8))
        bar = figure.colorbar(image, ax=[whole, corner], extend="both", shrink=0.95, pad=0.02)
        bar.set_label(rf"$\zeta$, clipped at the {100 * _CLIP:.0f} % quantile of $|\zeta|$")
    return figure


def _spectrum_figure(analysis: Analysis) -> "Figure":
    """Draw figure 4: energy spectrum at release and its mean afterwards, with a fitted slope."""
    shown = _shown(analysis)
    config = analysis.results.config(shown.name)
    k = shown.summary["k"].values
    k_f, k_max = config["k_f"], config["grid"] / 2
    seen = (k >= 1) & (k <= 0.8 * k_max)
    mean, sd = analysis.band(lambda r: r.summary["energy_spectrum"].values[seen])
    snapshots, _ = analysis.band(lambda r: r.summary["energy_spectrum_sd"].values[seen])
    release, k = shown.summary["energy_spectrum_at_release"].values[seen], k[seen]
    start, end = config["spin_up"], config["spin_up"] + config["duration"]
    with journal_figure(3.5, 3.4) as (figure, ax):
        ax.loglog(k, release, color=_BROWNIAN, lw=0.7, label=f"at release, t = {start:g}")
        ax.plot(k, mean, color=INK, lw=1.0, label=f"mean over t = {start:g} to {end:g}")
        for width, colour, label in (
            (snapshots, GUIDE, "± sd over snapshots"),
            (sd, INK, _spread_label(analysis)),
        ):
            # As a factor: mean - sd may be negative, which a logarithmic axis cannot show.
            factor = np.exp(width / mean)
            band: dict[str, Any] = {"color": colour, "alpha": 0.35, "lw": 0, "label": label}
            ax.fill_between(k, mean / factor, mean * factor, **band)
        low, high = _FITTED
        fitted = log_slope(k, mean, low - 0.5, high + 0.5)
        for slope, between, lift, name, style in (
            (-2.0, (9, 0.8 * k_f), 3.0, "$k^{-2}$, the paper's", "--"),
            (-3.5, (1.6 * k_f, 0.6 * k_max), 5.0, "$k^{-3.5}$, the paper's", "-."),
            (fitted, _FITTED, 0.25, f"$k^{{{fitted:.2f}}}$, fitted to k = {low} to {high}", ":"),
        ):
            at, middle = np.array(between), np.sqrt(np.prod(between))
            anchor = np.exp(np.interp(np.log(middle), np.log(k), np.log(mean)))
            guide = lift * anchor * (at / middle) ** slope
            ax.plot(at, guide, color=_LANGEVIN, ls=style, label=name)
        ax.axvline(k_f, color=GUIDE, lw=0.6)
        ax.text(1.06 * k_f, 0.97, "$k_F$", va="top", transform=ax.get_xaxis_transform())
        ax.set(xlim=(0.9, k_max), ylim=(1e-8, 0.1), ylabel="energy spectrum $E(k)$")
        ax.set_xlabel("wavenumber $k$ (domain $2\\pi$ wide)")
        inward_ticks(ax)
        ax.legend(loc="lower left", fontsize=7)
    return figure


def _trajectories_figure(analysis: Analysis) -> "Figure":
    """Draw figure 5: unwrapped trajectories over 100 τ_ζ."""
    from matplotlib.patches import Rectangle

    shown = _shown(analysis)
    interval = analysis.results.config(shown.name)["record_every"]
    n_records = int(_TRAJECTORY_TIME * TURNOVER / interval) + 1
    x = shown.summary["shown"].values[:, :n_records]
    with journal_figure(3.5, 3.6) as (figure, ax):
        outline: dict[str, Any] = {"fill": False, "ec": GUIDE, "lw": 0.6, "ls": "--", "zorder": 0}
        ax.add_patch(Rectangle((0, 0), _WIDTH, _WIDTH, **outline))
        for path, colour in zip(x, _many_colours(len(x)), strict=True):
            ax.plot(*path.T, color=colour, lw=0.5)
        ax.set_aspect("equal")
        _ticks_of_pi(ax, [0, 1, 2])
        ax.set_xlabel("$x$ (dashed: the domain, $2\\pi$ wide)")
        ax.set_ylabel("$y$", rotation=0)
        span = (n_records - 1) * interval / TURNOVER
        ax.set_title(rf"{len(x)} particles over {span:.0f} $\tau_\zeta$")
        inward_ticks(ax)
    return figure


def _lvaf_figure(analysis: Analysis) -> "Figure":
    """Draw figure 6: velocity autocovariance of the flow and of Langevin fits at three τ."""
    lag = analysis.realisations[0].summary["lag"].values
    with journal_figure(3.5, 3.0) as (figure, ax):
        ax.set_yscale("log", nonpositive="clip")
        _mean_and_band(ax, lag, analysis, "lvaf", "$r$, the flow")
        fine = np.linspace(0, _LVAF_TURNOVERS * TURNOVER, 200)
        for gamma, k, style in _fitted(analysis):
            ax.plot(fine / TURNOVER, k * gamma * np.exp(-gamma * fine), **style)
        ax.set(xlim=(0, _LVAF_TURNOVERS), ylim=(1e-4, 0.4))
        ax.set(xlabel=_LAG, ylabel="velocity autocovariance $r$")
        inward_ticks(ax)
        ax.legend(loc="upper right")
    return figure


def _diffusivity_figure(analysis: Analysis) -> "Figure":
    """Draw figure 7: absolute diffusivity of the flow and of the same Langevin models."""
    lag = analysis.realisations[0].summary["lag"].values[1:]
    x = lag / TURNOVER
    r_0 = analysis.stack(lambda r: r.summary["lvaf"].values[0]).mean()
    kappa = analysis.along("exact", "brownian", "map", "kappa")[:, -1].mean()
    with journal_figure(3.5, 4.2) as (figure, ax):
        # The plateau, where the bands are too narrow to see in the main panel.
        inset = ax.inset_axes((0.46, 0.1, 0.52, 0.4))
        green, at = MORE_COLOURS[0], analysis.taus[-1] / TURNOVER
        label = rf"Brownian $\kappa^*$, $\tau$ = {at:.0f} $\tau_\zeta$"
        for panel in (ax, inset):
            name = r"$\kappa_\mathrm{abs}$, the flow"
            _mean_and_band(panel, lag, analysis, "absolute_diffusivity", name, zorder=3)
            taylor, sd = analysis.band(lambda r: r.summary["taylor_diffusivity"].values[1:])
            panel.plot(x, taylor, color=green, lw=1.0, label="Taylor, integral of $r$")
            draw_band(panel, x, taylor, sd, green)
            ballistic = 0.5 * r_0 * lag
            panel.plot(x, ballistic, color=GUIDE, lw=0.9, label="ballistic, $r(0)$ lag / 2")
            panel.axhline(kappa, color=_BROWNIAN, lw=0.9, label=label)
            for gamma, k, style in _fitted(analysis):
                panel.plot(x, k * (1 + np.expm1(-gamma * lag) / (gamma * lag)), **style)
            panel.set_xscale("log")
        inward_ticks(ax, inset)
        ax.set(yscale="log", xlim=(x[0], x[-1]), ylim=(6e-4, 0.09))
        ax.set(xlabel=_LAG, ylabel="diffusivity")
        inset.set(xlim=(40, x[-1]), ylim=(0.0425, 0.0565))
        inset.tick_params(labelsize=6.5)
        shared_legend(figure, ax)
    return figure


def _parameters_figure(analysis: Analysis) -> "Figure":
    """Draw figure 8: parameters in units of their prior means against τ; thick if consistent."""
    diffusivity, rate = PUBLISHED.u_rms**2 * TURNOVER, 1 / TURNOVER
    with journal_figure(3.5, 6.6, 3, sharex=True) as (figure, axes):
        for ax, model, name, scale, symbol in (
            (axes[0], "brownian", "kappa", diffusivity, r"\kappa"),
            (axes[1], "langevin", "gamma", rate, r"\gamma"),
            (axes[2], "langevin", "k", diffusivity, "k"),
        ):
            _parameter(ax, analysis, model, name, scale)
            if name in _ZOOMED:
                # Large τ, where the bands are too narrow to see in the main panel.
                inset = ax.inset_axes((0.5, 0.09, 0.48, 0.41))
                _parameter(inset, analysis, model, name, scale)
                limits = (45, 1.03 * analysis.taus[-1] / TURNOVER)
                inset.set(xscale="log", xlim=limits, ylim=_ZOOMED[name])
                inset.set_xticks([50, 100, 200], ["50", "100", "200"])
                inset.set_xticks([], minor=True)
                inward_ticks(inset)
                inset.tick_params(labelsize=6.5)
            ax.set_ylabel(f"{model}  ${symbol}^*$ / E[${symbol}$]")
        inward_ticks(*axes)
        axes[0].set_ylim(0, 1.75)
        axes[1].set_yscale("log", nonpositive="clip")
        axes[1].set_ylim(0.06, 1.2)
        axes[1].set_yticks([0.1, 0.2, 0.5, 1], ["0.1", "0.2", "0.5", "1"])
        axes[2].set(ylim=(0, 1.75), xscale="log")
        _turnover_axis(axes[2], analysis)
        # One legend, of γ, for three panels.
        shared_legend(figure, axes[1])
    return figure


def _parameter(ax: "Axes", analysis: Analysis, model: str, name: str, scale: float) -> None:
    x, colour = analysis.taus / TURNOVER, COLOURS[model]
    modes = analysis.along("exact", model, "map", name) / scale
    ax.plot(x, modes.T, color=colour, lw=0.4, alpha=0.6)
    mean, sd = mean_sd(modes)
    widths = analysis.along("exact", model, "posterior_sd", name).mean(axis=0) / scale
    draw_band(ax, x, mean, sd, colour, label=_spread_label(analysis))
    draw_band(ax, x, mean, widths, INK, label="± mean posterior sd", alpha=0.45)
    ax.plot(x, mean, color=colour, lw=1.0, label="mode, mean (thin: each)")
    ranges = [r.exact.consistency[model][name] for r in analysis.realisations]
    taus = analysis.taus
    inside = [c is not None and (taus >= c.tau_min) & (taus <= c.tau_max) for c in ranges]
    steady = np.where(np.logical_and.reduce(np.broadcast_arrays(*inside, mean)[:-1]), mean, np.nan)
    ax.plot(x, steady, color=colour, lw=2.0, label=f"consistent in τ in all {len(ranges)}")
    whole = analysis.along("all_windows", model, "map", name).mean(axis=0) / scale
    ax.plot(x, whole, color=INK, ls="--", lw=0.8, label="all windows, mean")
    ax.axhline(1, color=GUIDE, lw=0.6, ls=":", label="prior mean")


def _factors_figure(analysis: Analysis) -> "Figure":
    """Draw figure 9: log Bayes factor and log Occam factors against τ, exact and by Laplace."""
    x = analysis.taus / TURNOVER
    with journal_figure(3.5, 5.4, 2, sharex=True) as (figure, (above, below)):
        each = analysis.stack(lambda r: log_bayes_factors(r.exact))
        above.plot(x, each.T, color=_LANGEVIN, lw=0.4, alpha=0.6)
        exact, sd = mean_sd(each)
        laplace = analysis.stack(lambda r: log_bayes_factors(r.laplace)).mean(axis=0)
        above.plot(x, exact, color=_LANGEVIN, label="exact, mean (thin: each)")
        draw_band(above, x, exact, sd, _LANGEVIN, label=_spread_label(analysis))
        above.plot(x, laplace, color=INK, ls="--", lw=0.9, label="Laplace, mean")
        above.axhspan(-1, 1, color=GUIDE, alpha=0.18, lw=0, label="indistinguishable")
        above.axhline(0, color=GUIDE, lw=0.6)
        _log_factor_axis(above, -2)
        above.legend(loc="lower left", bbox_to_anchor=(0.0, 0.36))
        for model, colour in COLOURS.items():
            exact, sd = mean_sd(analysis.along("exact", model, "log_occam_factor"))
            laplace = analysis.along("laplace", model, "log_occam_factor").mean(axis=0)
            last = model == "langevin"
            below.plot(x, exact, color=colour, label=f"{model}, exact, mean")
            draw_band(below, x, exact, sd, colour, label=_spread_label(analysis) if last else None)
            label = "Laplace, mean" if last else None
            below.plot(x, laplace, color=INK, ls="--", lw=0.9, label=label)
        below.set(ylabel="ln Occam factor", xscale="log")
        _turnover_axis(below, analysis)
        below.legend(loc="center left", bbox_to_anchor=(0.0, 0.52))
        inward_ticks(above, below)
    return figure


def _flow_figure(analysis: Analysis) -> "Figure":
    """Draw energy and enstrophy per unit area against time, for all realisations."""
    config = analysis.results.config(_shown(analysis).name)
    start, end = config["spin_up"], config["spin_up"] + config["duration"]
    panels = {
        "energy_mean": (r"energy $\frac{1}{2}\langle|\mathbf{u}|^2\rangle$", (0.125, 0.245)),
        "enstrophy_mean": (r"enstrophy $\frac{1}{2}\langle\zeta^2\rangle$", (55.0, 200.0)),
    }
    with journal_figure(3.5, 4.4, 2, sharex=True) as (figure, axes):
        for ax, (name, (words, limits)) in zip(axes, panels.items(), strict=True):
            for r, colour in zip(analysis.realisations, cycle(MORE_COLOURS), strict=False):
                time, values = r.summary["flow_time"].values, r.summary[name].values
                ax.plot(time, values, color=colour, lw=0.6, label=f"seed {r.seed}, {r.precision}")
            published = getattr(PUBLISHED, name)
            line = {"color": _BROWNIAN, "ls": "--", "zorder": 4}
            ax.plot([start, end], [published] * 2, label="published mean", **line)
            centre, width = _EARLIER[name]
            box: dict[str, Any] = {"color": _LANGEVIN, "alpha": 0.22, "lw": 0}
            label = "range found in earlier runs"
            ax.fill_between([start, end], centre - width, centre + width, label=label, **box)
            ax.axvline(start, color=GUIDE, lw=0.6, ls=":", label="release of particles")
            ax.set(ylabel=words, ylim=limits)
        inward_ticks(*axes)
        top = panels["energy_mean"][1][1]
        axes[0].annotate(
            f"{config['start_energy']:g} at t = 0",
            (6, top),
            xytext=(75, top - 0.007),
            va="center",
            fontsize=7,
            arrowprops={"arrowstyle": "->", "lw": 0.6, "color": INK},
        )
        axes[-1].set(xlim=(0, end), xlabel=rf"time $t$ ($\tau_\zeta$ = {TURNOVER:.4f})")
        shared_legend(figure, axes[0])
    return figure


def _effective_figure(analysis: Analysis) -> "Figure":
    """Draw the spread of estimates relative to independent particles, and the corrected ln K."""
    spread = analysis.spread
    x = spread.taus / TURNOVER
    # Relative error of a standard deviation over data sets divided by one over draws.
    error = np.sqrt(1 / (2 * (spread.n_data_sets - 1)) + 1 / (2 * (N_DRAWS - 1)))
    with journal_figure(3.5, 5.6, 2, sharex=True) as (figure, (above, below)):
        for name, (label, colour, marker, shift) in _PARAMETERS.items():
            i = QUANTITIES.index(name)
            ratio = spread.over_flows[i] / spread.expected[i]
            bars: dict[str, Any] = {"color": colour, "fmt": marker, "ms": 3, "lw": 0.7}
            bars |= {"mec": "white", "mew": 0.3, "label": f"{label}, data sets"}
            above.errorbar(shift * x, ratio, yerr=ratio * error, **bars)
            among = spread.over_particles[i] / spread.expected[i]
            above.plot(x, among, color=colour, lw=0.9, ls="--", label=f"{label}, particles")
        above.axhline(1, color=GUIDE, lw=0.6)
        above.set(yscale="log", ylim=(0.4, 25), ylabel="spread / independent particles'")
        above.set_yticks([0.5, 1, 2, 5, 10, 20], ["0.5", "1", "2", "5", "10", "20"])
        above.legend(loc="upper right", ncols=2, fontsize=7)
        below.plot(x, spread.mean_log_bayes_factor, color=_LANGEVIN, label="uncorrected, mean")
        shared = spread.log_bayes_factor_of_flows
        below.plot(x, shared, color=MORE_COLOURS[0], ls="--", label="corrected for the shared flow")
        cautious = spread.log_bayes_factor_of_all
        # The relative error of a variance is twice that of a standard deviation.
        points: dict[str, Any] = {"fmt": "o-", "color": INK, "lw": 0.8}
        points["label"] = "and for unlike particles"
        below.errorbar(x, cautious, yerr=2 * error * cautious, **points)
        below.axhspan(-1, 1, color=GUIDE, alpha=0.18, lw=0, label="indistinguishable")
        _log_factor_axis(below, -1.5)
        below.legend(loc="lower left", bbox_to_anchor=(0.0, 0.31), fontsize=7)
        below.set_xscale("log")
        ticks = [1, 2, 5, 10, 20, 50, 100, 200]
        below.set_xticks(ticks, [str(t) for t in ticks])
        below.set_xlabel(_TAU)
        inward_ticks(above, below)
    return figure


def branches_figure(analysis: Analysis) -> "Figure | None":
    """Draw how runs from one state diverge, and the ratio of their mean square displacements.

    Bands are from a paired jackknife over groups of particles; they include the variability of
    particles but not of the flow. Dotted lines show the variability between flows of this length,
    scaled from the realisations by the square root of the length.

    Args:
        analysis: From `analyse`.

    Returns:
        The figure, or None if there are no such runs.
    """
    data = analysis.results.branches
    if data is None:
        return None
    with journal_figure(3.5, 5.6, 2) as (figure, (above, below)):
        _draw_divergence(above, data)
        _draw_msd_ratios(below, data, analysis)
        inward_ticks(above, below)
    return figure


def _draw_divergence(ax: "Axes", data: "xr.Dataset") -> None:
    reference, *others = (str(name) for name in data["branch"].values)
    time, snapshots = data["time"].values[1:], data["snapshot_time"].values[1:]
    for name, colour in zip(others, _BRANCH_COLOURS, strict=False):
        branch = data.sel(branch=name)
        apart = branch["separation"].values[1:] / (2 * np.pi)
        ax.loglog(time / TURNOVER, apart, color=colour, label=f"{name}: particles / $2\\pi$")
        flow = branch["vorticity_difference"].values[1:]
        if flow.any():
            marks: dict[str, Any] = {"color": colour, "ms": 2.5, "mfc": "white", "lw": 0.7}
            ax.plot(snapshots / TURNOVER, flow, "o-", label=f"{name}: vorticity, relative", **marks)
    ax.axhline(np.sqrt(2), color=GUIDE, lw=0.6, ls=":")
    words = r"$\sqrt{2}$, unrelated flows"
    ax.text(time[0] / TURNOVER, 1.1, words, color=GUIDE, fontsize=7, va="top")
    ax.set(ylim=(1e-10, 20), ylabel=f"rms difference from {reference}")
    ax.set_xlabel(r"time since the runs diverged / $\tau_\zeta$")
    ax.legend(loc="lower right", fontsize=7)


def _draw_msd_ratios(ax: "Axes", data: "xr.Dataset", analysis: Analysis) -> None:
    reference, *others = (str(name) for name in data["branch"].values)
    lag = data["lag"].values
    base = data["group_msd"].sel(branch=reference).values
    for name, colour in zip(others, _BRANCH_COLOURS, strict=False):
        ratio, sd = paired_ratio(data["group_msd"].sel(branch=name).values, base)
        ax.plot(lag / TURNOVER, ratio, color=colour, label=f"{name} (band: ± sd over particles)")
        draw_band(ax, lag / TURNOVER, ratio, sd, colour)
    # Relative standard deviation between two independent flows as short as the branches.
    first = analysis.realisations[0]
    short = json.loads(data.attrs["configs"])[reference]["config"]["duration"]
    stretch = analysis.results.config(first.name)["duration"] / short
    mean, sd = analysis.band(lambda r: r.summary["msd"].values[1:])
    spread = np.interp(lag, first.summary["lag"].values[1:], sd / mean) * np.sqrt(2 * stretch)
    for sign in (-1, 1):
        label = "± sd between two flows this short" if sign < 0 else None
        ax.plot(lag / TURNOVER, 1 + sign * spread, color=GUIDE, ls=":", lw=0.9, label=label)
    ax.axhline(1, color=GUIDE, lw=0.6)
    ax.set(xscale="log", xlabel=_LAG, ylim=(0.885, 1.055))
    ax.set_ylabel(f"mean square displacement\n/ {reference}'s")
    ax.legend(loc="lower left")


def paired_ratio(values: FloatArray, base: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the ratio of means over groups, and its jackknife standard deviation.

    Args:
        values: Numerator, (lag, group).
        base: Denominator of the same groups.
    """
    above, below = (v.sum(axis=-1, keepdims=True) - v for v in (values, base))
    ratio = values.mean(axis=-1) / base.mean(axis=-1)
    return ratio, np.sqrt(jackknife_variance(above / below))


def _mean_and_band(
    ax: "Axes", lag: FloatArray, analysis: Analysis, variable: str, label: str, **line: Any
) -> None:
    """Draw the mean of a lagged variable over realisations, and its standard deviation."""
    mean, sd = analysis.band(lambda r: r.summary[variable].values[-len(lag) :])
    ax.plot(lag / TURNOVER, mean, color=INK, label=label, **line)
    draw_band(ax, lag / TURNOVER, mean, sd, INK, label=_spread_label(analysis))


def _log_factor_axis(ax: "Axes", low: float) -> None:
    """Set a vertical axis of ln K, linear within ±1."""
    ax.set_yscale("symlog", linthresh=1.0)
    ax.set(ylim=(low, 4e4), ylabel=r"$\ln K_{L,B}$")
    names = ["−1", "0", "1", "10", "100", "$10^3$", "$10^4$"]
    ax.set_yticks([-1, 0, 1, 10, 100, 1e3, 1e4], names)


def _turnover_axis(ax: "Axes", analysis: Analysis) -> None:
    ax.set_xlim(analysis.taus[0] / TURNOVER, 1.03 * analysis.taus[-1] / TURNOVER)
    ax.set_xticks([2, 5, 10, 20, 50, 100, 200], ["2", "5", "10", "20", "50", "100", "200"])
    ax.set_xlabel(_TAU)


def _fitted(analysis: Analysis) -> list[tuple[float, float, dict[str, Any]]]:
    """Return mean modes of γ and k at the τ shown, and the style of each line."""
    lines = []
    for i, (turnovers, style) in enumerate(_SHOWN.items()):
        at = analysis.index(turnovers)
        modes = (analysis.along("exact", "langevin", "map", name) for name in ("gamma", "k"))
        gamma, k = (float(mode[:, at].mean()) for mode in modes)
        colour = _blend(_LANGEVIN, "white", 0.45 - 0.225 * i)
        label = rf"Langevin, $\tau$ = {analysis.taus[at] / TURNOVER:.3g} $\tau_\zeta$"
        lines.append((gamma, k, {"color": colour, "ls": style, "label": label}))
    return lines


def _spread_label(analysis: Analysis) -> str:
    return f"± sd over {len(analysis.realisations)} realisations"


def _shown(analysis: Analysis) -> Realisation:
    chosen = [r for r in analysis.realisations if r.seed == _SHOWN_SEED]
    return (chosen or list(analysis.realisations))[0]


def _ticks_of_pi(ax: "Axes", multiples: list[float]) -> None:
    names = {0: "0", 0.25: "π/4", 0.5: "π/2", 1: "π", 2: "2π"}
    at, labels = [np.pi * m for m in multiples], [names[m] for m in multiples]
    ax.set_xticks(at, labels)
    ax.set_yticks(at, labels)


def _blend(colour: str, other: str, weight: float) -> tuple[float, ...]:
    """Mix two colours; a weight of 1 gives the second."""
    from matplotlib.colors import to_rgb

    mixed = (1 - weight) * np.array(to_rgb(colour)) + weight * np.array(to_rgb(other))
    return tuple(float(c) for c in mixed)


def _many_colours(n: int) -> list[tuple[float, ...]]:
    """Return different colours: the hues of the palette, each from dark to light."""
    hues = (*COLOURS.values(), *MORE_COLOURS)
    shades = np.linspace(-0.45, 0.35, -(-n // len(hues)))
    pairs = [(hue, shade) for shade in shades for hue in hues][:n]
    return [_blend(hue, "white" if shade > 0 else "black", abs(shade)) for hue, shade in pairs]
