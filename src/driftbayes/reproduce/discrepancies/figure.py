"""The figure of the discrepancies: one column, three panels."""

__all__ = ["discrepancies_figure"]

from typing import TYPE_CHECKING

import numpy as np

from driftbayes.plots.style import COLOURS, GUIDE, INK, MORE_COLOURS, journal_style
from driftbayes.reproduce.discrepancies.halfplane import SpuriousMode
from driftbayes.reproduce.discrepancies.labels import MislabelledTau
from driftbayes.reproduce.discrepancies.paper import K_F, TAU_ZETA
from driftbayes.reproduce.discrepancies.schemes import ParticleScheme

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from driftbayes.reproduce.discrepancies.record import Discrepancies


def discrepancies_figure(result: "Discrepancies") -> "Figure":
    """Spurious energy against time, errors of the schemes against step, bias against τ."""
    from matplotlib.figure import Figure

    with journal_style():
        figure = Figure(figsize=(3.4, 7.6), layout="constrained")
        above, middle, below = figure.subplots(3, 1)
        _spurious(above, result.spurious)
        _schemes(middle, result.scheme)
        _labels(below, result.labels)
        for ax, letter in zip((above, middle, below), "abc", strict=True):
            ax.set_title(letter, loc="left", fontweight="bold")
            ax.tick_params(which="both", direction="in", top=True, right=True, width=0.6)
    return figure


def _spurious(ax: "Axes", found: SpuriousMode) -> None:
    colour = COLOURS["langevin"]
    ax.fill_between(
        found.t,
        np.maximum(found.energy - found.energy_sd, 0),
        found.energy + found.energy_sd,
        color=colour,
        alpha=0.18,
        lw=0,
    )
    ax.plot(found.t, found.energy, color=colour, label="closed form, mean ± sd")
    ax.plot(found.t, found.paths[:3].T, color=GUIDE, lw=0.5, label=["realisations", None, None])
    # In units of friction's time and of the final energy all flows follow one curve.
    stretch = (K_F / found.k_f_small) ** 2
    scale = found.energy[-1] / np.interp(found.t[-1] / stretch, found.flow_t, found.flow_expected)
    excess = found.flow_counted - found.flow_energy
    some = slice(4, None, 9)
    ax.errorbar(
        stretch * found.flow_t[some],
        scale * excess.mean(axis=0)[some],
        yerr=scale * found.flow_expected_sd[some] / np.sqrt(len(excess)),
        fmt="o",
        color=INK,
        lw=0.8,
        label=f"{len(excess)} small flows, rescaled",
    )
    value, error = found.energy_published
    ax.errorbar(
        750,
        value,
        xerr=250,
        yerr=error,
        fmt="s",
        color=COLOURS["brownian"],
        label="published excess",
    )
    ax.set_xlim(0, 1000)
    ax.set_ylim(0, 1.9 * found.energy[-1])
    ax.set_xlabel("time")
    ax.set_ylabel("energy that does not flow")
    ax.legend(loc="upper left")


def _schemes(ax: "Axes", found: ParticleScheme) -> None:
    h = found.h_over_turnover
    for errors, colour, name in (
        (found.papers, COLOURS["brownian"], "the paper's"),
        (found.residual, MORE_COLOURS[0], "the same, against a release h/3 later"),
        (found.ours, COLOURS["langevin"], "this package's"),
    ):
        forced, free = errors / found.displacement[:, None]
        ax.loglog(h, forced, "o-", color=colour, label=name)
        ax.loglog(h, free, "o--", color=colour, mfc="white")
    ax.plot([], [], "o--", color=GUIDE, mfc="white", label="dashed: without forcing")
    ax.set_ylim(1e-11, 1e5)
    ax.set_xticks(h, [f"1/{1 / value:.0f}" for value in h])
    ax.set_xticks([], minor=True)
    ax.set_yticks(10.0 ** np.arange(-10, 1, 2))
    ax.set_yticks([], minor=True)
    ax.set_xlabel(r"time step / $\tau_\zeta$ (the paper's is the first)")
    ax.set_ylabel("position error / displacement")
    ax.legend(loc="upper left")


def _labels(ax: "Axes", found: MislabelledTau) -> None:
    tau = found.tau / TAU_ZETA
    at = tau[found.chosen]
    for ratio, colour in ((found.kappa_ratio, "brownian"), (found.ratio, "langevin")):
        ax.plot(tau, ratio - 1, ".", ms=1.5, color=COLOURS[colour])
    for values, sd, colour, marker, name in (
        (found.kappa, found.kappa_sd, COLOURS["brownian"], "o", r"$\kappa$"),
        (found.gamma, found.gamma_sd, COLOURS["langevin"], "s", r"$\gamma$"),
        (found.k, found.k_sd, MORE_COLOURS[0], "^", "$k$"),
    ):
        shift = {"o": 0.96, "s": 1.0, "^": 1.04}[marker]
        # Where data say nothing of a parameter its error bar would hide the others.
        known = sd < 0.1
        ax.errorbar(
            shift * at[known],
            values[known] - 1,
            yerr=sd[known],
            fmt=marker,
            color=colour,
            ms=4,
            mec="white",
            mew=0.4,
            lw=0.8,
            label=name,
        )
    ax.axhline(0, color=GUIDE, lw=0.6)
    ax.set_xscale("log")
    ax.set_xlim(0.85, 290)
    ax.set_xlabel(r"nominal $\tau$ / $\tau_\zeta$")
    ax.set_ylabel("relative bias")
    ax.legend(loc="lower right", title="dots: closed form\nmarks: drawn data")
