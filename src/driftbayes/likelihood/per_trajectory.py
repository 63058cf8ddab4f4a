r"""The log-likelihood of each trajectory by itself, for many parameter values at once.

$$\ln p(D \mid \theta) = \sum_t \ln p(D_t \mid \theta)$$

Runs are independent, so that the sum is exact. What is left out and predicted when a model is
checked is a whole trajectory, never a step: steps of one run depend on each other.
"""

__all__ = [
    "GaussianModel",
    "TrajectoryPieces",
    "log_likelihood_per_trajectory",
    "trajectory_pieces",
    "trajectory_terms",
]

from collections.abc import Iterator
from typing import ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from driftbayes.errors import DriftbayesError
from driftbayes.jax_typing import Scalar, ScalarLike
from driftbayes.likelihood.kalman import PaddedSteps
from driftbayes.likelihood.moments import (
    MEMORY,
    SecondMoments,
    moments_terms,
    sliding_moment,
)
from driftbayes.likelihood.terms import GaussianTerms
from driftbayes.sampling import Displacements
from driftbayes.sums import diagonal_sums
from driftbayes.typing import FloatArray, IntArray

# What a block of runs may take in memory, and what the draws that are computed at a time.
_BLOCK_BYTES = 32 << 20
_BATCH_BYTES = 64 << 20

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


def log_likelihood_per_trajectory(
    models: GaussianModel,
    data: Displacements,
    *,
    engine: Literal["auto", "moments", "kalman"] = "auto",
    memory: int = MEMORY,
) -> FloatArray:
    """Ln p of the runs of each trajectory: (draw, trajectory), trajectories by rising number.

    Args:
        models: The model at every draw, as one model whose fields are arrays.
        data: Displacements at one tau.
        engine: "moments" for regular exact data, "kalman" for gaps, irregular times or measurement
            error; "auto" takes the first that applies.
        memory: Longest window of the statistics engine.
    """
    if engine not in ("auto", "moments", "kalman"):
        msg = f"engine must be 'auto', 'moments' or 'kalman', got {engine!r}"
        raise DriftbayesError(msg)
    if engine == "moments" and not data.is_regular:
        msg = (
            "the statistics engine needs steps of equal duration and exact positions; "
            "use engine='auto' for gaps, irregular times or noise"
        )
        raise DriftbayesError(msg)
    # Windows that are shorter than the runs are for models that forget within them.
    fits = models.memory is not None or data.n_steps <= MEMORY
    by_moments = engine == "moments" or (engine == "auto" and data.is_regular and fits)
    _, owners = np.unique(data.trajectory, return_inverse=True)
    n_draws = len(jax.tree.leaves(models)[0])
    total = np.zeros((owners.max() + 1, n_draws))
    many = _moments(data, owners, memory) if by_moments else _steps(data, owners)
    for pieces, piece_owners in many:
        steps = pieces.predicted if isinstance(pieces, SecondMoments) else pieces.valid
        # An engine holds about four numbers for each step of each piece.
        found = _log_likelihoods(models, pieces, max(_BATCH_BYTES // (4 * 8 * steps.size), 1))
        np.add.at(total, piece_owners, np.asarray(found).T[: len(piece_owners)])
    return np.ascontiguousarray(total.T)


@eqx.filter_jit
def _log_likelihoods(
    models: GaussianModel, pieces: _Pieces, batch_size: int
) -> Float[Array, "draw piece"]:
    def one(model: GaussianModel) -> Float[Array, " piece"]:
        if isinstance(pieces, SecondMoments):
            tau = jnp.asarray(pieces.tau)[0]
            # Once for all pieces.
            autocovariance = model.first_autocovariances(pieces.forms.shape[-1], tau)
            return jax.vmap(lambda piece: moments_terms(autocovariance, piece).log_likelihood())(
                pieces
            )
        return _run_terms(model, pieces).log_likelihood()

    return jax.lax.map(one, models, batch_size=batch_size)


def _steps(data: Displacements, owners: IntArray) -> Iterator[tuple[PaddedSteps, IntArray]]:
    """Every run a piece, for the state-space engine."""
    yield PaddedSteps.from_displacements(data), owners


def _moments(
    data: Displacements, owners: IntArray, memory: int
) -> Iterator[tuple[SecondMoments, IntArray]]:
    """Runs of equal length of one trajectory together, for the statistics engine."""
    size = min(int(data.row_sizes.max()), memory)
    starts = np.concatenate([[0], np.cumsum(data.row_sizes)[:-1]])
    n_block = max(_BLOCK_BYTES // (2 * 8 * size**2), 1)
    for low in range(0, len(starts), n_block):
        block = slice(low, low + n_block)
        yield _block_moments(data, starts[block], data.row_sizes[block], owners[block], size)


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
