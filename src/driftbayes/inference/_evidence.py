"""The record of an evidence, with one estimate per parameter."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._representation import (
    Described,
    amount,
    to_dataframe,
    to_dataset,
    to_datatree,
    with_error,
)
from driftbayes._typing import FloatArray
from driftbayes.errors import Status
from driftbayes.inference._hypothesis import UNEXPECTED, Hypothesis

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

# Prefix of warnings about a conflict between prior and data.
_CONFLICT = "prior and data are in conflict"


@dataclass(frozen=True, eq=False)
class ParameterEstimate:
    """Posterior and prior of one parameter.

    Args:
        name: Name of the parameter.
        unit: Its unit, in the units of the data.
        prior: Its prior, as text.
        mode: Its value at the mode of the posterior density of the natural parameters (MAP).
        mean: Posterior mean.
        sd: Posterior standard deviation.
        quantiles: Posterior quantiles at 2.5, 16, 50, 84 and 97.5 %.
        log_mean: Posterior mean of ln θ; of θ if the parameter is signed.
        log_sd: Posterior standard deviation of ln θ or θ.
        contraction: 1 - log_sd / log_sd of the prior: 0 if the data are uninformative, at most 1.
    """

    name: str
    unit: str
    prior: str
    mode: float
    mean: float
    sd: float
    quantiles: FloatArray
    log_mean: float
    log_sd: float
    contraction: float

    @property
    def median(self) -> float:
        """Posterior median."""
        return float(self.quantiles[len(self.quantiles) // 2])

    @property
    def interval(self) -> tuple[float, float]:
        """Central 95 % credible interval."""
        return float(self.quantiles[0]), float(self.quantiles[-1])

    def __repr__(self) -> str:
        """Show mean, standard deviation and unit."""
        unit = "" if self.unit == "1" else self.unit
        return f"{self.name} = {with_error(self.mean, self.sd)} {unit}".rstrip()


def make_estimates(
    hypothesis: Hypothesis,
    units: tuple[str, str],
    quantiles: Sequence[FloatArray] | FloatArray,
    **columns: Any,
) -> dict[str, ParameterEstimate]:
    """Make one estimate for each inferred parameter.

    Args:
        hypothesis: Model family and prior.
        units: Names of the units of length and time.
        quantiles: Quantiles of each parameter.
        **columns: `mode`, `mean`, `sd`, `log_mean`, `log_sd` and `contraction`, one number per
            parameter.
    """
    about, priors = hypothesis.model.parameters, hypothesis.describe()
    rows = zip(*columns.values(), strict=True)
    return {
        name: ParameterEstimate(
            name=name,
            unit=about[name].unit(*units),
            prior=priors[name],
            quantiles=np.asarray(values),
            **dict(zip(columns, map(float, row), strict=True)),
        )
        for name, values, row in zip(hypothesis.names, quantiles, rows, strict=True)
    }


def column(estimates: Mapping[str, ParameterEstimate], field: str) -> dict[str, Any]:
    """Return one field of every estimate, by name."""
    return {name: getattr(estimate, field) for name, estimate in estimates.items()}


# Median, and ends of the central 68 % and 95 % intervals of the posterior.
QUANTILES = (0.025, 0.16, 0.5, 0.84, 0.975)


@dataclass(frozen=True, eq=False, repr=False)
class Evidence(Described):
    r"""Evidence and posterior of one hypothesis.

    $$\ln Z = \ln p(D \mid \theta^*) + \ln \mathrm{Occam}
            = \mathrm{E}_\text{post}[\ln L] - \mathrm{KL}(\text{posterior} \,\|\, \text{prior})$$

    The first split is the paper's [eq:occam], with θ* the posterior mode in natural parameters;
    the second does not depend on coordinates.

    Args:
        hypothesis: Model family and prior.
        method: Name of the method: "exact", "laplace", "laplace_is", "bridge", "smc" or "nested".
        log_evidence: ln p(D | M), with all constants. Paper: [eq:evidence].
        log_evidence_err: Standard error in nats; NaN if the method has none.
        log_likelihood_at_map: ln p(D | M(θ*)).
        parameters: Posterior of each inferred parameter, by name.
        posterior_cov: Covariance of θ, in the order of the parameters.
        expected_log_likelihood: Posterior mean of the log-likelihood.
        status: Outcome of the computation.
        warnings: Warnings in words.
        tau: Sampling time of the data.
        time_unit: Its unit, empty if unknown.
        data_fingerprint: Hash of the data, tau and units; must agree between compared evidences.
        coords: Coordinates of Laplace's method, "natural" or "log"; empty for other methods.
        seed: Random seed of a sampling method; None for others.
        n_evaluations: Evaluations of the likelihood.
        diagnostics: Diagnostics of a sampling method by name, for example "pareto_k".
        derived: Quantities derived from θ* and the data by name, for example the mean flow.
        draws: Equally likely draws of θ, (draw, parameter), if the method draws any.

    Example:
        >>> import driftbayes as db
        >>> brownian = db.Hypothesis(db.Brownian, kappa=db.Exponential(1.0))
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> found = db.evidence(brownian, db.displacements(tracks, tau=0.5))
        >>> found.status, list(found.parameters)
        (<Status.OK: 'ok'>, ['kappa'])
    """

    hypothesis: Hypothesis
    method: str
    log_evidence: float
    log_evidence_err: float
    log_likelihood_at_map: float
    parameters: Mapping[str, ParameterEstimate]
    posterior_cov: FloatArray
    expected_log_likelihood: float
    status: Status
    tau: float
    data_fingerprint: str
    warnings: tuple[str, ...] = field(default=())
    coords: str = ""
    seed: int | None = None
    n_evaluations: int | None = None
    diagnostics: Mapping[str, float] = field(default_factory=dict)
    derived: Mapping[str, float] = field(default_factory=dict)
    draws: FloatArray | None = None
    time_unit: str = ""

    @property
    def name(self) -> str:
        """Name of the model family."""
        return self.hypothesis.name

    @property
    def priors(self) -> dict[str, str]:
        """Priors of all parameters, as text."""
        return self.hypothesis.describe()

    @cached_property
    def map(self) -> dict[str, float]:
        """θ*, the mode of the posterior density of the natural parameters."""
        return column(self.parameters, "mode")

    @cached_property
    def posterior_mean(self) -> dict[str, float]:
        """Posterior mean of each parameter."""
        return column(self.parameters, "mean")

    @cached_property
    def posterior_sd(self) -> dict[str, float]:
        """Posterior standard deviation of each parameter."""
        return column(self.parameters, "sd")

    @cached_property
    def posterior_quantiles(self) -> dict[str, FloatArray]:
        """Quantiles of each parameter at `QUANTILES`."""
        return column(self.parameters, "quantiles")

    @cached_property
    def log_mean(self) -> dict[str, float]:
        """Posterior mean of ln θ of each parameter; of θ if it is signed."""
        return column(self.parameters, "log_mean")

    @cached_property
    def log_sd(self) -> dict[str, float]:
        """Posterior standard deviation of ln θ of each parameter; of θ if it is signed."""
        return column(self.parameters, "log_sd")

    @cached_property
    def contraction(self) -> dict[str, float]:
        """Contraction of each posterior relative to its prior, 0 to 1."""
        return column(self.parameters, "contraction")

    @property
    def log_occam_factor(self) -> float:
        """Ln of the Occam factor, ln Z - ln p(D | θ*). Paper: [eq:occam]."""
        return self.log_evidence - self.log_likelihood_at_map

    @property
    def information_gain(self) -> float:
        """Kullback-Leibler divergence of the posterior from the prior, in nats."""
        return self.expected_log_likelihood - self.log_evidence

    @property
    def unidentified_parameters(self) -> tuple[str, ...]:
        """Parameters whose posterior is wider than half of the prior."""
        return tuple(n for n, value in self.contraction.items() if not value >= _MIN_CONTRACTION)

    @property
    def parameters_near_zero(self) -> tuple[str, ...]:
        """Parameters, not identified, of which the data give an upper limit."""
        pairs = zip(self.parameters.values(), self.hypothesis.expected, strict=True)
        return tuple(
            estimate.name
            for estimate, (_, median, _) in pairs
            if _is_near_zero(self.hypothesis, estimate, median)
        )

    @property
    def contradicts_prior(self) -> bool:
        """Whether the posterior of a parameter conflicts with its prior."""
        return any(text.startswith(_CONFLICT) for text in self.warnings)

    def to_json(self) -> dict[str, Any]:
        """Convert to plain numbers and text; values that are not finite become None."""
        numbers = (
            *("log_evidence", "log_evidence_err", "log_likelihood_at_map", "log_occam_factor"),
            *("information_gain", "map", "posterior_sd", "posterior_mean", "posterior_quantiles"),
            *("contraction", "derived"),
        )
        record: dict[str, Any] = {
            **{name: _plain(getattr(self, name)) for name in numbers},
            "priors": self.priors,
            "status": self.status.value,
            "warnings": list(self.warnings),
        }
        if self.seed is not None:
            record |= {"seed": self.seed, "n_evaluations": self.n_evaluations}
            record["diagnostics"] = _plain(self.diagnostics)
        return record

    def to_dataframe(self) -> "pd.DataFrame":
        """Convert to a pandas table by parameter; see `Comparison.to_dataframe` for units."""
        return to_dataframe(self)

    def to_dataset(self) -> "xr.Dataset":
        """Convert to an xarray Dataset along the parameters."""
        return to_dataset(self)

    def to_datatree(self) -> "xr.DataTree":
        """Convert to a tree for ArviZ; only samplers have draws, else use `posterior_draws`."""
        return to_datatree(self)


# Least contraction of an identified parameter: the data halve the width of ln θ.
_MIN_CONTRACTION = 0.5


def _is_near_zero(hypothesis: Hypothesis, estimate: ParameterEstimate, median: float) -> bool:
    """Whether the data give an upper limit below the prior median, though no width of ln θ."""
    is_limit = estimate.interval[1] < median and not hypothesis.priors[estimate.name].is_signed
    return is_limit and not estimate.contraction >= _MIN_CONTRACTION


def parameter_warnings(
    hypothesis: Hypothesis, estimates: Mapping[str, ParameterEstimate], tau: str
) -> tuple[str, ...]:
    """Warn of parameters that are not identified, and of priors in conflict with the data."""
    warnings = []
    for estimate, expected in zip(estimates.values(), hypothesis.expected, strict=True):
        name, prior = estimate.name, hypothesis.priors[estimate.name]
        low, high = estimate.interval
        least, median, largest = expected
        if _is_near_zero(hypothesis, estimate, median):
            limit = amount(high, estimate.unit, 2)
            warnings.append(f"{name} is consistent with zero at tau = {tau}; 97.5 % limit {limit}")
        elif not estimate.contraction >= _MIN_CONTRACTION:
            warnings.append(
                f"the posterior of {name} is hardly narrower than its prior: {name} is not "
                f"identifiable at tau = {tau}"
            )
        elif high < least or low > largest:
            median_text = amount(estimate.median, estimate.unit, 3)
            warnings.append(
                f"{_CONFLICT}: {name} = {median_text} has a prior probability below "
                f"{UNEXPECTED:g} ({prior.describe(6)}); set its prior or its scales"
            )
    return tuple(warnings)


def _plain(value: Any) -> Any:
    """Convert numbers, quantiles and mappings of them to plain numbers; None if not finite."""
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if np.ndim(value):
        return {f"{q:g}": _plain(v) for q, v in zip(QUANTILES, value, strict=True)}
    return float(value) if np.isfinite(value) else None
