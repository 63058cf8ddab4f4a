"""Many inferences as one computation: several data sets, or several priors."""

__all__ = ["Batch", "run_batch"]

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import equinox as eqx
import jax
import numpy as np

from driftbayes.errors import DriftbayesError
from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.likelihood import (
    ChannelMoments,
    ChannelSteps,
    PaddedSteps,
    ReducedDisplacements,
    SecondMoments,
    SummedDisplacements,
    TrajectoryPieces,
)
from driftbayes.likelihood.moments import stack_moments
from driftbayes.models import AbstractModel, Data, Needs, Preparation, preparation, prepare
from driftbayes.sampling import Displacements

Result = TypeVar("Result")

# Data sets in one chunk take as many passes as the hardest of them, and share the cache.
_CHUNK = 13


@dataclass(frozen=True)
class Batch:
    """What the engines made of one data set, or of several of the same kind.

    Args:
        data: The engine's data; with a leading axis if `is_stacked`.
        taus: Sampling time of each data set.
        fingerprints: Fingerprint of each data set.
        is_stacked: Whether `data` has a leading axis over data sets.
    """

    data: Data
    taus: tuple[float, ...]
    fingerprints: tuple[str, ...]
    is_stacked: bool = False

    @classmethod
    def of(
        cls,
        data: Displacements | ReducedDisplacements | SummedDisplacements,
        engine: Any = "auto",
        model: type[AbstractModel] | None = None,
    ) -> "Batch":
        """One data set, prepared for a model; a second one that needs the same finds it so."""
        needs = Needs() if model is None else model.needs()
        key = preparation(data, needs, engine)
        found = _PREPARED.setdefault(data, {})
        if key not in found:
            made = prepare(data, needs, engine=engine)
            found[key] = cls(made, (data.tau,), (data.fingerprint,))
        return found[key]

    @classmethod
    def stack(cls, many: Sequence["Batch"]) -> "Batch":
        """Several data sets, all regular, as one."""
        moments = []
        for batch in many:
            if not isinstance(batch.data, SecondMoments | ChannelMoments) or batch.is_stacked:
                msg = "only data sets prepared for the statistics engine can be stacked"
                raise DriftbayesError(msg)
            moments.append(batch.data)
        return cls(
            stack_moments(moments),
            tuple(batch.taus[0] for batch in many),
            tuple(batch.fingerprints[0] for batch in many),
            is_stacked=True,
        )

    def __len__(self) -> int:
        return len(self.taus)

    def __getitem__(self, index: int) -> "Batch":
        if not self.is_stacked:
            return self
        data = jax.tree.map(lambda leaf: leaf[index], self.data)
        return Batch(data, (self.taus[index],), (self.fingerprints[index],))

    @property
    def shortest_step(self) -> float:
        """Duration of the shortest step."""
        data = self.data
        if isinstance(data, TrajectoryPieces):
            data = data.pieces
        if isinstance(data, ChannelSteps):
            data = data.steps
        if isinstance(data, PaddedSteps):
            return float(np.min(np.where(data.valid > 0, data.interval, np.inf)))
        return min(self.taus)

    def tau(self, index: int) -> float:
        """Sampling time of a data set."""
        return self.taus[index if self.is_stacked else 0]

    def fingerprint(self, index: int) -> str:
        """Fingerprint of a data set."""
        return self.fingerprints[index if self.is_stacked else 0]


# Forgotten with the displacements they were made from.
_PREPARED: WeakKeyDictionary[
    Displacements | ReducedDisplacements | SummedDisplacements, dict[Preparation, Batch]
] = WeakKeyDictionary()


def run_batch(
    function: Callable[..., Result], hypotheses: Sequence[Hypothesis], batch: Batch, *options: int
) -> Result:
    """Apply function(hypothesis, data, *options) to all data sets or all priors at once.

    The result has NumPy leaves with a leading axis over data sets or priors.

    Args:
        function: Pure function of JAX arrays; compiled once per shape.
        hypotheses: One hypothesis for all data sets, or several that differ in their
            priors' numbers for one data set.
        batch: The data.
        *options: Static options of the function.
    """
    if batch.is_stacked and len(hypotheses) > 1:
        msg = "give several data sets or several priors, not both"
        raise DriftbayesError(msg)
    if batch.is_stacked:
        return _in_chunks(function, hypotheses[0], batch, options)
    # Stacked in NumPy: each stack in JAX would be a program of its own to compile.
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *hypotheses)
    return jax.tree.map(np.asarray, _over_priors(function, stacked, batch.data, options))


def _in_chunks(
    function: Callable[..., Any], hypothesis: Hypothesis, batch: Batch, options: tuple[int, ...]
) -> Any:
    """Chunks of equal size, filled up with copies of the last data set, on all cores."""
    n, size = len(batch), min(len(batch), _CHUNK)
    rows = np.minimum(np.arange(size * -(-n // size)), n - 1).reshape(-1, size)

    def run(members: np.ndarray) -> Any:
        # A thread does not see double precision that was switched on by a `with` block.
        with jax.enable_x64(True):  # noqa: FBT003
            data = jax.tree.map(lambda leaf: leaf[members], batch.data)
            return jax.tree.map(np.asarray, _over_data(function, hypothesis, data, options))

    # The first alone, so that the program is compiled but once.
    results = [run(rows[0])]
    if len(rows) > 1:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            results += pool.map(run, rows[1:])
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:n], *results)


@eqx.filter_jit
def _over_data(
    function: Callable[..., Any], hypothesis: Hypothesis, data: Data, options: tuple[int, ...]
) -> Any:
    return jax.vmap(lambda one: function(hypothesis, one, *options))(data)


def _over_priors(
    function: Callable[..., Any], hypotheses: Hypothesis, data: Data, options: tuple[int, ...]
) -> Any:
    few = len(hypotheses.names) <= 2
    cheap = few and isinstance(data, SecondMoments)
    return _quickly_compiled(cheap=cheap)(function, hypotheses, data, options)


@cache
def _quickly_compiled(*, cheap: bool) -> Callable[..., Any]:
    """One after another over priors, compiled with less effort if the compiler takes the hint.

    For one data set most of the time goes into compiling. These switches halve that and cost
    some speed; a compiler that does not know them says so.

    Args:
        cheap: Whether running takes milliseconds, so that slow code compiled at once is best.
    """
    options: dict[str, bool | int] = {
        "xla_cpu_use_fusion_emitters": False,
        "xla_llvm_disable_expensive_passes": True,
    }
    if cheap:
        options["xla_backend_optimization_level"] = 0
    try:
        jax.jit(lambda x: x + 1, compiler_options=options).lower(1.0).compile()
    except Exception:
        return eqx.filter_jit(_map_priors)
    # The options are passed on to jax.jit, which equinox's annotations do not tell.
    return eqx.filter_jit(_map_priors, compiler_options=options)  # type: ignore[call-overload]


def _map_priors(
    function: Callable[..., Any], hypotheses: Hypothesis, data: Data, options: tuple[int, ...]
) -> Any:
    # One after the other: the program is then that of a single prior, which takes half the time to
    # compile, and a handful of priors takes milliseconds to run.
    return jax.lax.map(lambda one: function(one, data, *options), hypotheses)
