"""Many inferences as one computation: several data sets, or several priors."""

__all__ = ["Batch", "run_batch"]

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import equinox as eqx
import jax
import numpy as np

from driftbayes.errors import DriftbayesError
from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.likelihood.moments import SecondMoments, stack_moments
from driftbayes.models import Data, prepare
from driftbayes.sampling import Displacements

Result = TypeVar("Result")

# Data sets in one chunk take as many passes as the hardest of them, and share the cache.
_CHUNK = 25


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
    def of(cls, data: Displacements, engine: Any = "auto") -> "Batch":
        """One data set; a second method applied to the same one finds it prepared."""
        if engine != "auto":
            return cls(prepare(data, engine=engine), (data.tau,), (data.fingerprint,))
        if data not in _PREPARED:
            _PREPARED[data] = cls(prepare(data), (data.tau,), (data.fingerprint,))
        return _PREPARED[data]

    @classmethod
    def stack(cls, many: Sequence["Batch"]) -> "Batch":
        """Several data sets, all regular, as one."""
        moments = []
        for batch in many:
            if not isinstance(batch.data, SecondMoments) or batch.is_stacked:
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

    def tau(self, index: int) -> float:
        """Sampling time of a data set."""
        return self.taus[index if self.is_stacked else 0]

    def fingerprint(self, index: int) -> str:
        """Fingerprint of a data set."""
        return self.fingerprints[index if self.is_stacked else 0]


# Forgotten with the displacements they were made from.
_PREPARED: WeakKeyDictionary[Displacements, Batch] = WeakKeyDictionary()


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
        n, chunk = len(batch), min(len(batch), _CHUNK)
        # Filled up with copies of the last, so that all chunks have the same size.
        filled = np.minimum(np.arange(chunk * -(-n // chunk)), n - 1)
        data = jax.tree.map(lambda leaf: leaf[filled], batch.data)
        results = _over_data(function, hypotheses[0], data, options, chunk)
        results = jax.tree.map(lambda leaf: leaf[:n], results)
    else:
        # Stacked in NumPy: each stack in JAX would be a program of its own to compile.
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *hypotheses)
        results = _over_priors(function, stacked, batch.data, options)
    return jax.tree.map(np.asarray, results)


@eqx.filter_jit
def _over_data(
    function: Callable[..., Any],
    hypothesis: Hypothesis,
    data: Data,
    options: tuple[int, ...],
    chunk: int,
) -> Any:
    return jax.lax.map(lambda one: function(hypothesis, one, *options), data, batch_size=chunk)


def _over_priors(
    function: Callable[..., Any], hypotheses: Hypothesis, data: Data, options: tuple[int, ...]
) -> Any:
    return _quickly_compiled()(function, hypotheses, data, options)


@cache
def _quickly_compiled() -> Callable[..., Any]:
    """One after another over priors, compiled with less effort if the compiler takes the hint.

    For one data set most of the time goes into compiling. These switches halve that and cost a
    tenth in speed; a compiler that does not know them says so.
    """
    options: dict[str, bool | int] = {
        "xla_cpu_use_fusion_emitters": False,
        "xla_llvm_disable_expensive_passes": True,
    }
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
