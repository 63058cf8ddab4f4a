"""Another hand: dynesty, which shares no code with this package, finds the same evidences."""

import numpy as np
import pytest
from court import HYPOTHESES, langevin_data
from scipy.special import ndtri
from targets import GaussianTarget

from driftbayes.inference import Batch, exact
from driftbayes.inference._density import Density

dynesty = pytest.importorskip("dynesty")

# Of dynesty's own error; the exact evidences have none to speak of.
FOUR_SIGMA = 4.0

# Each takes ten seconds, and tests an agreement that nothing but the samplers can change.
pytestmark = pytest.mark.slow


def dynesty_evidence(log_likelihood, prior_transform, n_dim):
    """Ln Z and its error, from a fixed seed."""
    sampler = dynesty.NestedSampler(
        log_likelihood,
        prior_transform,
        n_dim,
        nlive=250,
        sample="rslice" if n_dim > 2 else "unif",
        rstate=np.random.default_rng(0),
    )
    sampler.run_nested(dlogz=0.01, print_progress=False)
    return sampler.results.logz[-1], sampler.results.logzerr[-1]


def assert_agrees(found, expected):
    log_evidence, error = found
    assert 0 < error < 0.3
    assert abs(log_evidence - expected) < FOUR_SIGMA * error


@pytest.mark.parametrize("name", HYPOTHESES)
@pytest.mark.parametrize("tau", [1.0, 20.0])
def test_dynesty_agrees_with_exact_integration(name, tau):
    hypothesis, batch = HYPOTHESES[name], Batch.of(langevin_data(tau))
    density = Density(hypothesis, batch.engine(0, hypothesis.model))
    priors = [hypothesis.priors[m] for m in hypothesis.names]
    found = dynesty_evidence(
        lambda theta: float(density.terms(theta[None])[0][0]),
        # Uniform numbers become parameters through each prior's own quantiles.
        lambda u: np.array([p.quantile(x) for p, x in zip(priors, u, strict=True)]),
        len(hypothesis.names),
    )
    assert_agrees(found, exact(hypothesis, batch).log_evidence)


def test_dynesty_agrees_with_the_gaussian_in_closed_form():
    target = GaussianTarget.make(4)
    found = dynesty_evidence(lambda z: target.log_densities(z[None])[1].item(), ndtri, 4)
    assert_agrees(found, target.log_evidence)
