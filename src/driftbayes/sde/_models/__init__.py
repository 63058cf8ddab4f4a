"""Stochastic differential equations of the package, one per file."""
