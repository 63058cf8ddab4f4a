"""Interface between engines and models: formulas of a model, sums of an engine."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from driftbayes._typing import FloatArray, IntArray
from driftbayes.likelihood._gaussian import gaussian_log_density


@dataclass(frozen=True)
class Sums:
    r"""Sums over the steps of each slot; a slot is all data or one trajectory.

    Args:
        n: Number of steps, (slot,).
        log_det: $\ln\det S$ of one axis, (row, slot); a row is one model at one parameter value.
        products: Whitened products $Y^\dagger S^{-1} Y$, (row, slot, column, column).
        excess: Sum of $\ln(1 + w |e|^2/v)$ over steps, or of log-densities for models with
            outliers, (row, slot); zero for other models.
    """

    n: FloatArray
    log_det: FloatArray
    products: NDArray[Any]
    excess: FloatArray

    def log_densities(self, n_dim: int) -> FloatArray:
        """Compute the Gaussian log-density of each slot with independent axes, (row, slot)."""
        quadratic = np.trace(self.products, axis1=2, axis2=3)
        values = gaussian_log_density(n_dim * self.n, n_dim * self.log_det, quadratic, 1.0, np)
        return np.where(np.isnan(values), -np.inf, values)


@dataclass(frozen=True)
class SlotForms:
    r"""Gaussian terms of each slot, for models with a separate density for each trajectory.

    Slots with the same pattern have the same number of steps and log-determinant.

    Args:
        n: Number of steps, (pattern,).
        log_det: $\ln\det S$ of one axis, (row, pattern).
        quadratic: $x^T S^{-1} x$ summed over axes, (row, slot).
        pattern: Pattern of each slot.
    """

    n: FloatArray
    log_det: FloatArray
    quadratic: FloatArray
    pattern: IntArray

    def scalar(self, n_dim: int, n_components: int) -> "SlotForms":
        """Sum over axes, and split rows into (point, component).

        Args:
            n_dim: Number of axes.
            n_components: Number of components of the model.
        """
        shape = (-1, n_components)
        return SlotForms(
            n_dim * self.n,
            n_dim * self.log_det.reshape(*shape, self.log_det.shape[1]),
            self.quadratic.reshape(*shape, self.quadratic.shape[1]),
            self.pattern,
        )


@runtime_checkable
class Formulas(Protocol):
    """Quantities of a model that engines need, for many parameter values at once.

    There is one row for each parameter value and component of a mixture.
    """

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        ...

    def n_state(self) -> int:
        """Return the size of the state of a model with a state-space form."""
        ...

    def lanes(self, intervals: FloatArray) -> NDArray[Any]:
        """Compute A and Q by blocks of rows, (block, interval, 2, state, state, lane)."""
        ...

    def starts(self) -> tuple[NDArray[Any], FloatArray, FloatArray]:
        """Compute the initial covariance, error variance and tails of each row.

        Tails, (row, 3), are the weight of heavy tails, and fraction and variance of outliers.
        """
        ...

    def autocovariances(self, tau: float, n_lags: int) -> NDArray[Any]:
        """Compute the autocovariances of steps, (row, lag)."""
        ...

    def mean_square_displacements(self, lags: FloatArray) -> FloatArray:
        """Compute the mean square displacement per axis, (row, lag)."""
        ...

    def part(self, rows: slice) -> "Formulas":
        """Return the formulas of some of the rows."""
        ...


@runtime_checkable
class NumberedFormulas(Formulas, Protocol):
    """Formulas of a model with further numbers, such as the correlation length of a flow."""

    def numbers(self) -> tuple[FloatArray, ...]:
        """Return the further numbers, one value per row each."""
        ...


def triangle(packed: NDArray[Any], n_columns: int) -> NDArray[Any]:
    """Unpack Hermitian matrices from their lower triangles along the second axis.

    Args:
        packed: (slot, pair, row).
        n_columns: Size of a matrix.

    Returns:
        (row, slot, column, column).
    """
    out = np.empty((packed.shape[2], packed.shape[0], n_columns, n_columns), dtype=packed.dtype)
    pair = 0
    for c in range(n_columns):
        for d in range(c + 1):
            out[:, :, c, d] = packed[:, pair].T
            out[:, :, d, c] = packed[:, pair].T.conj()
            pair += 1
    return out
