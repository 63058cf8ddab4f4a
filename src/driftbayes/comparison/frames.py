"""Comparisons and scans with labels: as tables of pandas, datasets and trees of xarray."""

__all__ = ["comparison_dataframe", "comparison_dataset", "comparison_datatree", "scan_dataframe"]

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from driftbayes._version import __version__
from driftbayes.inference import QUANTILES
from driftbayes.inference.frames import UNITS, evidence_datatree, rows_of

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from driftbayes.comparison.bayes import Comparison
    from driftbayes.comparison.scan import Scan


def comparison_dataframe(one: "Comparison") -> "pd.DataFrame":
    """One row per model and parameter.

    Args:
        one: The comparison.
    """
    import pandas as pd

    frame = pd.DataFrame(_rows(one))
    frame.attrs = {**_attributes(one), "data_fingerprint": one.data_fingerprint}
    return frame


def comparison_dataset(one: "Comparison") -> "xr.Dataset":
    """As that of a scan at this tau alone, without what only a scan can say.

    Args:
        one: The comparison.
    """
    from driftbayes.comparison.dataset import scan_dataset
    from driftbayes.comparison.scan import Scan

    whole = scan_dataset(Scan((one,))).isel(tau=0).drop_vars("consistent")
    units = [row["unit"] for row in _rows(one)]
    whole = whole.assign_coords(unit=("parameter", units))
    attributes = {name: value for name, value in whole.attrs.items() if name != "consistency"}
    whole.attrs = {**attributes, "data_fingerprint": one.data_fingerprint}
    return whole


def comparison_datatree(one: "Comparison") -> "xr.DataTree":
    """The dataset of the comparison in `comparison`, and the tree of each evidence by its model.

    Args:
        one: The comparison.
    """
    import xarray as xr

    dataset = comparison_dataset(one)
    groups = {"/": xr.Dataset(attrs=dataset.attrs), "/comparison": dataset}
    for name, evidence in one.evidences.items():
        # A slash would make two groups of one name.
        inside = f"/{name.replace('/', '_')}"
        for path, node in evidence_datatree(evidence, QUANTILES).to_dict().items():
            groups[inside + path.rstrip("/")] = node
    return xr.DataTree.from_dict(groups)


def scan_dataframe(one: "Scan") -> "pd.DataFrame":
    """One row per tau, model and parameter, with whether tau is in the consistent range.

    Args:
        one: The scan.
    """
    import pandas as pd

    rows = []
    for comparison in one.comparisons:
        for row in _rows(comparison):
            found = one.consistency[row["model"]][row["parameter"]]
            inside = found is not None and found.tau_min <= row["tau"] <= found.tau_max
            rows.append({**row, "consistent": inside})
    frame = pd.DataFrame(rows)
    stored: dict[Hashable, Any] = {name: value for name, value in one.attributes.items()}
    frame.attrs = {**_attributes(one.comparisons[0]), **stored}
    return frame


def _rows(one: "Comparison") -> list[dict[str, Any]]:
    rows = []
    for name, evidence in one.evidences.items():
        more = {
            "probability": float(one.probabilities[name]),
            "n_particles": one.n_particles,
            "n_displacements": one.n_displacements,
        }
        rows += [{**row, **more} for row in rows_of(evidence, QUANTILES)]
    return rows


def _attributes(one: "Comparison") -> dict[Hashable, Any]:
    return {
        "units": {"tau": one.time_unit, **UNITS},
        "length_unit": one.length_unit,
        "time_unit": one.time_unit,
        "method": one.method,
        "driftbayes_version": __version__,
    }
