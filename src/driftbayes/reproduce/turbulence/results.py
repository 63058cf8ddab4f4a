"""The packaged results of the turbulence experiment: one function loads them."""

__all__ = ["Results", "load_results", "write_results"]

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftbayes.errors import DriftbayesError
from driftbayes.reproduce.turbulence.condense import condense
from driftbayes.reproduce.turbulence.experiment import Scaling
from driftbayes.reproduce.turbulence.simulate import BRANCHES
from driftbayes.storage.atomic import write_netcdf

if TYPE_CHECKING:
    import xarray as xr

_DATA = "data"


@dataclass(frozen=True, eq=False)
class Results:
    """What is kept of the runs.

    Each realisation is a data set with, among others:

    - `energy_mean`, `enstrophy_mean`, `cfl`, `kurtosis_u`, `kurtosis_zeta` along `flow_time`, and
      the mean and standard deviation of every column of the run's diagnostics after release;
    - `energy_spectrum` and its like, means over snapshots after release; `vorticity` at release
      (whole numbers, to be multiplied by its attribute `scale`); `shown`, a few trajectories;
    - `lvaf`, `msd`, `absolute_diffusivity`, `taylor_diffusivity`, `kurtosis` along `lag`;
    - `moment_first` and `moment_all` along `tau`: upper triangles of the second moments of runs of
      25 steps, of the first window of every particle and of all windows;
    - `window_...`: estimates from each window by itself; `jackknife_...`: from all particles but
      one group.

    Args:
        realisations: By name.
        branches: Short runs from one state that differ in interpolation or precision, if any.
    """

    realisations: Mapping[str, "xr.Dataset"]
    branches: "xr.Dataset | None" = None

    def config(self, name: str) -> dict[str, Any]:
        """The configuration that a realisation was run with."""
        return json.loads(self.realisations[name].attrs["config"])

    def scaling(self, name: str) -> Scaling:
        """Mean energy and enstrophy of a realisation after release."""
        dataset = self.realisations[name]
        means = dict(zip(dataset["column"].values, dataset["column_mean"].values, strict=True))
        return Scaling(float(means["energy_mean"]), float(means["enstrophy_mean"]))


def load_results(directory: Path | None = None) -> Results:
    """The results that came with the package, or those in a directory.

    They were computed on one NVIDIA H200; every data set holds the configuration, the seed, the
    versions and the fingerprint of its trajectories in its attributes.

    Args:
        directory: Where `write_results` wrote; by default the package's own.
    """
    if directory is not None:
        return _load(directory)
    with as_file(files(__package__) / _DATA) as packaged:
        return _load(packaged)


def write_results(summaries: Mapping[str, Path], directory: Path) -> Results:
    """Condense the summaries of all runs into a directory that `load_results` reads.

    Args:
        summaries: From `simulate`.
        directory: Where to.
    """
    import xarray as xr

    directory.mkdir(parents=True, exist_ok=True)
    for name, path in summaries.items():
        with xr.open_dataset(path) as stored:
            dataset = stored.load()
        if name != BRANCHES:
            dataset = condense(dataset, json.loads(dataset.attrs["config"])["particles"])
        write_netcdf(dataset, directory / f"{name}.nc", compress=True)
    return _load(directory)


def _load(directory: Path) -> Results:
    import xarray as xr

    found = {}
    for path in sorted(directory.glob("*.nc")):
        with xr.open_dataset(path) as stored:
            found[path.stem] = stored.load()
    branches = found.pop(BRANCHES, None)
    if not found:
        msg = f"there are no results in {str(directory)!r}; make them with --simulate"
        raise DriftbayesError(msg)
    return Results(found, branches)
