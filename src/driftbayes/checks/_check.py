"""Goodness of fit of fitted models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from driftbayes._aliases import public
from driftbayes._magnitudes import whole
from driftbayes._precision import in_double_precision
from driftbayes._representation import Described, number, plain
from driftbayes._typing import FloatArray, Progress
from driftbayes.checks._calibrate import (
    Deviation,
    adjusted_p_values,
    data_leverage,
    deviations,
    fit_deviation,
)
from driftbayes.checks._innovations import Layout, Score, Whitener
from driftbayes.checks._replicas import Replicator, check_replicable, mean_flows
from driftbayes.checks._statistics import Quantity, quantities, statistics
from driftbayes.comparison._bayes import FIT_LEVEL, Comparison, comparison_of, strength
from driftbayes.comparison._hypotheses import check_names
from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError, Status
from driftbayes.inference import Evidence, Hypothesis, Method, as_method, evidence, posterior_draws

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# A quantity with a smaller adjusted p-value contradicts the model.
LEVEL = FIT_LEVEL
# With fewer replicas, no p-value is below the level.
_MIN_REPLICAS = 100
# Size of a batch of replicas, which stays in the cache.
_BLOCK = 1 << 20
# Beyond this leverage, the error of the regression exceeds the scatter of a replica.
_MAX_LEVERAGE = 1.0
# Maximum number of quantities named in a verdict.
_MAX_NAMED = 3


@dataclass(frozen=True, eq=False)
class ModelCheck:
    """Goodness of fit of one model.

    Args:
        model: Name of the model.
        quantities: Quantities compared; none if the model could not be checked.
        deviations: Deviation of the data from replicas, by name of the quantity.
        p_values: P-value of each quantity, adjusted for the number of lags and of quantities.
        n_replicas: Number of replicas.
        seed: Random seed of the draws and of the replicas.
        mode: Parameters at which innovations were computed.
        is_at_equal_fit: Whether replicas were compared at equal fit; if not, the prior keeps the
            parameters from fitting the data, and p-values are posterior predictive.
        status: `NOT_CHECKED` if no replicas could be drawn.
        reason: Reason for that status.
    """

    model: str
    quantities: tuple[Quantity, ...]
    deviations: Mapping[str, Deviation]
    p_values: Mapping[str, float]
    n_replicas: int
    seed: int
    mode: Mapping[str, float]
    is_at_equal_fit: bool = True
    status: Status = Status.OK
    reason: str = ""

    def __repr__(self) -> str:
        """Show the verdict."""
        return f"<ModelCheck: {self.model}: {self.verdict}>"

    @property
    def p_value(self) -> float:
        """P-value of all quantities together, the smallest adjusted one; NaN if not checked.

        The fit of the parameters counts only if it fails: at a posterior mode it is usually good.
        """
        counted = [p for n, p in self.p_values.items() if n != "fit" or not self.is_at_equal_fit]
        return min(counted, default=np.nan)

    @property
    def unexplained(self) -> tuple[Quantity, ...]:
        """Quantities with an adjusted p-value below the level, the largest deviation first."""
        chosen = [q for q in self.quantities if self.p_values[q.name] < LEVEL]

        def key(quantity: Quantity) -> tuple[bool, float]:
            found = self.deviations[quantity.name]
            return quantity.name == "fit", -found.largest / found.unit

        return tuple(sorted(chosen, key=key))

    @property
    def verdict(self) -> str:
        """Clause for a sentence that begins with the model."""
        if self.status is not Status.OK:
            return f"it could not be checked: {self.reason or self.status.advice}"
        failed = self.unexplained
        if not failed:
            return f"nothing checked contradicts it (p = {number(self.p_value, 2)})"
        others = [quantity for quantity in failed if quantity.name != "fit"]
        parts = [self._failure(quantity) for quantity in others[:_MAX_NAMED]]
        n_more = len(others) - len(parts)
        if n_more:
            parts.append(f"{n_more} more {'quantity' if n_more == 1 else 'quantities'}")
        clauses = [f"it does not explain {_listed(parts)}"] if parts else []
        if len(others) < len(failed):
            clauses.append(self._conflict())
        return "; ".join(clauses)

    def _conflict(self) -> str:
        """Describe the parameter for which prior and data conflict most."""
        quantity = next(q for q in self.quantities if q.name == "fit")
        z = self.deviations["fit"].z
        worst = int(np.abs(z).argmax())
        name = quantity.places[worst]
        value = f"{name} = {number(self.mode[name], 3)}" if name in self.mode else name
        way = "up" if z[worst] > 0 else "down"
        return (
            f"its prior conflicts with the data, which pull {value} {way} by "
            f"{abs(z[worst]):.1f} standard deviations of the replicas ({self.p_text('fit')})"
        )

    def _failure(self, quantity: Quantity) -> str:
        """Describe an unexplained quantity, with the value that deviates most."""
        found = self.deviations[quantity.name]
        worst = int(np.abs(found.z).argmax())
        text = self.p_text(quantity.name)
        low, _, high = found.fitted_band[:, worst]
        place = f"{quantity.places[worst]}: " if quantity.places else ""
        return (
            f"{quantity.words} ({place}{_short(found.observed[worst])}, expected "
            f"{_short(low)} to {_short(high)}, z = {found.z[worst]:.1f}, {text})"
        )

    def p_text(self, name: str) -> str:
        """Format the adjusted p-value of a quantity."""
        if name not in self.p_values:
            return "not checked"
        # The smallest p-value that the replicas resolve.
        p, least = self.p_values[name], 1 / (self.n_replicas + 1)
        return f"p < {_rounded_up(least)}" if p <= least * 1.0001 else f"p = {number(p, 2)}"

    def p_cell(self, name: str) -> str:
        """Format the adjusted p-value of a quantity for a table."""
        return self.p_text(name).removeprefix("p ").removeprefix("= ")

    @property
    def overall_cell(self) -> str:
        """P-value of all quantities together, for a table."""
        return "not checked" if np.isnan(self.p_value) else number(self.p_value, 2)

    def to_json(self) -> dict[str, Any]:
        """Return the check as plain numbers and text."""
        return {
            "status": self.status.value,
            "reason": self.reason,
            "p_value": plain(self.p_value),
            "p_values": dict(self.p_values),
            "is_at_equal_fit": self.is_at_equal_fit,
            "unexplained": [quantity.name for quantity in self.unexplained],
            "verdict": f"{self.model}: {self.verdict}",
            "n_replicas": self.n_replicas,
            "seed": self.seed,
            "mode": dict(self.mode),
            "quantities": {q.name: self._quantity_json(q) for q in self.quantities},
        }

    def _quantity_json(self, quantity: Quantity) -> dict[str, Any]:
        found = self.deviations[quantity.name]
        return {
            "words": quantity.words,
            "about": quantity.about,
            "at": quantity.at.tolist(),
            "places": list(quantity.places),
            "observed": plain(found.observed),
            "low": plain(found.band[0]),
            "median": plain(found.band[1]),
            "high": plain(found.band[2]),
            "low_at_equal_fit": plain(found.fitted_band[0]),
            "high_at_equal_fit": plain(found.fitted_band[2]),
            "z": plain(found.z),
            "p_values": plain(found.p_values),
            "p_value_unadjusted": found.p_value,
            "p_value": self.p_values[quantity.name],
        }


@dataclass(frozen=True, eq=False, repr=False)
class FitCheck(Described):
    """Goodness of fit of several models, with their comparison.

    Args:
        models: Check of each model, by name.
        comparison: Comparison of the evidences of the same models.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> scales = db.Scales(u_rms=1.4, time=1.0)
        >>> tracks.check(0.5, models="brownian", scales=scales, n_replicas=100).comparison.best
        'brownian'
    """

    models: Mapping[str, ModelCheck]
    comparison: Comparison

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """Quantities compared: those of the first model that could be checked."""
        return next((m.quantities for m in self.models.values() if m.quantities), ())

    @property
    def n_replicas(self) -> int:
        """Number of replicas of each model that could be checked."""
        return max(m.n_replicas for m in self.models.values())

    @property
    def verdict(self) -> str:
        """Verdict: the best model, and what it does not explain."""
        best = self.comparison.best
        check = self.models[best]
        without = (f"{n}: {why}; " for n, why in self.comparison.without_evidence.items())
        how = f"{''.join(without)}{self.n_replicas} replicas, seed {check.seed}"
        rank = f"{best} is {self._rank(best)}"
        if not check.p_value < LEVEL:
            return f"{rank}, and {check.verdict}; {how}"
        if len(self.models) > 1:
            lost = self.comparison.without_evidence
            none = all(m.p_value < LEVEL for name, m in self.models.items() if name not in lost)
            rank = f"among the models compared, {rank}"
            rank += ", but none explains the data" if none else ", but does not explain the data"
            return f"{rank}: {check.verdict}; {how}"
        return f"{rank}, but {check.verdict}; {how}"

    def _rank(self, best: str) -> str:
        if len(self.models) == 1:
            return "the only model checked"
        logs = {name: e.log_evidence for name, e in self.comparison.evidences.items()}
        lost = self.comparison.without_evidence
        if len(logs) == len(lost) + 1:
            return "the only model with an evidence"
        best_of = f"the best of the {len(logs) - len(lost)} models with an evidence"
        best_of = best_of if lost else "the best of the set"
        close = [
            name
            for name, value in logs.items()
            if name != best and strength(logs[best] - value) == "indistinguishable"
        ]
        if close:
            return f"{best_of}, though indistinguishable from {' and '.join(close)}"
        return best_of

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of the fits."""
        evidences = self.comparison.evidences
        return tuple(f"{name}: {text}" for name, e in evidences.items() for text in e.warnings)

    def plot(self) -> "Figure":
        """Draw each quantity of the data among those of the replicas."""
        return public("plot_check", "driftbayes.plots.checks")(self)

    def to_json(self) -> dict[str, Any]:
        """Return the check as plain numbers and text."""
        about = self.comparison
        return {
            **about.facts,
            "level": LEVEL,
            "best": about.best,
            "models": {
                name: {"probability": about.probabilities[name], **check.to_json()}
                for name, check in self.models.items()
            },
            "verdict": self.verdict,
            "priors_from_data": about.priors_from_data,
            "warnings": list(self.warnings),
        }


def check_replicas(n_replicas: int, name: str = "n_replicas") -> None:
    """Refuse too few replicas.

    Args:
        n_replicas: Number of replicas.
        name: Name of the argument or option.
    """
    if whole(n_replicas, name) < _MIN_REPLICAS:
        raise DriftbayesError(
            f"{name} must be a whole number, {_MIN_REPLICAS} or more, for a p-value below "
            f"{number(LEVEL, 6)}; got {n_replicas}"
        )


@in_double_precision
def check_fit(
    hypotheses: Sequence[Hypothesis],
    data: Displacements,
    *,
    start_times: ArrayLike | None = None,
    n_replicas: int = 500,
    seed: int = 0,
    method: Method | str = "auto",
    prior_probabilities: Sequence[float] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> FitCheck:
    """Test the goodness of fit of models.

    Draw `n_replicas` data sets from every model, each with parameters from the posterior and with
    the runs, intervals and errors of the data, and compare data and replicas: mean displacement;
    mean square displacement, autocovariance and kurtosis against lag; the distribution of
    displacements; differences and correlation between particles; and shape, whiteness, isotropy and
    spread between particles of the innovations at the posterior mode. P-values are adjusted for the
    number of comparisons: a true model is contradicted with probability 0.01, the level.

    A model from which no replicas can be drawn gets the status `NOT_CHECKED`; it is an error if all
    models are.

    Args:
        hypotheses: Model families with their priors, of different names.
        data: Displacements at one tau.
        start_times: Time at which each run begins, to find simultaneous steps; without it, the
            correlation between particles is not tested.
        n_replicas: Number of replicas of each model, 100 or more.
        seed: Random seed of the posterior draws and of the replicas.
        method: Method of the evidences and draws, as for `evidence`.
        prior_probabilities: Prior probabilities of the models.
        progress: Called with the stage, the number done and the total.
        **options: Options of a method given by name.

    Example:
        >>> import driftbayes as db
        >>> brownian = db.Hypothesis(db.Brownian, kappa=db.Exponential(1.0))
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> data = db.displacements(tracks, tau=0.5)
        >>> db.check_fit([brownian], data, n_replicas=100).comparison.best
        'brownian'
    """
    check_names(hypotheses)
    if not isinstance(data, Displacements):
        raise DriftbayesError(
            f"data must be Displacements, got {type(data).__name__}; replicas cannot be compared "
            "with sums"
        )
    check_replicas(n_replicas)
    seed = whole(seed, "seed")
    layout = Layout(data, None if start_times is None else np.asarray(start_times))
    refused = _unreplicable(hypotheses, layout)
    how: dict[str, Any] = {"method": as_method(method, **options), "seed": seed}
    checks: dict[str, ModelCheck] = {}
    evidences: list[Evidence] = []
    for hypothesis in hypotheses:
        name = hypothesis.name
        try:
            if name in refused:
                raise refused[name]
            draws = posterior_draws(hypothesis, data, n_draws=int(n_replicas), **how)
            checks[name] = _checked(
                hypothesis, draws.evidence, layout, Replicator(draws, layout, seed), progress
            )
            evidences.append(draws.evidence)
        except DriftbayesError as error:
            # The model can still be ranked by its evidence.
            evidences.append(evidence(hypothesis, data, **how))
            checks[name] = ModelCheck(
                name, (), {}, {}, 0, int(seed), {}, status=Status.NOT_CHECKED, reason=str(error)
            )
    if all(check.status is not Status.OK for check in checks.values()):
        raise DriftbayesError(next(iter(checks.values())).reason)
    found = comparison_of(evidences, data, prior_probabilities)
    p_values = {n: check.p_value for n, check in checks.items() if check.status is Status.OK}
    return FitCheck(checks, replace(found, fit_p_values=p_values))


def _unreplicable(hypotheses: Sequence[Hypothesis], layout: Layout) -> dict[str, DriftbayesError]:
    """Find models that cannot be replicated, with the errors; raise if all of them cannot."""
    refused: dict[str, DriftbayesError] = {}
    for hypothesis in hypotheses:
        try:
            check_replicable(hypothesis.model, layout)
        except DriftbayesError as error:
            refused[hypothesis.name] = error
    if len(refused) == len(hypotheses):
        raise next(iter(refused.values()))
    return refused


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
    fit_of = Score(hypothesis, mode, layout)
    chosen = quantities(layout)
    n = replicate.n_replicas
    observed = layout.pad(layout.data.dx)[None]
    own, own_fit = statistics(chosen, layout, observed, whiten(observed)), fit_of(observed)
    found: list[dict[str, FloatArray]] = []
    fits: list[FloatArray] = []
    n_blocks = -(-n // max(_BLOCK // observed.size, 1))
    size = -(-n // n_blocks)
    for low in range(0, n, size):
        # The last block is filled up, since another size would be compiled anew.
        numbers = np.arange(low, low + size) % n
        block = replicate(numbers)
        kept = min(size, n - low)
        _check_finite(hypothesis.name, "replicas", block[:kept])
        white = whiten(block)
        found.append(statistics(chosen, layout, block[:kept], white[:kept]))
        fits.append(fit_of(block)[:kept])
        if progress is not None:
            progress(f"replicas of {hypothesis.name}", low + kept, n)
    others = {q.name: np.concatenate([part[q.name] for part in found]) for q in chosen}
    all_fits = np.concatenate([own_fit, *fits])
    # Omit parameters for which no data set has a finite score.
    known = np.isfinite(all_fits).any(axis=0)
    all_fits = all_fits[:, known]
    _check_finite(hypothesis.name, "scores of the replicas", all_fits)
    for name, values in others.items():
        _check_finite(hypothesis.name, f"replicas, in {name},", values)
    fit = fit_deviation(all_fits[0], all_fits[1:])
    leverage = data_leverage(all_fits[0], all_fits[1:])
    at_equal_fit = fit.p_value >= LEVEL and leverage < _MAX_LEVERAGE
    compared = {
        q.name: deviations(
            own[q.name][0],
            others[q.name],
            all_fits[0],
            all_fits[1:],
            at_equal_fit=at_equal_fit,
            is_log=q.is_log,
        )
        for q in chosen
    }
    if at_equal_fit:
        p_values = {"fit": fit.p_value, **adjusted_p_values(compared)}
    else:
        p_values = adjusted_p_values({"fit": fit, **compared})
    names = tuple(np.array(fit_of.names)[known].tolist())
    about = Quantity(
        "fit", "the best-fitting parameters", ", ".join(names), np.arange(float(len(names))), names
    )
    return ModelCheck(
        model=hypothesis.name,
        quantities=(about, *chosen),
        deviations={"fit": fit, **compared},
        p_values=p_values,
        n_replicas=n,
        seed=replicate.seed,
        mode=dict(zip(hypothesis.names, mode.tolist(), strict=True)),
        is_at_equal_fit=at_equal_fit,
    )


def _check_finite(model: str, what: str, values: FloatArray) -> None:
    """Refuse replicas if any failed: the rest are not a fair sample."""
    bad = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    if bad.any():
        raise DriftbayesError(
            f"{bad.sum()} of {len(values)} {what} of {model} are not finite; check the units of "
            "the data and the scale of the prior"
        )


def _mode(hypothesis: Hypothesis, record: Evidence) -> FloatArray:
    """Return the posterior mode; the mean where the mode is outside the prior's range."""
    mode = np.array([record.map[name] for name in hypothesis.names])
    inside = np.isfinite(hypothesis.to_unconstrained(mode))
    mean = np.array([record.posterior_mean[name] for name in hypothesis.names])
    return np.where(inside & np.isfinite(mode), mode, mean)


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _short(value: float) -> str:
    """Format a number with three digits."""
    return number(value, 3) if abs(value) < 1e5 else f"{value:.2e}".replace("e+0", "e")


def _rounded_up(value: float) -> str:
    """Round up to one digit: 1/501 is 0.002."""
    power = 10.0 ** np.floor(np.log10(value))
    return number(np.ceil(value / power * (1 - 1e-9)) * power, 1)
