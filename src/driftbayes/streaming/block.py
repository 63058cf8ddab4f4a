"""What a worker does with a block; it imports neither JAX nor any model."""

__all__ = ["Prepare", "read_prepared", "tally_block"]

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from driftbayes import quality
from driftbayes.data.trajectories import Trajectories
from driftbayes.errors import DriftbayesError, NothingLeftError
from driftbayes.io.blocks import Block, read_block
from driftbayes.streaming.tally import Tally, TallySpec, tally_of

Prepare: TypeAlias = Callable[[Trajectories], Trajectories]


def tally_block(
    block: Block,
    *,
    prepare: Prepare | None,
    spec: TallySpec,
    checks: tuple[quality.AbstractCheck, ...] = (),
) -> Tally:
    """Read a block and sum what a scan needs of it."""
    done: list[dict[str, Any]] = []
    try:
        trajectories = read_prepared(block, prepare)
        if checks:
            # The file itself may tell of earlier ones.
            n_before = len(trajectories.provenance.get("quality", []))
            trajectories = quality.apply(trajectories, checks)
            done = trajectories.provenance["quality"][n_before:]
    except NothingLeftError as error:
        return Tally.empty(spec, error.quality)
    return replace(tally_of(trajectories, spec), quality=done)


def read_prepared(block: Block, prepare: Prepare | None) -> Trajectories:
    """Read a block, and do with its trajectories what is to be done with all."""
    found = read_block(block)
    plane = found.provenance.get("plane")
    if (
        block.options.frame == "auto"
        and isinstance(plane, Mapping)
        and plane.get("frame") == "transported"
    ):
        msg = (
            "some fixes lie beyond 80 degrees of latitude, and a file that is read in blocks needs "
            "one frame for all: pass --frame transported, or --frame local"
        )
        raise DriftbayesError(msg)
    return found if prepare is None else prepare(found)
