"""Statements of the paper beside what we find, and the numbers along tau that they need."""

__all__ = ["PAIR", "Claim", "along_tau", "log_bayes_factors", "yes"]

from dataclasses import dataclass

import numpy as np

from driftbayes.comparison import Scan
from driftbayes.typing import FloatArray

PAIR = "langevin:brownian"


@dataclass(frozen=True)
class Claim:
    """A statement of the paper beside what is found here.

    Args:
        claim: The statement.
        paper: What the paper says, or where.
        ours: What is found.
        agrees: "yes", "no", "in part", or "-" where the paper says nothing.
    """

    claim: str
    paper: str
    ours: str
    agrees: str


def yes(condition: object) -> str:
    """Return "yes" or "no"."""
    return "yes" if bool(condition) else "no"


def along_tau(scan: Scan, model: str, field: str, parameter: str = "") -> FloatArray:
    """Return one number of a model's evidence at every tau.

    Args:
        scan: The scan.
        model: Name of the model.
        field: Attribute of the evidence.
        parameter: Which parameter, if the attribute holds one number for each.
    """
    values = [getattr(evidence, field) for evidence in scan.evidences(model)]
    return np.array([value[parameter] for value in values] if parameter else values)


def log_bayes_factors(scan: Scan) -> FloatArray:
    """Return ln K of Langevin against Brownian at every tau."""
    return np.array([comparison.log_bayes_factors[PAIR] for comparison in scan.comparisons])
