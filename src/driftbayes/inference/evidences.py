"""The evidence of a hypothesis, by the method that is asked for."""

__all__ = [
    "evidence",
    "evidence_batch",
    "evidence_with_variants",
    "infinite_reason",
    "log_evidences",
    "truncation_error",
    "with_truncation_error",
]

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import jax.numpy as jnp
import numpy as np

from driftbayes.data.sampling import Displacements
from driftbayes.errors import OUT_OF_MEMORY, DriftbayesError, Status, expect, is_out_of_memory
from driftbayes.inference._batch import Batch
from driftbayes.inference.density import Density
from driftbayes.inference.evidence import QUANTILES, Evidence, make_estimates
from driftbayes.inference.exact import (
    LogEvidence,
    LogEvidences,
    exact_batch,
    exact_log_evidences,
    exact_variants,
    is_integrable,
)
from driftbayes.inference.formulas import Rows
from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.inference.methods import (
    SMC,
    Auto,
    Bridge,
    Exact,
    Importance,
    Laplace,
    Method,
    Nested,
    as_method,
)
from driftbayes.likelihood import (
    ChannelMoments,
    ReducedDisplacements,
    SecondMoments,
    SummedDisplacements,
)
from driftbayes.likelihood.engines import DenseEngine, Engine, ToeplitzEngine
from driftbayes.models import AbstractModel
from driftbayes.precision import in_double_precision
from driftbayes.priors import Fixed
from driftbayes.typing import FloatArray

# So many times the window's length tell how the prediction errors go on.
_REACH = 8
# An error in nats that is worth saying.
_SAID = 0.01
# Correlation of a flow that may be lost over the errors of positions.
_DECORRELATED = 0.03


def with_truncation_error(record: Evidence, hypothesis: Hypothesis, batch: Batch) -> Evidence:
    """Add to the error of an evidence what the windows leave out, and say so if it matters.

    Args:
        record: Evidence of one data set.
        hypothesis: Its hypothesis.
        batch: That data set.
    """
    model = hypothesis.model
    engine = batch.engine(0, model)
    if isinstance(engine, ToeplitzEngine) and engine.n_later > 0:
        return _with_window_error(record, hypothesis, engine)
    if model.kind == "flow":
        return _with_flow_error(record, hypothesis, engine)
    if model.memory is not None or not batch.is_summed:
        return record
    data = batch.data
    assert isinstance(data, SecondMoments | ChannelMoments)
    if not np.isfinite(record.log_evidence):
        return record
    n_later = _n_later(data)
    if n_later <= 0:
        return record
    theta = jnp.asarray([record.map[name] for name in hypothesis.names])
    window = data.forms.shape[-1]
    error = truncation_error(hypothesis.at(theta), record.tau, window, n_later)
    return _with_error(record, model.name, window, error)


def _with_window_error(
    record: Evidence, hypothesis: Hypothesis, engine: ToeplitzEngine
) -> Evidence:
    """The same for runs longer than the longest window of the Toeplitz engine."""
    if not np.isfinite(record.log_evidence):
        return record
    theta = np.array([[record.map[name] for name in hypothesis.names]])
    row = engine.covariances(Rows(hypothesis, theta))[0]
    variances = _prediction_variances(row)
    # As 1 + c/w at the slowest, as below, but from the window itself.
    error = _loss(engine.n_later, variances, len(row))
    return _with_error(record, hypothesis.name, len(row), error)


def _with_error(record: Evidence, model: str, window: int, error: float) -> Evidence:
    """Add the error of a window of so many steps."""
    said = (
        f"{model} predicts each step of a long run from the {window - 1} before it, which may "
        f"change ln Z by up to {error:.2g} nats; cut the runs with n_tau to avoid it",
    )
    return replace(
        record,
        log_evidence_err=float(np.hypot(record.log_evidence_err, error)),
        warnings=(*record.warnings, *(said if error > _SAID else ())),
    )


def _with_flow_error(record: Evidence, hypothesis: Hypothesis, engine: Engine) -> Evidence:
    """Add what conditioning on neighbours leaves out, and say what a periodic domain does."""
    from driftbayes.likelihood.flow import FlowEngine

    assert isinstance(engine, FlowEngine)
    theta = np.array([[record.map[name] for name in hypothesis.names]])
    finer = engine.finer()
    if finer is not None and Rows(hypothesis, theta).n_state() == 1:
        here, there = (Density(hypothesis, one).terms(theta)[0][0] for one in (engine, finer))
        error = abs(float(there - here))
        said = (
            f"at more than {engine.max_exact:,} particles groups are conditioned on their "
            f"{engine.n_neighbours} nearest neighbours; twice as many change ln L by {error:.2g}"
        )
        record = replace(
            record,
            log_evidence_err=float(np.hypot(record.log_evidence_err, error)),
            warnings=(*record.warnings, said),
        )
    record = _with_flow_doubt(record, hypothesis, engine.largest_error)
    if not any(engine.period or ()):
        return record
    theta = np.tile(theta, (len(QUANTILES), 1))
    for i, name in enumerate(hypothesis.names):
        if name == "length":
            theta[:, i] = record.parameters[name].quantiles
        if name == "own_share":
            theta[:, i] = record.parameters[name].interval[0]
    if np.isfinite(Density(hypothesis, engine).terms(theta)[0]).all():
        return record
    shortest = min(length for length in engine.period or () if length)
    said = (
        "some correlation lengths that the data allow are too long for a domain of period "
        f"{shortest:.3g}, whose nearest images then give no positive definite covariance; they are "
        "left out of the evidence: use a prior of shorter lengths, or +common"
    )
    return replace(record, warnings=(*record.warnings, said))


def _with_flow_doubt(record: Evidence, hypothesis: Hypothesis, known: float) -> Evidence:
    """Say where errors of positions are too large for kicks correlated between fixes."""
    from driftbayes.likelihood.flow_errors import decorrelation

    if not np.isfinite(record.log_evidence):
        return record
    values = {n: float(p.value) for n, p in hypothesis.priors.items() if isinstance(p, Fixed)}
    values |= record.map
    sd = float(np.hypot(np.sqrt(known), values.get("sigma", 0.0)))
    lost = decorrelation(sd, values["length"], values["nu"])
    if lost <= _DECORRELATED:
        return record
    said = (
        f"positions have errors of {sd:.3g}, over which the flow of length {values['length']:.3g} "
        f"loses {lost:.0%} of its correlation; +flow takes kicks between the fixes, which is right "
        f"for a loss of {_DECORRELATED:.0%} at most: use better positions, or +common"
    )
    return replace(record, warnings=(*record.warnings, said))


def truncation_error(model: AbstractModel, tau: float, window: int, n_later: float) -> float:
    r"""Bound of the expected loss of ln L, in nats: $\tfrac{n}{2}\ln(v_w / v_\infty)$.

    With $v_w$ the variance of a step given the w - 1 before it. Far out it falls as 1 + c/w at the
    slowest, from which its limit is found.

    Args:
        model: The model with its parameters.
        tau: Sampling time.
        window: Steps of a window, w.
        n_later: Number of scalar steps that are predicted from a full window.
    """
    row = np.asarray(model.first_autocovariances(_REACH * window, jnp.asarray(tau)))
    return _loss(n_later, _prediction_variances(row), window)


def _loss(n_later: float, variances: FloatArray, window: int) -> float:
    """Loss of ln L by a window, with the limit of the variances from the last and a middle one."""
    half, whole = variances[len(variances) // 2 - 1], variances[-1]
    limit = max(2 * whole - half, 0.5 * whole)
    return float(max(0.5 * n_later * np.log(variances[window - 1] / limit), 0.0))


def _prediction_variances(row: FloatArray) -> FloatArray:
    """Variances of prediction errors by the recursion of Durbin and Levinson."""
    variances = np.empty(len(row))
    variances[0] = row[0]
    weights = np.zeros(0)
    for n in range(1, len(row)):
        partial = (row[n] - weights @ row[n - 1 : 0 : -1]) / variances[n - 1]
        weights = np.concatenate([weights - partial * weights[::-1], [partial]])
        variances[n] = variances[n - 1] * (1 - partial) * (1 + partial)
    return variances


def _n_later(data: SecondMoments | ChannelMoments) -> float:
    """Scalar steps that are predicted from a full window and not from the start of their run."""
    predicted = np.asarray(data.predicted)
    if len(predicted) < 2:
        return 0.0
    n_axes = np.shape(data.centre)[-1] if isinstance(data, ChannelMoments) else 1
    return float(predicted[-1] - predicted[-2]) * n_axes


T = TypeVar("T")


@in_double_precision
def evidence(
    hypothesis: Hypothesis | AbstractModel,
    data: Displacements | ReducedDisplacements | SummedDisplacements | Batch,
    *,
    method: Method | str = "auto",
    seed: int = 0,
    **options: Any,
) -> Evidence:
    """The evidence of one hypothesis.

    Args:
        hypothesis: Model family and prior; or a model with priors in place of its parameters.
        data: Displacements at one tau.
        method: A method with its options, for example `Bridge(draws=2000)`, or its name.
            "auto" integrates exactly if no more than three parameters are left beside the scale,
            and samples otherwise: "laplace_is", and where its weights are not to be trusted
            "bridge"; "quadrature" insists on the first; "laplace" is the paper's approximation;
            "laplace_is", "bridge", "smc" and "nested" sample.
        seed: Random seed for sampling methods.
        **options: Options of a method given by name.
    """
    hypothesis = hypothesis if isinstance(hypothesis, Hypothesis) else Hypothesis(hypothesis)
    if not hasattr(data, "tau"):
        expect(data, Batch, "data", "displacements, for example displacements(tracks, tau='6h')")
    return evidence_batch([hypothesis], data, method=method, seed=seed, **options)[0]


@in_double_precision
def evidence_batch(
    hypotheses: Sequence[Hypothesis],
    data: Displacements | ReducedDisplacements | SummedDisplacements | Batch,
    *,
    method: Method | str = "auto",
    seed: int = 0,
    **options: Any,
) -> list[Evidence]:
    """Evidences of one hypothesis for several data sets, or of several priors for one data set."""
    batch = data if isinstance(data, Batch) else Batch.of(data, model=hypotheses[0].model)
    chosen = as_method(method, **options)
    if hypotheses[0].model.kind == "sde":
        from driftbayes.sde.evidence import sde_evidences

        return _in_memory(lambda: sde_evidences(hypotheses, batch, chosen, seed))
    _check(hypotheses, batch, chosen)
    if (reason := infinite_reason(hypotheses[0].model, batch)) is not None:
        return [_without_evidence(one, batch, chosen, reason) for one in hypotheses]
    # Priors that are the same have the same evidence.
    texts = [str(hypothesis.describe()) for hypothesis in hypotheses]
    distinct = [hypotheses[texts.index(text)] for text in dict.fromkeys(texts)]
    found = _in_memory(lambda: _evidences(distinct, batch, chosen, seed))
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
    method: Method | str = "auto",
    seed: int = 0,
    **options: Any,
) -> LogEvidences:
    """Ln Z alone of one hypothesis for several data sets: faster where no posterior is wanted.

    Args:
        hypothesis: Model family and prior.
        data: Data sets, from `Batch.stack`.
        method: As for `evidence`.
        seed: Random seed for sampling methods.
        **options: As for `evidence`.
    """
    chosen = as_method(method, **options)
    if hypothesis.model.kind != "sde":
        _check([hypothesis], data, chosen)
    if (
        hypothesis.model.kind != "sde"
        and _is_exact(chosen, hypothesis, data)
        and _is_whole(hypothesis, data)
    ):
        tolerance = chosen.tolerance  # type: ignore[union-attr]
        return _in_memory(lambda: exact_log_evidences(hypothesis, data, tolerance=tolerance))
    records = evidence_batch([hypothesis], data, method=chosen, seed=seed)
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
    method: Method | str = "auto",
    seed: int = 0,
    **options: Any,
) -> tuple[Evidence, list[LogEvidence]]:
    """Compute the evidence of one hypothesis, and ln Z alone under other priors.

    Nodes under the first prior serve the others where they can; of these ln Z is good to 0.01.

    Args:
        hypothesis: Model family and prior.
        others: The same family with other priors.
        data: Displacements at one tau.
        method: As for `evidence`.
        seed: Random seed for sampling methods.
        **options: As for `evidence`.
    """
    batch = data if isinstance(data, Batch) else Batch.of(data, model=hypothesis.model)
    every = [hypothesis, *others]
    chosen = as_method(method, **options)
    if hypothesis.model.kind == "sde":
        from driftbayes.sde.evidence import sde_variants

        return _in_memory(lambda: sde_variants(hypothesis, others, batch, chosen, seed))
    _check(every, batch, chosen)
    if (reason := infinite_reason(hypothesis.model, batch)) is not None:
        record = _without_evidence(hypothesis, batch, chosen, reason)
        return record, [LogEvidence(np.nan, np.nan) for _ in others]
    if _is_exact(chosen, hypothesis, batch):
        record, found = _in_memory(lambda: exact_variants(hypothesis, others, batch))
        return with_truncation_error(record, hypothesis, batch), found
    if isinstance(chosen, Auto | Importance):
        from driftbayes.inference.sampled import auto_variants

        record, found = _in_memory(lambda: auto_variants(hypothesis, others, batch, chosen, seed))
        return with_truncation_error(record, hypothesis, batch), found
    first, *rest = evidence_batch(every, batch, method=chosen, seed=seed)
    return first, [LogEvidence(one.log_evidence, one.log_evidence_err) for one in rest]


def _check(hypotheses: Sequence[Hypothesis], batch: Batch, method: Method) -> None:
    """Refuse what cannot be computed, before anything is."""
    model = hypotheses[0].model
    for hypothesis in hypotheses:
        hypothesis.check_step(batch.shortest_step)
    engine = batch.engine(0, model)
    if isinstance(engine, DenseEngine):
        from driftbayes.likelihood.memory import check_bytes

        check_bytes(model.name, engine.evaluation_bytes)
    if isinstance(method, Bridge | SMC | Nested):
        from driftbayes.likelihood.memory import check_memory

        dense = not model.has_state_space
        check_memory(model.name, batch.data, len(hypotheses[0].names), dense=dense)


def infinite_reason(model: AbstractModel, batch: Batch) -> str | None:
    """Why the evidence of a model is infinite for these data, if it is."""
    data = None if batch.source is None else batch.source[0]
    if model.kind not in ("steps", "trajectories") or not isinstance(data, Displacements):
        return None
    from driftbayes.inference.unbounded import unbounded_reason

    return unbounded_reason(model, data)


def _without_evidence(
    hypothesis: Hypothesis, batch: Batch, method: Method, reason: str
) -> Evidence:
    """The record of a hypothesis that has no finite evidence."""
    nothing = np.full(len(hypothesis.names), np.nan)
    columns = ("mode", "mean", "sd", "log_mean", "log_sd", "contraction")
    return Evidence(
        hypothesis=hypothesis,
        method=method.name,
        log_evidence=np.nan,
        log_evidence_err=np.nan,
        log_likelihood_at_map=np.nan,
        parameters=make_estimates(
            hypothesis,
            batch.units(0),
            np.full((len(nothing), len(QUANTILES)), np.nan),
            **dict.fromkeys(columns, nothing),
        ),
        posterior_cov=np.full((len(nothing), len(nothing)), np.nan),
        expected_log_likelihood=np.nan,
        status=Status.UNBOUNDED_DENSITY,
        tau=batch.tau(0),
        data_fingerprint=batch.fingerprint(0),
        warnings=(reason,),
    )


def _in_memory(compute: Callable[[], T]) -> T:
    """Run a computation; say in a sentence if memory runs out."""
    try:
        return compute()
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise DriftbayesError(OUT_OF_MEMORY) from error


def _is_exact(method: Method, hypothesis: Hypothesis, batch: Batch) -> bool:
    return isinstance(method, Exact) or (
        isinstance(method, Auto) and is_integrable(hypothesis, batch)
    )


def _evidences(
    hypotheses: Sequence[Hypothesis], batch: Batch, method: Method, seed: int
) -> list[Evidence]:
    if isinstance(method, Laplace):
        from driftbayes.inference._laplace import laplace_batch

        return laplace_batch(hypotheses, batch, coords=method.coords)
    if _is_exact(method, hypotheses[0], batch):
        return exact_batch(hypotheses, batch, tolerance=method.tolerance)  # type: ignore[union-attr]
    from driftbayes.inference.sampled import auto_batch, sampled_batch

    if isinstance(method, Auto):
        return auto_batch(hypotheses, batch, method, seed)
    return sampled_batch(hypotheses, batch, method, seed)
