"""What a worker does with a block; it imports neither JAX nor any model."""

__all__ = ["Prepare", "read_prepared", "tally_block"]

from collections.abc import Callable, Mapping
from typing import TypeAlias

from driftbayes.errors import DriftbayesError
from driftbayes.io.blocks import Block, read_block
from driftbayes.streaming.tally import Tally, TallySpec, tally_of
from driftbayes.trajectories import Trajectories

Prepare: TypeAlias = Callable[[Trajectories], Trajectories]


def tally_block(block: Block, *, prepare: Prepare | None, spec: TallySpec) -> Tally:
    """Read a block and sum what a scan needs of it.

    Args:
        block: Some trajectories of a file.
        prepare: What to do with them before they are summed.
        spec: What to sum.
    """
    return tally_of(read_prepared(block, prepare), spec)


def read_prepared(block: Block, prepare: Prepare | None) -> Trajectories:
    """Read a block, and do with its trajectories what is to be done with all.

    Args:
        block: Some trajectories of a file.
        prepare: What to do with them.
    """
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
