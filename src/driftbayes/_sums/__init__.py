"""Sums over displacements, computed by compiled loops."""

from driftbayes._sums.windows import WindowGroups, WindowSums, diagonal_sums

__all__ = ["WindowGroups", "WindowSums", "diagonal_sums"]
