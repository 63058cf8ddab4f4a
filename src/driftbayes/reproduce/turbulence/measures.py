"""Numbers that the claims are about, each of one realisation or one scan."""

__all__ = [
    "PriorShift",
    "consistent_from",
    "consistent_value",
    "decay_rate",
    "diffusivity_slope",
    "energy_drift",
    "gamma_sd",
    "likelihood_gain",
    "log_slope",
    "own_curve_is_closest",
    "prior_shift",
    "spectrum_peak",
    "spectrum_slope",
    "taylor_diffusivities",
]

from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from driftbayes.comparison import Scan, scan_displacements
from driftbayes.models import Langevin
from driftbayes.reproduce.claims import along_tau
from driftbayes.reproduce.turbulence.analysis import Analysis, Realisation, data_sets
from driftbayes.reproduce.turbulence.condense import both_models
from driftbayes.reproduce.turbulence.experiment import PUBLISHED
from driftbayes.typing import FloatArray

# Prior means are divided and multiplied by this to see what difference they make.
_PRIOR_FACTOR = 4.0


def energy_drift(realisation: Realisation) -> float:
    """Mean energy in the second half of the time after release, against the first."""
    summary = realisation.summary
    times, energy = summary["flow_time"].values, summary["energy_mean"].values
    after = energy[times >= times[-1] / 2]
    half = len(after) // 2
    return float(after[half:].mean() / after[:half].mean() - 1)


def spectrum_slope(realisation: Realisation, low: float, high: float) -> float:
    """Slope of the energy spectrum between two wavenumbers, in logarithms."""
    summary = realisation.summary
    return log_slope(summary["k"].values, summary["energy_spectrum"].values, low, high)


def log_slope(x: FloatArray, y: FloatArray, low: float, high: float) -> float:
    """Fit the slope of ln y against ln x for low < x < high; NaN if there are too few points."""
    inside = (x > low) & (x < high)
    if inside.sum() < 2:
        return float("nan")
    return float(np.polyfit(np.log(x[inside]), np.log(y[inside]), 1)[0])


def spectrum_peak(realisation: Realisation, name: str) -> float:
    """Wavenumber at which a spectrum is greatest."""
    return float(realisation.summary["k"].values[np.argmax(realisation.summary[name].values)])


def decay_rate(realisation: Realisation, low: float, high: float) -> float:
    """Mean rate at which the velocity autocovariance falls between two lags."""
    summary = realisation.summary
    ends = np.interp([low, high], summary["lag"].values, summary["lvaf"].values)
    return float(np.log(ends[0] / ends[1]) / (high - low))


def diffusivity_slope(realisation: Realisation, low: float, high: float) -> float:
    """Power of the lag as which absolute diffusivity grows between two lags."""
    summary = realisation.summary
    lag, values = summary["lag"].values[1:], summary["absolute_diffusivity"].values[1:]
    ends = np.interp([low, high], lag, values)
    return float(np.log(ends[1] / ends[0]) / np.log(high / low))


def own_curve_is_closest(analysis: Analysis, turns: float, others: Sequence[float]) -> bool:
    """Whether the fit at this tau, of several, has the diffusivity at this lag most nearly right.

    Args:
        analysis: All realisations; their errors are averaged.
        turns: The tau, in published turnover times.
        others: Those of all fits.
    """
    tau = float(analysis.taus[analysis.index(turns)])

    def off(other: float) -> float:
        found = []
        for r in analysis.realisations:
            lag, data = r.summary["lag"].values[1:], r.summary["absolute_diffusivity"].values[1:]
            model = Langevin(**r.exact.evidences("langevin")[analysis.index(other)].map)
            fitted = float(model.absolute_diffusivity(jnp.asarray(tau)))
            found.append(fitted / np.interp(tau, lag, data) - 1)
        return abs(float(np.mean(found)))

    return min(others, key=off) == turns


def taylor_diffusivities(realisation: Realisation) -> tuple[float, float]:
    r"""Taylor's integral up to the largest tau, and what it says of the diffusivity at that tau.

    $$\kappa_\mathrm{abs}(\tau) = \frac1\tau \int_0^\tau \kappa_\mathrm T(s)\,\mathrm ds
      = \int_0^\tau \Bigl(1 - \frac s\tau\Bigr)\,r(s)\,\mathrm ds$$
    """
    summary = realisation.summary
    tau = realisation.exact.taus[-1]
    lag, running = summary["lag"].values, summary["taylor_diffusivity"].values
    fine = np.linspace(0.0, tau, 5001)
    mean = np.trapezoid(np.interp(fine, lag, running), fine) / tau
    return float(np.interp(tau, lag, running)), float(mean)


def consistent_from(scan: Scan, model: str, parameters: Sequence[str]) -> float:
    """Where the range begins over which all of these are consistent, in published turnover times.

    NaN if there is none.
    """
    found = [scan.consistency[model][name] for name in parameters]
    if any(one is None for one in found):
        return float("nan")
    return max(one.tau_min for one in found if one is not None) / PUBLISHED.eddy_turnover_time


def consistent_value(scan: Scan, name: str) -> float:
    """Value of a parameter of Langevin over the range where it is consistent; NaN if nowhere."""
    found = scan.consistency["langevin"][name]
    return float("nan") if found is None else found.value


def gamma_sd(realisation: Realisation) -> FloatArray:
    """Posterior standard deviation of γ along tau."""
    return along_tau(realisation.exact, "langevin", "posterior_sd", "gamma")


def likelihood_gain(realisation: Realisation) -> FloatArray:
    """By how much Langevin's log-likelihood at its mode exceeds Brownian's, along tau."""
    langevin, brownian = (
        along_tau(realisation.exact, model, "log_likelihood_at_map")
        for model in ("langevin", "brownian")
    )
    return langevin - brownian


@dataclass(frozen=True)
class PriorShift:
    """Largest relative change of posterior modes under prior means four times smaller or larger.

    Args:
        diffusivity: Of κ* and k*, at any tau.
        gamma: Of γ*, up to 150 published turnover times.
        gamma_beyond: Of γ*, beyond.
    """

    diffusivity: float
    gamma: float
    gamma_beyond: float


def prior_shift(analysis: Analysis) -> PriorShift:
    """What other prior means would change, in the first realisation."""
    realisation = analysis.realisations[0]
    config = analysis.results.config(realisation.name)
    data, _ = data_sets(realisation.summary, config["particles"])
    wanted = (("brownian", "kappa"), ("langevin", "k"), ("langevin", "gamma"))
    before = {p: along_tau(realisation.exact, m, "map", p) for m, p in wanted}
    moved = {p: np.zeros(len(data)) for p in before}
    for factor in (1 / _PRIOR_FACTOR, _PRIOR_FACTOR):
        others = [h.rescaled(dict.fromkeys(h.names, factor)) for h in both_models()]
        scan = scan_displacements(data, others)
        for model, parameter in wanted:
            after = along_tau(scan, model, "map", parameter)
            moved[parameter] = np.maximum(moved[parameter], np.abs(after / before[parameter] - 1))
    near = analysis.taus <= 150 * PUBLISHED.eddy_turnover_time
    return PriorShift(
        diffusivity=float(max(moved["kappa"].max(), moved["k"].max())),
        gamma=float(moved["gamma"][near].max(initial=0.0)),
        gamma_beyond=float(moved["gamma"][~near].max(initial=0.0)),
    )
