"""Bayesian maps: a quadtree of cells, averaged exactly over all its prunings."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from driftbayes._aliases import Saved, public
from driftbayes._precision import in_double_precision
from driftbayes._representation import Described, to_dataset
from driftbayes._typing import FloatArray, IntArray
from driftbayes.comparison._dependence import quick_dependence
from driftbayes.comparison._hypotheses import check_names, make_hypotheses
from driftbayes.comparison._prunings import Prunings, average_prunings
from driftbayes.comparison.regions import not_a_plane, season_numbers
from driftbayes.data._sampling import Cut, Displacements, displacements, ragged_arange, sampled_runs
from driftbayes.data._trajectories import Trajectories
from driftbayes.data._units import readable
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Hypothesis, evidence
from driftbayes.models import MODELS, model_named
from driftbayes.space._batched import is_fast
from driftbayes.space._cells import (
    MAX_DEPTH,
    Box,
    Levels,
    box_around,
    find_cells,
    interleave,
    levels_of,
)
from driftbayes.space._grouped import GroupedSteps, leaf_window
from driftbayes.space._leaves import Leaves, solve_leaves

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

Progress = Callable[[str, int, int], None]

# Largest default depth, and mean number of steps per finest cell at the default depth.
_MAX_DEFAULT_DEPTH, _STEPS_PER_CELL = 6, 10
# Largest default depth for models that are solved cell by cell.
_MAX_SLOW_DEPTH = 3
# Largest number of steps for models with parameters per trajectory, at regular and at irregular
# times.
_MAX_SCATTERED = (100_000, 20_000)
_SCATTERED = ("brownian", "langevin")
# Largest number of particles for models that are solved one set at a time.
_MAX_SLOW_PARTICLES = 30


@dataclass(frozen=True, eq=False)
class ModelTree:
    """Evidence for one model, with constant and with spatially varying parameters.

    Args:
        hypothesis: Model family and prior, the same in all cells.
        leaves: Evidences and posteriors of all cells, depth after depth.
        prunings: Average over all prunings.
    """

    hypothesis: Hypothesis
    leaves: Leaves
    prunings: Prunings

    @property
    def log_evidence_homogeneous(self) -> float:
        """Ln Z with constant parameters."""
        return float(self.leaves.log_evidence[0])

    @property
    def log_evidence(self) -> float:
        """Ln Z of all prunings, the undivided region among them."""
        return float(self.prunings.log_evidence[0][0])

    @property
    def log_evidence_inhomogeneous(self) -> float:
        """Ln Z of all prunings that divide the region."""
        if len(self.prunings.log_evidence) == 1:
            return self.log_evidence_homogeneous
        return float(self.prunings.log_evidence[1].sum())

    @property
    def log_bayes_factor_inhomogeneous(self) -> float:
        """Ln K of varying against constant parameters."""
        return self.log_evidence_inhomogeneous - self.log_evidence_homogeneous

    @property
    def probability_homogeneous(self) -> float:
        """Probability that the region is not divided."""
        return float(1 - self.prunings.split[0][0])

    @property
    def expected_cells(self) -> float:
        """Posterior mean of the number of cells with data."""
        return float(sum(level.sum() for level in self.prunings.leaf))


@dataclass(frozen=True, eq=False, repr=False)
class TreeMap(Described, Saved):
    """A map at one sampling time: its evidence, and averages over all partitions of the region.

    Args:
        tau: Sampling time.
        box: The region.
        levels: Cells with data.
        models: Tree of each model.
        rivals: Ln Z of alternatives to spatial variation, by kind and model: separate parameters
            for each particle or each season, and diffusivities that differ between particles.
        n_steps: Steps in each cell, by depth.
        n_particles: Particles in each cell, by depth.
        fine: Cell number, steps and particles of the finest cells with data.
        attributes: Units, provenance and options.
    """

    kind: ClassVar[str] = "map"

    tau: float
    box: Box
    levels: Levels
    models: Mapping[str, ModelTree]
    rivals: Mapping[str, Mapping[str, float]]
    n_steps: tuple[IntArray, ...]
    n_particles: tuple[IntArray, ...]
    fine: tuple[IntArray, IntArray, IntArray]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, model: str) -> ModelTree:
        """Return the tree of one model."""
        return self.models[model]

    @property
    def units(self) -> tuple[str, str]:
        """Names of the units of length and time."""
        return self.attributes["length_unit"], self.attributes["time_unit"]

    @property
    def split(self) -> float:
        """Prior probability that a cell is divided."""
        return float(self.attributes["split"])

    @property
    def particles_per_cell(self) -> float:
        """Expected number of particles in the cell of a step, under the best model."""
        leaf = self.models[self.best].prunings.leaf
        parts = zip(leaf, self.n_steps, self.n_particles, strict=True)
        return float(sum(p @ (n * m) for p, n, m in parts) / self.n_steps[0][0])

    @property
    def best(self) -> str:
        """Name of the model with the largest evidence over all prunings."""
        return max(self.models, key=lambda name: self.models[name].log_evidence)

    @property
    def log_bayes_factor_inhomogeneous(self) -> float:
        """Ln K of varying against constant parameters, averaged over the models."""
        varying = [tree.log_evidence_inhomogeneous for tree in self.models.values()]
        constant = [tree.log_evidence_homogeneous for tree in self.models.values()]
        return float(np.logaddexp.reduce(varying) - np.logaddexp.reduce(constant))

    @property
    def probability_homogeneous(self) -> float:
        """Probability that parameters are the same everywhere, averaged over the models."""
        if self.levels.depth == 0:
            return 1.0
        odds = self.log_bayes_factor_inhomogeneous + np.log(self.split) - np.log1p(-self.split)
        return float(np.exp(-np.logaddexp(0.0, odds)))

    def cell_of(self, depth: int) -> tuple[tuple[IntArray, ...], int]:
        """Return the index, at each level, of the cell around every grid point; -1 if none.

        Args:
            depth: Depth of the grid, in row-major order.
        """
        row, column = (part.ravel() for part in np.indices((2**depth, 2**depth)))
        codes = interleave(column, row, depth)
        places = tuple(
            self.levels.find(d, codes >> (2 * (depth - d)))
            for d in range(min(depth, self.levels.depth) + 1)
        )
        return places, 2**depth

    def visits(self, codes: IntArray) -> tuple[IntArray, IntArray]:
        """Count steps and particles in cells of the finest grid, by cell number."""
        occupied, steps, particles = self.fine
        index = find_cells(occupied, codes)
        return np.where(index >= 0, steps[index], 0), np.where(index >= 0, particles[index], 0)

    def averaged(self, model: str, depth: int | None = None) -> dict[str, tuple[FloatArray, ...]]:
        """Average mean, error and within-cell variation of each quantity over all prunings.

        The error is the posterior standard deviation, including the variance between prunings. The
        variation within a cell is the standard deviation between its quarters beyond their errors,
        which the tree neglects. A cell of a pruning without data has the prior. Grid points whose
        cell more probably has no data are NaN.

        Args:
            model: Name of a model.
            depth: Depth of the grid, by default the deepest of the tree.
        """
        depth = self.levels.depth if depth is None else depth
        tree, leaves = self.models[model], self.models[model].leaves
        indices, size = self.cell_of(depth)
        first = self.levels.first_nodes
        n_cells = size * size
        remaining = np.ones(n_cells)
        total, square, within = np.zeros((3, len(leaves.quantities), n_cells))
        variation = self._variation(leaves)
        for d, index in enumerate(indices):
            has_data = index >= 0
            probability = np.where(has_data, tree.prunings.leaf[d][index], 0.0)
            node = first[d] + index
            mean = np.where(has_data, leaves.mean[:, node], 0.0)
            second = np.where(has_data, leaves.sd[:, node] ** 2 + mean**2, 0.0)
            total += probability * mean
            square += probability * second
            within += probability * np.where(has_data, variation[:, node], 0.0)
            remaining -= probability
        empty = np.clip(remaining, 0.0, 1.0)
        prior_mean, prior_sd = leaves.prior.T
        total += empty * prior_mean[:, None]
        square += empty * (prior_sd**2 + prior_mean**2)[:, None]
        sd = np.sqrt(np.maximum(square - total**2, 0.0))
        out: dict[str, tuple[FloatArray, ...]] = {}
        for i, quantity in enumerate(leaves.quantities):
            value, error, inner = total[i], sd[i], np.sqrt(within[i])
            if quantity.is_log:
                value = np.exp(value)
                error, inner = value * error, value * inner
            hidden = empty > 0.5
            out[quantity.name] = tuple(
                np.where(hidden, np.nan, part).reshape(size, size) for part in (value, error, inner)
            )
        out["no_data"] = (empty.reshape(size, size),)
        return out

    def _variation(self, leaves: Leaves) -> FloatArray:
        """Estimate the variance within each cell, (quantity, cell), from its quarters.

        Under a constant gradient, the means of the quarters have 3/4 of the variance.
        """
        out = np.zeros_like(leaves.mean)
        first = self.levels.first_nodes
        for d in range(self.levels.depth):
            nodes = slice(first[d], first[d + 1])
            children = slice(first[d + 1], first[d + 2])
            parent, steps = self.levels.parents[d + 1], self.n_steps[d + 1].astype(np.float64)
            n = first[d + 1] - first[d]
            whole = np.bincount(parent, steps, minlength=n)
            weight = steps / whole[parent]
            for i in range(len(out)):
                mean, sd = leaves.mean[i, children], leaves.sd[i, children]
                mean_of_children = np.bincount(parent, weight * mean, minlength=n)
                spread = weight * (mean - mean_of_children[parent]) ** 2
                noise = weight * (1 - weight) * sd**2
                variance = np.bincount(parent, spread - noise, minlength=n)
                out[i, nodes] = np.maximum(variance, 0.0) * 4 / 3
        return out

    def plot(self) -> "Figure":
        """Draw the map under the best model, with errors."""
        return public("map_figure", "driftbayes.plots.map")(self.to_dataset(), self.best)

    def export(self, simulator: str, path: Any, **options: Any) -> str:
        """Return code for a simulator, and write its grid; see `driftbayes.export`."""
        return public("export")(self, simulator, path, **options)

    def to_json(self) -> dict[str, Any]:
        """Return the evidences as plain numbers and text."""
        names = (
            *("log_evidence_homogeneous", "log_evidence_inhomogeneous", "log_evidence"),
            *("log_bayes_factor_inhomogeneous", "probability_homogeneous", "expected_cells"),
        )
        models = {
            name: {n: getattr(tree, n) for n in names} | {"priors": tree.hypothesis.describe()}
            for name, tree in self.models.items()
        }
        return {
            "tau": self.tau,
            "length_unit": self.units[0],
            "time_unit": self.units[1],
            "log_bayes_factor_inhomogeneous": self.log_bayes_factor_inhomogeneous,
            "probability_homogeneous": self.probability_homogeneous,
            "split_probability": self.split,
            "depth": self.levels.depth,
            "n_steps": int(self.n_steps[0][0]),
            "n_particles": int(self.n_particles[0][0]),
            "models": models,
            "rivals": {kind: dict(by_model) for kind, by_model in self.rivals.items()},
            "dependence": self.attributes["dependence"],
            "data_fingerprint": self.attributes["data_fingerprint"],
        }

    def to_dataset(self) -> "xr.Dataset":
        """Return the averaged map as an xarray Dataset that follows the CF conventions."""
        return to_dataset(self)


@in_double_precision
def map_tree(
    trajectories: Trajectories,
    hypotheses: Sequence[Hypothesis],
    tau: float | None,
    *,
    depth: int | None = None,
    split: float = 0.5,
    n_tau: int | None = None,
    scatter: bool = True,
    progress: Progress | None = None,
) -> TreeMap:
    """Compare constant with spatially varying parameters, and map the latter.

    The region is a square, divided recursively into quarters. Parameters are constant in each cell
    of a partition, and all partitions are averaged, weighted by their evidence. A step belongs to
    the cell in which it begins; its likelihood is conditional on the earlier steps of its run.

    Args:
        trajectories: Trajectories in two dimensions.
        hypotheses: Model families with their priors, the same in all cells.
        tau: Sampling time; None takes every position at its own interval, for irregular times.
        depth: Largest number of divisions of the region. By default cells are no smaller than the
            root mean square step, and hold about ten steps each.
        split: Prior probability that a cell is divided.
        n_tau: Number of steps per run; None uses whole stretches of trajectories.
        scatter: Whether to also compare diffusivities that differ between particles (`+scatter`).
        progress: Called with the stage, the number done, and the total.

    Raises:
        DriftbayesError: The data do not allow a map, or a model cannot be mapped.
    """
    check_names(hypotheses)
    if trajectories.n_dim != 2:
        raise DriftbayesError(not_a_plane(trajectories.n_dim))
    data = displacements(trajectories, tau, n_tau=n_tau, windows="all")
    if data.position_sd is not None:
        raise DriftbayesError(
            "a map by evidence needs exact positions, but these have known errors; omit the "
            "errors, or give --cell for a fixed grid"
        )
    longest = int(data.row_sizes.max())
    windows = {h.name: leaf_window(h, longest, is_regular=data.is_regular) for h in hypotheses}
    apart = any("anisotropic" in h.name for h in hypotheses)
    places, is_lonlat = _places(data)
    box = box_around(places, is_lonlat=is_lonlat)
    slow = not all(is_fast(h) for h in hypotheses)
    deepest = _depth(data, box, depth, slow=slow)
    codes = box.codes(places, deepest)
    fine, labels, counts = np.unique(codes, return_inverse=True, return_counts=True)
    levels = levels_of(fine, counts, deepest)
    members = np.concatenate(levels.members).T
    cells = GroupedSteps(data, labels.ravel(), windows, apart)
    groups = {
        name: GroupedSteps(data, group, windows, apart)
        for name, group in _rival_groups(trajectories, data, tau, n_tau).items()
    }
    models: dict[str, ModelTree] = {}
    rivals: dict[str, dict[str, float]] = {}
    for number, hypothesis in enumerate(hypotheses):
        report = partial(_report, progress, number, len(hypotheses), levels.n_nodes)
        leaves = solve_leaves(hypothesis, cells.sums(hypothesis, *members), report)
        by_depth = np.split(leaves.log_evidence, levels.first_nodes[1:-1])
        prunings = average_prunings(by_depth, levels.parents, split)
        models[hypothesis.name] = ModelTree(hypothesis, leaves, prunings)
        for name, group in groups.items():
            if slow and int(group.labels.max()) >= _MAX_SLOW_PARTICLES:
                continue
            solution = solve_leaves(hypothesis, group.sums(hypothesis))
            rivals.setdefault(name, {})[hypothesis.name] = float(solution.log_evidence.sum())
    scatter = scatter and data.n_particles > 1
    too_many = len(data.dx) > _MAX_SCATTERED[0 if data.is_regular else 1]
    if scatter and not too_many:
        for hypothesis in _scattered(hypotheses, trajectories):
            record = evidence(hypothesis, data)
            rivals.setdefault("scatter", {})[hypothesis.name] = record.log_evidence
    particle = np.repeat(data.trajectory, data.row_sizes)
    shared = quick_dependence(trajectories, data.tau)
    attributes = {
        "dependence": shared.to_json() if shared.is_serious else None,
        "length_unit": trajectories.length_unit,
        "time_unit": trajectories.time_unit,
        "split": split,
        "n_tau": n_tau,
        "data_fingerprint": data.fingerprint,
        "provenance": dict(trajectories.provenance),
        "frame": "plane" if data.ground is None else data.ground.frame,
        "centre": None if data.ground is None else (data.ground.lon, data.ground.lat),
        "side": _side(data, box),
        "without_scatter": scatter and too_many,
        "longest": None if data.is_regular else _longest(data),
    }
    counted = [
        _counts(codes >> (2 * (deepest - depth)), cells_at_depth, particle)
        for depth, cells_at_depth in enumerate(levels.codes)
    ]
    steps, visitors = zip(*counted, strict=True)
    grid = np.unique(codes >> (2 * (deepest - levels.depth)))
    visited = _counts(codes >> (2 * (deepest - levels.depth)), grid, particle)
    fields = (data.tau, box, levels, models, rivals, steps, visitors)
    return TreeMap(*fields, fine=(grid, *visited), attributes=attributes)


def _places(data: Displacements) -> tuple[FloatArray, bool]:
    """Return the start positions of steps: longitudes and latitudes, or positions on a plane."""
    # In a file with both x, y and degrees, positions are on the plane of the file.
    if data.lonlat is None or data.ground is None or data.ground.frame != "local":
        return data.origin, False
    return data.lonlat, True


def _depth(data: Displacements, box: Box, requested: int | None, *, slow: bool) -> int:
    """Return the largest depth: as requested, or as the data allow."""
    if requested is not None:
        if not (isinstance(requested, int | np.integer) and 1 <= requested <= MAX_DEPTH):
            msg = f"depth must be a whole number from 1 to {MAX_DEPTH}, got {requested}"
            raise DriftbayesError(msg)
        return int(requested)
    side = _side(data, box)
    step = float(np.sqrt(np.mean(data.dx**2)))
    by_step = int(np.floor(np.log2(side / step)))
    if by_step < 1:
        size, unit = readable(side, data.length_unit, 3), data.length_unit
        raise DriftbayesError(
            f"steps of {readable(step, unit, 3)} are as long as the region of {size} is wide, so "
            "cells cannot be distinguished; use a smaller tau, or give --depth"
        )
    by_number = int(np.ceil(np.log2(len(data.dx) / _STEPS_PER_CELL) / 2))
    max_depth = _MAX_SLOW_DEPTH if slow else _MAX_DEFAULT_DEPTH
    return int(np.clip(min(by_step, by_number), 1, max_depth))


def _longest(data: Displacements) -> tuple[float, float, float]:
    """Return the shortest and longest duration of a step, and the length of the longest step."""
    size = np.linalg.norm(data.dx, axis=1)
    return float(data.interval.min()), float(data.interval.max()), float(size.max())


def _side(data: Displacements, box: Box) -> float:
    """Return the side of the region as a length."""
    if not box.is_lonlat or data.ground is None:
        return box.size[1]
    return float(np.radians(box.size[1]) * data.ground.earth_radius)


def _rival_groups(
    trajectories: Trajectories, data: Displacements, tau: float | None, n_tau: int | None
) -> dict[str, IntArray]:
    """Group steps in other ways: by particle, and by season where times are dates."""
    groups = {}
    particle = np.repeat(data.trajectory, data.row_sizes)
    if data.n_particles > 1:
        groups["particles"] = np.unique(particle, return_inverse=True)[1].ravel()
    if trajectories.provenance.get("time_origin") and trajectories.time_unit == "s":
        runs = sampled_runs(trajectories, tau, Cut(n_tau, "all"))
        rows = runs.rows[np.repeat(runs.firsts, runs.n_steps) + ragged_arange(runs.n_steps)]
        season = season_numbers(trajectories)[rows]
        distinct, numbers = np.unique(season, return_inverse=True)
        if len(distinct) > 1:
            groups["seasons"] = numbers.ravel()
    return groups


def _scattered(
    hypotheses: Sequence[Hypothesis], trajectories: Trajectories
) -> tuple[Hypothesis, ...]:
    """Return the core models with diffusivities that differ between particles."""
    by_core = {}
    for hypothesis in hypotheses:
        core = hypothesis.model.core.name
        if core in _SCATTERED and core not in by_core:
            name = f"{core}+scatter"
            model = model_named(name, MODELS, trajectories.n_dim)
            priors = {p: hypothesis.priors[p] for p in model.parameters if p in hypothesis.priors}
            by_core[core] = make_hypotheses([name], trajectories, priors=priors).hypotheses[0]
    return tuple(by_core.values())


def _counts(codes: IntArray, cells: IntArray, particle: IntArray) -> tuple[IntArray, IntArray]:
    """Count steps and particles in cells.

    Args:
        codes: Cell of each step.
        cells: Cells to count, increasing.
        particle: Particle of each step.
    """
    index = find_cells(cells, codes)
    index, particle = index[index >= 0], particle[index >= 0]
    steps = np.bincount(index, minlength=len(cells))
    pairs = np.unique(index * (int(particle.max()) + 1) + particle)
    visitors = np.bincount(pairs // (int(particle.max()) + 1), minlength=len(cells))
    return steps, visitors


def _report(progress: Progress | None, number: int, n_models: int, n_nodes: int, done: int) -> None:
    """Report progress over all models."""
    if progress is not None:
        progress("cells", number * n_nodes + done, n_models * n_nodes)
