r"""Evidence of smooth fields by Laplace's approximation, for any likelihood of the steps.

A hypothesis states which fields vary. Each field is a constant with the prior of the
homogeneous model, plus a smooth field (`splines`) with an amplitude (standard deviation) and a
length. Amplitudes and lengths have equal prior probabilities on a small grid, and the evidence is
averaged over it. Given both, Laplace's approximation integrates over the coefficients: the
posterior is approximated as normal about its mode. As the amplitudes vanish, the evidence becomes
that of the homogeneous model.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import logsumexp

from driftbayes._typing import FloatArray
from driftbayes.errors import DriftbayesError
from driftbayes.fields._splines import Splines

# Standard deviations of a field, in its unit.
AMPLITUDES = (0.1, 0.25, 0.6, 1.5)
_MAX_NEWTON = 100
# Step of finite differences, as a fraction of the field's unit.
_DIFFERENCE = 1e-4
# A search that reuses a Hessian recomputes it after this many steps.
_REFRESH = 12
# With at most this many splines, members within this many nats of the best get their own Hessian.
MAX_OWN, _MIN_LOG_WEIGHT = 40, 6.0
# A member this many nats below the best is not refitted with a better Hessian.
_SKIP_BELOW = 30.0
_LOG_2PI = float(np.log(2 * np.pi))

Progress = Callable[[str, int, int], None] | None


@dataclass(frozen=True)
class Block:
    """One field: its constant part and the unit of its variations.

    Args:
        scale: Mean of the exponential prior of the constant, whose logarithm is the parameter, or
            standard deviation of its normal prior about zero.
        is_log: Whether the field is a logarithm.
        amplitude: Index of the amplitude of its variations.
    """

    scale: float
    is_log: bool
    amplitude: int

    @property
    def unit(self) -> float:
        """Unit of amplitudes."""
        return 1.0 if self.is_log else self.scale


@dataclass(frozen=True, eq=False)
class Member:
    """A fit with given amplitudes and length."""

    name: str
    amplitudes: tuple[float, ...]
    length: float
    log_evidence: float
    mode: FloatArray


class Problem(ABC):
    """Steps, splines and priors.

    Args:
        splines: The splines of all fields.
        blocks: The fields.
        hypotheses: For each hypothesis, whether the fields of each amplitude vary.
    """

    # Newton's method ends when a step would gain less than this.
    tolerance = 1e-9

    def __init__(
        self,
        splines: Splines,
        blocks: tuple[Block, ...],
        hypotheses: Mapping[str, tuple[bool, ...]],
    ) -> None:
        self.splines, self.blocks, self.hypotheses = splines, blocks, hypotheses

    # Start positions of steps, or their means in boxes, and the number of steps at each.
    places: FloatArray
    place_counts: FloatArray

    @property
    def n_dim(self) -> int:
        """Number of axes."""
        return self.splines.n_dim

    def parts(self, name: str) -> list[slice]:
        """Return the slice of each field's parameters: its constant, then its coefficients."""
        varies = self.hypotheses[name]
        sizes = [1 + self.splines.size * varies[block.amplitude] for block in self.blocks]
        ends = np.cumsum(sizes)
        return [slice(int(b - a), int(b)) for a, b in zip(sizes, ends, strict=True)]

    @abstractmethod
    def likelihood(self, name: str, theta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return ln L, its gradient, and its negative Hessian or an approximation of that.

        Args:
            name: The hypothesis.
            theta: Its parameters.
        """

    @abstractmethod
    def start(self) -> FloatArray:
        """Return initial constants of the homogeneous model, one per field."""

    def log_joint(
        self, name: str, theta: FloatArray, precision: FloatArray
    ) -> tuple[float, FloatArray, FloatArray]:
        """Return the log joint density without constants, its gradient and negative Hessian."""
        total, gradient, curvature = self.likelihood(name, theta)
        total -= 0.5 * float(theta @ (precision @ theta))
        gradient = gradient - precision @ theta
        curvature = curvature + precision
        for block, part in zip(self.blocks, self.parts(name), strict=True):
            if block.is_log:
                # exp(θ) is exponential: the density of θ has one more factor exp(θ).
                first = part.start
                ratio = np.exp(theta[first]) / block.scale
                total += theta[first] - ratio
                gradient[first] += 1 - ratio
                curvature[first, first] += ratio
        return total, gradient, curvature

    def precision(
        self, name: str, amplitudes: tuple[float, ...], shape: FloatArray | None
    ) -> tuple[FloatArray, float]:
        """Return the precision of the normal part of the prior, and the log of all constants."""
        parts = self.parts(name)
        out = np.zeros((parts[-1].stop, parts[-1].stop))
        constant = 0.0
        log_det = 0.0 if shape is None else float(np.linalg.slogdet(shape)[1])
        for block, part in zip(self.blocks, parts, strict=True):
            constant -= float(np.log(block.scale))
            if not block.is_log:
                out[part.start, part.start] = 1 / block.scale**2
                constant -= 0.5 * _LOG_2PI
            n = part.stop - part.start - 1
            if n and shape is not None:
                size = amplitudes[block.amplitude] * block.unit
                inner = slice(part.start + 1, part.stop)
                out[inner, inner] = shape / size**2
                constant += 0.5 * log_det - n * (float(np.log(size)) + 0.5 * _LOG_2PI)
        return out, constant


class DifferencedProblem(Problem):
    """A problem whose Hessian is a finite difference of the gradient, at one reference point.

    Searches for other modes of the same hypothesis reuse that Hessian: the information on the
    logarithm of a scale is independent of the scale.
    """

    tolerance = 1e-3

    @cached_property
    def hessians(self) -> dict[str, FloatArray]:
        """Reference Hessian (negated) of each hypothesis."""
        return {}

    @abstractmethod
    def value(self, name: str, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return ln L and its gradient."""

    def rough_hessian(self, name: str, theta: FloatArray) -> FloatArray:
        """Return an approximate negative Hessian for a first search."""
        return self.differences(name, theta)

    def likelihood(self, name: str, theta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        # The Hessian is that at the reference point.
        if name not in self.hessians:
            self.hessians[name] = self.rough_hessian(name, theta)
        return (*self.value(name, theta), self.hessians[name])

    def refresh(self, name: str, theta: FloatArray) -> None:
        """Recompute the reference Hessian of a hypothesis at `theta`."""
        self.hessians[name] = self.differences(name, theta)

    @abstractmethod
    def differences(self, name: str, theta: FloatArray) -> FloatArray:
        """Return the negative Hessian by finite differences of the gradient."""

    def difference_steps(self, name: str) -> list[tuple[int, float]]:
        """Return the index of each parameter and the step of its finite difference."""
        return [
            (i, _DIFFERENCE * block.unit)
            for block, part in zip(self.blocks, self.parts(name), strict=True)
            for i in range(part.start, part.stop)
        ]


def _mode(
    problem: Problem, name: str, start: FloatArray, precision: FloatArray
) -> tuple[FloatArray, float, FloatArray]:
    """Find the posterior mode by Newton's method, with log density and negative Hessian there."""
    theta = start
    value, gradient, curvature = problem.log_joint(name, theta, precision)
    for iteration in range(_MAX_NEWTON):
        if isinstance(problem, DifferencedProblem) and iteration % _REFRESH == _REFRESH - 1:
            problem.refresh(name, theta)
            value, gradient, curvature = problem.log_joint(name, theta, precision)
        step, damping = None, 0.0
        scale = float(np.abs(np.diag(curvature)).max())
        while step is None:
            try:
                factor = cho_factor(curvature + damping * np.eye(len(theta)))
                step = cho_solve(factor, gradient)
            except np.linalg.LinAlgError:
                damping = max(10 * damping, 1e-6 * scale)
        decrement = float(gradient @ step)
        if decrement < 1e-3 * problem.tolerance and damping == 0:
            return theta, value, curvature
        size = 1.0
        while size > 1e-6:
            trial = problem.log_joint(name, theta + size * step, precision)
            if trial[0] >= value - 1e-12 * abs(value):
                break
            size *= 0.5
        theta = theta + size * step
        value, gradient, curvature = trial
        if decrement < problem.tolerance and damping == 0:
            return theta, value, curvature
    raise DriftbayesError(
        "no posterior mode of a field was found; use fewer intervals (--intervals) or a smaller tau"
    )


def laplace(
    problem: Problem, name: str, start: FloatArray, prior: tuple[FloatArray, float]
) -> tuple[float, FloatArray, FloatArray]:
    """Compute Laplace's evidence, the mode, and the Cholesky factor of the negative Hessian.

    Args:
        problem: Steps, splines and priors.
        name: The hypothesis.
        start: Initial parameters of the search.
        prior: Precision of the normal part of the prior, and the log of its constants.
    """
    mode, value, curvature = _mode(problem, name, start, prior[0])
    root: FloatArray = np.asarray(np.linalg.cholesky(curvature), dtype=np.float64)
    log_det = 2 * float(np.sum(np.log(np.diag(root))))
    return value + prior[1] + 0.5 * (len(mode) * _LOG_2PI - log_det), mode, root


def fit_members(problem: Problem, names: Sequence[str], progress: Progress = None) -> list[Member]:
    """Fit every hypothesis at every amplitude and length.

    Args:
        problem: Steps, splines and priors.
        names: The hypotheses.
        progress: Called with the stage, the number done, and the total.
    """
    shapes = {length: problem.splines.precision(length) for length in problem.splines.lengths}
    total = sum(len(_grid(problem, name)) for name in names)
    out: list[Member] = []

    def report() -> None:
        if progress is not None:
            progress("fits", len(out), total)

    for name in names:
        grid = _grid(problem, name)
        mode = _initial_parameters(problem, name)
        fits: dict[int, Member] = {}
        best = -1
        while True:
            limit = fits[best].log_evidence - _SKIP_BELOW if fits else -np.inf
            for i, (amplitudes, length) in enumerate(grid):
                report()
                previous_fit = fits.get(i)
                if previous_fit is not None and previous_fit.log_evidence < limit:
                    continue
                prior = problem.precision(name, amplitudes, shapes.get(length))
                start = mode if previous_fit is None else previous_fit.mode
                log_evidence, mode, _ = laplace(problem, name, start, prior)
                fits[i] = Member(name, amplitudes, length, log_evidence, mode)
            previous, best = best, max(fits, key=lambda i: fits[i].log_evidence)
            if not isinstance(problem, DifferencedProblem) or best == previous:
                break
            problem.refresh(name, fits[best].mode)
        members = [fits[i] for i in range(len(grid))]
        if isinstance(problem, DifferencedProblem) and problem.splines.size <= MAX_OWN:
            members = _refine_hessians(problem, members, shapes)
        out += members
    return out


def _refine_hessians(
    problem: DifferencedProblem, members: list[Member], shapes: dict[float, FloatArray]
) -> list[Member]:
    """Recompute the evidence of probable members with the Hessian at their own mode."""
    best = best_member(members)
    out = []
    for member in members:
        if member.log_evidence > best.log_evidence - _MIN_LOG_WEIGHT:
            problem.refresh(member.name, member.mode)
            shape = shapes.get(member.length)
            prior = problem.precision(member.name, member.amplitudes, shape)
            log_evidence = laplace(problem, member.name, member.mode, prior)[0]
            member = replace(member, log_evidence=log_evidence)
        out.append(member)
    problem.refresh(best.name, best.mode)
    return out


def summed_evidences(members: Sequence[Member]) -> dict[str, float]:
    """Return ln Z of each hypothesis, averaged over its members.

    Args:
        members: Fits by amplitude and length.
    """
    return {
        name: float(logsumexp([member.log_evidence for member in group]) - np.log(len(group)))
        for name, group in by_hypothesis(members).items()
    }


def best_member(members: Sequence[Member]) -> Member:
    """Return the member with the largest evidence."""
    return max(members, key=lambda member: member.log_evidence)


def by_hypothesis(members: Sequence[Member]) -> dict[str, list[Member]]:
    """Group members by hypothesis, in order of appearance."""
    groups: dict[str, list[Member]] = {}
    for member in members:
        groups.setdefault(member.name, []).append(member)
    return groups


def n_evaluations(problem: Problem, name: str) -> int:
    """Estimate the number of gradient evaluations of a fit by finite differences.

    Args:
        problem: Steps, splines and priors.
        name: The hypothesis.
    """
    return 2 * problem.parts(name)[-1].stop + 10 * len(_grid(problem, name))


def _grid(problem: Problem, name: str) -> list[tuple[tuple[float, ...], float]]:
    """Return the grid of amplitudes and lengths of a hypothesis."""
    axes = [AMPLITUDES if varies else (0.0,) for varies in problem.hypotheses[name]]
    lengths = problem.splines.lengths if any(problem.hypotheses[name]) else (np.inf,)
    return list(itertools.product(itertools.product(*axes), lengths))


def _initial_parameters(problem: Problem, name: str) -> FloatArray:
    """Return initial parameters: the constants, without variations."""
    parts = problem.parts(name)
    out = np.zeros(parts[-1].stop)
    for part, constant in zip(parts, problem.start(), strict=True):
        out[part.start] = constant
    return out
