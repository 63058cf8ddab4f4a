"""Sufficient sums over groups of steps."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from driftbayes._typing import IntArray
from driftbayes.data._sampling import Displacements, ragged_arange
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Hypothesis
from driftbayes.likelihood import MEMORY
from driftbayes.space._batched import StepSums, is_fast
from driftbayes.space._filtered import FilteredSteps
from driftbayes.space._moments import StepMoments, step_moments

# The prediction filter of integrated Langevin velocities decays at least as fast as
# (2 - sqrt 3)^lag: a step before the 9 kept has a weight below 2e-6.
_WINDOW = 10
# Longest run for models with a longer memory.
_MAX_WINDOW = 32
# Models with memory that are filtered at irregular times.
_FILTERED = ("langevin", "langevin+mean")


def leaf_window(hypothesis: Hypothesis, longest: int, *, is_regular: bool = True) -> int:
    """Return the number of steps, the last included, on which the likelihood of a step depends.

    Args:
        hypothesis: Model family and prior.
        longest: Number of steps of the longest run.
        is_regular: Whether all steps have the same duration.

    Raises:
        DriftbayesError: Sums over steps do not determine the likelihood of the model.
    """
    model = hypothesis.model
    if model.kind not in ("summed", "channels") or model.needs_positions or model.is_turning:
        raise DriftbayesError(
            f"a map by evidence cannot take {model.name}, which needs more than sums over the "
            "steps of a cell; omit it, or give --cell for a fixed grid"
        )
    has_memory = model.memory is None or model.core.name != "brownian"
    if not is_regular and has_memory:
        _check_filtered(hypothesis)
        return 1
    if model.memory is None:
        if longest > _MAX_WINDOW:
            raise DriftbayesError(
                f"{model.name} needs all steps of a run, up to {longest} here, and a map by "
                f"evidence keeps {_MAX_WINDOW}; cut the runs with --n-tau {_MAX_WINDOW} or less"
            )
        return longest
    if not has_memory:
        return 1
    return min(longest, _WINDOW if model.memory == MEMORY else model.memory)


def _check_filtered(hypothesis: Hypothesis) -> None:
    """Check that a model with memory is supported at irregular times."""
    name = hypothesis.name
    if name not in _FILTERED:
        raise DriftbayesError(
            f"a map of irregular times cannot take {name}; use brownian, langevin or these with "
            "+mean, or brownian with +anisotropic, or give a --tau at which times are regular"
        )
    if not is_fast(hypothesis):
        raise DriftbayesError(
            f"a map of irregular times supports {name} with an exponential or gamma prior of k and "
            "a fixed flow; omit --prior, or give a --tau at which times are regular"
        )


@dataclass(frozen=True, eq=False)
class GroupedSteps:
    """Steps, each in one group.

    Args:
        data: Steps of all runs, at exact positions.
        labels: Group of each step, 0, 1, ... without gaps.
        windows: `leaf_window` of every model.
        apart: Whether sums are kept for each pair of axes.
    """

    data: Displacements
    labels: IntArray
    windows: Mapping[str, int]
    apart: bool

    @cached_property
    def _earlier(self) -> IntArray:
        """Number of earlier steps in the run of each step."""
        return ragged_arange(self.data.row_sizes)

    @cached_property
    def _moments(self) -> StepMoments:
        """Sums for the longest window."""
        data, window = self.data, max(self.windows.values())
        return step_moments(
            *(data.dx, self._earlier, self.labels, window, data.tau),
            apart=self.apart,
            interval=None if data.is_regular else data.interval,
        )

    def sums(
        self, hypothesis: Hypothesis, begin: IntArray | None = None, end: IntArray | None = None
    ) -> StepSums:
        """Return the sums for a model, of each group or of sets of neighbouring groups.

        Args:
            hypothesis: Model family and prior.
            begin: First group of each set.
            end: One after the last group of each set.
        """
        if begin is None or end is None:
            begin = np.arange(int(self.labels.max()) + 1)
            end = begin + 1
        if not self.data.is_regular and hypothesis.name in _FILTERED:
            data = self.data
            return FilteredSteps(data.dx, data.interval, self._earlier, self.labels, begin, end)
        return self._moments.shortened(self.windows[hypothesis.name]).merged(begin, end)
