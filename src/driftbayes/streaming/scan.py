"""From a file to a scan by way of sums, in memory that does not grow with the file."""

__all__ = ["check_streamable", "sample_file", "scan_tally", "tally_file"]

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from driftbayes import quality
from driftbayes.comparison import Scan, scan_displacements
from driftbayes.comparison.scan import provenance_attrs
from driftbayes.data.sampling import Gaps, Windows, check_cutting, snap_taus, stride_of
from driftbayes.data.trajectories import Trajectories
from driftbayes.errors import DriftbayesError, NothingLeftError
from driftbayes.inference import Hypothesis, Method
from driftbayes.inference.methods import Coords
from driftbayes.io.blocks import BLOCK_POINTS, Plan, plan_blocks
from driftbayes.io.reading import ReadOptions
from driftbayes.models import AbstractModel, check_summable
from driftbayes.storage import PathLike
from driftbayes.streaming.block import Prepare, read_prepared, tally_block
from driftbayes.streaming.memory import check_fits
from driftbayes.streaming.tally import Tally, TallySpec
from driftbayes.streaming.workers import Progress, Workers

# Scales of the data are taken from about so many positions.
SAMPLE_POINTS = 1 << 20


def check_streamable(
    models: Iterable[AbstractModel], gaps: Gaps = "split"
) -> tuple[tuple[int, bool], ...]:
    """What moments models need; refuse a model or an option that needs more than moments.

    Args:
        models: Classes of models.
        gaps: What a missing fix does; see `displacements`.
    """
    if gaps != "split":
        msg = (
            "gaps that are kept as longer steps need the steps themselves, of which only sums are "
            "kept; use --gaps split, or a part of the data that fits in memory"
        )
        raise DriftbayesError(msg)
    found: dict[int, bool] = {}
    for model in models:
        needs = model.needs()
        memory = check_summable(needs)
        found[memory] = found.get(memory, False) or needs.kind == "channels"
    return tuple(sorted(found.items()))


def tally_file(
    path: PathLike,
    models: Callable[[int], Iterable[AbstractModel]],
    taus: Iterable[float],
    options: ReadOptions | None = None,
    *,
    n_tau: int | None = None,
    windows: Windows = "first",
    gaps: Gaps = "split",
    snap: bool = True,
    sample_points: int = SAMPLE_POINTS,
    **reading: Any,
) -> tuple[Tally, Mapping[str, Any]]:
    """Sum over all trajectories of a file what models need, and tell where the data come from.

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
        sample_points: About how many positions to keep, in whole trajectories, from which to take
            scales; 0 keeps none.
        **reading: Further arguments of `sample_file`.
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

    return _reduce(path, options, spec_for, sample_points, **reading)


def sample_file(
    path: PathLike,
    options: ReadOptions | None = None,
    *,
    sample_points: int = SAMPLE_POINTS,
    **reading: Any,
) -> tuple[Tally, Mapping[str, Any]]:
    """Keep some trajectories of a file, chosen by a hash of what is in them, and sum nothing.

    Args:
        path: The file.
        options: How to read the file.
        sample_points: About how many positions to keep, in whole trajectories.
        **reading: `format`, the name of the file's format, where it is not to be found from the
            content; `prepare`, what to do with the trajectories of each block first; `checks`,
            quality control as in `--qc`, with limits from the first trajectories where they come
            from the data; `block_points`, observations that are in memory at a time, for each
            worker; `workers`, by default threads; `scratch`, a directory for temporary files;
            `progress`, called with a stage, how many are done, and of how many.
    """
    return _reduce(path, options, lambda _, dt: TallySpec((), dt, ()), sample_points, **reading)


def _reduce(
    path: PathLike,
    options: ReadOptions | None,
    spec_for: Callable[[Trajectories, float], TallySpec],
    sample_points: int,
    *,
    format: str | None = None,
    prepare: Prepare | None = None,
    checks: str | None = None,
    block_points: int = BLOCK_POINTS,
    workers: Workers | None = None,
    scratch: PathLike | None = None,
    progress: Progress | None = None,
) -> tuple[Tally, Mapping[str, Any]]:
    with plan_blocks(
        path,
        options,
        format=format,
        block_points=block_points,
        scratch=scratch,
        progress=progress,
    ) as plan:
        pilot, chosen = _pilot(plan, prepare, checks)
        dt = pilot.recording_interval
        if dt is None:
            raise DriftbayesError(pilot.irregular_message())
        share = min(sample_points / max(plan.n_points, 1), 1.0)
        spec = replace(spec_for(pilot, dt), sampled=share)
        workers = check_fits(plan.blocks, spec, pilot.n_dim, workers or Workers())
        provenance = pilot.provenance
        del pilot
        function = partial(tally_block, prepare=prepare, spec=spec, checks=chosen)
        tally = workers.reduce(function, plan.blocks, Tally.merge, progress)
    if tally.quality:
        before = list(provenance.get("quality", []))
        provenance = {**provenance, "quality": before + tally.quality}
    return tally, provenance


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
    plan: Plan, prepare: Prepare | None, checks: str | None
) -> tuple[Trajectories, tuple[quality.AbstractCheck, ...]]:
    """The first trajectories that are left, and quality control with the limits that they give."""
    for block in (plan.pilot, *plan.blocks):
        try:
            pilot = read_prepared(block, prepare)
            if checks is None:
                return pilot, ()
            chosen = quality.fixed_by(pilot, checks)
            # They tell the recording interval; what was done is counted block by block.
            return replace(quality.apply(pilot, chosen), provenance=pilot.provenance), chosen
        except NothingLeftError:
            continue
    msg = "no trajectory is left; leave out --drop-short or --qc, or give wider limits"
    raise DriftbayesError(msg)


def _check_axes(models: Iterable[AbstractModel], pilot: Trajectories) -> None:
    """Refuse models that need common axes, where each trajectory has its own."""
    if pilot.ground is None or pilot.ground[0].frame != "transported":
        return
    for model in models:
        if model.needs().axes:
            msg = (
                f"{model.name} needs axes that all trajectories share, which a file that is read "
                "in blocks has not in the transported frame; pass --frame local, or use a part of "
                "the data that fits in memory"
            )
            raise DriftbayesError(msg)
