"""Limits as people write them: 3m/s, 6h, 50m, or a plain number in the units of the data."""

__all__ = ["in_units_of", "parse_amount"]

import math

from driftbayes.data.trajectories import Trajectories
from driftbayes.data.units import length_factor, parse_quantity, time_factor
from driftbayes.errors import DriftbayesError


def parse_amount(text: str, option: str) -> tuple[float, str]:
    """A positive number and its unit, which may be empty.

    Args:
        text: For example `3m/s`, `6h` or `0.5`.
        option: Where it was given, for messages.
    """
    try:
        value = float(text)
    except ValueError:
        return parse_quantity(text, option)
    if not (math.isfinite(value) and value > 0):
        msg = f"{option} must be a positive number, with or without a unit, got {text!r}"
        raise DriftbayesError(msg)
    return value, ""


def in_units_of(
    trajectories: Trajectories, amount: tuple[float, str], kind: str, option: str
) -> float:
    """An amount in the units of the data.

    Args:
        trajectories: The data.
        amount: A number and its unit; without a unit it is in those of the data already.
        kind: "length", "time" or "speed".
        option: Where it was given, for messages.
    """
    value, unit = amount
    if not unit:
        return value
    over = unit.split("/")
    if len(over) != (2 if kind == "speed" else 1):
        example = {"length": "50m", "time": "6h", "speed": "3m/s"}[kind]
        msg = f"{option} must be a {kind}, for example {example}, got the unit {unit!r}"
        raise DriftbayesError(msg)
    if kind != "time":
        value *= length_factor(over[0].strip(), _known(trajectories.length_unit, "length", option))[
            0
        ]
    if kind != "length":
        factor = time_factor(over[-1].strip(), _known(trajectories.time_unit, "time", option))[0]
        value = value / factor if kind == "speed" else value * factor
    return value


def _known(unit: str, what: str, option: str) -> str:
    if not unit:
        msg = (
            f"{option} has a unit, but the data have no unit of {what}: pass --{what}-unit, or "
            f"give {option} as a plain number in the units of the file"
        )
        raise DriftbayesError(msg)
    return unit
