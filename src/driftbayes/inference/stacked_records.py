"""Records of data sets that were solved side by side."""

__all__ = ["stack_records"]

from collections.abc import Iterator

import numpy as np

from driftbayes.errors import Status
from driftbayes.inference._batch import Batch
from driftbayes.inference.derived import derived_at
from driftbayes.inference.estimates import ParameterEstimate
from driftbayes.inference.evidence import Evidence, unidentified
from driftbayes.inference.formulas import prior_facts
from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.inference.stacked import StackSolution


def stack_records(
    hypothesis: Hypothesis, data: Batch, found: StackSolution
) -> Iterator[tuple[int, Evidence]]:
    """Number and evidence of each data set that was solved, if its posterior was described.

    Args:
        hypothesis: Model family and prior.
        data: All data sets.
        found: Those that were solved.
    """
    described = found.described
    if described is None:
        return
    summary, n_parameters = described.summary, len(hypothesis.names)
    about, priors = hypothesis.model.parameters, hypothesis.describe()
    prior_sd = prior_facts(hypothesis).log_sd
    # (data set, parameter, number), in the order of the fields of an estimate.
    numbers = np.stack(
        [
            described.theta_map,
            summary.mean,
            np.sqrt(np.diagonal(summary.cov, axis1=1, axis2=2)),
            summary.log_mean,
            summary.log_sd,
            1 - summary.log_sd / prior_sd,
        ],
        axis=2,
    ).tolist()
    columns = zip(
        found.sets.tolist(),
        found.log_evidence.tolist(),
        found.error.tolist(),
        found.n_nodes.tolist(),
        described.log_likelihood_at_map.tolist(),
        summary.expected_log_likelihood.tolist(),
        strict=True,
    )
    for row, (i, log_z, error, n, fit, expected) in enumerate(columns):
        tau, units = data.tau(i), data.units(i)
        estimates = {}
        for j in range(n_parameters):
            name = hypothesis.names[j]
            mode, mean, sd, log_mean, log_sd, gain = numbers[row][j]
            estimates[name] = ParameterEstimate(
                *(name, about[name].unit(*units), priors[name], mode, mean, sd),
                *(summary.quantiles[row, j], log_mean, log_sd, gain),
            )
        yield (
            i,
            Evidence(
                hypothesis=hypothesis,
                method="exact",
                log_evidence=log_z,
                log_evidence_err=error,
                log_likelihood_at_map=fit,
                parameters=estimates,
                posterior_cov=summary.cov[row],
                expected_log_likelihood=expected,
                status=Status.OK,
                warnings=unidentified(estimates, tau),
                tau=tau,
                data_fingerprint=data.fingerprint(i),
                n_evaluations=n,
                derived=derived_at(hypothesis, data, i, described.theta_map[row]),
            ),
        )
