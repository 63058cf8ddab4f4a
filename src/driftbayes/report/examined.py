"""Sections of the page that need the trajectories: quality, posteriors, fit, priors."""

__all__ = ["fit", "fit_panels", "posterior_panels", "prior_panels", "priors", "quality", "verdict"]

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from driftbayes.data.units import readable_time
from driftbayes.plots.checks import drawn_quantity
from driftbayes.report import html
from driftbayes.report.content import Table
from driftbayes.report.svg import Curve, Panel
from driftbayes.report.tracks import draw_trajectories
from driftbayes.typing import FloatArray

if TYPE_CHECKING:
    from driftbayes.inference import PosteriorDraws
    from driftbayes.report.examination import Examination

# Ink instead of a model's colour: the data.
DATA = "data"
_BINS = 24


def verdict(found: "Examination") -> list[str]:
    """What the examination adds to the answer in words."""
    sentences = []
    check = found.check
    if check is not None:
        best = check.comparison.best
        at = readable_time(check.comparison.tau, check.comparison.time_unit)
        text = check.models[best].verdict
        sentences.append(f"Whether {best} explains the data at all: at {at} {text}.")
    worst = max(found.dependence.values(), key=lambda one: one.inflation, default=None)
    if worst is not None and worst.is_serious:
        at = readable_time(worst.tau, worst.time_unit)
        text = worst.sentence
        sentences.append(f"{text[0].upper()}{text[1:]} (at {at}): evidences are overstated.")
    changed = [
        (pair, one)
        for one in found.sensitivity.values()
        for pair in one.log_bayes_factors
        if one.verdict_changes(pair)
    ]
    if changed:
        pair, one = changed[0]
        at = readable_time(one.tau, found.trajectories.time_unit)
        sentences.append(f"The sign of ln K({pair}) at {at} depends on the scale of the priors.")
    return sentences


def quality(found: "Examination") -> str:
    """How the data are sampled, what looks wrong in them, and whether particles move together."""
    tracks, seen = found.trajectories, found.survey
    length, time = tracks.length_unit, tracks.time_unit
    rows = [
        ("trajectories", f"{tracks.n_trajectories:,} in {tracks.n_dim} dimensions"),
        ("positions", f"{int(tracks.observed.sum()):,}"),
    ]
    if seen.dates is not None:
        rows.append(("dates", " to ".join(seen.dates)))
    if seen.interval is not None:
        share = "" if seen.share is None or seen.share > 0.9999 else f", {seen.share:.1%} of all"
        rows.append(("recording interval", readable_time(seen.interval, time) + share))
    if seen.longest_gap is not None:
        gap = readable_time(seen.longest_gap, time)
        rows.append(("gaps", f"{seen.n_gaps:,}, the longest {gap}"))
    if seen.step_rms is not None:
        rows.append(("typical step", f"{seen.step_rms:.4g} {length}".rstrip()))
    rows += [(one.name, one.sentence) for one in found.quality.findings if one.n_observations]
    if found.quality.is_clean:
        rows.append(("checks", "no spikes, stuck instruments, repeats, gaps or short trajectories"))
    rows += [
        (f"together, at {readable_time(one.tau, one.time_unit)}", one.sentence)
        for one in found.dependence.values()
    ]
    picture = f"<figure>{draw_trajectories(tracks)}</figure>"
    return (
        f'<div class="beside"><div>{html.facts(rows)}{_told(found, "dependence")}</div>'
        f"{picture}</div>"
    )


def posterior_panels(found: "Examination", tau: float, units: tuple[str, str]) -> list[Panel]:
    """Density of each parameter, after and before the data, and two parameters together.

    Args:
        found: The examination.
        tau: Its main sampling time.
        units: Of length and time.
    """
    panels = [
        _density(draws, i, _label(draws, name, units), tau)
        for draws in found.draws
        for i, name in enumerate(draws.names)
    ]
    for draws in found.draws:
        if len(draws.names) > 1:
            labels = [_label(draws, name, units) for name in draws.names[:2]]
            order = np.argsort(draws.theta[:, 0])
            name = draws.hypothesis.name
            panels.append(
                Panel(
                    f"joint_{name}",
                    f"{name}: {draws.names[0]} and {draws.names[1]} together",
                    draws.theta[order, 0],
                    labels[0],
                    labels[1],
                    [Curve(f"draws of {name}", name, draws.theta[order, 1], kind="points")],
                    description=f"{len(draws)} draws from the posterior of {name}",
                    x_scale="linear",
                    at_tau=tau,
                )
            )
    return panels


def fit_panels(found: "Examination") -> list[Panel]:
    """The data among replicas of the best model, at the main sampling time."""
    check = found.check
    if check is None:
        return []
    best = check.models[check.comparison.best]
    panels = []
    for quantity in best.quantities:
        one = drawn_quantity(best, quantity.name)
        if not one.is_curve:
            continue
        outer = _band("95 % of replicas", best.model, one.band)
        inner = _band("at equal fit", best.model, one.fitted)
        is_lag = one.about.startswith("lag")
        panels.append(
            Panel(
                f"fit_{quantity.name}",
                f"{one.title[0].upper()}{one.title[1:]} ({best.p_text(quantity.name)})",
                one.at,
                one.about,
                one.label,
                [outer, inner, Curve("data", DATA, one.observed)],
                reference=() if one.reference is None else (one.reference,),
                description=f"{quantity.words}: data as points among {best.n_replicas} replicas "
                f"of {best.model}, {best.p_text(quantity.name)}",
                x_scale="log" if is_lag else "linear",
                at_tau=check.comparison.tau,
            )
        )
    return panels


def fit(found: "Examination", panels: str) -> str:
    """Whether the models explain the data: words, figures of the best, all p-values.

    Args:
        found: The examination.
        panels: The figures.
    """
    check = found.check
    if check is None:
        return _told(found, "check") or "<p>Not asked for.</p>"
    at = escape(readable_time(check.comparison.tau, check.comparison.time_unit))
    lines = [f"{name}: {one.verdict}." for name, one in check.models.items()]
    rows = [
        (q.words.removeprefix("the "), *(m.p_cell(q.name) for m in check.models.values()))
        for q in check.quantities
    ]
    rows.append(("all of these", *(m.overall_cell for m in check.models.values())))
    n = check.n_replicas
    return (
        f"<p>At τ = {at}, drawing {n} replicas of the data from each model:</p>"
        f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"
        f'<p class="note">The data (points) among replicas of {escape(check.comparison.best)}: '
        "95 % of them in the light band, 95 % of those that would have been fitted like the data "
        f"in the dark one.</p>{panels}"
        + html.table(Table(("adjusted p-value of", *check.models), tuple(rows)), "p-values")
        + '<p class="note">P-values are adjusted for the number of comparisons; one below 0.01 '
        "contradicts the model. `driftbayes check` does this at other sampling times.</p>"
    )


def prior_panels(found: "Examination") -> list[Panel]:
    """By how much ln K of each model against the first moves with the scales of the priors."""
    panels = []
    for place, one in found.sensitivity.items():
        reference = next(iter(one.log_bayes_factors)).partition(":")[2]
        # All parameters together, less what the factor 1 gives.
        moves = {
            pair.partition(":")[0]: values[0] - values[0, len(one.factors) // 2]
            for pair, values in one.log_bayes_factors.items()
            if pair.partition(":")[2] == reference
        }
        at = readable_time(one.tau, found.trajectories.time_unit)
        panels.append(
            Panel(
                f"prior_sensitivity_{place}",
                f"Change of ln K at τ = {at}",
                one.factors,
                "scales of all priors, times",
                "change of ln K",
                [Curve(f"{m} over {reference}", m, values) for m, values in moves.items()],
                ("linear",),
                (0.0,),
                f"Change of ln K of each model against {reference} at a sampling time of {at}, the "
                "scales of all priors multiplied by one factor",
                at_tau=one.tau,
            )
        )
    return panels


def priors(found: "Examination", panels: str) -> str:
    """How much of the verdict is the prior's.

    Args:
        found: The examination.
        panels: The figures.
    """
    if not found.sensitivity:
        return _told(found, "sensitivity")
    rows = []
    for one in found.sensitivity.values():
        at = readable_time(one.tau, found.trajectories.time_unit)
        for pair, values in one.log_bayes_factors.items():
            unchanged = values[0, len(one.factors) // 2]
            sign = "changes" if one.verdict_changes(pair) else "stays"
            span = f"{values.min():.4g} … {values.max():.4g}"
            rows.append((at, f"ln K({pair})", f"{unchanged:.4g}", span, sign))
    low, high = (next(iter(found.sensitivity.values())).factors[i] for i in (0, -1))
    columns = ("τ", "", "as given", "range", "its sign")
    fixed = next(iter(found.sensitivity.values())).unmoved
    unmoved = (
        f" Not moved, since uniform between fixed bounds: {', '.join(fixed)}." if fixed else ""
    )
    return (
        f'<p class="note">Scales of the priors, all together and each by itself, multiplied by '
        f"factors from {low:.3g} to {high:.3g}.{unmoved}</p>"
        f"{panels}{html.table(Table(columns, tuple(rows)), 'priors-moved')}"
        + _told(found, "sensitivity")
    )


def _density(draws: "PosteriorDraws", i: int, label: str, tau: float) -> Panel:
    import jax.numpy as jnp

    name, parameter = draws.hypothesis.name, draws.names[i]
    heights, edges = np.histogram(draws.theta[:, i], bins=_BINS, density=True)
    centres = 0.5 * (edges[1:] + edges[:-1])
    prior = draws.hypothesis.priors[parameter]
    before = np.exp(np.asarray(prior.log_density(jnp.asarray(centres))))
    return Panel(
        f"posterior_{name}.{parameter}",
        f"{name}.{parameter}",
        centres,
        label,
        "probability density",
        [
            Curve("posterior", name, heights, np.zeros_like(heights), heights, kind="plain"),
            Curve("prior", name, before, kind="dashed"),
        ],
        reference=(0.0,),
        description=f"Posterior of {name}.{parameter} from {len(draws)} draws, prior dashed",
        x_scale="linear",
        at_tau=tau,
    )


def _label(draws: "PosteriorDraws", name: str, units: tuple[str, str]) -> str:
    about = draws.hypothesis.model.parameters[name]
    unit = about.unit(*units)
    return f"{about.symbol} ({unit})" if unit != "1" else about.symbol


def _band(label: str, model: str, edges: FloatArray) -> Curve:
    """A band without a line: medians of replicas are not data."""
    low, middle, high = edges
    return Curve(label, model, np.full(len(middle), np.nan), low, high)


def _told(found: "Examination", name: str) -> str:
    """What could not be done, and why."""
    reasons: Mapping[str, str] = found.left_out
    return f'<p class="note">Left out: {escape(reasons[name])}.</p>' if name in reasons else ""
