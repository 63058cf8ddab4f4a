"""Records of evidences, made from the posterior of the parameters."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from driftbayes._typing import FloatArray
from driftbayes.inference._batch import Batch
from driftbayes.inference._density import Density
from driftbayes.inference._evidence import Evidence, make_estimates, parameter_warnings
from driftbayes.inference._hypothesis import Hypothesis


@dataclass(frozen=True)
class Posterior:
    """Moments and quantiles of the parameters, in the order of θ.

    Args:
        mean: Means.
        cov: Covariance.
        quantiles: Quantiles at `QUANTILES`, (parameter, probability).
        log_mean: Means of ln θ; of θ if it is signed.
        log_sd: Standard deviations of ln θ or θ.
        expected_log_likelihood: Mean of ln L.
    """

    mean: FloatArray
    cov: FloatArray
    quantiles: FloatArray
    log_mean: FloatArray
    log_sd: FloatArray
    expected_log_likelihood: Any


def make_record(
    hypothesis: Hypothesis,
    data: Batch,
    index: int,
    theta_map: FloatArray,
    posterior: Posterior,
    warnings: tuple[str, ...] = (),
    **fields: Any,
) -> Evidence:
    """Make the record of an evidence, with warnings about parameters.

    Args:
        hypothesis: Model family and prior.
        data: The data sets.
        index: Index of the data set.
        theta_map: Mode of the density of θ.
        posterior: Moments and quantiles.
        warnings: Warnings about the computation.
        **fields: Other fields of the record.
    """
    estimates = make_estimates(
        hypothesis,
        data.unit_names,
        posterior.quantiles,
        mode=theta_map,
        mean=posterior.mean,
        sd=np.sqrt(np.diag(posterior.cov)),
        log_mean=posterior.log_mean,
        log_sd=posterior.log_sd,
        contraction=1 - posterior.log_sd / hypothesis.prior_log_sd,
    )
    return Evidence(
        hypothesis=hypothesis,
        parameters=estimates,
        posterior_cov=posterior.cov,
        expected_log_likelihood=posterior.expected_log_likelihood,
        warnings=(*warnings, *parameter_warnings(hypothesis, estimates, data.tau_text(index))),
        tau=data.tau(index),
        time_unit=data.unit_names[1],
        data_fingerprint=data.fingerprint(index),
        derived=_derived(hypothesis, data, index, theta_map),
        **fields,
    )


def _derived(
    hypothesis: Hypothesis, data: Batch, index: int, theta: FloatArray
) -> dict[str, float]:
    """Compute the quantities that the model derives from θ and the data."""
    model = hypothesis.model
    if not model.has_derived:
        return {}
    return Density(hypothesis, data.engine(index, model)).derived(theta)
