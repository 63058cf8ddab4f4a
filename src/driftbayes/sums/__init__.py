"""Sums over displacements, computed by compiled loops."""

from driftbayes.sums.windows import WindowGroups, WindowSums, diagonal_sums

__all__ = ["WindowGroups", "WindowSums", "diagonal_sums"]
