"""Compare ensembles by their scores on the same forecasts, with bootstrap errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from driftbayes._aliases import public
from driftbayes._representation import Described, plain
from driftbayes._typing import FloatArray, IntArray
from driftbayes.errors import DriftbayesError
from driftbayes.verification._cases import Cases
from driftbayes.verification._rules import (
    coverage,
    depth_ranks,
    energy_scores,
    log_scores,
    separation_skill,
    variogram_scores,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Errors = Literal["drifters", "starts"]
# Scores per lead time, and per forecast.
BY_LEAD = ("energy_score", "log_score", "coverage_50", "coverage_95", "error", "spread")
BY_FORECAST = ("variogram_score", "liu_weisberg_skill")
N_BINS = 10
_N_REPLICATES = 1_000
# A difference beyond this many standard errors is reported.
_SIGNIFICANT = 2.0


@dataclass(frozen=True, eq=False)
class EnsembleScore:
    """Scores of one ensemble.

    Args:
        name: Name of the ensemble.
        n_members: Number of members per forecast.
        means: Mean of each score and its standard error, over all forecasts and lead times.
        by_lead: Mean of each score and its standard error at each lead time.
        ranks: Fraction of observations in each tenth of the ensemble, from the centre outwards.
        rank_errors: Standard errors of these fractions.
        behind: Excess of the energy score over the smallest, and its standard error.
    """

    name: str
    n_members: int
    means: dict[str, tuple[float, float]]
    by_lead: dict[str, tuple[FloatArray, FloatArray]]
    ranks: FloatArray
    rank_errors: FloatArray
    behind: tuple[float, float]

    @property
    def dispersion(self) -> str:
        """Whether the ensemble is under- or overdispersed, by the mean rank."""
        tilt, error = self.means["rank"][0] - 0.5, self.means["rank"][1]
        if abs(tilt) <= _SIGNIFICANT * error:
            return "spread as observed"
        return "spread too small" if tilt > 0 else "spread too large"


@dataclass(frozen=True, eq=False, repr=False)
class EnsembleScores(Described):
    """Scores of several ensembles on the same forecasts and lead times.

    Args:
        ensembles: Scores by name of the ensemble, best first.
        leads: Lead times.
        counts: Number of cases at each lead time.
        n_drifters: Number of observed trajectories.
        n_forecasts: Number of forecasts, each of one drifter from one start.
        n_units: Number of bootstrap units.
        errors: Bootstrap units: drifters, or start times.
        length_unit: Unit of length.
        time_unit: Unit of time.
        notes: Notes on excluded data.
    """

    ensembles: dict[str, EnsembleScore]
    leads: FloatArray
    counts: IntArray
    n_drifters: int
    n_forecasts: int
    n_units: int
    errors: Errors = "drifters"
    length_unit: str = ""
    time_unit: str = ""
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> str:
        """Name of the ensemble with the smallest energy score."""
        return next(iter(self.ensembles))

    @property
    def verdict(self) -> str:
        """Verdict on the best ensemble, and whether the others are significantly worse."""
        first, *others = self.ensembles.values()
        best_text = f"{first.name}: {first.dispersion}"
        if not others:
            return best_text
        worse = [e for e in others if e.behind[0] > _SIGNIFICANT * e.behind[1]]
        if len(worse) == len(others):
            return f"{first.name} predicts best ({first.dispersion})"
        names = ", ".join(e.name for e in others if e not in worse)
        return f"{first.name} has the smallest energy score, not distinguishable from {names}"

    def plot(self) -> "Figure":
        """Draw the scores by lead time."""
        panels = public("score_panels", "driftbayes.verification._describe")(self)
        return public("plot_panels", "driftbayes.plots._panels")(panels)

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers."""

        def with_errors(scores: Mapping[str, tuple[Any, Any]]) -> dict[str, Any]:
            out: dict[str, Any] = {}
            for name, (value, error) in scores.items():
                out |= {name: value, f"{name}_err": error}
            return out

        ensembles = {
            name: {
                "n_members": ensemble.n_members,
                **with_errors(ensemble.means),
                "dispersion": ensemble.dispersion,
                **with_errors({"energy_score_above_best": ensemble.behind}),
                **with_errors({"rank_histogram": (ensemble.ranks, ensemble.rank_errors)}),
                "by_lead": with_errors(ensemble.by_lead),
            }
            for name, ensemble in self.ensembles.items()
        }
        names = ("n_drifters", "n_forecasts", "errors", "n_units", "length_unit", "time_unit")
        content = {
            "ensembles": ensembles,
            "best": self.best,
            "verdict": self.verdict,
            "leads": self.leads,
            "n_cases": self.counts,
            **{name: getattr(self, name) for name in names},
            "notes": self.notes,
        }
        return dict(plain(content))


def score_cases(
    ensembles: Sequence[Cases],
    *,
    units: tuple[str, str] = ("", ""),
    errors: Errors = "drifters",
    seed: int = 0,
) -> EnsembleScores:
    """Score ensembles on the forecasts and lead times common to all.

    Args:
        ensembles: Members matched with observations.
        units: Units of length and time.
        errors: Bootstrap units: drifters, or start times with all their drifters (start times
            within the shortest lead time are one unit). Start times allow for drifters that move
            together, if starts are far enough apart.
        seed: Random seed of the bootstrap.
    """
    if errors not in get_args(Errors):
        msg = f"errors must be one of {', '.join(get_args(Errors))}, got {errors!r}"
        raise DriftbayesError(msg)
    if not ensembles:
        raise DriftbayesError("no ensemble to score; give at least one")
    names = [cases.name for cases in ensembles]
    if len(set(names)) < len(names):
        raise DriftbayesError(f"ensembles need different names, got {', '.join(names)}")
    shared, notes = _shared(ensembles)
    any_cases = shared[0]
    leads, at = _distinct(any_cases.lead)
    unit = np.unique(any_cases.drifter, return_inverse=True)[1]
    n_drifters = int(unit.max()) + 1
    if errors == "starts":
        unit = _blocks(any_cases.start, float(leads[0]))
    rng = np.random.Generator(np.random.Philox(seed))
    n = int(unit.max()) + 1
    weights = np.vstack([np.ones(n), rng.multinomial(n, np.full(n, 1 / n), _N_REPLICATES)])
    groups = _Groups(unit, at, len(leads), weights)
    energy = {cases.name: energy_scores(cases.members) for cases in shared}
    best = min(energy, key=lambda name: float(energy[name].mean()))
    scored = [_score(cases, energy[cases.name], energy[best], groups) for cases in shared]
    scored.sort(key=lambda score: score.means["energy_score"][0])
    return EnsembleScores(
        ensembles={score.name: score for score in scored},
        leads=leads,
        counts=np.bincount(at, minlength=len(leads)),
        n_drifters=n_drifters,
        n_forecasts=len(np.unique(any_cases.forecast)),
        n_units=n,
        errors=errors,
        length_unit=units[0],
        time_unit=units[1],
        notes=notes,
    )


@dataclass(frozen=True, eq=False)
class _Groups:
    """Means over cases, with errors by a bootstrap over units."""

    unit: IntArray  # drifter or start of each case
    at: IntArray  # lead time of each case
    n_leads: int
    weights: FloatArray  # (replicate, unit), ones first

    def _resampled(self, values: FloatArray, unit: IntArray) -> FloatArray:
        """Sum over cases, first of the data and then of each replicate."""
        return np.asarray(self.weights @ np.bincount(unit, values, self.weights.shape[1]))

    def mean(self, values: FloatArray, unit: IntArray | None = None) -> tuple[float, float]:
        """Return the mean over all cases with a value, and its error."""
        unit = self.unit if unit is None else unit
        has_value = np.isfinite(values)
        return self._ratio(values[has_value], np.ones(int(has_value.sum())), unit[has_value])

    def ratio(self, above: FloatArray, below: FloatArray) -> tuple[float, float]:
        """Return the root of the ratio of two means, and its error."""
        return _root(*self._ratio(above, below, self.unit))

    def _ratio(self, above: FloatArray, below: FloatArray, unit: IntArray) -> tuple[float, float]:
        with np.errstate(invalid="ignore", divide="ignore"):
            replicates = self._resampled(above, unit) / self._resampled(below, unit)
        return float(replicates[0]), _error(replicates[1:])

    def by_lead(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mean at each lead time, and its error."""
        chosen = [self.at == i for i in range(self.n_leads)]
        mean, error = np.array([self.mean(values[rows], self.unit[rows]) for rows in chosen]).T
        return mean, error


def _error(replicates: FloatArray) -> float:
    finite = replicates[np.isfinite(replicates)]
    return float(finite.std(ddof=1)) if len(finite) > 1 and np.ptp(finite) > 0 else float("nan")


def _score(
    cases: Cases, energy: FloatArray, smallest_energy: FloatArray, groups: _Groups
) -> EnsembleScore:
    members = cases.members
    n_members = members.shape[1]
    ranks = depth_ranks(members)
    mean = members.mean(axis=1)
    variance = members.var(axis=1, ddof=1).sum(axis=1) * (1 + 1 / n_members)
    values = {
        "energy_score": energy,
        "log_score": log_scores(members),
        "coverage_50": coverage(ranks, n_members, 0.5),
        "coverage_95": coverage(ranks, n_members, 0.95),
        "error": np.einsum("ci,ci->c", mean, mean),
        "spread": variance,
    }
    means = {score: groups.mean(values[score]) for score in BY_LEAD}
    by_lead = {score: groups.by_lead(values[score]) for score in BY_LEAD}
    for score in ("error", "spread"):
        means[score] = _root(*means[score])
        by_lead[score] = _root(*by_lead[score])
    means["rank"] = groups.mean((ranks + 0.5) / (n_members + 1))
    means["spread_ratio"] = groups.ratio(values["spread"], values["error"])
    forecasts, first_rows = np.unique(cases.forecast, return_index=True)
    paths = _forecast_scores(cases, forecasts)
    for score in BY_FORECAST:
        means[score] = groups.mean(paths[score], groups.unit[first_rows])
    shares, errors = np.array([groups.mean(part) for part in _tenths(ranks, n_members)]).T
    behind = groups.mean(energy - smallest_energy)
    return EnsembleScore(cases.name, n_members, means, by_lead, shares, errors, behind)


def _tenths(ranks: IntArray, n_members: int) -> list[FloatArray]:
    """Return the fraction of each observation in each tenth of the ensemble.

    A rank at an edge is split between two tenths.
    """
    edges = np.linspace(0.0, n_members + 1, N_BINS + 1)
    return [
        np.clip(np.minimum(ranks + 1, high) - np.maximum(ranks, low), 0.0, 1.0)
        for low, high in pairwise(edges)
    ]


def _root(square: Any, error: Any) -> tuple[Any, Any]:
    """Return the root of a mean square, and its error."""
    root = np.sqrt(square)
    return root, error / (2 * root)


def _forecast_scores(cases: Cases, forecasts: IntArray) -> dict[str, FloatArray]:
    """Compute the scores per forecast."""
    variogram, skill = [], []
    order = np.argsort(cases.forecast, kind="stable")
    edges = np.searchsorted(cases.forecast[order], forecasts)
    for rows in np.split(order, edges[1:]):
        observed, paths = cases.observed[rows], np.moveaxis(cases.paths[rows], 0, 1)
        variogram.append(variogram_scores(paths, observed) if len(rows) > 1 else np.nan)
        away = np.linalg.norm(cases.members[rows].mean(axis=1), axis=1)
        skill.append(separation_skill(away, cases.travelled[rows]))
    return {"variogram_score": np.array(variogram), "liu_weisberg_skill": np.array(skill)}


def _shared(ensembles: Sequence[Cases]) -> tuple[list[Cases], tuple[str, ...]]:
    """Select the cases common to all ensembles, in the same order."""
    empty = [cases.name for cases in ensembles if not len(cases.lead)]
    if empty:
        raise DriftbayesError(
            f"no position was observed at the lead times of {', '.join(empty)}; give lead times at "
            "which there are positions"
        )
    notes = tuple(f"{cases.name}: {note}" for cases in ensembles for note in cases.notes)
    keys = [_keys(cases, _scale(ensembles)) for cases in ensembles]
    common = reduce(np.intersect1d, keys)
    if not len(common):
        names = ", ".join(cases.name for cases in ensembles)
        msg = f"no forecast and lead time is in all of {names}; scores compare the same forecasts"
        raise DriftbayesError(msg)
    out = []
    for cases, key in zip(ensembles, keys, strict=True):
        order = np.argsort(key, kind="stable")
        chosen = order[np.searchsorted(key[order], common)]
        out.append(cases.take(np.sort(chosen) if len(ensembles) == 1 else chosen))
        if len(common) < len(key):
            text = f"{cases.name}: {len(common):,} of {len(key):,} cases are in all ensembles"
            notes = (*notes, text)
    return out, notes


def _blocks(start: FloatArray, width: float) -> IntArray:
    """Return the time block of each start; a block is as long as the shortest lead time."""
    since = (start - start.min()) / width
    return np.asarray(np.unique(np.floor(since + 1e-6), return_inverse=True)[1])


def _scale(ensembles: Sequence[Cases]) -> float:
    """Return the time difference below which lead times are equal."""
    return 1e-6 * max(float(cases.lead.max()) for cases in ensembles)


def _keys(cases: Cases, scale: float) -> np.ndarray:
    """Return a unique number for each observed position and lead time."""
    lead = np.rint(cases.lead / scale).astype(np.int64)
    return cases.row.astype(np.int64) * 2_000_003 + lead


def _distinct(leads: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the distinct lead times, and the index of each lead time."""
    scale = 1e-6 * max(float(leads.max()), np.finfo(float).tiny)
    rounded, at = np.unique(np.rint(leads / scale), return_inverse=True)
    return rounded * scale, at
