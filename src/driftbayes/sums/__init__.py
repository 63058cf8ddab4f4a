"""Sums over displacements, as compiled loops: a pass over the data at the speed of reading them."""

from driftbayes.sums.windows import WindowGroups, WindowSums, diagonal_sums

__all__ = ["WindowGroups", "WindowSums", "diagonal_sums"]
