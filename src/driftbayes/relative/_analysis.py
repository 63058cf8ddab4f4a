"""Compare laws of relative dispersion, at one sampling time or over several."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from driftbayes._aliases import public
from driftbayes._precision import in_double_precision
from driftbayes._representation import Described
from driftbayes.comparison import Comparison, Scan, compare_hypotheses
from driftbayes.data._sampling import snap_taus
from driftbayes.data._trajectories import Trajectories, check_tracks
from driftbayes.data._units import LENGTH, TIME, in_units, times_in
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Evidence, posterior_draws
from driftbayes.priors import AbstractPrior, Fixed
from driftbayes.relative._models import AbstractLaw, law_hypotheses
from driftbayes.relative._replicas import replicate
from driftbayes.relative._separations import Separations, separations
from driftbayes.relative._statistics import PairStatistics, pair_statistics

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Total number of pairs drawn from a fitted law.
_N_REPLICAS = 2000
# Number of posterior draws of a law with a free exponent, for the moments of κ.
_N_DRAWS = 1000


@dataclass(frozen=True, eq=False, repr=False)
class PairComparison(Described):
    """Laws of relative dispersion compared at one sampling time.

    Args:
        comparison: Evidences and posteriors.
        data: Separations of the pairs.
        statistics: Model-free statistics.
        within: Distance at which pairs begin; None for any distance.
        seed: Random seed of draws.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> list(db.pairs(tracks, 0.5).comparison.evidences)
        ['rayleigh', 'richardson', 'lundgren', 'power']
    """

    comparison: Comparison
    data: Separations
    statistics: PairStatistics
    within: float | None = None
    seed: int = 0

    def __getitem__(self, model: str) -> Evidence:
        """Return the evidence of one law."""
        return self.comparison[model]

    @property
    def verdict(self) -> str:
        """Verdict in one sentence, on the scale of Kass and Raftery."""
        return self.comparison.verdict

    @cached_property
    def coefficients(self) -> dict[str, dict[str, tuple[float, float]]]:
        """Posterior mean and standard deviation of ξ and κ in K(r) = κ r^ξ, for each law."""
        return {
            name: _coefficients(record, self.data, self.seed)
            for name, record in self.comparison.evidences.items()
        }

    @property
    def fitted_law(self) -> str:
        """Name of the law plotted with the statistics: the free exponent, or the best law."""
        return "power" if "power" in self.comparison.evidences else self.comparison.best

    @cached_property
    def fitted(self) -> PairStatistics:
        """Statistics of pairs simulated from the fitted law at its posterior mean.

        The pairs have the initial separations and sampling times of the data.
        """
        record = self.comparison[self.fitted_law]
        exponent, size = _value(record, "xi"), _value(record, "K")
        n_copies = max(1, min(50, _N_REPLICAS // self.data.n_pairs))
        drawn = replicate(self.data, exponent, size, n_copies=n_copies)
        return pair_statistics(drawn, n_replicates=2, edges=self.statistics.edges)

    def plot(self) -> "Figure":
        """Draw the statistics against separation and time, with the fitted law."""
        return public("plot_pairs")(self)

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as plain numbers and text."""
        result = self.comparison.to_json()
        for name, record in result["models"].items():
            for index, key in enumerate(("posterior_mean", "posterior_sd")):
                summary = {p: moments[index] for p, moments in self.coefficients[name].items()}
                record[key] = {**record[key], **summary}
        return {
            "tau": self.data.tau,
            "n_pairs": self.data.n_pairs,
            "within": self.within,
            "reference_separation": self.data.reference,
            **result,
            "statistics": self.statistics.to_json(),
        }


@dataclass(frozen=True, eq=False, repr=False)
class PairScan(Described):
    """Laws of relative dispersion compared at several sampling times.

    Args:
        results: One comparison per sampling time, increasing.
        skipped: Sampling times at which there are no pairs, with the reason.
    """

    results: tuple[PairComparison, ...]
    skipped: Mapping[float, str]

    @cached_property
    def scan(self) -> Scan:
        """Evidences and posteriors against tau, and the range in which parameters are constant."""
        return Scan(tuple(result.comparison for result in self.results), self.skipped)

    def plot(self) -> "Figure":
        """Draw evidences and the exponent against tau, and the statistics at the shortest."""
        return public("plot_pairs")(self)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the comparisons as plain numbers and text, each with results of the whole scan."""
        scan_keys = ("consistency", "skipped")
        return [
            {**result.to_json(), **{name: scan_record[name] for name in scan_keys}}
            for result, scan_record in zip(self.results, self.scan.to_json(), strict=True)
        ]


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
        tracks: Trajectories.
        tau: Sampling time.
        within: Distance at which a pair begins; None pairs all particles at their first position.
        models: Names of laws (rayleigh, richardson, lundgren, power), separated by commas or in a
            list, or "all".
        priors: Priors of `xi` and `K`; by default uniform, and exponential with a scale from the
            data.
        seed: Random seed of draws and of the bootstrap.
        **options: Evidence method, as for `compare`.
    """
    reach = None if within is None else in_units(within, LENGTH, tracks.units, "within")
    data = separations(tracks, in_units(tau, TIME, tracks.units, "tau"), within=reach)
    return _compare_at(data, models, priors, reach, seed, options)


def _compare_at(
    data: Separations,
    models: Sequence[str] | str,
    priors: Mapping[str, AbstractPrior | str] | None,
    within: float | None,
    seed: int,
    options: Mapping[str, Any],
) -> PairComparison:
    """Compare laws for given separations."""
    hypotheses = law_hypotheses(models, data, priors)
    comparison = compare_hypotheses(hypotheses, data, seed=seed, **options)
    return PairComparison(comparison, data, pair_statistics(data, seed=seed), within, seed)


def _value(record: Evidence, name: str) -> float:
    """Return the posterior mean of a parameter, or its value if fixed."""
    law = record.hypothesis.model
    if name == "xi" and isinstance(law, AbstractLaw) and law.exponent is not None:
        return law.exponent
    prior = record.hypothesis.priors[name]
    return prior.value if isinstance(prior, Fixed) else record.parameters[name].mean


@in_double_precision
def _coefficients(record: Evidence, data: Separations, seed: int) -> dict[str, tuple[float, float]]:
    """Return posterior mean and standard deviation of ξ and κ."""
    law = record.hypothesis.model
    assert isinstance(law, AbstractLaw)
    exponent = law.exponent
    if exponent is not None:
        diffusivity = record.parameters["K"]
        per = data.reference**-exponent
        return {"xi": (exponent, 0.0), "kappa": (diffusivity.mean * per, diffusivity.sd * per)}
    draws = posterior_draws(record.hypothesis, data, n_draws=_N_DRAWS, seed=seed)
    values = record.hypothesis.columns(draws.theta)
    xi, size = values["xi"], values["K"]
    kappa = size * data.reference**-xi
    estimate = record.parameters.get("xi")
    exponent_moments = (float(xi[0]), 0.0) if estimate is None else (estimate.mean, estimate.sd)
    return {"xi": exponent_moments, "kappa": (float(kappa.mean()), float(kappa.std(ddof=1)))}


@in_double_precision
def scan_pairs(
    tracks: Trajectories,
    taus: Iterable[float | str] | str,
    *,
    within: float | str | None = None,
    models: Sequence[str] | str = "all",
    priors: Mapping[str, AbstractPrior | str] | None = None,
    seed: int = 0,
    **options: Any,
) -> PairScan:
    """Compare laws of relative dispersion over a range of sampling times.

    Sampling times are rounded to multiples of the recording interval. The prior scale is that of
    the data at the first sampling time, and pairs are found again at each. Other arguments are
    those of `compare_pairs`.
    """
    results: list[PairComparison] = []
    skipped: dict[float, str] = {}
    fixed_priors = dict(priors or {})
    reach = None if within is None else in_units(within, LENGTH, tracks.units, "within")
    # Irregular times are not rounded.
    sampling_times = times_in(taus, tracks.units, "taus")
    if tracks.recording_interval is not None:
        sampling_times = snap_taus(tracks, sampling_times).tolist()
    for tau in sorted(set(sampling_times)):
        try:
            data = separations(tracks, tau, within=reach)
        except DriftbayesError as error:
            skipped[tau] = str(error)
            continue
        if results:
            # K refers to the same separation at all sampling times.
            data = replace(data, reference=results[0].data.reference)
        results.append(_compare_at(data, models, fixed_priors, reach, seed, options))
        for record in results[-1].comparison.evidences.values():
            fixed_priors |= record.hypothesis.priors
    if not results:
        msg = f"no pairs at any tau: {next(iter(skipped.values()), 'no tau was given')}"
        raise DriftbayesError(msg)
    return PairScan(tuple(results), skipped)


def pairs(
    tracks: Trajectories, tau: float | str | Iterable[float | str], **options: Any
) -> PairComparison | PairScan:
    """Compare laws of relative dispersion at one sampling time, or scan several.

    Args:
        tracks: Trajectories.
        tau: Sampling time, or several, also as text ("1h,6h,1d", "1h:10d:12log").
        **options: As for `compare_pairs`.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> db.pairs(tracks, [0.5, 1.0])
        <PairScan: 5 pairs, 2 values of tau from 0.5 to 1, rayleigh, richardson, lundgren, power>
    """
    check_tracks(tracks)
    if isinstance(tau, str):
        several = "," in tau or ":" in tau
        return (scan_pairs if several else compare_pairs)(tracks, tau, **options)
    if isinstance(tau, Iterable):
        return scan_pairs(tracks, tau, **options)
    return compare_pairs(tracks, tau, **options)
