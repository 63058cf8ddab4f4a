"""Models by name, each imported when it is asked for."""

__all__ = ["MODELS"]

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any

from driftbayes.models._base import AbstractModel

Family = type[AbstractModel] | AbstractModel


class _Models(MutableMapping[str, Any]):
    """Every model by its name, from simple to complex; add your own as to a dictionary."""

    def __init__(self, homes: dict[str, str]) -> None:
        self._known: dict[str, str | Family] = {**homes}

    def __getitem__(self, name: str) -> Any:
        found = self._known[name]
        if isinstance(found, str):
            module, family = found.split(".")
            found = getattr(import_module(f"driftbayes.models.{module}"), family)
            self._known[name] = found
        return found

    def __setitem__(self, name: str, model: Family) -> None:
        self._known[name] = model

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def __repr__(self) -> str:
        return f"models: {', '.join(self)}"


MODELS = _Models(
    {
        "brownian": "brownian.Brownian",
        "langevin": "langevin.Langevin",
        "fractional": "fractional.FractionalBrownian",
        "confined_brownian": "ornstein.ConfinedBrownian",
        "second_order": "second_order.SecondOrderLangevin",
        "matern": "matern.MaternVelocity",
        "oscillating": "oscillating.OscillatingLangevin",
        "confined": "confined.ConfinedLangevin",
        "two_scale": "two_scale.TwoScaleLangevin",
    }
)
