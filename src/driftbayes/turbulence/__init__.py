"""Simulation of forced two-dimensional turbulence with passive particles."""
