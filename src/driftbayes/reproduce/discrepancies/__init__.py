"""Errors of the paper's turbulence experiment, and their effect on its results."""

__all__ = [
    "Discrepancies",
    "ForcingReadings",
    "MislabelledTau",
    "ParticleScheme",
    "SpuriousMode",
    "forcing_readings",
    "mislabelled_tau",
    "particle_scheme",
    "run_discrepancies",
    "spurious_mode",
]

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from driftbayes._representation import plain
from driftbayes._version import __version__
from driftbayes.plots.style import COLOURS, GUIDE, INK, MORE_COLOURS, journal_figure
from driftbayes.reproduce.discrepancies._forcing import ForcingReadings, forcing_readings
from driftbayes.reproduce.discrepancies._halfplane import SpuriousMode, spurious_mode
from driftbayes.reproduce.discrepancies._labels import MislabelledTau, mislabelled_tau
from driftbayes.reproduce.discrepancies._published import K_F, TAU_ZETA
from driftbayes.reproduce.discrepancies._schemes import ParticleScheme, particle_scheme
from driftbayes.reproduce.study import DEFAULT_RUNNER, Runner, StudyResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Discrepancies(StudyResult):
    """Errors of the paper's turbulence experiment.

    Args:
        forcing: Readings of the printed amplitude of the forcing.
        spurious: Spurious energy of noise on the half-plane.
        scheme: First-order scheme for the particles.
        labels: Data at one sampling time analysed at another.
    """

    name: ClassVar[str] = "discrepancies"

    forcing: ForcingReadings
    spurious: SpuriousMode
    scheme: ParticleScheme
    labels: MislabelledTau

    def sentences(self) -> list[str]:
        forcing, spurious, scheme, labels = self.forcing, self.spurious, self.scheme, self.labels
        printed, meant = (forcing.epsilon[forcing.names.index(name)] for name in "ab")
        energy, enstrophy = spurious.energy_mean, spurious.enstrophy_mean
        order = scheme.papers_order[1, 0]
        change, error = scheme.msd_change[0], scheme.msd_change_error[0]
        return [
            f"forcing: injects {printed:.5f} per unit area as printed, {meant:.5f} with twice the "
            "variance",
            f"half-plane noise: spurious energy {energy[0]:.4f} ± {energy[1]:.4f} and enstrophy "
            f"{enstrophy[0]:.0f} ± {enstrophy[1]:.0f}; the published excess is "
            f"{spurious.energy_published[0]:.4f} and {spurious.enstrophy_published[0]:.0f}",
            f"particles: the paper's scheme is of order {order:.2f}; mean square displacement "
            f"changes by {change:.0e} ± {error:.0e} at a lag of {scheme.lags[0]:g} turnover times",
            f"labels of τ: wrong by up to {100 * (1 - labels.ratio.min()):.1f} %, which multiplies "
            "κ, γ and k by as much",
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "driftbayes_version": __version__,
            "forcing_readings": plain(vars(self.forcing)),
            "spurious_mode": plain(vars(self.spurious)),
            "particle_scheme": plain(vars(self.scheme)),
            "mislabelled_tau": plain(vars(self.labels)),
        }

    def figures(self) -> dict[str, "Figure"]:
        with journal_figure(3.4, 7.6, 3) as (figure, axes):
            _draw_spurious(axes[0], self.spurious)
            _draw_schemes(axes[1], self.scheme)
            _draw_labels(axes[2], self.labels)
            for ax, letter in zip(axes, "abc", strict=True):
                ax.set_title(letter, loc="left", fontweight="bold")
                ax.tick_params(which="both", direction="in", top=True, right=True, width=0.6)
        return {"discrepancies": figure}


def run_discrepancies(seed: int = 0, *, runner: Runner = DEFAULT_RUNNER) -> Discrepancies:
    """Compute all four errors; takes a minute on two cores.

    Args:
        seed: Random seed of every simulation.
        runner: Options of the computation.
    """
    parts: dict[str, Callable[[int], Any]] = {
        "forcing": forcing_readings,
        "spurious": spurious_mode,
        "scheme": particle_scheme,
        "labels": mislabelled_tau,
    }
    results: dict[str, Any] = {}
    for name, compute in parts.items():
        results[name] = compute(seed)
        runner.report("discrepancies", len(results), len(parts))
    return Discrepancies(**results)


def _draw_spurious(ax: "Axes", mode: SpuriousMode) -> None:
    colour = COLOURS["langevin"]
    low, high = np.maximum(mode.energy - mode.energy_sd, 0), mode.energy + mode.energy_sd
    ax.fill_between(mode.t, low, high, color=colour, alpha=0.18, lw=0)
    ax.plot(mode.t, mode.energy, color=colour, label="closed form, mean ± sd")
    ax.plot(mode.t, mode.paths[:3].T, color=GUIDE, lw=0.5, label=["realisations", None, None])
    # In units of the friction time and the final energy all flows follow one curve.
    stretch = (K_F / mode.k_f_small) ** 2
    scale = mode.energy[-1] / np.interp(mode.t[-1] / stretch, mode.flow_t, mode.flow_expected)
    excess = mode.flow_counted - mode.flow_energy
    shown = slice(4, None, 9)
    ax.errorbar(
        stretch * mode.flow_t[shown],
        scale * excess.mean(axis=0)[shown],
        yerr=scale * mode.flow_expected_sd[shown] / np.sqrt(len(excess)),
        fmt="o",
        color=INK,
        lw=0.8,
        label=f"{len(excess)} small flows, rescaled",
    )
    value, error = mode.energy_published
    published: dict[str, Any] = {"color": COLOURS["brownian"], "label": "published excess"}
    ax.errorbar(750, value, xerr=250, yerr=error, fmt="s", **published)
    ax.set(xlim=(0, 1000), ylim=(0, 1.9 * mode.energy[-1]))
    ax.set(xlabel="time", ylabel="spurious energy")
    ax.legend(loc="upper left")


def _draw_schemes(ax: "Axes", scheme: ParticleScheme) -> None:
    h = scheme.h_over_turnover
    for errors, colour, name in (
        (scheme.papers, COLOURS["brownian"], "the paper's"),
        (scheme.residual, MORE_COLOURS[0], "the same, against a release h/3 later"),
        (scheme.ours, COLOURS["langevin"], "this package's"),
    ):
        forced, free = errors / scheme.displacement[:, None]
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


def _draw_labels(ax: "Axes", labels: MislabelledTau) -> None:
    tau = labels.tau / TAU_ZETA
    at = tau[labels.chosen]
    for ratio, colour in ((labels.kappa_ratio, "brownian"), (labels.ratio, "langevin")):
        ax.plot(tau, ratio - 1, ".", ms=1.5, color=COLOURS[colour])
    style: dict[str, Any] = {"ms": 4, "mec": "white", "mew": 0.4, "lw": 0.8}
    for values, sd, colour, marker, shift, name in (
        (labels.kappa, labels.kappa_sd, COLOURS["brownian"], "o", 0.96, r"$\kappa$"),
        (labels.gamma, labels.gamma_sd, COLOURS["langevin"], "s", 1.0, r"$\gamma$"),
        (labels.k, labels.k_sd, MORE_COLOURS[0], "^", 1.04, "$k$"),
    ):
        # The error bar of an unidentified parameter would hide the others.
        known = sd < 0.1
        x, y = shift * at[known], values[known] - 1
        ax.errorbar(x, y, yerr=sd[known], fmt=marker, color=colour, label=name, **style)
    ax.axhline(0, color=GUIDE, lw=0.6)
    ax.set(xscale="log", xlim=(0.85, 290))
    ax.set(xlabel=r"nominal $\tau$ / $\tau_\zeta$", ylabel="relative bias")
    ax.legend(loc="lower right", title="dots: closed form\nmarks: drawn data")
