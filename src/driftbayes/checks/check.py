"""Does a fitted model explain the data at all? Data against replicas, quantity by quantity."""

__all__ = ["FitCheck", "ModelCheck", "check_fit"]

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from driftbayes.checks.calibrate import Deviation, deviations, overall
from driftbayes.checks.cards import fit_check_card, fit_check_line
from driftbayes.checks.innovations import Layout, Whitener
from driftbayes.checks.replicas import Replicator, check_replicable, mean_flows
from driftbayes.checks.statistics import Quantity, quantities, statistics
from driftbayes.comparison.bayes import Comparison, check_names, comparison_of, strength
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Batch, Evidence, Hypothesis, Method, posterior_draws
from driftbayes.inference.laplace import Coords
from driftbayes.likelihood import PaddedSteps
from driftbayes.models import prepare
from driftbayes.representation import html_of, line_of, text_of
from driftbayes.sampling import Displacements
from driftbayes.typing import FloatArray

Progress = Callable[[str, int, int], None]

# A quantity with a smaller p-value is said to be not explained.
LEVEL = 0.01
# The fewest replicas with which that can be said.
_FEWEST = 100
# Numbers held at once: replicas are made in batches that stay in the cache.
_BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class ModelCheck:
    """What replicas of the data under one model say of it.

    Args:
        model: Name of the model.
        quantities: What was compared.
        deviations: How the data compare with the replicas, by the quantity's name.
        p_value: That the largest deviation of all is exceeded if the model is true.
        n_replicas: Number of replicas.
        seed: Key of the draws and of the replicas.
        mode: Parameters at which innovations were computed.
    """

    model: str
    quantities: tuple[Quantity, ...]
    deviations: Mapping[str, Deviation]
    p_value: float
    n_replicas: int
    seed: int
    mode: Mapping[str, float]

    @property
    def p_values(self) -> dict[str, float]:
        """One p-value for each quantity, which accounts for the number of lags looked at."""
        return {name: one.p_value for name, one in self.deviations.items()}

    @property
    def unexplained(self) -> tuple[Quantity, ...]:
        """Quantities with a p-value below 0.01, the most surprising first."""
        chosen = [q for q in self.quantities if self.deviations[q.name].p_value < LEVEL]
        return tuple(sorted(chosen, key=lambda q: -float(np.abs(self.deviations[q.name].z).max())))

    @property
    def verdict(self) -> str:
        """The end of a sentence that begins with the model."""
        failed = self.unexplained
        if not failed:
            low = min(self.p_values.values())
            return f"nothing checked contradicts it (smallest of {len(self.p_values)} p: {low:.2g})"
        parts = [f"{q.words} ({self.p_text(q.name)})" for q in failed]
        listed = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
        return f"it does not explain {listed}"

    def p_text(self, name: str) -> str:
        """The p-value of a quantity in words."""
        p, least = self.p_values[name], 1 / (self.n_replicas + 1)
        # The least that so many replicas can tell.
        return f"p < {_rounded_up(least)}" if p <= least * 1.0001 else f"p = {p:.2g}"

    def to_json(self) -> dict[str, Any]:
        """The check as plain numbers and text."""
        return {
            "p_value": self.p_value,
            "p_values": self.p_values,
            "unexplained": [quantity.name for quantity in self.unexplained],
            "verdict": f"{self.model}: {self.verdict}",
            "n_replicas": self.n_replicas,
            "seed": self.seed,
            "mode": dict(self.mode),
            "quantities": {q.name: self._quantity_json(q) for q in self.quantities},
        }

    def _quantity_json(self, quantity: Quantity) -> dict[str, Any]:
        one = self.deviations[quantity.name]
        return {
            "words": quantity.words,
            "about": quantity.about,
            "at": quantity.at.tolist(),
            "observed": _plain(one.observed),
            "low": _plain(one.band[0]),
            "median": _plain(one.band[1]),
            "high": _plain(one.band[2]),
            "low_at_equal_fit": _plain(one.fitted_band[0]),
            "high_at_equal_fit": _plain(one.fitted_band[2]),
            "z": _plain(one.z),
            "p_values": _plain(one.p_values),
            "p_value": one.p_value,
        }


@dataclass(frozen=True, eq=False)
class FitCheck:
    """Whether models explain the data, each by itself, and which of them is the best.

    Args:
        models: The check of each model, by name.
        comparison: What the evidences of the same models say.
    """

    models: Mapping[str, ModelCheck]
    comparison: Comparison

    @property
    def verdict(self) -> str:
        """The best model of the set, and what it does not explain."""
        best = self.comparison.best
        one = self.models[best]
        how = f"{one.n_replicas} replicas, seed {one.seed}"
        return f"{best} is {self._rank(best)}, and {one.verdict}; {how}"

    def _rank(self, best: str) -> str:
        if len(self.models) == 1:
            return "the only model checked"
        logs = {name: e.log_evidence for name, e in self.comparison.evidences.items()}
        close = [
            name
            for name, value in logs.items()
            if name != best and strength(logs[best] - value) == "indistinguishable"
        ]
        if close:
            return f"the best of the set, though indistinguishable from {' and '.join(close)}"
        return "the best of the set"

    def to_json(self) -> dict[str, Any]:
        """The check as plain numbers and text."""
        about = self.comparison
        return {
            "tau": about.tau,
            "n_particles": about.n_particles,
            "n_steps": about.n_steps,
            "n_dim": about.n_dim,
            "n_displacements": about.n_displacements,
            "length_unit": about.length_unit,
            "time_unit": about.time_unit,
            "data_fingerprint": about.data_fingerprint,
            "level": LEVEL,
            "best": about.best,
            "models": {
                name: {"probability": about.probabilities[name], **one.to_json()}
                for name, one in self.models.items()
            },
            "verdict": self.verdict,
        }

    def __repr__(self) -> str:
        """The verdict."""
        return line_of(fit_check_line, self)

    def __str__(self) -> str:
        """Some lines: the verdict, and a p-value for each quantity."""
        return text_of(fit_check_card, self)

    def _repr_html_(self) -> str:
        return html_of(fit_check_card, self)


def check_fit(
    hypotheses: Sequence[Hypothesis],
    data: Displacements,
    *,
    n_replicas: int = 500,
    seed: int = 0,
    method: Method = "auto",
    coords: Coords = "natural",
    prior_probabilities: Sequence[float] | None = None,
    progress: Progress | None = None,
) -> FitCheck:
    """Check fitted models against the data, each by itself.

    From every model as many data sets as `n_replicas` are drawn, each with parameters from the
    posterior and with the runs, intervals and errors of the data. The same quantities are
    computed of data and replicas: mean square displacement, autocovariance and kurtosis against
    lag, the distribution of displacements, the differences between particles, and of the
    innovations at the posterior mode their shape, whiteness and spread between particles.

    Args:
        hypotheses: Model families with their priors, of different names.
        data: Displacements at one tau.
        n_replicas: Replicas of each model, 100 or more.
        seed: Key of the posterior draws and of the replicas.
        method: Of the evidences and draws, as for `evidence`.
        coords: Coordinates of Laplace's method.
        prior_probabilities: Probabilities of the models before the data.
        progress: Called with a stage, how many are done, and of how many.
    """
    check_names(hypotheses)
    if not isinstance(data, Displacements):
        msg = (
            f"replicas are compared with displacements themselves, got {type(data).__name__}; "
            "pass those"
        )
        raise DriftbayesError(msg)
    if n_replicas != int(n_replicas) or n_replicas < _FEWEST:
        msg = (
            f"n_replicas must be a whole number, {_FEWEST} or more, for a p-value below {LEVEL:g}; "
            f"got {n_replicas}"
        )
        raise DriftbayesError(msg)
    layout = Layout(data)
    for hypothesis in hypotheses:
        check_replicable(hypothesis.model, layout)
    checks: dict[str, ModelCheck] = {}
    evidences: list[Evidence] = []
    for hypothesis in hypotheses:
        draws = posterior_draws(
            hypothesis, data, n_draws=int(n_replicas), seed=seed, method=method, coords=coords
        )
        evidences.append(draws.evidence)
        replicate = Replicator(draws, layout, seed)
        checks[hypothesis.name] = _checked(hypothesis, draws.evidence, layout, replicate, progress)
    return FitCheck(checks, comparison_of(evidences, data, prior_probabilities))


def _checked(
    hypothesis: Hypothesis,
    record: Evidence,
    layout: Layout,
    replicate: Replicator,
    progress: Progress | None,
) -> ModelCheck:
    mode = _mode(hypothesis, record)
    flows = mean_flows(hypothesis, mode[None], layout)
    whiten = Whitener(hypothesis, mode, layout, None if flows is None else flows[0][0])
    fit_of = _Fit(hypothesis, mode, layout)
    chosen = quantities(layout)
    n = replicate.n_replicas
    observed = layout.pad(layout.data.dx)[None]
    own, own_fit = statistics(chosen, layout, observed, whiten(observed)), fit_of(observed[0])
    found: list[dict[str, FloatArray]] = []
    fits: list[FloatArray] = []
    n_blocks = -(-n // max(_BLOCK // observed.size, 1))
    size = -(-n // n_blocks)
    for low in range(0, n, size):
        # Blocks of one size, the last filled up: another would be compiled anew.
        numbers = np.arange(low, low + size) % n
        block = np.stack([replicate(int(number)) for number in numbers])
        kept = min(size, n - low)
        white = whiten(block)
        found.append(statistics(chosen, layout, block[:kept], white[:kept]))
        fits += [fit_of(one) for one in block[:kept]]
        if progress is not None:
            progress(f"replicas of {hypothesis.name}", low + kept, n)
    compared = {
        q.name: deviations(
            own[q.name][0],
            np.concatenate([part[q.name] for part in found]),
            own_fit,
            np.stack(fits),
        )
        for q in chosen
    }
    return ModelCheck(
        model=hypothesis.name,
        quantities=tuple(chosen),
        deviations=compared,
        p_value=overall(list(compared.values())),
        n_replicas=n,
        seed=replicate.seed,
        mode=dict(zip(hypothesis.names, mode.tolist(), strict=True)),
    )


def _mode(hypothesis: Hypothesis, record: Evidence) -> FloatArray:
    """The posterior mode; the mean where the mode is not inside the prior's range."""
    mode = np.array([record.map[name] for name in hypothesis.names])
    inside = np.isfinite(np.asarray(hypothesis.to_unconstrained(jnp.asarray(mode))))
    mean = np.array([record.posterior_mean[name] for name in hypothesis.names])
    return np.where(inside & np.isfinite(mode), mode, mean)


class _Fit:
    """Where a fit to a data set would end, to first order: ∂ ln p(D | θ) at the data's mode.

    Of a mean flow, which is integrated out, the mean velocity says so, or a least-squares fit.
    """

    def __init__(self, hypothesis: Hypothesis, mode: FloatArray, layout: Layout) -> None:
        self._hypothesis, self._layout = hypothesis, layout
        self._z = hypothesis.to_unconstrained(jnp.asarray(mode))
        self._prepared = Batch.of(layout.data, model=hypothesis.model).data
        self._has_flow = "flow" in hypothesis.model.parameters

    def __call__(self, dx: FloatArray) -> FloatArray:
        steps = dx[self._layout.valid]
        if isinstance(self._prepared, PaddedSteps):
            whole = np.zeros(self._prepared.dx.shape)
            whole[: dx.shape[0], : dx.shape[1]] = dx
            data: Any = eqx.tree_at(lambda one: one.dx, self._prepared, jnp.asarray(whole))
        else:
            data = prepare(replace(self._layout.data, dx=steps), self._hypothesis.model.needs())
        slope = np.asarray(_slope(self._hypothesis, data, self._z))
        if not self._has_flow:
            return slope
        interval = self._layout.data.interval
        mean = steps.sum(axis=0) / interval.sum()
        if not self._hypothesis.model.needs_positions:
            return np.concatenate([slope, mean])
        moved = replace(self._layout.data, dx=steps)
        regressors = np.column_stack([np.ones(len(steps)), moved.origin - moved.centre])
        found, *_ = np.linalg.lstsq(regressors * interval[:, None], steps)
        return np.concatenate([slope, found.ravel()])


@eqx.filter_jit
def _slope(hypothesis: Hypothesis, data: Any, z: Array) -> Array:
    return jax.grad(lambda at: hypothesis.log_likelihood(hypothesis.from_unconstrained(at), data))(
        z
    )


def _rounded_up(value: float) -> str:
    """A bound in one digit, not below the value: 1/501 is 0.002."""
    power = 10.0 ** np.floor(np.log10(value))
    return f"{np.ceil(value / power * (1 - 1e-9)) * power:.1g}"


def _plain(values: FloatArray) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]
