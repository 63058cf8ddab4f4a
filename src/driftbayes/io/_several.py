"""Read several files as one data set."""

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from driftbayes.data._trajectories import Trajectories, concatenated
from driftbayes.errors import DriftbayesError
from driftbayes.io._formats import choose, contents_of, read_as
from driftbayes.io._reading import ReadOptions

_MAX_FILES = 100_000


def read_several(files: Sequence[Path], options: ReadOptions, source: str) -> Trajectories:
    """Read files of one format as one data set.

    Args:
        files: One or more files.
        options: Options for reading each file.
        source: Name of the whole data set.

    Raises:
        DriftbayesError: If the files differ in format, units, dimensions or coordinates.
    """
    if not 0 < len(files) <= _MAX_FILES:
        raise DriftbayesError(f"expected 1 to {_MAX_FILES:,} files, got {len(files):,}")
    parts = _read(files, options)
    if len({str(part.provenance.get("plane")) for part in parts}) > 1 and options.frame == "auto":
        # Axes are transported beyond 80 degrees: if in one file, then in all of them.
        parts = _read(files, replace(options, frame="transported"))
    _check_alike(files, parts)
    ids, note = _ids(files, parts)
    return concatenated(parts, ids=ids, provenance=_provenance(files, parts, source, note))


def _read(files: Sequence[Path], options: ReadOptions) -> list[Trajectories]:
    parts, first = [], None
    for file in files:
        with ExitStack() as stack:
            contents = contents_of(file, stack)
            chosen = choose(contents, options.format)
            if first is not None and chosen.name != first.name:
                raise DriftbayesError(
                    f"{files[0].name!r} has format {first.name}, {file.name!r} has format "
                    f"{chosen.name}; read files of one format together"
                )
            first = chosen
            parts.append(read_as(chosen, contents, options))
    return parts


def _check_alike(files: Sequence[Path], parts: Sequence[Trajectories]) -> None:
    """Refuse files that differ in units, dimensions or coordinates."""
    properties = [
        {
            "unit of length": part.length_unit or "unknown",
            "unit of time": part.time_unit or "unknown",
            "number of dimensions": part.n_dim,
            "origin of time": part.provenance.get("time_origin", "none"),
            "kind of coordinates": "plane" if part.lonlat is None else "degrees",
            "measurement errors": "none" if part.position_sd is None else "given",
        }
        for part in parts
    ]
    for file, values in zip(files, properties, strict=True):
        for name, value in values.items():
            if value != properties[0][name]:
                raise DriftbayesError(
                    f"{files[0].name!r} and {file.name!r} differ in the {name}: "
                    f"{properties[0][name]} and {value}; read only files with the same {name}"
                )


def _ids(files: Sequence[Path], parts: Sequence[Trajectories]) -> tuple[np.ndarray, str]:
    """Return the ids of all trajectories, prefixed with the file name if they are not unique."""
    all_ids = [part.ids for part in parts]
    names = [str(name) for ids in all_ids for name in ids]
    if len(set(names)) == len(names):
        are_numbers = all(ids.dtype.kind in "iu" for ids in all_ids)
        return (np.concatenate(all_ids) if are_numbers else np.array(names)), ""
    stems = [file.name.partition(".")[0] for file in files]
    if max(Counter(stems).values()) > 1:
        top = os.path.commonpath([file.resolve().parent for file in files])
        stems = [os.path.relpath(file.resolve(), top) for file in files]
    joined = [
        f"{stem}/{name}" if str(name) != stem else stem
        for stem, ids in zip(stems, all_ids, strict=True)
        for name in ids
    ]
    return np.array(joined), "several files use the same ids; ids are now FILE/ID"


def _provenance(
    files: Sequence[Path], parts: Sequence[Trajectories], source: str, note: str
) -> dict[str, Any]:
    provenance = {**parts[0].provenance, "source": source}
    notes = [f"{len(files):,} files are read as one data set"] if len(files) > 1 else []
    notes += [note] if note else []
    counts = Counter(text for part in parts for text in part.provenance.get("notes", []))
    for file, part in zip(files, parts, strict=True):
        for text in part.provenance.get("notes", []):
            if counts[text] == len(files):
                notes += [text] * (text not in notes)
            elif len(notes) < 30:
                notes.append(f"{file.name}: {text}")
    guessed = list(
        dict.fromkeys(p.provenance["guessed"] for p in parts if "guessed" in p.provenance)
    )
    if guessed:
        provenance["guessed"] = "; or ".join(guessed)
    return {**provenance, "notes": notes, "files": [file.name for file in files[:100]]}
