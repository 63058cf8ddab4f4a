"""Data kept apart by trajectory, for compiled programs of models whose trajectories differ."""

__all__ = [
    "GaussianModel",
    "TrajectoryPieces",
    "trajectory_pieces",
    "trajectory_terms",
]

from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from driftbayes.data.sampling import Displacements
from driftbayes.jax_typing import Scalar, ScalarLike
from driftbayes.likelihood.kalman import PaddedSteps
from driftbayes.likelihood.moments import (
    MEMORY,
    SecondMoments,
    moments_terms,
    sliding_moment,
)
from driftbayes.likelihood.terms import GaussianTerms
from driftbayes.sums import diagonal_sums
from driftbayes.typing import IntArray

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
