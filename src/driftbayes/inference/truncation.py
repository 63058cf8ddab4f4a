"""What windows of limited length cost models that never forget, in long regular runs."""

__all__ = ["truncation_error", "with_truncation_error"]

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from driftbayes.inference._batch import Batch
from driftbayes.inference.evidence import Evidence
from driftbayes.inference.formulas import Rows
from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.likelihood import ChannelMoments, SecondMoments
from driftbayes.likelihood.engines import ToeplitzEngine
from driftbayes.models import AbstractModel
from driftbayes.typing import FloatArray

# So many times the window's length tell how the prediction errors go on.
_REACH = 8
# An error in nats that is worth saying.
_SAID = 0.01


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
    error = truncation_error(hypothesis.at(theta), record.tau, data.forms.shape[-1], n_later)
    said = (
        f"{model.name} predicts each step of a long run from the {data.forms.shape[-1] - 1} before "
        f"it, which may change ln Z by up to {error:.2g} nats; cut the runs with n_tau to avoid it",
    )
    return replace(
        record,
        log_evidence_err=float(np.hypot(record.log_evidence_err, error)),
        warnings=(*record.warnings, *(said if error > _SAID else ())),
    )


def _with_window_error(
    record: Evidence, hypothesis: Hypothesis, engine: ToeplitzEngine
) -> Evidence:
    """The same for runs longer than the longest window of the Toeplitz engine."""
    if not np.isfinite(record.log_evidence):
        return record
    theta = np.array([[record.map[name] for name in hypothesis.names]])
    row = engine.covariances(Rows(hypothesis, theta))[0]
    variances = _prediction_variances(row)
    half, whole = variances[len(row) // 2 - 1], variances[-1]
    # As 1 + c/w at the slowest, as below, but from the window itself.
    limit = max(2 * whole - half, 0.5 * whole)
    error = float(max(0.5 * engine.n_later * np.log(whole / limit), 0.0))
    said = (
        f"{hypothesis.name} predicts each step of a long run from the {len(row) - 1} before it, "
        f"which may change ln Z by up to {error:.2g} nats; cut the runs with n_tau to avoid it",
    )
    return replace(
        record,
        log_evidence_err=float(np.hypot(record.log_evidence_err, error)),
        warnings=(*record.warnings, *(said if error > _SAID else ())),
    )


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
    row = np.asarray(_row(model, _REACH * window, tau))
    variances = _prediction_variances(row)
    half, whole = variances[len(row) // 2 - 1], variances[-1]
    limit = max(2 * whole - half, 0.5 * whole)
    return float(max(0.5 * n_later * np.log(variances[window - 1] / limit), 0.0))


def _row(model: AbstractModel, n_lags: int, tau: float) -> jax.Array:
    return model.first_autocovariances(n_lags, jnp.asarray(tau))


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
