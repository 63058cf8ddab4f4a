"""Figures of the flow and of where it takes particles: the paper's 3 to 5, energy and enstrophy.

Lengths are those of a domain 2π wide, times those in which its energy is 0.22; axes of time are in
published eddy turnover times, τ_ζ = 0.0735.
"""

__all__ = [
    "TURNOVER",
    "blend",
    "flow_figure",
    "spectrum_figure",
    "spread_label",
    "trajectories_figure",
    "vorticity_figure",
]

from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes.plots.style import (
    COLOURS,
    GUIDE,
    INK,
    MORE_COLOURS,
    inward_ticks,
    journal_figure,
    shared_legend,
)
from driftbayes.reproduce.turbulence.analysis import Analysis, Realisation
from driftbayes.reproduce.turbulence.experiment import PUBLISHED
from driftbayes.reproduce.turbulence.measures import log_slope
from driftbayes.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TURNOVER = PUBLISHED.eddy_turnover_time
# The realisation whose pictures are shown.
_SHOWN_SEED = 1
# Colours end here: a hundredth of the area, the hearts of vortices, holds all larger |ζ|.
_CLIP = 0.99
_TRAJECTORY_TIME = 100.0
_WIDTH = 2 * np.pi
# Where the slope beyond the forcing is fitted. It is no power law: other ranges, other slopes.
_FITTED = (70, 250)
# Energy and enstrophy without the mode that is not in the flow, found before these runs.
_FOUND_BEFORE = {"energy_mean": (0.220, 0.005), "enstrophy_mean": (142.0, 6.0)}


def vorticity_figure(analysis: Analysis) -> "Figure":
    """Figure 3: vorticity when particles are released, of the whole domain and of a corner.

    Args:
        analysis: From `analyse`.
    """
    from matplotlib.patches import Rectangle

    stored = _shown(analysis).summary["vorticity"]
    zeta = stored.values * float(stored.attrs["scale"])
    limit = float(np.quantile(np.abs(zeta), _CLIP))
    n = zeta.shape[0] // 4
    edge: dict[str, Any] = {"fill": False, "ec": INK, "lw": 0.8}
    with journal_figure(7.0, 3.1, 1, 2) as (figure, (whole, corner)):
        for ax, field, width in ((whole, zeta, _WIDTH), (corner, zeta[:n, :n], _WIDTH / 4)):
            image = ax.imshow(
                field,
                origin="lower",
                extent=(0, width, 0, width),
                cmap="RdBu_r",
                vmin=-limit,
                vmax=limit,
                interpolation="antialiased",
            )
            ax.set_xlabel("$x$")
            ax.set_ylabel("$y$", rotation=0)
        inward_ticks(whole, corner)
        _ticks_of_pi(whole, [0, 1, 2])
        _ticks_of_pi(corner, [0, 0.25, 0.5])
        whole.add_patch(Rectangle((0, 0), _WIDTH / 4, _WIDTH / 4, **edge))
        bar = figure.colorbar(image, ax=[whole, corner], extend="both", shrink=0.95, pad=0.02)
        bar.set_label(rf"$\zeta$, clipped at the {100 * _CLIP:.0f} % quantile of $|\zeta|$")
    return figure


def spectrum_figure(analysis: Analysis) -> "Figure":
    """Figure 4: energy spectrum at release and its mean afterwards.

    The slope beyond the forcing wavenumber is fitted to the mean over a range that is shown. The
    band over realisations is hardly wider than the line.

    Args:
        analysis: From `analyse`.
    """
    shown = _shown(analysis)
    config = analysis.results.config(shown.name)
    k = shown.summary["k"].values
    mean, sd = analysis.band(lambda r: r.summary["energy_spectrum"].values)
    snapshots, _ = analysis.band(lambda r: r.summary["energy_spectrum_sd"].values)
    k_f, k_max = config["k_f"], config["grid"] / 2
    seen = (k >= 1) & (k <= 0.8 * k_max)
    start, end = config["spin_up"], config["spin_up"] + config["duration"]
    with journal_figure(3.5, 3.4) as (figure, ax):
        release = shown.summary["energy_spectrum_at_release"].values[seen]
        k, mean, sd, snapshots = k[seen], mean[seen], sd[seen], snapshots[seen]
        ax.loglog(k, release, color=COLOURS["brownian"], lw=0.7, label=f"at release, t = {start:g}")
        ax.plot(k, mean, color=INK, lw=1.0, label=f"mean over t = {start:g} to {end:g}")
        _log_band(ax, k, mean, snapshots, GUIDE, "± sd over snapshots")
        _log_band(ax, k, mean, sd, INK, spread_label(analysis))
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
            ax.plot(at, guide, color=COLOURS["langevin"], ls=style, label=name)
        ax.axvline(k_f, color=GUIDE, lw=0.6)
        ax.text(1.06 * k_f, 0.97, "$k_F$", va="top", transform=ax.get_xaxis_transform())
        ax.set(xlim=(0.9, k_max), ylim=(1e-8, 0.1), ylabel="energy spectrum $E(k)$")
        ax.set_xlabel("wavenumber $k$ (domain $2\\pi$ wide)")
        inward_ticks(ax)
        ax.legend(loc="lower left", fontsize=7)
    return figure


def trajectories_figure(analysis: Analysis) -> "Figure":
    """Figure 5: trajectories of some particles over 100 τ_ζ, not folded back into the domain.

    Args:
        analysis: From `analyse`.
    """
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


def flow_figure(analysis: Analysis) -> "Figure":
    """Energy and enstrophy per unit area against time, all realisations.

    Args:
        analysis: From `analyse`.
    """
    config = analysis.results.config(_shown(analysis).name)
    start, end = config["spin_up"], config["spin_up"] + config["duration"]
    labels = {
        "energy_mean": r"energy $\frac{1}{2}\langle|\mathbf{u}|^2\rangle$",
        "enstrophy_mean": r"enstrophy $\frac{1}{2}\langle\zeta^2\rangle$",
    }
    limits = {"energy_mean": (0.125, 0.245), "enstrophy_mean": (55.0, 200.0)}
    with journal_figure(3.5, 4.4, 2, sharex=True) as (figure, axes):
        for ax, (name, words) in zip(axes, labels.items(), strict=True):
            for r, colour in zip(analysis.realisations, cycle(MORE_COLOURS), strict=False):
                time, values = r.summary["flow_time"].values, r.summary[name].values
                ax.plot(time, values, color=colour, lw=0.6, label=f"seed {r.seed}, {r.precision}")
            published = getattr(PUBLISHED, name)
            line = {"color": COLOURS["brownian"], "ls": "--", "zorder": 4}
            ax.plot([start, end], [published] * 2, label="published mean", **line)
            centre, width = _FOUND_BEFORE[name]
            box: dict[str, Any] = {"color": COLOURS["langevin"], "alpha": 0.22, "lw": 0}
            label = "range found in earlier runs"
            ax.fill_between([start, end], centre - width, centre + width, label=label, **box)
            ax.axvline(start, color=GUIDE, lw=0.6, ls=":", label="release of particles")
            ax.set(ylabel=words, ylim=limits[name])
        inward_ticks(*axes)
        axes[0].annotate(
            f"{config['start_energy']:g} at t = 0",
            (6, limits["energy_mean"][1]),
            xytext=(75, limits["energy_mean"][1] - 0.007),
            va="center",
            fontsize=7,
            arrowprops={"arrowstyle": "->", "lw": 0.6, "color": INK},
        )
        axes[-1].set(xlim=(0, end), xlabel=rf"time $t$ ($\tau_\zeta$ = {TURNOVER:.4f})")
        shared_legend(figure, axes[0])
    return figure


def spread_label(analysis: Analysis) -> str:
    """Name a band over realisations in a legend."""
    return f"± sd over {len(analysis.realisations)} realisations"


def blend(colour: str, other: str, weight: float) -> tuple[float, float, float]:
    """Mix two colours; a weight of 1 gives the second."""
    from matplotlib.colors import to_rgb

    mixed = (1 - weight) * np.array(to_rgb(colour)) + weight * np.array(to_rgb(other))
    return tuple(float(c) for c in mixed)  # type: ignore[return-value]


def _shown(analysis: Analysis) -> Realisation:
    chosen = [r for r in analysis.realisations if r.seed == _SHOWN_SEED]
    return (chosen or list(analysis.realisations))[0]


def _log_band(
    ax: "Axes", x: FloatArray, mean: FloatArray, sd: FloatArray, colour: str, label: str
) -> None:
    # As a factor: mean - sd may be negative, and then has no place on a logarithmic axis.
    factor = np.exp(sd / mean)
    band: dict[str, Any] = {"color": colour, "alpha": 0.35, "lw": 0, "label": label}
    ax.fill_between(x, mean / factor, mean * factor, **band)


def _ticks_of_pi(ax: "Axes", multiples: list[float]) -> None:
    names = {0: "0", 0.25: "π/4", 0.5: "π/2", 1: "π", 2: "2π"}
    at, labels = [np.pi * m for m in multiples], [names[m] for m in multiples]
    ax.set_xticks(at, labels)
    ax.set_yticks(at, labels)


def _many_colours(n: int) -> list[tuple[float, float, float]]:
    """Different colours: the hues of the palette, each from dark to light."""
    hues = (*COLOURS.values(), *MORE_COLOURS)
    n_shades = -(-n // len(hues))
    shades = np.linspace(-0.45, 0.35, n_shades)
    return [
        blend(
            hues[i % len(hues)], "white" if (s := shades[i // len(hues)]) > 0 else "black", abs(s)
        )
        for i in range(n)
    ]
