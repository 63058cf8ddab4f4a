r"""Bootstrap of ln K.

The evidence treats particles as independent. If they are not, its error bars are too narrow. The
bootstrap resamples independent units with replacement: particles, clusters of particles that move
together or, if all move together, blocks of time across all particles (circular blocks, several
correlation times long). Second moments are sums over units, so that a replicate is a weighted sum
of matrices and all replicates are one batch of evidences. The first steps of a block are still
predicted from those before it, so that the blocks add up to the whole exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from driftbayes._magnitudes import whole
from driftbayes._precision import in_double_precision
from driftbayes._representation import Card, Described, describe, number
from driftbayes._sums import diagonal_sums
from driftbayes._typing import FloatArray, IntArray
from driftbayes.comparison._bayes import Comparison
from driftbayes.comparison._dependence import Dependence, dependence
from driftbayes.comparison._hypotheses import check_names, model_pairs
from driftbayes.data._sampling import Displacements, displacements, ragged_arange
from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Batch, Evidence, Hypothesis, Method, log_evidences
from driftbayes.likelihood import SecondMoments, second_moments
from driftbayes.likelihood._moments import sliding_moment

Units = Literal["auto", "particles", "clusters", "time"]
# Fewer units do not give a meaningful spread; more are merged into groups.
_MIN_UNITS, _MAX_UNITS = 8, 200


@dataclass(frozen=True, eq=False, repr=False)
class Bootstrap(Described):
    """Replicates of ln K.

    Args:
        log_bayes_factor: ln K of the data, the second hypothesis against the first.
        scaled: ln K corrected for the effective number of particles.
        replicates: ln K of each replicate.
        pair: Names of the two hypotheses, "langevin:brownian".
        units: Units that were resampled: "particles", "clusters" or "time".
        n_units: Number of units.
        block_steps: Length of a block of time in steps, if time was resampled.
        dependence: Dependence between particles.
        seed: Random seed.
    """

    log_bayes_factor: float
    scaled: float
    replicates: FloatArray
    pair: str
    units: str
    n_units: int
    block_steps: int | None
    dependence: Dependence
    seed: int

    @property
    def interval(self) -> tuple[float, float]:
        """Central 95 % interval of the replicates."""
        low, high = np.percentile(self.replicates, [2.5, 97.5])
        return float(low), float(high)

    @property
    def same_sign(self) -> float:
        """Fraction of the replicates that favour the same model as the data."""
        return float(np.mean(np.sign(self.replicates) == np.sign(self.log_bayes_factor)))

    @property
    def sentence(self) -> str:
        """Sentence with ln K and its interval."""
        low, high = self.interval
        what = f"{self.n_units} {self.units}"
        if self.units == "time":
            what = f"{self.n_units} blocks of {self.block_steps} steps"
        return (
            f"ln K({self.pair}) = {number(self.log_bayes_factor)}, 95 % bootstrap interval "
            f"{number(low)} … {number(high)} ({len(self.replicates)} replicates of {what}, "
            f"{self.same_sign:.1%} with the same sign); corrected for the effective number of "
            f"particles: {number(self.scaled)}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers and text."""
        return {
            "pair": self.pair,
            "log_bayes_factor": self.log_bayes_factor,
            "scaled_log_bayes_factor": self.scaled,
            "interval": list(self.interval),
            "sd": float(self.replicates.std(ddof=1)),
            "same_sign": self.same_sign,
            "n_replicates": len(self.replicates),
            "units": self.units,
            "n_units": self.n_units,
            "block_steps": self.block_steps,
            "seed": self.seed,
            "sentence": self.sentence,
        }


@describe.register
def _(result: Bootstrap) -> Card:
    return Card("Bootstrap", result.sentence)


@in_double_precision
def bootstrap(
    trajectories: Trajectories,
    hypotheses: Sequence[Hypothesis],
    tau: float | str,
    *,
    n_replicates: int = 200,
    units: Units = "auto",
    block_steps: int | None = None,
    method: Method | str = "auto",
    seed: int = 0,
) -> Bootstrap:
    """Compute bootstrap replicates of ln K of the second hypothesis against the first.

    Args:
        trajectories: Positions of the particles.
        hypotheses: Two hypotheses whose likelihoods depend on second moments only.
        tau: Sampling time, a multiple of the recording interval.
        n_replicates: Number of replicates.
        units: Units to resample. "auto": particles if they are independent, clusters of particles
            that move together if there are eight or more, and otherwise blocks of time.
        block_steps: Length of a block of time in steps; by default from the correlation time.
        method: Method of the evidence.
        seed: Random seed.
    """
    check_names(hypotheses)
    if len(hypotheses) != 2:
        raise DriftbayesError(f"expected two hypotheses, got {len(hypotheses)}")
    whole(n_replicates, "the number of replicates", 2)
    if units not in get_args(Units):
        known = ", ".join(get_args(Units))
        raise DriftbayesError(f"units of a bootstrap must be one of {known}, got {units!r}")
    found = dependence(trajectories, tau)
    data = displacements(trajectories, tau)
    if not all(_is_summed_over_axes(Batch.of(data, model=h.model)) for h in hypotheses):
        raise DriftbayesError(
            "the bootstrap needs exact positions at regular times and models without options, "
            f"got {', '.join(h.name for h in hypotheses)}; omit --noise and the options of models, "
            "or --bootstrap"
        )
    if units == "auto":
        independent = not found.inflation - 1 > 4 * found.inflation_err
        units = "particles" if independent else "clusters"
        is_complete = found.n_sampled == found.n_particles
        if not independent and (found.n_clusters < _MIN_UNITS or not is_complete):
            units = "time"
    rng = np.random.Generator(np.random.Philox(seed))
    if units == "time":
        labels, n_blocks, length, steps = _time_units(data, found, block_steps)
        weights = _circular(rng, n_replicates, labels.max() + 1, length)
    else:
        labels, n_blocks = _particle_units(data, found, units)
        steps = None
        weights = rng.multinomial(n_blocks, np.full(n_blocks, 1 / n_blocks), size=n_replicates)
    if n_blocks < _MIN_UNITS:
        raise DriftbayesError(
            f"the bootstrap needs at least {_MIN_UNITS} units ({units}), got {n_blocks}; use "
            "longer records or more particles"
        )
    # Row 0: the data; row 1: the same statistics from the effective number of particles.
    thin = found.n_effective / found.n_particles
    fixed = np.array([[1.0], [thin]]) * np.ones(weights.shape[1])
    drawn = np.concatenate([fixed, weights.astype(np.float64)])
    logs = []
    for hypothesis in hypotheses:
        memory = np.shape(Batch.of(data, model=hypothesis.model).moments.forms)[-1]
        batch = _batch(unit_moments(data, labels, memory), drawn, data)
        logs.append(log_evidences(hypothesis, batch, method=method, seed=seed).log_evidence)
    log_k = logs[1] - logs[0]
    return Bootstrap(
        log_bayes_factor=float(log_k[0]),
        scaled=float(log_k[1]),
        replicates=log_k[2:],
        pair=f"{hypotheses[1].name}:{hypotheses[0].name}",
        units=units,
        n_units=n_blocks,
        block_steps=steps,
        dependence=found,
        seed=seed,
    )


def unit_moments(data: Displacements, labels: IntArray, memory: int) -> SecondMoments:
    """Compute second moments of each unit, with a leading axis; their sum is that of the data."""
    whole = second_moments(data, memory)
    keys = list(zip(whole.orders.tolist(), whole.paired.tolist(), strict=True))
    n_units, size = int(labels.max()) + 1, whole.forms.shape[-1]
    forms = np.zeros((n_units, len(keys), size, size))
    predicted = np.zeros((n_units, size))
    starts = data.first_steps
    capped = np.minimum(data.row_sizes, size)
    heads = labels[starts]
    for length in np.unique(capped).tolist():
        group = keys.index((length - 1, 1.0))
        for unit in np.unique(heads[capped == length]).tolist():
            members = starts[(capped == length) & (heads == unit)]
            windows = data.dx[members[:, None] + np.arange(length)]
            moment = np.tensordot(windows, windows, axes=([0, 2], [0, 2]))
            forms[unit, group, :length, :length] += diagonal_sums(moment)
            predicted[unit, :length] += len(members) * data.n_dim
    for start, n_steps in zip(starts.tolist(), data.row_sizes.tolist(), strict=True):
        if n_steps <= size:
            continue
        group = keys.index((size - 1, 0.0))
        later = labels[start + size : start + n_steps]
        edges = np.flatnonzero(np.diff(later)) + 1
        for low, high in zip([0, *edges.tolist()], [*edges.tolist(), len(later)], strict=True):
            # All windows that end at the steps low ... high - 1 of `later`.
            moment = sliding_moment(data.dx[start + low + 1 : start + size + high], size)
            forms[later[low], group] += moment[::-1, ::-1]
            predicted[later[low], -1] += (high - low) * data.n_dim
    return SecondMoments(
        forms=forms,
        orders=np.tile(whole.orders, (n_units, 1)),
        paired=np.tile(whole.paired, (n_units, 1)),
        predicted=predicted,
        tau=np.full(n_units, data.tau),
    )


@in_double_precision
def thinned_log_bayes_factor(
    comparison: Comparison,
    hypotheses: Sequence[Hypothesis],
    data: Displacements,
    factor: float,
    method: Method | str = "auto",
) -> dict[str, float]:
    r"""Compute ln K of every pair for the same statistics from `factor` times fewer particles.

    Second moments are thinned if the likelihood depends on nothing else. Otherwise Laplace's rule
    is applied to the comparison: log-likelihoods are divided by the factor, and the posterior of p
    parameters is $f^{p/2}$ times wider, $\ln Z' = \ln L / f + \ln \mathrm{Occam} + (p/2) \ln f$.

    Args:
        comparison: Comparison for all particles.
        hypotheses: Hypotheses of that comparison.
        data: Displacements at one tau.
        factor: Ratio of the numbers of particles, 1 or more.
        method: Method of the evidence.
    """
    logs = {}
    for hypothesis in hypotheses:
        # Models of shared motion need no correction.
        if hypothesis.model.shares_motion:
            continue
        record = comparison.evidences[hypothesis.name]
        batch = Batch.of(data, model=hypothesis.model)
        if _is_summed_over_axes(batch) and not batch.is_stacked:
            whole = batch.moments
            scaled = whole._replace(forms=whole.forms / factor, predicted=whole.predicted / factor)
            thin = Batch(scaled, batch.taus, batch.fingerprints)
            logs[hypothesis.name] = log_evidences(hypothesis, thin, method=method).log_evidence[0]
        else:
            logs[hypothesis.name] = thinned_by_rule(record, factor)
    return {pair: float(b - a) for pair, (b, a) in model_pairs(logs).items()}


def thinned_by_rule(record: Evidence, factor: float) -> float:
    """Compute ln Z for `factor` times fewer particles by Laplace's rule."""
    wider = 0.5 * len(record.map) * float(np.log(factor))
    return record.log_likelihood_at_map / factor + min(record.log_occam_factor + wider, 0.0)


def _is_summed_over_axes(batch: Batch) -> bool:
    return batch.is_summed and isinstance(batch.moments, SecondMoments)


def _batch(own: SecondMoments, weights: FloatArray, data: Displacements) -> Batch:
    n = len(weights)
    moments = SecondMoments(
        forms=np.tensordot(weights, np.asarray(own.forms), axes=1),
        orders=np.tile(own.orders[0], (n, 1)),
        paired=np.tile(own.paired[0], (n, 1)),
        predicted=weights @ np.asarray(own.predicted),
        tau=np.full(n, data.tau),
    )
    names = tuple(f"{data.fingerprint}*{i}" for i in range(n))
    return Batch(moments, (data.tau,) * n, names, is_stacked=True)


def _particle_units(data: Displacements, found: Dependence, units: str) -> tuple[IntArray, int]:
    """Return the unit of each step, its particle or cluster, and the number of units."""
    owner = data.trajectory
    if units == "clusters":
        cluster = np.arange(found.n_particles) + len(found.clusters)
        cluster[found.particles] = found.clusters
        owner = cluster[owner]
    _, labels = np.unique(owner, return_inverse=True)
    labels = labels % _MAX_UNITS
    return np.repeat(labels, data.row_sizes), int(labels.max()) + 1


def _time_units(
    data: Displacements, found: Dependence, block_steps: int | None
) -> tuple[IntArray, int, int, int]:
    """Return the time unit of each step, the number of blocks, and units and steps per block."""
    starts = np.asarray(data.start_time)
    first = np.round((starts - starts.min()) / data.tau).astype(np.int64)
    step = np.repeat(first, data.row_sizes) + ragged_arange(data.row_sizes)
    n_steps = int(step.max()) + 1
    if block_steps is None:
        scale = max(found.correlation_steps, 1.0)
        # The correlation time times the cube root of the number of correlation times.
        block_steps = int(np.ceil(scale * (n_steps / scale) ** (1 / 3)))
    fine = max(1, -(-n_steps // _MAX_UNITS))
    length = max(1, round(block_steps / fine))
    _, labels = np.unique(step // fine, return_inverse=True)
    return labels, (int(labels.max()) + 1) // length, length, length * fine


def _circular(rng: np.random.Generator, n_replicates: int, n_units: int, length: int) -> IntArray:
    """Count the draws of each unit, in circular blocks of `length` units, `n_units` in all."""
    n_blocks = -(-n_units // length)
    firsts = rng.integers(0, n_units, size=(n_replicates, n_blocks))
    drawn = (firsts[..., None] + np.arange(length)) % n_units
    drawn = drawn.reshape(n_replicates, -1)[:, :n_units]
    weights = np.zeros((n_replicates, n_units), dtype=np.int64)
    np.add.at(weights, (np.arange(n_replicates)[:, None], drawn), 1)
    return weights
