"""Averages against lag, with error bars from resampling particles."""

import json
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._magnitudes import whole
from driftbayes._representation import plain
from driftbayes._typing import FloatArray
from driftbayes._version import __version__
from driftbayes.data._trajectories import Trajectories, check_tracks
from driftbayes.diagnostics._scales import data_scales, lag_steps
from driftbayes.diagnostics.averages import (
    absolute_diffusivity,
    displacement_sums,
    kurtosis,
    taylor_integral,
    taylor_shares,
    velocity_sums,
)
from driftbayes.errors import DriftbayesError

if TYPE_CHECKING:
    import xarray as xr

# Number of weights (replicates times particles) in memory at once: 32 MB.
BLOCK_SIZE = 2**22
# Long name of each variable, and powers of length and of time in its unit.
_VARIABLES = {
    "lvaf": ("Lagrangian velocity autocovariance, per axis", 2, -2),
    "msd": ("mean square displacement, per axis", 2, 0),
    "absolute_diffusivity": ("absolute diffusivity, msd / (2 lag) per axis", 2, -1),
    "taylor_diffusivity": ("Taylor diffusivity, integral of lvaf up to the lag", 2, -1),
    "kurtosis": ("kurtosis of displacements, 3 for a Gaussian", 0, 0),
}


def diagnose(
    trajectories: Trajectories,
    *,
    n_lags: int = 60,
    max_lag: float | str | None = None,
    seed: int = 0,
    n_resamples: int = 200,
) -> "xr.Dataset":
    """Compute velocity autocovariance, dispersion and kurtosis against lag, with error bars.

    All averages are over times, particles and axes, in the convention Var(dX_i) = 2 kappa tau per
    axis. Variables named `..._sd` are one standard deviation from resampling particles.

    Args:
        trajectories: Positions of the particles at regular times; gaps are omitted, not filled.
        n_lags: Maximum number of positive lags, on a logarithmic scale of recording intervals.
        max_lag: Largest lag; by default a quarter of the longest trajectory.
        seed: Random seed of the resampling, stored with the result.
        n_resamples: Number of resamples, stored with the result.

    Returns:
        A data set along `lag`: lvaf, msd, absolute_diffusivity, taylor_diffusivity, kurtosis, their
        `_sd`, and n_pairs. Values that are undefined at lag 0, or without a pair, are NaN. The
        attributes include correlations of successive steps, and the period in frames of the
        variance of steps (`modulation`); lists of numbers are JSON.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> db.diagnose(tracks, max_lag=2.0)["lag"].values.tolist()
        [0.0, 0.5, 1.0, 1.5, 2.0]
    """
    import xarray as xr

    check_tracks(trajectories)
    if trajectories.recording_interval is None and len(trajectories.intervals):
        advice = "diagnostics need regular times, but `compare --tau all` takes irregular ones"
        raise DriftbayesError(trajectories.irregular_message(advice))
    scales = data_scales(trajectories)
    dt = trajectories.regular_interval
    steps = lag_steps(trajectories, n_lags, max_lag)
    lag = steps * dt
    columns = _columns(trajectories, steps, dt, seed=seed, n_resamples=n_resamples)
    variables = {
        name: ("lag", values, _describe(name, trajectories)) for name, values in columns.items()
    }
    time = {"units": _unit(trajectories, 0, 1), "long_name": "lag"}
    return xr.Dataset(
        variables,
        coords={"lag": ("lag", lag, time)},
        attrs={
            "title": "Lagrangian diagnostics, in the convention Var(dX_i) = 2 kappa tau per axis",
            "n_trajectories": trajectories.n_trajectories,
            "n_dim": trajectories.n_dim,
            "length_unit": trajectories.length_unit,
            "time_unit": trajectories.time_unit,
            "recording_interval": dt,
            "u_rms": scales.u_rms,
            "timescale": scales.timescale,
            "error_bars": describe_error_bars(trajectories.n_trajectories, int(n_resamples)),
            "seed": int(seed),
            "n_resamples": int(n_resamples),
            "data_fingerprint": trajectories.fingerprint,
            "driftbayes_version": __version__,
            **_clock(trajectories, seed),
        },
    )


def _clock(trajectories: Trajectories, seed: int) -> dict[str, Any]:
    """Compute correlations of successive steps, and test for a period of their variance."""
    from driftbayes.diagnostics._modulation import modulation, step_correlations

    correlations, errors = step_correlations(trajectories)
    found: dict[str, Any] = {"step_correlations": _text(correlations)}
    found["step_correlation_errors"] = _text(errors)
    repeats = modulation(trajectories, seed)
    if repeats is not None:
        found |= {
            "modulation": repeats.sentence,
            "modulation_period": repeats.period,
            "modulation_p_value": repeats.p_value,
            "modulation_profile": _text(repeats.profile),
            "modulation_profile_errors": _text(repeats.errors),
        }
    return found


def _text(values: FloatArray) -> str:
    """Format numbers as JSON for attributes of a file; null if unknown."""
    return json.dumps(plain(values))


def _columns(
    trajectories: Trajectories, steps: np.ndarray, dt: float, *, seed: int, n_resamples: int
) -> dict[str, FloatArray]:
    """Compute the variables of the data set, as plain arrays along the lag."""
    lag = steps * dt
    velocity = velocity_sums(trajectories, steps)
    taylor = taylor_integral(velocity.lvaf, dt)[steps]
    options = {"seed": seed, "n_resamples": n_resamples}
    lvaf_sd = bootstrap_sd(lambda s, n: s / n, velocity.totals, counts=velocity.counts, **options)
    shares = np.zeros_like(velocity.totals)
    if trajectories.n_trajectories > 1:
        shares = taylor_shares(trajectories, steps, velocity, dt)
    taylor_sd = bootstrap_sd(lambda a, _: a, shares, counts=velocity.counts, **options)

    moved = displacement_sums(trajectories, steps)
    # At lag 0 every displacement is zero by definition.
    undefined = np.where(steps > 0, 0.0, np.nan)
    msd = moved.mean_square + undefined
    msd_sd = undefined + bootstrap_sd(
        lambda s, n: s / n, moved.second, counts=moved.counts, **options
    )
    kurtosis_sd = bootstrap_sd(kurtosis, moved.second, moved.fourth, counts=moved.counts, **options)
    return {
        "lvaf": velocity.lvaf[steps],
        "lvaf_sd": lvaf_sd,
        "msd": msd,
        "msd_sd": msd_sd,
        "absolute_diffusivity": absolute_diffusivity(msd, lag),
        "absolute_diffusivity_sd": absolute_diffusivity(msd_sd, lag),
        "taylor_diffusivity": taylor,
        "taylor_diffusivity_sd": np.where(np.isnan(taylor), np.nan, taylor_sd),
        "kurtosis": kurtosis(*(s.sum(axis=0) for s in (moved.second, moved.fourth, moved.counts))),
        "kurtosis_sd": kurtosis_sd,
        "n_pairs": moved.counts.sum(axis=0).astype(np.int64),
    }


def _describe(name: str, trajectories: Trajectories) -> dict[str, str]:
    """Return the attributes of one variable: its long name and its unit."""
    if name == "n_pairs":
        words = "pairs of positions a lag apart, over all trajectories and start times"
        return {"long_name": words, "units": "1"}
    words, length, time = _VARIABLES[name.removesuffix("_sd")]
    prefix = "standard deviation of " if name.endswith("_sd") else ""
    return {"long_name": prefix + words, "units": _unit(trajectories, length, time)}


def _unit(trajectories: Trajectories, length: int, time: int) -> str:
    """Format a unit such as "m2 s-1"; empty if a unit is unknown."""
    if length == time == 0:
        return "1"
    parts = []
    for name, power in ((trajectories.length_unit, length), (trajectories.time_unit, time)):
        if power and not name:
            return ""
        if power:
            base = name if name.isalpha() else f"({name})"
            parts.append(base if power == 1 else f"{base}{power}")
    return " ".join(parts)


def bootstrap_sd(
    statistic: Callable[..., FloatArray],
    *sums: FloatArray,
    counts: FloatArray,
    seed: int = 0,
    n_resamples: int = 200,
) -> FloatArray:
    r"""Compute the standard error of a statistic of sums over particles.

    A replicate draws as many particles as there are, with replacement. Particle $p$ is drawn $W_p$
    times and every sum becomes $\sum_p W_p s_p$: one matrix product for all replicates, lags and
    sums. Positions of one particle are correlated, so they are never resampled one by one.

    The replicates underestimate a variance by the factor $(n - 1)/n$, with $n$ the number of
    particles with data at a lag, which is corrected. With $n < 2$ the error is NaN.
    """
    n_resamples, seed = whole(n_resamples, "n_resamples", 2), whole(seed, "seed")
    n_particles, n_lags = counts.shape
    contributing = (counts > 0).sum(axis=0)
    resampleable = contributing >= 2
    error = np.full(n_lags, np.nan)
    if not resampleable.any():
        return error
    columns = np.concatenate([s[:, resampleable] for s in (*sums, counts)], axis=1)
    replicates = []
    with np.errstate(divide="ignore", invalid="ignore"):
        for weights in _weights(n_particles, seed, n_resamples):
            replicates.append(statistic(*np.split(weights @ columns, len(sums) + 1, axis=1)))
    values = np.concatenate(replicates)
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        # Ignores replicates without a pair at a lag; NaN if fewer than two have pairs.
        spread = np.nanstd(np.where(np.isfinite(values), values, np.nan), axis=0, ddof=1)
    n = contributing[resampleable]
    error[resampleable] = spread * np.sqrt(n / (n - 1))
    return error


def describe_error_bars(n_trajectories: int, n_resamples: int) -> str:
    """Describe the error bars for a data set's attributes."""
    if n_trajectories == 1:
        return "none: resampling needs more than one trajectory"
    return (
        f"one standard deviation over {n_resamples} resamples of the {n_trajectories} "
        "trajectories, NaN at lags that fewer than two of them reach"
    )


def _weights(n_particles: int, seed: int, n_resamples: int) -> Iterator[FloatArray]:
    """Draw multinomial weights (replicate, particle), a block of replicates at a time."""
    rng = np.random.Generator(np.random.Philox(seed))
    block = max(BLOCK_SIZE // n_particles, 1)
    for start in range(0, n_resamples, block):
        n = min(block, n_resamples - start)
        # Counts of uniform draws are multinomial, and ten times faster than drawing binomials.
        drawn = rng.integers(n_particles, size=(n, n_particles))
        drawn += n_particles * np.arange(n)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=n * n_particles)
        yield counts.reshape(n, n_particles).astype(np.float64)
