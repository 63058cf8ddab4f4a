"""Memory is foreseen: what does not fit is refused in words, what fits is done in parts."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from driftbayes.cli.main import main
from driftbayes.data.sampling import Displacements
from driftbayes.errors import DriftbayesError, is_out_of_memory
from driftbayes.inference import Hypothesis, evidence
from driftbayes.likelihood import engines, memory
from driftbayes.models import MODELS, Langevin, as_template, prepare
from driftbayes.priors import Exponential, Fixed, Uniform

HYPOTHESIS = Hypothesis(Langevin, gamma=Exponential(1.0), k=Exponential(1.0))


def noisy(n_steps=6):
    dx = np.random.default_rng(0).normal(size=(2, n_steps, 1))
    return Displacements(
        dx=dx.reshape(-1, 1),
        interval=np.ones(2 * n_steps),
        row_sizes=np.full(2, n_steps),
        trajectory=np.arange(2),
        tau=1.0,
        position_sd=np.full(2 * n_steps + 2, 0.3),
    )


def test_what_does_not_fit_is_refused_before_it_starts(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 1000)
    with pytest.raises(DriftbayesError, match=r"langevin needs about .* and 1 kB are available"):
        evidence(HYPOTHESIS, noisy(), method="bridge")


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
    memory.check_memory("langevin", prepare(noisy(), as_template(Langevin).needs()), 2)


def test_a_dense_factorisation_grows_with_the_square_of_the_steps():
    needs = as_template(MODELS["matern"]).needs()
    short, long = (prepare(noisy(n), needs) for n in (64, 256))
    sizes = [memory.evaluation_bytes(data, dense=True) for data in (short, long)]
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


def test_error_of_windows_is_that_of_the_whole_prediction():
    from driftbayes.inference.evidences import truncation_error

    # Of fractional noise the variance given n steps falls as 1 + d²/n, d = H - 1/2.
    hurst, window, n_later = 0.8, 256, 10_000.0
    model = MODELS["fractional"](hurst=hurst, kappa=1.0, reference=1.0)
    found = truncation_error(model, 1.0, window, n_later)
    assert_allclose(found, 0.5 * n_later * np.log1p((hurst - 0.5) ** 2 / window), rtol=0.02)


def test_evidence_of_a_long_run_tells_what_windows_leave_out():
    dx = np.random.default_rng(1).normal(size=(1, 2000, 1))
    priors = {"hurst": Uniform(0.0, 1.0), "kappa": Exponential(1.0), "reference": Fixed(1.0)}
    found = evidence(Hypothesis(MODELS["fractional"], **priors), Displacements.from_array(dx, 1.0))
    assert found.log_evidence_err < 0.01
    rough = evidence(
        Hypothesis(MODELS["fractional"], **{**priors, "hurst": Uniform(0.7, 0.9)}),
        Displacements.from_array(dx, 1.0),
    )
    assert rough.log_evidence_err > 0.1
    assert any("from the 255 before it" in warning for warning in rough.warnings)


@pytest.mark.slow
def test_windows_of_the_toeplitz_engine_tell_what_they_leave_out(monkeypatch):
    """The stated bound holds the change that the whole runs make."""
    model = MODELS["fractional"]
    priors = {"hurst": Uniform(0.0, 1.0), "kappa": Exponential(1.0), "reference": Fixed(1.0)}
    hypothesis = Hypothesis(model, **priors)
    data = noisy(100)
    whole = evidence(hypothesis, data)
    monkeypatch.setattr(engines, "_MAX_LAGS", 16)
    windows = evidence(hypothesis, replace(data))
    off = abs(windows.log_evidence - whole.log_evidence)
    assert off > 1e-3
    assert off < 3 * windows.log_evidence_err
    assert any(
        "predicts each step of a long run from the 15 before it" in w for w in windows.warnings
    )
