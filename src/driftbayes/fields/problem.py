r"""Evidence of smooth fields by Laplace's approximation, whatever the likelihood of the steps.

A hypothesis says which of the fields vary. Each field is a constant with the prior of the
homogeneous model, plus a smooth field (`splines`) of a standard deviation and a length. Amplitudes
and lengths have equal prior probabilities on a small grid, over which the evidence is summed. Given
them, the integral over all coefficients is Laplace's: the posterior is taken as normal about its
mode. As the amplitudes vanish it is that of the homogeneous model.
"""

__all__ = [
    "Block",
    "DifferencedProblem",
    "Member",
    "Problem",
    "fit_members",
    "laplace",
    "n_evaluations",
    "summed_evidences",
]

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import logsumexp

from driftbayes.errors import DriftbayesError
from driftbayes.fields.splines import Splines
from driftbayes.typing import FloatArray

# Standard deviations of a field, in its unit.
AMPLITUDES = (0.1, 0.25, 0.6, 1.5)
_MAX_NEWTON = 100
# Differences of the gradient are taken over this part of a field's unit.
_DIFFERENCE = 1e-4
# A search with the Hessian of another place gets a new one after so many steps.
_REFRESH = 12
# With at most so many splines, members within so many nats of the best have a Hessian of their own.
MAX_OWN, _MIN_LOG_WEIGHT = 40, 6.0
# A member so many nats below the best is not fitted again with a better Hessian.
_FAR = 30.0
_LOG_2PI = float(np.log(2 * np.pi))

Progress = Callable[[str, int, int], None] | None


@dataclass(frozen=True)
class Block:
    """One field: its constant part and the unit of its variations.

    Args:
        scale: Mean of the exponential prior of the constant, whose logarithm is the parameter, or
            standard deviation of its normal prior about zero.
        is_log: Whether the field is a logarithm.
        amplitude: Which of the amplitudes is that of its variations.
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

    # Where steps begin or the mean places of those in one box, and how many there are.
    places: FloatArray
    place_counts: FloatArray

    @property
    def n_dim(self) -> int:
        """Number of axes."""
        return self.splines.n_dim

    def parts(self, name: str) -> list[slice]:
        """Where the parameters of each field are: its constant, then its coefficients."""
        varies = self.hypotheses[name]
        sizes = [1 + self.splines.size * varies[block.amplitude] for block in self.blocks]
        ends = np.cumsum(sizes)
        return [slice(int(b - a), int(b)) for a, b in zip(sizes, ends, strict=True)]

    @abstractmethod
    def likelihood(self, name: str, theta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Ln of the likelihood, its gradient, and minus its Hessian or what stands for it."""

    @abstractmethod
    def start(self) -> FloatArray:
        """Constants of the homogeneous model to start from, one per field."""

    def log_joint(
        self, name: str, theta: FloatArray, precision: FloatArray
    ) -> tuple[float, FloatArray, FloatArray]:
        """Ln of likelihood and prior without its constants, its gradient, and minus its Hessian."""
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
        """Precision of the normal part of the prior, and ln of all constants."""
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
    """A problem whose Hessian is made of differences of the gradient, at one place only.

    Searches for other modes of the same hypothesis use that Hessian again: the information on the
    logarithm of a scale does not depend on the scale.
    """

    tolerance = 1e-3

    def __init__(
        self,
        splines: Splines,
        blocks: tuple[Block, ...],
        hypotheses: Mapping[str, tuple[bool, ...]],
    ) -> None:
        super().__init__(splines, blocks, hypotheses)
        self.hessians: dict[str, FloatArray] = {}

    @abstractmethod
    def value(self, name: str, theta: FloatArray) -> tuple[float, FloatArray]:
        """Ln of the likelihood and its gradient."""

    @abstractmethod
    def rough_hessian(self, name: str, theta: FloatArray) -> FloatArray:
        """Minus the Hessian, near enough for a first search."""

    def likelihood(self, name: str, theta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Ln of the likelihood, its gradient, and minus the Hessian at the reference."""
        if name not in self.hessians:
            self.hessians[name] = self.rough_hessian(name, theta)
        return (*self.value(name, theta), self.hessians[name])

    def refresh(self, name: str, theta: FloatArray) -> None:
        """Take the Hessian at `theta` as the reference of a hypothesis."""
        self.hessians[name] = self.differences(name, theta)

    @abstractmethod
    def differences(self, name: str, theta: FloatArray) -> FloatArray:
        """Minus the Hessian, by differences of the gradient."""

    def difference_steps(self, name: str) -> list[tuple[int, float]]:
        """Number of each parameter, and the size of the differences to take along it."""
        return [
            (i, _DIFFERENCE * block.unit)
            for block, part in zip(self.blocks, self.parts(name), strict=True)
            for i in range(part.start, part.stop)
        ]


def _mode(
    problem: Problem, name: str, start: FloatArray, precision: FloatArray
) -> tuple[FloatArray, float, FloatArray]:
    """Mode of the posterior by Newton's method, ln of the density there, and minus its Hessian."""
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
            found = problem.log_joint(name, theta + size * step, precision)
            if found[0] >= value - 1e-12 * abs(value):
                break
            size *= 0.5
        theta = theta + size * step
        value, gradient, curvature = found
        if decrement < problem.tolerance and damping == 0:
            return theta, value, curvature
    msg = "the mode of a field was not found; use fewer intervals (--intervals) or a smaller tau"
    raise DriftbayesError(msg)


def laplace(
    problem: Problem, name: str, start: FloatArray, prior: tuple[FloatArray, float]
) -> tuple[float, FloatArray, FloatArray]:
    """Laplace's evidence, the mode, and the lower Cholesky factor of minus the Hessian.

    Args:
        problem: Steps, splines and priors.
        name: The hypothesis.
        start: Where the search for the mode begins.
        prior: Precision of the normal part of the prior, and ln of its constants.
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
        progress: Called with a stage, how many are done, and of how many.
    """
    shapes = {length: problem.splines.precision(length) for length in problem.splines.lengths}
    total = sum(len(_grid(problem, name)) for name in names)
    out: list[Member] = []

    def told() -> None:
        if progress is not None:
            progress("fits", len(out), total)

    for name in names:
        grid = _grid(problem, name)
        mode = _spread(problem, name)
        found: dict[int, Member] = {}
        best = -1
        while True:
            limit = found[best].log_evidence - _FAR if found else -np.inf
            for i, (amplitudes, length) in enumerate(grid):
                told()
                known = found.get(i)
                if known is not None and known.log_evidence < limit:
                    continue
                prior = problem.precision(name, amplitudes, shapes.get(length))
                start = mode if known is None else known.mode
                log_evidence, mode, _ = laplace(problem, name, start, prior)
                found[i] = Member(name, amplitudes, length, log_evidence, mode)
            previous, best = best, max(found, key=lambda i: found[i].log_evidence)
            if not isinstance(problem, DifferencedProblem) or best == previous:
                break
            problem.refresh(name, found[best].mode)
        members = [found[i] for i in range(len(grid))]
        if isinstance(problem, DifferencedProblem) and problem.splines.size <= MAX_OWN:
            members = _with_own_hessians(problem, members, shapes)
        out += members
    return out


def _with_own_hessians(
    problem: DifferencedProblem, members: list[Member], shapes: dict[float, FloatArray]
) -> list[Member]:
    """Evidence of members of some weight, each with the Hessian at its own mode."""
    best = max(members, key=lambda member: member.log_evidence)
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
    """Ln Z of each hypothesis: the mean over its members.

    Args:
        members: Fits by amplitude and length.
    """
    out = {}
    for name in dict.fromkeys(member.name for member in members):
        own = [member.log_evidence for member in members if member.name == name]
        out[name] = float(logsumexp(own) - np.log(len(own)))
    return out


def n_evaluations(problem: Problem, name: str) -> int:
    """About how many values with gradients the fit of a hypothesis by differences takes.

    Args:
        problem: Steps, splines and priors.
        name: The hypothesis.
    """
    return 2 * problem.parts(name)[-1].stop + 10 * len(_grid(problem, name))


def _grid(problem: Problem, name: str) -> list[tuple[tuple[float, ...], float]]:
    """Amplitudes and lengths of a hypothesis."""
    axes = [AMPLITUDES if varies else (0.0,) for varies in problem.hypotheses[name]]
    lengths = problem.splines.lengths if any(problem.hypotheses[name]) else (np.inf,)
    return list(itertools.product(itertools.product(*axes), lengths))


def _spread(problem: Problem, name: str) -> FloatArray:
    """Constants to start from, and no variations."""
    parts = problem.parts(name)
    out = np.zeros(parts[-1].stop)
    for part, constant in zip(parts, problem.start(), strict=True):
        out[part.start] = constant
    return out
