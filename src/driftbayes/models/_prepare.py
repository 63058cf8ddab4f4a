"""What an engine needs to know of the data, computed once: the way from displacements to it."""

__all__ = [
    "Data",
    "EngineName",
    "Kind",
    "Needs",
    "Preparation",
    "check_summable",
    "engine_from",
    "make_engine",
    "preparation",
    "prepare",
]

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np

from driftbayes.data.sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.likelihood import (
    MEMORY,
    ChannelMoments,
    ChannelSteps,
    Collected,
    PaddedSteps,
    ReducedDisplacements,
    SecondMoments,
    SummedDisplacements,
    TrajectoryPieces,
    channel_moments,
    channel_steps,
    second_moments,
    trajectory_pieces,
)
from driftbayes.likelihood.engines import (
    DenseEngine,
    Engine,
    FilterEngine,
    MomentsEngine,
    ToeplitzEngine,
)
from driftbayes.likelihood.runs import Context, Runs, distinct_intervals, make_runs
from driftbayes.precision import in_double_precision

if TYPE_CHECKING:
    from driftbayes.data.tangent import Ground


EngineName = Literal["auto", "moments", "kalman", "dense"]
# How far displacements may be summed before a model sees them: over trajectories and axes, over
# trajectories only, over axes only, or not at all; or all particles must be seen at once.
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
Data: TypeAlias = (
    SecondMoments
    | PaddedSteps
    | Displacements
    | ChannelMoments
    | ChannelSteps
    | TrajectoryPieces
    | Collected
)
# Where the last MEMORY steps do not tell all, so many are kept; then the state-space engine.
LONG_MEMORY = 256
# How far from their centre data may extend, in earth radii, to have common axes, and to have a flow
# that is linear on the tangent plane there.
_MAX_COMMON, _MAX_PLANE = 1.0, 0.5
# By what angle, in radians, axes may differ: those carried along paths from the centre's, and east
# and north from east and north there.
_MAX_MISALIGNED, _MAX_TURN = 0.2, 0.5
# The same limits for eddies, which have a direction from one particle to another: distances on the
# plane are then right to 0.7 %, directions to 6 degrees.
_MAX_EDDY_PLANE, _MAX_EDDY_TURN = 0.2, 0.1


class Needs(NamedTuple):
    """What a class of models needs of the data; by default, what Brownian and Langevin do.

    Args:
        model: Name of the model.
        kind: How far the data may be summed.
        has_state_space: Whether the state-space engine can take the model.
        memory: From how many steps the next is predicted in a long run; None for many.
        exact_positions: Whether positions must be free of errors.
        positions: Whether the model must know where steps begin.
        axes: Whether all particles must be seen along the same axes.
        plane: Whether the positions at which steps begin must be on one plane.
        moves_by_generator: Whether the model moves on over any interval, however short.
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
    """One way to prepare data: models that share it share the work.

    Args:
        kind: How far to sum.
        engine: For which engine.
        memory: Longest window of the statistics engine.
        positions: Whether with the positions at which steps begin.
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
    """How `prepare` would prepare the data for a model.

    Args:
        data: Displacements at one tau.
        needs: What the model needs of them.
        engine: "moments" for regular exact data, "kalman" for gaps, irregular times or measurement
            error, "dense" for the slow reference; "auto" takes the first that applies.
    """
    kind = needs.kind
    if isinstance(data, ReducedDisplacements):
        if engine not in ("auto", "moments"):
            raise DriftbayesError(
                f"of reduced displacements only the second moments are left, not for {engine!r}; "
                "use engine='auto'"
            )
        if kind != "summed":
            raise DriftbayesError(
                f"{needs.model} needs displacements themselves, got their second moments summed "
                "over particles and axes; give it displacements"
            )
        return Preparation(kind, "moments", data.n_steps)
    if isinstance(data, SummedDisplacements):
        return _of_summed(data, needs, engine)
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
    # Noise or long memory: what the steps before the window would add is not negligible.
    memory = LONG_MEMORY if needs.memory is None else needs.memory
    if kind in ("steps", "jumps", "together", "flow", "sde") or (
        engine == "auto" and not data.is_regular
    ):
        engine = "kalman"
    elif engine in ("auto", "moments"):
        too_long = longest > memory > MEMORY and needs.has_state_space
        if too_long and engine == "moments":
            raise DriftbayesError(
                f"the statistics engine keeps {memory} steps, and {needs.model} needs all of the "
                f"{longest} of a run; use engine='auto', or cut runs with n_tau"
            )
        engine = "kalman" if too_long else "moments"
    return Preparation(kind, engine, min(longest, memory), needs.positions)


def _check_ground(data: Displacements, ground: "Ground", needs: Needs) -> None:
    """Refuse a region of the earth on which a flow or a tensor would mean nothing."""
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
    # Axes come from where the tangent plane is, which may be far from some part of the data.
    reach = float(np.hypot(*data.origin.T).max()) / ground.earth_radius
    if ground.frame == "transported" and (reach > _MAX_COMMON or turn > _MAX_MISALIGNED):
        raise DriftbayesError(
            f"{needs.model} needs axes that all trajectories share, and axes carried along these "
            f"paths, which reach {reach:.2g} earth radii from their centre, are up to {apart} "
            "apart; use east and north (--frame local), or a smaller region"
        )


def check_summable(needs: Needs) -> int:
    """The longest window to sum moments with for a model; refuse one that needs more than these.

    Args:
        needs: What the model needs.
    """
    if needs.kind not in ("summed", "channels"):
        judged = {
            "trajectories": "each trajectory by itself",
            "steps": "each step by itself",
            "jumps": "each step by itself",
            "sde": "each trajectory by itself",
        }
        raise DriftbayesError(
            f"{needs.model} judges {judged.get(needs.kind, 'all particles together')}, and cannot "
            "take data of which only sums are kept; give it a part of the data that fits in "
            "memory, or choose another option"
        )
    if needs.positions:
        raise DriftbayesError(
            f"{needs.model} must know where steps begin, and cannot take data of which only sums "
            "are kept; give it a part of the data that fits in memory, or choose another option"
        )
    return LONG_MEMORY if needs.memory is None else needs.memory


def _of_summed(data: SummedDisplacements, needs: Needs, engine: EngineName) -> Preparation:
    if engine not in ("auto", "moments"):
        raise DriftbayesError(
            f"of summed displacements only the second moments are left, not for {engine!r}; "
            "use engine='auto'"
        )
    memory = check_summable(needs)
    if engine == "auto" and data.n_steps > memory > MEMORY and needs.has_state_space:
        raise DriftbayesError(
            f"{needs.model} needs the steps themselves in runs of more than {memory}, and these "
            f"have up to {data.n_steps}; pass --n-tau {memory} or less (in Python: n_tau), or give "
            "it a part of the data that fits in memory"
        )
    return Preparation(needs.kind, "moments", memory)


def check_double(leaves: Iterable[Any]) -> None:
    """Refuse parameters in single precision: evidence needs double."""
    if any(getattr(leaf, "dtype", None) == jnp.float32 for leaf in leaves):
        raise DriftbayesError(
            "evidence needs double precision, and these parameters are in single: give numbers of "
            "Python or NumPy, or first call jax.config.update('jax_enable_x64', True)"
        )


def only_estimated(model: str) -> str:
    """Say what can be done with a stochastic differential equation."""
    return (
        f"{model} is an SDE, whose likelihood is only estimated: compare, scan and simulate take "
        "it, and nothing else does; leave it out here"
    )


def judged_together(model: str) -> str:
    """Say what to do with a model that no compiled program takes."""
    return (
        f"{model} judges all particles together; compute its evidence with the method 'auto', "
        "'exact', 'laplace' or 'importance'"
    )


@in_double_precision
def prepare(
    data: Displacements | ReducedDisplacements | SummedDisplacements,
    needs: Needs = PLAIN,
    *,
    engine: EngineName = "auto",
) -> Data:
    """What the chosen engine needs to know of the data; the arguments are `preparation`'s."""
    kind, chosen, memory, positions = preparation(data, needs, engine)
    if kind in ("together", "flow"):
        raise DriftbayesError(judged_together(needs.model))
    if kind == "sde":
        raise DriftbayesError(only_estimated(needs.model))
    if kind == "jumps" and isinstance(data, Displacements):
        from driftbayes.likelihood.jumps import check_jumps

        check_jumps(data, needs.model)
    if isinstance(data, ReducedDisplacements):
        return data.second_moments()
    if isinstance(data, SummedDisplacements):
        return data.moments(kind, memory)
    if chosen == "dense":
        return data
    by_moments = chosen == "moments"
    if kind == "channels":
        if by_moments:
            return channel_moments(data, memory, positions=positions)
        return channel_steps(data, positions=positions)
    if kind == "trajectories":
        return trajectory_pieces(data, memory=memory if by_moments else None)
    return second_moments(data, memory) if by_moments else PaddedSteps.from_displacements(data)


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
    if way.kind == "sde":
        raise DriftbayesError(only_estimated(needs.model))
    if way.kind == "jumps":
        from driftbayes.likelihood.jumps import JumpEngine, check_jumps

        check_jumps(data, needs.model)
        return JumpEngine(data)
    if way.kind == "flow":
        from driftbayes.likelihood.flow import flow_engine

        return flow_engine(data, needs.model)
    if way.kind == "together":
        from driftbayes.likelihood.together import common_engine

        alone = needs._replace(kind="summed", axes=False)
        return common_engine(
            data,
            needs.model,
            lambda some: _engine_of_all(some, alone),
            moves_by_generator=needs.moves_by_generator,
        )
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


def _engine_of_all(data: Displacements, needs: Needs) -> FilterEngine:
    """The engine of independent runs, with the axes apart."""
    return _engine_of(make_runs(data), has_state_space=needs.has_state_space)


def _engine_of(runs: Runs, *, has_state_space: bool, is_summed: bool = False) -> FilterEngine:
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
