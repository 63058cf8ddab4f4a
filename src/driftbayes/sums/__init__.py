"""Sums over displacements, as compiled loops: a pass over the data at the speed of reading them."""

from driftbayes.sums.windows import WindowSums, diagonal_sums

__all__ = ["WindowSums", "diagonal_sums"]
