"""Replicas: data sets of the same shape as the observed one, drawn from a fitted model."""

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from driftbayes._magnitudes import whole
from driftbayes._typing import FloatArray, IntArray
from driftbayes.checks._innovations import (
    Layout,
    carried,
    class_log_weights,
    colour,
    replica_engine,
    tensor_root,
)
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Batch, Hypothesis, PosteriorDraws
from driftbayes.inference._formulas import Rows, evaluate_with_sums
from driftbayes.models import AbstractModel

# Fields of models of each kind that can be replicated.
_KNOWN = {
    "channels": ("flow", "h"),
    "trajectories": ("others", "scatter"),
    "steps": ("tail", "fraction"),
    "summed": ("parameters",),
}


def check_replicable(model: AbstractModel, layout: Layout) -> None:
    """Refuse a model that cannot be replicated."""
    fields = {*model.__dataclass_fields__, "parameters"}
    if not model.is_turning and not any(name in fields for name in _KNOWN.get(model.kind, ())):
        raise DriftbayesError(f"{model.name} cannot be replicated; omit it from the check")
    replica_engine(model, layout.data)


class Replicator:
    """Replicas of a data set with the same runs, intervals and errors, one per posterior draw.

    Replica r depends only on the seed, the name of the model and r, so that more replicas do not
    change the first ones.

    Args:
        draws: Draws from the posterior.
        layout: Shape of the data.
        seed: Random seed.
    """

    def __init__(self, draws: PosteriorDraws, layout: Layout, seed: int) -> None:
        self._draws, self._layout = draws, layout
        self.seed, self.n_replicas = whole(seed, "seed"), len(draws)
        self._word = zlib.crc32(draws.hypothesis.name.encode()) << 32
        self._engine = replica_engine(draws.hypothesis.model, layout.data)
        self._flows = None
        if (flows := mean_flows(draws.hypothesis, draws.theta, layout)) is not None:
            # Symmetric roots, which rounding does not rotate if variances are equal.
            values, vectors = np.linalg.eigh(flows[1])
            sizes = np.sqrt(np.maximum(values, 0.0))[:, None]
            self._flows = flows[0], (vectors * sizes) @ np.swapaxes(vectors, 1, 2)
        self._senses = _anticlockwise(draws.hypothesis, draws.theta, layout)

    def __call__(self, numbers: Sequence[int] | IntArray) -> FloatArray:
        """Draw steps (replica, run, step, dim) of replicas, zero where a run has ended."""
        layout, hypothesis = self._layout, self._draws.hypothesis
        theta = self._draws.theta[numbers]
        rngs = [self._rng(int(number)) for number in numbers]
        shape = (layout.n_runs, layout.n_steps)
        kicks = np.stack([rng.standard_normal((*shape, layout.n_dim)) for rng in rngs])
        if (tails := _values(hypothesis, theta, "tail")) is not None:
            for kick, rng, tail in zip(kicks, rngs, tails, strict=True):
                kick *= np.sqrt((1 / tail - 2) / rng.chisquare(1 / tail, (*shape, 1)))
        if (scatters := _values(hypothesis, theta, "scatter")) is not None:
            for kick, rng, scatter in zip(kicks, rngs, scatters, strict=True):
                precision = rng.gamma(scatter**-2, scatter**2, layout.n_particles)
                kick /= np.sqrt(precision)[layout.owner, None, None]
        steps = self._coloured(theta, kicks[:, layout.valid], rngs)
        root = tensor_root(hypothesis, theta, layout.n_dim, inverse=False)
        dx = layout.pad(steps if root is None else steps @ root)
        if self._senses is not None:
            for i, (number, rng) in enumerate(zip(numbers, rngs, strict=True)):
                if rng.random() > self._senses[number]:
                    dx[i, ..., 1] *= -1
        if self._flows is not None:
            for i, (number, rng) in enumerate(zip(numbers, rngs, strict=True)):
                mean, root = (part[number] for part in self._flows)
                dx[i] = carried(layout, dx[i], mean + root @ rng.standard_normal(len(mean)))
            dx *= layout.valid[..., None]
        fractions, spreads = (_values(hypothesis, theta, name) for name in ("fraction", "spread"))
        if fractions is not None and spreads is not None:
            for replica, rng, fraction, spread in zip(dx, rngs, fractions, spreads, strict=True):
                fixes = (layout.n_runs, layout.n_steps + 1)
                error = spread * rng.standard_normal((*fixes, layout.n_dim))
                error *= rng.random((*fixes, 1)) < fraction
                replica += np.diff(error, axis=1)
            dx *= layout.valid[..., None]
        return dx

    def _coloured(
        self, theta: FloatArray, kicks: FloatArray, rngs: Sequence[np.random.Generator]
    ) -> FloatArray:
        """Compute steps (replica, step, dim) from innovations; a mixture draws a class."""
        layout, hypothesis = self._layout, self._draws.hypothesis
        n_classes = Rows(hypothesis, theta).n_components
        places = n_classes * np.arange(len(theta))
        many = [
            colour(self._engine, Rows(hypothesis, theta, places + c), kicks)
            for c in range(n_classes)
        ]
        if n_classes == 1:
            return many[0]
        edges = np.cumsum(np.exp(class_log_weights(hypothesis, theta)), axis=1)[:, :-1]
        found = np.empty_like(many[0])
        for i, rng in enumerate(rngs):
            which = np.searchsorted(edges[i], rng.random(layout.n_particles))[layout.owner]
            which = np.repeat(which, layout.data.row_sizes)
            for c, steps in enumerate(many):
                found[i, which == c] = steps[i, which == c]
        return found

    def _rng(self, number: int) -> np.random.Generator:
        key = np.array([self.seed, self._word + number], dtype=np.uint64)
        return np.random.Generator(np.random.Philox(key=key))


def _values(hypothesis: Hypothesis, theta: FloatArray, name: str) -> FloatArray | None:
    """Return a parameter of the model at each θ, inferred or fixed; None if it has none."""
    if name not in hypothesis.model.parameters:
        return None
    if name in hypothesis.names:
        return theta[:, hypothesis.names.index(name)]
    fixed: Any = hypothesis.priors[name]
    return np.full(len(theta), float(fixed.value))


def mean_flows(
    hypothesis: Hypothesis, theta: FloatArray, layout: Layout
) -> tuple[FloatArray, FloatArray] | None:
    """Compute posterior means and covariances of the mean flow at each θ; None if there is none.

    A flow that is linear in space has several coefficients. Flows drawn from the prior would be
    unlike the observed one.
    """
    if "flow" not in hypothesis.model.parameters:
        return None
    engine = Batch.of(layout.data, model=hypothesis.model).engine(0, hypothesis.model)
    mean, covariance = evaluate_with_sums(hypothesis, theta, engine, _flow)
    return mean, covariance


def _flow(model: Any, seen: Any) -> tuple[Any, ...]:
    mean, covariance = model.mean_flow(seen)
    return mean, covariance


def _anticlockwise(hypothesis: Hypothesis, theta: FloatArray, layout: Layout) -> FloatArray | None:
    """Compute the probability of anticlockwise rotation at each θ; None without rotation."""
    if not hypothesis.model.is_turning:
        return None
    engine = Batch.of(layout.data, model=hypothesis.model).engine(0, hypothesis.model)
    return evaluate_with_sums(hypothesis, theta, engine, _sense)[0]


def _sense(model: Any, seen: Any) -> tuple[Any, ...]:
    return (model.derived(seen)["anticlockwise"],)
