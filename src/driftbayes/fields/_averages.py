"""Average fits of fields over hypotheses, amplitudes and lengths."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular
from scipy.sparse import csr_array
from scipy.special import logsumexp

from driftbayes._aliases import Saved, public
from driftbayes._representation import Described, to_dataset
from driftbayes._typing import FloatArray
from driftbayes.data._sampling import Displacements
from driftbayes.data.tangent import Ground
from driftbayes.errors import DriftbayesError
from driftbayes.fields._problem import Member, Problem, laplace, summed_evidences
from driftbayes.fields._splines import Splines

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

# Number of points per block.
_BLOCK = 2000
# Fits of smaller posterior probability are excluded from averages.
_MIN_WEIGHT = 1e-4

Fields: TypeAlias = list[list[tuple[int, FloatArray]]]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AveragedFit(Described, Saved):
    """Evidence of several hypotheses on fields, and their average.

    Args:
        log_evidences: ln Z of each hypothesis, by Laplace's approximation.
        members: Fits by amplitude and length, with their posterior probabilities.
        splines: The splines of the fields.
        tau: Sampling time.
        n_steps: Number of steps.
        units: Units of length and time.
        ground: Position on the earth of the origin, if positions come from degrees.
        fingerprint: Fingerprint of the displacements.
    """

    kind: ClassVar[str] = "field"

    log_evidences: dict[str, float]
    members: tuple[Member, ...]
    splines: Splines
    tau: float
    n_steps: int
    units: tuple[str, str]
    ground: Ground | None
    fingerprint: str
    _problem: Any = field(repr=False)

    @classmethod
    def _of(
        cls, data: Displacements, problem: Problem, members: Sequence[Member], **own: Any
    ) -> Self:
        """Make a fit from its members.

        Args:
            data: Displacements.
            problem: Steps, splines and priors.
            members: Fits by amplitude and length.
            **own: Attributes of the kind of fit, or others than those of the data.
        """
        common: dict[str, Any] = {
            "log_evidences": summed_evidences(members),
            "members": tuple(members),
            "splines": problem.splines,
            "tau": data.tau,
            "n_steps": len(data.dx),
            "units": (data.length_unit, data.time_unit),
            "ground": data.ground,
            "fingerprint": data.fingerprint,
            "_problem": problem,
        }
        return cls(**common | own)

    @abstractmethod
    def _fields(self, x: FloatArray) -> Fields:
        """Return the normally distributed fields at points, as sums of blocks."""

    @abstractmethod
    def _moments(self, mean: FloatArray, cov: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
        """Return the mean of each quantity and of its square, given those of the fields."""

    @abstractmethod
    def _named(self, values: FloatArray, suffix: str) -> dict[str, FloatArray]:
        """Return quantities by name, in the order of `_moments`."""

    def _at(self, x: FloatArray) -> dict[str, FloatArray]:
        """Evaluate the fields at one block of points."""
        total: Any = 0.0
        for weight, mean, cov in self._normal(self._fields(x)):
            total = total + weight * np.array(self._moments(mean, cov))
        first, second = total[:, 0], total[:, 1]
        sd = np.sqrt(np.maximum(second - first**2, 0.0))
        return self._named(first, "") | self._named(sd, "_sd")

    def at(self, x: ArrayLike) -> dict[str, FloatArray]:
        """Evaluate the fields at points, averaged over all hypotheses and members.

        Args:
            x: Points (point, dim). Outside the region of the data the fields are those at its
                nearest point.

        Returns:
            Posterior means by name, and the same with `_sd`: `kappa`, `log_kappa`,
            `kappa_gradient` and `flow`; or `sigma`, `memory_time`, `k` = σ²T, their logarithms
            (`log_sigma` and so on) and `flow`. `kappa_gradient` and `flow` are (point, dim).
        """
        points = self._checked(x)
        blocks = [self._at(points[i : i + _BLOCK]) for i in range(0, max(len(points), 1), _BLOCK)]
        return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}

    @abstractmethod
    def draw(self, x: ArrayLike, n_draws: int = 100, *, seed: int = 0) -> dict[str, FloatArray]:
        """Draw fields from their posterior, over all hypotheses and members.

        Args:
            x: Points (point, dim), as for `at`.
            n_draws: Number of draws.
            seed: Random seed.

        Returns:
            `kappa` and its gradient, or `sigma`, `memory_time` and `k`; and `flow`. Each is (draw,
            point), or (draw, point, dim). A draw is one field: its values at different points are
            jointly distributed.
        """

    @property
    @abstractmethod
    def roughness(self) -> float:
        """95 % quantile over steps of the relative change of a field, at the mode."""

    def plot(self) -> "Figure":
        """Draw the fields with their errors."""
        return public("field_figure", "driftbayes.plots.field")(self)

    def export(self, simulator: str, path: Any, **options: Any) -> str:
        """Return code for a simulator, and write its grid; see `driftbayes.export`."""
        return public("export")(self, simulator, path, **options)

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return evidence and smoothness as plain numbers and text."""

    @property
    @abstractmethod
    def warnings(self) -> tuple[str, ...]:
        """Warnings about accuracy and resolution."""

    @property
    def places(self) -> FloatArray:
        """Start positions of steps, or their means in boxes."""
        return self._problem.places

    @property
    def place_counts(self) -> FloatArray:
        """Number of steps at each position."""
        return self._problem.place_counts

    @property
    def probabilities(self) -> dict[str, float]:
        """Posterior probability of each hypothesis, with equal prior probabilities."""
        values = np.array(list(self.log_evidences.values()))
        shares = np.exp(values - logsumexp(values))
        return dict(zip(self.log_evidences, shares.tolist(), strict=True))

    @property
    def log_bayes_factors(self) -> dict[str, float]:
        """Ln K of each hypothesis with fields over the homogeneous model."""
        base = self.log_evidences["homogeneous"]
        return {n: z - base for n, z in self.log_evidences.items() if n != "homogeneous"}

    @property
    def log_bayes_factor_inhomogeneous(self) -> float:
        """Ln K of any varying field, with equal prior probabilities, over the homogeneous model."""
        values = list(self.log_bayes_factors.values())
        return float(logsumexp(values) - np.log(len(values)))

    @property
    def best(self) -> str:
        """Name of the most probable hypothesis."""
        return max(self.log_evidences, key=lambda name: self.log_evidences[name])

    @cached_property
    @np.errstate(under="ignore")
    def weights(self) -> FloatArray:
        """Posterior probability of each member."""
        probabilities = self.probabilities
        out = np.empty(len(self.members))
        for name in self.log_evidences:
            indices = [i for i, member in enumerate(self.members) if member.name == name]
            values = np.array([self.members[i].log_evidence for i in indices])
            out[indices] = probabilities[name] * np.exp(values - logsumexp(values))
        return out

    @cached_property
    def _used(self) -> list[tuple[float, Member, FloatArray]]:
        """Members of non-negligible weight, each with a square root R of its covariance RᵀR."""
        probable = np.flatnonzero(self.weights > _MIN_WEIGHT)
        total = float(self.weights[probable].sum())
        out = []
        for i in probable:
            member = self.members[i]
            shape = self.splines.precision(member.length) if np.isfinite(member.length) else None
            prior = self._problem.precision(member.name, member.amplitudes, shape)
            root = laplace(self._problem, member.name, member.mode, prior)[2]
            inverse = solve_triangular(root, np.eye(len(root)), lower=True)
            out.append((float(self.weights[i]) / total, member, inverse))
        return out

    def _resolution_warnings(self) -> list[str]:
        """Warn if the shortest length has most of the probability."""
        weights = {h: 0.0 for h in self.splines.lengths}
        for weight, member, _ in self._used:
            if member.length in weights:
                weights[member.length] += weight
        if weights[min(weights)] <= 0.5:
            return []
        return [
            "the shortest length is the most probable: the field may vary on scales that the "
            "splines do not resolve; use more intervals (--intervals)"
        ]

    def _rows(self, member: Member, fields: Fields) -> list[FloatArray]:
        """Return matrices that map the parameters of a member to fields at points."""
        parts = self._problem.parts(member.name)
        out = []
        for terms in fields:
            rows = np.zeros((len(terms[0][1]), len(member.mode)))
            for number, design in terms:
                part = parts[number]
                rows[:, part] += design[:, : part.stop - part.start]
            out.append(rows)
        return out

    def _normal(self, fields: Fields) -> Iterator[tuple[float, FloatArray, FloatArray]]:
        """Yield weight, means (field, point) and covariances (field, field, point) of each member.

        Args:
            fields: For each field, the blocks of which it is the sum: their indices, and design
                matrices (point, coefficient) with the constant first.
        """
        for weight, member, root in self._used:
            # Few splines are nonzero at a point.
            rows = [csr_array(row) for row in self._rows(member, fields)]
            means = np.array([row @ member.mode for row in rows])
            halves = np.array([row @ root.T for row in rows])
            yield weight, means, np.einsum("api,bpi->abp", halves, halves)

    def _drawn(self, fields: Fields, n_draws: int, seed: int) -> list[FloatArray]:
        """Draw fields at points from the posterior, each (draw, point)."""
        if n_draws < 1:
            raise DriftbayesError(f"n_draws must be 1 or more, got {n_draws}")
        rng = np.random.default_rng(seed)
        counts = rng.multinomial(n_draws, [weight for weight, _, _ in self._used])
        out: list[list[FloatArray]] = [[] for _ in fields]
        for count, (_, member, root) in zip(counts, self._used, strict=True):
            noise = rng.standard_normal((len(member.mode), int(count)))
            theta = member.mode[:, None] + root.T @ noise
            for values, rows in zip(out, self._rows(member, fields), strict=True):
                values.append((rows @ theta).T)
        order = rng.permutation(n_draws)
        return [np.concatenate(values)[order] for values in out]

    def _checked(self, points: ArrayLike) -> FloatArray:
        """Convert points to an array, and check its shape."""
        x, n_dim = np.asarray(points, dtype=np.float64), self.splines.n_dim
        if x.ndim != 2 or x.shape[1] != n_dim or not np.isfinite(x).all():
            msg = f"points must be finite, of shape (point, {n_dim}), got shape {x.shape}"
            raise DriftbayesError(msg)
        return x

    def _designs(self, x: FloatArray) -> tuple[FloatArray, list[FloatArray]]:
        """Evaluate splines and their derivatives along each axis, with the constant first."""
        ones = np.ones((len(x), 1))
        slopes = [np.hstack([0 * ones, self.splines.design(x, axis)]) for axis in range(x.shape[1])]
        return np.hstack([ones, self.splines.design(x)]), slopes

    def to_dataset(self) -> "xr.Dataset":
        """Return fields with errors on a regular grid, following the CF conventions."""
        return to_dataset(self)

    def _evidence_json(self, amplitudes: dict[str, float]) -> dict[str, Any]:
        """Return evidence and smoothness, given names and units of the amplitudes."""
        return {
            "warnings": list(self.warnings),
            "roughness": self.roughness,
            "smoothness": [
                {
                    "model": member.name,
                    **{
                        name: size * unit
                        for size, (name, unit) in zip(
                            member.amplitudes, amplitudes.items(), strict=True
                        )
                    },
                    "length": member.length if np.isfinite(member.length) else None,
                    "log_evidence": member.log_evidence,
                    "probability": float(weight),
                }
                for weight, member in zip(self.weights, self.members, strict=True)
            ],
            "tau": self.tau,
            "n_steps": self.n_steps,
            "length_unit": self.units[0],
            "time_unit": self.units[1],
            "data_fingerprint": self.fingerprint,
            "method": "laplace",
            "log_evidence": self.log_evidences,
            "log_bayes_factors": self.log_bayes_factors,
            "log_bayes_factor_inhomogeneous": self.log_bayes_factor_inhomogeneous,
            "probabilities": self.probabilities,
            "probability_homogeneous": self.probabilities["homogeneous"],
        }
