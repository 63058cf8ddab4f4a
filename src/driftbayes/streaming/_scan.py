"""Scan a file by sums over its blocks, in memory that does not grow with the file."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from driftbayes import quality
from driftbayes._storage import PathLike
from driftbayes._typing import Progress
from driftbayes.comparison import Scan, scan_displacements
from driftbayes.comparison._scan import provenance_attrs
from driftbayes.data._sampling import Cut, Gaps, Windows, snap_taus, stride_of
from driftbayes.data._trajectories import Trajectories
from driftbayes.data.tangent import ground_of
from driftbayes.errors import DriftbayesError, NothingLeftError
from driftbayes.inference import Hypothesis, Method
from driftbayes.inference._methods import Coords
from driftbayes.io._blocks import BLOCK_POINTS, Block, Plan, plan_blocks
from driftbayes.io._limits import MEMORY_VARIABLE, memory_budget, readable_size
from driftbayes.io._reading import ReadOptions
from driftbayes.models import AbstractModel, check_summable
from driftbayes.streaming._tally import Prepare, Tally, TallySpec, read_prepared, tally_block
from driftbayes.streaming._workers import Workers

# Approximate number of positions from which scales of the data are estimated.
SAMPLE_POINTS = 1 << 20
# Bytes per observation of a block, and per process, measured with Zarr, Parquet and CSV in two
# dimensions by `benchmarks/throughput.py`.
_PER_POINT, _PER_PROCESS = 150, 270_000_000
# Number of sums at each sampling time, for different lengths of runs.
_KINDS = 4
# Maximum share of irregular intervals in the first trajectories; the whole file is checked later.
_MAX_STRAYS_FIRST = 0.2


@dataclass(frozen=True)
class StreamOptions:
    """Options for reading a file in blocks.

    Args:
        sample_points: Approximate number of positions to keep, in whole trajectories, to estimate
            scales; 0 keeps none.
        prepare: Function applied to the trajectories of each block.
        checks: Quality control as in `--qc`; limits that depend on the data come from the first
            trajectories.
        block_points: Observations in memory per worker.
        workers: Workers that read and sum; by default threads.
        scratch: Directory for temporary files.
        progress: Called with the stage, the number done and the total number.
    """

    sample_points: int = SAMPLE_POINTS
    prepare: Prepare | None = None
    checks: str | None = None
    block_points: int = BLOCK_POINTS
    workers: Workers = field(default_factory=Workers)
    scratch: PathLike | None = None
    progress: Progress | None = None


def check_streamable(
    models: Iterable[AbstractModel], gaps: Gaps = "split"
) -> tuple[tuple[int, bool], ...]:
    """Return the moments that models need; refuse models that need more than moments.

    Args:
        models: The models.
        gaps: Treatment of missing fixes; see `displacements`.
    """
    if gaps != "split":
        raise DriftbayesError(
            "gaps kept as longer steps need the single steps, but only sums are available; use "
            "--gaps split, or a part of the data that fits in memory"
        )
    moments: dict[int, bool] = {}
    for model in models:
        memory = check_summable(model)
        moments[memory] = moments.get(memory, False) or model.kind == "channels"
    return tuple(sorted(moments.items()))


def tally_file(
    path: PathLike,
    models: Callable[[int], Iterable[AbstractModel]],
    taus: Iterable[float | str] | str,
    options: ReadOptions | None = None,
    *,
    n_tau: int | None = None,
    windows: Windows = "first",
    gaps: Gaps = "split",
    snap: bool = True,
    **streaming: Any,
) -> tuple[Tally, Mapping[str, Any]]:
    """Compute the sums that models need over all trajectories of a file.

    Args:
        path: The file.
        models: Function from the number of dimensions to the models.
        taus: Requested sampling times.
        options: Reading options.
        n_tau: Steps per run; see `displacements`.
        windows: Which windows of `n_tau` steps to use.
        gaps: Treatment of missing fixes; only "split" can be streamed.
        snap: Whether to use the multiples of the recording interval nearest to `taus`; otherwise
            they must be multiples.
        **streaming: Fields of `StreamOptions`.

    Returns:
        The sums, and the provenance of the data.
    """
    cut = Cut(n_tau, windows, gaps)

    def spec_for(pilot: Trajectories, dt: float) -> TallySpec:
        chosen = list(models(pilot.n_dim))
        memories = check_streamable(chosen, cut.gaps)
        _check_axes(chosen, pilot)
        if snap:
            strides = tuple(map(int, np.rint(snap_taus(pilot, taus) / dt)))
        else:
            strides = tuple(stride_of(pilot, tau)[0] for tau in taus)
        return TallySpec(strides, dt, memories, cut.n_tau, cut.windows)

    return _reduce(path, options, spec_for, StreamOptions(**streaming))


def sample_file(
    path: PathLike, options: ReadOptions | None = None, **streaming: Any
) -> tuple[Tally, Mapping[str, Any]]:
    """Sample trajectories of a file by a hash of their content, without sums.

    Args:
        path: The file.
        options: Reading options.
        **streaming: Fields of `StreamOptions`.

    Returns:
        A tally with the sample, and the provenance of the data.
    """
    return _reduce(path, options, lambda _, dt: TallySpec((), dt, ()), StreamOptions(**streaming))


def _reduce(
    path: PathLike,
    options: ReadOptions | None,
    spec_for: Callable[[Trajectories, float], TallySpec],
    stream: StreamOptions,
) -> tuple[Tally, Mapping[str, Any]]:
    with plan_blocks(
        path,
        options,
        block_points=stream.block_points,
        scratch=stream.scratch,
        progress=stream.progress,
    ) as plan:
        tally, provenance = _sum_blocks(plan, spec_for, stream, 1)
        # Irregular intervals in the first trajectories may hide the interval of the whole file.
        if tally.usual_steps > 1:
            tally, provenance = _sum_blocks(plan, spec_for, stream, tally.usual_steps)
    tally.check_regular()
    if tally.quality:
        before = list(provenance.get("quality", []))
        provenance = {**provenance, "quality": before + tally.quality}
    return tally, provenance


def _sum_blocks(
    plan: Plan,
    spec_for: Callable[[Trajectories, float], TallySpec],
    stream: StreamOptions,
    n_intervals: int,
) -> tuple[Tally, Mapping[str, Any]]:
    """Sum over all blocks, with a multiple of the recording interval of the first trajectories."""
    pilot, checks = _read_pilot(plan, stream)
    # Irregular intervals may be more frequent here than in the whole file, which is checked later.
    dt = pilot.recording_interval or pilot.interval_but_for(_MAX_STRAYS_FIRST)
    dt = n_intervals * (dt or pilot.regular_interval)
    pilot = pilot.on_interval(dt)
    share = min(stream.sample_points / max(plan.n_points, 1), 1.0)
    spec = replace(spec_for(pilot, dt), sampled=share)
    workers = check_fits(plan.blocks, spec, pilot.n_dim, stream.workers)
    provenance = pilot.provenance
    del pilot
    function = partial(tally_block, prepare=stream.prepare, spec=spec, checks=checks)
    return workers.reduce(function, plan.blocks, Tally.merge, stream.progress), provenance


def scan_tally(
    tally: Tally,
    hypotheses: Sequence[Hypothesis],
    *,
    provenance: Mapping[str, Any] | None = None,
    method: Method | str = "auto",
    coords: Coords = "natural",
    prior_probabilities: Sequence[float] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Scan:
    """Compare hypotheses over tau, from the sums over a file.

    Args:
        tally: The sums.
        hypotheses: Model families with their priors, the same at every tau.
        provenance: Provenance of the data.
        method: Evidence method; see `scan`.
        coords: Coordinates of Laplace's method.
        prior_probabilities: Prior probabilities of the models.
        seed: Random seed for sampling methods.
        progress: Called with the stage, the number done and the total number.
    """
    displacements, skipped = tally.displacements()
    if not displacements:
        raise DriftbayesError(next(iter(skipped.values())))
    result = scan_displacements(
        displacements,
        hypotheses,
        method=method,
        coords=coords,
        prior_probabilities=prior_probabilities,
        seed=seed,
        progress=progress,
    )
    attributes = provenance_attrs(
        tally.fingerprint,
        provenance or {},
        n_tau=tally.spec.n_tau,
        seed=seed,
        windows=tally.spec.windows,
        gaps="split",
        coords=coords,
        prior_probabilities=prior_probabilities,
    )
    return replace(result, skipped=skipped, attributes=attributes)


def _read_pilot(
    plan: Plan, stream: StreamOptions
) -> tuple[Trajectories, tuple[quality.AbstractCheck, ...]]:
    """Read the first trajectories that pass quality control, and fix its limits with them."""
    for block in (plan.pilot, *plan.blocks):
        try:
            pilot = read_prepared(block, stream.prepare)
            if stream.checks is None:
                return pilot, ()
            checks = quality.fix_limits(pilot, stream.checks)
            # Repairs are recorded later, for each block.
            return replace(quality.apply(pilot, checks), provenance=pilot.provenance), checks
        except NothingLeftError:
            continue
    raise DriftbayesError("no trajectory is left; omit --drop-short or --qc, or give wider limits")


def _check_axes(models: Iterable[AbstractModel], pilot: Trajectories) -> None:
    """Refuse models that need common axes in the transported frame."""
    ground = ground_of(pilot)
    if ground is None or ground[0].frame != "transported":
        return
    for model in models:
        if model.needs_axes:
            raise DriftbayesError(
                f"{model.name} needs axes that all trajectories share, which a file read in blocks "
                "does not have in the transported frame; pass --frame local, or use a part of the "
                "data that fits in memory"
            )


def check_fits(blocks: Sequence[Block], spec: TallySpec, n_dim: int, workers: Workers) -> Workers:
    """Limit the number of threads to the memory; refuse a file that does not fit."""
    n = workers.at_once(len(blocks))
    largest = max(block.n_points for block in blocks)
    sizes = [memory * (n_dim + 1 if apart else 1) for memory, apart in spec.memories]
    tally = len(spec.strides) * _KINDS * 8 * sum(size**2 for size in sizes)
    # A result may wait to be merged while the next block is summed.
    per_worker = _PER_POINT * largest + 2 * tally
    if workers.processes is not None:
        per_worker += _PER_PROCESS
    budget = memory_budget()
    if workers.processes is None and workers.threads is None and n > 1:
        n = max(min((budget - tally) // per_worker, n), 1)
        workers = replace(workers, threads=n)
    # The last term is the total.
    needed = n * per_worker + tally
    if needed > budget:
        raise DriftbayesError(
            f"{n} worker{'s' if n > 1 else ''} with blocks of up to {largest:,} points and sums of "
            f"{readable_size(tally)} would take about {readable_size(needed)} of memory, more than "
            f"the available {readable_size(budget)}; use fewer workers (--workers), smaller blocks "
            "(--block-points) or fewer sampling times (a trajectory is never cut), or set "
            f"{MEMORY_VARIABLE}={readable_size(needed).replace(' ', '')}"
        )
    return workers
