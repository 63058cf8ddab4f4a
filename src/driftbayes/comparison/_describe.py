"""Describe comparisons."""

from driftbayes._representation import (
    Card,
    Table,
    counted,
    describe,
    with_error,
)
from driftbayes.comparison._bayes import Comparison
from driftbayes.data._units import readable
from driftbayes.inference._describe import derived_facts, model_table, parameter_table

# With more models, a table shows only pairs of the best model.
_MAX_MODELS = 3


@describe.register
def describe_comparison(comparison: Comparison) -> Card:
    """Describe the verdict, the evidences and the posteriors."""
    data = (
        f"{counted(comparison.n_particles, 'particle')}, up to "
        f"{counted(comparison.n_steps, 'step')}, {comparison.n_dim}D, "
        f"{counted(comparison.n_displacements, 'displacement')}"
    )
    factors, errors = comparison.log_bayes_factors, comparison.log_bayes_factor_errs
    evidences = list(comparison.evidences.values())
    # With many models, only pairs with the best.
    pairs = [
        pair
        for pair in factors
        if len(evidences) <= _MAX_MODELS or comparison.best in pair.split(":")
    ]
    facts = [
        ("tau", readable(comparison.tau, comparison.time_unit)),
        ("data", data),
        ("method", comparison.method),
        ("fingerprint", comparison.data_fingerprint),
        *((f"ln K({pair})", with_error(factors[pair], errors[pair], 4)) for pair in pairs),
    ]
    for e in evidences:
        if e.derived:
            units = comparison.length_unit, comparison.time_unit
            values = ", ".join(f"{name} = {text}" for name, text in derived_facts(e, units))
            facts.append((f"{e.name} at the MAP", values))
    posterior = parameter_table(evidences, "Posterior; Var(Δx_i) = 2κτ per axis")
    tables = [model_table(evidences, comparison.probabilities), posterior]
    if comparison.sensitivity and pairs:
        rows = tuple(
            (
                f"{', '.join(row['scaled'])} × {row['factor']:g}",
                *(f"{row['log_bayes_factors'][pair]:.3f}" for pair in pairs),
            )
            for row in comparison.sensitivity
        )
        columns = ("prior scale", *(f"ln K({pair})" for pair in pairs))
        sides = "l" + "r" * len(pairs)
        tables.append(Table(columns, rows, sides, title="Sensitivity to the priors"))
    warnings = tuple(f"{e.name}: {text}" for e in evidences for text in e.warnings)
    return Card("Comparison", comparison.verdict, (*facts,), (), (*tables,), warnings)
