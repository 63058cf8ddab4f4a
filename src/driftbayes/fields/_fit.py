r"""Fields of diffusivity and flow with evidence for them.

$\ln\kappa(x) = \ln\kappa_0 + f(x)$ and $u(x) = U + w(x)$. $\kappa_0$ and U have the priors of the
homogeneous model; f and w are smooth fields (`splines`). The four hypotheses are that neither, κ, u
or both vary. Their evidence is by Laplace's approximation (`problem`). The density of a step is
locally Gaussian (`local`), or, where κ varies too much over a step, the transition density of the
Fokker–Planck equation (`transition`).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from driftbayes._typing import FloatArray
from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.fields._averages import AveragedFit, Fields
from driftbayes.fields._fokker_planck import Grid
from driftbayes.fields._local import HYPOTHESES, FieldPriors, LocalSteps, StepSums, default_boxes
from driftbayes.fields._prepare import (
    MIN_STEPS,
    check_data,
    check_walls,
    chosen_hypotheses,
    make_splines,
    wrapped_origin,
)
from driftbayes.fields._problem import Member, Progress, best_member, by_hypothesis, fit_members
from driftbayes.fields._transition import TransitionSteps, check_work, choose_cells

DENSITIES = ("auto", "local", "fokker-planck")
# Largest |∇κ|√(τ/κ) at which the local Gaussian density is accurate; see `FieldFit.roughness`.
_MAX_ROUGHNESS = 0.3
# Steps that begin closer to a wall than this many standard deviations are not Gaussian.
_NEAR_WALL = 4.0


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class FieldFit(AveragedFit):
    """Evidence for fields of diffusivity and flow, and the fields.

    Args:
        priors: Priors of the homogeneous part.
        density: Density of the steps: "local" or "fokker-planck".
        density_error: Error of ln L at the mode, in nats, from the approximate density of the
            steps. For the local Gaussian: 3/8 of the mean square roughness times the number of
            steps. For the Fokker–Planck density: from a finer grid, by which ln Z is corrected.
        refusal: Reason why the Fokker–Planck density was not used although the steps are long.
        n_near_walls: Number of steps excluded because they begin near a wall.
    """

    priors: FieldPriors
    density: str = "local"
    density_error: float = 0.0
    refusal: str = ""
    n_near_walls: int = 0

    def _moments(self, mean: FloatArray, cov: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
        d = self.splines.n_dim
        size = np.exp(mean[0] + 0.5 * cov[0, 0])
        square = size**2 * np.exp(cov[0, 0])
        out = [(size, square), (mean[0], mean[0] ** 2 + cov[0, 0])]
        for i in range(1, 1 + d):
            # κ is log-normal, and ∇κ = κ ∇ln κ.
            slope_square = square * ((mean[i] + 2 * cov[0, i]) ** 2 + cov[i, i])
            out.append((size * (mean[i] + cov[0, i]), slope_square))
        return out + [(mean[i], mean[i] ** 2 + cov[i, i]) for i in range(1 + d, 1 + 2 * d)]

    def _named(self, values: FloatArray, suffix: str) -> dict[str, FloatArray]:
        d = self.splines.n_dim
        kappa, log_kappa, gradient, flow = values[0], values[1], values[2 : 2 + d], values[2 + d :]
        named = {"kappa": kappa, "log_kappa": log_kappa, "kappa_gradient": gradient.T}
        return {name + suffix: part for name, part in (named | {"flow": flow.T}).items()}

    def draw(self, x: ArrayLike, n_draws: int = 100, *, seed: int = 0) -> dict[str, FloatArray]:
        d = self.splines.n_dim
        s, *rest = self._drawn(self._fields(self._checked(x)), n_draws, seed)
        kappa = np.exp(s)
        return {
            "kappa": kappa,
            "kappa_gradient": kappa[:, :, None] * np.stack(rest[:d], axis=-1),
            "flow": np.stack(rest[d:], axis=-1),
        }

    def _fields(self, x: FloatArray) -> Fields:
        # ln κ, its derivatives along each axis, and the flow.
        full, slopes = self._designs(x)
        flows = [[(1 + i, full)] for i in range(self.splines.n_dim)]
        return [[(0, full)], *([(0, slope)] for slope in slopes), *flows]

    @cached_property
    def roughness(self) -> float:
        r"""95 % quantile over steps of $|\nabla\kappa|\sqrt{\tau/\kappa}$ at the mode.

        This is the relative change of κ over a step. The local Gaussian loses 3/8 of its square in
        nats per step; at 0.3 it overestimates κ by 4 to 7 %.
        """
        problem = self._problem
        local = problem if isinstance(problem, LocalSteps) else problem.local
        return _roughness(local, self.members, self.tau)

    @property
    def warnings(self) -> tuple[str, ...]:
        out = []
        if self.density == "local" and self.roughness > _MAX_ROUGHNESS:
            advice = "--density fokker-planck or a smaller tau"
            if self.refusal:
                advice = f"a smaller tau ({self.refusal})"
            out.append(
                f"kappa changes by {self.roughness:.0%} over one step of tau: the local Gaussian "
                f"density is no longer accurate; use {advice}"
            )
        return tuple(out + self._resolution_warnings())

    def to_json(self) -> dict[str, Any]:
        amplitudes = {"sd_log_kappa": 1.0, "sd_flow": self.priors.flow}
        return self._evidence_json(amplitudes) | {
            "density": self.density,
            "density_error": self.density_error,
            "n_near_walls": self.n_near_walls,
            "priors": asdict(self.priors),
        }


def _step_roughness(local: LocalSteps, member: Member, tau: float) -> FloatArray:
    """Return |∇κ|√(τ/κ) at the start of each step."""
    s, g = local.log_kappa(member.name, member.mode)
    return np.linalg.norm(g, axis=-1) * np.sqrt(np.exp(s) * tau)


def _roughness(local: LocalSteps, members: Sequence[Member], tau: float) -> float:
    """Return the 95 % quantile over steps of the roughness at the mode."""
    size = _step_roughness(local, best_member(members), tau)
    order = np.argsort(size)
    reached = np.cumsum(local.data.n[order]) >= 0.95 * local.data.n.sum()
    return float(size[order][np.argmax(reached)])


def fit_field(
    data: Displacements,
    priors: FieldPriors,
    *,
    n_intervals: int | None = None,
    hypotheses: Sequence[str] = tuple(HYPOTHESES),
    in_boxes: bool | None = None,
    density: str = "auto",
    walls: ArrayLike | None = None,
    progress: Progress = None,
) -> FieldFit:
    """Fit smooth fields of diffusivity and flow to displacements, with evidence.

    Args:
        data: Displacements at one sampling time, in one or two dimensions.
        priors: Priors of the homogeneous part.
        n_intervals: Knot intervals along the longer side (default: 16 in one dimension, 8 in two).
        hypotheses: Some of "kappa", "flow" and "both"; the homogeneous model is always included.
        in_boxes: Whether steps are summed in small boxes, which is faster; by default if there are
            more than 4,000. Only the local density uses boxes.
        density: Density of the steps: "local" (Gaussian), "fokker-planck", or "auto", which uses
            the latter where κ changes by more than 30 % over a step.
        walls: Positions of reflecting walls, (2, dim): lower and upper. The local density excludes
            steps that begin within four standard deviations of a wall.
        progress: Called with the stage, the number done, and the total.

    Raises:
        DriftbayesError: The data do not allow a field, or the splines or cells are too many.
    """
    check_data(data)
    if density not in DENSITIES:
        msg = f"unknown density {density!r}; expected one of {', '.join(DENSITIES)}"
        raise DriftbayesError(msg)
    names = chosen_hypotheses(HYPOTHESES, hypotheses)
    x = wrapped_origin(data)
    ends = x + data.dx
    edge = None if walls is None else check_walls(walls, x, ends)
    splines = make_splines(x, n_intervals)
    is_far_from_walls = np.ones(len(x), dtype=bool)
    if edge is not None:
        wall_distance = _NEAR_WALL * np.sqrt(np.mean(data.dx**2))
        is_far_from_walls = np.all(
            (x - edge[0] > wall_distance) & (edge[1] - x > wall_distance), axis=1
        )
    if density == "fokker-planck" and data.period is not None:
        msg = "the Fokker–Planck density does not support periodic domains; use --density local"
        raise DriftbayesError(msg)
    if is_far_from_walls.sum() < MIN_STEPS and density == "local":
        raise DriftbayesError(
            f"only {is_far_from_walls.sum()} steps begin more than four standard deviations from "
            "the walls; use --density fokker-planck"
        )
    used = is_far_from_walls if is_far_from_walls.sum() >= MIN_STEPS else ~is_far_from_walls
    n_boxes = default_boxes(int(used.sum()), data.n_dim, summed=in_boxes)
    sums = StepSums.of(x[used], data.dx[used], data.tau, splines, n_boxes)
    local = LocalSteps(sums, splines, priors)

    def choose_grid(kappa: FloatArray) -> Grid:
        """Choose a grid for the diffusivities at the starts of steps; fail if it is too large."""
        span = (np.minimum(x, ends).min(axis=0), np.maximum(x, ends).max(axis=0))
        low, high = span if edge is None else edge
        grid = choose_cells(low, high, data.tau, kappa, walls=edge is not None)
        check_work(grid, local, len(x), names)
        return grid

    # Check early: a grid for the mean diffusivity is coarser than the final one.
    is_required = density == "fokker-planck" or is_far_from_walls.sum() < MIN_STEPS
    if is_required:
        choose_grid(np.exp(local.start()[:1]))
    members = fit_members(local, names, progress)
    best = best_member(members)
    refusal = ""
    too_rough = _roughness(local, members, data.tau) > _MAX_ROUGHNESS
    if is_required or (density == "auto" and too_rough and data.period is None):
        try:
            grid = choose_grid(np.exp(local.log_kappa(best.name, best.mode)[0]))
            problem = TransitionSteps((x, ends), grid, local)
            fits = fit_members(problem, names, progress)
        except DriftbayesError as error:
            if is_required:
                raise
            refusal = str(error).split(";")[0]
        else:
            corrected, density_error = _corrected(problem, fits)
            return FieldFit._of(
                *(data, problem, corrected),
                priors=priors,
                density="fokker-planck",
                density_error=density_error,
            )
    rough = _step_roughness(local, best, data.tau)
    return FieldFit._of(
        *(data, local, members),
        n_steps=int(used.sum()),
        priors=priors,
        density_error=float(0.375 * np.sum(sums.n * rough**2)),
        refusal=refusal,
        n_near_walls=int((~used).sum()),
    )


def _corrected(problem: TransitionSteps, members: Sequence[Member]) -> tuple[list[Member], float]:
    """Correct evidences for the size of the cells, and estimate the error of ln L."""
    out: list[Member] = []
    errors = []
    for name, group in by_hypothesis(members).items():
        best = best_member(group)
        correction, error = problem.refinement(name, best.mode)
        errors.append((best.log_evidence + correction, error))
        out += [replace(member, log_evidence=member.log_evidence + correction) for member in group]
    return out, max(errors)[1]
