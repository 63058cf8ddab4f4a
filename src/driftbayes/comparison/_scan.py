"""Scan: the comparison as a function of the sampling time tau."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._aliases import public
from driftbayes._magnitudes import whole
from driftbayes._precision import in_double_precision
from driftbayes._representation import Described, to_dataframe, to_dataset
from driftbayes._typing import Progress
from driftbayes.comparison._bayes import Comparison, comparison_of
from driftbayes.comparison._consistency import (
    TOLERANCE,
    ConsistentRange,
    consistent_range,
    describe_consistency,
)
from driftbayes.comparison._dataset import scan_from_dataset
from driftbayes.comparison._hypotheses import (
    check_names,
    check_prior_probabilities,
    check_progress,
)
from driftbayes.data._sampling import WHOLE, Cut, Displacements, snap_taus
from driftbayes.data._trajectories import Trajectories, check_tracks
from driftbayes.errors import DriftbayesError
from driftbayes.inference import (
    Batch,
    Evidence,
    Hypothesis,
    Method,
    as_method,
    evidence,
    evidence_batch,
)
from driftbayes.likelihood import ReducedDisplacements, SummedDisplacements
from driftbayes.likelihood._engines import MomentsEngine

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class Scan(Described):
    """Comparisons along tau, and the range over which each parameter is consistent.

    Args:
        comparisons: One comparison per tau, increasing.
        skipped: Sampling times without displacements, with the reason.
        attributes: Provenance and options, with which the scan can be repeated.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> db.scan(tracks, [0.5, 1.0], scales=db.Scales(u_rms=1.4, time=1.0))
        <Scan: 2 values of tau from 0.5 to 1, brownian, langevin>
    """

    comparisons: tuple[Comparison, ...]
    skipped: Mapping[float, str] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def taus(self) -> np.ndarray:
        """Sampling times."""
        return np.array([comparison.tau for comparison in self.comparisons])

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models."""
        return tuple(self.comparisons[0].evidences)

    def evidences(self, model: str) -> list[Evidence]:
        """Return the evidences of one model along tau."""
        return [comparison[model] for comparison in self.comparisons]

    @cached_property
    def consistency(self) -> dict[str, dict[str, ConsistentRange | None]]:
        """Range of tau over which each parameter of each model is consistent."""
        result: dict[str, dict[str, ConsistentRange | None]] = {}
        for model in self.models:
            records = self.evidences(model)
            result[model] = {name: self._consistent(records, name) for name in records[0].map}
        return result

    def _consistent(self, records: list[Evidence], name: str) -> ConsistentRange | None:
        means = np.array([e.log_mean[name] for e in records])
        hypothesis = records[0].hypothesis
        signed = hypothesis.priors[name].is_signed
        about = hypothesis.model.parameters[name]
        tolerance = TOLERANCE
        if signed and (about.length_power or about.time_power):
            # Relative to its size, so that the result does not depend on the unit.
            tolerance = TOLERANCE * float(np.sqrt(np.nanmean(means**2)))
        return consistent_range(
            self.taus,
            means,
            np.array([e.log_sd[name] for e in records]),
            np.array([name not in e.unidentified_parameters for e in records]),
            tolerance,
            signed=signed,
        )

    @property
    def missing_models(self) -> tuple[str, ...]:
        """Models of shared motion that should be compared as well."""
        return next((c.missing_models for c in self.comparisons if c.missing_models), ())

    @property
    def sentences(self) -> dict[str, str]:
        """Sentence on the consistency of each model."""
        unit = self.comparisons[0].time_unit
        return {
            model: describe_consistency(
                model, ranges, unit, len(self.comparisons), self._units_of(model)
            )
            for model, ranges in self.consistency.items()
        }

    def _units_of(self, model: str) -> dict[str, str]:
        """Return the units of the parameters of a model, if the data have units."""
        if not all((self.comparisons[0].length_unit, self.comparisons[0].time_unit)):
            return {}
        return {name: p.unit for name, p in self.evidences(model)[0].parameters.items()}

    def consistency_json(self) -> dict[str, Any]:
        """Return the consistency as plain numbers and text."""
        return {
            model: {
                **{name: None if r is None else asdict(r) for name, r in ranges.items()},
                "sentence": self.sentences[model],
            }
            for model, ranges in self.consistency.items()
        }

    def to_json(self) -> list[dict[str, Any]]:
        """Return the comparisons as plain numbers and text.

        Each includes the consistency and the omitted sampling times of the whole scan.
        """
        whole = {
            "consistency": self.consistency_json(),
            "skipped": [{"tau": tau, "reason": text} for tau, text in self.skipped.items()],
        }
        return [{**c.to_json(), **whole} for c in self.comparisons]

    def to_dataset(self) -> "xr.Dataset":
        """Return an xarray Dataset along tau, model, parameter and pair of models."""
        return to_dataset(self)

    @classmethod
    def from_dataset(cls, dataset: "xr.Dataset") -> "Scan":
        """Make a scan from a dataset that `to_dataset` returned."""
        comparisons, skipped = scan_from_dataset(dataset)
        kept = ("data_fingerprint", "provenance", "options")
        attributes = {name: dataset.attrs[name] for name in kept if name in dataset.attrs}
        return cls(comparisons, skipped, attributes)

    def save(self, path: Any) -> None:
        """Write the scan as NetCDF; `driftbayes.open_scan` reads it."""
        public("write_scan")(self.to_dataset(), path)

    def plot(self) -> "Figure":
        """Draw parameters, ln K and probabilities against tau."""
        return public("plot_scan")(self)

    def report(self, path: Any, **options: Any) -> Any:
        """Write a self-contained HTML report; see `driftbayes.write_report`."""
        return public("write_report")(self, path, **options)

    def export(self, simulator: str, path: Any = None, **options: Any) -> str:
        """Return code for a simulator; see `driftbayes.export`."""
        return public("export")(self, simulator, path, **options)

    def to_dataframe(self) -> "pd.DataFrame":
        """Return a pandas table, one row per tau, model and parameter, with a column of units."""
        return to_dataframe(self)


def is_consistent(scan: Scan, model: str, parameter: str) -> np.ndarray:
    """Return whether each tau lies in the consistent range of a parameter."""
    found = scan.consistency[model][parameter]
    if found is None:
        return np.zeros(len(scan.comparisons), dtype=bool)
    return (found.tau_min <= scan.taus) & (scan.taus <= found.tau_max)


@in_double_precision
def scan_hypotheses(
    trajectories: Trajectories,
    hypotheses: Sequence[Hypothesis],
    taus: Iterable[float] | str,
    *,
    cut: Cut = WHOLE,
    method: Method | str = "auto",
    seed: int = 0,
    prior_probabilities: Sequence[float] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Scan:
    """Compare hypotheses at many sampling times of the same trajectories.

    Args:
        trajectories: Positions of the particles.
        hypotheses: Model families with their priors, the same at every tau.
        taus: Sampling times, rounded to multiples of the recording interval. "all" makes one
            comparison with every fix at its own interval.
        cut: How trajectories are cut into runs.
        method: Method of the evidence, as for `evidence`.
        seed: Random seed for sampling methods.
        prior_probabilities: Prior probabilities of the models.
        progress: Called with the stage, the number done and the total.
        **options: Options of a method given by name.

    Example:
        >>> import driftbayes as db
        >>> brownian = db.Hypothesis(db.Brownian, kappa=db.Exponential(1.0))
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> db.scan_hypotheses(tracks, [brownian], [0.5, 1.0]).taus.tolist()
        [0.5, 1.0]
    """
    check_tracks(trajectories)
    check_names(hypotheses)
    check_prior_probabilities(prior_probabilities, len(hypotheses))
    check_progress(progress)
    seed = whole(seed, "seed")
    chosen = as_method(method, **options)
    many, skipped = [], {}
    is_all = isinstance(taus, str)
    if is_all and taus != "all":
        raise DriftbayesError(f"taus must be sampling times or 'all', got {taus!r}")
    if is_all:
        many.append(cut(trajectories, None))
    actual = np.array([]) if isinstance(taus, str) else snap_taus(trajectories, taus)
    for i, tau in enumerate(actual):
        try:
            many.append(cut(trajectories, float(tau)))
        except DriftbayesError as error:
            # Trajectories may be too short for one tau but not for others.
            skipped[float(tau)] = str(error)
        if progress is not None:
            progress("displacements", i + 1, len(actual))
    if not many:
        raise DriftbayesError(next(iter(skipped.values())))
    result = scan_displacements(
        many,
        hypotheses,
        method=chosen,
        seed=seed,
        prior_probabilities=prior_probabilities,
        progress=progress,
    )
    attributes = provenance_attrs(
        trajectories.fingerprint,
        trajectories.provenance,
        prior_probabilities=prior_probabilities,
        **({"tau": "all"} if is_all else {}),
        **asdict(cut),
        seed=seed,
        coords=getattr(chosen, "coords", "natural"),
    )
    return Scan(result.comparisons, skipped, attributes)


def provenance_attrs(
    fingerprint: str,
    provenance: Mapping[str, Any],
    *,
    prior_probabilities: Sequence[float] | None,
    **options: Any,
) -> dict[str, str]:
    """Return the attributes of a scan with which it can be repeated."""
    prior = None if prior_probabilities is None else [float(p) for p in prior_probabilities]
    return {
        "data_fingerprint": fingerprint,
        "provenance": json.dumps(dict(provenance), default=str),
        "options": json.dumps({**options, "prior_probabilities": prior}),
    }


@in_double_precision
def evidences_of_many(
    hypothesis: Hypothesis,
    many: Sequence[Displacements | ReducedDisplacements | SummedDisplacements],
    report: Callable[[int], None] = lambda _: None,
    **how: Any,
) -> list[Evidence]:
    """Compute the evidence of one hypothesis for several sets of displacements.

    Data sets reduced to second moments are computed in one batch. `report` is called with the
    number of data sets done; further arguments are `method` and `seed`, as for `evidence`.
    """
    batches = [Batch.of(data, model=hypothesis.model) for data in many]
    regular = [
        i
        for i, batch in enumerate(batches)
        if batch.is_summed and isinstance(batch.engine(0, hypothesis.model), MomentsEngine)
    ]
    found: dict[int, Evidence] = {}
    if regular:
        stacked = Batch.stack([batches[i] for i in regular])
        found = dict(zip(regular, evidence_batch([hypothesis], stacked, **how), strict=True))
        report(len(found))
    for i, batch in enumerate(batches):
        if i not in found:
            found[i] = evidence(hypothesis, batch, **how)
            report(len(found))
    return [found[i] for i in range(len(many))]


@in_double_precision
def scan_displacements(
    many: Sequence[Displacements | ReducedDisplacements | SummedDisplacements],
    hypotheses: Sequence[Hypothesis],
    *,
    method: Method | str = "auto",
    seed: int = 0,
    prior_probabilities: Sequence[float] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Scan:
    """Compare hypotheses on several sets of displacements, one per tau, in one computation.

    Args:
        many: Displacements, whole or reduced to their second moments.
        hypotheses: Model families with their priors, the same at every tau.
        method: Method of the evidence, as for `evidence`.
        seed: Random seed for sampling methods.
        prior_probabilities: Prior probabilities of the models.
        progress: Called with the stage, the number done and the total.
        **options: Options of a method given by name.
    """
    check_names(hypotheses)
    check_prior_probabilities(prior_probabilities, len(hypotheses))
    how: dict[str, Any] = {"method": as_method(method, **options), "seed": seed}
    if not many:
        raise DriftbayesError("expected one or more sets of displacements, got none")
    by_model: list[list[Evidence]] = []

    def report(n: int) -> None:
        if progress is not None:
            n_done = len(by_model) * len(many) + n
            progress("evidence", n_done, len(hypotheses) * len(many))

    for hypothesis in hypotheses:
        by_model.append(evidences_of_many(hypothesis, many, report, **how))
    comparisons = [
        comparison_of(records, data, prior_probabilities)
        for *records, data in zip(*by_model, many, strict=True)
    ]
    return Scan(tuple(sorted(comparisons, key=lambda comparison: comparison.tau)))
