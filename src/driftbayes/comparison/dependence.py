r"""Particles that move together: how many independent ones are they worth?

Let $x_i(t)$ be the displacement of particle i over tau, from t on, with variance one, and let
$\langle x_i(t)\, x_j(s) \rangle = \rho_{ij}\, c(t - s)$: all move alike in time, and pairs
together. Evidence is made of second moments, $S = \sum_i \sum_t x_i(t)^2$. For Gaussian
variables $\mathrm{cov}(x^2, y^2) = 2\, \mathrm{cov}(x, y)^2$, so that

$$\mathrm{Var}\, S = 2 \sum_{ij} \rho_{ij}^2 \sum_{t,s} c(t-s)^2, \qquad
  N_\mathrm{eff} = \frac{N^2}{\sum_{ij} \rho_{ij}^2}
  = \frac{N}{1 + (N-1)\, \overline{\rho^2}},$$

the number of independent particles whose S has the same relative variance. For the mean flow
$\mathrm{Var} \sum_i x_i \propto \sum_{ij} \rho_{ij}$, and $N / (1 + (N-1) \bar\rho)$ are left.
Particles that are not there at the same time are independent: with $n_{ij}$ the number of common
steps, $(N-1) \overline{\rho^2}$ is $\sum_{i \ne j} n_{ij} \rho_{ij}^2 / \sum_i n_{ii}$.

The estimate $\hat\rho_{ij} = \sum_t x_i \cdot x_j / (\sum_t |x_i|^2 \sum_t |x_j|^2)^{1/2}$ is
noisy. Of independent particles (Bartlett)

$$\langle \hat\rho^2 \rangle = b(n) = \frac{1}{n^2} \sum_{t,s} \| R(t - s) \|^2 ,
  \qquad \mathrm{tr}\, R(0) = 1,$$

with R the autocorrelation of displacements, a d by d matrix: $1 / (n d)$ if they are white and
isotropic, and $1/d$ if they hold on to one direction all the time. R is estimated from
all particles, and

$$\overline{\rho^2} =
  \sum n_{ij} (\hat\rho_{ij}^2 - b_{ij}) \Big/ \sum n_{ij} (1 - b_{ij}),$$

which is free of bias for independent particles and exact for copies. Its error, had the particles
been independent, is that of a mean over pairs of $\hat\rho^2$, each of standard deviation
$\sqrt 2\, b$.

Positions are taken at common times; where a particle has no fix there, between its two nearest,
if these are no more than tau apart (twice tau if times are irregular). A mean displacement common
to all particles and times is a steady flow, not dependence, and is taken out.

Which model fits is told by the correlation at two separations, of the nearest tenth of all pairs at
the same time and of the farther half: motion that all share (`+common`) does not fall off with
separation, that of a flow (`+flow`) does.
"""

__all__ = ["Aligned", "Dependence", "aligned", "dependence", "quick_dependence"]

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from driftbayes.data.trajectories import Trajectories, check_tracks
from driftbayes.data.units import TIME, positive_in_units, readable
from driftbayes.errors import DriftbayesError
from driftbayes.representation import number
from driftbayes.typing import FloatArray, IntArray

# Particles and fixes that a quick look is made of; its cost does not grow beyond them.
_QUICK_PARTICLES, _QUICK_FIXES = 100, 60_000
# A thorough one takes no more memory than some hundred megabytes.
_MOST_FIXES = 4_000_000
# A dependence is told if it stands out of the noise by so many standard errors.
_SIGMAS = 4.0
# Particles are in one cluster if their correlation exceeds this, and the noise by far.
_LINK = 0.3
# Particles and times at which correlations are looked at by separation.
_SEPARATED_PARTICLES, _SEPARATED_TIMES = 200, 64
# Shares of the pairs that count as near and as far, and the ratio of far to near correlation below
# which motion is shared by neighbours only.
_NEAR, _FAR, _FALLEN = 0.1, 0.5, 0.5


@dataclass(frozen=True, eq=False)
class Aligned:
    """Displacements on common time stamps.

    Args:
        dx: (particle, step, dim), zero where there is none; the common mean is taken out.
        present: Which there are, (particle, step).
        particles: Numbers of the trajectories.
        tau: Sampling time.
        start: Time at which the first step begins.
        places: Where steps begin, (particle, step, axis); on the earth, in space.
        period: Of each axis, infinite where the domain is not periodic.
    """

    dx: FloatArray
    present: np.ndarray
    particles: IntArray
    tau: float
    start: float
    places: FloatArray
    period: FloatArray


@dataclass(frozen=True, eq=False)
class Dependence:
    """How much particles move together.

    Args:
        tau: Sampling time.
        n_particles: All particles.
        n_sampled: Of which so many were looked at.
        n_steps: Steps on the common time axis.
        mean_correlation: Mean correlation of simultaneous displacements over pairs.
        mean_square: Mean of its square over pairs, without what noise adds.
        noise: What noise added, b.
        inflation: By how much the variance of second moments exceeds that of independent particles.
        inflation_err: Error of the former if particles were independent, one sigma.
        mean_inflation: By how much the variance of the mean flow does.
        correlation_steps: Integral of the squared autocorrelation over lags, in steps.
        time_unit: Name of the unit of tau.
        length_unit: Name of the unit of separations.
        separations: Median separation of near and of far pairs; NaN if there are too few.
        correlations: Mean correlation of these pairs.
        clusters: Cluster of each particle looked at.
        particles: Numbers of the trajectories looked at.
    """

    tau: float
    n_particles: int
    n_sampled: int
    n_steps: int
    mean_correlation: float
    mean_square: float
    noise: float
    inflation: float
    inflation_err: float
    mean_inflation: float
    correlation_steps: float
    time_unit: str = ""
    length_unit: str = ""
    separations: tuple[float, float] = (np.nan, np.nan)
    correlations: tuple[float, float] = (np.nan, np.nan)
    clusters: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    particles: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __repr__(self) -> str:
        """How many particles they are worth."""
        tau = readable(self.tau, self.time_unit)
        return f"<Dependence: at tau = {tau} {self.sentence}>"

    @property
    def n_effective(self) -> float:
        """Independent particles with the same information on second moments, 1 to N."""
        return _between(self.n_particles, self.inflation)

    @property
    def n_effective_mean(self) -> float:
        """Independent particles with the same information on the mean flow, 1 to N."""
        return _between(self.n_particles, self.mean_inflation)

    @property
    def n_clusters(self) -> int:
        """Clusters of particles that move together, among those looked at."""
        return len(np.unique(self.clusters))

    @property
    def is_serious(self) -> bool:
        """Whether, beyond noise, particles are worth less than half their number."""
        excess = self.inflation - 1
        return self.n_effective < self.n_particles / 2 and excess > _SIGMAS * self.inflation_err

    @property
    def sentence(self) -> str:
        """How many they are worth."""
        n, few = self.n_particles, self.n_effective
        if self.inflation - 1 > _SIGMAS * self.inflation_err:
            who, digits = ("particles", 2) if self.is_serious else ("some particles", 3)
            worth = f"effective number of independent particles {number(few, digits)} of {n}"
            return f"{who} move together: {worth}"
        return f"no dependence between the {n} particles was detected"

    @property
    def options(self) -> tuple[str, ...]:
        """Options of models that fit the shared motion; both if separations do not tell."""
        if not self.inflation - 1 > _SIGMAS * self.inflation_err:
            return ()
        near, far = self.correlations
        if not np.isfinite(near - far):
            return ("common", "flow")
        return ("flow",) if far < _FALLEN * near else ("common",)

    @property
    def advice(self) -> str:
        """Which model fits, and why; empty if no dependence was detected."""
        if not self.options:
            return ""
        models = " or ".join(f"+{option}" for option in self.options)
        if len(self.options) > 1:
            return f"{models} models the shared motion"
        falls = "falls off" if self.options == ("flow",) else "does not fall off"
        near, far = (
            f"{c:.2g} at {readable(r, self.length_unit, 2)}"
            for c, r in zip(self.correlations, self.separations, strict=True)
        )
        return f"the correlation {falls} with separation ({near}, {far}): use models with {models}"

    def to_json(self) -> dict[str, Any]:
        """Plain numbers and text."""
        names = (
            *("tau", "n_particles", "n_sampled", "n_steps", "mean_correlation", "mean_square"),
            *("noise", "inflation", "inflation_err", "mean_inflation", "n_effective"),
            *("n_effective_mean", "n_clusters", "correlation_steps", "time_unit", "sentence"),
        )
        ends = {
            name: {"separation": _finite(r), "correlation": _finite(c)}
            for name, r, c in zip(("near", "far"), self.separations, self.correlations, strict=True)
        }
        own = {name: getattr(self, name) for name in names}
        return {**own, **ends, "options": list(self.options), "advice": self.advice}


def dependence(
    trajectories: Trajectories,
    tau: float | str,
    *,
    max_particles: int = 2000,
    max_steps: int = 20000,
) -> Dependence:
    """How much particles move together, from their simultaneous displacements.

    Args:
        trajectories: Where the particles were; their times may be irregular.
        tau: Sampling time.
        max_particles: Of more particles so many are looked at, evenly spread over the file.
        max_steps: Of more steps so many, around the median time of all fixes.
    """
    data = aligned(trajectories, tau, max_particles=max_particles, max_steps=max_steps)
    n_used, n_steps = data.present.shape
    power = np.sum(data.dx**2, axis=2)
    there = data.present.astype(np.float64)
    flat = data.dx.reshape(n_used, -1)
    common = there @ there.T
    own = power @ there.T
    scale = np.sqrt(own * own.T)
    rho = np.divide(flat @ flat.T, scale, out=np.zeros_like(scale), where=scale > 0)
    squares = autocorrelation_squares(data)
    table = _noise_table(squares)
    noise = table[common.astype(np.int64)]
    plain = _without_floor(squares)
    link = np.maximum(_LINK, _SIGMAS * np.sqrt(_noise_table(plain)[common.astype(np.int64)]))
    pairs = common * ~np.eye(n_used, dtype=bool) * (scale > 0)
    weight = float(np.sum(pairs * (1 - noise)))
    total, n_pairs = float(np.sum(pairs)), float(np.sum(pairs > 0)) / 2
    mean_square = float(np.sum(pairs * (rho**2 - noise))) / weight if weight > 1e-9 else 0.0
    mean = float(np.sum(pairs * rho)) / total if total else 0.0
    mean_noise = float(np.sum(pairs * noise)) / total if total else 1.0
    # How many others are there at the same time as one particle, scaled up to all of them.
    others = total / max(float(np.sum(np.diagonal(common))), 1.0)
    others *= (trajectories.n_trajectories - 1) / max(n_used - 1, 1)
    spread = np.sqrt(2.0) * mean_noise / np.sqrt(max(n_pairs, 1.0)) * total / max(weight, 1e-9)
    separations, correlations = near_and_far(data)
    return Dependence(
        tau=data.tau,
        n_particles=trajectories.n_trajectories,
        n_sampled=n_used,
        n_steps=n_steps,
        mean_correlation=mean,
        mean_square=mean_square,
        noise=mean_noise,
        inflation=1 + others * mean_square,
        inflation_err=others * float(spread),
        mean_inflation=1 + others * mean,
        correlation_steps=float(1 + 2 * plain[1:].sum() / plain[0]) if plain[0] > 0 else 1.0,
        time_unit=trajectories.time_unit,
        length_unit=trajectories.length_unit,
        separations=separations,
        correlations=correlations,
        clusters=_clusters((rho > link) & (common > 0)),
        particles=data.particles,
    )


def quick_dependence(trajectories: Trajectories, tau: float) -> Dependence:
    """A quick `dependence`, some tens of milliseconds however many particles there are."""
    n = min(trajectories.n_trajectories, _QUICK_PARTICLES)
    return dependence(trajectories, tau, max_particles=n, max_steps=_QUICK_FIXES // n)


def aligned(
    trajectories: Trajectories,
    tau: float | str,
    *,
    max_particles: int = 2000,
    max_steps: int = 20000,
) -> Aligned:
    """Displacements over tau on common time stamps; the arguments are those of `dependence`."""
    check_tracks(trajectories)
    tau = positive_in_units(tau, TIME, trajectories.units, "tau")
    n = trajectories.n_trajectories
    chosen = np.unique(np.linspace(0, n - 1, min(n, max_particles)).round().astype(np.int64))
    # Stamps printed with few digits must not fall beside the grid.
    start, end = trajectories.times.min(), trajectories.times.max()
    n_steps = int((end - start) / tau * (1 + 1e-9) + 1e-6)
    if n_steps < 1:
        given, record = (readable(t, trajectories.time_unit) for t in (tau, end - start))
        msg = f"tau = {given} is longer than the record of {record}; use a smaller tau"
        raise DriftbayesError(msg)
    max_steps = min(max_steps, max(_MOST_FIXES // len(chosen), 1))
    if n_steps > max_steps:
        middle = (np.median(trajectories.times) - start) / tau
        start += tau * int(np.clip(middle - max_steps // 2, 0, n_steps - max_steps))
        n_steps = max_steps
    grid = start + tau * np.arange(n_steps + 1)
    positions = _on_grid(trajectories, trajectories.positions, chosen, grid, tau)
    dx = np.diff(positions, axis=1)
    dx = _common_axes(trajectories, chosen, dx)
    present = ~np.isnan(dx[..., 0])
    dx = np.where(present[..., None], dx, 0.0)
    dx -= present[..., None] * (dx.sum(axis=(0, 1)) / max(int(present.sum()), 1))
    in_space = _in_space(trajectories)
    places = positions if in_space is None else _on_grid(trajectories, in_space, chosen, grid, tau)
    period = np.full(places.shape[2], np.inf)
    if in_space is None and "unwrapped" in trajectories.provenance:
        period = np.array([p or np.inf for p in trajectories.provenance["unwrapped"]])
    return Aligned(dx, present, chosen, float(tau), float(start), places[:, :-1], period)


def _on_grid(
    trajectories: Trajectories, values: FloatArray, chosen: IntArray, grid: FloatArray, tau: float
) -> FloatArray:
    """Positions (particle, time, axis) at common times, between fixes that are near enough."""
    # Uneven intervals of about tau are no gaps, or half of the steps would seem to be missing.
    longest = tau if trajectories.recording_interval is not None else 2 * tau
    positions = np.full((len(chosen), len(grid), values.shape[1]), np.nan)
    for i, particle in enumerate(chosen):
        rows = slice(trajectories.starts[particle], trajectories.starts[particle + 1])
        seen = trajectories.observed[rows]
        times, x = trajectories.times[rows][seen], values[rows][seen]
        if len(times) > 1:
            low, high, here = _between_fixes(times, grid, tau)
            share = ((grid[low:high] - times[here]) / (times[here + 1] - times[here]))[:, None]
            # A stamp that strays a little from the grid is on it.
            share = np.where(np.abs(share - share.round()) < 1e-3, share.round(), share)
            near = times[here + 1] - times[here] <= longest * (1 + 1e-6)
            value = x[here] + share * (x[here + 1] - x[here])
            on_fix = (share[:, 0] == 0) | (share[:, 0] == 1)
            positions[i, low:high] = np.where((near | on_fix)[:, None], value, np.nan)
    return positions


def _in_space(trajectories: Trajectories) -> FloatArray | None:
    """Positions on the earth in space, in the unit of displacements; None of those in a plane."""
    if trajectories.lonlat is None:
        return None
    from driftbayes.data.sphere import points_in_space
    from driftbayes.data.tangent import ground_of

    found = ground_of(trajectories)
    if found is None:
        return None
    lon, lat = np.radians(trajectories.lonlat.T)
    return np.asarray(found[0].per_metre * points_in_space(lon, lat, found[0].radius)[1].T)


def near_and_far(data: Aligned) -> tuple[tuple[float, float], tuple[float, float]]:
    """Median separation and mean correlation of the nearest and of the farther pairs.

    Args:
        data: Displacements on common time stamps, and where they begin.
    """
    n, n_steps = data.present.shape
    some = np.unique(np.linspace(0, n - 1, min(n, _SEPARATED_PARTICLES)).round().astype(int))
    times = np.unique(np.linspace(0, n_steps - 1, min(n_steps, _SEPARATED_TIMES)).round())
    dx, present = data.dx[some], data.present[some]
    power = np.sum(dx**2, axis=(1, 2)) / np.maximum(present.sum(axis=1), 1)
    size = np.sqrt(power)[:, None, None]
    unit = np.divide(dx, size, out=np.zeros_like(dx), where=size > 0)
    length = np.where(np.isfinite(data.period), data.period, 0.0)
    apart, products = [], []
    for time in times.astype(int):
        here = np.flatnonzero(present[:, time] & (power > 0))
        one, other = np.triu_indices(len(here), 1)
        x, u = data.places[some[here], time], unit[here, time]
        between = x[one] - x[other]
        # The nearest image in a periodic domain.
        between -= np.round(between / data.period) * length
        apart.append(np.linalg.norm(between, axis=1))
        products.append(np.sum(u[one] * u[other], axis=1))
    r, product = np.concatenate(apart), np.concatenate(products)
    if len(r) < 2 / _NEAR:
        return (np.nan, np.nan), (np.nan, np.nan)
    low, high = np.quantile(r, [_NEAR, 1 - _FAR])
    near, far = r <= low, r >= high
    return (
        (float(np.median(r[near])), float(np.median(r[far]))),
        (float(np.mean(product[near])), float(np.mean(product[far]))),
    )


def _between_fixes(times: FloatArray, grid: FloatArray, tau: float) -> tuple[int, int, IntArray]:
    """The part of the grid that lies within the times, and the fix before each of its points."""
    slack = 1e-3 * tau
    low = int(np.searchsorted(grid, times[0] - slack))
    high = int(np.searchsorted(grid, times[-1] + slack, side="right"))
    here = np.searchsorted(times, grid[low:high] + slack, side="right") - 1
    return low, high, np.clip(here, 0, len(times) - 2)


def _common_axes(trajectories: Trajectories, chosen: IntArray, dx: FloatArray) -> FloatArray:
    """Axes carried along each path start as east and north there: turn them into common ones."""
    if trajectories.lonlat is None:
        return dx
    from driftbayes.data.tangent import ground_of, rotated

    found = ground_of(trajectories)
    if found is None or found[1] is None:
        return dx
    each = np.repeat(found[1][chosen], dx.shape[1])
    return rotated(dx.reshape(-1, 2), each).reshape(dx.shape)


def autocorrelation_squares(data: Aligned) -> FloatArray:
    """Squared norm of R at each lag, tr R(0) = 1, from products of different particles.

    The square of a mean over particles would hold the noise of each particle once more.
    """
    power = np.sum(data.dx**2, axis=(1, 2))
    moving = power > 0
    n_steps, n_dim = data.dx.shape[1:]
    if not moving.any():
        return np.zeros(n_steps)
    counts = data.present[moving].sum(axis=1)
    size = 1 << int(2 * n_steps - 1).bit_length()
    unit = data.dx[moving] * np.sqrt(counts / power[moving])[:, None, None]
    spectra = [np.fft.rfft(unit[..., a], size, axis=1) for a in range(n_dim)]
    masks = np.fft.rfft(data.present[moving].astype(np.float64), size, axis=1)
    n_pairs = np.fft.irfft(np.abs(masks) ** 2, size, axis=1)[:, :n_steps].round()
    norm = n_pairs.sum(axis=0) ** 2 - np.sum(n_pairs**2, axis=0)
    alone = norm < 0.5
    total, single = np.zeros(n_steps), np.zeros(n_steps)
    for a in range(n_dim):
        for b in range(a, n_dim):
            # R(l) and R(-l) are each other's transpose: both triangles at once, lag by lag.
            lagged = np.fft.irfft(spectra[a].conj() * spectra[b], size, axis=1)
            for sign in (1, -1) if a != b else (1,):
                part = lagged[:, np.arange(n_steps) * sign]
                each = np.sum(part**2, axis=0)
                single += each
                total += part.sum(axis=0) ** 2 - each
    own = np.sum(n_pairs**2, axis=0)
    return np.where(alone, single / np.maximum(own, 1.0), total / np.where(alone, 1.0, norm))


def _noise_table(squares: FloatArray) -> FloatArray:
    """b(n) for n = 0, 1, ... common steps without a break; 1 where nothing can be told."""
    n = np.arange(1, len(squares) + 1)
    plain = np.cumsum(squares[1:], dtype=np.float64)
    weighted = np.cumsum(squares[1:] * np.arange(1, len(squares)))
    plain, weighted = (np.concatenate([[0.0], sums]) for sums in (plain, weighted))
    table = (n * squares[0] + 2 * (n * plain - weighted)) / n**2
    return np.concatenate([[1.0], np.clip(table, 1e-12, 1.0)])


def _without_floor(squares: FloatArray) -> FloatArray:
    """Squared autocorrelation up to the lag where noise takes over, and less that noise.

    Where particles move together their noise is common, and does not average out.
    """
    n = len(squares)
    floor = max(float(np.median(squares[n // 4 : n // 2])), 0.0) if n >= 16 else 0.0
    low = np.flatnonzero(squares < max(0.05 * squares[0], 2 * floor))
    end = int(low[0]) if len(low) else n
    return np.where(np.arange(n) < end, np.maximum(squares - floor, 0.0), 0.0)


def _clusters(linked: np.ndarray) -> IntArray:
    """Connected components."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    labels = connected_components(csr_matrix(linked), directed=False)[1]
    return np.asarray(labels, dtype=np.int64)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _between(n_particles: int, inflation: float) -> float:
    return float(n_particles / min(max(inflation, 1.0), float(n_particles)))
