"""Sums of an engine over the data, as models take them, for one model with numbers."""

import numpy as np

from driftbayes.inference import Batch
from driftbayes.inference._density import Density, _density_of, hypothesis_of
from driftbayes.inference._formulas import evaluate_with_sums
from driftbayes.likelihood import SecondMoments
from driftbayes.likelihood._engines import MomentsEngine


def derived(model, data):
    """Quantities that the model derives from the data, by name."""
    density, theta = _density_of(model, data)
    return density.derived(theta[0])


def of_sums(model, data, function, engine="auto"):
    """A function of the model and of the sums over the data; a tuple of arrays."""
    density, theta = _density_of(model, data, engine)
    found = evaluate_with_sums(density.hypothesis, theta, density.engine, function)
    return tuple(np.asarray(part)[0] for part in found)


def mean_flow(model, data):
    return of_sums(model, data, _mean_flow)


def _mean_flow(model, sums):
    return tuple(model.mean_flow(sums))


def logs_by_sense(model, data, engine="auto"):
    """ln L if all particles turn anticlockwise, and if all turn clockwise."""
    return [float(value) for value in of_sums(model, data, _logs_by_sense, engine)]


def _logs_by_sense(model, sums):
    return tuple(terms.log_likelihood() for terms in model.terms_by_sense(sums))


def log_likelihood(model, data):
    """ln L of displacements, or of second moments that were made from them."""
    if not isinstance(data, SecondMoments):
        return model.log_likelihood(data)
    theta = np.array([[float(value) for value in model.leaves().values()]])
    return Density(hypothesis_of(model.template()), MomentsEngine(data)).terms(theta)[0][0]


def density_of(hypothesis, data, engine="auto"):
    """The joint density of data and parameters."""
    batch = Batch.of(data, engine, hypothesis.model)
    return Density(hypothesis, batch.engine(0, hypothesis.model))
