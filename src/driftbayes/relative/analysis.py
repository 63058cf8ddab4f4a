"""Compare laws of relative dispersion, at one sampling time or over several."""

__all__ = ["PairComparison", "compare_pairs", "pairs", "scan_pairs"]

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from driftbayes.comparison import Comparison, Scan, compare_hypotheses
from driftbayes.data.trajectories import Trajectories, check_tracks
from driftbayes.data.units import LENGTH, TIME, in_units, times_in
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Evidence, posterior_draws
from driftbayes.precision import in_double_precision
from driftbayes.priors import AbstractPrior, Fixed
from driftbayes.relative.models import AbstractLaw, law_hypotheses
from driftbayes.relative.separations import Separations, separations
from driftbayes.relative.statistics import PairStatistics, pair_statistics
from driftbayes.representation import Described

# Draws from the posterior of a law with a free exponent, for the moments of κ.
_N_DRAWS = 4000


@dataclass(frozen=True, eq=False, repr=False)
class PairComparison(Described):
    """Laws of relative dispersion compared at one sampling time.

    Args:
        comparison: Evidences and posteriors.
        data: Separations of the pairs.
        statistics: The same without a model.
        coefficients: Of each law mean and standard deviation of ξ and of κ in K(r) = κ r^ξ.
        within: Distance at which pairs begin; None for any.
    """

    comparison: Comparison
    data: Separations
    statistics: PairStatistics
    coefficients: Mapping[str, Mapping[str, tuple[float, float]]]
    within: float | None = None

    def __getitem__(self, model: str) -> Evidence:
        """The evidence of one law."""
        return self.comparison[model]

    @property
    def verdict(self) -> str:
        """One sentence on the scale of Kass and Raftery."""
        return self.comparison.verdict

    def to_json(self) -> dict[str, Any]:
        """The comparison as plain numbers and text."""
        result = self.comparison.to_json()
        for name, record in result["models"].items():
            for place, key in enumerate(("posterior_mean", "posterior_sd")):
                own = {p: both[place] for p, both in self.coefficients[name].items()}
                record[key] = {**record[key], **own}
        return {
            "tau": self.data.tau,
            "n_pairs": self.data.n_pairs,
            "within": self.within,
            "reference_separation": self.data.reference,
            **result,
            "statistics": self.statistics.to_json(),
        }


@in_double_precision
def compare_pairs(
    tracks: Trajectories,
    tau: float | str,
    *,
    within: float | str | None = None,
    models: Sequence[str] | str = "all",
    priors: Mapping[str, AbstractPrior | str] | None = None,
    seed: int = 0,
    **options: Any,
) -> PairComparison:
    """Compare laws of relative dispersion for disjoint pairs of particles.

    Args:
        tracks: Where the particles were.
        tau: Sampling time.
        within: Distance at which a pair begins; None pairs all particles as they are first seen.
        models: Names of laws (rayleigh, richardson, lundgren, power), separated by commas or in a
            list, or "all".
        priors: Priors of `xi` and `K`; by default uniform, and exponential with a scale from the
            data.
        seed: Random seed of draws and of the bootstrap.
        **options: Method of the evidence, as for `compare`.
    """
    reach = None if within is None else in_units(within, LENGTH, tracks.units, "within")
    data = separations(tracks, in_units(tau, TIME, tracks.units, "tau"), within=reach)
    return _compared(data, models, priors, reach, seed, options)


def _compared(
    data: Separations,
    models: Sequence[str] | str,
    priors: Mapping[str, AbstractPrior | str] | None,
    within: float | None,
    seed: int,
    options: Mapping[str, Any],
) -> PairComparison:
    hypotheses = law_hypotheses(models, data, priors)
    comparison = compare_hypotheses(hypotheses, data, seed=seed, **options)
    coefficients = {
        name: _coefficients(record, data, seed) for name, record in comparison.evidences.items()
    }
    return PairComparison(comparison, data, pair_statistics(data, seed=seed), coefficients, within)


def _coefficients(record: Evidence, data: Separations, seed: int) -> dict[str, tuple[float, float]]:
    """Mean and standard deviation of ξ and κ."""
    law = record.hypothesis.model
    assert isinstance(law, AbstractLaw)
    exponent = law.exponent
    if exponent is not None:
        found = record.parameters["K"]
        per = data.reference**-exponent
        return {"xi": (exponent, 0.0), "kappa": (found.mean * per, found.sd * per)}
    draws = posterior_draws(record.hypothesis, data, n_draws=_N_DRAWS, seed=seed)
    values = dict(zip(record.hypothesis.names, draws.theta.T, strict=True))
    for name, prior in record.hypothesis.priors.items():
        if isinstance(prior, Fixed):
            values[name] = np.full(_N_DRAWS, float(prior.value))
    xi, size = values["xi"], values["K"]
    kappa = size * data.reference**-xi
    estimate = record.parameters.get("xi")
    own = (float(xi[0]), 0.0) if estimate is None else (estimate.mean, estimate.sd)
    return {"xi": own, "kappa": (float(kappa.mean()), float(kappa.std(ddof=1)))}


@in_double_precision
def scan_pairs(
    tracks: Trajectories,
    taus: Iterable[float | str] | str,
    *,
    within: float | str | None = None,
    models: Sequence[str] | str = "all",
    priors: Mapping[str, AbstractPrior | str] | None = None,
    **options: Any,
) -> Scan:
    """Compare laws of relative dispersion over a range of sampling times.

    The scale of the priors is that of the data at the first sampling time, and the pairs are found
    anew at each; arguments are those of `compare_pairs`.
    """
    comparisons: list[Comparison] = []
    skipped: dict[float, str] = {}
    reference = 0.0
    known = dict(priors or {})
    reach = None if within is None else in_units(within, LENGTH, tracks.units, "within")
    for tau in times_in(taus, tracks.units, "taus"):
        try:
            data = separations(tracks, tau, within=reach)
        except DriftbayesError as error:
            skipped[tau] = str(error)
            continue
        if comparisons:
            # K is stated at one separation for all sampling times.
            data = replace(data, reference=reference)
        reference = data.reference
        hypotheses = law_hypotheses(models, data, known)
        for hypothesis in hypotheses:
            known |= hypothesis.priors
        comparisons.append(compare_hypotheses(hypotheses, data, **options))
    if not comparisons:
        msg = f"no pairs at any tau: {next(iter(skipped.values()), 'no tau was given')}"
        raise DriftbayesError(msg)
    return Scan(tuple(comparisons), skipped)


def pairs(
    tracks: Trajectories, tau: float | str | Iterable[float | str], **options: Any
) -> PairComparison | Scan:
    """Compare laws of relative dispersion at one sampling time, or scan several.

    Args:
        tracks: Where the particles were.
        tau: Sampling time, or several.
        **options: As for `compare_pairs`.
    """
    check_tracks(tracks)
    if isinstance(tau, Iterable) and not isinstance(tau, str):
        return scan_pairs(tracks, tau, **options)
    return compare_pairs(tracks, tau, **options)
