"""Loops that Numba compiles: arrays in, arrays out, no model and no class of the package."""
