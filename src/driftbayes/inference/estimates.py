"""What is known of one parameter after the data."""

__all__ = ["ParameterEstimate", "make_estimates"]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.typing import FloatArray


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
        text = f"{self.name} = {self.mean:.5g} ± {self.sd:.2g}"
        return f"{text} {self.unit}".rstrip()


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
