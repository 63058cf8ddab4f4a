"""All runs of the experiment, one after the other, and their summaries."""

__all__ = ["simulate"]

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftbayes.reproduce.turbulence.experiment import PAPER, Experiment
from driftbayes.reproduce.turbulence.summarise import summarise_branches, summarise_run
from driftbayes.storage.atomic import write_netcdf
from driftbayes.turbulence.config import RunConfig
from driftbayes.turbulence.output import CONFIG
from driftbayes.turbulence.run import resume, run

if TYPE_CHECKING:
    import xarray as xr

# Name of the run, steps done, steps in all, latest row of its diagnostics.
Progress = Callable[[str, int, int, Mapping[str, float]], None]

BRANCHES = "branches"


def simulate(
    directory: Path, experiment: Experiment = PAPER, *, progress: Progress | None = None
) -> dict[str, Path]:
    """Run everything that is not there yet; return the summary of each run.

    May be killed at any moment: the next call goes on where this one stopped. A summary is made
    while the next run is going on, on cores that it does not need.

    Args:
        directory: Runs go to `runs` in it, summaries to `summaries`.
        experiment: What to run.
        progress: Called as runs go on.
    """
    runs, summaries = directory / "runs", directory / "summaries"
    summaries.mkdir(parents=True, exist_ok=True)
    names = [*experiment.realisations, *([BRANCHES] if experiment.branches else [])]
    written = {name: summaries / f"{name}.nc" for name in names}
    waiting: list[Future[None]] = []
    with ThreadPoolExecutor(1) as pool:

        def later(path: Path, make: Callable[..., "xr.Dataset"], *arguments: Any) -> None:
            if not path.exists():
                waiting.append(pool.submit(lambda: write_netcdf(make(*arguments), path)))

        for name, config in experiment.realisations.items():
            _run(runs / name, config, name, progress)
            later(written[name], summarise_run, runs / name, experiment)
        folders = {}
        for name, config in experiment.branches.items():
            folders[name] = runs / f"branch-{name}"
            _run(folders[name], config, name, progress, runs / experiment.branch_from)
        if folders:
            later(written[BRANCHES], summarise_branches, folders)
        for future in waiting:
            future.result()
    return written


def _run(
    folder: Path,
    config: RunConfig,
    name: str,
    progress: Progress | None,
    start_from: Path | None = None,
) -> None:
    def show(done: int, total: int, row: Mapping[str, float]) -> None:
        if progress is not None:
            progress(name, done, total, row)

    if (folder / CONFIG).exists():
        resume(folder, checkpoint_seconds=30.0, progress=show)
    else:
        run(config, folder, start_from=start_from, checkpoint_seconds=30.0, progress=show)
