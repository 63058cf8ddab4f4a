"""Every quantitative statement of section 5 and of the abstract, beside what we find."""

__all__ = ["claims"]

from collections.abc import Callable

import numpy as np

from driftbayes.reproduce.claims import Claim, along_tau, log_bayes_factors, yes
from driftbayes.reproduce.turbulence.analysis import Analysis, Realisation
from driftbayes.reproduce.turbulence.experiment import PUBLISHED
from driftbayes.reproduce.turbulence.measures import (
    consistent_from,
    consistent_value,
    decay_rate,
    diffusivity_slope,
    energy_drift,
    gamma_sd,
    likelihood_gain,
    own_curve_is_closest,
    prior_shift,
    spectrum_peak,
    spectrum_slope,
    taylor_diffusivities,
)
from driftbayes.typing import FloatArray

_UNIT = PUBLISHED.eddy_turnover_time
_PRIOR_KAPPA = PUBLISHED.u_rms**2 * _UNIT
# Sampling times, in published turnover times, of the three fits that the paper draws.
_DRAWN = (5, 25, 100)


def claims(analysis: Analysis) -> list[Claim]:
    """What section 5 says, and what is found here, with its spread over realisations.

    Times are in published eddy turnover times, so that the two columns compare.
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
    inner = _over(analysis, lambda r: spectrum_slope(r, 10, 60))
    outer = _over(analysis, lambda r: spectrum_slope(r, 70, 250))
    tail = _over(analysis, lambda r: spectrum_slope(r, 128, 300))
    peak = _over(analysis, lambda r: spectrum_peak(r, "energy_spectrum"))
    peak_then = _over(analysis, lambda r: spectrum_peak(r, "energy_spectrum_at_release"))
    energy = _over(analysis, lambda r: r.scaling.energy_mean)
    enstrophy = _over(analysis, lambda r: r.scaling.enstrophy_mean)
    drift = _over(analysis, energy_drift)
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
            yes(abs(drift.mean()) < 2 * _error(drift) or abs(drift.mean()) < 0.01),
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
    early = _over(analysis, lambda r: decay_rate(r, 0.1, 0.3))
    late = _over(analysis, lambda r: decay_rate(r, 1.0, 3.0))
    short = _over(analysis, lambda r: diffusivity_slope(r, 0.02, 0.04))
    long = _over(analysis, lambda r: diffusivity_slope(r, 9.0, 18.0))
    best = [own_curve_is_closest(analysis, turns, _DRAWN) for turns in _DRAWN]
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
    begins = _over(analysis, lambda r: consistent_from(r.exact, "brownian", ["kappa"]))
    kappa = _over(analysis, lambda r: along_tau(r.exact, "brownian", "map", "kappa")[-1])
    ratio = 100 * (kappa / _PRIOR_KAPPA - 1)
    taylor = _over(analysis, lambda r: taylor_diffusivities(r)[0])
    finite = _over(analysis, lambda r: taylor_diffusivities(r)[1])
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
    begins = _over(analysis, lambda r: consistent_from(r.exact, "langevin", ["gamma", "k"]))
    k_begins = _over(analysis, lambda r: consistent_from(r.exact, "langevin", ["k"]))
    kappa_begins = _over(analysis, lambda r: consistent_from(r.exact, "brownian", ["kappa"]))
    modes = analysis.stack(lambda r: along_tau(r.exact, "langevin", "map", "gamma"))
    gamma = {turns: modes[:, analysis.index(turns)] for turns in _DRAWN}
    sd = analysis.band(gamma_sd)[0]
    memory = _over(analysis, lambda r: 1 / (consistent_value(r.exact, "gamma") * _UNIT))
    shift = prior_shift(analysis)
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
            f"{100 * shift.diffusivity:.2f} %, γ* by {100 * shift.gamma:.1f} % up to "
            f"150 τ_ζ and by {100 * shift.gamma_beyond:.0f} % beyond",
            yes(shift.diffusivity < 0.01 and shift.gamma < 0.2),
        ),
    ]


def _comparison(analysis: Analysis) -> list[Claim]:
    log_k = analysis.stack(lambda r: log_bayes_factors(r.exact))
    at = {turns: log_k[:, analysis.index(turns)] for turns in (1, 50, 150, 250)}
    alike = int(np.sum(np.abs(at[250]) < 1))
    falls = at[1].mean() > at[50].mean() > at[150].mean() > at[250].mean()
    late = analysis.taus >= 100 * _UNIT
    brownian = analysis.stack(lambda r: along_tau(r.exact, "brownian", "log_occam_factor"))
    gap = analysis.stack(lambda r: along_tau(r.exact, "langevin", "log_occam_factor")) - brownian
    before = gap[:, analysis.index(25)].mean()
    likelihood = analysis.stack(likelihood_gain)
    small = np.abs(gap) < 0.2 * np.abs(likelihood)
    upto = analysis.taus[np.flatnonzero(small.all(axis=0)).max()] / _UNIT
    error = analysis.stack(lambda r: log_bayes_factors(r.laplace)) - log_k
    spread = analysis.spread
    worth = np.minimum(spread.n_effective, spread.n_particles)
    late_worth = np.median(worth[1][spread.taus >= 100 * _UNIT])
    return [
        Claim(
            "Langevin outperforms Brownian on a range of time scales (abstract)",
            "50 to 150 τ_ζ",
            f"ln K = {_pm(at[1], 0)} at τ_ζ, {_pm(at[50], 0)} at 50 τ_ζ, falling with τ",
            yes(falls and at[50].min() > 5),
        ),
        Claim(
            "the two cannot be told apart from about 150 τ_ζ on",
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
            f"worth {np.median(worth[0]):.0f} independent ones for κ (median over τ); for γ "
            f"{worth[1][0]:.0f} at τ_ζ, {late_worth:.0f} (median) beyond 100 τ_ζ",
            yes(worth.min() > 0.8 * spread.n_particles),
        ),
    ]


def _over(analysis: Analysis, of: Callable[[Realisation], float]) -> FloatArray:
    return np.array([of(r) for r in analysis.realisations], dtype=float)


def _error(values: FloatArray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def _pm(values: FloatArray, digits: int) -> str:
    """Mean ± standard deviation over realisations."""
    found = values[np.isfinite(values)]
    if len(found) < 2:
        return "nowhere" if len(found) == 0 else f"{found[0]:.{digits}f}"
    missing = f" (in {len(found)} of {len(values)})" if len(found) < len(values) else ""
    return f"{found.mean():.{digits}f} ± {found.std(ddof=1):.{digits}f}{missing}"


def _percent(values: FloatArray) -> str:
    return f"{100 * values.mean():+.1f} ± {100 * values.std(ddof=1):.1f} %"


def _each(values: FloatArray, digits: int = 1) -> str:
    return ", ".join(f"{value:.{digits}f}" for value in sorted(values))
