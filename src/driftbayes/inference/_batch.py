"""Data sets prepared for inference."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import jax
import numpy as np

from driftbayes.data._sampling import Displacements
from driftbayes.data._units import readable
from driftbayes.errors import DriftbayesError
from driftbayes.likelihood import (
    ChannelMoments,
    ReducedDisplacements,
    SecondMoments,
    SummedDisplacements,
)
from driftbayes.likelihood._engines import AbstractDirect, Engine, MomentsEngine
from driftbayes.likelihood._moments import stack_moments
from driftbayes.models import AbstractModel, Preparation, as_template, preparation
from driftbayes.models._base import EngineName
from driftbayes.models._brownian import Brownian
from driftbayes.models._prepare import make_engine, sum_moments

Moments: TypeAlias = SecondMoments | ChannelMoments
AnyDisplacements: TypeAlias = Displacements | ReducedDisplacements | SummedDisplacements


AnyData: TypeAlias = AnyDisplacements | AbstractDirect


@dataclass(frozen=True, eq=False)
class Batch:
    """One data set, or several of the same kind, ready for inference.

    Args:
        given: Second moments, with a leading axis if `is_stacked`; None to compute them from
            `source`.
        taus: Sampling time of each data set.
        fingerprints: Fingerprint of each data set.
        is_stacked: Whether `given` has a leading axis over data sets.
        unit_names: Units of length and time, shared by all data sets.
        source: Displacements, the template for which they are prepared, and engine name.
        direct: Data that are their own engine.
    """

    given: Moments | None
    taus: tuple[float, ...]
    fingerprints: tuple[str, ...]
    is_stacked: bool = False
    unit_names: tuple[str, str] = ("", "")
    source: tuple[AnyDisplacements, AbstractModel, EngineName] | None = None
    direct: AbstractDirect | None = None
    _engines: dict[Any, Engine] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(
        cls,
        data: "AnyData | Batch",
        engine: Any = "auto",
        model: AbstractModel | type[AbstractModel] | None = None,
    ) -> "Batch":
        """Prepare one data set for a model, by default Brownian, unless it is prepared.

        Models with the same requirements share the result.
        """
        if isinstance(data, Batch):
            return data
        if isinstance(data, AbstractDirect):
            units = (data.length_unit, data.time_unit)
            return cls(None, (data.tau,), (data.fingerprint,), unit_names=units, direct=data)
        template = as_template(Brownian if model is None else model)
        if template.is_turning and data.n_dim != 2:
            raise DriftbayesError(
                f"{template.name} needs two dimensions, the data have {data.n_dim}; "
                "leave out +rotating"
            )
        key = preparation(data, template, engine)
        found = _PREPARED.setdefault(data, {})
        if key not in found:
            units = (data.length_unit, data.time_unit)
            source = (data, template, engine)
            found[key] = cls(
                None, (data.tau,), (data.fingerprint,), unit_names=units, source=source
            )
        return found[key]

    @classmethod
    def stack(cls, many: Sequence["Batch"]) -> "Batch":
        """Stack several regular data sets."""
        moments = []
        for batch in many:
            if not batch.is_summed or batch.is_stacked:
                raise DriftbayesError(
                    "only data sets prepared for the statistics engine can be stacked"
                )
            moments.append(batch.moments)
        return cls(
            stack_moments(moments),
            tuple(batch.taus[0] for batch in many),
            tuple(batch.fingerprints[0] for batch in many),
            is_stacked=True,
            unit_names=many[0].unit_names,
        )

    @cached_property
    def moments(self) -> Moments:
        """Second moments of regular data."""
        if self.given is not None:
            return self.given
        assert self.source is not None
        return sum_moments(*self.source)

    @cached_property
    def is_summed(self) -> bool:
        """Whether only second moments are kept."""
        if self.source is None:
            return self.given is not None
        way = preparation(*self.source)
        return way.engine == "moments" and way.kind in ("summed", "channels")

    def engine(self, index: int, model: AbstractModel) -> Engine:
        """Return the engine that holds a data set for a model."""
        if self.direct is not None:
            return self.direct
        # Of models that share the data, those that differ in these have their own engines.
        moves = model.kind == "together" and model.moves_by_generator
        key = (index if self.is_stacked else 0, model.is_turning, model.has_state_space, moves)
        if key not in self._engines:
            batch = self[index]
            source = batch.source
            if source is None or (self.is_summed and not _is_filter_cheaper(source, model)):
                self._engines[key] = MomentsEngine(batch.moments, model.is_turning)
            else:
                data, _, engine = source
                assert isinstance(data, Displacements)
                self._engines[key] = make_engine(data, model, engine)
        return self._engines[key]

    def __len__(self) -> int:
        return len(self.taus)

    def __getitem__(self, index: int) -> "Batch":
        if not self.is_stacked:
            return self
        moments = jax.tree.map(lambda leaf: leaf[index], self.moments)
        taus, fingerprints = (self.taus[index],), (self.fingerprints[index],)
        return Batch(moments, taus, fingerprints, unit_names=self.unit_names)

    @property
    def shortest_step(self) -> float:
        """Duration of the shortest step."""
        if self.direct is not None:
            return self.direct.shortest_step
        if self.source is not None:
            data = self.source[0]
            return float(data.interval.min()) if isinstance(data, Displacements) else data.tau
        return min(self.taus)

    def tau(self, index: int) -> float:
        """Return the sampling time of a data set."""
        return self.taus[index if self.is_stacked else 0]

    def tau_text(self, index: int) -> str:
        """Format the sampling time of a data set with its unit."""
        return readable(self.tau(index), self.unit_names[1])

    def fingerprint(self, index: int) -> str:
        """Return the fingerprint of a data set."""
        return self.fingerprints[index if self.is_stacked else 0]


# Nanoseconds per step of the filter, and per element of a matrix of second moments.
_FILTER_COST, _MOMENTS_COST = 7.0, 0.45


def _is_filter_cheaper(
    source: tuple[AnyDisplacements, AbstractModel, EngineName], model: AbstractModel
) -> bool:
    """Estimate whether filtering the steps is faster than whitening their second moments."""
    data, template, engine = source
    if engine != "auto" or not model.has_state_space or not isinstance(data, Displacements):
        return False
    # One matrix per run length, and one for the steps beyond the longest window.
    window = preparation(data, template).memory
    orders = np.unique(np.minimum(data.row_sizes, window)).astype(np.float64)
    n_elements = np.sum(orders**2) + window**2 * bool(np.any(data.row_sizes > window))
    return bool(_FILTER_COST * len(data.dx) < _MOMENTS_COST * n_elements)


# Entries are dropped together with their displacements.
_PREPARED: WeakKeyDictionary[AnyDisplacements, dict[Preparation, Batch]] = WeakKeyDictionary()
