"""Compare ensembles by their scores at the same forecasts, with errors by bootstrap."""

__all__ = ["EnsembleScore", "EnsembleScores", "score_cases"]

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np

from driftbayes.errors import DriftbayesError
from driftbayes.representation import Described
from driftbayes.typing import FloatArray, IntArray
from driftbayes.verification.cases import Cases
from driftbayes.verification.rules import (
    coverage,
    depth_ranks,
    energy_scores,
    log_scores,
    separation_skill,
    variogram_scores,
)

Errors = Literal["drifters", "starts"]
# Scores of single lead times, and of whole forecasts.
BY_LEAD = ("energy_score", "log_score", "coverage_50", "coverage_95", "error", "spread")
BY_FORECAST = ("variogram_score", "liu_weisberg_skill")
N_BINS = 10
_N_REPLICATES = 1_000
# Levels of two standard errors: a difference beyond them is named.
_NAMED = 2.0


@dataclass(frozen=True, eq=False)
class EnsembleScore:
    """Scores of one ensemble.

    Args:
        name: Name of the ensemble.
        n_members: Members of each forecast.
        means: Each score and its standard error, over all forecasts and lead times.
        by_lead: The same at each lead time.
        ranks: Share of observations in each tenth of the ensemble, from its centre outwards.
        rank_errors: Standard errors of these shares.
        behind: By how much the energy score exceeds the smallest, and its standard error.
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
        """Whether the spread is too small or too large, by the mean rank."""
        tilt, error = self.means["rank"][0] - 0.5, self.means["rank"][1]
        if abs(tilt) <= _NAMED * error:
            return "spread as observed"
        return "spread too small" if tilt > 0 else "spread too large"


@dataclass(frozen=True, eq=False, repr=False)
class EnsembleScores(Described):
    """Scores of several ensembles at the same forecasts and lead times.

    Args:
        ensembles: Scores by the name of the ensemble, best first.
        leads: Lead times.
        counts: Number of cases at each.
        n_drifters: Observed trajectories.
        n_forecasts: Forecasts: a drifter from one start.
        n_units: Units of the bootstrap.
        errors: What these are: drifters, or times of start.
        length_unit: Unit of length.
        time_unit: Unit of time.
        notes: What was left out.
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
        """The ensemble with the smallest energy score."""
        return next(iter(self.ensembles))

    @property
    def verdict(self) -> str:
        """Which ensemble predicts best, and whether the others are worse beyond their errors."""
        first, *others = self.ensembles.values()
        own = f"{first.name}: {first.dispersion}"
        if not others:
            return own
        worse = [e for e in others if e.behind[0] > _NAMED * e.behind[1]]
        if len(worse) == len(others):
            return f"{first.name} predicts best ({first.dispersion})"
        alike = ", ".join(e.name for e in others if e not in worse)
        return f"{first.name} has the smallest energy score, not distinguishable from {alike}"

    def to_json(self) -> dict[str, Any]:
        """Plain numbers."""

        def plain(value: Any) -> Any:
            values = np.asarray(value, float).tolist()
            if isinstance(values, list):
                return [v if np.isfinite(v) else None for v in values]
            return values if np.isfinite(values) else None

        ensembles = {}
        for name, own in self.ensembles.items():
            record: dict[str, Any] = {"n_members": own.n_members}
            for score, (mean, error) in own.means.items():
                record |= {score: plain(mean), f"{score}_err": plain(error)}
            record |= {
                "dispersion": own.dispersion,
                "energy_score_above_best": plain(own.behind[0]),
                "energy_score_above_best_err": plain(own.behind[1]),
                "rank_histogram": plain(own.ranks),
                "rank_histogram_err": plain(own.rank_errors),
                "by_lead": {
                    key: plain(values)
                    for score, (mean, error) in own.by_lead.items()
                    for key, values in ((score, mean), (f"{score}_err", error))
                },
            }
            ensembles[name] = record
        return {
            "ensembles": ensembles,
            "best": self.best,
            "verdict": self.verdict,
            "leads": self.leads.tolist(),
            "n_cases": self.counts.tolist(),
            "n_drifters": self.n_drifters,
            "n_forecasts": self.n_forecasts,
            "errors": self.errors,
            "n_units": self.n_units,
            "length_unit": self.length_unit,
            "time_unit": self.time_unit,
            "notes": list(self.notes),
        }


def score_cases(
    ensembles: Sequence[Cases],
    *,
    units: tuple[str, str] = ("", ""),
    errors: Errors = "drifters",
    seed: int = 0,
) -> EnsembleScores:
    """Score ensembles at the forecasts and lead times that all of them have.

    Args:
        ensembles: Members matched with observations.
        units: Units of length and time.
        errors: Resample drifters, or times of start with all their drifters (those within the
            shortest lead time are one). The latter holds for drifters that move together, if
            starts are far enough apart.
        seed: Random seed of the bootstrap.
    """
    if errors not in get_args(Errors):
        msg = f"errors must be one of {', '.join(get_args(Errors))}, got {errors!r}"
        raise DriftbayesError(msg)
    if not ensembles:
        raise DriftbayesError("there is no ensemble to score")
    names = [cases.name for cases in ensembles]
    if len(set(names)) < len(names):
        msg = f"ensembles need different names, got {', '.join(names)}"
        raise DriftbayesError(msg)
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
    least = min(energy, key=lambda name: float(energy[name].mean()))
    scored = [_score(cases, energy[cases.name], energy[least], groups) for cases in shared]
    scored.sort(key=lambda own: own.means["energy_score"][0])
    return EnsembleScores(
        ensembles={own.name: own for own in scored},
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
    """Means over cases, with errors by resampling units."""

    unit: IntArray  # of each case, the number of its drifter or start
    at: IntArray  # of each case, the number of its lead time
    n_leads: int
    weights: FloatArray  # (replicate, unit), ones first

    def _resampled(self, values: FloatArray, unit: IntArray) -> FloatArray:
        """Sum over cases, of the data first and then of each replicate."""
        return np.asarray(self.weights @ np.bincount(unit, values, self.weights.shape[1]))

    def mean(self, values: FloatArray, unit: IntArray | None = None) -> tuple[float, float]:
        """Mean over all cases that have a value, and its error."""
        unit = self.unit if unit is None else unit
        known = np.isfinite(values)
        return self._ratio(values[known], np.ones(int(known.sum())), unit[known])

    def ratio(self, above: FloatArray, below: FloatArray) -> tuple[float, float]:
        """Root of the ratio of two means, and its error."""
        return _root(*self._ratio(above, below, self.unit))

    def _ratio(self, above: FloatArray, below: FloatArray, unit: IntArray) -> tuple[float, float]:
        with np.errstate(invalid="ignore", divide="ignore"):
            found = self._resampled(above, unit) / self._resampled(below, unit)
        return float(found[0]), _error(found[1:])

    def by_lead(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean at each lead time, and its error."""
        found = [self._at(values, i) for i in range(self.n_leads)]
        return np.array([mean for mean, _ in found]), np.array([error for _, error in found])

    def _at(self, values: FloatArray, i: int) -> tuple[float, float]:
        here = self.at == i
        return self.mean(values[here], self.unit[here])


def _error(replicates: FloatArray) -> float:
    known = replicates[np.isfinite(replicates)]
    return float(known.std(ddof=1)) if len(known) > 1 and np.ptp(known) > 0 else float("nan")


def _score(cases: Cases, energy: FloatArray, least: FloatArray, groups: _Groups) -> EnsembleScore:
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
    forecasts, own = np.unique(cases.forecast, return_index=True)
    paths = _of_paths(cases, forecasts)
    for score in BY_FORECAST:
        means[score] = groups.mean(paths[score], groups.unit[own])
    shares = [groups.mean(part) for part in _tenths(ranks, n_members)]
    behind = groups.mean(energy - least)
    return EnsembleScore(
        name=cases.name,
        n_members=n_members,
        means=means,
        by_lead=by_lead,
        ranks=np.array([share for share, _ in shares]),
        rank_errors=np.array([error for _, error in shares]),
        behind=behind,
    )


def _tenths(ranks: IntArray, n_members: int) -> list[FloatArray]:
    """Share of each observation in each tenth of the ensemble; a rank may lie in two of them."""
    edges = np.linspace(0.0, n_members + 1, N_BINS + 1)
    return [
        np.clip(np.minimum(ranks + 1, high) - np.maximum(ranks, low), 0.0, 1.0)
        for low, high in pairwise(edges)
    ]


def _root(square: Any, error: Any) -> tuple[Any, Any]:
    """Root of a mean square, and its error."""
    root = np.sqrt(square)
    return root, error / (2 * root)


def _of_paths(cases: Cases, forecasts: IntArray) -> dict[str, FloatArray]:
    """Scores of whole forecasts."""
    variogram, skill = [], []
    order = np.argsort(cases.forecast, kind="stable")
    edges = np.searchsorted(cases.forecast[order], forecasts)
    for here in np.split(order, edges[1:]):
        observed, paths = cases.observed[here], np.moveaxis(cases.paths[here], 0, 1)
        variogram.append(variogram_scores(paths, observed) if len(here) > 1 else np.nan)
        away = np.linalg.norm(cases.members[here].mean(axis=1), axis=1)
        skill.append(separation_skill(away, cases.travelled[here]))
    return {"variogram_score": np.array(variogram), "liu_weisberg_skill": np.array(skill)}


def _shared(ensembles: Sequence[Cases]) -> tuple[list[Cases], tuple[str, ...]]:
    """The cases that all ensembles have, in one order."""
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
    """Number of the block of time of each start; a block is as long as the shortest lead time."""
    since = (start - start.min()) / width
    return np.asarray(np.unique(np.floor(since + 1e-6), return_inverse=True)[1])


def _scale(ensembles: Sequence[Cases]) -> float:
    """A length of time below which lead times are the same."""
    return 1e-6 * max(float(cases.lead.max()) for cases in ensembles)


def _keys(cases: Cases, scale: float) -> np.ndarray:
    """One number for each observed position and lead time."""
    lead = np.rint(cases.lead / scale).astype(np.int64)
    return cases.row.astype(np.int64) * 2_000_003 + lead


def _distinct(leads: FloatArray) -> tuple[FloatArray, IntArray]:
    """Distinct lead times, and the number of each."""
    scale = 1e-6 * max(float(leads.max()), np.finfo(float).tiny)
    found, at = np.unique(np.rint(leads / scale), return_inverse=True)
    return found * scale, at
