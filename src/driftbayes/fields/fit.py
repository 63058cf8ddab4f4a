r"""Fields of diffusivity and flow with evidence for them.

$\ln\kappa(x) = \ln\kappa_0 + f(x)$ and $u(x) = U + w(x)$. $\kappa_0$ and U have the priors of the
homogeneous model; f and w are smooth fields (`splines`). Four hypotheses: nothing varies, κ varies,
u varies, both do; their evidence is Laplace's (`problem`). The density of a step is the local
Gaussian (`local`), or where κ varies too much over a step the transition density of the
Fokker–Planck equation (`transition`).
"""

__all__ = ["DENSITIES", "FieldFit", "fit_field"]

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from driftbayes.data.sampling import Displacements
from driftbayes.data.tangent import Ground
from driftbayes.errors import DriftbayesError
from driftbayes.fields.averages import AveragedFit, Fields
from driftbayes.fields.local import HYPOTHESES, FieldPriors, LocalSteps, StepSums
from driftbayes.fields.problem import Member, Progress, fit_members
from driftbayes.fields.splines import Splines
from driftbayes.fields.transition import TransitionSteps, choose_cells
from driftbayes.typing import FloatArray

DENSITIES = ("auto", "local", "fokker-planck")
# Knot intervals along the longer side, by dimension.
N_INTERVALS = {1: 16, 2: 8}
# More steps than this are summed in boxes, so many per interval and axis: ln K changes by less than
# a hundredth.
_MAX_SINGLE, _N_BOXES = 4000, {1: 64, 2: 10}
_MAX_COEFFICIENTS = 1200
_MIN_STEPS = 20
# |∇κ|√(τ/κ) beyond which the local Gaussian is no longer good; see `FieldFit.roughness`.
_MAX_ROUGHNESS = 0.3
# Steps that begin nearer to a wall, in standard deviations, are not Gaussian.
_NEAR_WALL = 4.0


@dataclass(frozen=True, eq=False, repr=False)
class FieldFit(AveragedFit):
    """Evidence for fields of diffusivity and flow, and the fields.

    Args:
        log_evidences: ln Z of each hypothesis, by Laplace's approximation.
        members: Fits by amplitude and length, with their posterior probabilities.
        splines: The splines of the fields.
        priors: Priors of the homogeneous part.
        tau: Sampling time.
        n_steps: Number of steps.
        units: Of length and time.
        ground: Where on the earth the origin of coordinates is, if positions come from degrees.
        fingerprint: Of the displacements.
        density: Density of the steps: "local" or "fokker-planck".
        density_error: Error of ln L at the mode, in nats, by the density of the steps. Of the local
            Gaussian: 3/8 of the mean square of the roughness, times the number of steps. Of the
            Fokker–Planck density, by a finer grid; ln Z is corrected by the latter.
        refusal: Why the Fokker–Planck density was not used although the steps are long, if so.
        n_near_walls: Steps left out since they begin near a wall.
    """

    log_evidences: dict[str, float]
    members: tuple[Member, ...]
    splines: Splines
    priors: FieldPriors
    tau: float
    n_steps: int
    units: tuple[str, str]
    ground: Ground | None
    fingerprint: str
    _problem: Any = field(repr=False)
    density: str = "local"
    density_error: float = 0.0
    refusal: str = ""
    n_near_walls: int = 0

    def _at(self, x: FloatArray) -> dict[str, FloatArray]:
        fields, d = self._fields(x), self.splines.n_dim
        first = np.zeros((2 + 2 * d, len(fields[0][0][1])))
        second = np.zeros_like(first)
        for weight, mean, cov in self._normal(fields):
            size = np.exp(mean[0] + 0.5 * cov[0, 0])
            square = size**2 * np.exp(cov[0, 0])
            means, squares = [size, mean[0]], [square, mean[0] ** 2 + cov[0, 0]]
            for i in range(1, 1 + d):
                # κ is log-normal, and ∇κ = κ ∇ln κ.
                means.append(size * (mean[i] + cov[0, i]))
                squares.append(square * ((mean[i] + 2 * cov[0, i]) ** 2 + cov[i, i]))
            means += list(mean[1 + d :])
            squares += [mean[i] ** 2 + cov[i, i] for i in range(1 + d, 1 + 2 * d)]
            first += weight * np.array(means)
            second += weight * np.array(squares)
        sds = np.sqrt(np.maximum(second - first**2, 0.0))
        out = {}
        for suffix, values in (("", first), ("_sd", sds)):
            out["kappa" + suffix] = values[0]
            out["log_kappa" + suffix] = values[1]
            out["kappa_gradient" + suffix] = values[2 : 2 + d].T
            out["flow" + suffix] = values[2 + d :].T
        return out

    def draw(self, x: ArrayLike, n_draws: int = 100, *, seed: int = 0) -> dict[str, FloatArray]:
        """Draw fields from their posterior, over all hypotheses and members.

        Args:
            x: Points (point, dim), as for `at`.
            n_draws: How many.
            seed: Random seed.

        Returns:
            `kappa` (draw, point), `kappa_gradient` and `flow` (draw, point, dim). A draw is one
            field: its values at all points belong together.
        """
        d = self.splines.n_dim
        s, *rest = self._drawn(self._fields(self._checked(x)), n_draws, seed)
        kappa = np.exp(s)
        return {
            "kappa": kappa,
            "kappa_gradient": kappa[:, :, None] * np.stack(rest[:d], axis=-1),
            "flow": np.stack(rest[d:], axis=-1),
        }

    def _fields(self, x: FloatArray) -> Fields:
        """Ln κ, its derivatives along each axis, and the flow."""
        full, slopes = self._designs(x)
        flows = [[(1 + i, full)] for i in range(self.splines.n_dim)]
        return [[(0, full)], *([(0, slope)] for slope in slopes), *flows]

    @cached_property
    def roughness(self) -> float:
        r"""$|\nabla\kappa|\sqrt{\tau/\kappa}$ where 95 % of the steps have less, at the mode.

        The change of κ over a step relative to κ. The local Gaussian loses 3/8 of its square in
        nats per step, and at 0.3 finds κ too large by 4 to 7 %.
        """
        problem = self._problem
        local = problem if isinstance(problem, LocalSteps) else problem.local
        return _roughness(local, self.members, self.tau)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader should know."""
        out = []
        if self.density == "local" and self.roughness > _MAX_ROUGHNESS:
            advice = "--density fokker-planck or a smaller tau"
            if self.refusal:
                advice = f"a smaller tau ({self.refusal})"
            out.append(
                f"kappa changes by {self.roughness:.0%} over one step of tau: the local Gaussian "
                f"density is no longer accurate; use {advice}"
            )
        if self._shortest_is_best:
            out.append(
                "the shortest length is the most probable: the field may vary on scales that the "
                "splines do not resolve; use more intervals (--intervals)"
            )
        return tuple(out)

    def to_json(self) -> dict[str, Any]:
        """Evidence and smoothness as plain numbers and text."""
        return self._evidence_json() | {
            "density": self.density,
            "density_error": self.density_error,
            "n_near_walls": self.n_near_walls,
            "roughness": self.roughness,
            "priors": {"kappa": self.priors.kappa, "flow": self.priors.flow},
            "smoothness": [
                {
                    "model": member.name,
                    "sd_log_kappa": member.amplitudes[0],
                    "sd_flow": member.amplitudes[1] * self.priors.flow,
                    "length": member.length if np.isfinite(member.length) else None,
                    "log_evidence": member.log_evidence,
                    "probability": float(weight),
                }
                for weight, member in zip(self.weights, self.members, strict=True)
            ],
            "warnings": list(self.warnings),
        }


def _step_roughness(local: LocalSteps, member: Member, tau: float) -> FloatArray:
    """|∇κ|√(τ/κ) where steps begin."""
    s, g = local.log_kappa(member.name, member.mode)
    size: FloatArray = np.linalg.norm(g, axis=-1) * np.sqrt(np.exp(s) * tau)
    return size


def _roughness(local: LocalSteps, members: Sequence[Member], tau: float) -> float:
    best = max(members, key=lambda member: member.log_evidence)
    size = _step_roughness(local, best, tau)
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
        hypotheses: Which of "kappa", "flow" and "both"; the homogeneous one is always among them.
        in_boxes: Whether steps are summed in small boxes, which takes less time; by default if
            there are more than 4,000. Only the local density uses boxes.
        density: Density of the steps: "local" (Gaussian), "fokker-planck", or "auto", which takes
            the latter where κ changes by more than 30 % over a step.
        walls: Where particles are reflected, (2, dim): lower ends and upper ends. The
            Fokker–Planck density reflects there; for the local one steps that begin within four
            standard deviations of a wall are left out.
        progress: Called with a stage, how many are done, and of how many.

    Raises:
        DriftbayesError: The data do not allow a field, or the splines or cells are too many.
    """
    check_data(data)
    if density not in DENSITIES:
        msg = f"unknown density {density!r}; expected one of {', '.join(DENSITIES)}"
        raise DriftbayesError(msg)
    unknown = sorted(set(hypotheses) - set(HYPOTHESES))
    if unknown:
        msg = f"unknown hypothesis {unknown[0]!r}; expected some of {', '.join(HYPOTHESES)}"
        raise DriftbayesError(msg)
    names = ["homogeneous", *(h for h in list(HYPOTHESES)[1:] if h in hypotheses)]
    x = wrapped_origin(data)
    ends = x + data.dx
    edge = None if walls is None else _check_walls(walls, x, ends)
    splines = make_splines(x, n_intervals)
    away = np.ones(len(x), dtype=bool)
    if edge is not None:
        near = _NEAR_WALL * np.sqrt(np.mean(data.dx**2))
        away = np.all((x - edge[0] > near) & (edge[1] - x > near), axis=1)
    if density == "fokker-planck" and data.period is not None:
        msg = "the Fokker–Planck density does not know periodic domains; use --density local"
        raise DriftbayesError(msg)
    if away.sum() < _MIN_STEPS and density == "local":
        msg = (
            f"only {away.sum()} steps begin further than four standard deviations from the walls; "
            "use --density fokker-planck"
        )
        raise DriftbayesError(msg)
    kept = away if away.sum() >= _MIN_STEPS else ~away
    summed = kept.sum() > _MAX_SINGLE if in_boxes is None else in_boxes
    n_boxes = _N_BOXES[data.n_dim] if summed else None
    local = LocalSteps(
        StepSums.of(x[kept], data.dx[kept], data.tau, splines, n_boxes), splines, priors
    )
    problem: LocalSteps | TransitionSteps = local
    members = fit_members(local, names, progress)
    refusal = ""
    too_rough = _roughness(local, members, data.tau) > _MAX_ROUGHNESS or away.sum() < _MIN_STEPS
    if density == "fokker-planck" or (density == "auto" and too_rough and data.period is None):
        best = max(members, key=lambda member: member.log_evidence)
        kappa = np.exp(local.log_kappa(best.name, best.mode)[0])
        region = (
            (np.minimum(x, ends).min(axis=0), np.maximum(x, ends).max(axis=0))
            if edge is None
            else (edge[0], edge[1])
        )
        try:
            grid = choose_cells(*region, data.tau, kappa, walls=edge is not None)
            problem = TransitionSteps((x, ends), data.tau, grid, local, priors)
            problem.check_work(names)
        except DriftbayesError as error:
            if density == "fokker-planck" or away.sum() < _MIN_STEPS:
                raise
            problem, refusal = local, str(error).split(";")[0]
        else:
            members = fit_members(problem, names, progress)
    members, density_error = _corrected(problem, members)
    is_local = problem is local
    return FieldFit(
        log_evidences=summed_evidences(members),
        members=tuple(members),
        splines=splines,
        priors=priors,
        tau=data.tau,
        n_steps=int(kept.sum()) if is_local else len(x),
        units=(data.length_unit, data.time_unit),
        ground=data.ground,
        fingerprint=data.fingerprint,
        _problem=problem,
        density="local" if is_local else "fokker-planck",
        density_error=density_error,
        refusal=refusal,
        n_near_walls=int((~kept).sum()) if is_local else 0,
    )


def _corrected(
    problem: LocalSteps | TransitionSteps, members: Sequence[Member]
) -> tuple[list[Member], float]:
    """Correct evidences for the size of the cells, and estimate the error of ln L."""
    if isinstance(problem, LocalSteps):
        best = max(members, key=lambda member: member.log_evidence)
        rough = _step_roughness(problem, best, problem.data.tau)
        return list(members), float(0.375 * np.sum(problem.data.n * rough**2))
    out: list[Member] = []
    errors = []
    for name in dict.fromkeys(member.name for member in members):
        own = [member for member in members if member.name == name]
        best = max(own, key=lambda member: member.log_evidence)
        lacking, error = problem.refinement(name, best.mode)
        errors.append((best.log_evidence + lacking, error))
        out += [replace(member, log_evidence=member.log_evidence + lacking) for member in own]
    return out, max(errors)[1]


def summed_evidences(members: Sequence[Member]) -> dict[str, float]:
    """Ln Z of each hypothesis: the mean over its members.

    Args:
        members: Fits by amplitude and length.
    """
    out = {}
    for name in dict.fromkeys(member.name for member in members):
        own = [member.log_evidence for member in members if member.name == name]
        out[name] = float(logsumexp(own) - np.log(len(own)))
    return out


def wrapped_origin(data: Displacements) -> FloatArray:
    """Where steps begin; in a periodic domain, within one period.

    Args:
        data: Displacements.
    """
    x = data.origin
    if data.period is None:
        return x
    out = x.copy()
    for axis, period in enumerate(data.period):
        if period is not None:
            out[:, axis] %= period
    return out


def make_splines(x: FloatArray, n_intervals: int | None) -> Splines:
    """Splines on the rectangle of all positions.

    Args:
        x: Positions.
        n_intervals: Knot intervals along the longer side; None for the default.

    Raises:
        DriftbayesError: The positions have no extent, or the splines are too many.
    """
    low, high = x.min(axis=0), x.max(axis=0)
    side = high - low
    if not (side > 0).all():
        msg = "all steps begin at one place along an axis: there is no field to find"
        raise DriftbayesError(msg)
    n = N_INTERVALS[x.shape[1]] if n_intervals is None else n_intervals
    if n < 2:
        msg = f"a field needs 2 or more intervals along its longer side, got {n}"
        raise DriftbayesError(msg)
    counts = np.maximum(2, np.round(n * side / side.max())).astype(np.int64)
    splines = Splines(low, high, tuple(int(count) for count in counts))
    if splines.size > _MAX_COEFFICIENTS:
        msg = (
            f"{n} intervals make {splines.size:,} splines, more than {_MAX_COEFFICIENTS:,}; use "
            "fewer (--intervals)"
        )
        raise DriftbayesError(msg)
    return splines


def _check_walls(walls: ArrayLike, x: FloatArray, ends: FloatArray) -> FloatArray:
    edge = np.asarray(walls, dtype=np.float64)
    if edge.shape != (2, x.shape[1]) or not (edge[1] > edge[0]).all():
        msg = (
            f"walls must be a lower and a higher number for each of {x.shape[1]} axes, got "
            f"{edge.tolist()}"
        )
        raise DriftbayesError(msg)
    outside = ~np.all((x >= edge[0]) & (x <= edge[1]) & (ends >= edge[0]) & (ends <= edge[1]), 1)
    if outside.any():
        low, high = np.minimum(x, ends).min(axis=0), np.maximum(x, ends).max(axis=0)
        msg = (
            f"{int(outside.sum()):,} steps begin or end beyond the walls; positions span "
            f"{low.tolist()} to {high.tolist()}"
        )
        raise DriftbayesError(msg)
    return edge


def check_data(data: Displacements) -> None:
    """Refuse data to which no field can be fitted.

    Args:
        data: Displacements.

    Raises:
        DriftbayesError: They are of more than two dimensions, irregular, noisy or too few.
    """
    if data.n_dim not in (1, 2):
        msg = f"a field needs one or two dimensions, got {data.n_dim}; read fewer with --columns"
        raise DriftbayesError(msg)
    if not data.is_regular:
        msg = (
            "a field is fitted to exact positions at one sampling time; these have errors or "
            "irregular times: give a tau, and leave out the errors if they are small"
        )
        raise DriftbayesError(msg)
    if len(data.dx) < _MIN_STEPS:
        msg = f"a field needs {_MIN_STEPS} or more steps, got {len(data.dx)}; use a smaller tau"
        raise DriftbayesError(msg)
