"""Steps of all particles, ordered by time."""

from dataclasses import dataclass

import numpy as np

from driftbayes._typing import FloatArray, IntArray
from driftbayes.data._sampling import Displacements, ragged_arange, steps_by_time
from driftbayes.data._trajectories import GRID_TOLERANCE
from driftbayes.errors import DriftbayesError


@dataclass(frozen=True, eq=False)
class SimultaneousSteps:
    """Steps of all particles at one sampling time.

    Args:
        time: Index of the sampling time at which the steps begin.
        runs: Run of each particle, continuing particles first.
        kept: Indices, in the previous step, of the particles that continue.
        x: Start positions of the steps.
        dx: Steps.
    """

    time: int
    runs: IntArray
    kept: IntArray
    x: FloatArray
    dx: FloatArray

    def only(self, run: int) -> "SimultaneousSteps":
        """Return the step of one run only."""
        index = np.flatnonzero(self.runs == run)
        is_kept = len(index) > 0 and index[0] < len(self.kept)
        kept = np.zeros(int(is_kept), dtype=np.int64)
        return SimultaneousSteps(self.time, self.runs[index], kept, self.x[index], self.dx[index])


def simultaneous_steps(data: Displacements) -> tuple[SimultaneousSteps, ...]:
    """Order the steps of all particles by time.

    Args:
        data: Displacements at one tau, with start times and positions.

    Raises:
        DriftbayesError: Particles are not observed at common regular times.
    """
    assert data.start_time is not None
    sizes, tau = data.row_sizes, data.tau
    start_index = (np.asarray(data.start_time) - np.min(data.start_time)) / tau
    first = np.round(start_index).astype(np.int64)
    if np.any(np.abs(start_index - first) > GRID_TOLERANCE):
        raise DriftbayesError(
            "prediction given others needs particles observed at common regular times; choose "
            "a tau that all share"
        )
    index = np.repeat(first, sizes) + ragged_arange(sizes)
    run = np.repeat(np.arange(len(sizes)), sizes)
    return tuple(
        SimultaneousSteps(time, run[rows], kept, data.origin[rows], data.dx[rows])
        for time, rows, kept in steps_by_time(index, run)
    )
