"""Choose the engine that suits the data and the model."""

__all__ = [
    "EngineName",
    "Kind",
    "Needs",
    "Preparation",
    "check_summable",
    "make_engine",
    "preparation",
    "sum_moments",
]

from typing import TYPE_CHECKING, Literal, NamedTuple

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

if TYPE_CHECKING:
    from driftbayes.data.tangent import Ground


EngineName = Literal["auto", "moments", "kalman", "dense"]
# How far displacements may be summed beforehand: "summed" over trajectories and axes, "channels"
# over trajectories, "trajectories" over the steps of each, "steps", "jumps" and "sde" not at all;
# "together" and "flow" need all particles at once, "pairs" their separations.
Kind = Literal[
    "summed",
    "channels",
    "trajectories",
    "steps",
    "jumps",
    "together",
    "flow",
    "pairs",
    "sde",
]
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


class Needs(NamedTuple):
    """Requirements of a model on the data; the defaults are those of Brownian and Langevin.

    Args:
        model: Name of the model.
        kind: How far the data may be summed.
        has_state_space: Whether the model has a state-space form.
        memory: Number of earlier steps that predict the next one; None for the longest window.
        exact_positions: Whether positions must have no measurement error.
        positions: Whether the density depends on where steps begin.
        axes: Whether all particles need the same axes.
        plane: Whether the positions at which steps begin must lie on one plane.
        moves_by_generator: Whether the engine can compute transitions over any interval.
    """

    model: str = "the model"
    kind: Kind = "summed"
    has_state_space: bool = True
    memory: int | None = MEMORY
    exact_positions: bool = False
    positions: bool = False
    axes: bool = False
    plane: bool = False
    moves_by_generator: bool = True


PLAIN = Needs()


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
    needs: Needs = PLAIN,
    engine: EngineName = "auto",
) -> Preparation:
    """Choose the engine and the sums for a model.

    Args:
        data: Displacements at one tau.
        needs: Requirements of the model.
        engine: "moments" for regular exact data, "kalman" for gaps, irregular times or measurement
            error, "dense" for the slow reference; "auto" chooses the first that applies.
    """
    kinds = Displacements | ReducedDisplacements | SummedDisplacements
    expect(data, kinds, "data", "displacements, for example displacements(tracks, tau='6h')")
    kind = needs.kind
    if not isinstance(data, Displacements) and engine not in ("auto", "moments"):
        what = "reduced" if isinstance(data, ReducedDisplacements) else "summed"
        raise DriftbayesError(
            f"of {what} displacements only the second moments are left, not for {engine!r}; "
            "use engine='auto'"
        )
    if isinstance(data, ReducedDisplacements):
        if kind != "summed":
            raise DriftbayesError(
                f"{needs.model} needs displacements themselves, got their second moments summed "
                "over particles and axes; give it displacements"
            )
        return Preparation(kind, "moments", data.n_steps)
    if isinstance(data, SummedDisplacements):
        return _prepare_summed(data, needs, engine)
    if engine not in ("auto", "moments", "kalman", "dense"):
        msg = f"engine must be 'auto', 'moments', 'kalman' or 'dense', got {engine!r}"
        raise DriftbayesError(msg)
    if engine == "dense" and kind != "summed":
        raise DriftbayesError(f"the dense engine does not know {needs.model}; use engine='auto'")
    if needs.exact_positions and data.position_sd is not None and np.any(data.position_sd > 0):
        raise DriftbayesError(
            f"{needs.model} scales all of the covariance, and cannot take errors of positions that "
            "it must not scale; leave the errors out, or choose another option"
        )
    if needs.positions and data.start is None:
        raise DriftbayesError(
            f"{needs.model} must know where steps begin, which these displacements do not tell; "
            "make them from trajectories, or pass start= to Displacements.from_array"
        )
    if data.ground is not None:
        _check_ground(data, data.ground, needs)
    longest = int(data.row_sizes.max())
    # With noise or long memory, steps before the window are not negligible.
    memory = LONG_MEMORY if needs.memory is None else needs.memory
    if kind in ("steps", "jumps", "together", "flow", "sde") or (
        engine == "auto" and not data.is_regular
    ):
        engine = "kalman"
    elif engine in ("auto", "moments"):
        too_long = longest > memory > MEMORY and needs.has_state_space
        if too_long and engine == "moments":
            raise DriftbayesError(
                f"engine='moments' keeps {memory} steps, and {needs.model} needs all of the "
                f"{longest} of a run; use engine='auto', or cut runs with n_tau"
            )
        engine = "kalman" if too_long else "moments"
    return Preparation(kind, engine, min(longest, memory), needs.positions)


def _check_ground(data: Displacements, ground: "Ground", needs: Needs) -> None:
    """Raise an error if the region is too large for a common flow or diffusivity tensor."""
    if not needs.axes or (ground.frame == "local" and not needs.plane):
        return
    extent, turn = data.extent
    far, apart = f"{extent:.2g} earth radii", f"{np.degrees(turn):.0f} degrees"
    is_eddy = needs.kind == "flow"
    reach_limit, turn_limit = (
        (_MAX_EDDY_PLANE, _MAX_EDDY_TURN) if is_eddy else (_MAX_PLANE, _MAX_TURN)
    )
    turns = turn > turn_limit and (ground.frame == "local" or is_eddy)
    if needs.plane and (extent > reach_limit or turns):
        raise DriftbayesError(
            f"{needs.model} needs a region that is nearly plane, and these data reach {far} from "
            f"their centre, with axes up to {apart} apart; use a smaller region, or "
            f"{'+flow' if is_eddy else 'map cell by cell'}"
        )
    # Axes are carried from the tangent point, which may be far from part of the data.
    reach = float(np.hypot(*data.origin.T).max()) / ground.earth_radius
    if ground.frame == "transported" and (reach > _MAX_COMMON or turn > _MAX_MISALIGNED):
        raise DriftbayesError(
            f"{needs.model} needs axes that all trajectories share, and axes carried along these "
            f"paths, which reach {reach:.2g} earth radii from their centre, are up to {apart} "
            "apart; use east and north (--frame local), or a smaller region"
        )


def check_summable(needs: Needs) -> int:
    """Return the longest window of moments that a model needs, if moments are enough for it.

    Args:
        needs: Requirements of the model.

    Raises:
        DriftbayesError: If the model needs more than second moments.
    """
    reason = "must know where steps begin" if needs.positions else ""
    if needs.kind not in ("summed", "channels"):
        units = {
            "trajectories": "each trajectory separately",
            "steps": "each step separately",
            "jumps": "each step separately",
            "sde": "each trajectory separately",
        }
        reason = f"has a density for {units.get(needs.kind, 'all particles together')}"
    if reason:
        raise DriftbayesError(
            f"{needs.model} {reason}, and cannot take data of which only sums are kept; use a "
            "part of the data that fits in memory, or another option"
        )
    return LONG_MEMORY if needs.memory is None else needs.memory


def _prepare_summed(data: SummedDisplacements, needs: Needs, engine: EngineName) -> Preparation:
    """Choose the sums for data of which only moments are kept."""
    memory = check_summable(needs)
    if engine == "auto" and data.n_steps > memory > MEMORY and needs.has_state_space:
        raise DriftbayesError(
            f"{needs.model} needs the steps themselves in runs of more than {memory}, and these "
            f"have up to {data.n_steps}; pass --n-tau {memory} or less (in Python: n_tau), or give "
            "it a part of the data that fits in memory"
        )
    return Preparation(needs.kind, "moments", memory)


def sum_moments(
    data: Displacements | ReducedDisplacements | SummedDisplacements,
    needs: Needs = PLAIN,
    engine: EngineName = "auto",
) -> SecondMoments | ChannelMoments:
    """Sum the second moments of regular data; the arguments are those of `preparation`."""
    way = preparation(data, needs, engine)
    if isinstance(data, ReducedDisplacements):
        return data.second_moments()
    if isinstance(data, SummedDisplacements):
        return data.moments(way.kind, way.memory)
    if way.kind == "channels":
        return channel_moments(data, way.memory, positions=way.positions)
    return second_moments(data, way.memory)


def make_engine(
    data: Displacements, needs: Needs, engine: EngineName = "auto", *, is_turning: bool = False
) -> Engine:
    """Make the engine that computes the likelihood from individual steps.

    Args:
        data: Displacements at one tau.
        needs: Requirements of the model.
        engine: "dense" for the slow reference; any other name chooses the fastest that applies.
        is_turning: Whether the model's covariances are complex.
    """
    way = preparation(data, needs, engine)
    if way.kind == "sde":
        raise DriftbayesError(
            f"{needs.model} is an SDE, whose likelihood is only estimated: only compare, scan and "
            "simulate take it; omit it here"
        )
    if way.kind == "jumps":
        from driftbayes.likelihood._jumps import JumpEngine, check_jumps

        check_jumps(data, needs.model)
        return JumpEngine(data)
    if way.kind == "flow":
        from driftbayes.likelihood._flow import flow_engine

        return flow_engine(data, needs.model)
    if way.kind == "together":
        from driftbayes.likelihood._together import common_engine

        return common_engine(
            data,
            needs.model,
            lambda part: _engine_for(make_runs(part), has_state_space=needs.has_state_space),
            moves_by_generator=needs.moves_by_generator,
        )
    runs = make_runs(
        data,
        channels=way.kind == "channels",
        positions=way.positions,
        by_trajectory=way.kind == "trajectories",
        is_turning=is_turning,
    )
    if way.engine == "dense":
        return DenseEngine(runs)
    is_summed = way.kind == "summed" and not is_turning
    return _engine_for(runs, has_state_space=needs.has_state_space, is_summed=is_summed)


def _engine_for(runs: Runs, *, has_state_space: bool, is_summed: bool = False) -> FilterEngine:
    """Make the fastest engine that suits the model and the runs."""
    if has_state_space:
        return FilterEngine(runs, is_summed)
    is_even = len(runs.intervals) == 1 and np.ptp(runs.error) == 0
    return ToeplitzEngine(runs) if is_even else DenseEngine(runs)
