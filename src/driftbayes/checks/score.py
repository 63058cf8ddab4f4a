"""The score of a data set: where a fit to it would end, to first order."""

__all__ = ["Score"]

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbayes.checks.innovations import Layout
from driftbayes.inference import Hypothesis
from driftbayes.inference.formulas import Rows, finish, points_at, unconstrained
from driftbayes.likelihood.engines import Engine
from driftbayes.likelihood.sums import Formulas
from driftbayes.models._engine import make_engine
from driftbayes.typing import FloatArray

# Distance of the points of the differences in unconstrained parameters, mostly logarithms. Their
# error is about 1e-13 of the third derivative and, from rounding, 1e-12 of ln p.
_STEP = 1e-3
# Central differences of fourth order.
_OFFSETS = np.array([-2.0, -1.0, 1.0, 2.0])
_WEIGHTS = np.array([1.0, -8.0, 8.0, -1.0]) / 12


class Score:
    """Derivatives of ln p(D | θ) at the posterior mode, in unconstrained parameters.

    A mean flow is integrated out of the density; its least-squares estimate stands for it.

    Args:
        hypothesis: Model family and prior.
        mode: Parameters at which to differentiate.
        layout: Shape of the data sets.
    """

    def __init__(self, hypothesis: Hypothesis, mode: FloatArray, layout: Layout) -> None:
        self._hypothesis, self._layout = hypothesis, layout
        centre = unconstrained(hypothesis, mode[None])
        moves = _STEP * np.kron(np.eye(len(mode)), _OFFSETS[:, None])
        self._theta = points_at(hypothesis, centre + moves)[0]
        self._formulas = _Remembered(Rows(hypothesis, self._theta))
        self._has_flow = "flow" in hypothesis.model.parameters

    @property
    def names(self) -> tuple[str, ...]:
        """What each number belongs to."""
        names, n_dim = self._hypothesis.names, self._layout.n_dim
        if not self._has_flow:
            return names
        flow = [f"flow_{i + 1}" for i in range(n_dim)]
        if self._hypothesis.model.needs_positions:
            flow += [f"gradient_{i + 1}_{j + 1}" for j in range(n_dim) for i in range(n_dim)]
        return (*names, *flow)

    def __call__(self, dx: FloatArray) -> FloatArray:
        """Scores (set, parameter) of many data sets, given their steps (set, run, step, dim)."""
        return np.stack([self._of_one(steps[self._layout.valid]) for steps in dx])

    def _of_one(self, steps: FloatArray) -> FloatArray:
        model = self._hypothesis.model
        data = replace(self._layout.data, dx=steps)
        slope = self._slope(make_engine(data, model.needs(), is_turning=model.is_turning))
        if not self._has_flow:
            return slope
        interval = data.interval
        if not model.needs_positions:
            return np.concatenate([slope, steps.sum(axis=0) / interval.sum()])
        regressors = np.column_stack([np.ones(len(steps)), data.origin - data.centre])
        found, *_ = np.linalg.lstsq(regressors * interval[:, None], steps)
        return np.concatenate([slope, found.ravel()])

    def _slope(self, engine: Engine) -> FloatArray:
        with np.errstate(all="ignore"):
            sums = engine.sums(self._formulas)
            fits, *_ = finish(
                self._hypothesis, self._theta, sums, engine.n_dim, engine.tau, engine.context
            )
            return fits.reshape(-1, len(_WEIGHTS)) @ _WEIGHTS / _STEP


class _Remembered:
    """Formulas that many data sets of the same times ask for: computed once."""

    def __init__(self, formulas: Formulas) -> None:
        self._formulas = formulas
        self._known: dict[Any, Any] = {}

    @property
    def n_rows(self) -> int:
        return self._formulas.n_rows

    def n_state(self) -> int:
        return self._formulas.n_state()

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def lanes(self, intervals: FloatArray) -> NDArray[Any]:
        key = ("lanes", intervals.tobytes())
        return np.asarray(self._once(key, lambda: self._formulas.lanes(intervals)))

    def starts(self) -> tuple[NDArray[Any], FloatArray, FloatArray]:
        start, extra, weight = self._once("starts", self._formulas.starts)
        return start, extra, weight

    def autocovariances(self, tau: float, n_lags: int) -> NDArray[Any]:
        key = ("autocovariances", tau, n_lags)
        # A copy: engines add errors to it.
        return np.array(self._once(key, lambda: self._formulas.autocovariances(tau, n_lags)))

    def mean_square_displacements(self, lags: FloatArray) -> FloatArray:
        return self._formulas.mean_square_displacements(lags)

    def part(self, rows: slice) -> Formulas:
        """The same for some of the rows."""
        key = ("part", rows.start, rows.stop)
        part: _Remembered = self._once(key, lambda: _Remembered(self._formulas.part(rows)))
        return part
