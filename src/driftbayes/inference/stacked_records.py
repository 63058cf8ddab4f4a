"""Records of data sets that were solved side by side."""

__all__ = ["stack_records"]

from collections.abc import Iterator

import numpy as np

from driftbayes.errors import Status
from driftbayes.inference._batch import Batch
from driftbayes.inference.derived import derived_at
from driftbayes.inference.evidence import Evidence, unidentified
from driftbayes.inference.formulas import prior_facts
from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.inference.stacked import StackSolution
from driftbayes.typing import FloatArray


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
    names, summary = hypothesis.names, described.summary
    priors, prior_sd = hypothesis.describe(), prior_facts(hypothesis).log_sd
    sd = np.sqrt(np.diagonal(summary.cov, axis1=1, axis2=2))

    def columns(values: FloatArray) -> list[dict[str, float]]:
        return [dict(zip(names, row, strict=True)) for row in values.tolist()]

    columns_of = zip(
        found.sets.tolist(),
        found.log_evidence.tolist(),
        found.error.tolist(),
        found.n_nodes.tolist(),
        described.log_likelihood_at_map.tolist(),
        summary.expected_log_likelihood.tolist(),
        *map(columns, (described.theta_map, summary.mean, sd, summary.log_mean, summary.log_sd)),
        columns(1 - summary.log_sd / prior_sd),
        strict=True,
    )
    for row, (
        i,
        log_z,
        error,
        n,
        fit,
        expected,
        mode,
        mean,
        sds,
        log_mean,
        log_sd,
        gain,
    ) in enumerate(columns_of):
        tau = data.tau(i)
        yield (
            i,
            Evidence(
                hypothesis=hypothesis.name,
                method="exact",
                log_evidence=log_z,
                log_evidence_err=error,
                log_likelihood_at_map=fit,
                map=mode,
                posterior_mean=mean,
                posterior_sd=sds,
                posterior_quantiles=dict(zip(names, summary.quantiles[row], strict=True)),
                posterior_cov=summary.cov[row],
                log_mean=log_mean,
                log_sd=log_sd,
                contraction=gain,
                expected_log_likelihood=expected,
                status=Status.OK,
                warnings=unidentified(gain, tau),
                tau=tau,
                data_fingerprint=data.fingerprint(i),
                priors=dict(priors),
                n_evaluations=n,
                derived=derived_at(hypothesis, data, i, described.theta_map[row]),
            ),
        )
