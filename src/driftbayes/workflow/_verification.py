"""Scores of ensembles in files against observed trajectories."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from driftbayes.comparison._dependence import quick_dependence
from driftbayes.data._trajectories import Trajectories, check_tracks
from driftbayes.data._units import times_in
from driftbayes.errors import DataWarning, DriftbayesError, expect
from driftbayes.verification import EnsembleScores, match_cases, score_cases
from driftbayes.verification._scores import Errors
from driftbayes.workflow._reading import load

_MEMBER, _START = "member", "start"
_TABLES = {".csv": "read_csv", ".txt": "read_csv", ".parquet": "read_parquet"}


def read_ensemble(source: Any, **options: Any) -> Trajectories:
    """Read the members of an ensemble.

    A table may have a column `member`, and a column `start` if a drifter has several forecasts;
    trajectories are then named id/member or id@start/member. Other files are read like any
    trajectories, with members named in this way or as by a simulator.

    Args:
        source: A file, a pandas DataFrame, or another source of `read`.
        **options: Options of `read`.
    """
    table = _table(source)
    if table is None:
        return load(source, **options)
    names = {str(name).strip().casefold(): name for name in table.columns}
    columns = dict(options.pop("columns", None) or {})
    known = columns.get("id") or names.get("id")
    if known is None:
        raise DriftbayesError(
            "an ensemble with a column 'member' also needs a column 'id' with the names of its "
            f"drifters; it has {', '.join(map(str, table.columns))}"
        )
    made = table.copy()
    ids = made[known].astype(str)
    if _START in names:
        ids = ids + "@" + made.pop(names[_START]).astype(str)
    made[known] = ids + "/" + made.pop(names[_MEMBER]).astype(str)
    # Rows of one member must be contiguous.
    made = made.sort_values(known, kind="stable")
    return load(made, columns=columns or None, **options)


def _table(source: Any) -> Any:
    """Return the table of a source with a column of members; None for other sources."""
    import pandas as pd

    if isinstance(source, str | Path):
        reader = _TABLES.get(Path(source).suffix.lower())
        if reader is None or not Path(source).is_file():
            return None
        if reader == "read_csv":
            head = pd.read_csv(source, nrows=0, comment="#", skipinitialspace=True)
            if not _has_members(head):
                return None
            return pd.read_csv(source, comment="#", skipinitialspace=True)
        source = pd.read_parquet(source)
    return source if isinstance(source, pd.DataFrame) and _has_members(source) else None


def _has_members(table: Any) -> bool:
    return _MEMBER in {str(name).strip().casefold() for name in table.columns}


def score_ensembles(
    observed: Trajectories,
    ensembles: Mapping[str, Any],
    *,
    leads: Any = None,
    errors: Errors = "drifters",
    seed: int = 0,
    **options: Any,
) -> EnsembleScores:
    """Score ensembles of simulated trajectories against observed ones.

    Args:
        observed: Observed trajectories.
        ensembles: Files of members, tables or trajectories, by the name of the ensemble.
        leads: Lead times to score, in the unit of the observations or with their own; default all.
        errors: Units of the bootstrap: "drifters", or "starts", the start times of forecasts, for
            drifters that move together.
        seed: Random seed of the bootstrap.
        **options: Options of `read` for the ensembles.

    Raises:
        DriftbayesError: Members and observations do not belong together.

    Example:
        >>> import pandas as pd
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> table = tracks.to_dataframe()
        >>> members = pd.concat([table.assign(member=i, x=table.x + i) for i in range(3)])
        >>> db.score_ensembles(tracks, {"shifted": members}).n_drifters
        10
    """
    check_tracks(observed)
    expect(ensembles, Mapping, "ensembles", "ensembles by name, for example {'A': 'a.nc'}")
    if observed.period is not None:
        raise DriftbayesError(
            "ensembles cannot be scored in a periodic domain: members and observations may be on "
            "different images; unwrap both and omit the period"
        )
    if observed.position_sd is not None:
        raise DriftbayesError(
            "observations have measurement errors but members do not, so scores cannot be "
            "compared; omit the errors of the observations, or add them to the members"
        )
    with warnings.catch_warnings():
        # The observations have already given these warnings.
        warnings.simplefilter("ignore", DataWarning)
        cases = [
            match_cases(
                source if isinstance(source, Trajectories) else read_ensemble(source, **options),
                observed,
                name,
            )
            for name, source in ensembles.items()
        ]
    if leads is not None:
        wanted = np.array(times_in(leads, observed.units, "leads"))
        for i, own in enumerate(cases):
            near = np.abs(own.lead[:, None] - wanted).min(axis=1) <= 1e-3 * wanted.min()
            if not near.any():
                raise DriftbayesError(f"{own.name}: no forecast has one of the given lead times")
            cases[i] = own.take(near)
    result = score_cases(cases, units=observed.units, errors=errors, seed=seed)
    return with_dependence(result, observed)


def with_dependence(result: EnsembleScores, observed: Trajectories) -> EnsembleScores:
    """Add a note if drifters move together but errors treat them as independent.

    Args:
        result: Scores of ensembles.
        observed: Observed trajectories.
    """
    if result.errors != "drifters" or result.n_drifters < 2:
        return result
    try:
        found = quick_dependence(observed, float(result.leads[0]))
    except DriftbayesError:
        # No two drifters have lead times in common.
        return result
    if not found.is_serious:
        return result
    note = (
        f"{found.sentence}; errors by bootstrap over drifters are too small, use --errors starts "
        '(errors="starts")'
    )
    return replace(result, notes=(*result.notes, note))
