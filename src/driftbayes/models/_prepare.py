"""Choose the engine that suits the data and the model."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError, expect
from driftbayes.likelihood import (
    MEMORY,
    ChannelMoments,
    ReducedDisplacements,
    SecondMoments,
    SummedDisplacements,
    channel_moments,
    second_moments,
)
from driftbayes.likelihood._engines import DenseEngine, Engine, FilterEngine, ToeplitzEngine
from driftbayes.likelihood._runs import Runs, make_runs
from driftbayes.models._base import AbstractModel, EngineName, Kind

if TYPE_CHECKING:
    from driftbayes.data.tangent import Ground


# Longest window where MEMORY steps are not enough; longer runs need the state-space engine.
LONG_MEMORY = 256
# Largest distance of the data from their centre, in earth radii, for common axes and for a flow
# that is linear on the tangent plane.
_MAX_COMMON, _MAX_PLANE = 1.0, 0.5
# Largest angle between axes, in radians: transported axes from those at the centre, and east and
# north from those at the centre.
_MAX_MISALIGNED, _MAX_TURN = 0.2, 0.5
# The same limits for eddies, which depend on the direction between particles: distances on the
# plane are accurate to 0.7 %, directions to 6 degrees.
_MAX_EDDY_PLANE, _MAX_EDDY_TURN = 0.2, 0.1


class Preparation(NamedTuple):
    """Choice of engine and sums for a model; models with the same choice share the sums.

    Args:
        kind: How far to sum.
        engine: Name of the engine.
        memory: Longest window of second moments.
        positions: Whether to include the positions at which steps begin.
    """

    kind: Kind
    engine: EngineName
    memory: int
    positions: bool = False


def preparation(
    data: Displacements | ReducedDisplacements | SummedDisplacements,
    model: AbstractModel,
    engine: EngineName = "auto",
) -> Preparation:
    """Choose the engine and the sums for a model.

    Args:
        data: Displacements at one tau.
        model: The model, or the template of its family.
        engine: "moments" for regular exact data, "kalman" for gaps, irregular times or measurement
            error, "dense" for the slow reference; "auto" chooses the first that applies.
    """
    kinds = Displacements | ReducedDisplacements | SummedDisplacements
    expect(data, kinds, "data", "displacements, for example displacements(tracks, tau='6h')")
    kind = model.kind
    if not isinstance(data, Displacements) and engine not in ("auto", "moments"):
        what = "reduced" if isinstance(data, ReducedDisplacements) else "summed"
        raise DriftbayesError(
            f"of {what} displacements only the second moments are left, not for {engine!r}; "
            "use engine='auto'"
        )
    if isinstance(data, ReducedDisplacements):
        if kind != "summed":
            raise DriftbayesError(
                f"{model.name} needs displacements themselves, got their second moments summed "
                "over particles and axes; give it displacements"
            )
        return Preparation(kind, "moments", data.n_steps)
    if isinstance(data, SummedDisplacements):
        return _prepare_summed(data, model, engine)
    if engine not in ("auto", "moments", "kalman", "dense"):
        msg = f"engine must be 'auto', 'moments', 'kalman' or 'dense', got {engine!r}"
        raise DriftbayesError(msg)
    if engine == "dense" and kind != "summed":
        raise DriftbayesError(f"the dense engine does not know {model.name}; use engine='auto'")
    if model.exact_positions and data.position_sd is not None and np.any(data.position_sd > 0):
        raise DriftbayesError(
            f"{model.name} scales all of the covariance, and cannot take errors of positions that "
            "it must not scale; leave the errors out, or choose another option"
        )
    if model.needs_positions and data.start is None:
        raise DriftbayesError(
            f"{model.name} must know where steps begin, which these displacements do not tell; "
            "make them from trajectories, or pass start= to Displacements.from_array"
        )
    if data.ground is not None:
        _check_ground(data, data.ground, model)
    longest = int(data.row_sizes.max())
    # With noise or long memory, steps before the window are not negligible.
    memory = LONG_MEMORY if model.memory is None else model.memory
    if kind in ("steps", "jumps", "together", "flow", "sde") or (
        engine == "auto" and not data.is_regular
    ):
        engine = "kalman"
    elif engine in ("auto", "moments"):
        too_long = longest > memory > MEMORY and model.has_state_space
        if too_long and engine == "moments":
            raise DriftbayesError(
                f"engine='moments' keeps {memory} steps, and {model.name} needs all of the "
                f"{longest} of a run; use engine='auto', or cut runs with n_tau"
            )
        engine = "kalman" if too_long else "moments"
    return Preparation(kind, engine, min(longest, memory), model.needs_positions)


def _check_ground(data: Displacements, ground: "Ground", model: AbstractModel) -> None:
    """Raise an error if the region is too large for a common flow or diffusivity tensor."""
    if not model.needs_axes or (ground.frame == "local" and not model.needs_plane):
        return
    extent, turn = data.extent
    far, apart = f"{extent:.2g} earth radii", f"{np.degrees(turn):.0f} degrees"
    is_eddy = model.kind == "flow"
    reach_limit, turn_limit = (
        (_MAX_EDDY_PLANE, _MAX_EDDY_TURN) if is_eddy else (_MAX_PLANE, _MAX_TURN)
    )
    turns = turn > turn_limit and (ground.frame == "local" or is_eddy)
    if model.needs_plane and (extent > reach_limit or turns):
        raise DriftbayesError(
            f"{model.name} needs a region that is nearly plane, and these data reach {far} from "
            f"their centre, with axes up to {apart} apart; use a smaller region, or "
            f"{'+flow' if is_eddy else 'map cell by cell'}"
        )
    # Axes are carried from the tangent point, which may be far from part of the data.
    reach = float(np.hypot(*data.origin.T).max()) / ground.earth_radius
    if ground.frame == "transported" and (reach > _MAX_COMMON or turn > _MAX_MISALIGNED):
        raise DriftbayesError(
            f"{model.name} needs axes that all trajectories share, and axes carried along these "
            f"paths, which reach {reach:.2g} earth radii from their centre, are up to {apart} "
            "apart; use east and north (--frame local), or a smaller region"
        )


def check_summable(model: AbstractModel) -> int:
    """Return the longest window of moments that a model needs, if moments are enough for it.

    Args:
        model: The model, or the template of its family.

    Raises:
        DriftbayesError: If the model needs more than second moments.
    """
    reason = "must know where steps begin" if model.needs_positions else ""
    if model.kind not in ("summed", "channels"):
        units = {
            "trajectories": "each trajectory separately",
            "steps": "each step separately",
            "jumps": "each step separately",
            "sde": "each trajectory separately",
        }
        reason = f"has a density for {units.get(model.kind, 'all particles together')}"
    if reason:
        raise DriftbayesError(
            f"{model.name} {reason}, and cannot take data of which only sums are kept; use a "
            "part of the data that fits in memory, or another option"
        )
    return LONG_MEMORY if model.memory is None else model.memory


def _prepare_summed(
    data: SummedDisplacements, model: AbstractModel, engine: EngineName
) -> Preparation:
    """Choose the sums for data of which only moments are kept."""
    memory = check_summable(model)
    if engine == "auto" and data.n_steps > memory > MEMORY and model.has_state_space:
        raise DriftbayesError(
            f"{model.name} needs the steps themselves in runs of more than {memory}, and these "
            f"have up to {data.n_steps}; pass --n-tau {memory} or less (in Python: n_tau), or give "
            "it a part of the data that fits in memory"
        )
    return Preparation(model.kind, "moments", memory)


def sum_moments(
    data: Displacements | ReducedDisplacements | SummedDisplacements,
    model: AbstractModel,
    engine: EngineName = "auto",
) -> SecondMoments | ChannelMoments:
    """Sum the second moments of regular data; the arguments are those of `preparation`."""
    way = preparation(data, model, engine)
    if isinstance(data, ReducedDisplacements):
        return data.second_moments()
    if isinstance(data, SummedDisplacements):
        return data.moments(way.kind, way.memory)
    if way.kind == "channels":
        return channel_moments(data, way.memory, positions=way.positions)
    return second_moments(data, way.memory)


def make_engine(
    data: Displacements,
    model: AbstractModel,
    engine: EngineName = "auto",
    *,
    by_trajectory: bool = False,
) -> Engine:
    """Make the engine that computes the likelihood from individual steps.

    Args:
        data: Displacements at one tau.
        model: The model, or the template of its family.
        engine: "dense" for the slow reference; any other name chooses the fastest that applies.
        by_trajectory: Whether to keep the sums of each trajectory, whatever the model needs.
    """
    way = preparation(data, model, engine)
    if way.kind == "sde":
        raise DriftbayesError(
            f"{model.name} is an SDE, whose likelihood is only estimated: only compare, scan and "
            "simulate take it; omit it here"
        )
    if way.kind == "jumps":
        from driftbayes.likelihood._jumps import JumpEngine, check_jumps

        check_jumps(data, model.name)
        return JumpEngine(data)
    if way.kind == "flow":
        from driftbayes.likelihood._flow import flow_engine

        return flow_engine(data, model.name)
    if way.kind == "together":
        from driftbayes.likelihood._together import common_engine

        return common_engine(
            data,
            model.name,
            lambda part: _engine_for(make_runs(part), has_state_space=model.has_state_space),
            moves_by_generator=model.has_state_space and model.moves_by_generator,
        )
    by_trajectory = by_trajectory or way.kind == "trajectories"
    runs = make_runs(
        data,
        channels=way.kind == "channels",
        positions=way.positions,
        by_trajectory=by_trajectory,
        is_turning=model.is_turning,
    )
    if way.engine == "dense":
        return DenseEngine(runs)
    is_summed = way.kind == "summed" and not by_trajectory
    return _engine_for(runs, has_state_space=model.has_state_space, is_summed=is_summed)


def _engine_for(runs: Runs, *, has_state_space: bool, is_summed: bool = False) -> FilterEngine:
    """Make the fastest engine that suits the model and the runs."""
    if has_state_space:
        return FilterEngine(runs, is_summed)
    is_even = len(runs.intervals) == 1 and np.ptp(runs.error) == 0
    return ToeplitzEngine(runs) if is_even else DenseEngine(runs)
