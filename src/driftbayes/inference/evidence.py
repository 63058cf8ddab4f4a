"""Evidence: the record that every method returns, with one estimate per parameter."""

__all__ = [
    "QUANTILES",
    "Evidence",
    "ParameterEstimate",
    "make_estimates",
    "parameter_warnings",
]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes.errors import Status
from driftbayes.inference.formulas import UNEXPECTED, prior_facts
from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.representation import (
    Described,
    amount,
    to_dataframe,
    to_dataset,
    to_datatree,
    with_error,
)
from driftbayes.typing import FloatArray

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

# Beginning of a warning of a prior that the data contradict.
_CONFLICT = "prior and data are in conflict"


@dataclass(frozen=True, eq=False)
class ParameterEstimate:
    """Posterior of one parameter, and its prior.

    Args:
        name: Name of the parameter.
        unit: Its unit, in the units of the data.
        prior: Its prior, as text.
        mode: Its value at the mode of the posterior density of the natural parameters (MAP).
        mean: Posterior mean.
        sd: Posterior standard deviation.
        quantiles: Posterior quantiles at 2.5, 16, 50, 84 and 97.5 %.
        log_mean: Posterior mean of its logarithm; of itself if it is signed.
        log_sd: Posterior standard deviation of the same.
        contraction: 1 - log_sd / log_sd of the prior: 0 if nothing was learned, 1 if all.
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
        """Mean, standard deviation and unit."""
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
        quantiles: For each parameter, its quantiles.
        **columns: `mode`, `mean`, `sd`, `log_mean`, `log_sd` and `contraction`, one number for each
            parameter.
    """
    about, priors = hypothesis.model.parameters, hypothesis.describe()
    rows = zip(*columns.values(), strict=True)
    return {
        name: ParameterEstimate(
            name=name,
            unit=about[name].unit(*units),
            prior=priors[name],
            quantiles=np.asarray(of_parameter),
            **dict(zip(columns, map(float, row), strict=True)),
        )
        for name, of_parameter, row in zip(hypothesis.names, quantiles, rows, strict=True)
    }


def column(estimates: Mapping[str, ParameterEstimate], field: str) -> dict[str, Any]:
    """One number of every parameter, by name."""
    return {name: getattr(one, field) for name, one in estimates.items()}


# Median, and the central 68 and 95 per cent of the posterior.
QUANTILES = (0.025, 0.16, 0.5, 0.84, 0.975)


@dataclass(frozen=True, eq=False, repr=False)
class Evidence(Described):
    r"""What the data say of one hypothesis.

    $$\ln Z = \ln p(D \mid \theta^*) + \ln \mathrm{Occam}
            = \mathrm{E}_\text{post}[\ln L] - \mathrm{KL}(\text{posterior} \,\|\, \text{prior})$$

    The first split is the paper's [eq:occam], with θ* the posterior mode in natural parameters;
    the second does not depend on coordinates.

    Args:
        hypothesis: Model family and prior.
        method: Its name: "exact", "laplace", "laplace_is", "bridge", "smc" or "nested".
        log_evidence: ln p(D | M), natural logarithm, full constants. Paper: [eq:evidence].
        log_evidence_err: Its error, one sigma in nats; NaN if the method has none.
        log_likelihood_at_map: ln p(D | M(θ*)).
        parameters: Posterior of each inferred parameter, by name.
        posterior_cov: Covariance of θ in the order of the parameters.
        expected_log_likelihood: Posterior mean of the log-likelihood.
        status: How the computation ended.
        warnings: What a reader should know, in words.
        tau: Sampling time of the data.
        time_unit: Its unit, empty if unknown.
        data_fingerprint: Hash of the data, tau and units; evidences compare only if it agrees.
        coords: Coordinates of Laplace's method, "natural" or "log"; empty for other methods.
        seed: Of a method that draws random numbers; None for others.
        n_evaluations: Evaluations of the likelihood by such a method, gradients counted as one.
        diagnostics: Named numbers by which to judge such a method, for example "pareto_k".
        derived: What follows from θ* and the data, for example the mean flow, by name.
        draws: Some equally likely draws of θ, (draw, parameter), if the method gives any.
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
        """The priors of all parameters, as text."""
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
        """For each parameter, its quantiles at `QUANTILES`."""
        return column(self.parameters, "quantiles")

    @cached_property
    def log_mean(self) -> dict[str, float]:
        """Posterior mean of the logarithm of each parameter; of itself if it is signed."""
        return column(self.parameters, "log_mean")

    @cached_property
    def log_sd(self) -> dict[str, float]:
        """Posterior standard deviation of the same."""
        return column(self.parameters, "log_sd")

    @cached_property
    def contraction(self) -> dict[str, float]:
        """How much narrower the posterior of each parameter is than its prior, 0 to 1."""
        return column(self.parameters, "contraction")

    @property
    def log_occam_factor(self) -> float:
        """Ln Z - ln p(D | θ*): what the freedom of the parameters cost. Paper: [eq:occam]."""
        return self.log_evidence - self.log_likelihood_at_map

    @property
    def information_gain(self) -> float:
        """Kullback-Leibler divergence of the posterior from the prior, in nats."""
        return self.expected_log_likelihood - self.log_evidence

    @property
    def unidentified_parameters(self) -> tuple[str, ...]:
        """Parameters whose prior width the data did not even halve."""
        return tuple(n for n, value in self.contraction.items() if not value >= IDENTIFIABLE)

    @property
    def contradicts_prior(self) -> bool:
        """Whether the data put a parameter where its prior hardly expects it."""
        return any(text.startswith(_CONFLICT) for text in self.warnings)

    def to_json(self) -> dict[str, Any]:
        """The record as plain numbers and text, with None for what is not finite."""
        return {
            "log_evidence": _finite(self.log_evidence),
            "log_evidence_err": _finite(self.log_evidence_err),
            "log_likelihood_at_map": _finite(self.log_likelihood_at_map),
            "log_occam_factor": _finite(self.log_occam_factor),
            "information_gain": _finite(self.information_gain),
            "map": {name: _finite(value) for name, value in self.map.items()},
            "posterior_sd": {name: _finite(value) for name, value in self.posterior_sd.items()},
            "posterior_mean": {name: _finite(value) for name, value in self.posterior_mean.items()},
            "posterior_quantiles": {
                name: {f"{q:g}": _finite(v) for q, v in zip(QUANTILES, values, strict=True)}
                for name, values in self.posterior_quantiles.items()
            },
            "contraction": {name: _finite(value) for name, value in self.contraction.items()},
            "derived": {name: _finite(value) for name, value in self.derived.items()},
            "priors": self.priors,
            "status": self.status.value,
            "warnings": list(self.warnings),
            **({} if self.seed is None else self._sampler_json()),
        }

    def _sampler_json(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "n_evaluations": self.n_evaluations,
            "diagnostics": {name: _finite(value) for name, value in self.diagnostics.items()},
        }

    def to_dataframe(self) -> "pd.DataFrame":
        """A pandas table, one row per parameter; see `Comparison.to_dataframe` for units."""
        return to_dataframe(self)

    def to_dataset(self) -> "xr.Dataset":
        """An xarray Dataset along the parameters."""
        return to_dataset(self)

    def to_datatree(self) -> "xr.DataTree":
        """A tree as ArviZ takes it; draws only of a method that draws, else `posterior_draws`."""
        return to_datatree(self)


# A parameter counts as identified if the data at least halved the width of ln θ.
IDENTIFIABLE = 0.5


def parameter_warnings(
    hypothesis: Hypothesis, estimates: Mapping[str, ParameterEstimate], tau: str
) -> tuple[str, ...]:
    """Warn of parameters whose size the data do not tell, and of priors that they contradict."""
    facts, found = prior_facts(hypothesis), []
    for i, (name, one) in enumerate(estimates.items()):
        prior = hypothesis.priors[name]
        low, high = one.interval
        least, median, largest = facts.expected[i]
        if not one.contraction >= IDENTIFIABLE:
            # Below a limit all magnitudes remain possible, which the width of ln θ does not tell.
            if high < median and not prior.is_signed:
                limit = amount(high, one.unit, 2)
                text = f"{name} is consistent with zero at tau = {tau}; 97.5 % limit {limit}"
                found.append(text)
            else:
                found.append(
                    f"the posterior of {name} is hardly narrower than its prior: {name} is not "
                    f"identifiable at tau = {tau}"
                )
        elif high < least or low > largest:
            given = amount(one.median, one.unit, 3)
            found.append(
                f"{_CONFLICT}: {name} = {given} has a prior probability below "
                f"{UNEXPECTED:g} ({prior.describe(6)}); set its prior or its scales"
            )
    return tuple(found)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
