"""Figures of both models beside the flow: the paper's 6 to 9."""

__all__ = [
    "diffusivity_figure",
    "factors_figure",
    "log_factor_axis",
    "lvaf_figure",
    "parameters_figure",
]

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from driftbayes.comparison import Scan
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
from driftbayes.reproduce.claims import along_tau, log_bayes_factors
from driftbayes.reproduce.turbulence.analysis import Analysis, Realisation
from driftbayes.reproduce.turbulence.experiment import PUBLISHED
from driftbayes.reproduce.turbulence.figures_flow import TURNOVER, blend, spread_label
from driftbayes.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Sampling times whose Langevin models are shown, in τ_ζ.
_SHOWN = (5, 25, 100)
_STYLES = ("--", "-.", ":")
_BROWNIAN, _LANGEVIN = COLOURS["brownian"], COLOURS["langevin"]
_TAU = r"sampling time $\tau$ / $\tau_\zeta$"
_LAG = r"lag / $\tau_\zeta$"
# Limits of the insets that show where a diffusivity settles, in units of its prior mean.
_ZOOMED = {"kappa": (1.25, 1.53), "k": (1.41, 1.62)}
# Beyond this the autocovariance is lost in its noise.
_LVAF_TURNOVERS = 60.0


def lvaf_figure(analysis: Analysis) -> "Figure":
    """Figure 6: velocity autocovariance, and that of Langevin models fitted at three τ.

    Args:
        analysis: From `analyse`.
    """
    lag = analysis.realisations[0].summary["lag"].values
    mean, sd = analysis.band(lambda r: r.summary["lvaf"].values)
    with journal_figure(3.5, 3.0) as (figure, ax):
        ax.set_yscale("log", nonpositive="clip")
        ax.plot(lag / TURNOVER, mean, color=INK, label="$r$, the flow")
        draw_band(ax, lag / TURNOVER, mean, sd, INK, label=spread_label(analysis))
        fine = np.linspace(0, _LVAF_TURNOVERS * TURNOVER, 200)
        for gamma, k, style, colour, label in _fitted(analysis):
            r = k * gamma * np.exp(-gamma * fine)
            ax.plot(fine / TURNOVER, r, color=colour, ls=style, label=label)
        ax.set(xlim=(0, _LVAF_TURNOVERS), ylim=(1e-4, 0.4))
        ax.set(xlabel=_LAG, ylabel="velocity autocovariance $r$")
        inward_ticks(ax)
        ax.legend(loc="upper right")
    return figure


def diffusivity_figure(analysis: Analysis) -> "Figure":
    """Figure 7: absolute diffusivity between its limits, and that of the same Langevin models.

    Args:
        analysis: From `analyse`.
    """
    lag = analysis.realisations[0].summary["lag"].values[1:]
    x = lag / TURNOVER
    absolute, absolute_sd = analysis.band(lambda r: r.summary["absolute_diffusivity"].values[1:])
    taylor, taylor_sd = analysis.band(lambda r: r.summary["taylor_diffusivity"].values[1:])
    r_0 = analysis.stack(lambda r: r.summary["lvaf"].values[0]).mean()
    kappa = analysis.stack(lambda r: along_tau(r.exact, "brownian", "map", "kappa")[-1]).mean()
    with journal_figure(3.5, 4.2) as (figure, ax):
        # Where it is constant, bands that are too narrow to see beside the rest.
        inset = ax.inset_axes((0.46, 0.1, 0.52, 0.4))
        green, at = MORE_COLOURS[0], analysis.taus[-1] / TURNOVER
        label = rf"Brownian $\kappa^*$, $\tau$ = {at:.0f} $\tau_\zeta$"
        for panel in (ax, inset):
            panel.plot(x, absolute, color=INK, label=r"$\kappa_\mathrm{abs}$, the flow", zorder=3)
            draw_band(panel, x, absolute, absolute_sd, INK, label=spread_label(analysis))
            panel.plot(x, taylor, color=green, lw=1.0, label="Taylor, integral of $r$")
            draw_band(panel, x, taylor, taylor_sd, green)
            ballistic = 0.5 * r_0 * lag
            panel.plot(x, ballistic, color=GUIDE, lw=0.9, label="ballistic, $r(0)$ lag / 2")
            panel.axhline(kappa, color=_BROWNIAN, lw=0.9, label=label)
            for gamma, k, style, colour, name in _fitted(analysis):
                ou = k * (1 + np.expm1(-gamma * lag) / (gamma * lag))
                panel.plot(x, ou, color=colour, ls=style, label=name)
            panel.set_xscale("log")
        inward_ticks(ax, inset)
        ax.set(yscale="log", xlim=(x[0], x[-1]), ylim=(6e-4, 0.09))
        ax.set(xlabel=_LAG, ylabel="diffusivity")
        inset.set(xlim=(40, x[-1]), ylim=(0.0425, 0.0565))
        inset.tick_params(labelsize=6.5)
        shared_legend(figure, ax)
    return figure


def parameters_figure(analysis: Analysis) -> "Figure":
    r"""Figure 8: parameters of both models against τ, in units of their prior means.

    The heavy line is the mean where the parameter is consistent in τ in every realisation.

    Args:
        analysis: From `analyse`.
    """
    diffusivity, rate = PUBLISHED.u_rms**2 * TURNOVER, 1 / TURNOVER
    with journal_figure(3.5, 6.6, 3, sharex=True) as (figure, axes):
        for ax, model, name, scale, symbol in (
            (axes[0], "brownian", "kappa", diffusivity, r"\kappa"),
            (axes[1], "langevin", "gamma", rate, r"\gamma"),
            (axes[2], "langevin", "k", diffusivity, "k"),
        ):
            _parameter(ax, analysis, model, name, scale)
            if name in _ZOOMED:
                _zoomed(ax, analysis, model, name, scale)
            ax.set_ylabel(f"{model}  ${symbol}^*$ / E[${symbol}$]")
        inward_ticks(*axes)
        axes[0].set_ylim(0, 1.75)
        axes[1].set_yscale("log", nonpositive="clip")
        axes[1].set_ylim(0.06, 1.2)
        axes[1].set_yticks([0.1, 0.2, 0.5, 1], ["0.1", "0.2", "0.5", "1"])
        axes[2].set(ylim=(0, 1.75), xscale="log")
        _turnover_axis(axes[2], analysis)
        # Of γ, and without its colour: one legend for three panels.
        shared_legend(figure, axes[1])
    return figure


def factors_figure(analysis: Analysis) -> "Figure":
    """Figure 9: log Bayes factor and log Occam factors against τ, exactly and by Laplace's method.

    Args:
        analysis: From `analyse`.
    """
    x = analysis.taus / TURNOVER
    with journal_figure(3.5, 5.4, 2, sharex=True) as (figure, (above, below)):
        each = analysis.stack(lambda r: log_bayes_factors(r.exact))
        above.plot(x, each.T, color=_LANGEVIN, lw=0.4, alpha=0.6)
        exact, sd = analysis.band(lambda r: log_bayes_factors(r.exact))
        laplace, _ = analysis.band(lambda r: log_bayes_factors(r.laplace))
        above.plot(x, exact, color=_LANGEVIN, label="exact, mean (thin: each)")
        draw_band(above, x, exact, sd, _LANGEVIN, label=spread_label(analysis))
        above.plot(x, laplace, color=INK, ls="--", lw=0.9, label="Laplace, mean")
        above.axhspan(-1, 1, color=GUIDE, alpha=0.18, lw=0, label="indistinguishable")
        above.axhline(0, color=GUIDE, lw=0.6)
        log_factor_axis(above, -2)
        above.legend(loc="lower left", bbox_to_anchor=(0.0, 0.36))
        for model in ("brownian", "langevin"):
            colour = COLOURS[model]
            exact, sd = _occam(analysis, model, lambda r: r.exact)
            laplace, _ = _occam(analysis, model, lambda r: r.laplace)
            below.plot(x, exact, color=colour, label=f"{model}, exact, mean")
            last = model == "langevin"
            draw_band(below, x, exact, sd, colour, label=spread_label(analysis) if last else None)
            label = "Laplace, mean" if last else None
            below.plot(x, laplace, color=INK, ls="--", lw=0.9, label=label)
        below.set(ylabel="ln Occam factor", xscale="log")
        _turnover_axis(below, analysis)
        below.legend(loc="center left", bbox_to_anchor=(0.0, 0.52))
        inward_ticks(above, below)
    return figure


def log_factor_axis(ax: "Axes", low: float) -> None:
    """Set an upright axis of ln K, linear within ±1."""
    ax.set_yscale("symlog", linthresh=1.0)
    ax.set(ylim=(low, 4e4), ylabel=r"$\ln K_{L,B}$")
    names = ["−1", "0", "1", "10", "100", "$10^3$", "$10^4$"]
    ax.set_yticks([-1, 0, 1, 10, 100, 1e3, 1e4], names)


def _fitted(analysis: Analysis) -> list[tuple[float, float, str, tuple[float, float, float], str]]:
    """Mean modes of γ and k at the τ shown, with a style, a colour and a name for each."""
    out = []
    for i, (turnovers, style) in enumerate(zip(_SHOWN, _STYLES, strict=True)):
        at = analysis.index(turnovers)
        gamma, k = (_mean_mode(analysis, name, at) for name in ("gamma", "k"))
        colour = blend(_LANGEVIN, "white", 0.45 - 0.225 * i)
        name = rf"Langevin, $\tau$ = {analysis.taus[at] / TURNOVER:.3g} $\tau_\zeta$"
        out.append((gamma, k, style, colour, name))
    return out


def _mean_mode(analysis: Analysis, parameter: str, at: int) -> float:
    modes = analysis.stack(lambda r: along_tau(r.exact, "langevin", "map", parameter))
    return float(modes[:, at].mean())


def _parameter(ax: "Axes", analysis: Analysis, model: str, name: str, scale: float) -> None:
    x, colour = analysis.taus / TURNOVER, COLOURS[model]

    def modes(of: Callable[[Realisation], Scan]) -> Callable[[Realisation], FloatArray]:
        return lambda r: along_tau(of(r), model, "map", name) / scale

    first = modes(lambda r: r.exact)
    ax.plot(x, analysis.stack(first).T, color=colour, lw=0.4, alpha=0.6)
    mean, sd = analysis.band(first)
    widths = analysis.stack(lambda r: along_tau(r.exact, model, "posterior_sd", name) / scale)
    draw_band(ax, x, mean, sd, colour, label=spread_label(analysis))
    draw_band(ax, x, mean, widths.mean(axis=0), INK, label="± mean posterior sd", alpha=0.45)
    ax.plot(x, mean, color=colour, lw=1.0, label="mode, mean (thin: each)")
    n = len(analysis.realisations)
    steady = np.where(_consistent_in_all(analysis, model, name), mean, np.nan)
    ax.plot(x, steady, color=colour, lw=2.0, label=f"consistent in τ in all {n}")
    whole, _ = analysis.band(modes(lambda r: r.all_windows))
    ax.plot(x, whole, color=INK, ls="--", lw=0.8, label="all windows, mean")
    ax.axhline(1, color=GUIDE, lw=0.6, ls=":", label="prior mean")


def _zoomed(ax: "Axes", analysis: Analysis, model: str, name: str, scale: float) -> None:
    """The same where the parameter settles, with bands that are too narrow to see beside it."""
    inset = ax.inset_axes((0.5, 0.09, 0.48, 0.41))
    _parameter(inset, analysis, model, name, scale)
    inset.set(xscale="log", xlim=(45, 1.03 * analysis.taus[-1] / TURNOVER), ylim=_ZOOMED[name])
    inset.set_xticks([50, 100, 200], ["50", "100", "200"])
    inset.set_xticks([], minor=True)
    inward_ticks(inset)
    inset.tick_params(labelsize=6.5)


def _consistent_in_all(analysis: Analysis, model: str, name: str) -> FloatArray:
    taus = analysis.taus
    inside = np.ones(len(taus), dtype=bool)
    for r in analysis.realisations:
        found = r.exact.consistency[model][name]
        inside &= False if found is None else (taus >= found.tau_min) & (taus <= found.tau_max)
    return inside


def _occam(
    analysis: Analysis, model: str, of: Callable[[Realisation], Scan]
) -> tuple[FloatArray, FloatArray]:
    return analysis.band(lambda r: along_tau(of(r), model, "log_occam_factor"))


def _turnover_axis(ax: "Axes", analysis: Analysis) -> None:
    ax.set_xlim(analysis.taus[0] / TURNOVER, 1.03 * analysis.taus[-1] / TURNOVER)
    ax.set_xticks([2, 5, 10, 20, 50, 100, 200], ["2", "5", "10", "20", "50", "100", "200"])
    ax.set_xlabel(_TAU)
