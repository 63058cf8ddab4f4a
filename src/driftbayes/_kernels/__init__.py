"""Numba-compiled loops that take and fill plain arrays, without models or classes."""
