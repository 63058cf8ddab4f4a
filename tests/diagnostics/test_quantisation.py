"""The step in which positions are written is found where there is one, and only there."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from driftbayes.data._trajectories import Trajectories
from driftbayes.diagnostics.survey import grid_step, quantisation

RNG = np.random.default_rng(0)
WALK = RNG.normal(size=4000).cumsum()


@pytest.mark.parametrize("step", [1.0, 0.4, 1e-5, 0.16 / 7, 2.0**-10])
@pytest.mark.parametrize("offset", [0.0, 150.0, -3.3])
def test_a_grid_is_found_whatever_its_step_and_origin(step, offset):
    assert_allclose(grid_step(offset + np.round(WALK * 30) * step), step, rtol=1e-6)


@pytest.mark.parametrize("values", [WALK, 1e6 + WALK, WALK[:15].round(), np.ones(100), WALK[:0]])
def test_where_there_is_none_none_is_found(values):
    assert grid_step(values) is None


def test_a_few_values_beside_the_grid_are_enough_to_refuse_it():
    values = np.round(WALK, 2)
    values[7] += 0.004
    assert grid_step(values) != pytest.approx(0.01)


def test_single_precision_is_told_from_digits():
    x = (150 + 0.01 * WALK).astype(np.float32).astype(float)
    y = 0.01 * WALK
    tracks = Trajectories.from_arrays(np.stack([x, y], axis=-1)[None], dt=1.0)
    found = quantisation(tracks)
    # Between 128 and 256 single precision steps by 2^-16.
    assert [one.axis for one in found] == ["x"]
    assert found[0].step == 2.0**-16
    assert_allclose(found[0].noise, 2.0**-16 / np.sqrt(12))
