"""Choice of the number of filters."""

import pytest
from equations import langevin_data

from driftbayes.sde import Filter, ParticleDensity
from driftbayes.sde._pilot import _repeats


@pytest.mark.parametrize(
    ("variance", "substeps", "wanted"),
    [
        (1e-20, 4, 1),
        (0.5, 4, 5),  # 0.1 is cheap
        (0.5, 256, 1),  # only one is affordable, and 1 is reached
        (6.0, 256, 6),  # 1 at any price
        (1e6, 4, 128),  # 1,024 particles in all
        (float("nan"), 4, 1),
    ],
)
def test_filters_are_as_many_as_the_variance_asks_for(variance, substeps, wanted):
    data = langevin_data(1.0, 1.0)
    assert len(data.dx) == 48
    assert _repeats(ParticleDensity(data, Filter(8), substeps), variance) == wanted
