"""Section 5 of the paper: both models on particles in simulated two-dimensional turbulence."""
