"""The court: a hypothesis and the data go in, an `Evidence` comes out."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, get_args

import numpy as np

from driftbayes.data.sampling import Displacements
from driftbayes.errors import OUT_OF_MEMORY, DriftbayesError, Status, is_out_of_memory
from driftbayes.inference import describe as _describe  # noqa: F401  (registers descriptions)
from driftbayes.inference._batch import Batch
from driftbayes.inference.draws import PosteriorDraws, posterior_draws
from driftbayes.inference.evidence import QUANTILES, Evidence
from driftbayes.inference.exact import (
    LogEvidence,
    LogEvidences,
    exact,
    exact_batch,
    exact_log_evidences,
    exact_variants,
    is_integrable,
)
from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.inference.laplace import Coords, laplace, laplace_batch
from driftbayes.inference.sampled import SAMPLERS, USABLE, importance_variants, sampled_batch
from driftbayes.inference.truncation import with_truncation_error
from driftbayes.likelihood import ReducedDisplacements, SummedDisplacements
from driftbayes.likelihood.engines import DenseEngine
from driftbayes.likelihood.memory import check_bytes, check_memory
from driftbayes.precision import in_double_precision
from driftbayes.suggest import did_you_mean

__all__ = [
    "METHODS",
    "QUANTILES",
    "Batch",
    "Evidence",
    "Hypothesis",
    "LogEvidence",
    "LogEvidences",
    "Method",
    "PosteriorDraws",
    "evidence",
    "evidence_batch",
    "evidence_with_variants",
    "exact",
    "exact_batch",
    "laplace",
    "laplace_batch",
    "log_evidences",
    "posterior_draws",
]

Method = Literal["auto", "quadrature", "laplace", "laplace_is", "bridge", "smc", "nested"]
METHODS: tuple[Method, ...] = get_args(Method)

T = TypeVar("T")

# Trajectories of which the bridge takes minutes.
_MANY = 2000


@in_double_precision
def evidence(
    hypothesis: Hypothesis,
    data: Displacements | ReducedDisplacements | SummedDisplacements | Batch,
    *,
    method: Method = "auto",
    coords: Coords = "natural",
    **options: Any,
) -> Evidence:
    """The evidence of one hypothesis.

    Args:
        hypothesis: Model family and prior.
        data: Displacements at one tau.
        method: "auto" integrates exactly if no more than three parameters are left beside the
            scale, and samples otherwise: "laplace_is", and where its weights are not to be trusted
            "bridge"; "quadrature" insists on the first; "laplace" is the paper's approximation;
            "laplace_is", "bridge", "smc" and "nested" sample.
        coords: Coordinates of Laplace's method.
        **options: `tolerance`, the accepted error of ln Z in nats, of quadrature and
            "laplace_is"; of a sampler `seed`, and its own numbers of draws.
    """
    return evidence_batch([hypothesis], data, method=method, coords=coords, **options)[0]


@in_double_precision
def evidence_batch(
    hypotheses: Sequence[Hypothesis],
    data: Displacements | ReducedDisplacements | SummedDisplacements | Batch,
    *,
    method: Method = "auto",
    coords: Coords = "natural",
    **options: Any,
) -> list[Evidence]:
    """Evidences of one hypothesis for several data sets, or of several priors for one data set."""
    batch = data if isinstance(data, Batch) else Batch.of(data, model=hypotheses[0].model)
    _check(hypotheses, batch, method)
    # Priors that are the same have the same evidence.
    texts = [str(hypothesis.describe()) for hypothesis in hypotheses]
    distinct = [hypotheses[texts.index(text)] for text in dict.fromkeys(texts)]
    found = _in_memory(lambda: _evidences(distinct, batch, method, coords, options))
    order = list(dict.fromkeys(texts))
    records = found if len(hypotheses) == 1 else [found[order.index(text)] for text in texts]
    if _is_whole(hypotheses[0], batch):
        return records
    return [
        with_truncation_error(record, hypotheses[min(i, len(hypotheses) - 1)], batch[i])
        for i, record in enumerate(records)
    ]


@in_double_precision
def log_evidences(
    hypothesis: Hypothesis,
    data: Batch,
    *,
    method: Method = "auto",
    coords: Coords = "natural",
    **options: Any,
) -> LogEvidences:
    """Ln Z alone of one hypothesis for several data sets: faster where no posterior is wanted.

    Args:
        hypothesis: Model family and prior.
        data: Data sets, from `Batch.stack`.
        method: As for `evidence`.
        coords: Coordinates of Laplace's method.
        **options: As for `evidence`.
    """
    _check([hypothesis], data, method)
    is_exact = method == "quadrature" or (method == "auto" and is_integrable(hypothesis, data))
    if is_exact and _is_whole(hypothesis, data) and not set(options) - {"seed", "tolerance"}:
        tolerance = options.get("tolerance")
        return _in_memory(lambda: exact_log_evidences(hypothesis, data, tolerance=tolerance))
    records = evidence_batch([hypothesis], data, method=method, coords=coords, **options)
    return LogEvidences(
        np.array([record.log_evidence for record in records]),
        np.array([record.log_evidence_err for record in records]),
        tuple(record.status for record in records),
    )


def _is_whole(hypothesis: Hypothesis, batch: Batch) -> bool:
    """Whether the windows of the data leave nothing out of the likelihood."""
    return batch.is_summed and hypothesis.model.memory is not None


@in_double_precision
def evidence_with_variants(
    hypothesis: Hypothesis,
    others: Sequence[Hypothesis],
    data: Displacements | ReducedDisplacements | SummedDisplacements | Batch,
    *,
    method: Method = "auto",
    coords: Coords = "natural",
    seed: int = 0,
) -> tuple[Evidence, list[LogEvidence]]:
    """Compute the evidence of one hypothesis, and ln Z alone under other priors.

    Nodes under the first prior serve the others where they can; of these ln Z is good to 0.01.

    Args:
        hypothesis: Model family and prior.
        others: The same family with other priors.
        data: Displacements at one tau.
        method: As for `evidence`.
        coords: Coordinates of Laplace's method.
        seed: Random seed for sampling methods.
    """
    batch = data if isinstance(data, Batch) else Batch.of(data, model=hypothesis.model)
    every = [hypothesis, *others]
    _check(every, batch, method)
    if method == "quadrature" or (method == "auto" and is_integrable(hypothesis, batch)):
        record, found = _in_memory(lambda: exact_variants(hypothesis, others, batch))
        return with_truncation_error(record, hypothesis, batch), found
    if method in ("auto", "laplace_is"):
        return _in_memory(lambda: _importance_variants(hypothesis, others, batch, method, seed))
    first, *rest = evidence_batch(every, batch, method=method, coords=coords, seed=seed)
    return first, [LogEvidence(one.log_evidence, one.log_evidence_err) for one in rest]


def _importance_variants(
    hypothesis: Hypothesis, others: Sequence[Hypothesis], batch: Batch, method: Method, seed: int
) -> tuple[Evidence, list[LogEvidence]]:
    """The same by importance sampling; by the bridge where "auto" does not trust the weights."""
    record, estimates = importance_variants(hypothesis, others, batch, seed=seed)
    found = [LogEvidence(one.log_evidence, one.log_evidence_err) for one in estimates]
    if method == "auto":
        record = _bridged(record, hypothesis, batch, {"seed": seed})
        for i, (other, one) in enumerate(zip(others, estimates, strict=True)):
            if _needs_bridge(one.status, one.log_evidence_err, batch):
                (again,) = sampled_batch([other], batch, "bridge", seed=seed)
                if again.status is Status.OK:
                    found[i] = LogEvidence(again.log_evidence, again.log_evidence_err)
    return with_truncation_error(record, hypothesis, batch), found


def _bridged(
    record: Evidence, hypothesis: Hypothesis, batch: Batch, seed: dict[str, int]
) -> Evidence:
    """The record, or that of the bridge where importance sampling failed and it does not."""
    if not _needs_bridge(record.status, record.log_evidence_err, batch):
        return record
    (other,) = sampled_batch([hypothesis], batch, "bridge", **seed)
    return other if other.status is Status.OK else record


def _needs_bridge(status: Status, error: float, batch: Batch) -> bool:
    """Whether an evidence is to be computed by the bridge.

    Of many trajectories, each judged by itself, its gradients take minutes: an error of importance
    sampling that is above the tolerance but small is then stated instead.
    """
    data = None if batch.source is None else batch.source[0]
    is_large = isinstance(data, Displacements) and data.n_particles > _MANY
    return status is Status.SAMPLER_NOT_CONVERGED and not (is_large and error <= USABLE)


def _check(hypotheses: Sequence[Hypothesis], batch: Batch, method: str) -> None:
    """Refuse what cannot be computed, before anything is."""
    model = hypotheses[0].model
    for hypothesis in hypotheses:
        hypothesis.check_step(batch.shortest_step)
    if method not in METHODS:
        near = did_you_mean(str(method), METHODS)
        msg = f"method must be one of {', '.join(METHODS)}, got {method!r}{near}"
        raise DriftbayesError(msg)
    engine = batch.engine(0, model)
    if isinstance(engine, DenseEngine):
        check_bytes(model.name, engine.evaluation_bytes)
    if method in SAMPLERS and method != "laplace_is":
        dense = not model.has_state_space
        check_memory(model.name, batch.data, len(hypotheses[0].names), dense=dense)


def _in_memory(compute: Callable[[], T]) -> T:
    """Run a computation; say in a sentence if memory runs out."""
    try:
        return compute()
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise DriftbayesError(OUT_OF_MEMORY) from error


def _sampled(
    hypotheses: Sequence[Hypothesis], batch: Batch, options: dict[str, Any]
) -> list[Evidence]:
    """Importance sampling, and where its weights are not to be trusted, the bridge."""
    shared = {name: value for name, value in options.items() if name in ("seed", "tolerance")}
    if set(options) - set(shared):
        return sampled_batch(hypotheses, batch, "bridge", **options)
    records = sampled_batch(hypotheses, batch, "laplace_is", **shared)
    seed = {"seed": shared["seed"]} if "seed" in shared else {}
    return [
        _bridged(record, hypotheses[min(i, len(hypotheses) - 1)], batch[i], seed)
        for i, record in enumerate(records)
    ]


def _evidences(
    hypotheses: Sequence[Hypothesis],
    batch: Batch,
    method: Method,
    coords: Coords,
    options: dict[str, Any],
) -> list[Evidence]:
    if method == "auto":
        if not is_integrable(hypotheses[0], batch):
            return _sampled(hypotheses, batch, options)
        method = "quadrature"
    if method in SAMPLERS:
        return sampled_batch(hypotheses, batch, method, **options)
    # The seed is no option of a method that draws nothing, but a caller may pass it to all.
    known = {"seed"} if method == "laplace" else {"seed", "tolerance"}
    unknown = sorted(set(options) - known)
    if unknown:
        msg = f"method {method!r} has no option {unknown[0]!r}; leave it out"
        raise DriftbayesError(msg)
    if method == "laplace":
        return laplace_batch(hypotheses, batch, coords=coords)
    return exact_batch(hypotheses, batch, tolerance=options.get("tolerance"))
