"""Stages of quasi-random importance sampling: proposals, points and weights."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from driftbayes._typing import FloatArray, IntArray
from driftbayes.errors import DriftbayesError
from driftbayes.inference._log_sums import logsumexp
from driftbayes.inference._proposals import StudentMixture, fit_mixture, joined

LogDensity: TypeAlias = Callable[[FloatArray], tuple[FloatArray, FloatArray]]

N_RANDOMISATIONS = 16
# Points of the t distributions per point of the prior.
_PRIOR_FRACTION = 16
# Minimum number of points of a component in a stage, per randomisation.
_MIN_POINTS = 4
# Share of the points that is divided evenly among components, before and after a fit.
_EVEN_MODES, _EVEN_FITTED = 0.5, 0.1
_MAX_FITTED = 8192
# Share of the first proposals in later stages, if they are kept.
_KEPT_SHARE = 0.3


@dataclass(frozen=True, eq=False)
class Target:
    """Integrand and prior.

    Args:
        log_f: ln of likelihood times density of the prior, and ln of the likelihood, at points.
        sample_prior: Map from points of the unit cube to draws from the prior.
        log_prior: ln of the density of those draws.
    """

    log_f: LogDensity
    sample_prior: Callable[[FloatArray], FloatArray] | None
    log_prior: Callable[[FloatArray], FloatArray] | None

    def evaluate(self, z: FloatArray, run: IntArray) -> "Points":
        """Evaluate densities at points; NaN counts as zero density.

        Raises:
            DriftbayesError: If ln f is plus infinity.
        """
        # A draw at the edge of the prior has infinite unconstrained coordinates.
        is_lost = np.asarray(~np.isfinite(z).all(axis=1))
        z = np.where(is_lost[:, None], z[0], z)
        log_f, log_likelihoods = (np.array(part, dtype=np.float64) for part in self.log_f(z))
        log_f[np.isnan(log_f) | is_lost] = -np.inf
        if np.isposinf(log_f).any():
            raise DriftbayesError(
                f"ln f is plus infinity at z = {z[np.argmax(log_f)]}; expected a finite density"
            )
        log_prior = np.full(len(z), -np.inf)
        if self.log_prior is not None:
            log_prior = np.array(self.log_prior(z), dtype=np.float64)
            log_prior[np.isnan(log_prior)] = -np.inf
        return Points(z, log_f, log_likelihoods, log_prior, np.full(len(z), -np.inf), run)


@dataclass(frozen=True, eq=False)
class Points:
    """Evaluated points.

    Args:
        z: Coordinates, (point, parameter).
        log_f: ln f.
        log_likelihoods: ln L.
        log_prior: ln of the density of the prior.
        log_sum: ln of the sum of the densities of all proposals, each times its number of points
            per randomisation.
        run: Index of the randomisation.
    """

    z: FloatArray
    log_f: FloatArray
    log_likelihoods: FloatArray
    log_prior: FloatArray
    log_sum: FloatArray
    run: IntArray

    @property
    def log_weights(self) -> FloatArray:
        """Ln of f / q, whose sum over a randomisation estimates the evidence."""
        return self.log_f - self.log_sum

    def log_evidences(self) -> FloatArray:
        """Compute ln of the evidence of each randomisation."""
        log_weights = self.log_weights
        return np.array([logsumexp(log_weights[self.run == run]) for run in np.unique(self.run)])

    def with_proposals(self, stage: "Stage") -> "Points":
        """Add the proposals of one more stage to the weights."""
        log_sum = stage.log_sum(self.z, self.log_prior)
        return replace(self, log_sum=np.logaddexp(self.log_sum, log_sum))


@dataclass(frozen=True, eq=False)
class Stage:
    """Proposals of one stage, whose shares equal those of its points.

    Args:
        mixture: Student t distributions.
        counts: Points of each component, per randomisation.
        n_prior: Points of the prior, per randomisation.
    """

    mixture: StudentMixture
    counts: IntArray
    n_prior: int

    def log_sum(self, z: FloatArray, log_prior: FloatArray) -> FloatArray:
        """Compute ln of the sum of the densities, each times its number of points."""
        found = np.log(self.counts.sum()) + self.mixture.log_density(z)
        return np.logaddexp(found, np.log(self.n_prior) + log_prior) if self.n_prior else found


class _Uncopied(np.random.PCG64):
    """Bit generator that SciPy does not copy, which would double the time of scrambling."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Uncopied":
        return self


class Source:
    """Scrambled Sobol points, with sequences per component that continue through the stages."""

    def __init__(self, seed: int, n_dim: int) -> None:
        self._seed, self._n_dim = seed, n_dim
        self._engines: dict[tuple[int, int], Any] = {}

    def uniforms(self, component: int, n: int, runs: IntArray) -> FloatArray:
        """Return the next n points of each randomisation, one after the other."""
        from scipy.stats import qmc  # imported here since it takes a third of a second

        parts = []
        for run in runs.tolist():
            if (component, run) not in self._engines:
                rng = np.random.Generator(_Uncopied([self._seed, component, run]))
                self._engines[component, run] = qmc.Sobol(self._n_dim, rng=rng)
            parts.append(self._engines[component, run].random(n))
        # Centres of the cells of the 30-bit net are never on the edge of the cube.
        return np.concatenate(parts) + 2.0**-31


class Group:
    """Half of the randomisations, with proposals and points.

    Args:
        target: Integrand and prior.
        mixture: First proposals.
        runs: Indices of the randomisations.
        keeps: Whether the first proposals keep a share of the points of every stage: those along
            ridges cover tails with too few points for a fit.
    """

    def __init__(
        self, target: Target, mixture: StudentMixture, runs: IntArray, *, keeps: bool = False
    ) -> None:
        self.target, self.mixture, self.runs = target, mixture, runs
        self._fitted, self._first, self._keeps = mixture, mixture, keeps
        self._even = _EVEN_MODES
        self._stages: list[Stage] = []
        self.points: Points | None = None

    def plan(self, n_student: int) -> Stage:
        """Plan a stage of about n_student points per randomisation, in powers of two."""
        shares = (1 - self._even) * self.mixture.shares + self._even / len(self.mixture.shares)
        exponents = np.round(np.log2(np.maximum(n_student * shares, _MIN_POINTS)))
        counts = (2**exponents).astype(np.int64)
        has_prior = self.target.sample_prior is not None
        n_prior = max(n_student // _PRIOR_FRACTION, _MIN_POINTS) if has_prior else 0
        return Stage(replace(self.mixture, shares=counts / counts.sum()), counts, n_prior)

    def extend(self, stage: Stage, source: Source) -> FloatArray:
        """Evaluate a stage, and weight all points by the proposals of all stages.

        Returns:
            ln of the evidence of each randomisation from the new points alone.
        """
        parts = [
            stage.mixture.points(k, source.uniforms(k + 1, int(n), self.runs))
            for k, n in enumerate(stage.counts)
        ]
        if self.target.sample_prior is not None:
            parts.append(
                np.asarray(
                    self.target.sample_prior(source.uniforms(0, stage.n_prior, self.runs)),
                    dtype=np.float64,
                )
            )
        run = np.concatenate([np.repeat(self.runs, len(part) // len(self.runs)) for part in parts])
        new = self.target.evaluate(np.concatenate(parts), run).with_proposals(stage)
        log_evidences = new.log_evidences()
        for earlier in self._stages:
            new = new.with_proposals(earlier)
        if self.points is not None:
            pairs = zip(
                vars(self.points.with_proposals(stage)).values(), vars(new).values(), strict=True
            )
            new = Points(*(np.concatenate(pair) for pair in pairs))
        self._stages.append(stage)
        self.points = new
        return log_evidences

    def fit(self, other: Points, rng: np.random.Generator) -> None:
        """Fit the mixture to points of another group, if that improves it."""
        places = np.flatnonzero(np.isfinite(other.log_f))
        if len(places) > _MAX_FITTED:
            places = np.sort(rng.choice(places, _MAX_FITTED, replace=False))
        if len(places) == 0:
            return
        log_weights = other.log_weights[places]
        weights = np.exp(log_weights - logsumexp(log_weights))
        is_fitted = other.run[places] // 2 % 2 == 0
        new = fit_mixture(self._fitted, other.z[places], other.log_f[places], weights, is_fitted)
        if new is not None:
            self._fitted, self._even = new, _EVEN_FITTED
            self.mixture = joined(new, self._first, _KEPT_SHARE) if self._keeps else new
