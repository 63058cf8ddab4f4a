"""Stochastic differential equations that come with the package, one in each file."""
