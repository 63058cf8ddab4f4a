"""Describe scores of ensembles."""

__all__ = ["describe_scores", "score_panels"]

import numpy as np

from driftbayes.data.units import readable_unit
from driftbayes.representation import (
    Card,
    Curve,
    Panel,
    Table,
    describe,
    estimate_cell,
    number,
    summarise,
    with_unit,
)
from driftbayes.verification.scores import N_BINS, EnsembleScores

_MAX_LEADS = 6


@summarise.register
def _(result: EnsembleScores) -> str:
    return result.verdict


@describe.register
def describe_scores(result: EnsembleScores) -> Card:
    """Describe which ensemble predicts best, and whether its spread is calibrated."""
    per_time, time = readable_unit(result.leads, result.time_unit)
    first, last = (number(result.leads[i] * per_time, 4) for i in (0, -1))
    units = {"drifters": "drifters", "starts": "times of start"}[result.errors]
    facts = (
        ("drifters", f"{result.n_drifters:,}; {result.n_forecasts:,} forecasts"),
        ("lead times", f"{len(result.leads)}, from {first} to {last} {time}".rstrip()),
        ("errors", f"bootstrap over {result.n_units:,} {units}"),
    )
    warnings = (
        ()
        if result.n_units > 5
        else (f"{result.n_units} {units}: standard errors by bootstrap are too small",)
    )
    tables = (_overall(result), _by_lead(result))
    return Card("EnsembleScores", result.verdict, facts, (), tables, (*result.notes, *warnings))


def _overall(result: EnsembleScores) -> Table:
    size = [score.means["energy_score"][0] for score in result.ensembles.values()]
    per, unit = readable_unit(size, result.length_unit)
    heads = (
        *("ensemble", with_unit("energy score", unit), "above best", "log score", "50 %", "95 %"),
        *("spread/error", "variogram", "Liu–Weisberg", "dispersion"),
    )
    rows = []
    for score in result.ensembles.values():
        behind = "best" if score.name == result.best else estimate_cell(*score.behind, per)
        rows.append(
            (
                score.name,
                estimate_cell(*score.means["energy_score"], per),
                behind,
                estimate_cell(*score.means["log_score"]),
                estimate_cell(*score.means["coverage_50"], 100.0),
                estimate_cell(*score.means["coverage_95"], 100.0),
                estimate_cell(*score.means["spread_ratio"]),
                estimate_cell(*score.means["variogram_score"]),
                estimate_cell(*score.means["liu_weisberg_skill"]),
                score.dispersion,
            )
        )
    title = "Over all lead times; energy and variogram scores: smaller is better"
    return Table(heads, tuple(rows), "l" + "r" * 8 + "l", title=title)


def _by_lead(result: EnsembleScores) -> Table:
    per_time, time = readable_unit(result.leads, result.time_unit)
    size = [ensemble.means["energy_score"][0] for ensemble in result.ensembles.values()]
    per, unit = readable_unit(size, result.length_unit)
    n = len(result.leads)
    shown = np.unique(np.linspace(0, n - 1, min(n, _MAX_LEADS)).round().astype(int))
    rows = []
    for i in shown:
        for ensemble in result.ensembles.values():
            cells = [
                estimate_cell(ensemble.by_lead[score][0][i], ensemble.by_lead[score][1][i], factor)
                for score, factor in (
                    *(("energy_score", per), ("log_score", 1.0)),
                    *(("coverage_50", 100.0), ("coverage_95", 100.0)),
                )
            ]
            rows.append((number(result.leads[i] * per_time, 4), ensemble.name, *cells))
    heads = (
        *(with_unit("lead", time), "ensemble", with_unit("energy score", unit), "log score"),
        *("50 %", "95 %"),
    )
    title = "By lead time; 50 % and 95 %: observations within the regions, in per cent"
    return Table(heads, tuple(rows), "rl" + "r" * 4, title=title, keys=2)


def score_panels(result: EnsembleScores) -> list[Panel]:
    """Describe energy score and coverage against lead time, and the rank histogram."""
    per_time, time = readable_unit(result.leads, result.time_unit)
    x_label = with_unit("lead time", time)
    sizes = [ensemble.means["energy_score"][0] for ensemble in result.ensembles.values()]
    per, length = readable_unit(sizes, result.length_unit)

    def curves(score: str, factor: float = 1.0) -> list[Curve]:
        result_curves = []
        for name, ensemble in result.ensembles.items():
            y, error = (factor * part for part in ensemble.by_lead[score])
            low, high = y - 1.96 * error, y + 1.96 * error
            if score.startswith("coverage"):
                low, high = np.clip(low, 0.0, factor), np.clip(high, 0.0, factor)
            result_curves.append(Curve(name, name, y, low, high))
        return result_curves

    panels = [
        Panel(
            name=score,
            title=title,
            x=result.leads * per_time,
            x_label=x_label,
            y_label=label,
            curves=curves(score, factor),
            reference=reference,
            x_scale="linear",
        )
        for score, title, label, factor, reference in (
            (
                *("energy_score", "Energy score: smaller is better"),
                *(with_unit("energy score", length), per, ()),
            ),
            ("coverage_50", "Within the 50 % region", "per cent", 100.0, (50.0,)),
            ("coverage_95", "Within the 95 % region", "per cent", 100.0, (95.0,)),
        )
    ]
    middle = (np.arange(N_BINS) + 0.5) / N_BINS
    panels.append(
        Panel(
            name="ranks",
            title="Rank: rising, spread too small; falling, too large",
            x=middle,
            x_label="rank, from the centre outwards",
            y_label="share of observations",
            curves=[
                Curve(
                    *(name, name, ensemble.ranks),
                    *(
                        ensemble.ranks - 1.96 * ensemble.rank_errors,
                        ensemble.ranks + 1.96 * ensemble.rank_errors,
                    ),
                )
                for name, ensemble in result.ensembles.items()
            ],
            reference=(1 / N_BINS,),
            x_scale="linear",
        )
    )
    return panels
