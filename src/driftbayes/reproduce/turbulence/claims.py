"""Quantitative statements of section 5 and of the abstract, with our results."""

__all__ = ["claims", "consistent_from", "log_slope", "spectrum_slope"]

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from driftbayes._typing import FloatArray
from driftbayes.comparison import Scan, scan_displacements
from driftbayes.models import Langevin
from driftbayes.reproduce.study import Claim, along_tau, log_bayes_factors, yes
from driftbayes.reproduce.turbulence.analysis import Analysis, Realisation, data_sets
from driftbayes.reproduce.turbulence.experiment import PUBLISHED
from driftbayes.reproduce.turbulence.summary import both_models

_UNIT = PUBLISHED.eddy_turnover_time
_PRIOR_KAPPA = PUBLISHED.u_rms**2 * _UNIT
# Sampling times of the three fits in the paper's figures, in published turnover times.
_DRAWN = (5, 25, 100)
# Factor of the prior means in the test of their influence.
_PRIOR_FACTOR = 4.0


def claims(analysis: Analysis) -> list[Claim]:
    """Return the statements of section 5 and our results, with their spread over realisations.

    Times are in published eddy turnover times, so that the two columns compare.

    Args:
        analysis: From `analyse`.
    """
    return [
        *_flow(analysis),
        *_motion(analysis),
        *_brownian(analysis),
        *_langevin(analysis),
        *_comparison(analysis),
    ]


def _flow(analysis: Analysis) -> list[Claim]:
    config = analysis.results.config(analysis.realisations[0].name)
    turns = config["spin_up"] / _UNIT
    own = config["spin_up"] / analysis.scaling.eddy_turnover_time
    inner = analysis.stack(lambda r: spectrum_slope(r, 10, 60))
    outer = analysis.stack(lambda r: spectrum_slope(r, 70, 250))
    tail = analysis.stack(lambda r: spectrum_slope(r, 128, 300))
    peak = analysis.stack(lambda r: _spectrum_peak(r, "energy_spectrum"))
    peak_then = analysis.stack(lambda r: _spectrum_peak(r, "energy_spectrum_at_release"))
    energy = analysis.stack(lambda r: r.scaling.energy_mean)
    enstrophy = analysis.stack(lambda r: r.scaling.enstrophy_mean)
    drift = analysis.stack(_energy_drift)
    return [
        Claim(
            "spin-up of about 6800 eddy turnover times",
            "6800",
            f"{turns:.0f} of the published τ_ζ, {own:.0f} of the flow's",
            yes(abs(turns / 6800 - 1) < 0.02),
        ),
        Claim(
            "the energy is stationary after it",
            "appears so",
            f"second half against first: {_percent(drift)}",
            yes(abs(drift.mean()) < max(0.01, 2 * drift.std(ddof=1) / np.sqrt(len(drift)))),
        ),
        Claim(
            "mean energy and enstrophy per unit area (not printed; from the published series)",
            "0.2315, 185.2",
            f"{_pm(energy, 4)}, {_pm(enstrophy, 1)}: the published ones hold a mode that is not in "
            "the flow",
            "no",
        ),
        Claim(
            "energy spectrum about k^-2 between its peak and the forcing",
            "-2",
            f"{_pm(inner, 2)} over 10 < k < 60",
            yes(abs(inner.mean() + 2) < 0.2),
        ),
        Claim(
            "its peak is at k of about 6",
            "6",
            f"{_each(peak_then, 0)} at release, {_each(peak, 0)} in the mean over t = 500 to 1000; "
            "the spectrum is flat there",
            "in part" if peak_then.min() <= 7 else "no",
        ),
        Claim(
            "about k^-3.5 between forcing and dissipation",
            "-3.5",
            f"{_pm(outer, 3)} over 70 < k < 250, {_pm(tail, 3)} over 128 < k < 300: steeper next "
            "to the forcing, and no single power",
            "in part" if abs(tail.mean() + 3.5) < 0.2 else "no",
        ),
    ]


def _motion(analysis: Analysis) -> list[Claim]:
    early = analysis.stack(lambda r: _decay_rate(r, 0.1, 0.3))
    late = analysis.stack(lambda r: _decay_rate(r, 1.0, 3.0))
    short = analysis.stack(lambda r: _diffusivity_slope(r, 0.02, 0.04))
    long = analysis.stack(lambda r: _diffusivity_slope(r, 9.0, 18.0))
    best = [_own_curve_is_closest(analysis, turns) for turns in _DRAWN]
    return [
        Claim(
            "the velocity autocovariance falls slower than exponentially",
            "noticeably",
            f"its rate is {_pm(early, 2)} at lags 0.1 to 0.3 and {_pm(late, 2)} at 1 to 3",
            yes((late < early).all()),
        ),
        Claim(
            "absolute diffusivity is linear at small lags and constant at large ones",
            "figure 7",
            f"it grows as lag^{short.mean():.2f} at the shortest, as lag^{long.mean():.3f} near "
            "the longest",
            yes(short.mean() > 0.85 and long.mean() < 0.1),
        ),
        Claim(
            "Langevin's diffusivity is best at the sampling time that it was fitted at",
            "figure 7",
            f"true of {sum(best)} of 3 sampling times (5, 25, 100 τ_ζ)",
            yes(all(best)),
        ),
    ]


def _brownian(analysis: Analysis) -> list[Claim]:
    begins = analysis.stack(lambda r: consistent_from(r.exact, "brownian", ["kappa"]))
    kappa = analysis.along("exact", "brownian", "map", "kappa")[:, -1]
    ratio = 100 * (kappa / _PRIOR_KAPPA - 1)
    taylor, finite = np.transpose([_taylor_diffusivities(r) for r in analysis.realisations])
    off = kappa / finite - 1
    return [
        Claim(
            "Brownian is sampling-time consistent at large τ",
            "τ ≳ 150 τ_ζ, by eye",
            f"from {_pm(begins, 0)} τ_ζ by our rule",
            "yes" if abs(np.nanmean(begins) / 150 - 1) < 0.15 else "in part",
        ),
        Claim(
            "κ* differs by 40 % from its prior mean",
            "40 %",
            f"{_pm(ratio, 1)} % above it at 250 τ_ζ",
            yes(abs(ratio.mean() - 40) < 10),
        ),
        Claim(
            "κ* agrees with Taylor's integral of the velocity autocovariance",
            "very well",
            f"κ* = {_pm(kappa, 4)}; the integral to the same lag {_pm(taylor, 4)}; Taylor's "
            f"formula at finite τ {_pm(finite, 4)}, from which κ* differs by {_percent(off)}",
            yes(np.abs(off).max() < 0.02),
        ),
    ]


def _langevin(analysis: Analysis) -> list[Claim]:
    begins = analysis.stack(lambda r: consistent_from(r.exact, "langevin", ["gamma", "k"]))
    k_begins = analysis.stack(lambda r: consistent_from(r.exact, "langevin", ["k"]))
    kappa_begins = analysis.stack(lambda r: consistent_from(r.exact, "brownian", ["kappa"]))
    modes = analysis.along("exact", "langevin", "map", "gamma")
    gamma = {turns: modes[:, analysis.index(turns)] for turns in _DRAWN}
    sd = analysis.along("exact", "langevin", "posterior_sd", "gamma").mean(axis=0)
    ranges = [r.exact.consistency["langevin"]["gamma"] for r in analysis.realisations]
    memory = np.array([np.nan if c is None else 1 / (c.value * _UNIT) for c in ranges])
    diffusivity, near, beyond = _prior_shifts(analysis)
    return [
        Claim(
            "Langevin is roughly consistent from much smaller τ",
            "τ ≳ 50 τ_ζ",
            f"from {_pm(begins, 0)} τ_ζ by our rule",
            yes(25 < np.nanmean(begins) < 75),
        ),
        Claim(
            "γ* decays with τ",
            "noticeably",
            "; ".join(f"{_pm(value, 2)} at {turns} τ_ζ" for turns, value in gamma.items()),
            yes(gamma[5].mean() > gamma[25].mean() > gamma[100].mean()),
        ),
        Claim(
            "the decorrelation time 1/γ* is about 8 eddy turnover times",
            "8",
            f"{_pm(memory, 1)} published τ_ζ where γ is consistent",
            yes(abs(memory.mean() - 8) < 1),
        ),
        Claim(
            "the posterior of γ widens with τ",
            "figure 8",
            f"sd {sd[analysis.index(25)]:.2f} at 25 τ_ζ, {sd[-1]:.1f} at 250 τ_ζ",
            yes(sd[-1] > 2 * sd[analysis.index(25)]),
        ),
        Claim(
            "k is consistent at much shorter τ than κ",
            "figure 8",
            f"k from {_pm(k_begins, 0)} τ_ζ, κ from {_pm(kappa_begins, 0)} τ_ζ",
            yes(np.nanmax(k_begins) < 0.5 * np.nanmin(kappa_begins)),
        ),
        Claim(
            "inference is largely insensitive to the prior",
            "stated",
            f"prior means four times smaller or larger move κ* and k* by at most "
            f"{100 * diffusivity:.2f} %, γ* by {100 * near:.1f} % up to "
            f"150 τ_ζ and by {100 * beyond:.0f} % beyond",
            yes(diffusivity < 0.01 and near < 0.2),
        ),
    ]


def _comparison(analysis: Analysis) -> list[Claim]:
    log_k = analysis.stack(lambda r: log_bayes_factors(r.exact))
    at = {turns: log_k[:, analysis.index(turns)] for turns in (1, 50, 150, 250)}
    alike = int(np.sum(np.abs(at[250]) < 1))
    falls = at[1].mean() > at[50].mean() > at[150].mean() > at[250].mean()
    late = analysis.taus >= 100 * _UNIT
    brownian = analysis.along("exact", "brownian", "log_occam_factor")
    gap = analysis.along("exact", "langevin", "log_occam_factor") - brownian
    before = gap[:, analysis.index(25)].mean()
    likelihood = analysis.along("exact", "langevin", "log_likelihood_at_map")
    likelihood = likelihood - analysis.along("exact", "brownian", "log_likelihood_at_map")
    small = np.abs(gap) < 0.2 * np.abs(likelihood)
    upto = analysis.taus[np.flatnonzero(small.all(axis=0)).max()] / _UNIT
    error = analysis.stack(lambda r: log_bayes_factors(r.laplace)) - log_k
    spread = analysis.spread
    number = np.minimum(spread.n_effective, spread.n_particles)
    late_number = np.median(number[1][spread.taus >= 100 * _UNIT])
    return [
        Claim(
            "Langevin outperforms Brownian on a range of time scales (abstract)",
            "50 to 150 τ_ζ",
            f"ln K = {_pm(at[1], 0)} at τ_ζ, {_pm(at[50], 0)} at 50 τ_ζ, falling with τ",
            yes(falls and at[50].min() > 5),
        ),
        Claim(
            "the data cannot distinguish the two from about 150 τ_ζ on",
            "ln K small",
            f"ln K = {_each(at[150])} at 150 τ_ζ",
            yes(np.abs(at[150]).max() < 1),
        ),
        Claim(
            "on sufficiently large time scales they are indistinguishable (abstract)",
            "about 1 at 250 τ_ζ",
            f"ln K = {_each(at[250])} at 250 τ_ζ: in {alike} of {len(log_k)} realisations",
            yes(alike) if alike in (0, len(log_k)) else "in part",
        ),
        Claim(
            "Brownian's Occam factor is about constant and larger than Langevin's",
            "figure 9",
            f"ln Occam {brownian[:, late].mean():.2f} ± {brownian[:, late].std():.2f} for "
            f"τ ≥ 100 τ_ζ; Langevin's is {-gap[:, late].max():.1f} to "
            f"{-gap[:, late].min():.1f} lower",
            yes(brownian[:, late].std() < 0.2 and (gap[:, late] < 0).all()),
        ),
        Claim(
            "Langevin's Occam factor rises towards Brownian's at large τ",
            "figure 9",
            f"gap {before:.1f} at 25 τ_ζ, {gap[:, -1].mean():.1f} at 250",
            yes(gap[:, -1].mean() > before + 1),
        ),
        Claim(
            "Occam factors matter less than likelihoods for all but the largest τ",
            "much smaller",
            f"gap below a fifth of the gain in ln L up to {upto:.0f} τ_ζ",
            yes(upto > 50),
        ),
        Claim(
            "Laplace's method is accurate",
            "assumed",
            f"ln K off by at most {np.abs(error[:, ~late]).max():.2f} below 100 τ_ζ, by "
            f"{np.abs(error[:, -1]).max():.2f} at 250 τ_ζ",
            yes(np.abs(error).max() < 0.1),
        ),
        Claim(
            "1000 particles count as independent",
            "assumed",
            f"effective number {np.median(number[0]):.0f} for κ (median over τ); for γ "
            f"{number[1][0]:.0f} at τ_ζ, {late_number:.0f} (median) beyond 100 τ_ζ",
            yes(number.min() > 0.8 * spread.n_particles),
        ),
    ]


def _pm(values: FloatArray, digits: int) -> str:
    """Format the mean ± standard deviation over realisations."""
    finite = values[np.isfinite(values)]
    if len(finite) < 2:
        return "nowhere" if len(finite) == 0 else f"{finite[0]:.{digits}f}"
    missing = f" (in {len(finite)} of {len(values)})" if len(finite) < len(values) else ""
    return f"{finite.mean():.{digits}f} ± {finite.std(ddof=1):.{digits}f}{missing}"


def _percent(values: FloatArray) -> str:
    return f"{100 * values.mean():+.1f} ± {100 * values.std(ddof=1):.1f} %"


def _each(values: FloatArray, digits: int = 1) -> str:
    return ", ".join(f"{value:.{digits}f}" for value in sorted(values))


def _energy_drift(realisation: Realisation) -> float:
    """Return the relative change of mean energy from the first to the second half after release."""
    summary = realisation.summary
    times, energy = summary["flow_time"].values, summary["energy_mean"].values
    after = energy[times >= times[-1] / 2]
    half = len(after) // 2
    return float(after[half:].mean() / after[:half].mean() - 1)


def spectrum_slope(realisation: Realisation, low: float, high: float) -> float:
    """Return the logarithmic slope of the energy spectrum between two wavenumbers."""
    summary = realisation.summary
    return log_slope(summary["k"].values, summary["energy_spectrum"].values, low, high)


def log_slope(x: FloatArray, y: FloatArray, low: float, high: float) -> float:
    """Fit the slope of ln y against ln x for low < x < high; NaN with fewer than two points."""
    inside = (x > low) & (x < high)
    if inside.sum() < 2:
        return float("nan")
    return float(np.polyfit(np.log(x[inside]), np.log(y[inside]), 1)[0])


def _spectrum_peak(realisation: Realisation, name: str) -> float:
    """Return the wavenumber of the maximum of a spectrum."""
    return float(realisation.summary["k"].values[np.argmax(realisation.summary[name].values)])


def _decay_rate(realisation: Realisation, low: float, high: float) -> float:
    """Return the mean decay rate of the velocity autocovariance between two lags."""
    summary = realisation.summary
    ends = np.interp([low, high], summary["lag"].values, summary["lvaf"].values)
    return float(np.log(ends[0] / ends[1]) / (high - low))


def _diffusivity_slope(realisation: Realisation, low: float, high: float) -> float:
    """Return the logarithmic slope of absolute diffusivity between two lags."""
    summary = realisation.summary
    lag, values = summary["lag"].values[1:], summary["absolute_diffusivity"].values[1:]
    ends = np.interp([low, high], lag, values)
    return float(np.log(ends[1] / ends[0]) / np.log(high / low))


def _own_curve_is_closest(analysis: Analysis, turns: float) -> bool:
    """Whether, of the three fits, the one at this tau has the best diffusivity at this lag."""
    tau = float(analysis.taus[analysis.index(turns)])

    def relative_error(other: float) -> float:
        errors = []
        for r in analysis.realisations:
            lag, data = r.summary["lag"].values[1:], r.summary["absolute_diffusivity"].values[1:]
            model = Langevin(**r.exact.evidences("langevin")[analysis.index(other)].map)
            fitted = float(model.absolute_diffusivity(jnp.asarray(tau)))
            errors.append(fitted / np.interp(tau, lag, data) - 1)
        return abs(float(np.mean(errors)))

    return min(_DRAWN, key=relative_error) == turns


def _taylor_diffusivities(realisation: Realisation) -> tuple[float, float]:
    r"""Return Taylor's integral up to the largest tau, and his diffusivity at that tau.

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
    """Return the start of the range of consistent parameters, in published turnover times, or NaN.

    Args:
        scan: The scan.
        model: Name of the model.
        parameters: Names of its parameters.
    """
    ranges = [scan.consistency[model][name] for name in parameters]
    starts = [float("nan") if c is None else c.tau_min for c in ranges]
    return float(np.max(starts)) / _UNIT


def _prior_shifts(analysis: Analysis) -> tuple[float, float, float]:
    """Return the largest relative changes of posterior modes under other prior means.

    They are for the first realisation: of κ* and k* at any tau; of γ* up to 150 published turnover
    times; and of γ* beyond.
    """
    realisation = analysis.realisations[0]
    config = analysis.results.config(realisation.name)
    data, _ = data_sets(realisation.summary, config["particles"])
    wanted = {"kappa": "brownian", "k": "langevin", "gamma": "langevin"}
    moved = {parameter: np.zeros(len(data)) for parameter in wanted}
    for factor in (1 / _PRIOR_FACTOR, _PRIOR_FACTOR):
        others = [h.rescaled(dict.fromkeys(h.names, factor)) for h in both_models()]
        scan = scan_displacements(data, others)
        for name, model in wanted.items():
            before, after = (along_tau(s, model, "map", name) for s in (realisation.exact, scan))
            moved[name] = np.maximum(moved[name], np.abs(after / before - 1))
    near = analysis.taus <= 150 * _UNIT
    gamma = moved["gamma"]
    return (
        float(max(moved["kappa"].max(), moved["k"].max())),
        float(gamma[near].max(initial=0.0)),
        float(gamma[~near].max(initial=0.0)),
    )
