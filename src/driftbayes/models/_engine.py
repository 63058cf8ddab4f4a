"""The engine that holds a data set for a class of models."""

__all__ = ["engine_from", "make_engine"]

from typing import Any

import numpy as np

from driftbayes.data.sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.likelihood import (
    ChannelMoments,
    ChannelSteps,
    PaddedSteps,
    SecondMoments,
    TrajectoryPieces,
)
from driftbayes.likelihood.engines import (
    DenseEngine,
    Engine,
    FilterEngine,
    MomentsEngine,
    ToeplitzEngine,
)
from driftbayes.likelihood.runs import Context, Runs, distinct_intervals, make_runs
from driftbayes.models._prepare import Data, Needs, preparation
from driftbayes.models._prepare import Engine as EngineName


def make_engine(
    data: Displacements, needs: Needs, engine: EngineName = "auto", *, is_turning: bool = False
) -> Engine:
    """Make the engine of single steps that fits the data and the model.

    Args:
        data: Displacements at one tau.
        needs: What the model needs of them.
        engine: "dense" for the slow reference; otherwise the fastest that applies.
        is_turning: Whether the model's covariances are complex.
    """
    way = preparation(data, needs, engine)
    runs = make_runs(
        data,
        channels=way.kind == "channels",
        positions=way.positions,
        by_trajectory=way.kind == "trajectories",
        is_turning=is_turning,
    )
    has_state_space = needs.has_state_space and way.engine != "dense"
    is_summed = way.kind == "summed" and not is_turning
    return _engine_of(runs, has_state_space=has_state_space, is_summed=is_summed)


def _engine_of(runs: Runs, *, has_state_space: bool, is_summed: bool = False) -> Engine:
    if has_state_space:
        return FilterEngine(runs, is_summed)
    is_even = len(runs.intervals) == 1 and np.ptp(runs.error) == 0
    return ToeplitzEngine(runs) if is_even else DenseEngine(runs)


def engine_from(data: Data, *, is_turning: bool = False, has_state_space: bool = True) -> Engine:
    """Make the engine of data that were prepared for compiled programs.

    Args:
        data: The data.
        is_turning: Whether the model's covariances are complex.
        has_state_space: Whether the model has a state-space form.
    """
    if isinstance(data, SecondMoments | ChannelMoments):
        return MomentsEngine(data, is_turning)
    if isinstance(data, Displacements):
        return DenseEngine(make_runs(data))
    slot = None
    steps: Any = data
    if isinstance(data, TrajectoryPieces):
        steps, slot = data.pieces, np.asarray(data.owner)
    context, n_dim = None, None
    if isinstance(steps, ChannelSteps):
        centre = np.asarray(steps.centre)
        context = Context(centre, float(steps.turning), steps.is_lonlat)
        steps, n_dim = steps.steps, len(centre)
    if not isinstance(steps, PaddedSteps):
        msg = "sums that are kept by trajectory have no steps left; prepare the displacements anew"
        raise DriftbayesError(msg)
    runs = _from_padded(steps, slot, context, n_dim, is_turning=is_turning)
    return _engine_of(runs, has_state_space=has_state_space)


def _from_padded(
    steps: PaddedSteps,
    slot: np.ndarray | None,
    context: Context | None,
    n_dim: int | None,
    *,
    is_turning: bool,
) -> Runs:
    valid = np.asarray(steps.valid) > 0
    used = valid.any(axis=1)
    valid = valid[used]
    sizes = valid.sum(axis=1)
    columns = np.asarray(steps.dx)[used][valid]
    fixes = np.arange(valid.shape[1] + 1) < sizes[:, None] + 1
    if is_turning:
        z = columns[:, 0] + 1j * columns[:, 1]
        columns = np.column_stack([z, z.conj(), columns[:, 2].astype(complex)])
    intervals, which = distinct_intervals(np.asarray(steps.interval)[used][valid])
    n_axes = steps.dx.shape[-1] if n_dim is None else n_dim
    return Runs(
        columns=np.ascontiguousarray(columns),
        intervals=intervals,
        which=which,
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
        slot=np.zeros(len(sizes), dtype=np.int64) if slot is None else slot[used],
        error=np.ascontiguousarray(np.asarray(steps.noise_variance)[used][fixes]),
        n_dim=n_axes,
        tau=float(steps.tau),
        context=Context(np.zeros(n_axes)) if context is None else context,
    )
