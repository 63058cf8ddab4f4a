"""Disjoint pairs of particles, and their separations at successive sampling times."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from driftbayes._kernels.compiled import run_in_threads
from driftbayes._typing import FloatArray, IntArray
from driftbayes.data._sampling import stride_of
from driftbayes.data._trajectories import GRID_TOLERANCE, Trajectories
from driftbayes.data._units import readable
from driftbayes.errors import DriftbayesError
from driftbayes.likelihood._engines import AbstractDirect
from driftbayes.relative._density import log_separation_density

# Largest number of positions (particles times sampling times) in memory.
_MAX_POSITIONS = 50_000_000
# Largest number of particles for which all distances are computed.
_MAX_PARTICLES = 4_000


@dataclass(frozen=True, eq=False)
class Separations(AbstractDirect):
    """Separations of pairs at successive sampling times, as concatenated steps of all pairs.

    No particle is in two pairs, so pairs are independent if particles are.

    Args:
        first: Separation at the start of each step.
        last: Separation at the end of each step.
        interval: Duration of each step: tau, or a multiple where a position is missing.
        moved: Squared change of the separation vector.
        pair: Number of the pair of each step, counted from 0.
        members: Numbers of the two trajectories of each pair.
        tau: Sampling time.
        n_dim: Number of spatial dimensions.
        length_unit: Name of the unit of length, empty if unknown.
        time_unit: Name of the unit of time, empty if unknown.
        reference: Separation to which the relative diffusivity refers; by default the geometric
            mean.
    """

    first: FloatArray
    last: FloatArray
    interval: FloatArray
    moved: FloatArray
    pair: IntArray
    members: IntArray
    tau: float
    n_dim: int
    length_unit: str = ""
    time_unit: str = ""
    reference: float = 0.0

    def __post_init__(self) -> None:
        """Set the reference separation."""
        if not self.reference:
            object.__setattr__(self, "reference", float(np.exp(np.mean(np.log(self.first)))))

    @cached_property
    def starts(self) -> IntArray:
        """First step of each pair."""
        return np.flatnonzero(np.diff(self.pair, prepend=-1))

    @cached_property
    def counts(self) -> IntArray:
        """Number of steps of each pair."""
        return np.diff(np.append(self.starts, len(self.pair)))

    @property
    def n_pairs(self) -> int:
        """Number of pairs."""
        return len(self.members)

    @property
    def n_particles(self) -> int:
        """Number of trajectories in pairs."""
        return 2 * len(self.members)

    @property
    def n_steps(self) -> int:
        """Number of steps of the longest pair."""
        return int(self.counts.max())

    @property
    def n_displacements(self) -> int:
        """Number of steps of all pairs."""
        return len(self.first)

    @cached_property
    def fingerprint(self) -> str:
        """A short hash of the separations, their durations, tau and the units."""
        digest = hashlib.sha256(b"pairs")
        for array in (self.first, self.last, self.interval, self.pair):
            digest.update(np.ascontiguousarray(array).data)
        digest.update(f"{self.tau!r}|{self.n_dim}|{self.length_unit}|{self.time_unit}".encode())
        return digest.hexdigest()[:16]

    def of_pairs(self, chosen: IntArray) -> "Separations":
        """Return the separations of selected pairs."""
        steps = np.isin(self.pair, chosen)
        number = np.full(self.n_pairs, -1)
        number[chosen] = np.arange(len(chosen))
        kept = {n: getattr(self, n)[steps] for n in ("first", "last", "interval", "moved")}
        pair = number[self.pair[steps]]
        return replace(self, **kept, pair=pair, members=self.members[chosen])

    @property
    def shortest_step(self) -> float:
        """Duration of the shortest step."""
        return float(self.interval.min())

    def thinned(self, n_steps: int) -> "tuple[Separations, float]":
        """Return about n_steps steps, from fewer pairs, and the factor of reduction."""
        stride = -(-len(self.first) // n_steps)
        if stride == 1 or self.n_pairs == 1:
            return self, 1.0
        part = self.of_pairs(np.arange(0, self.n_pairs, stride))
        return part, len(self.first) / len(part.first)

    def log_densities(self, model: Any, values: Mapping[str, FloatArray]) -> FloatArray:
        """Compute ln p of all separations, each conditional on the previous one.

        Args:
            model: A law of relative dispersion.
            values: Parameter values.
        """
        diffusivities = values["K"]
        exponents = values.get("xi", np.full(len(diffusivities), model.exponent))
        first, last = self.first / self.reference, self.last / self.reference
        per_area = diffusivities / self.reference**2
        constant = len(first) * np.log(self.reference)

        def total(exponent: float, kappa: float) -> float:
            # Non-finite values are reported in the status of the result.
            with np.errstate(all="ignore"):
                log_p = log_separation_density(
                    first, last, self.interval, exponent, kappa, self.n_dim
                )
            return float(log_p.sum())

        tasks = list(zip(exponents.tolist(), per_area.tolist(), strict=True))
        return np.array(run_in_threads(total, tasks)) - constant


def separations(
    trajectories: Trajectories, tau: float, *, within: float | None = None
) -> Separations:
    """Find disjoint pairs and their separations at multiples of a sampling time.

    A pair begins when its particles are first within a distance of each other (chance pairs),
    closest pairs first; or, without a distance, when both are first observed at different
    positions. It ends with the shorter trajectory. Where a position is missing, a step lasts until
    both particles are observed again. In a periodic domain a pair begins with the nearest images of
    its particles.

    Args:
        trajectories: Trajectories.
        tau: Sampling time.
        within: Distance at which a pair begins.

    Raises:
        DriftbayesError: There are fewer than two particles, none are observed at the same times or
            within the distance, or two are at the same position.
    """
    if not (np.isfinite(tau) and tau > 0):
        raise DriftbayesError(f"tau must be a positive number, got {tau}")
    if within is not None and not (np.isfinite(within) and within > 0):
        msg = f"the distance within which pairs begin must be positive, got {within}"
        raise DriftbayesError(msg)
    if trajectories.n_trajectories < 2:
        msg = "pairs need two particles or more, got one trajectory; check the column of ids"
        raise DriftbayesError(msg)
    if trajectories.recording_interval is not None:
        tau = stride_of(trajectories, tau)[1]
    places, radius = _at_common_times(trajectories, tau)
    period = _period(trajectories)
    members, begins = find_pairs(places, within, radius, period)
    if not len(members):
        raise DriftbayesError(_no_pairs(trajectories, places, radius, period, tau, within))
    return _steps(trajectories, places, radius, period, members, begins, tau)


def _period(trajectories: Trajectories) -> FloatArray:
    """Return the period along each axis, 0 where the domain is not periodic."""
    periods = trajectories.provenance.get("unwrapped")
    if periods is None or trajectories.lonlat is not None:
        return np.zeros(trajectories.n_dim)
    return np.array([length or 0.0 for length in periods])


def _images(apart: FloatArray, period: FloatArray) -> FloatArray:
    """Return the shift to subtract from separation vectors to reach the nearest image."""
    if not period.any():
        return np.zeros_like(apart)
    return period * np.round(apart / np.where(period > 0, period, np.inf))


def _distances(chords: Any, radius: float | None) -> Any:
    """Convert distances between points in space to distances along the surface of the earth."""
    if radius is None:
        return chords
    return 2 * radius * np.arcsin(np.minimum(0.5 * chords / radius, 1.0))


def _no_pairs(
    trajectories: Trajectories,
    places: FloatArray,
    radius: float | None,
    period: FloatArray,
    tau: float,
    within: float | None,
) -> str:
    """Explain why there are no pairs, with advice."""
    apart = readable(tau, trajectories.time_unit)
    if within is None or not len(find_pairs(places, None, radius, period)[0]):
        return (
            f"no two particles are observed together at two times, tau = {apart} or a multiple "
            "apart; pairs need trajectories that overlap in time and share sampling times"
        )
    closest = np.inf
    for x in places.swapaxes(0, 1):
        observed = x[np.isfinite(x[:, 0])]
        if len(observed) > 1:
            distances, _ = _tree(observed, period).query(observed, k=2)
            closest = min(closest, float(distances[:, 1].min()))
    unit = trajectories.length_unit
    near, reach = (readable(r, unit, 4) for r in (_distances(closest, radius), within))
    return (
        f"no two particles come within {reach} of each other; the closest are {near} apart; "
        "choose a larger distance"
    )


def _tree(x: FloatArray, period: FloatArray) -> cKDTree:
    """Build a k-d tree of points, periodic if the domain is."""
    if not period.any():
        return cKDTree(x)
    return cKDTree(np.where(period > 0, x % np.where(period > 0, period, 1.0), x), boxsize=period)


def _at_common_times(trajectories: Trajectories, tau: float) -> tuple[FloatArray, float | None]:
    """Return positions (particle, time, axis) at multiples of tau, NaN where missing.

    Positions on the earth are returned as points in space, with the earth's radius; otherwise the
    radius is None.
    """
    times = trajectories.times - trajectories.times.min()
    index = np.round(times / tau).astype(np.int64)
    is_near = np.abs(times - index * tau) <= GRID_TOLERANCE * tau
    rows = np.flatnonzero(is_near & trajectories.observed)
    n_times = int(index.max()) + 1
    n = trajectories.n_trajectories
    if n * n_times > _MAX_POSITIONS:
        raise DriftbayesError(
            f"{n} particles at {n_times} times are too many to search for pairs; choose a "
            "longer tau, or a part of the data"
        )
    x, radius = trajectories.positions, None
    if trajectories.lonlat is not None:
        from driftbayes.data.tangent import ground_of

        tangent = ground_of(trajectories)
        if tangent is not None:
            radius, x = tangent[0].earth_radius, tangent[0].in_space(trajectories.lonlat)
    places = np.full((n, n_times, x.shape[1]), np.nan)
    places[trajectories.trajectory_index[rows], index[rows]] = x[rows]
    return places, radius


def find_pairs(
    places: FloatArray,
    within: float | None,
    radius: float | None = None,
    period: FloatArray | None = None,
) -> tuple[IntArray, IntArray]:
    """Match particles in pairs, each particle once: earliest pairs first, then closest.

    Args:
        places: Positions (particle, time, axis), NaN where missing.
        within: Distance at which a pair begins; None for any distance.
        radius: Radius of the earth, if positions are points in space.
        period: Period along each axis, 0 where the domain is not periodic.

    Returns:
        The two particles of each pair, and the index of the time at which it begins.
    """
    observed = np.isfinite(places[..., 0])
    if within is None and len(places) > _MAX_PARTICLES:
        raise DriftbayesError(
            f"{len(places)} particles are too many to compare all of them; give the distance "
            "within which pairs begin (--within, in Python within=)"
        )
    lengths = np.zeros(places.shape[2]) if period is None else period
    reach = np.inf
    if within is not None:
        reach = within if radius is None else 2 * radius * np.sin(min(within / radius, np.pi) / 2)
    # A particle needs a later position.
    later = np.cumsum(observed[:, ::-1], axis=1)[:, ::-1] > 1
    free = np.ones(len(places), dtype=bool)
    members, begins = [], []
    for time in range(places.shape[1] - 1):
        candidates = np.flatnonzero(free & observed[:, time] & later[:, time])
        if len(candidates) < 2:
            continue
        x = places[candidates, time]
        if np.isinf(reach):
            first, second = np.triu_indices(len(candidates), 1)
        else:
            first, second = _tree(x, lengths).query_pairs(reach, output_type="ndarray").T
        apart = x[first] - x[second]
        apart -= _images(apart, lengths)
        order = np.argsort(np.linalg.norm(apart, axis=1), kind="stable")
        for i, j in zip(candidates[first[order]], candidates[second[order]], strict=True):
            # Both must be observed together again.
            if free[i] and free[j] and np.any(observed[i, time + 1 :] & observed[j, time + 1 :]):
                free[i] = free[j] = False
                members.append((i, j))
                begins.append(time)
    return np.array(members, dtype=np.int64).reshape(-1, 2), np.array(begins, dtype=np.int64)


def _steps(
    trajectories: Trajectories,
    places: FloatArray,
    radius: float | None,
    period: FloatArray,
    members: IntArray,
    begins: IntArray,
    tau: float,
) -> Separations:
    """Collect the separations of all pairs."""
    parts = []
    for number, ((i, j), begin) in enumerate(zip(members, begins, strict=True)):
        x, y = places[i, begin:], places[j, begin:]
        times = np.flatnonzero(np.isfinite(x[:, 0]) & np.isfinite(y[:, 0]))
        apart = x[times] - y[times]
        # The pair begins with the nearest image; afterwards the particles are followed.
        apart -= _images(apart[:1], period)
        r = _distances(np.linalg.norm(apart, axis=1), radius)
        # Particles released at the same position are a pair once they have separated.
        parted = np.flatnonzero(r > 0)
        if len(parted) > 1:
            since = slice(int(parted[0]), None)
            times, apart, r = times[since], apart[since], r[since]
        if np.any(r == 0):
            names = " and ".join(str(trajectories.ids[k]) for k in (i, j))
            when = float(trajectories.times.min() + tau * (begin + times[np.argmin(r)]))
            raise DriftbayesError(
                f"the particles {names} are at the same position at time {when:g}, and a "
                "separation of zero has no density; leave one of them out, or give positions with "
                "more digits"
            )
        moved = np.sum(np.diff(apart, axis=0) ** 2, axis=1)
        owner = np.full(len(r) - 1, number)
        parts.append((r[:-1], r[1:], tau * np.diff(times), moved, owner))
    columns = ("first", "last", "interval", "moved", "pair")
    joined = (np.concatenate(part) for part in zip(*parts, strict=True))
    arrays: dict[str, Any] = dict(zip(columns, joined, strict=True))
    return Separations(
        **arrays,
        members=members,
        tau=float(tau),
        n_dim=trajectories.n_dim,
        length_unit=trajectories.length_unit,
        time_unit=trajectories.time_unit,
    )
