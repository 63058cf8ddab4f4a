"""Convert segments to pandas tables and xarray datasets."""

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._representation import to_dataframe, to_dataset
from driftbayes._version import __version__
from driftbayes.changes._analysis import Segments

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


def _attributes(result: Segments) -> dict[Any, Any]:
    """Return attributes that a file can store."""
    return {
        "model": result.hypothesis.name,
        "priors": json.dumps(result.hypothesis.describe()),
        "tau": result.data.tau,
        "rate": result.rate,
        "log_evidence": result.log_evidence,
        "log_evidence_no_change": result.log_evidence_no_change,
        "log_bayes_factor_change": result.log_bayes_factor_change,
        "length_unit": result.data.length_unit,
        "time_unit": result.data.time_unit,
        "time_origin": result.time_origin or "",
        "data_fingerprint": result.data.fingerprint,
        "driftbayes_version": __version__,
    }


@to_dataframe.register(Segments)
def _(result: Segments) -> "pd.DataFrame":
    import pandas as pd

    frame = pd.DataFrame(result.rows())
    frame.attrs = _attributes(result)
    return frame


@to_dataset.register(Segments)
def segments_dataset(result: Segments) -> "xr.Dataset":
    """Convert tracks, their segments, and averages over all segmentations to a Dataset.

    Candidates and segments of all tracks are concatenated (contiguous ragged arrays).
    """
    import xarray as xr

    tracks, time = result.tracks, result.data.time_unit
    time_attributes = {"units": time} if time else {}
    rows = result.rows()
    track: dict[str, Any] = {
        "candidate_count": [len(t.times) for t in tracks],
        "segment_count": [len(t.mean) for t in tracks],
        "n_steps": [t.n_steps for t in tracks],
        "spacing": [t.spacing for t in tracks],
        "probability_change": [t.any_change for t in tracks],
        "log_bayes_factor_change": [t.log_bayes_factor for t in tracks],
        "track_log_evidence": [t.log_evidence for t in tracks],
        "track_log_evidence_no_change": [t.log_evidence_no_change for t in tracks],
    }
    variables: dict[str, Any] = {name: ("track", values) for name, values in track.items()}
    for name, dimension in (("candidate_count", "candidate"), ("segment_count", "segment")):
        variables[name] = ("track", track[name], {"sample_dimension": dimension})
    for name in ("start", "start_low", "start_high", "end"):
        variables[name] = ("segment", [row[name] for row in rows], time_attributes)
    variables["segment_n_steps"] = ("segment", [row["n_steps"] for row in rows])
    variables["time"] = ("candidate", np.concatenate([t.times for t in tracks]), time_attributes)
    attributes = {"long_name": "probability of a change at this time"}
    probabilities = np.concatenate([t.probability for t in tracks])
    variables["change_probability"] = ("candidate", probabilities, attributes)
    for p, (name, unit) in enumerate(zip(result.names, result.units, strict=True)):
        for suffix, moment, average in (("", "mean", "average"), ("_sd", "sd", "average_sd")):
            values = [row[f"{name}{suffix}"] for row in rows]
            text = {"long_name": f"posterior {moment} of {name} in a segment", "units": unit}
            variables[f"{name}{suffix}"] = ("segment", values, text)
            # No step begins at the last candidate of a track.
            along = [np.append(getattr(t, average)[:, p], np.nan) for t in tracks]
            long_name = f"posterior {moment} of {name} after this time, over all segmentations"
            text = {"long_name": long_name, "units": unit}
            variables[f"{name}_average{suffix}"] = ("candidate", np.concatenate(along), text)
    ids = ("track", [t.id for t in tracks], {"cf_role": "trajectory_id"})
    return xr.Dataset(variables, coords={"id": ids}, attrs=_attributes(result))
