"""What an engine gives: of each parameter value the sums that a Gaussian density is made of."""

__all__ = ["Formulas", "NumberedFormulas", "SlotForms", "Sums"]

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from driftbayes.typing import FloatArray, IntArray


@dataclass(frozen=True)
class Sums:
    r"""Sums over the steps of each slot: of all data, or of one trajectory each.

    Args:
        n: Number of steps, (slot,).
        log_det: $\ln\det S$ of one axis, (row, slot); a row is one model at one parameter value.
        products: Whitened products $Y^\dagger S^{-1} Y$, (row, slot, column, column).
        excess: Sum of $\ln(1 + w |e|^2/v)$ over steps, or of log-densities where some fixes are
            outliers, (row, slot); zero unless asked for.
    """

    n: FloatArray
    log_det: FloatArray
    products: NDArray[Any]
    excess: FloatArray


@dataclass(frozen=True)
class SlotForms:
    r"""Gaussian terms of each slot, from which a model makes the density of each trajectory.

    Slots of one pattern share their number of steps and their log-determinant.

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
        """The same of all axes together, with (point, component, ...) for (row, ...).

        Args:
            n_dim: Number of axes.
            n_components: Components of the model.
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
    """What an engine asks of a model, for many parameter values at once.

    Rows are parameter values times the components of a mixture.
    """

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        ...

    def n_state(self) -> int:
        """Components of the state of a model with a state-space form."""
        ...

    def lanes(self, intervals: FloatArray) -> NDArray[Any]:
        """A and Q by blocks of rows, (block, interval, 2, state, state, lane of a block)."""
        ...

    def starts(self) -> tuple[NDArray[Any], FloatArray, FloatArray]:
        """Initial covariance, variance of every fix, and tails of each row.

        Tails, (row, 3): the weight of heavy tails; fraction and additional variance of outliers.
        """
        ...

    def autocovariances(self, tau: float, n_lags: int) -> NDArray[Any]:
        """Covariances of steps 0, 1, ... apart, (row, lag)."""
        ...

    def mean_square_displacements(self, lags: FloatArray) -> FloatArray:
        """Mean square displacement per axis, (row, lag)."""
        ...

    def part(self, rows: slice) -> "Formulas":
        """The same for some of the rows."""
        ...


@runtime_checkable
class NumberedFormulas(Formulas, Protocol):
    """Formulas of a model that tells more than its motion."""

    def numbers(self) -> tuple[FloatArray, ...]:
        """What the model tells beside its motion, one value of each row."""
        ...


def triangle(packed: NDArray[Any], n_columns: int) -> NDArray[Any]:
    """Whole Hermitian matrices from their lower triangles, packed along the second axis.

    Args:
        packed: (slot, pair, row).
        n_columns: Rows of a matrix.

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
