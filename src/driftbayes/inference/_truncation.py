"""Errors of evidences due to approximate likelihoods: windows and neighbours."""

from collections.abc import Sequence
from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from driftbayes._typing import FloatArray
from driftbayes.inference._batch import Batch
from driftbayes.inference._density import Density
from driftbayes.inference._evidence import QUANTILES, Evidence
from driftbayes.inference._formulas import Rows
from driftbayes.inference._hypothesis import Hypothesis
from driftbayes.likelihood import ChannelMoments, SecondMoments
from driftbayes.likelihood._engines import Engine, ToeplitzEngine
from driftbayes.models import AbstractModel

# Windows of steps for extrapolating the prediction errors.
_N_WINDOWS = 8
# Smallest error to warn of, in nats.
_MIN_WARNED = 0.01
# Largest accepted loss of correlation of a flow due to position errors.
_MAX_DECORRELATION = 0.03


def with_truncation_error(record: Evidence, hypothesis: Hypothesis, batch: Batch) -> Evidence:
    """Add the error of an approximate likelihood to that of an evidence, and warn if it matters.

    Args:
        record: Evidence of one data set.
        hypothesis: Hypothesis of the record.
        batch: Data set of the record.
    """
    model = hypothesis.model
    engine = batch.engine(0, model)
    if model.kind == "flow":
        return _with_flow_error(record, hypothesis, engine)
    if not np.isfinite(record.log_evidence):
        return record
    if isinstance(engine, ToeplitzEngine):
        return _with_window_error(record, hypothesis, engine)
    if model.memory is not None or not batch.is_summed:
        return record
    data = batch.moments
    n_later = _n_later(data)
    if n_later <= 0:
        return record
    window = data.forms.shape[-1]
    models = [
        hypothesis.at(jnp.asarray(theta)) for theta in _typical_parameters(record, hypothesis.names)
    ]
    losses = [truncation_loss(fitted, record.tau, window, n_later) for fitted in models]
    return _with_loss(record, model.name, window, losses)


def _with_window_error(
    record: Evidence, hypothesis: Hypothesis, engine: ToeplitzEngine
) -> Evidence:
    """Add the error of runs longer than the longest window of the Toeplitz engine."""
    if engine.n_later <= 0:
        return record
    rows = engine.covariances(Rows(hypothesis, _typical_parameters(record, hypothesis.names)))
    window = rows.shape[-1]
    # Extrapolated as in `truncation_loss`, but from within the window.
    losses = [_loss(float(engine.n_later), _prediction_variances(row), window) for row in rows]
    return _with_loss(record, hypothesis.name, window, losses)


def _typical_parameters(record: Evidence, names: Sequence[str]) -> FloatArray:
    """Return the mode, and for each parameter its 16 % and 84 % quantiles, others at the mode."""
    theta = np.tile([record.map[name] for name in names], (1 + 2 * len(names), 1))
    places = [QUANTILES.index(0.16), QUANTILES.index(0.84)]
    for i, name in enumerate(names):
        theta[1 + 2 * i : 3 + 2 * i, i] = np.asarray(record.parameters[name].quantiles)[places]
    return theta


def _with_loss(record: Evidence, model: str, window: int, losses: Sequence[float]) -> Evidence:
    """Add the error of finite windows, from the expected losses of ln L.

    If the mean loss is D, its variance is 2D: the prediction of a step has an error d besides the
    innovation e, and both are independent, so the product e d in ln L has the variance of d
    relative to e, which is twice the step's share of D.
    """
    loss = float(np.mean(losses))
    error = float(np.sqrt(loss**2 + 2 * loss))
    warning = (
        f"{model} predicts each step of a long run from the {window - 1} before it, which changes "
        f"ln Z by about {error:.2g} nats; cut the runs with n_tau to avoid it",
    )
    return replace(
        record,
        log_evidence_err=float(np.hypot(record.log_evidence_err, error)),
        warnings=(*record.warnings, *(warning if error > _MIN_WARNED else ())),
    )


def _with_flow_error(record: Evidence, hypothesis: Hypothesis, engine: Engine) -> Evidence:
    """Add the error of conditioning on neighbours, and warn of effects of a periodic domain."""
    from driftbayes.likelihood._flow import FlowEngine

    assert isinstance(engine, FlowEngine)
    theta = np.array([[record.map[name] for name in hypothesis.names]])
    finer = engine.finer()
    if finer is not None and Rows(hypothesis, theta).n_state() == 1:
        here, there = (Density(hypothesis, e).terms(theta)[0][0] for e in (engine, finer))
        error = abs(float(there - here))
        warning = (
            f"at more than {engine.max_exact:,} particles groups are conditioned on their "
            f"{engine.n_neighbours} nearest neighbours; twice as many change ln L by {error:.2g}"
        )
        record = replace(
            record,
            log_evidence_err=float(np.hypot(record.log_evidence_err, error)),
            warnings=(*record.warnings, warning),
        )
    record = _with_flow_warning(record, hypothesis, engine.largest_error)
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
    warning = (
        "some correlation lengths that the data allow are too long for a domain of period "
        f"{shortest:.3g}, whose nearest images then give no positive definite covariance; they are "
        "left out of the evidence: use a prior of shorter lengths, or +common"
    )
    return replace(record, warnings=(*record.warnings, warning))


def _with_flow_warning(record: Evidence, hypothesis: Hypothesis, known: float) -> Evidence:
    """Warn if position errors are too large for correlated kicks between positions."""
    from driftbayes.likelihood._flow_errors import decorrelation

    if not np.isfinite(record.log_evidence):
        return record
    values = hypothesis.fixed | record.map
    sd = float(np.hypot(np.sqrt(known), values.get("sigma", 0.0)))
    lost = decorrelation(sd, values["length"], values["nu"])
    if lost <= _MAX_DECORRELATION:
        return record
    warning = (
        f"positions have errors of {sd:.3g}, over which the flow of length {values['length']:.3g} "
        f"loses {lost:.0%} of its correlation; +flow takes kicks between the fixes, which is right "
        f"for a loss of {_MAX_DECORRELATION:.0%} at most: use better positions, or +common"
    )
    return replace(record, warnings=(*record.warnings, warning))


def truncation_loss(model: AbstractModel, tau: float, window: int, n_later: float) -> float:
    r"""Bound the expected loss of ln L, in nats: $\tfrac{n}{2}\ln(v_w / v_\infty)$.

    $v_w$ is the variance of a step given the w - 1 before it. For large w it falls as 1 + c/w or
    faster, which gives its limit.

    Args:
        model: The model with its parameters.
        tau: Sampling time.
        window: Steps per window, w.
        n_later: Number of scalar steps predicted from a full window.
    """
    row = np.asarray(model.first_autocovariances(_N_WINDOWS * window, jnp.asarray(tau)))
    return _loss(n_later, _prediction_variances(row), window)


def _loss(n_later: float, variances: FloatArray, window: int) -> float:
    """Compute the loss of ln L, with the limit extrapolated from the middle and last variance."""
    half, whole = variances[len(variances) // 2 - 1], variances[-1]
    limit = max(2 * whole - half, 0.5 * whole)
    return float(max(0.5 * n_later * np.log(variances[window - 1] / limit), 0.0))


def _prediction_variances(row: FloatArray) -> FloatArray:
    """Compute variances of prediction errors by the Durbin-Levinson recursion."""
    variances = np.empty(len(row))
    variances[0] = row[0]
    weights = np.zeros(0)
    for n in range(1, len(row)):
        partial = (row[n] - weights @ row[n - 1 : 0 : -1]) / variances[n - 1]
        weights = np.concatenate([weights - partial * weights[::-1], [partial]])
        variances[n] = variances[n - 1] * (1 - partial) * (1 + partial)
    return variances


def _n_later(data: SecondMoments | ChannelMoments) -> float:
    """Count the scalar steps predicted from a full window, not from the start of their run."""
    predicted = np.asarray(data.predicted)
    if len(predicted) < 2:
        return 0.0
    n_axes = np.shape(data.centre)[-1] if isinstance(data, ChannelMoments) else 1
    return float(predicted[-1] - predicted[-2]) * n_axes
