"""Second moments of many data sets side by side, for models that they are enough for."""

__all__ = ["MomentStack"]

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from driftbayes.kernels.threads import run_in_threads
from driftbayes.likelihood.moments import SecondMoments
from driftbayes.typing import FloatArray, IntArray

# Rows that are worth a thread of their own.
_ROWS_PER_TASK = 256
_MAX_TASKS = 4


@dataclass(frozen=True, eq=False)
class MomentStack:
    """Several data sets, each with groups of runs of its own.

    Args:
        moments: Second moments with a leading axis over data sets.
    """

    moments: SecondMoments

    def __len__(self) -> int:
        """Number of data sets."""
        return len(self.moments.forms)

    @property
    def n_lags(self) -> int:
        """Lags that filters reach over."""
        return int(self.moments.forms.shape[-1])

    @cached_property
    def taus(self) -> FloatArray:
        """Sampling time of each data set."""
        return np.asarray(self.moments.tau, dtype=np.float64)

    @cached_property
    def n(self) -> FloatArray:
        """Number of scalar displacements of each data set."""
        return np.asarray(self._predicted.sum(axis=1))

    @cached_property
    def _predicted(self) -> FloatArray:
        return np.ascontiguousarray(self.moments.predicted, dtype=np.float64)

    @cached_property
    def _groups(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """Orders, which groups are paired, and packed forms."""
        forms = np.asarray(self.moments.forms, dtype=np.float64)
        orders = np.array(self.moments.orders, dtype=np.int64)
        # Groups that only fill up a stack are empty: no order is theirs.
        orders[~np.any(forms != 0, axis=(2, 3))] = -1
        i, j = np.tril_indices(forms.shape[-1])
        packed = forms[:, :, i, j] + np.where(i == j, 0.0, forms[:, :, j, i])
        paired = np.ascontiguousarray(self.moments.paired, dtype=np.float64)
        return orders, paired, np.ascontiguousarray(packed)

    def terms(
        self, covariance: FloatArray, offsets: IntArray, members: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Log-determinants and quadratic forms.

        Args:
            covariance: Autocovariances at lags 0, 1, ..., (row, lag).
            offsets: Where the members of each row begin, and where those of the last one end.
            members: Data sets to evaluate with each row.

        Returns:
            Log-determinant and quadratic form of each member.
        """
        from driftbayes.kernels.toeplitz import stack_products

        log_det, quadratic = np.zeros(len(members)), np.zeros(len(members))
        n_rows = len(covariance)
        n_tasks = int(np.clip(n_rows // _ROWS_PER_TASK, 1, _MAX_TASKS))
        edges = np.linspace(0, n_rows, n_tasks + 1).astype(np.int64)

        def whiten(low: int, high: int) -> None:
            part = slice(offsets[low], offsets[high])
            stack_products(
                covariance[low:high],
                offsets[low : high + 1] - offsets[low],
                members[part],
                self._groups,
                self._predicted,
                *(log_det[part], quadratic[part]),
            )

        run_in_threads(whiten, list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)))
        return log_det, quadratic
