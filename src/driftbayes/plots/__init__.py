"""Figures, one per function: `(result, ax=None) -> Axes`. They compute nothing."""
