"""Hypothesis strategies for models and data.

Each new shape is compiled again, so there are few: three runs of up to six steps in two dimensions.
`models(YourModel)` draws your own model from its table of parameters: each is positive and below
its upper bound, if the table has one.
"""

__all__ = ["brownian", "irregular", "langevin", "models", "noisy", "ragged", "regular", "scales"]

from typing import TypeVar

import numpy as np
from hypothesis import strategies as st

from driftbayes.data._sampling import Displacements
from driftbayes.models import AbstractModel, Brownian, Langevin
from driftbayes.testing import reference

Model = TypeVar("Model", bound=AbstractModel)

N_RUNS, N_STEPS, N_DIM = 3, 6, 2
RAGGED = (6, 1, 4)
# Much smoother paths are so predictable that covariances lose all digits.
MODERATE = {"smoothness": (0.2, 2.0)}


def scales(low: float = 1e-3, high: float = 1e3) -> st.SearchStrategy[float]:
    """Draw positive numbers, evenly distributed over decades."""
    return st.floats(np.log10(low), np.log10(high)).map(lambda exponent: float(10**exponent))


def models(family: type[Model], low: float = 0.03, high: float = 30.0) -> st.SearchStrategy[Model]:
    """Draw models of a family with all parameters between `low` and `high`.

    Bounded parameters are between 5% and 95% of their bound, and those of `MODERATE` in its range.
    """
    values = {
        name: (
            st.floats(0.05 * parameter.upper, 0.95 * parameter.upper)
            if np.isfinite(parameter.upper)
            else scales(*MODERATE.get(name, (low, high)))
        )
        for name, parameter in family.parameters.items()
    }
    return st.builds(family, **values)


def brownian() -> st.SearchStrategy[Brownian]:
    """Draw Brownian models."""
    return models(Brownian)


def langevin() -> st.SearchStrategy[Langevin]:
    """Draw Langevin models, from ballistic to diffusive for a sampling time near one."""
    return models(Langevin)


@st.composite
def regular(draw: st.DrawFn) -> Displacements:
    """Draw equal runs of equal steps."""
    tau = draw(scales(0.1, 10.0))
    return Displacements.from_array(_steps(draw, tau), tau)


@st.composite
def ragged(draw: st.DrawFn) -> Displacements:
    """Draw equal steps in runs of different lengths."""
    tau = draw(scales(0.1, 10.0))
    return _ragged(_steps(draw, tau), np.full(sum(RAGGED), tau))


@st.composite
def irregular(draw: st.DrawFn) -> Displacements:
    """Draw unequal steps in runs of different lengths."""
    interval = draw(st.lists(scales(0.1, 10.0), min_size=sum(RAGGED), max_size=sum(RAGGED)))
    return _ragged(_steps(draw, 1.0), np.asarray(interval))


@st.composite
def noisy(draw: st.DrawFn) -> Displacements:
    """Draw unequal steps between positions with different errors, which may be zero."""
    data = draw(irregular())
    n_positions = sum(RAGGED) + len(RAGGED)
    error = st.just(0.0) | scales(0.01, 10.0)
    sd = draw(st.lists(error, min_size=n_positions, max_size=n_positions).filter(any))
    return _ragged(data.dx, data.interval, np.asarray(sd))


def _steps(draw: st.DrawFn, tau: float) -> reference.Array:
    """Draw steps of a Langevin process: white or smooth, small or large."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    gamma, k = draw(scales(0.03, 30.0)), draw(scales(0.03, 30.0))
    return reference.simulate_langevin(rng, N_RUNS, N_STEPS, N_DIM, tau, gamma, k)


def _ragged(
    steps: reference.Array, interval: reference.Array, position_sd: reference.Array | None = None
) -> Displacements:
    """Keep the first steps of each run, as given by `RAGGED`."""
    if steps.ndim == 3:
        steps = np.concatenate([run[:n] for run, n in zip(steps, RAGGED, strict=True)])
    return Displacements(
        dx=steps,
        interval=interval,
        row_sizes=np.asarray(RAGGED),
        trajectory=np.arange(len(RAGGED)),
        tau=float(interval.mean()),
        position_sd=position_sd,
    )
