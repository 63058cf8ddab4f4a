"""The benchmark of shared flow recovers known flows, and the page on it has its numbers."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from driftbayes.inference import evidence
from driftbayes.models import Brownian, Langevin
from driftbayes.models._options.correlated import Eddies, simulate_flow
from driftbayes.reproduce.turbulence.experiment import Scaling

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/shared-flow-in-turbulence.md").read_text()
SCALING = Scaling(energy_mean=0.5, enstrophy_mean=4.0)
TRUTH = {"kappa": 0.05, "gamma": 2.0, "k": 0.05, "length": 0.6, "own_share": 0.3}


def loaded(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def benchmark():
    return loaded("shared_flow")


def simulated(benchmark, base, n_particles, n_steps):
    rng = np.random.default_rng(5)
    model = Eddies(base, TRUTH["length"], TRUTH["own_share"], 0.5, 0.0)
    start = rng.uniform(0, benchmark.SIDE, (n_particles, 2))
    period = (benchmark.SIDE, benchmark.SIDE)
    x = simulate_flow(model, rng, start, n_steps, 0.5, period)
    return benchmark.displacements_of(x, 0.5)


@pytest.mark.parametrize("base", [Brownian(kappa=0.05), Langevin(gamma=2.0, k=0.05)])
def test_a_known_flow_in_a_periodic_square_is_recovered(benchmark, base):
    data = simulated(benchmark, base, 60, 25)
    given = benchmark.hypothesis(f"{base.name}+eddies", SCALING, 0.5)
    found = benchmark.together(given, data, dict(benchmark.BEGIN))
    alone = benchmark.independent(benchmark.hypothesis(base.name, SCALING, 0.0), data)
    assert found.log_evidence > alone.log_evidence + 50
    for name in given.names:
        off = found.log_mean[name] - np.log(TRUTH[name])
        assert abs(off) < 3 * found.log_sd[name], name
        assert found.log_sd[name] < 0.5


@pytest.mark.slow
def test_laplace_s_evidence_is_close_to_the_integral(benchmark):
    data = simulated(benchmark, Brownian(kappa=0.05), 30, 12)
    given = benchmark.hypothesis("brownian+eddies", SCALING, 0.5)
    found = benchmark.together(given, data, dict(benchmark.BEGIN))
    exact = evidence(given, data)
    assert found.log_evidence == pytest.approx(exact.log_evidence, abs=0.3)
    for name in ("kappa", "length"):
        sd = exact.parameters[name].log_sd
        assert found.log_sd[name] == pytest.approx(sd, rel=0.15)
        assert found.log_mean[name] == pytest.approx(exact.parameters[name].log_mean, abs=0.3 * sd)


def test_the_mean_square_correlation_has_its_closed_form(benchmark):
    length, own = 0.2, 0.3
    closed = 0.375 * np.pi * length**2 * (1 - own) ** 2 / benchmark.SIDE**2
    assert benchmark.mean_square_correlation(length, own, 0.5) == pytest.approx(closed, rel=2e-3)


def test_pairs_of_a_gaussian_flow_have_its_mean_square_correlation(benchmark):
    rng = np.random.default_rng(2)
    model = Eddies(Brownian(kappa=0.02), 0.3, 0.2, 0.5, 0.0)
    start = rng.uniform(0, benchmark.SIDE, (250, 2))
    x = simulate_flow(model, rng, start, 60, 0.5, (benchmark.SIDE, benchmark.SIDE))
    found = benchmark.pair_correlations(x)
    expected = benchmark.mean_square_correlation(0.3, 0.2, 0.5)
    assert found["kicks"] == pytest.approx(expected, rel=0.15)
    assert found["squares"] == pytest.approx(expected, rel=0.5)


def test_the_length_of_a_spectrum_of_one_ring_is_its_wavelength(benchmark):
    spectrum = np.zeros(40)
    spectrum[7] = 0.3
    flow = benchmark.FlowOfRun("", np.zeros((1, 2, 2)), 1.0, SCALING, 0.1, spectrum)
    assert flow.energy_scale == pytest.approx(2 * np.pi / 8)
    # Each of its 2πk modes has one direction, and an equal part of the variance of both axes.
    assert flow.velocity_correlation == pytest.approx(1 / (np.pi * 8))


def test_the_tables_are_those_of_the_stored_results(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    for table in loaded("shared_flow_page").tables():
        assert table in PAGE
