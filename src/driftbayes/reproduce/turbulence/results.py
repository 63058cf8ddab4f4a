"""Simulations of the turbulence experiment, and its packaged results."""

__all__ = ["Results", "load_results", "simulate", "write_results"]

import json
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftbayes._storage.atomic import write_netcdf
from driftbayes.errors import DriftbayesError
from driftbayes.reproduce.study import DEFAULT_RUNNER, Runner
from driftbayes.reproduce.turbulence.experiment import PAPER, Experiment, Scaling
from driftbayes.reproduce.turbulence.summary import condense, summarise_branches, summarise_run
from driftbayes.turbulence.config import RunConfig
from driftbayes.turbulence.output import CONFIG
from driftbayes.turbulence.run import resume, run

if TYPE_CHECKING:
    import xarray as xr

BRANCHES = "branches"


@dataclass(frozen=True, eq=False)
class Results:
    """Results of the runs.

    Each realisation is a data set with, among others:

    - `energy_mean`, `enstrophy_mean`, `cfl`, `kurtosis_u`, `kurtosis_zeta` along `flow_time`, and
      the mean and standard deviation of every column of the run's diagnostics after release;
    - `energy_spectrum` and other spectra, means over snapshots after release; `vorticity` at
      release (integers, to be multiplied by its attribute `scale`); `shown`, a few trajectories;
    - `lvaf`, `msd`, `absolute_diffusivity`, `taylor_diffusivity`, `kurtosis` along `lag`;
    - `moment_first` and `moment_all` along `tau`: upper triangles of the second moments of runs of
      25 steps, of the first window of every particle and of all windows;
    - `window_...`: estimates from each window; `jackknife_...`: from all particles except one
      group.

    Args:
        realisations: By name.
        branches: Short runs from one state that differ in interpolation or precision, if any.
    """

    realisations: Mapping[str, "xr.Dataset"]
    branches: "xr.Dataset | None" = None

    def config(self, name: str) -> dict[str, Any]:
        """Return the configuration of a realisation."""
        return json.loads(self.realisations[name].attrs["config"])

    def scaling(self, name: str) -> Scaling:
        """Return the mean energy and enstrophy of a realisation after release."""
        dataset = self.realisations[name]
        means = dict(zip(dataset["column"].values, dataset["column_mean"].values, strict=True))
        return Scaling(float(means["energy_mean"]), float(means["enstrophy_mean"]))


def load_results(directory: Path | None = None) -> Results:
    """Load the packaged results, or those in a directory.

    The packaged results were computed on one NVIDIA H200; the attributes of every data set hold the
    configuration, the seed, the versions and the fingerprint of its trajectories.

    Args:
        directory: Directory of `write_results`; by default the packaged results.
    """
    import xarray as xr

    runs = {}
    with as_file(files(__package__) / "data") as packaged:
        for path in sorted((directory or packaged).glob("*.nc")):
            with xr.open_dataset(path) as stored:
                runs[path.stem] = stored.load()
    branches = runs.pop(BRANCHES, None)
    if not runs:
        raise DriftbayesError(f"no results in {str(directory)!r}; compute them with --simulate")
    return Results(runs, branches)


def write_results(summaries: Mapping[str, Path], directory: Path) -> Results:
    """Condense the summaries of all runs into a directory that `load_results` reads.

    Args:
        summaries: From `simulate`.
        directory: Output directory.
    """
    import xarray as xr

    directory.mkdir(parents=True, exist_ok=True)
    for name, path in summaries.items():
        with xr.open_dataset(path) as stored:
            dataset = stored.load()
        if name != BRANCHES:
            dataset = condense(dataset, json.loads(dataset.attrs["config"])["particles"])
        write_netcdf(dataset, directory / f"{name}.nc", compress=True)
    return load_results(directory)


def simulate(
    directory: Path, experiment: Experiment = PAPER, *, runner: Runner = DEFAULT_RUNNER
) -> dict[str, Path]:
    """Run all missing simulations, and return the path of each run's summary.

    The next call resumes an interrupted one. Each run is summarised while the next one runs.

    Args:
        directory: Output directory; runs are in `runs`, summaries in `summaries`.
        experiment: The experiment.
        runner: Options of the computation, for progress.
    """
    runs, summaries = directory / "runs", directory / "summaries"
    summaries.mkdir(parents=True, exist_ok=True)
    names = [*experiment.realisations, *([BRANCHES] if experiment.branches else [])]
    written = {name: summaries / f"{name}.nc" for name in names}
    waiting: list[Future[None]] = []

    def run_or_resume(
        name: str, config: RunConfig, folder: Path, start_from: Path | None = None
    ) -> None:
        options: dict[str, Any] = {
            "checkpoint_seconds": 30.0,
            "progress": lambda done, total, _: runner.report(name, done, total),
        }
        if (folder / CONFIG).exists():
            resume(folder, **options)
        else:
            run(config, folder, start_from=start_from, **options)

    with ThreadPoolExecutor(1) as pool:

        def summarise(path: Path, make: Callable[..., "xr.Dataset"], *arguments: Any) -> None:
            if not path.exists():
                waiting.append(pool.submit(lambda: write_netcdf(make(*arguments), path)))

        for name, config in experiment.realisations.items():
            run_or_resume(name, config, runs / name)
            summarise(written[name], summarise_run, runs / name, experiment)
        folders = {name: runs / f"branch-{name}" for name in experiment.branches}
        for name, config in experiment.branches.items():
            run_or_resume(name, config, folders[name], runs / experiment.branch_from)
        if folders:
            summarise(written[BRANCHES], summarise_branches, folders)
        for future in waiting:
            future.result()
    return written
