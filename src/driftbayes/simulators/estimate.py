"""One number for a simulator, with its error."""

__all__ = ["Estimate"]

from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """One parameter.

    Args:
        value: Posterior mean.
        sd: Posterior standard deviation.
        low: Smallest posterior mean over the times at which the model holds.
        high: Largest of them.
        unit: Its unit.
    """

    value: float
    sd: float
    low: float
    high: float
    unit: str
