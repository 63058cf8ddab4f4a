"""With more data a learned density approaches the true one, from below."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "learned.py"
SIZES = ((8, 8), (64, 4), (512, 3))


@pytest.fixture(scope="module")
def deficits():
    spec = importlib.util.spec_from_file_location("benchmark_of_learned", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda case, sizes: [module.deficits(case, *size, seed=1) for size in sizes]


def mean_and_error(values):
    return values.mean(), values.std(ddof=1) / np.sqrt(len(values))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "name"), [("langevin", "learned:memory"), ("diffusivity", "learned:place")]
)
def test_the_score_tends_to_that_of_the_true_density_from_below(deficits, case, name):
    found = deficits(case, SIZES)
    means, errors = zip(*(mean_and_error(one[name]) for one in found), strict=True)
    assert means[0] < means[1] < means[2] < 3 * errors[2]
    # From 25,600 steps, a hundredth of a nat.
    assert means[2] > -0.01
    # What has neither place nor memory misses by far more.
    assert found[2]["learned"].mean() < -0.1


@pytest.mark.slow
def test_where_nothing_varies_nothing_is_found(deficits):
    for found in deficits("homogeneous", SIZES[:2]):
        for name, values in found.items():
            mean, error = mean_and_error(values)
            assert mean < 3 * error, name
            assert mean > -0.05, name
