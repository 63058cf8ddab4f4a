"""Changes in time: where each track changes its diffusivity, velocity or memory."""

from driftbayes.changes._analysis import Segments, find_segments
from driftbayes.changes._posterior import TrackSegments
from driftbayes.changes._tables import MODELS_THAT_CHANGE

__all__ = ["MODELS_THAT_CHANGE", "Segments", "TrackSegments", "find_segments"]
