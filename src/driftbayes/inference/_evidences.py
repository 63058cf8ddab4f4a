"""Evidence of a hypothesis by any method."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeGuard

import numpy as np

from driftbayes._magnitudes import whole
from driftbayes._precision import in_double_precision
from driftbayes.data._sampling import Displacements
from driftbayes.errors import OUT_OF_MEMORY, DriftbayesError, Status, expect, is_out_of_memory
from driftbayes.inference._batch import AnyDisplacements, Batch
from driftbayes.inference._evidence import QUANTILES, Evidence, make_estimates
from driftbayes.inference._exact import (
    LogEvidence,
    LogEvidences,
    exact_batch,
    exact_log_evidences,
    exact_variants,
    is_integrable,
)
from driftbayes.inference._hypothesis import Hypothesis
from driftbayes.inference._methods import Auto, Exact, Importance, Laplace, Method, as_method
from driftbayes.inference._truncation import with_truncation_error
from driftbayes.likelihood._engines import DenseEngine
from driftbayes.models import AbstractModel


@contextmanager
def _memory_errors() -> Iterator[None]:
    """Raise a `DriftbayesError` if memory runs out."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise DriftbayesError(OUT_OF_MEMORY) from error


@in_double_precision
def evidence(
    hypothesis: Hypothesis | AbstractModel,
    data: AnyDisplacements | Batch,
    *,
    method: Method | str = "auto",
    seed: int = 0,
    **options: Any,
) -> Evidence:
    """Compute the evidence of one hypothesis.

    Args:
        hypothesis: Model family and prior; or a model with priors in place of its parameters.
        data: Displacements at one tau.
        method: A method with its options, for example `Bridge(draws=2000)`, or its name.
            "auto" integrates exactly if at most three parameters remain beside the scale, and
            otherwise samples: by "laplace_is", or by "bridge" if its weights are unreliable.
            "quadrature" always integrates; "laplace" is the paper's approximation; "laplace_is",
            "bridge", "smc" and "nested" sample.
        seed: Random seed for sampling methods.
        **options: Options of a method given by name.

    Example:
        >>> import driftbayes as db
        >>> brownian = db.Hypothesis(db.Brownian, kappa=db.Exponential(1.0))
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> found = db.evidence(brownian, db.displacements(tracks, tau=0.5))
        >>> round(found.log_evidence - found.log_likelihood_at_map - found.log_occam_factor, 6)
        0.0
    """
    hypothesis = hypothesis if isinstance(hypothesis, Hypothesis) else Hypothesis(hypothesis)
    if not hasattr(data, "tau"):
        expect(data, Batch, "data", "displacements, for example displacements(tracks, tau='6h')")
    seed = whole(seed, "seed")
    return evidence_batch([hypothesis], data, method=method, seed=seed, **options)[0]


@_memory_errors()
@in_double_precision
def evidence_batch(
    hypotheses: Sequence[Hypothesis],
    data: AnyDisplacements | Batch,
    *,
    method: Method | str = "auto",
    seed: int = 0,
    **options: Any,
) -> list[Evidence]:
    """Compute evidences of several data sets, or of one data set under several priors."""
    batch = Batch.of(data, model=hypotheses[0].model)
    chosen = as_method(method, **options)
    if hypotheses[0].model.kind == "sde":
        from driftbayes.sde._evidence import sde_evidences

        return sde_evidences(hypotheses, batch, chosen, seed)
    _check(hypotheses, batch)
    if (reason := infinite_reason(hypotheses[0].model, batch)) is not None:
        return [_infinite_record(h, batch, chosen, reason) for h in hypotheses]
    # Compute the evidence of equal priors once.
    texts = [str(hypothesis.describe()) for hypothesis in hypotheses]
    distinct = [hypotheses[texts.index(text)] for text in dict.fromkeys(texts)]
    found = _evidences(distinct, batch, chosen, seed)
    order = list(dict.fromkeys(texts))
    records = found if len(hypotheses) == 1 else [found[order.index(text)] for text in texts]
    if _is_whole(hypotheses[0], batch):
        return records
    return [
        with_truncation_error(record, hypotheses[min(i, len(hypotheses) - 1)], batch[i])
        for i, record in enumerate(records)
    ]


@_memory_errors()
@in_double_precision
def log_evidences(
    hypothesis: Hypothesis,
    data: Batch,
    *,
    method: Method | str = "auto",
    seed: int = 0,
    **options: Any,
) -> LogEvidences:
    """Compute only ln Z of several data sets, which is faster than `evidence_batch`.

    Args:
        hypothesis: Model family and prior.
        data: Data sets, from `Batch.stack`.
        method: As for `evidence`.
        seed: Random seed for sampling methods.
        **options: As for `evidence`.
    """
    chosen = as_method(method, **options)
    if hypothesis.model.kind != "sde":
        _check([hypothesis], data)
        if is_exact(chosen, hypothesis, data) and _is_whole(hypothesis, data):
            return exact_log_evidences(hypothesis, data, tolerance=chosen.tolerance)
    records = evidence_batch([hypothesis], data, method=chosen, seed=seed)
    return LogEvidences(
        np.array([record.log_evidence for record in records]),
        np.array([record.log_evidence_err for record in records]),
        tuple(record.status for record in records),
    )


def _is_whole(hypothesis: Hypothesis, batch: Batch) -> bool:
    """Tell whether the windows of the data cover the memory of the model."""
    return batch.is_summed and hypothesis.model.memory is not None


@_memory_errors()
@in_double_precision
def evidence_with_variants(
    hypothesis: Hypothesis,
    others: Sequence[Hypothesis],
    data: AnyDisplacements | Batch,
    *,
    method: Method | str = "auto",
    seed: int = 0,
    **options: Any,
) -> tuple[Evidence, list[LogEvidence]]:
    """Compute the evidence of one hypothesis, and only ln Z under other priors.

    Nodes under the first prior are reused for the others if possible, whose ln Z is then accurate
    to 0.01 nats.

    Args:
        hypothesis: Model family and prior.
        others: The same family with other priors.
        data: Displacements at one tau.
        method: As for `evidence`.
        seed: Random seed for sampling methods.
        **options: As for `evidence`.
    """
    batch = Batch.of(data, model=hypothesis.model)
    chosen = as_method(method, **options)
    if hypothesis.model.kind == "sde":
        from driftbayes.sde._evidence import sde_variants

        return sde_variants(hypothesis, others, batch, chosen, seed)
    _check([hypothesis, *others], batch)
    if (reason := infinite_reason(hypothesis.model, batch)) is not None:
        record = _infinite_record(hypothesis, batch, chosen, reason)
        return record, [LogEvidence(np.nan, np.nan) for _ in others]
    if is_exact(chosen, hypothesis, batch):
        record, found = exact_variants(hypothesis, others, batch, chosen.tolerance)
        return with_truncation_error(record, hypothesis, batch), found
    if isinstance(chosen, Auto | Importance):
        from driftbayes.inference._sampled import auto_variants

        record, found = auto_variants(hypothesis, others, batch, chosen, seed)
        return with_truncation_error(record, hypothesis, batch), found
    first, *rest = evidence_batch([hypothesis, *others], batch, method=chosen, seed=seed)
    return first, [LogEvidence(e.log_evidence, e.log_evidence_err) for e in rest]


def _check(hypotheses: Sequence[Hypothesis], batch: Batch) -> None:
    """Raise an error if the evidence cannot be computed."""
    model = hypotheses[0].model
    for hypothesis in hypotheses:
        hypothesis.check_step(batch.shortest_step)
    engine = batch.engine(0, model)
    if isinstance(engine, DenseEngine):
        from driftbayes.likelihood._memory import check_bytes

        check_bytes(model.name, engine.evaluation_bytes)


def infinite_reason(model: AbstractModel, batch: Batch) -> str | None:
    """Say why the evidence of a model is infinite for these data; None if it is finite."""
    data = None if batch.source is None else batch.source[0]
    if model.kind not in ("steps", "trajectories") or not isinstance(data, Displacements):
        return None
    from driftbayes.inference._unbounded import unbounded_reason

    return unbounded_reason(model, data)


def _infinite_record(hypothesis: Hypothesis, batch: Batch, method: Method, reason: str) -> Evidence:
    """Make the record of a hypothesis without a finite evidence."""
    unknown = np.full(len(hypothesis.names), np.nan)
    columns = ("mode", "mean", "sd", "log_mean", "log_sd", "contraction")
    return Evidence(
        hypothesis=hypothesis,
        method=method.name,
        log_evidence=np.nan,
        log_evidence_err=np.nan,
        log_likelihood_at_map=np.nan,
        parameters=make_estimates(
            hypothesis,
            batch.unit_names,
            np.full((len(unknown), len(QUANTILES)), np.nan),
            **dict.fromkeys(columns, unknown),
        ),
        posterior_cov=np.full((len(unknown), len(unknown)), np.nan),
        expected_log_likelihood=np.nan,
        status=Status.UNBOUNDED_DENSITY,
        tau=batch.tau(0),
        data_fingerprint=batch.fingerprint(0),
        warnings=(reason,),
    )


def is_exact(method: Method, hypothesis: Hypothesis, batch: Batch) -> TypeGuard[Auto | Exact]:
    """Tell whether a method integrates the evidence of a hypothesis."""
    return isinstance(method, Exact) or (
        isinstance(method, Auto) and is_integrable(hypothesis, batch)
    )


def _evidences(
    hypotheses: Sequence[Hypothesis], batch: Batch, method: Method, seed: int
) -> list[Evidence]:
    """Compute the evidences by the given method."""
    if isinstance(method, Laplace):
        from driftbayes.inference._laplace import laplace_batch

        return laplace_batch(hypotheses, batch, coords=method.coords)
    if is_exact(method, hypotheses[0], batch):
        return exact_batch(hypotheses, batch, tolerance=method.tolerance)
    from driftbayes.inference._sampled import auto_batch, sampled_batch

    if isinstance(method, Auto):
        return auto_batch(hypotheses, batch, method, seed)
    return sampled_batch(hypotheses, batch, method, seed)
