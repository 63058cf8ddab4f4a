"""Sampling-time consistency: the range of tau over which estimates of a parameter agree."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv

from driftbayes._representation import amount
from driftbayes._typing import FloatArray
from driftbayes.data._units import readable

TOLERANCE = 0.05
MIN_TAUS = 3
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class ConsistentRange:
    """Sampling times over which a parameter is consistent, and its value there.

    Args:
        tau_min: Smallest sampling time.
        tau_max: Largest sampling time.
        n_taus: Number of sampling times in the range.
        value: Common value: the mean of ln θ, or of θ if it is signed, with the weights
            $1/(s_i^2 + ε^2)$.
        sd: Error of that value for independent estimates.
    """

    tau_min: float
    tau_max: float
    n_taus: int
    value: float
    sd: float


def consistent_range(
    taus: FloatArray,
    log_mean: FloatArray,
    log_sd: FloatArray,
    identified: np.ndarray,
    tolerance: float = TOLERANCE,
    *,
    signed: bool = False,
) -> ConsistentRange | None:
    r"""Find the longest range of tau over which a parameter's estimates agree.

    At least three successive sampling times, at each of which the parameter is identified, are
    consistent if one value explains all estimates and they do not drift. With $m_i, s_i$ the
    posterior mean and standard deviation of ln θ at $\tau_i$ and ε = 0.05,

    $$\min_m \sum_i \frac{(m_i - m)^2}{s_i^2 + \epsilon^2} \le \chi^2_{0.95}(n - 1), \qquad
      |b| \ln\frac{\tau_\mathrm{max}}{\tau_\mathrm{min}}
      \le \max(\epsilon, 2 \sigma_b \ln\frac{\tau_\mathrm{max}}{\tau_\mathrm{min}}),$$

    where $b \pm \sigma_b$ is the slope of m against ln τ, weighted by $1/s_i^2$. The range with the
    largest $\tau_\mathrm{max} / \tau_\mathrm{min}$ is returned. Estimates from the same
    trajectories are correlated, which makes the rule lenient. A parameter that may be negative,
    such as a component of a tensor, is used itself in place of its logarithm.

    Args:
        taus: Sampling times, increasing.
        log_mean: Posterior mean of ln θ at each tau; of θ if it is signed.
        log_sd: Posterior standard deviation of the same.
        identified: Whether the data constrain the parameter at each tau.
        tolerance: ε, the difference that is neglected: relative, or in the unit of a signed
            parameter.
        signed: Whether the parameter may be negative.
    """
    n = len(taus)
    usable = identified & np.isfinite(log_mean) & np.isfinite(log_sd) & (log_sd > 0)
    if not usable.any():
        return None
    sd = np.where(usable, log_sd, 1.0)
    # Sums over ranges are differences of cumulative sums, centred to keep digits.
    mean = np.where(usable, log_mean - np.mean(log_mean[usable]), 0.0)
    place = np.log(taus) - np.mean(np.log(taus))
    tolerant = np.where(usable, 1 / (sd**2 + tolerance**2), 0.0)
    strict = np.where(usable, 1 / sd**2, 0.0)
    scatter = _cumulative(tolerant, tolerant * mean, tolerant * mean**2)
    trend = _cumulative(
        strict, strict * place, strict * place**2, strict * mean, strict * place * mean
    )
    bad = np.concatenate([[0], np.cumsum(~usable)])
    # Quantiles of χ²; scipy.stats takes half a second to import.
    limits = 2 * gammaincinv(np.maximum(np.arange(n + 1) - 1, 1) / 2, _CONFIDENCE)
    best: tuple[float, int, int] | None = None
    for i in range(n - MIN_TAUS + 1):
        # Ends of all ranges of usable times that begin here, the longest first.
        last = int(np.searchsorted(bad, bad[i], side="right")) - 1
        if best is not None and place[last - 1] - place[i] <= best[0]:
            continue
        ends = np.arange(last, i + MIN_TAUS - 1, -1)
        if not len(ends):
            continue
        span = place[ends - 1] - place[i]
        w, wm, wmm = scatter[:, ends] - scatter[:, [i]]
        v, vx, vxx, vm, vxm = trend[:, ends] - trend[:, [i]]
        spread = vxx - vx**2 / v
        drift = np.abs(vxm - vx * vm / v) / spread * span
        allowed = np.maximum(tolerance, 2 * span / np.sqrt(spread))
        agrees = (wmm - wm**2 / w <= limits[ends - i]) & (drift <= allowed)
        if best is not None:
            agrees &= span > best[0]
        if agrees.any():
            first = int(np.argmax(agrees))
            best = (float(span[first]), i, int(ends[first]))
    if best is None:
        return None
    _, i, j = best
    weights = tolerant[i:j] / tolerant[i:j].sum()
    mean_there = float(np.sum(weights * log_mean[i:j]))
    error = float(np.sqrt(np.sum((weights * sd[i:j]) ** 2)))
    value = mean_there if signed else float(np.exp(mean_there))
    return ConsistentRange(
        tau_min=float(taus[i]),
        tau_max=float(taus[j - 1]),
        n_taus=j - i,
        value=value,
        sd=error if signed else value * error,
    )


def _cumulative(*terms: FloatArray) -> FloatArray:
    """Compute cumulative sums, one row per term, starting from zero."""
    return np.concatenate([np.zeros((len(terms), 1)), np.cumsum(terms, axis=1)], axis=1)


def describe_consistency(
    model: str,
    ranges: Mapping[str, ConsistentRange | None],
    time_unit: str = "",
    n_taus: int = MIN_TAUS,
    units: Mapping[str, str] | None = None,
) -> str:
    """State the range of tau over which the parameters of a model are consistent."""
    if n_taus < MIN_TAUS:
        return (
            f"sampling-time consistency of {model} cannot be assessed: the scan has {n_taus} "
            f"sampling time{'s' * (n_taus != 1)}, at least {MIN_TAUS} are needed"
        )
    lost = [name for name, found in ranges.items() if found is None]
    kept = {name: found for name, found in ranges.items() if found is not None}
    if not kept:
        return (
            f"{model} is not sampling-time consistent in the scanned range: its parameters depend "
            "on the sampling time"
        )
    low = max(found.tau_min for found in kept.values())
    high = min(found.tau_max for found in kept.values())
    known = units or {}
    values = ", ".join(
        f"{name} = {amount(found.value, known.get(name, ''), 4)}" for name, found in kept.items()
    )
    if lost or low > high:
        parts = ", ".join(
            f"{name} from {readable(found.tau_min, time_unit)} to "
            f"{readable(found.tau_max, time_unit)}"
            for name, found in kept.items()
        )
        rest = f"; not {', '.join(lost)}" if lost else ""
        return f"{model} is partly sampling-time consistent: {parts}{rest}"
    return (
        f"{model} is sampling-time consistent for tau from {readable(low, time_unit)} to "
        f"{readable(high, time_unit)} ({values}): the parameters do not depend on the sampling "
        "time in this range"
    )
