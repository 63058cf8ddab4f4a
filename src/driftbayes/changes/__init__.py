"""Changes in time: where each track changes its diffusivity, velocity or memory."""

from driftbayes.changes import describe as _describe  # noqa: F401  (registers descriptions)
from driftbayes.changes import frames as _frames  # noqa: F401  (registers tables and datasets)
from driftbayes.changes.analysis import Segments, find_segments
from driftbayes.changes.posterior import TrackSegments
from driftbayes.changes.tables import MODELS_THAT_CHANGE

__all__ = ["MODELS_THAT_CHANGE", "Segments", "TrackSegments", "find_segments"]
