"""Section 4 of the paper: both models applied to data from the Langevin model."""

__all__ = ["LangevinExperiment", "hypotheses", "run_langevin", "simulate_data"]

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from driftbayes._jax_typing import Key
from driftbayes._typing import FloatArray
from driftbayes.comparison import Scan, scan_displacements
from driftbayes.data._sampling import Displacements
from driftbayes.inference import Hypothesis
from driftbayes.models import Brownian, Langevin
from driftbayes.plots.scan import plot_log_bayes_factor, plot_log_occam_factor, plot_parameter
from driftbayes.plots.style import INK, journal_figure
from driftbayes.priors import Exponential
from driftbayes.reproduce.study import (
    DEFAULT_RUNNER,
    PAIR,
    Claim,
    Runner,
    StudyResult,
    along_tau,
    log_bayes_factors,
    yes,
)

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Datasets of the exact scan and of Laplace's method, by name.
Scans: TypeAlias = "Mapping[str, xr.Dataset]"
# True value of each parameter, along tau.
Truths: TypeAlias = Mapping[str, float | FloatArray]

GAMMA = K = 1.0
N_PARTICLES, N_STEPS, N_DIM = 100, 10, 3
TAUS = np.geomspace(1e-2, 1e2, 100)


@dataclass(frozen=True, eq=False)
class LangevinExperiment(StudyResult):
    """Two scans of the same data, by the paper's Laplace method and exactly.

    Args:
        seed: Random seed of the data; data set i has key `fold_in(key(seed), i)`.
        laplace: Scan by Laplace's method in natural parameters, as in the paper.
        exact: Scan by exact integration.
    """

    name: ClassVar[str] = "langevin"
    title: ClassVar[str] = "Langevin test case"
    section: ClassVar[int] = 4

    seed: int
    laplace: Scan
    exact: Scan

    def claims(self) -> list[Claim]:
        tau = self.exact.taus
        exact, laplace = log_bayes_factors(self.exact), log_bayes_factors(self.laplace)
        mode = along_tau(self.laplace, "langevin", "map", "gamma")
        sd = along_tau(self.exact, "langevin", "posterior_sd", "gamma")
        kappa = self.exact.consistency["brownian"]["kappa"]
        large = tau >= 30
        occam_brownian, occam_langevin = (
            along_tau(self.laplace, model, "log_occam_factor") for model in ("brownian", "langevin")
        )
        deficit = along_tau(self.laplace, "langevin", "log_evidence")
        deficit = deficit - along_tau(self.exact, "langevin", "log_evidence")
        strong = tau[exact > 5]
        flips = int(np.sum(np.sign(exact) != np.sign(laplace)))
        return [
            Claim(
                "kappa is consistent only in the diffusive limit, where kappa = k = 1",
                "tau ≳ 10",
                "nowhere"
                if kappa is None
                else f"tau ≥ {kappa.tau_min:.3g}, kappa = {kappa.value:.3f} ± {kappa.sd:.3f}",
                yes(kappa is not None and 3 < kappa.tau_min < 30 and abs(kappa.value - 1) < 0.1),
            ),
            Claim(
                "gamma is well identified until tau is large, then its error grows",
                "figure 1",
                f"sd {np.median(sd[tau < 1]):.2f} for tau < 1, {np.median(sd[large]):.2f} for ≥ 30",
                yes(np.median(sd[large]) > 5 * np.median(sd[tau < 1])),
            ),
            Claim(
                "the mode of gamma decays to zero as tau grows",
                "figure 1",
                f"median mode {np.median(mode[tau < 1]):.2f} for tau < 1, "
                f"{np.median(mode[tau > 60]):.2f} for > 60",
                yes(np.median(mode[tau > 60]) < 0.7),
            ),
            Claim(
                "Langevin is preferred over a significant range of tau",
                "large positive ln K",
                f"ln K > 5 up to tau = {strong.max():.3g}, at most {exact.max():.0f}",
                yes(strong.max() > 1 and exact.max() > 1000),
            ),
            Claim(
                "|ln K| < 1 is typical at large tau (by Laplace, as in the paper)",
                "figure 2",
                f"{np.mean(np.abs(laplace[large]) < 1):.0%} of tau ≥ 30",
                yes(np.mean(np.abs(laplace[large]) < 1) > 0.5),
            ),
            Claim(
                "the same by exact integration",
                "-",
                f"{np.mean(np.abs(exact[large]) < 1):.0%} of tau ≥ 30",
                "-",
            ),
            Claim(
                "Brownian's Occam factor is about constant once tau is large",
                "figure 2",
                f"ln Occam {occam_brownian[large].mean():.2f} ± "
                f"{occam_brownian[large].std():.2f} for tau ≥ 30",
                yes(occam_brownian[large].std() < 0.2),
            ),
            Claim(
                "Langevin's Occam factor rises at large tau",
                "figure 2",
                f"ln Occam {np.median(occam_langevin[tau < 3]):.2f} for tau < 3, "
                f"{np.median(occam_langevin[tau > 60]):.2f} for > 60",
                yes(np.median(occam_langevin[tau > 60]) > np.median(occam_langevin[tau < 3])),
            ),
            Claim(
                "Laplace's method is accurate",
                "assumed",
                f"error {np.abs(deficit[tau <= 1]).max():.3f} for tau ≤ 1, up to "
                f"{np.abs(deficit).max():.2f} beyond; sign of ln K wrong at {flips} of {len(tau)}",
                "only for tau ≲ 5",
            ),
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "gamma": GAMMA,
            "k": K,
            "n_particles": N_PARTICLES,
            "n_steps": N_STEPS,
            "n_dim": N_DIM,
            "exact": self.exact.to_json(),
            "laplace": self.laplace.to_json(),
            "claims": [asdict(claim) for claim in self.claims()],
        }

    def sentences(self) -> list[str]:
        return list(self.exact.sentences.values())

    def scans(self) -> dict[str, "xr.Dataset"]:
        """Return both scans as datasets, by method."""
        return {"exact": self.exact.to_dataset(), "laplace": self.laplace.to_dataset()}

    def files(self) -> dict[str, Any]:
        scans = self.scans()
        return {
            **{f"langevin_{method}.nc": dataset for method, dataset in scans.items()},
            "langevin.csv": _columns(scans),
            "claims.json": [asdict(claim) for claim in self.claims()],
        }

    def figures(self) -> dict[str, "Figure"]:
        scans = self.scans()
        expected = np.asarray(Langevin(gamma=GAMMA, k=K).absolute_diffusivity(jnp.asarray(TAUS)))
        truths: Truths = {"brownian.kappa": expected, "langevin.gamma": GAMMA, "langevin.k": K}
        return {
            "figure1": _parameters_figure(scans, truths),
            "figure2": _factors_figure(scans),
            "overview": _overview_figure(scans, truths),
        }


def hypotheses() -> list[Hypothesis]:
    """Return both models with the paper's priors, Exp(1) for every parameter."""
    unit = Exponential(mean=1.0)
    return [Hypothesis(Brownian, kappa=unit), Hypothesis(Langevin, gamma=unit, k=unit)]


def simulate_data(seed: int = 0) -> list[Displacements]:
    """Simulate independent data sets exactly, one per tau."""
    positions = _simulate_all(jax.random.key(seed), jnp.asarray(TAUS))
    steps = np.diff(np.asarray(positions), axis=2)
    return [Displacements.from_array(dx, tau) for dx, tau in zip(steps, TAUS, strict=True)]


@jax.jit
def _simulate_all(key: Key, taus: Array) -> Array:
    model = Langevin(gamma=GAMMA, k=K)

    def simulate(index: Array, tau: Array) -> Array:
        own = jax.random.fold_in(key, index)
        return model.simulate(own, n_particles=N_PARTICLES, n_steps=N_STEPS, n_dim=N_DIM, tau=tau)

    return jax.vmap(simulate)(jnp.arange(len(TAUS)), taus)


def run_langevin(seed: int = 0, *, runner: Runner = DEFAULT_RUNNER) -> LangevinExperiment:
    """Simulate the data and scan them by both methods.

    Args:
        seed: Random seed of the data.
        runner: Options of the computation.
    """
    data = simulate_data(seed)
    attributes = {"seed": seed, "experiment": "langevin"}
    laplace = scan_displacements(data, hypotheses(), method="laplace")
    exact = scan_displacements(data, hypotheses())
    return LangevinExperiment(
        seed=seed,
        laplace=Scan(laplace.comparisons, attributes=attributes),
        exact=Scan(exact.comparisons, attributes=attributes),
    )


def _columns(scans: Scans) -> dict[str, FloatArray]:
    """Return every plotted number along tau."""
    columns = {"tau": scans["exact"]["tau"].values}
    for method, dataset in scans.items():
        columns[f"log_bayes_factor_{method}"] = dataset["log_bayes_factor"].sel(pair=PAIR).values
        for model in dataset["model"].values:
            occam = dataset["log_occam_factor"].sel(model=model).values
            columns[f"log_occam_factor_{model}_{method}"] = occam
        for parameter in dataset["parameter"].values:
            for field in ("map", "posterior_mean", "posterior_sd"):
                values = dataset[field].sel(parameter=parameter).values
                columns[f"{parameter}_{field}_{method}"] = values
    return columns


def _parameters_figure(scans: Scans, truths: Truths) -> "Figure":
    """Draw figure 1: the parameters of both models against tau."""
    with journal_figure(3.6, 6.4, len(truths), sharex=True) as (figure, axes):
        for ax, name in zip(axes, truths, strict=True):
            _parameter(ax, scans, name, truths)
            if ax is not axes[-1]:
                ax.set_xlabel("")
        axes[0].legend(loc="best")
    return figure


def _factors_figure(scans: Scans) -> "Figure":
    """Draw figure 2: log Bayes factor and log Occam factors against tau."""
    with journal_figure(3.6, 4.6, 2, sharex=True) as (figure, (above, below)):
        for name in ("laplace", "exact"):
            plot_log_bayes_factor(scans[name], ax=above)
            plot_log_occam_factor(scans[name], below)
        above.set_xlabel("")
        above.legend(loc="upper right")
        below.legend(loc="best")
    return figure


def _overview_figure(scans: Scans, truths: Truths) -> "Figure":
    """Draw three parameters and the Bayes factor in one row."""
    with journal_figure(10.0, 2.6, 1, len(truths) + 1) as (figure, (*panels, last)):
        for ax, name in zip(panels, truths, strict=True):
            _parameter(ax, scans, name, truths)
        panels[-1].legend(loc="lower left")
        for name in ("laplace", "exact"):
            plot_log_bayes_factor(scans[name], ax=last)
        last.legend(loc=(0.0, 0.46), fontsize=7, handlelength=1.4)
    return figure


def _parameter(ax: "Axes", scans: Scans, name: str, truths: Truths) -> None:
    plot_parameter(scans["laplace"], name, ax)
    plot_parameter(scans["exact"], name, ax)
    tau = scans["exact"]["tau"].values
    expected = np.broadcast_to(truths[name], tau.shape)
    ax.plot(tau, expected, color=INK, lw=0.8, ls=":", label="expected")
    ax.set_ylim(bottom=0)
