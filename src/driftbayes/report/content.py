"""What a report says: sentences, tables and panels, all from the dataset of a scan."""

__all__ = [
    "Table",
    "every_number",
    "panels",
    "parsed",
    "record",
    "repeat_command",
    "table_at",
    "verdict",
]

import json
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes.data.units import readable_time
from driftbayes.models import MODELS, Parameter, model_named
from driftbayes.priors import is_signed_prior
from driftbayes.report.svg import Curve, Panel, Scale

if TYPE_CHECKING:
    import xarray as xr

# Parameters that are diffusivities share a panel.
_DIFFUSIVITIES = ("kappa", "k")
_LOW, _MIDDLE, _HIGH = 0.16, 0.5, 0.84


@dataclass(frozen=True)
class Table:
    """A table of text.

    Args:
        columns: Its head.
        rows: Its rows.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def verdict(scan: "xr.Dataset", *, is_checked: bool = False) -> list[str]:
    """The answer in plain words: which model, at which times, how sure.

    Args:
        scan: Dataset of a scan.
        is_checked: Whether goodness of fit was looked at, and need not be advised.
    """
    taus, unit = _taus(scan), str(scan.attrs.get("time_unit", ""))
    names = _models(scan)
    probability = scan["probability"].values
    best = probability.argmax(axis=0)
    sentences = []
    if len(names) == 1:
        sentences.append(f"Only {names[0]} was fitted: there is nothing to compare it with.")
    else:
        starts = np.flatnonzero(np.diff(best, prepend=-1))
        ends = np.append(starts[1:], len(best)) - 1
        for first, last in zip(starts, ends, strict=True):
            chances = probability[best[first], first : last + 1]
            where = (
                f"at a sampling time of {readable_time(taus[first], unit)}"
                if first == last
                else f"at sampling times from {readable_time(taus[first], unit)} to "
                f"{readable_time(taus[last], unit)}"
            )
            sure = _sure(float(chances.min()), float(chances.max()))
            sentences.append(f"{_named(names[best[first]])} is the best {where}: {sure}.")
    consistency = json.loads(scan.attrs.get("consistency", "{}"))
    for name in dict.fromkeys(names[i] for i in best):
        sentence = consistency.get(name, {}).get("sentence")
        if sentence:
            sentences.append(f"{_named(name)}{sentence.removeprefix(name)}.")
    doubts = [
        f"{name} at {int(bad.sum())} of {len(taus)} sampling times"
        for name, bad in zip(names, scan["status"].values != "ok", strict=True)
        if bad.any()
    ]
    if doubts:
        sentences.append(f"The evidence is in doubt for {', '.join(doubts)}: see the table.")
    if is_checked:
        return sentences
    sentences.append(
        "This is a comparison of these models only; whether the best of them explains the data at "
        "all is another question, which `driftbayes check` answers."
    )
    return sentences


def _named(model: str) -> str:
    """A model at the beginning of a sentence."""
    return model[0].upper() + model[1:].replace("_", "-")


def _sure(low: float, high: float) -> str:
    if low > 0.99:
        return "its probability among those compared is above 0.99"
    chance = f"{low:.2g}" if f"{low:.2g}" == f"{high:.2g}" else f"{low:.2g} to {high:.2g}"
    if high < 0.75:
        return f"but this is not decided, with a probability of {chance}"
    return f"its probability among those compared is {chance}"


def panels(scan: "xr.Dataset") -> list[Panel]:
    """Parameters, Bayes factors, Occam factors and probabilities against the sampling time."""
    taus = _taus(scan)
    unit = str(scan.attrs.get("time_unit", ""))
    label = f"sampling time τ ({unit})" if unit else "sampling time τ"
    names = _models(scan)
    found = [_of_parameter(scan, group, taus, label) for group in _parameter_groups(scan)]
    if len(names) > 1:
        evidence = scan["log_evidence"].values
        curves = [
            Curve(f"{name} over {names[0]}", name, evidence[i] - evidence[0])
            for i, name in enumerate(names)
            if i
        ]
        found.append(
            Panel(
                "bayes_factors",
                f"Bayes factors against {names[0]}",
                taus,
                label,
                "ln K",
                curves,
                ("symlog", "linear"),
                (0.0,),
                f"Natural logarithm of the Bayes factor of each model against {names[0]}",
            )
        )
        chances = [Curve(name, name, scan["probability"].values[i]) for i, name in enumerate(names)]
        found.append(
            Panel(
                *("probabilities", "Probabilities of the models", taus, label, "probability"),
                chances,
                ("linear",),
                (0.0, 1.0),
                "Probability of each model among those compared, equal before the data",
            )
        )
    occam = [Curve(name, name, scan["log_occam_factor"].values[i]) for i, name in enumerate(names)]
    found.append(
        Panel(
            *("occam_factors", "What the freedom of the parameters cost", taus, label, "ln Occam"),
            occam,
            ("linear",),
            (0.0,),
            "Natural logarithm of the Occam factor: evidence over likelihood at the posterior mode",
        )
    )
    return found


def _parameter_groups(scan: "xr.Dataset") -> list[list[str]]:
    """Labels of parameters that share a panel."""
    groups: dict[str, list[str]] = {}
    for label in map(str, scan["parameter"].values):
        name = label.rpartition(".")[2]
        groups.setdefault("k" if name in _DIFFUSIVITIES else name, []).append(label)
    return list(groups.values())


def _about(model: str, name: str) -> Parameter:
    """What a parameter is; in three dimensions, where a tensor has all that it has in two."""
    return model_named(model, MODELS, 3).parameters[name]


def _of_parameter(scan: "xr.Dataset", labels: list[str], taus: np.ndarray, x: str) -> Panel:
    curves = []
    for label in labels:
        model = label.rpartition(".")[0]
        chosen = scan.sel(parameter=label)
        quantile = chosen["posterior_quantile"]
        low, middle, high = (quantile.sel(quantile=q).values for q in (_LOW, _MIDDLE, _HIGH))
        strong = chosen["consistent"].values.astype(bool)
        curves.append(Curve(label, model, middle, low, high, strong))
    model, _, name = labels[0].rpartition(".")
    about = _about(model, name)
    unit = about.unit(str(scan.attrs["length_unit"]), str(scan.attrs["time_unit"]))
    title = "Diffusivity" if name in _DIFFUSIVITIES else about.meaning.split(",")[0].capitalize()
    symbols = dict.fromkeys(
        _about(label.rpartition(".")[0], label.rpartition(".")[2]).symbol for label in labels
    )
    # Of a parameter that may be negative, a logarithm means nothing.
    signed = any(_is_signed(scan, label) for label in labels)
    scales: tuple[Scale, ...] = ("linear",) if signed else ("log", "linear")
    return Panel(
        f"parameter_{name}",
        title,
        taus,
        x,
        f"{', '.join(symbols)} ({unit})" if unit != "1" else ", ".join(symbols),
        curves,
        scales,
        (),
        f"Posterior median and central 68 % of {', '.join(labels)} against the sampling time; "
        "heavier where the parameter does not depend on it",
    )


def _is_signed(scan: "xr.Dataset", label: str) -> bool:
    """Whether the prior of a parameter lets it be negative."""
    model, _, name = label.rpartition(".")
    text = parsed(scan.attrs.get("priors")).get(model, {}).get(name)
    return text is not None and is_signed_prior(str(text))


def table_at(scan: "xr.Dataset", place: int) -> tuple[Table, Table]:
    """The models, and their parameters, at one sampling time."""
    at = scan.isel(tau=place)
    models = []
    for name in _models(scan):
        one = at.sel(model=name)
        error = float(one["log_evidence_err"])
        bar = f" ± {error:.0e}" if np.isfinite(error) else ""
        models.append(
            (
                name,
                f"{float(one['log_evidence']):.3f}{bar}",
                f"{float(one['log_likelihood_at_map']):.3f}",
                f"{float(one['log_occam_factor']):.3f}",
                f"{float(one['information_gain']):.3f}",
                f"{float(one['probability']):.4g}",
                str(one["status"].values),
            )
        )
    parameters = []
    length, time = str(scan.attrs["length_unit"]), str(scan.attrs["time_unit"])
    for label in map(str, scan["parameter"].values):
        one = at.sel(parameter=label)
        model, _, name = label.rpartition(".")
        low, high = (float(one["posterior_quantile"].isel(quantile=i)) for i in (0, -1))
        parameters.append(
            (
                label,
                f"{float(one['posterior_mean']):.4g} ± {float(one['posterior_sd']):.2g}",
                f"{low:.4g} … {high:.4g}",
                _about(model, name).unit(length, time),
                "yes" if bool(one["consistent"]) else "no",
            )
        )
    return (
        Table(
            ("model", "ln Z", "ln L at MAP", "ln Occam", "information", "probability", "status"),
            tuple(models),
        ),
        Table(
            ("parameter", "mean ± sd", "95 %", "unit", "consistent in τ"),
            tuple(parameters),
        ),
    )


def every_number(scan: "xr.Dataset") -> list[dict[str, Any]]:
    """Every plotted and tabulated number, one record for each sampling time and quantity."""
    records = []
    for i, tau in enumerate(_taus(scan)):
        at = scan.isel(tau=i)
        for name in _models(scan):
            one = at.sel(model=name)
            for field in (
                *("log_evidence", "log_evidence_err", "log_likelihood_at_map", "log_occam_factor"),
                *("information_gain", "probability"),
            ):
                records.append(record(tau, name, "", field, float(one[field])))
        for label in map(str, scan["parameter"].values):
            model, _, name = label.rpartition(".")
            one = at.sel(parameter=label)
            for field in ("map", "posterior_mean", "posterior_sd", "contraction"):
                records.append(record(tau, model, name, field, float(one[field])))
            for q in scan["quantile"].values:
                value = float(one["posterior_quantile"].sel(quantile=q))
                records.append(record(tau, model, name, f"quantile_{q:g}", value))
            records.append(record(tau, model, name, "consistent", float(one["consistent"])))
    return records


def record(
    tau: float, model: str, parameter: str, field: str, value: float, *, at: float | None = None
) -> dict[str, Any]:
    """One number, with what it is and where it belongs.

    Args:
        tau: Sampling time.
        model: Name of the model; "data" for what is observed.
        parameter: Name of the parameter, if it is of one.
        field: What the number is.
        value: The number; null if it is not finite.
        at: Where along its panel, if that is not the sampling time.
    """
    return {
        "tau": float(tau),
        "model": model,
        "parameter": parameter,
        "field": field,
        "at": at,
        "value": value if np.isfinite(value) else None,
    }


def repeat_command(scan: "xr.Dataset") -> str:
    """The command that repeats the scan, from what its file stores."""
    options = parsed(scan.attrs.get("options"))
    source = parsed(scan.attrs.get("provenance")).get("source") or "FILE"
    words = [
        "driftbayes",
        "scan",
        str(source),
        "--taus",
        ",".join(f"{t:.10g}" for t in _taus(scan)),
    ]
    for name, value in parsed(scan.attrs.get("provenance")).get("reading", {}).items():
        words += [f"--{name.replace('_', '-')}", *([value] if value else [])]
    words += ["--models", ",".join(_models(scan))]
    priors = parsed(scan.attrs.get("priors"))
    for name, prior in {n: p for table in priors.values() for n, p in table.items()}.items():
        words += ["--prior", f"{name}={prior}"]
    method = str(scan.attrs.get("method", "exact"))
    if method in ("laplace", "laplace_is", "bridge", "smc", "nested"):
        words += ["--method", method]
    if method == "laplace" and options.get("coords", "natural") != "natural":
        words += ["--coords", str(options["coords"])]
    if options.get("n_tau") is not None:
        words += ["--n-tau", str(options["n_tau"]), "--windows", str(options.get("windows"))]
    if options.get("gaps", "split") != "split":
        words += ["--gaps", str(options["gaps"])]
    if options.get("seed"):
        words += ["--seed", str(options["seed"])]
    if options.get("prior_probabilities"):
        words += ["--model-prior", ",".join(f"{p:g}" for p in options["prior_probabilities"])]
    return shlex.join(words)


def parsed(text: object) -> dict[str, Any]:
    """An attribute of a scan that is a JSON object; empty if it is none."""
    try:
        found = json.loads(str(text))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _taus(scan: "xr.Dataset") -> np.ndarray:
    return np.asarray(scan["tau"].values, dtype=np.float64)


def _models(scan: "xr.Dataset") -> list[str]:
    return [str(name) for name in scan["model"].values]
