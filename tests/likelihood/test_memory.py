"""Memory is foreseen: what does not fit is refused in words, what fits is done in parts."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import solve_toeplitz, toeplitz

from driftbayes.cli.main import main
from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError, is_out_of_memory
from driftbayes.inference import Hypothesis, evidence
from driftbayes.inference._truncation import truncation_loss
from driftbayes.likelihood import _engines as engines
from driftbayes.likelihood import _memory as memory
from driftbayes.likelihood._engines import DenseEngine
from driftbayes.likelihood._runs import make_runs
from driftbayes.models import MODELS, Langevin
from driftbayes.priors import Exponential, Fixed, Uniform

HYPOTHESIS = Hypothesis(Langevin, gamma=Exponential(1.0), k=Exponential(1.0))


def noisy(n_steps=6, seed=0):
    dx = np.random.default_rng(seed).normal(size=(2, n_steps, 1))
    return Displacements(
        dx=dx.reshape(-1, 1),
        interval=np.ones(2 * n_steps),
        row_sizes=np.full(2, n_steps),
        trajectory=np.arange(2),
        tau=1.0,
        position_sd=np.full(2 * n_steps + 2, 0.3),
    )


def test_a_dense_factorisation_that_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 1000)
    model = MODELS["fractional"]
    priors = {name: Exponential(1.0) for name in model.parameters}
    hypothesis = Hypothesis(model, **{**priors, "hurst": Uniform(0.0, 1.0)})
    irregular = replace(noisy(), interval=np.linspace(0.5, 1.5, 12))
    with pytest.raises(DriftbayesError, match=r"fractional needs about .* of memory"):
        evidence(hypothesis, irregular)


def test_nothing_is_refused_where_the_system_does_not_tell(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: None)
    memory.check_bytes("langevin", 1 << 60)


def test_a_dense_factorisation_grows_with_the_square_of_the_steps():
    sizes = [DenseEngine(make_runs(noisy(n))).evaluation_bytes for n in (64, 256)]
    assert sizes[1] > 12 * sizes[0]
    # The matrix alone, in the smallest form.
    assert sizes[1] > 8 * 256**2


def test_evidence_in_small_parts_is_that_of_one(monkeypatch):
    whole = evidence(HYPOTHESIS, noisy())
    # Room for the matrices of one parameter value at a time.
    monkeypatch.setattr(engines, "_MATRIX_BYTES", 1)
    assert_allclose(evidence(HYPOTHESIS, noisy()).log_evidence, whole.log_evidence, rtol=1e-12)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 17179869184 bytes."), True),
        (RuntimeError("INTERNAL: something else"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_errors_that_tell_of_memory_are_known(error, expected):
    assert is_out_of_memory(error) is expected


def test_command_line_says_in_words_that_memory_ran_out(monkeypatch, capsys):
    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr("driftbayes.cli._console.print_table", fail)
    assert main(["models"]) == 2
    assert "does not fit in memory" in " ".join(capsys.readouterr().err.split())


# --- Windows of limited length -----------------------------------------------------------------


FRACTIONAL = {"hurst": Uniform(0.0, 1.0), "kappa": Exponential(1.0), "reference": Fixed(1.0)}


def test_expected_loss_of_windows_is_that_of_the_whole_prediction():
    # Of fractional noise the variance given n steps falls as 1 + d²/n, d = H - 1/2.
    hurst, window, n_later = 0.8, 256, 10_000.0
    model = MODELS["fractional"](hurst=hurst, kappa=1.0, reference=1.0)
    found = truncation_loss(model, 1.0, window, n_later)
    assert_allclose(found, 0.5 * n_later * np.log1p((hurst - 0.5) ** 2 / window), rtol=0.02)


@pytest.mark.parametrize("hurst", [0.2, 0.6, 0.8])
def test_variance_of_the_loss_by_windows_is_about_twice_its_mean(hurst):
    """Exact mean and variance, from the quadratic form of white numbers that the loss is.

    It is twice the mean where errors of prediction by windows are independent. Those of persistent
    motion add a tenth, those of antipersistent motion take away a quarter.
    """
    n_steps, window = 300, 30
    model = MODELS["fractional"](hurst=hurst, kappa=1.0, reference=1.0)
    row = np.asarray(model.first_autocovariances(n_steps, jnp.asarray(1.0)))
    factor = np.linalg.cholesky(toeplitz(row))
    predictors, variances = np.eye(n_steps), np.diag(factor) ** 2
    predictors[:window] = (np.diag(factor)[:, None] * np.linalg.inv(factor))[:window]
    weights = solve_toeplitz(row[: window - 1], row[1:window])
    variances[window:] = row[0] - weights @ row[1:window]
    for step in range(window, n_steps):
        predictors[step, step - window + 1 : step] = -weights[::-1]
    whitened = predictors @ factor / np.sqrt(variances)[:, None]
    form = whitened.T @ whitened - np.eye(n_steps)
    mean = 0.5 * np.trace(form) + 0.5 * np.sum(np.log(variances / np.diag(factor) ** 2))
    assert mean > 1e-3
    assert 0.7 < 0.5 * np.trace(form @ form) / (2 * mean) < 1.15


def test_evidence_of_a_long_run_tells_what_windows_leave_out():
    dx = np.random.default_rng(1).normal(size=(1, 2000, 1))
    data = Displacements.from_array(dx, 1.0)
    found = evidence(Hypothesis(MODELS["fractional"], **FRACTIONAL), data)
    rough = evidence(
        Hypothesis(MODELS["fractional"], **{**FRACTIONAL, "hurst": Uniform(0.7, 0.9)}), data
    )
    assert rough.log_evidence_err > 0.1 > found.log_evidence_err
    loss = truncation_loss(MODELS["fractional"](**rough.map, reference=1.0), 1.0, 256, 2000.0 - 256)
    # The posterior is narrow, so that the loss varies little within it.
    assert_allclose(rough.log_evidence_err**2, loss**2 + 2 * loss, rtol=0.05)
    assert any("from the 255 before it" in warning for warning in rough.warnings)


@pytest.mark.slow
def test_windows_of_the_toeplitz_engine_are_off_by_what_they_tell(monkeypatch):
    """Of 20 data sets, in units of the stated errors."""
    hypothesis = Hypothesis(MODELS["fractional"], **FRACTIONAL)
    off = []
    for seed in range(20):
        data = noisy(60, seed)
        whole = evidence(hypothesis, data)
        with monkeypatch.context() as patch:
            patch.setattr(engines, "_MAX_LAGS", 16)
            windows = evidence(hypothesis, replace(data))
        assert any(
            "predicts each step of a long run from the 15 before it" in w for w in windows.warnings
        )
        off.append((windows.log_evidence - whole.log_evidence) / windows.log_evidence_err)
    assert 0.1 < np.sqrt(np.mean(np.square(off))) < 1.3
