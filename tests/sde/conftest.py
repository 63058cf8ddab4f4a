"""Filters of the tests of stochastic differential equations are compiled quickly."""

import jax
import pytest

from driftbayes.sde import _likelihood as likelihood


@pytest.fixture(autouse=True, scope="module")
def hardly_optimised(request):
    """Compile at the lowest level in the default suite, where filters run a few times.

    The library asks for one level more: it takes three times as long, and gains in slow tests.
    """
    with pytest.MonkeyPatch.context() as patch:
        if request.config.option.markexpr == "not slow":
            for name, static in (("_particle_block", (0, 1)), ("_kalman_block", 0)):
                block = getattr(likelihood, name).__wrapped__
                patch.setattr(likelihood, name, jax.jit(block, static_argnums=static))
        yield
