"""Describe evidences and hypotheses, and convert them to pandas and xarray."""

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._representation import (
    Card,
    Curve,
    Panel,
    Table,
    describe,
    matched,
    number,
    summarise,
    to_dataframe,
    to_dataset,
    to_datatree,
    with_error,
    with_unit,
)
from driftbayes._version import __version__
from driftbayes.data._units import readable
from driftbayes.errors import Status
from driftbayes.inference._evidence import QUANTILES, Evidence
from driftbayes.inference._hypothesis import Hypothesis

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from driftbayes.inference._draws import PosteriorDraws

MODEL_FIELDS = (
    *("log_evidence", "log_evidence_err", "log_likelihood_at_map", "log_occam_factor"),
    "information_gain",
)
PARAMETER_FIELDS = ("map", "posterior_mean", "posterior_sd", "log_mean", "log_sd", "contraction")
# Units of the model columns; those of parameters are in the column `unit`.
UNITS = dict.fromkeys(MODEL_FIELDS, "nat")


def model_table(evidences: Sequence[Evidence], probabilities: Mapping[str, float]) -> Table:
    """Tabulate evidences, their decomposition, and model probabilities."""
    rows = [
        (
            e.name,
            with_error(e.log_evidence, e.log_evidence_err, 4),
            f"{e.log_likelihood_at_map:.3f}",
            f"{e.log_occam_factor:.3f}",
            f"{e.information_gain:.3f}",
            number(probabilities[e.name]),
            e.status.value,
        )
        for e in evidences
    ]
    columns = ("model", "ln Z", "ln L(MAP)", "ln Occam", "D_KL", "P(model)", "status")
    shares = tuple(probabilities[e.name] for e in evidences)
    return Table(columns, (*rows,), "lrrrrrl", shares)


def parameter_table(evidences: Sequence[Evidence], title: str = "") -> Table:
    """Tabulate posteriors and priors of all parameters."""
    rows = [
        (
            f"{e.name}.{name}" if len(evidences) > 1 else name,
            found.unit,
            matched(found.mode, found.sd),
            with_error(found.mean, found.sd),
            " … ".join(matched(edge, found.sd) for edge in found.interval),
            e.hypothesis.priors[name].describe(6),
        )
        for e in evidences
        for name, found in e.parameters.items()
    ]
    columns = ("parameter", "unit", "MAP", "mean ± sd", "95 % interval", "prior")
    return Table(columns, (*rows,), "llrrrl", title=title)


@summarise.register
def _(record: Evidence) -> str:
    parameters = ", ".join(map(repr, record.parameters.values()))
    log_evidence = with_error(record.log_evidence, record.log_evidence_err, 4)
    status = record.status.value
    return f"{record.name} ({record.method}), ln Z = {log_evidence}, {parameters}, {status}"


@describe.register
def describe_evidence(record: Evidence) -> Card:
    """Describe the evidence, its decomposition, and the posterior."""
    status = record.status.value
    if record.status is not Status.OK:
        status += f": {record.status.advice}"
    facts = [
        ("ln Z", with_error(record.log_evidence, record.log_evidence_err, 4)),
        ("ln L(MAP)", f"{record.log_likelihood_at_map:.3f}"),
        ("ln Occam factor", f"{record.log_occam_factor:.3f}"),
        ("information gain", f"{record.information_gain:.3f} nats"),
        ("status", status),
        *derived_facts(record),
        *([] if record.seed is None else [("seed", str(record.seed))]),
        ("data", record.data_fingerprint),
    ]
    headline = f"{record.name} at tau = {readable(record.tau, record.time_unit)} ({record.method})"
    table = parameter_table([record])
    return Card("Evidence", headline, (*facts,), tables=(table,), warnings=record.warnings)


def derived_facts(record: Evidence, units: tuple[str, str] = ("", "")) -> list[tuple[str, str]]:
    """List derived quantities at θ*, with standard deviation and unit if known."""
    derived, about = record.derived, record.hypothesis.model.parameters
    found = []
    for name, value in derived.items():
        if name.endswith("_sd") and name.removesuffix("_sd") in derived:
            continue
        text = with_error(value, derived.get(f"{name}_sd", 0.0))
        parameter = name.partition("_")[0]
        unit = about[parameter].unit(*units) if parameter in about and all(units) else ""
        found.append((name, f"{text} {unit}".rstrip()))
    return found


@summarise.register
def _(hypothesis: Hypothesis) -> str:
    priors = (f"{name} ~ {prior.describe(6)}" for name, prior in hypothesis.priors.items())
    return ", ".join([hypothesis.name, *priors])


@describe.register
def describe_hypothesis(hypothesis: Hypothesis) -> Card:
    """Describe the model and, for each parameter, its meaning and prior."""
    rows = [
        (name, about.symbol, about.unit(), hypothesis.priors[name].describe(6), about.meaning)
        for name, about in hypothesis.model.parameters.items()
    ]
    table = Table(("parameter", "", "unit", "prior", "meaning"), (*rows,), "lllll")
    return Card("Hypothesis", f"{hypothesis.name}, {hypothesis.model.summary}", tables=(table,))


def posterior_panels(draws: "PosteriorDraws", tau: float, units: tuple[str, str]) -> list[Panel]:
    """Make panels of the posterior and prior densities, and of the first two parameters jointly.

    Args:
        draws: Draws from the posterior.
        tau: Sampling time.
        units: Units of length and time.
    """
    from driftbayes.inference._marginals import posterior_density

    model = draws.hypothesis.name
    about = draws.hypothesis.model.parameters
    labels = [with_unit(about[name].symbol, about[name].unit(*units)) for name in draws.names]
    panels = []
    for i, name in enumerate(draws.names):
        values, heights = posterior_density(draws, name)
        prior = draws.hypothesis.priors[name].log_density(values)
        panels.append(
            Panel(
                f"posterior_{model}.{name}",
                f"{model}.{name}",
                values,
                labels[i],
                "probability density",
                [
                    Curve(
                        "posterior", model, heights, np.zeros(len(values)), heights, kind="plain"
                    ),
                    Curve("prior", model, np.exp(np.asarray(prior)), kind="dashed"),
                ],
                reference=(0.0,),
                description=f"Posterior density of {model}.{name}, prior density dashed",
                x_scale="linear",
                at_tau=tau,
            )
        )
    if len(draws.names) > 1:
        order = np.argsort(draws.theta[:, 0])
        panels.append(
            Panel(
                f"joint_{model}",
                f"{model}: {draws.names[0]} and {draws.names[1]}",
                draws.theta[order, 0],
                labels[0],
                labels[1],
                [Curve(f"draws of {model}", model, draws.theta[order, 1], kind="points")],
                description=f"{len(draws)} draws from the posterior of {model}",
                x_scale="linear",
                at_tau=tau,
            )
        )
    return panels


def evidence_rows(record: Evidence) -> list[dict[str, Any]]:
    """Return one row per parameter; each repeats the numbers of the model."""
    return [
        {
            "tau": record.tau,
            "model": record.name,
            "parameter": name,
            "unit": record.parameters[name].unit,
            **{field: float(getattr(record, field)[name]) for field in PARAMETER_FIELDS},
            **{
                f"quantile_{q:g}": float(value)
                for q, value in zip(QUANTILES, record.posterior_quantiles[name], strict=True)
            },
            "prior": record.priors.get(name, ""),
            **{field: float(getattr(record, field)) for field in MODEL_FIELDS},
            "method": record.method,
            "status": record.status.value,
            "warnings": "; ".join(record.warnings),
            "data_fingerprint": record.data_fingerprint,
        }
        for name in record.map
    ]


@to_dataframe.register(Evidence)
def _(record: Evidence) -> "pd.DataFrame":
    import pandas as pd

    frame = pd.DataFrame(evidence_rows(record))
    frame.attrs = {"units": dict(UNITS), **_attributes(record)}
    return frame


@to_dataset.register(Evidence)
def evidence_dataset(record: Evidence) -> "xr.Dataset":
    """Convert an evidence to an xarray Dataset along `parameter`."""
    import xarray as xr

    names = list(record.map)
    variables: dict[str, Any] = {
        field: ((), float(getattr(record, field)), {"units": UNITS[field]})
        for field in MODEL_FIELDS
    }
    for field in PARAMETER_FIELDS:
        variables[field] = "parameter", np.array([getattr(record, field)[name] for name in names])
    values = [np.asarray(record.posterior_quantiles[name]) for name in names]
    variables["posterior_quantile"] = ("parameter", "quantile"), np.array(values)
    variables["posterior_cov"] = ("parameter", "other"), np.asarray(record.posterior_cov)
    coords = {
        "parameter": names,
        "other": names,
        "quantile": list(QUANTILES),
        "unit": ("parameter", [record.parameters[name].unit for name in names]),
        "prior": ("parameter", [record.priors.get(name, "") for name in names]),
    }
    return xr.Dataset(variables, coords=coords, attrs=_attributes(record))


@to_datatree.register(Evidence)
def evidence_datatree(record: Evidence) -> "xr.DataTree":
    """Make a tree for ArviZ: group `summary`, and `posterior` if the method draws samples."""
    import xarray as xr

    about = {"log_evidence": record.log_evidence, "log_evidence_err": record.log_evidence_err}
    groups = {
        "/": xr.Dataset(attrs={**about, **_attributes(record)}),
        "/summary": evidence_dataset(record),
    }
    if record.draws is not None:
        groups["/posterior"] = xr.Dataset(
            {
                name: (("chain", "draw"), values[None], {"units": record.parameters[name].unit})
                for name, values in zip(record.map, record.draws.T, strict=True)
            },
            coords={"chain": [0], "draw": np.arange(len(record.draws))},
        )
    return xr.DataTree.from_dict(groups, name=record.name)


def _attributes(record: Evidence) -> dict[Hashable, Any]:
    """Return attributes that a file can store: text and numbers only."""
    attributes: dict[Hashable, Any] = {
        "hypothesis": record.name,
        "method": record.method,
        "coords": record.coords,
        "status": record.status.value,
        "warnings": "; ".join(record.warnings),
        "tau": record.tau,
        "time_unit": record.time_unit,
        "data_fingerprint": record.data_fingerprint,
        "driftbayes_version": __version__,
        # Read by ArviZ.
        "inference_library": "driftbayes",
        "inference_library_version": __version__,
    }
    if record.seed is not None:
        attributes["seed"] = record.seed
    return attributes
