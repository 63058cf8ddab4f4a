"""Figures, one per function: `(result, ax=None) -> Axes`."""
