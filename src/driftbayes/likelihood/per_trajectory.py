"""Sums by trajectory, for models that judge every trajectory by itself."""

__all__ = [
    "GaussianModel",
    "Tracks",
    "TrajectoryPieces",
    "tracks_of",
    "trajectory_pieces",
    "trajectory_terms",
]

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from driftbayes.data.sampling import Displacements
from driftbayes.jax_typing import Scalar, ScalarLike
from driftbayes.likelihood.kalman import GaussianTerms, PaddedSteps
from driftbayes.likelihood.moments import (
    MEMORY,
    SecondMoments,
    moments_terms,
    sliding_moment,
)
from driftbayes.likelihood.runs import Runs
from driftbayes.likelihood.sums import Formulas, SlotForms
from driftbayes.sums import diagonal_sums
from driftbayes.typing import FloatArray, IntArray

# Pieces of trajectories, along the first axis of every array that has one.
_Pieces: TypeAlias = SecondMoments | PaddedSteps


class TrajectoryPieces(eqx.Module):
    """Data that are kept apart by trajectory, for models whose trajectories are not all alike.

    Args:
        pieces: Pieces of trajectories for an engine, along the first axis of every array.
        owner: Number of the trajectory of each piece, counted from 0.
        tau: Sampling time.
        n_trajectories: Number of trajectories.
    """

    pieces: _Pieces
    owner: Int[Array, " piece"]
    tau: Float[Array, ""]
    n_trajectories: int = eqx.field(static=True)


def trajectory_pieces(data: Displacements, memory: int | None = MEMORY) -> TrajectoryPieces:
    """Displacements apart by trajectory.

    Args:
        data: Displacements at one tau.
        memory: Longest window of the statistics engine; None for the state-space engine.
    """
    _, owners = np.unique(data.trajectory, return_inverse=True)
    if memory is None:
        steps = PaddedSteps.from_displacements(data)
        pieces: _Pieces = steps
        n_pieces, owner = len(steps.valid), owners
    else:
        starts = np.concatenate([[0], np.cumsum(data.row_sizes)[:-1]])
        size = min(int(data.row_sizes.max()), memory)
        moments, owner = _block_moments(data, starts, data.row_sizes, owners, size)
        pieces, n_pieces = moments, len(moments.predicted)
    # Pieces that only fill up a power of two are empty, and may belong to anyone.
    padded = np.zeros(n_pieces, dtype=np.int64)
    padded[: len(owner)] = owner
    return TrajectoryPieces(
        pieces, jnp.asarray(padded), jnp.asarray(data.tau), int(owners.max()) + 1
    )


def trajectory_terms(
    model: "GaussianModel", data: TrajectoryPieces, noise_variance: ScalarLike = 0.0
) -> GaussianTerms:
    """Gaussian terms of each trajectory under one model."""
    if isinstance(data.pieces, SecondMoments):
        autocovariance = model.first_autocovariances(data.pieces.forms.shape[-1], data.tau)
        terms = jax.vmap(lambda piece: moments_terms(autocovariance, piece))(data.pieces)
    else:
        terms = _run_terms(model, data.pieces, noise_variance)
    return jax.tree.map(
        lambda part: jax.ops.segment_sum(part, data.owner, data.n_trajectories), terms
    )


def _run_terms(
    model: "GaussianModel", steps: PaddedSteps, noise_variance: ScalarLike = 0.0
) -> GaussianTerms:
    """Gaussian terms of each run."""
    innovation, variance = model.innovations(steps, noise_variance)
    n_dim = steps.dx.shape[-1]
    square = jnp.sum(innovation**2, axis=-1)
    return GaussianTerms(
        n=n_dim * jnp.sum(steps.valid, axis=1),
        log_det=n_dim * jnp.sum(steps.valid * jnp.log(variance), axis=1),
        quadratic=jnp.sum(steps.valid * square / variance, axis=1),
    )


@runtime_checkable
class GaussianModel(Protocol):
    """What the engines ask of a model; `AbstractModel` has it all."""

    # From how many earlier steps the next one is predicted in long regular runs; None: from all.
    memory: ClassVar[int | None]

    def first_autocovariances(self, n_lags: int, tau: Scalar) -> Float[Array, " lag"]:
        """Covariances of two displacements that start 0, 1, 2, ... steps apart."""
        ...

    def innovations(
        self, steps: PaddedSteps, noise_variance: ScalarLike = 0.0
    ) -> tuple[Float[Array, "run step dim"], Float[Array, "run step"]]:
        """What the earlier steps do not predict of each step, and its variance."""
        ...


def _block_moments(
    data: Displacements, starts: IntArray, row_sizes: IntArray, owners: IntArray, size: int
) -> tuple[SecondMoments, IntArray]:
    """What `second_moments` makes of a whole data set, for each trajectory of a block of runs."""
    capped = np.minimum(row_sizes, size)
    groups = []
    for length in map(int, np.flatnonzero(np.bincount(capped))):
        members = capped == length
        windows = data.dx[starts[members][:, None] + np.arange(length)]
        moments = windows @ windows.transpose(0, 2, 1)
        who, place, count = np.unique(owners[members], return_inverse=True, return_counts=True)
        summed = np.zeros((len(who), length, length))
        np.add.at(summed, place, moments)
        forms, predicted = np.zeros((len(who), size, size)), np.zeros((len(who), size))
        forms[:, :length, :length] = diagonal_sums(summed)
        predicted[:, :length] = count[:, None] * data.n_dim
        groups.append((who, forms, predicted, length - 1, 1.0))
    long = np.flatnonzero(row_sizes > size)
    if len(long):
        forms, predicted = np.zeros((len(long), size, size)), np.zeros((len(long), size))
        for i, run in enumerate(long):
            steps = data.dx[starts[run] + 1 : starts[run] + row_sizes[run]]
            forms[i] = sliding_moment(steps, size)[::-1, ::-1]
        predicted[:, -1] = (row_sizes[long] - size) * data.n_dim
        groups.append((owners[long], forms, predicted, size - 1, 0.0))
    piece_owners = np.concatenate([group[0] for group in groups])
    n_pieces = len(piece_owners)
    # Empty pieces up to a power of two, so that a handful of programs serves all blocks.
    n_padded = 1 << (n_pieces - 1).bit_length()
    forms, predicted = np.zeros((n_padded, 1, size, size)), np.zeros((n_padded, size))
    orders, paired = np.zeros((n_padded, 1), dtype=np.int64), np.zeros((n_padded, 1))
    forms[:n_pieces, 0] = np.concatenate([group[1] for group in groups])
    predicted[:n_pieces] = np.concatenate([group[2] for group in groups])
    orders[:n_pieces, 0] = np.concatenate([np.full(len(g[0]), g[3]) for g in groups])
    paired[:n_pieces, 0] = np.concatenate([np.full(len(g[0]), g[4]) for g in groups])
    tau = np.full(n_padded, data.tau)
    return SecondMoments(forms, orders, paired, predicted, tau), piece_owners


# Longest run, and memory of the statistics of all runs, in bytes.
_MAX_LENGTH = 64
_MAX_BYTES = 64 << 20


@dataclass(frozen=True, eq=False)
class _Group:
    """Runs of one length.

    Args:
        length: Steps of each.
        slots: Slot of each run, or of several of one slot, whose statistics add up; a slice where
            they are consecutive.
        n_slots: Number of them.
        owner: Place in `slots` of each run.
        steps: (run, step, axis).
    """

    length: int
    slots: IntArray | slice
    n_slots: int
    owner: IntArray
    steps: FloatArray

    @cached_property
    def squares(self) -> FloatArray:
        """Sum of squares, (1, slot)."""
        return self._by_slot(np.sum(self.steps**2, axis=(1, 2))[None])

    @cached_property
    def powers(self) -> FloatArray:
        """Squares of the sine transform, summed over axes, (frequency, slot)."""
        n = self.length
        place = np.arange(1, n + 1)
        sines = np.sqrt(2 / (n + 1)) * np.sin(np.pi * np.outer(place, place) / (n + 1))
        return self._by_slot(np.sum((sines @ self.steps) ** 2, axis=2).T)

    @cached_property
    def products(self) -> FloatArray:
        """Products of two steps, added up over equal entries of the inverse, (pair, slot)."""
        n, x = self.length, self.steps
        found = np.zeros((len(pairs(n)[0]), len(x)))
        for p, (i, j) in enumerate(zip(*pairs(n), strict=True)):
            mirrored = (n - 1 - j, n - 1 - i)
            for a, b in {(i, j), (j, i), mirrored, mirrored[::-1]}:
                found[p] += np.einsum("rd,rd->r", x[:, a], x[:, b])
        return self._by_slot(found)

    def _by_slot(self, values: FloatArray) -> FloatArray:
        n = self.n_slots
        return np.stack([np.bincount(self.owner, weights=row, minlength=n) for row in values])


def pairs(n: int) -> tuple[IntArray, IntArray]:
    """Entries of a matrix that is symmetric about both diagonals, each once."""
    i, j = np.triu_indices(n)
    kept = i + j <= n - 1
    return i[kept], j[kept]


@dataclass(frozen=True, eq=False)
class Tracks:
    """Short runs at regular times, by length.

    Args:
        groups: Runs of each length.
        tau: Sampling time.
        error: Variance of the error of every fix.
        n: Steps of each pattern; slots with as many runs of each length have one pattern.
        pattern: Pattern of each slot.
        n_runs: Runs of each pattern and length, (pattern, length).
    """

    groups: tuple[_Group, ...]
    tau: float
    error: float
    n: FloatArray
    pattern: IntArray
    n_runs: FloatArray

    def forms(self, formulas: Formulas) -> SlotForms:
        """Log-determinants and quadratic forms of each row of the formulas."""
        from driftbayes.kernels.classes import add_forms

        n_lags = self.groups[-1].length
        covariance = np.array(formulas.autocovariances(self.tau, n_lags))
        covariance[:, 0] += 2 * self.error
        covariance[:, 1:2] -= self.error
        if not covariance[:, 1:].any():
            inverses, logs = self._independent(covariance)
        elif not covariance[:, 2:].any():
            inverses, logs = self._neighbours(covariance)
        else:
            inverses, logs = self._general(covariance)
        quadratic = np.zeros((len(covariance), len(self.pattern)))
        for group, (inverse, statistics) in zip(self.groups, inverses, strict=True):
            if isinstance(group.slots, slice):
                add_forms(inverse, statistics, group.slots.start, quadratic)
                continue
            own = np.zeros((len(quadratic), group.n_slots))
            add_forms(inverse, statistics, 0, own)
            quadratic[:, group.slots] += own
        return SlotForms(self.n, logs @ self.n_runs.T, quadratic, self.pattern)

    def _independent(
        self, covariance: FloatArray
    ) -> tuple[list[tuple[FloatArray, FloatArray]], FloatArray]:
        variance = covariance[:, :1]
        lengths = np.array([group.length for group in self.groups])
        return [(1 / variance, group.squares) for group in self.groups], np.log(variance) * lengths

    def _neighbours(
        self, covariance: FloatArray
    ) -> tuple[list[tuple[FloatArray, FloatArray]], FloatArray]:
        inverses, logs = [], []
        for group in self.groups:
            n = group.length
            angle = np.pi * np.arange(1, n + 1) / (n + 1)
            values = covariance[:, :1] + 2 * covariance[:, 1:2] * np.cos(angle)
            inverses.append((1 / values, group.powers))
            logs.append(np.sum(np.log(values), axis=1))
        return inverses, np.stack(logs, axis=1)

    def _general(
        self, covariance: FloatArray
    ) -> tuple[list[tuple[FloatArray, FloatArray]], FloatArray]:
        r"""By Durbin and Levinson: $S_n^{-1} = \sum_{k<n} a_k a_k^T / v_k$."""
        n_rows, n_lags = covariance.shape
        wanted = {group.length: group for group in self.groups}
        whitening = np.zeros((n_rows, n_lags))
        whitening[:, 0] = 1.0
        variance = covariance[:, 0].copy()
        inverse = np.zeros((n_rows, n_lags, n_lags))
        log_det = np.zeros(n_rows)
        inverses, logs = [], []
        for k in range(n_lags):
            if k:
                # The filter that predicts the step after, its first number that of the oldest step.
                shifted = np.zeros_like(whitening)
                shifted[:, 1 : k + 1] = whitening[:, :k]
                flipped = whitening[:, :k][:, ::-1]
                lags = covariance[:, 1 : k + 1]
                reflection = np.einsum("ri,ri->r", whitening[:, :k], lags) / variance
                shifted[:, :k] -= reflection[:, None] * flipped
                whitening = shifted
                variance = variance * (1 - reflection) * (1 + reflection)
            own = whitening[:, : k + 1]
            inverse[:, : k + 1, : k + 1] += own[:, :, None] * (own / variance[:, None])[:, None]
            log_det = log_det + np.log(variance)
            if k + 1 in wanted:
                i, j = pairs(k + 1)
                inverses.append((inverse[:, i, j], wanted[k + 1].products))
                logs.append(log_det)
        return inverses, np.stack(logs, axis=1)


def tracks_of(runs: Runs) -> Tracks | None:
    """Group short runs by length; None where they are long, irregular or differ in their errors.

    Args:
        runs: Steps of all runs, with the axes as their only columns.
    """
    sizes = np.diff(runs.offsets)
    lengths, n_each = np.unique(sizes, return_counts=True)
    is_regular = len(runs.intervals) == 1 and np.ptp(runs.error) == 0
    is_plain = runs.columns.shape[1] == runs.n_dim and not np.iscomplexobj(runs.columns)
    n_bytes = 2 * float(np.sum(n_each * lengths * (lengths + 2.0)))
    if not (is_regular and is_plain) or lengths[-1] > _MAX_LENGTH or n_bytes > _MAX_BYTES:
        return None
    counts = np.zeros((runs.n_slots, len(lengths)))
    np.add.at(counts, (runs.slot, np.searchsorted(lengths, sizes)), 1)
    n_runs, pattern = np.unique(counts, axis=0, return_inverse=True)
    # Slots of one pattern next to each other: most lengths are then a range of slots.
    order = np.argsort(pattern.reshape(-1), kind="stable")
    slot = np.argsort(order)[runs.slot]
    groups = []
    for length in lengths:
        chosen = np.flatnonzero(sizes == length)
        slots, owner = np.unique(slot[chosen], return_inverse=True)
        steps = runs.columns[runs.offsets[chosen, None] + np.arange(length)]
        first, last, n = int(slots[0]), int(slots[-1]), len(slots)
        place = slice(first, last + 1) if last - first == n - 1 else slots
        groups.append(_Group(int(length), place, n, owner, steps))
    return Tracks(
        groups=tuple(groups),
        tau=runs.tau,
        error=float(runs.error[0]),
        n=n_runs @ lengths,
        pattern=pattern.reshape(-1)[order],
        n_runs=n_runs,
    )
