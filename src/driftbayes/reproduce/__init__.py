"""The paper's experiments, run with this package."""
