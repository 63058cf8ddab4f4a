"""Describe the dependence between particles."""

import numpy as np

from driftbayes._representation import (
    Card,
    counted,
    describe,
    number,
    summarise,
    with_error,
)
from driftbayes.comparison._dependence import Dependence
from driftbayes.data._units import readable


@summarise.register
def _(result: Dependence) -> str:
    return f"at tau = {readable(result.tau, result.time_unit)} {result.sentence}"


@describe.register
def _(result: Dependence) -> Card:
    few = f" ({result.n_sampled} sampled)" if result.n_sampled < result.n_particles else ""
    facts = [
        (
            "data",
            f"{counted(result.n_particles, 'particle')}{few}, {counted(result.n_steps, 'step')}",
        ),
        ("mean correlation of simultaneous displacements", f"{result.mean_correlation:.4f}"),
        ("mean squared correlation, bias-corrected", f"{result.mean_square:.4f}"),
        ("bias of the squared correlation", number(result.noise, 2)),
        (
            "variance inflation, second moments",
            with_error(result.inflation, result.inflation_err),
        ),
        ("effective number of particles, second moments", number(result.n_effective, 3)),
        ("effective number of particles, mean flow", number(result.n_effective_mean, 3)),
        ("clusters of particles", str(result.n_clusters)),
    ]
    for which, r, c in zip(
        ("nearest tenth", "farther half"), result.separations, result.correlations, strict=True
    ):
        if np.isfinite(r):
            apart = readable(r, result.length_unit, 3)
            facts.append((f"correlation, {which} of pairs ({apart} apart)", f"{c:.4f}"))
    sentences = (result.advice,) if result.advice else ()
    return Card("Dependence", summarise(result), tuple(facts), sentences)
