"""Choice of the number of particles."""

import pytest
from equations import data_of, langevin

from driftbayes.sde import Filter, ParticleDensity
from driftbayes.sde.pilot import _particles


@pytest.mark.parametrize(
    ("variance", "substeps", "wanted"),
    [
        (1e-20, 4, 8),
        (0.5, 4, 64),  # 0.1 is cheap
        (0.5, 256, 8),  # only 8 are affordable, and 1 is reached
        (6.0, 256, 64),  # 1 at any price
        (1e6, 4, 1024),
        (float("nan"), 4, 8),
    ],
)
def test_particles_are_as_many_as_the_variance_asks_for(variance, substeps, wanted):
    data = data_of(langevin(), {"gamma": 1.0, "k": 1.0})
    assert len(data.dx) == 48
    assert _particles(ParticleDensity(data, Filter(8)), variance, substeps) == wanted
