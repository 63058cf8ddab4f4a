"""Statistics of pairs against those of xdispersion, an independent package (PyPI, MIT)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from driftbayes.data import Trajectories
from driftbayes.relative import pair_statistics, separations

RATIO, DT = 1.5, 0.05
EDGES = RATIO ** np.arange(10)


def made_pairs(n_pairs=12, n_times=201):
    """Vectors between two particles, (pair, time, axis): growth of different rates, with waves."""
    t, p = DT * np.arange(n_times), np.arange(n_pairs)[:, None]
    r = (1 + 0.03 * p) * np.exp((0.1 + 0.02 * p) * t) * (1 + 0.1 * np.sin(3 * t + p))
    turn = 0.5 * t + p
    return np.stack([r * np.cos(turn), r * np.sin(turn)], axis=-1)


# By xdispersion 0.0.6 (`measures.py`) for `made_pairs`, classes with these edges:
# `velocity_structure_function` of |δu| and of its part along the separation, from forward
# differences, at constant r; `relative_diffusivity` of the steps that begin in each class, each as
# a pair that is seen twice; `relative_dispersion` at constant time. Of
# `finite_size_lyapunov_exponent`, of r interpolated to DT/400, the time of each pair: xdispersion
# averages rates over pairs, where the exponent here is ln α over the mean time.
KNOWN = {
    "structure": [
        0.5495392128498,
        1.196179224006,
        2.518213706969,
        5.804737431682,
        14.98130096446,
        30.85222947094,
        70.04909118306,
        233.7660674257,
        280.2718521567,
    ],
    "longitudinal": [
        0.1261412841083,
        0.3262551002643,
        0.6918944942096,
        1.502500130053,
        4.861717104317,
        9.683760528508,
        19.29109458421,
        124.1569828357,
        64.16616141218,
    ],
    "diffusivity": [
        0.2834840074294,
        0.7020105771513,
        1.452940815531,
        3.628723394814,
        11.07753458491,
        21.01115402785,
        48.26609005435,
        230.5014111537,
        195.0732285803,
    ],
    "fsle": [
        0.09757899238509,
        0.1855746327967,
        0.2064919990111,
        0.2103474229127,
        0.2779538016166,
        0.2719690834813,
        0.2381062075068,
        0.5265780624781,
        np.nan,
    ],
}
DISPERSION = {
    0: 1.373890218747,
    1: 1.401434470264,
    6: 1.550331250622,
    19: 2.115870118421,
    39: 3.380449396031,
    80: 9.315327712342,
    139: 43.54098944808,
    200: 256.2917821722,
}


@pytest.fixture(scope="module")
def found():
    x = []
    for i, apart in enumerate(made_pairs()):
        place = np.tile([1e4 * i, 0.0], (len(apart), 1))
        x += [place, place + apart]
    tracks = Trajectories.from_arrays(x, dt=DT)
    return pair_statistics(separations(tracks, DT, within=100.0), ratio=RATIO, edges=EDGES)


@pytest.mark.parametrize(
    ("name", "rtol"),
    # Crossing times of xdispersion are those of the first of the fine times beyond an edge.
    [("structure", 1e-10), ("longitudinal", 1e-10), ("diffusivity", 1e-10), ("fsle", 2e-4)],
)
def test_statistics_by_separation_are_those_of_xdispersion(found, name, rtol):
    assert_allclose(found.values[name], KNOWN[name], rtol=rtol)


def test_relative_dispersion_is_that_of_xdispersion(found):
    ours = dict(zip(np.round(found.times / DT).astype(int).tolist(), found.dispersion, strict=True))
    assert_allclose([ours[i] for i in DISPERSION], list(DISPERSION.values()), rtol=1e-10)


def test_steps_outside_given_classes_are_left_out():
    x = [np.zeros((4, 2)), np.array([[1.0, 0.0], [2.0, 0.0], [5.0, 0.0], [6.0, 0.0]])]
    data = separations(Trajectories.from_arrays(x, dt=1.0), 1.0)
    found = pair_statistics(data, edges=np.array([1.5, 3.0]))
    assert found.n_steps.tolist() == [1.0]
    assert found.values["longitudinal"].tolist() == [9.0]
    assert pair_statistics(data).n_steps.sum() == 3
