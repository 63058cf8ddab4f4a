r"""Probability of presence under a diffusivity and a flow that vary in space.

$$\partial_t p = -\nabla\cdot(u p) + \nabla\cdot(\kappa \nabla p)$$

is the Fokker–Planck equation of particles that move by
$dX = (u + \nabla\kappa)\,dt + \sqrt{2\kappa}\,dW$ (Itô): without a flow, or with one free of
divergence, the uniform density stays uniform (well-mixed).

**Space.** Finite volumes. The flux through a face of Péclet number $P = uh/\kappa$ is that of
Scharfetter and Gummel,

$$J = \frac{\kappa}{h}\,[B(-P)\,p_- - B(P)\,p_+], \qquad B(z) = z/(e^z - 1),$$

exact for constant coefficients in a steady state, of second order where P is small, and a flow from
cell to cell with non-negative rates at any P. Its excess diffusivity is about $\kappa P^2/12$.

**Time.** The rates form the generator A of a Markov chain, $\dot P = A P$. With q the largest rate,

$$e^{At} = \sum_k \frac{(qt)^k e^{-qt}}{k!}\,(I + A/q)^k$$

has only non-negative terms (uniformisation): there is no error of time stepping, and probabilities
are positive and conserved to rounding, for any t. Implicit steps that keep the sign for every step
size are of first order only; Krylov and Taylor exponentials lose the sign in the tails.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.special import gammaln

from driftbayes._typing import FloatArray, IntArray
from driftbayes.errors import DriftbayesError

# A constant, values at the cells, or a function of the coordinates.
Field: TypeAlias = float | FloatArray | Callable[..., ArrayLike]

# A dense matrix of more cells would take more than 128 MiB.
_MAX_DENSE = 4096
# Above this number of sparse products, a dense matrix is squared repeatedly instead.
_MAX_TERMS = 20_000
# Approximate sum of the terms omitted at each end of the series.
_TAIL = 1e-18


@dataclass(frozen=True, eq=False)
class Grid:
    """A rectangular grid of cells in one or two dimensions.

    Args:
        edges: Increasing edges of the cells along each axis; spacings may vary.
        periodic: Whether each axis is periodic; otherwise walls reflect.
    """

    edges: tuple[FloatArray, ...]
    periodic: tuple[bool, ...]

    def __post_init__(self) -> None:
        """Check that the edges define cells."""
        if len(self.edges) not in (1, 2) or len(self.periodic) != len(self.edges):
            raise DriftbayesError(
                f"a grid has one or two axes, each periodic or not; got {len(self.edges)} axes and "
                f"{len(self.periodic)} values of periodic"
            )
        for edges in self.edges:
            if len(edges) < 3 or not (np.isfinite(edges).all() and (np.diff(edges) > 0).all()):
                msg = f"edges must be 3 or more increasing numbers, got {np.asarray(edges)[:5]}"
                raise DriftbayesError(msg)

    @classmethod
    def regular(
        cls,
        low: ArrayLike,
        high: ArrayLike,
        n_cells: int | Sequence[int],
        *,
        periodic: bool | Sequence[bool] = False,
    ) -> "Grid":
        """Make a grid of equal cells.

        Args:
            low: Lower end of each axis; a number for one axis.
            high: Upper end of each axis.
            n_cells: Cells along each axis, or one number for all.
            periodic: Whether each axis is periodic, or one value for all.

        Example:
            >>> Grid.regular([0, 0], [2, 1], [4, 2]).shape
            (4, 2)
        """
        ends = np.atleast_1d(np.asarray(low, float)), np.atleast_1d(np.asarray(high, float))
        counts = np.broadcast_to(n_cells, ends[0].shape)
        turns = np.broadcast_to(periodic, ends[0].shape)
        edges = (np.linspace(a, b, n + 1) for a, b, n in zip(*ends, counts, strict=True))
        return cls(tuple(edges), tuple(bool(turn) for turn in turns))

    @property
    def n_dim(self) -> int:
        """Number of axes."""
        return len(self.edges)

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells along each axis."""
        return tuple(len(edges) - 1 for edges in self.edges)

    @cached_property
    def centres(self) -> tuple[FloatArray, ...]:
        """Centres of the cells along each axis."""
        return tuple(0.5 * (edges[1:] + edges[:-1]) for edges in self.edges)

    @cached_property
    def volumes(self) -> FloatArray:
        """Volume of each cell, of the shape of the grid."""
        widths = [np.diff(edges) for edges in self.edges]
        return widths[0] if self.n_dim == 1 else np.multiply.outer(*widths)

    def points(self) -> tuple[FloatArray, ...]:
        """Coordinates of the centres of all cells, each of the shape of the grid."""
        return tuple(np.meshgrid(*self.centres, indexing="ij"))

    def faces(self, axis: int) -> tuple[FloatArray, ...]:
        """Return the coordinates of the interior faces normal to an axis.

        Args:
            axis: The axis. If it is periodic, the last face is between the last and first cell.
        """
        along = self.edges[axis][1:] if self.periodic[axis] else self.edges[axis][1:-1]
        axes = [along if i == axis else centres for i, centres in enumerate(self.centres)]
        return tuple(np.meshgrid(*axes, indexing="ij"))

    def beside(self, axis: int) -> tuple[IntArray, IntArray]:
        """Return the numbers of the cells below and above each interior face.

        Args:
            axis: The axis to which the faces are normal, as in `faces`.
        """
        number = np.arange(self.volumes.size).reshape(self.shape)
        # In a periodic domain the last face is between the last and the first cell.
        faces = range(self.shape[axis] - (not self.periodic[axis]))
        upper = np.roll(number, -1, axis)
        return np.take(number, faces, axis).ravel(), np.take(upper, faces, axis).ravel()


class FokkerPlanck:
    """Transport of probability on a grid.

    Args:
        grid: The cells.
        kappa: Diffusivity, positive: a number, values at the cells (a face has their mean), or a
            function of the coordinates, which is evaluated at the faces.
        velocity: Flow along each axis, in the same forms; None for no flow. The flow through walls
            is zero.
        stream: Stream function ψ(x, y) of a divergence-free flow, u = -∂ψ/∂y, v = ∂ψ/∂x, instead
            of the velocity; evaluated at the corners of the cells, so that the net flow out of each
            cell is zero to rounding. It must be constant along walls.

    Raises:
        DriftbayesError: The diffusivity is not positive, or shapes do not fit.

    Example:
        >>> import numpy as np
        >>> grid = Grid.regular(0, 1, 50)
        >>> step = FokkerPlanck(grid, kappa=lambda x: 1 + 0.7 * np.sin(2 * np.pi * x))
        >>> p = step.evolve(grid.volumes, 0.1)
        >>> bool(np.allclose(p, grid.volumes, rtol=1e-12))
        True
    """

    def __init__(
        self,
        grid: Grid,
        kappa: Field,
        velocity: Sequence[Field] | None = None,
        *,
        stream: Callable[..., ArrayLike] | None = None,
    ) -> None:
        if velocity is not None and len(velocity) != grid.n_dim:
            msg = f"velocity has {len(velocity)} components, expected {grid.n_dim}, one per axis"
            raise DriftbayesError(msg)
        if stream is not None and (velocity is not None or grid.n_dim != 2):
            msg = "a stream function is for two dimensions and replaces the velocity; give only one"
            raise DriftbayesError(msg)
        self.grid = grid
        entries: list[tuple[IntArray, IntArray, FloatArray]] = []
        for axis in range(grid.n_dim):
            lower, upper = grid.beside(axis)
            distance, area = self._geometry(axis)
            k = self._at_faces(kappa, axis, "kappa")
            if not (np.isfinite(k).all() and (k > 0).all()):
                msg = f"kappa must be positive at all faces, got {float(np.nanmin(k)):g}"
                raise DriftbayesError(msg)
            if stream is not None:
                u = self._stream_velocity(stream, axis).ravel()
            elif velocity is not None:
                u = self._at_faces(velocity[axis], axis, "velocity")
            else:
                u = np.zeros(len(k))
            forward, backward = fluxes(u, k, distance)
            volume = grid.volumes.ravel()
            entries.append((lower, upper, forward * area / volume[lower]))
            entries.append((upper, lower, backward * area / volume[upper]))
        start, end, rate = (np.concatenate(column) for column in zip(*entries, strict=True))
        n = grid.volumes.size
        leaving = np.bincount(start, rate, minlength=n)
        self.fastest = float(leaving.max())
        cells = np.arange(n)
        # dP/dt = A P: probability moves from the column's cell to the row's cell.
        self.matrix = csr_array(
            (np.r_[rate, -leaving], (np.r_[end, cells], np.r_[start, cells])), shape=(n, n)
        )

    def _geometry(self, axis: int) -> tuple[FloatArray, FloatArray]:
        """Return the distance between the cells on both sides of each face, and its area."""
        widths = np.meshgrid(*(np.diff(edges) for edges in self.grid.edges), indexing="ij")
        lower, upper = self.grid.beside(axis)
        along = widths[axis].ravel()
        areas = [width.ravel()[lower] for i, width in enumerate(widths) if i != axis]
        return 0.5 * (along[lower] + along[upper]), areas[0] if areas else np.ones(len(lower))

    def _at_faces(self, field: Field, axis: int, name: str) -> FloatArray:
        """Evaluate a field at the interior faces normal to an axis."""
        grid = self.grid
        faces = grid.faces(axis)
        values = np.asarray(field(*faces) if callable(field) else field, dtype=np.float64)
        if callable(field) or values.ndim == 0:
            return np.broadcast_to(values, faces[0].shape).ravel()
        if values.shape != grid.shape:
            msg = f"{name} has shape {values.shape}, expected {grid.shape}, one value per cell"
            raise DriftbayesError(msg)
        lower, upper = grid.beside(axis)
        return 0.5 * (values.ravel()[lower] + values.ravel()[upper])

    def _stream_velocity(self, stream: Callable[..., ArrayLike], axis: int) -> FloatArray:
        """Return the mean velocity through each face: the difference of ψ between its corners."""
        x, y = self.grid.edges
        psi = np.asarray(stream(*np.meshgrid(x, y, indexing="ij")), dtype=np.float64)
        for i, turns in enumerate(self.grid.periodic):
            if turns:
                # ψ has one value across the periodic boundary; a mean flow would make it jump.
                size = float(np.abs(np.take(psi, -1, i) - np.take(psi, 0, i)).max())
                if size > 1e-9 * max(float(np.abs(psi).max()), 1e-300):
                    msg = "the stream function must be periodic on a periodic axis; add a mean "
                    msg += "flow as a velocity"
                    raise DriftbayesError(msg)
                along = np.moveaxis(psi, i, 0)
                along[-1] = along[0]
        if axis == 0:
            u = -np.diff(psi, axis=1) / np.diff(y)
            return u[1:] if self.grid.periodic[0] else u[1:-1]
        v = np.diff(psi, axis=0) / np.diff(x)[:, None]
        return v[:, 1:] if self.grid.periodic[1] else v[:, 1:-1]

    def at(self, position: ArrayLike) -> FloatArray:
        """Return the cell probabilities of a particle at a known position.

        The probability is interpolated between the surrounding cell centres, so that its mean is
        exact.

        Args:
            position: One number per axis.

        Raises:
            DriftbayesError: The position lies outside the grid.
        """
        where = np.atleast_1d(np.asarray(position, dtype=np.float64))
        shares = []
        for x, edges, centres, turns in zip(
            where, self.grid.edges, self.grid.centres, self.grid.periodic, strict=True
        ):
            if turns:
                x = edges[0] + (x - edges[0]) % (edges[-1] - edges[0])
            if not edges[0] <= x <= edges[-1]:
                msg = f"position {x:g} is outside the grid, {edges[0]:g} to {edges[-1]:g}"
                raise DriftbayesError(msg)
            share, period = np.zeros(len(centres)), edges[-1] - edges[0]
            padded = np.r_[centres[-1] - period, centres, centres[0] + period]
            if not turns:
                x = float(np.clip(x, centres[0], centres[-1]))
            right = int(np.clip(np.searchsorted(padded, x), 1, len(padded) - 1))
            weight = (x - padded[right - 1]) / (padded[right] - padded[right - 1])
            share[(right - 2) % len(centres)] += 1 - weight
            share[(right - 1) % len(centres)] += weight
            shares.append(share)
        return shares[0] if len(shares) == 1 else np.multiply.outer(*shares)

    def evolve(self, probability: ArrayLike, time: float) -> FloatArray:
        """Evolve cell probabilities over a time.

        Args:
            probability: Non-negative probability of each cell, of the shape of the grid. Its sum
                is conserved.
            time: Duration, not negative.

        Raises:
            DriftbayesError: A probability or the time is negative, or the grid is too fine for so
                long a time.
        """
        start = np.asarray(probability, dtype=np.float64)
        if start.shape != self.grid.shape or not (np.isfinite(start).all() and (start >= 0).all()):
            raise DriftbayesError(
                f"probability must be non-negative, of shape {self.grid.shape}; got shape "
                f"{start.shape}, smallest {float(np.min(start)):g}"
            )
        _check_time(time)
        p = start.ravel()
        if self.fastest * time <= _MAX_TERMS or p.size > _MAX_DENSE:
            out = self._series(p, time)
        else:
            out = self.transition(time) @ p
        # Restore the known sum: rounding accumulates over thousands of products.
        total = out.sum()
        return (out * (start.sum() / total) if total > 0 else out).reshape(start.shape)

    def transition(self, time: float) -> FloatArray:
        """Return the matrix (to, from) of transition probabilities, for at most 4,096 cells.

        Args:
            time: Duration, not negative.
        """
        _check_time(time)
        n = self.matrix.shape[0]
        if n > _MAX_DENSE:
            raise DriftbayesError(
                f"a transition matrix of {n:,} cells is too large, at most {_MAX_DENSE:,}; evolve "
                "one probability at a time, or use fewer cells"
            )
        n_squares = max(0, int(np.ceil(np.log2(max(self.fastest * time, 1.0)))) - 3)
        out = self._series(np.eye(n), time / 2**n_squares)
        for _ in range(n_squares):
            # Columns are probabilities: renormalise them after rounding.
            out = out @ out
            out /= out.sum(axis=0)
        return out

    def _series(self, start: FloatArray, time: float) -> FloatArray:
        """Sum the Poisson series of uniformisation."""
        mean = self.fastest * time
        if mean == 0:
            return start.copy()
        if mean > 50 * _MAX_TERMS:
            raise DriftbayesError(
                f"{mean:,.0f} products would be needed: the time is too long for cells this small; "
                "use fewer cells or shorter times"
            )
        width = 9 * np.sqrt(mean) + 40
        first, last = max(0, int(mean - width)), int(mean + width)
        k = np.arange(first, last + 1)
        weights = np.exp(k * np.log(mean) - mean - gammaln(k + 1.0))
        weights[weights < _TAIL] = 0.0
        weights /= weights.sum()
        term, out = start.copy(), np.zeros_like(start)
        for step in range(last + 1):
            if step >= first and weights[step - first] > 0:
                out += weights[step - first] * term
            # (I + A/q) has no negative entry; rounding may make a diagonal one -1e-17.
            term = np.maximum(term + (self.matrix @ term) / self.fastest, 0.0)
        return out

    def density(self, probability: FloatArray) -> FloatArray:
        """Return the probability density of each cell.

        Args:
            probability: Probability of each cell.
        """
        return probability / self.grid.volumes


def _check_time(time: float) -> None:
    """Raise an error unless a time is zero or more."""
    if not (np.isfinite(time) and time >= 0):
        raise DriftbayesError(f"time must be zero or more, got {time}")


def fluxes(u: FloatArray, kappa: FloatArray, distance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the fluxes of a unit density through faces, forwards and backwards.

    Args:
        u: Velocity through each face.
        kappa: Diffusivity at each face.
        distance: Distance between the centres on both sides.
    """
    # B(-z) = B(z) + z, so that a uniform density flows with u exactly.
    against = kappa / distance * _bernoulli(np.abs(u) * distance / kappa)
    return against + np.maximum(u, 0.0), against + np.maximum(-u, 0.0)


def flux_slopes(
    u: FloatArray, kappa: FloatArray, distance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the derivatives of the common part of both fluxes by diffusivity and velocity.

    Args:
        u: Velocity through each face.
        kappa: Diffusivity there.
        distance: Between the centres on both sides.
    """
    z = np.abs(u) * distance / kappa
    b = _bernoulli(z)
    large = np.maximum(z, 1e-3)
    slope = np.where(z > 1e-3, b * (1 - b - z) / large, -0.5 + z / 6 - z**3 / 180)
    return (b - z * slope) / distance, np.sign(u) * slope


def _bernoulli(z: FloatArray) -> FloatArray:
    """Compute B(z) = z/(exp(z) - 1) for non-negative z."""
    with np.errstate(over="ignore"):
        return np.where(z > 1e-8, z / np.expm1(np.maximum(z, 1e-8)), 1 - 0.5 * z)
