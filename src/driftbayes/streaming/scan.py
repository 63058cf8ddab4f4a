"""From a file to a scan by way of sums, in memory that does not grow with the file."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from driftbayes import quality
from driftbayes.comparison import Scan, scan_displacements
from driftbayes.comparison.scan import provenance_attrs
from driftbayes.data.sampling import Gaps, Windows, check_cutting, snap_taus, stride_of
from driftbayes.data.tangent import ground_of
from driftbayes.data.trajectories import Trajectories
from driftbayes.errors import DriftbayesError, NothingLeftError
from driftbayes.inference import Hypothesis, Method
from driftbayes.inference.methods import Coords
from driftbayes.io.blocks import BLOCK_POINTS, Block, Plan, plan_blocks
from driftbayes.io.limits import MEMORY_VARIABLE, memory_budget, readable_size
from driftbayes.io.reading import ReadOptions
from driftbayes.models import AbstractModel, check_summable
from driftbayes.storage import PathLike
from driftbayes.streaming.tally import Prepare, Tally, TallySpec, read_prepared, tally_block
from driftbayes.streaming.workers import Progress, Workers

# Scales of the data are taken from about so many positions.
SAMPLE_POINTS = 1 << 20
# Measured with Zarr, Parquet and CSV in two dimensions (`benchmarks/throughput.py` measures it):
# bytes for each observation of a block, and for a process.
_PER_POINT, _PER_PROCESS = 150, 270_000_000
# Sums of this many kinds at each sampling time: lengths of runs and sizes of steps differ.
_KINDS = 4
# Share of odd intervals in the first trajectories with which the others are looked at.
_MAX_STRAYS_FIRST = 0.2


@dataclass(frozen=True)
class StreamOptions:
    """How a file is read in blocks.

    Args:
        sample_points: About how many positions to keep, in whole trajectories, from which to take
            scales; 0 keeps none.
        prepare: What to do with the trajectories of each block first.
        checks: Quality control as in `--qc`, with limits from the first trajectories where they
            come from the data.
        block_points: Observations in memory at a time, for each worker.
        workers: Who reads and sums; by default threads.
        scratch: Directory for temporary files.
        progress: Called with a stage, how many are done, and of how many.
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
    """Return the moments that models need; refuse what needs more than moments.

    Args:
        models: The models.
        gaps: What a missing fix does; see `displacements`.
    """
    if gaps != "split":
        raise DriftbayesError(
            "gaps that are kept as longer steps need the single steps, but only sums are "
            "kept; use --gaps split, or a part of the data that fits in memory"
        )
    found: dict[int, bool] = {}
    for model in models:
        needs = model.needs()
        memory = check_summable(needs)
        found[memory] = found.get(memory, False) or needs.kind == "channels"
    return tuple(sorted(found.items()))


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
    """Sum over all trajectories of a file what models need, and return its provenance.

    Args:
        path: The file.
        models: From the number of dimensions to the models that the sums are for.
        taus: Requested sampling times.
        options: How to read the file.
        n_tau: Steps per run; see `displacements`.
        windows: Which windows of `n_tau` steps to use.
        gaps: What a missing fix does; only "split" can be streamed.
        snap: Whether to use the multiples of the recording interval nearest to `taus`; otherwise
            they must be multiples.
        **streaming: Fields of `StreamOptions`.
    """
    check_cutting(n_tau, windows, gaps)

    def spec_for(pilot: Trajectories, dt: float) -> TallySpec:
        chosen = list(models(pilot.n_dim))
        memories = check_streamable(chosen, gaps)
        _check_axes(chosen, pilot)
        if snap:
            strides = tuple(map(int, np.rint(snap_taus(pilot, taus) / dt)))
        else:
            strides = tuple(stride_of(pilot, tau)[0] for tau in taus)
        return TallySpec(strides, dt, memories, n_tau, windows)

    return _reduce(path, options, spec_for, StreamOptions(**streaming))


def sample_file(
    path: PathLike, options: ReadOptions | None = None, **streaming: Any
) -> tuple[Tally, Mapping[str, Any]]:
    """Keep some trajectories of a file, chosen by a hash of their content, and sum nothing.

    Args:
        path: The file.
        options: How to read the file.
        **streaming: Fields of `StreamOptions`.
    """
    return _reduce(path, options, lambda _, dt: TallySpec((), dt, ()), StreamOptions(**streaming))


def _reduce(
    path: PathLike,
    options: ReadOptions | None,
    spec_for: Callable[[Trajectories, float], TallySpec],
    how: StreamOptions,
) -> tuple[Tally, Mapping[str, Any]]:
    with plan_blocks(
        path, options, block_points=how.block_points, scratch=how.scratch, progress=how.progress
    ) as plan:
        tally, provenance = _summed(plan, spec_for, how, 1)
        # Odd intervals of the first trajectories may hide the usual one of all.
        if tally.usual_steps > 1:
            tally, provenance = _summed(plan, spec_for, how, tally.usual_steps)
    tally.check_regular()
    if tally.quality:
        before = list(provenance.get("quality", []))
        provenance = {**provenance, "quality": before + tally.quality}
    return tally, provenance


def _summed(
    plan: Plan,
    spec_for: Callable[[Trajectories, float], TallySpec],
    how: StreamOptions,
    n_intervals: int,
) -> tuple[Tally, Mapping[str, Any]]:
    """Sum over all blocks, on so many recording intervals of the first trajectories."""
    pilot, checks = _pilot(plan, how)
    # Odd intervals may be more frequent here than in the whole file, which is checked at its end.
    dt = pilot.recording_interval or pilot.interval_but_for(_MAX_STRAYS_FIRST)
    dt = n_intervals * (dt or pilot.regular_interval)
    pilot = pilot.on_interval(dt)
    share = min(how.sample_points / max(plan.n_points, 1), 1.0)
    spec = replace(spec_for(pilot, dt), sampled=share)
    workers = check_fits(plan.blocks, spec, pilot.n_dim, how.workers)
    provenance = pilot.provenance
    del pilot
    function = partial(tally_block, prepare=how.prepare, spec=spec, checks=checks)
    return workers.reduce(function, plan.blocks, Tally.merge, how.progress), provenance


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
    """Compare hypotheses along tau on the sums over a file.

    Args:
        tally: The sums.
        hypotheses: Model families with their priors, the same at every tau.
        provenance: Where the data come from.
        method: Of the evidence; see `scan`.
        coords: Coordinates of Laplace's method.
        prior_probabilities: Probabilities of the models before the data.
        seed: Of a method that samples.
        progress: Called with a stage, how many are done, and of how many.
    """
    many, skipped = tally.displacements()
    if not many:
        raise DriftbayesError(next(iter(skipped.values())))
    result = scan_displacements(
        many,
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


def _pilot(
    plan: Plan, how: StreamOptions
) -> tuple[Trajectories, tuple[quality.AbstractCheck, ...]]:
    """The first trajectories that are left, and quality control with the limits that they give."""
    for block in (plan.pilot, *plan.blocks):
        try:
            pilot = read_prepared(block, how.prepare)
            if how.checks is None:
                return pilot, ()
            chosen = quality.fixed_by(pilot, how.checks)
            # They tell the recording interval; what was done is counted block by block.
            return replace(quality.apply(pilot, chosen), provenance=pilot.provenance), chosen
        except NothingLeftError:
            continue
    msg = "no trajectory is left; leave out --drop-short or --qc, or give wider limits"
    raise DriftbayesError(msg)


def _check_axes(models: Iterable[AbstractModel], pilot: Trajectories) -> None:
    """Refuse models that need common axes, where each trajectory has its own."""
    found = ground_of(pilot)
    if found is None or found[0].frame != "transported":
        return
    for model in models:
        if model.needs().axes:
            raise DriftbayesError(
                f"{model.name} needs axes that all trajectories share, which a file that is read "
                "in blocks has not in the transported frame; pass --frame local, or use a part of "
                "the data that fits in memory"
            )


def check_fits(blocks: Sequence[Block], spec: TallySpec, n_dim: int, workers: Workers) -> Workers:
    """Refuse a file whose sums would not fit into the memory of this machine."""
    n = workers.at_once(len(blocks))
    largest = max(block.n_points for block in blocks)
    sizes = [memory * (n_dim + 1 if apart else 1) for memory, apart in spec.memories]
    tally = len(spec.strides) * _KINDS * 8 * sum(size**2 for size in sizes)
    # A result may wait for its turn while the next block is summed.
    one = _PER_POINT * largest + 2 * tally
    if workers.processes is not None:
        one += _PER_PROCESS
    budget = memory_budget()
    if workers.processes is None and workers.threads is None and n > 1:
        n = max(min((budget - tally) // one, n), 1)
        workers = replace(workers, threads=n)
    # One tally more: the total.
    needed = n * one + tally
    if needed > budget:
        raise DriftbayesError(
            f"{n} worker{'s' if n > 1 else ''} with blocks of up to {largest:,} points and sums of "
            f"{readable_size(tally)} would take about {readable_size(needed)} of memory, and "
            f"{readable_size(budget)} may be used here; use fewer workers (--workers), smaller "
            "blocks (--block-points) or fewer sampling times (a trajectory is never cut), or set "
            f"{MEMORY_VARIABLE}={readable_size(needed).replace(' ', '')}"
        )
    return workers
