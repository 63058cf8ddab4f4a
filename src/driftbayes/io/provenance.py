"""Where data come from, as JSON inside a file, and what a reader adds to it."""

__all__ = ["extended", "from_json", "to_json"]

import json
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from driftbayes.errors import DriftbayesError


def to_json(provenance: Mapping[str, Any]) -> str:
    """Provenance as one line of JSON; what JSON does not know becomes its nearest relative."""
    return json.dumps(provenance, default=_plain)


def from_json(text: object, source: str) -> dict[str, Any]:
    """Provenance from JSON."""
    try:
        provenance = json.loads(str(text))
    except (ValueError, RecursionError):
        provenance = None
    if not isinstance(provenance, dict):
        msg = f"the provenance in {source!r} is not a JSON object; remove it or write the file anew"
        raise DriftbayesError(msg)
    return provenance


def extended(
    stored: Mapping[str, Any], path: Path, reader: str, columns: Mapping[str, str | None] | None
) -> dict[str, Any]:
    """Stored provenance with the file just read on top and the ones before it in `earlier`.

    Only the name of the file is kept: its directories are nobody's business but the user's.
    """
    result = dict(stored)
    before = {key: result.pop(key) for key in ("source", "reader", "columns") if key in result}
    if before:
        earlier = result.get("earlier", [])
        result["earlier"] = [*(earlier if isinstance(earlier, list) else [earlier]), before]
    result |= {"source": path.name, "reader": reader}
    if columns:
        result["columns"] = {key: name or None for key, name in columns.items()}
    return result


def _plain(value: object) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, PurePath):
        return value.name
    return str(value)
