"""Evidence and posterior of one model for many sets of steps, from their sums."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from driftbayes._typing import FloatArray
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Batch, Evidence, Hypothesis, evidence_batch
from driftbayes.models import MeanFlow, Parameter
from driftbayes.models._options.anisotropy import Anisotropic
from driftbayes.space._batched import StepSums, option_of, solve_batched
from driftbayes.space._moments import StepMoments

_N_PRIOR_DRAWS = 4000

Report = Callable[[int], None]


@dataclass(frozen=True)
class Quantity:
    """A mapped quantity.

    Args:
        name: Name in files.
        meaning: Description.
        length_power: Power of length in its dimension.
        time_power: Power of time in its dimension.
        is_log: Whether moments are those of its logarithm.
    """

    name: str
    meaning: str
    length_power: int
    time_power: int
    is_log: bool = False

    def unit(self, length: str, time: str) -> str:
        """Return the unit as text."""
        return Parameter("", self.meaning, self.length_power, self.time_power).unit(length, time)


@dataclass(frozen=True, eq=False)
class Leaves:
    """Evidences and posteriors of all sets.

    Args:
        log_evidence: ln Z of each set.
        quantities: Mapped quantities.
        mean: Posterior means, (quantity, set); of the logarithm if `is_log`.
        sd: Posterior standard deviations.
        prior: Prior mean and standard deviation of each quantity, (quantity, 2).
    """

    log_evidence: FloatArray
    quantities: tuple[Quantity, ...]
    mean: FloatArray
    sd: FloatArray
    prior: FloatArray


def solve_leaves(
    hypothesis: Hypothesis, moments: StepSums, report: Report = lambda _: None
) -> Leaves:
    """Compute evidence and posterior of a hypothesis for each set of steps.

    Args:
        hypothesis: Model family and prior, the same for all sets.
        moments: Steps of each set, or sums over them.
        report: Called with the number of sets done.

    Raises:
        DriftbayesError: The evidence of a set is infinite.
    """
    quantities = _quantities(hypothesis, moments.n_dim)
    solution = solve_batched(hypothesis, moments, report)
    if solution is None:
        assert isinstance(moments, StepMoments)
        solution = _solve_separately(hypothesis, moments, quantities, report)
    log_evidence, mean, sd = solution
    infinite = np.flatnonzero(~np.isfinite(log_evidence))
    if len(infinite):
        n = int(moments.n_steps[infinite[0]])
        raise DriftbayesError(
            f"{hypothesis.name} fits the {n} step{'s' * (n > 1)} of a cell exactly, so its "
            "evidence is infinite: positions are equal or rounded; use a larger tau, a smaller "
            "--depth, or a model with +noise"
        )
    return Leaves(log_evidence, quantities, mean, sd, _prior_moments(hypothesis, quantities))


def _quantities(hypothesis: Hypothesis, n_dim: int) -> tuple[Quantity, ...]:
    """List the quantities of a model that are mapped."""
    model = hypothesis.model
    quantities = []
    for name in hypothesis.names:
        parameter = model.parameters[name]
        if parameter.is_prior_scale:
            continue
        quantities.append(
            Quantity(name, parameter.meaning, parameter.length_power, parameter.time_power)
        )
    if "gamma" in hypothesis.names and model.core.name == "langevin":
        quantities.append(Quantity("memory_time", "memory time 1/gamma", 0, 1, is_log=True))
    if option_of(model, Anisotropic) is not None:
        axes = [(i, j) for i in range(n_dim) for j in range(i, n_dim)]
        quantities += [
            Quantity(f"K_{i + 1}{j + 1}", f"diffusivity tensor, {i + 1}{j + 1}", 2, -1)
            for i, j in axes
        ]
    if option_of(model, MeanFlow) is not None:
        quantities += [
            Quantity(f"flow_{i + 1}", f"mean flow, component {i + 1}", 1, -1) for i in range(n_dim)
        ]
    return tuple(quantities)


def _prior_moments(hypothesis: Hypothesis, quantities: tuple[Quantity, ...]) -> FloatArray:
    """Estimate the prior mean and standard deviation of each quantity from draws."""
    rng = np.random.default_rng(0)
    columns = [rng.permutation(_N_PRIOR_DRAWS) for _ in hypothesis.names]
    uniforms = (np.stack(columns, axis=1) + 0.5) / _N_PRIOR_DRAWS
    draws = hypothesis.columns(hypothesis.quantiles(uniforms))
    out = np.empty((len(quantities), 2))
    for i, quantity in enumerate(quantities):
        if quantity.name.startswith("flow_"):
            out[i] = 0.0, np.sqrt(np.mean(draws["flow"] ** 2))
            continue
        if quantity.name == "memory_time":
            values = -np.log(draws["gamma"])
        elif quantity.name.startswith("K_"):
            scale = draws[hypothesis.model.scale_parameter]
            h = np.stack([draws[name] for name in ("h1", "h2")], axis=1)
            values = scale * _tensors(h)[_axes(quantity)]
        else:
            values = draws[quantity.name]
        out[i] = values.mean(), values.std()
    return out


def _tensors(h: FloatArray) -> FloatArray:
    """Compute exp H of traceless 2 by 2 matrices from components in the basis of `Anisotropic`."""
    a, b = h[:, 0] / np.sqrt(2), h[:, 1] / np.sqrt(2)
    size = np.hypot(a, b)
    ratio = np.where(size > 1e-8, np.sinh(size) / np.maximum(size, 1e-8), 1.0)
    cosh = np.cosh(size)
    rows = [[cosh + a * ratio, b * ratio], [b * ratio, cosh - a * ratio]]
    return np.moveaxis(np.array(rows), 2, 0)


def _axes(quantity: Quantity) -> tuple[slice, int, int]:
    """Return the index of a component in an array of tensors."""
    return slice(None), int(quantity.name[2]) - 1, int(quantity.name[3]) - 1


def _solve_separately(
    hypothesis: Hypothesis, moments: StepMoments, quantities: tuple[Quantity, ...], report: Report
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Solve each set by the general methods, which support every model and take longer."""
    is_summed = hypothesis.model.kind == "summed"
    log_evidence = np.empty(len(moments))
    mean, sd = np.empty((2, len(quantities), len(moments)))
    for i in range(len(moments)):
        data = moments.second_moments(i) if is_summed else moments.channel_moments(i)
        record = evidence_batch([hypothesis], Batch(data, (moments.tau,), (f"cell {i}",)))[0]
        # Sums are of steps scaled to duration tau; convert the density to the original steps.
        scale = 0.5 * moments.n_dim * float(moments.log_durations[i])
        log_evidence[i] = record.log_evidence - scale
        for j, quantity in enumerate(quantities):
            mean[j, i], sd[j, i] = _posterior(record, quantity)
        report(i + 1)
    return log_evidence, mean, sd


def _posterior(record: Evidence, quantity: Quantity) -> tuple[float, float]:
    """Return the posterior mean and standard deviation of one quantity."""
    if quantity.name in record.parameters:
        parameter = record.parameters[quantity.name]
        return parameter.mean, parameter.sd
    if quantity.name == "memory_time":
        rate = record.parameters["gamma"]
        return -rate.log_mean, rate.log_sd
    if quantity.name.startswith("flow_"):
        return record.derived[quantity.name], record.derived[f"{quantity.name}_sd"]
    # Delta method: first order in the errors of k and H.
    names = list(record.parameters)
    scale = record.hypothesis.model.scale_parameter
    used = [names.index(name) for name in (scale, "h1", "h2")]
    values = np.array([record.parameters[name].mean for name in (scale, "h1", "h2")])
    steps = np.concatenate([np.zeros((1, 3)), 1e-5 * np.diag([values[0], 1.0, 1.0])])
    points = values + steps
    tensors = points[:, 0] * _tensors(points[:, 1:])[_axes(quantity)]
    gradient = (tensors[1:] - tensors[0]) / steps[1:].diagonal()
    covariance = record.posterior_cov[np.ix_(used, used)]
    return float(tensors[0]), float(np.sqrt(gradient @ covariance @ gradient))
