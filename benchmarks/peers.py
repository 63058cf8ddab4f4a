"""Speed of the likelihood, relative to statsmodels' Kalman filter and to celerite2."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from driftbayes.data._sampling import displacements
from driftbayes.inference import Hypothesis
from driftbayes.inference._formulas import Rows
from driftbayes.likelihood._engines import FilterEngine
from driftbayes.likelihood._runs import make_runs
from driftbayes.models import MODELS, model_named
from driftbayes.priors import Exponential
from engine_data import gps

TAU = 5.0
THETA = {"gamma": 1 / 600, "k": 100.0, "sigma": 10.0}
_LOG_2PI = float(np.log(2 * np.pi))
# Parameter values of one call of the engine.
_N_THETA = 64
_AGREEMENT = 1e-8


def per_step() -> dict[str, Any]:
    """Measure nanoseconds of ln L per step of two axes, for the same model and data."""
    data = displacements(gps(), TAU)
    n_steps = len(data.dx)
    noisy = _ours(data, "langevin+noise", THETA)
    peer = _statsmodels(data.dx, THETA)
    _agree(noisy[0], peer[0])
    # celerite2 supports the model without measurement errors at regular times.
    exact = {key: THETA[key] for key in ("gamma", "k")}
    clean = _ours(data, "langevin", exact)
    celerite = _celerite(data.dx, exact)
    _agree(clean[0], celerite[0])
    seconds = {
        "driftbayes, langevin+noise": noisy[1],
        "statsmodels, langevin+noise": peer[1],
        "driftbayes, langevin": clean[1],
        "celerite2, langevin": celerite[1],
    }
    return {
        "n_steps": n_steps,
        "nanoseconds_per_step": {key: value / n_steps * 1e9 for key, value in seconds.items()},
        "log_likelihood": {
            "langevin+noise": [noisy[0], peer[0]],
            "langevin": [clean[0], celerite[0]],
        },
        "times_statsmodels": peer[1] / noisy[1],
        "times_celerite2": celerite[1] / clean[1],
    }


def _agree(a: float, b: float) -> None:
    if not abs(a - b) <= _AGREEMENT * abs(b):
        raise AssertionError(f"two codes give ln L = {a!r} and {b!r} for the same model")


def _best(function: Callable[[], Any], repeats: int = 5) -> float:
    """Return the CPU time of the fastest call, which other work on the machine hardly affects."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def _ours(data: Any, name: str, theta: dict[str, float]) -> tuple[float, float]:
    """Return ln L, and the engine's CPU time per parameter value."""
    model: Any = model_named(name, MODELS, data.n_dim)
    hypothesis = Hypothesis(model, **{key: Exponential(1.0) for key in theta})
    engine = FilterEngine(make_runs(data))
    point = np.array([[theta[key] for key in hypothesis.names]])
    rows = Rows(hypothesis, np.repeat(point, _N_THETA, axis=0))
    sums = engine.sums(rows)
    quadratic = np.trace(sums.products[0, 0])
    fit = -0.5 * (data.dx.size * _LOG_2PI + data.n_dim * sums.log_det[0, 0] + quadratic)
    return float(fit), _best(lambda: engine.sums(rows)) / _N_THETA


def _statsmodels(dx: np.ndarray, theta: dict[str, float]) -> tuple[float, float]:
    """Return the same for statsmodels, axis by axis."""
    from statsmodels.tsa.statespace.kalman_filter import KalmanFilter

    model: Any = model_named("langevin+noise", MODELS, 2)(**theta)
    transition, noise = map(np.asarray, model.transition(np.float64(TAU)))
    start = np.asarray(model.initial_covariance())
    variance = theta["sigma"] ** 2
    filters = []
    for axis in range(dx.shape[1]):
        # Positions relative to the first fix, which has a separate error.
        x = np.cumsum(dx[:, axis])
        kalman = KalmanFilter(k_endog=1, k_states=2, k_posdef=2)
        kalman.bind(np.asfortranarray(x[None]))
        kalman["design"] = np.array([[1.0, 0.0]])
        kalman["obs_cov"] = np.array([[variance]])
        kalman["transition"] = transition
        kalman["selection"] = np.eye(2)
        kalman["state_cov"] = noise
        first = start + np.diag([variance, 0.0])
        kalman.initialize_known(np.zeros(2), transition @ first @ transition.T + noise)
        # Only ln L is kept; by default the filter stops updating once it has converged.
        kalman.memory_no_smoothing = True
        kalman.tolerance = 0
        filters.append(kalman)

    def fit() -> float:
        return float(sum(kalman.loglike() for kalman in filters))

    return fit(), _best(fit, 3)


def _celerite(dx: np.ndarray, theta: dict[str, float]) -> tuple[float, float]:
    """Return the same for celerite2: an exponential, with a smaller value at lag zero."""
    import celerite2
    from celerite2 import terms

    model: Any = MODELS["langevin"](gamma=theta["gamma"], k=theta["k"])
    covariance = np.asarray(model.first_autocovariances(2, np.float64(TAU)))
    height = covariance[1] * np.exp(theta["gamma"] * TAU)
    times = TAU * np.arange(len(dx))
    process = celerite2.GaussianProcess(terms.RealTerm(a=height, c=theta["gamma"]))

    def fit() -> float:
        process.compute(times, diag=np.full(len(dx), covariance[0] - height), check_sorted=False)
        return float(sum(process.log_likelihood(column) for column in columns))

    columns = [np.ascontiguousarray(column) for column in dx.T]
    return fit(), _best(fit, 20)


if __name__ == "__main__":
    import json

    import jax

    jax.config.update("jax_enable_x64", True)
    print(json.dumps(per_step(), indent=2))
