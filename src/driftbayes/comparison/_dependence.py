r"""Dependence between particles, and their effective number.

Let $x_i(t)$ be the displacement of particle i over tau from t on, with variance one, and let
$\langle x_i(t)\, x_j(s) \rangle = \rho_{ij}\, c(t - s)$: all particles have the same
autocorrelation. The evidence depends on second moments, $S = \sum_i \sum_t x_i(t)^2$. For Gaussian
variables $\mathrm{cov}(x^2, y^2) = 2\, \mathrm{cov}(x, y)^2$, so that

$$\mathrm{Var}\, S = 2 \sum_{ij} \rho_{ij}^2 \sum_{t,s} c(t-s)^2, \qquad
  N_\mathrm{eff} = \frac{N^2}{\sum_{ij} \rho_{ij}^2}
  = \frac{N}{1 + (N-1)\, \overline{\rho^2}},$$

the number of independent particles whose S has the same relative variance. For the mean flow
$\mathrm{Var} \sum_i x_i \propto \sum_{ij} \rho_{ij}$, and the effective number is
$N / (1 + (N-1) \bar\rho)$. Particles observed at different times are independent: with $n_{ij}$ the
number of common steps, $(N-1) \overline{\rho^2}$ is
$\sum_{i \ne j} n_{ij} \rho_{ij}^2 / \sum_i n_{ii}$.

The estimate $\hat\rho_{ij} = \sum_t x_i \cdot x_j / (\sum_t |x_i|^2 \sum_t |x_j|^2)^{1/2}$ is
noisy. For independent particles (Bartlett)

$$\langle \hat\rho^2 \rangle = b(n) = \frac{1}{n^2} \sum_{t,s} \| R(t - s) \|^2 ,
  \qquad \mathrm{tr}\, R(0) = 1,$$

with R the autocorrelation of displacements, a d by d matrix: $1 / (n d)$ if they are white and
isotropic, and $1/d$ if their direction is constant. R is estimated from all particles, and

$$\overline{\rho^2} =
  \sum n_{ij} (\hat\rho_{ij}^2 - b_{ij}) \Big/ \sum n_{ij} (1 - b_{ij}),$$

which is unbiased for independent particles and exact for copies. Its error for independent
particles is that of a mean over pairs of $\hat\rho^2$, each of standard deviation $\sqrt 2\, b$.

Positions are taken at common times. If a particle has no fix there, its position is interpolated
between the two nearest fixes, provided they are at most tau apart (twice tau if times are
irregular). The mean displacement of all particles and times is a steady flow, not dependence, and
is subtracted.

The correlation at two separations, of the nearest tenth and of the farther half of all simultaneous
pairs, selects a model: it falls off with separation for a flow (`+flow`), but not for motion common
to all particles (`+common`).
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from driftbayes._magnitudes import whole
from driftbayes._representation import Described, number, plain
from driftbayes._typing import FloatArray, IntArray
from driftbayes.data._sampling import evenly_spaced
from driftbayes.data._trajectories import Trajectories, check_tracks
from driftbayes.data._units import TIME, positive_in_units, readable
from driftbayes.errors import DriftbayesError

# Maximum numbers of particles and fixes in a quick estimate.
_MAX_QUICK_PARTICLES, _MAX_QUICK_FIXES = 100, 60_000
# Limits the memory of a full estimate to a few hundred megabytes.
_MAX_FIXES = 4_000_000
# Dependence is detected if it exceeds the noise by this many standard errors.
_SIGMAS = 4.0
# Minimum correlation between particles of one cluster, which must also exceed the noise.
_LINK = 0.3
# Maximum numbers of particles and times used for correlations by separation.
_MAX_SEPARATED_PARTICLES, _MAX_SEPARATED_TIMES = 200, 64
# Fractions of the pairs that count as near and as far, and the ratio of far to near correlation
# below which only neighbours share motion.
_NEAR, _FAR, _FALLEN = 0.1, 0.5, 0.5


@dataclass(frozen=True, eq=False)
class Aligned:
    """Displacements on common time stamps.

    Args:
        dx: Displacements (particle, step, dim) minus their mean; zero where missing.
        present: Mask of known displacements, (particle, step).
        particles: Numbers of the trajectories.
        tau: Sampling time.
        start: Time at which the first step begins.
        places: Positions at which steps begin, (particle, step, axis); on the earth, in space.
        period: Period of each axis, infinite if the domain is not periodic.
    """

    dx: FloatArray
    present: np.ndarray
    particles: IntArray
    tau: float
    start: float
    places: FloatArray
    period: FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class Dependence(Described):
    """Dependence between particles.

    Args:
        tau: Sampling time.
        n_particles: Number of particles.
        n_sampled: Number of particles used for the estimate.
        n_steps: Number of steps on the common time axis.
        mean_correlation: Mean correlation of simultaneous displacements over pairs.
        mean_square: Mean squared correlation over pairs, minus the contribution of noise.
        noise: Contribution of noise, b.
        inflation: Variance of second moments relative to that of independent particles.
        inflation_err: Standard error of `inflation` for independent particles.
        mean_inflation: Variance of the mean flow relative to that of independent particles.
        correlation_steps: Integral of the squared autocorrelation over lags, in steps.
        time_unit: Name of the unit of tau.
        length_unit: Name of the unit of separations.
        separations: Median separation of near and of far pairs; NaN if there are too few.
        correlations: Mean correlation of these pairs.
        clusters: Cluster of each sampled particle.
        particles: Numbers of the sampled trajectories.
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

    @property
    def n_effective(self) -> float:
        """Effective number of particles for second moments, 1 to N."""
        return _between(self.n_particles, self.inflation)

    @property
    def n_effective_mean(self) -> float:
        """Effective number of particles for the mean flow, 1 to N."""
        return _between(self.n_particles, self.mean_inflation)

    @property
    def n_clusters(self) -> int:
        """Number of clusters of sampled particles that move together."""
        return len(np.unique(self.clusters))

    @property
    def is_serious(self) -> bool:
        """Whether dependence is detected and halves the effective number of particles."""
        return self._is_detected and self.n_effective < self.n_particles / 2

    @property
    def _is_detected(self) -> bool:
        return self.inflation - 1 > _SIGMAS * self.inflation_err

    @property
    def sentence(self) -> str:
        """Sentence with the effective number of particles."""
        if self.n_particles == 1:
            return "there is only one particle, so no dependence between particles"
        if not self._is_detected:
            return f"no dependence between the {self.n_particles} particles was detected"
        noun, digits = ("particles", 2) if self.is_serious else ("some particles", 3)
        return (
            f"{noun} move together: effective number of independent particles "
            f"{number(self.n_effective, digits)} of {self.n_particles}"
        )

    @property
    def options(self) -> tuple[str, ...]:
        """Options of models of the shared motion; both if there are too few separations."""
        if not self._is_detected:
            return ()
        near, far = self.correlations
        if not np.isfinite(near - far):
            return ("common", "flow")
        return ("flow",) if far < _FALLEN * near else ("common",)

    @property
    def advice(self) -> str:
        """Suggested models, with the reason; empty if no dependence was detected."""
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
        """Return plain numbers and text."""
        names = (
            *("tau", "n_particles", "n_sampled", "n_steps", "mean_correlation", "mean_square"),
            *("noise", "inflation", "inflation_err", "mean_inflation", "n_effective"),
            *("n_effective_mean", "n_clusters", "correlation_steps", "time_unit", "sentence"),
        )
        ends = {
            name: {"separation": plain(r), "correlation": plain(c)}
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
    """Estimate the dependence between particles from their simultaneous displacements.

    Args:
        trajectories: Positions of the particles; times may be irregular.
        tau: Sampling time.
        max_particles: Maximum number of particles used, evenly spread over the file.
        max_steps: Maximum number of steps used, around the median time of all fixes.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> db.dependence(tracks, 0.5).n_particles
        10
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
    # Mean number of other particles observed at the same time, scaled up to all particles.
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
    """Estimate the dependence from a sample, in tens of milliseconds; see `dependence`."""
    n = min(trajectories.n_trajectories, _MAX_QUICK_PARTICLES)
    return dependence(trajectories, tau, max_particles=n, max_steps=_MAX_QUICK_FIXES // n)


def aligned(
    trajectories: Trajectories,
    tau: float | str,
    *,
    max_particles: int = 2000,
    max_steps: int = 20000,
) -> Aligned:
    """Compute displacements on common time stamps; arguments as for `dependence`."""
    check_tracks(trajectories)
    tau = positive_in_units(tau, TIME, trajectories.units, "tau")
    max_particles = whole(max_particles, "max_particles", 1)
    max_steps = whole(max_steps, "max_steps", 1)
    n = trajectories.n_trajectories
    chosen = evenly_spaced(n, max_particles)
    # Allows for stamps printed with few digits.
    start, end = trajectories.times.min(), trajectories.times.max()
    n_steps = int((end - start) / tau * (1 + 1e-9) + 1e-6)
    if n_steps < 1:
        given, record = (readable(t, trajectories.time_unit) for t in (tau, end - start))
        msg = f"tau = {given} is longer than the record of {record}; use a smaller tau"
        raise DriftbayesError(msg)
    max_steps = min(max_steps, max(_MAX_FIXES // len(chosen), 1))
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
    """Interpolate positions (particle, time, axis) at common times between nearby fixes."""
    # Irregular intervals of about tau are not gaps; otherwise half of the steps would be missing.
    longest = tau if trajectories.recording_interval is not None else 2 * tau
    positions = np.full((len(chosen), len(grid), values.shape[1]), np.nan)
    for i, particle in enumerate(chosen):
        rows = slice(trajectories.starts[particle], trajectories.starts[particle + 1])
        seen = trajectories.observed[rows]
        times, x = trajectories.times[rows][seen], values[rows][seen]
        if len(times) > 1:
            low, high, here = _between_fixes(times, grid, tau)
            share = ((grid[low:high] - times[here]) / (times[here + 1] - times[here]))[:, None]
            # A stamp very close to the grid is on it.
            share = np.where(np.abs(share - share.round()) < 1e-3, share.round(), share)
            near = times[here + 1] - times[here] <= longest * (1 + 1e-6)
            value = x[here] + share * (x[here + 1] - x[here])
            on_fix = (share[:, 0] == 0) | (share[:, 0] == 1)
            positions[i, low:high] = np.where((near | on_fix)[:, None], value, np.nan)
    return positions


def _in_space(trajectories: Trajectories) -> FloatArray | None:
    """Return positions in space, in the unit of displacements; None if they are on a plane."""
    if trajectories.lonlat is None:
        return None
    from driftbayes.data.tangent import ground_of

    found = ground_of(trajectories)
    return None if found is None else found[0].in_space(trajectories.lonlat)


def near_and_far(data: Aligned) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return median separation and mean correlation of the nearest and of the farther pairs.

    Args:
        data: Displacements on common time stamps.
    """
    n, n_steps = data.present.shape
    chosen = evenly_spaced(n, _MAX_SEPARATED_PARTICLES)
    dx, present = data.dx[chosen], data.present[chosen]
    power = np.sum(dx**2, axis=(1, 2)) / np.maximum(present.sum(axis=1), 1)
    size = np.sqrt(power)[:, None, None]
    unit = np.divide(dx, size, out=np.zeros_like(dx), where=size > 0)
    length = np.where(np.isfinite(data.period), data.period, 0.0)
    apart, products = [], []
    for time in evenly_spaced(n_steps, _MAX_SEPARATED_TIMES):
        here = np.flatnonzero(present[:, time] & (power > 0))
        i, j = np.triu_indices(len(here), 1)
        x, u = data.places[chosen[here], time], unit[here, time]
        between = x[i] - x[j]
        # The nearest image in a periodic domain.
        between -= np.round(between / data.period) * length
        apart.append(np.linalg.norm(between, axis=1))
        products.append(np.sum(u[i] * u[j], axis=1))
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
    """Find the part of the grid within the times, and the fix before each of its points."""
    slack = 1e-3 * tau
    low = int(np.searchsorted(grid, times[0] - slack))
    high = int(np.searchsorted(grid, times[-1] + slack, side="right"))
    here = np.searchsorted(times, grid[low:high] + slack, side="right") - 1
    return low, high, np.clip(here, 0, len(times) - 2)


def _common_axes(trajectories: Trajectories, chosen: IntArray, dx: FloatArray) -> FloatArray:
    """Rotate displacements along transported axes into common axes."""
    if trajectories.lonlat is None:
        return dx
    from driftbayes.data.tangent import ground_of, rotated

    found = ground_of(trajectories)
    if found is None or found[1] is None:
        return dx
    each = np.repeat(found[1][chosen], dx.shape[1])
    return rotated(dx.reshape(-1, 2), each).reshape(dx.shape)


def autocorrelation_squares(data: Aligned) -> FloatArray:
    """Estimate the squared norm of R at each lag, tr R(0) = 1.

    Only products of different particles are used, since the square of a mean over particles would
    include the noise of each.
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
            # R(-l) is the transpose of R(l), which gives the other triangle.
            lagged = np.fft.irfft(spectra[a].conj() * spectra[b], size, axis=1)
            for sign in (1, -1) if a != b else (1,):
                part = lagged[:, np.arange(n_steps) * sign]
                each = np.sum(part**2, axis=0)
                single += each
                total += part.sum(axis=0) ** 2 - each
    own = np.sum(n_pairs**2, axis=0)
    return np.where(alone, single / np.maximum(own, 1.0), total / np.where(alone, 1.0, norm))


def _noise_table(squares: FloatArray) -> FloatArray:
    """Compute b(n) for n = 0, 1, ... successive common steps; 1 for n = 0."""
    n = np.arange(1, len(squares) + 1)
    plain = np.cumsum(squares[1:], dtype=np.float64)
    weighted = np.cumsum(squares[1:] * np.arange(1, len(squares)))
    plain, weighted = (np.concatenate([[0.0], sums]) for sums in (plain, weighted))
    table = (n * squares[0] + 2 * (n * plain - weighted)) / n**2
    return np.concatenate([[1.0], np.clip(table, 1e-12, 1.0)])


def _without_floor(squares: FloatArray) -> FloatArray:
    """Subtract the noise floor from a squared autocorrelation, and truncate it there.

    The noise of particles that move together is common, and does not average out.
    """
    n = len(squares)
    floor = max(float(np.median(squares[n // 4 : n // 2])), 0.0) if n >= 16 else 0.0
    low = np.flatnonzero(squares < max(0.05 * squares[0], 2 * floor))
    end = int(low[0]) if len(low) else n
    return np.where(np.arange(n) < end, np.maximum(squares - floor, 0.0), 0.0)


def _clusters(linked: np.ndarray) -> IntArray:
    """Label connected components."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    labels = connected_components(csr_matrix(linked), directed=False)[1]
    return np.asarray(labels, dtype=np.int64)


def _between(n_particles: int, inflation: float) -> float:
    return float(n_particles / min(max(inflation, 1.0), float(n_particles)))
