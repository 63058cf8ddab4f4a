"""Describe scores of learned transition densities."""

__all__ = ["describe_learned"]

from math import inf, isfinite

from driftbayes._representation import Card, Table, describe, with_error
from driftbayes.prediction._tables import LearnedScores


@describe.register
def describe_learned(result: LearnedScores) -> Card:
    """Describe held-out and sequential scores of all rows."""
    held = result.held_out
    base = result.start
    rows = []
    for name in held.values:
        mean, (gap, error) = held.mean(name), held.difference(name, base)
        versus = "" if name == base else with_error(gap, error)
        total = result.sequential[name]
        shown = f"{total:.1f}" if isfinite(total) else "unknown"
        rows.append((name, shown, with_error(*mean), versus))
    # A model without an evidence has no score, and comes last.
    means = {name: held.mean(name)[0] for name in held.values}
    order = sorted(means, key=lambda name: -means[name] if isfinite(means[name]) else inf)
    best, second = order[:2]
    lead = with_error(*held.difference(best, second))
    n_steps = int(held.counts.sum())
    facts = (
        ("data", f"{len(held.counts):,} trajectories, {n_steps:,} displacements"),
        ("folds", str(result.training["n_folds"])),
        ("blocks", f"{', '.join(map(str, result.blocks))} trajectories in random order"),
        ("first block", f"coded by {base} in learned and tree rows"),
        ("seed", str(result.seed)),
    )
    sentences = (
        f"{best} predicts displacements of other trajectories best, by {lead} nats more than "
        f"{second}.",
        f"{result.training['n_without_previous']:,} displacements have no previous one: there rows "
        "with memory use the density without memory, models that of a first displacement.",
        result.remark,
    )
    table = Table(
        columns=("model", "sequential", "held out, per step", f"minus {base} ± se"),
        rows=tuple(rows),
        sides="lrrr",
        title="Log densities in nats; larger is better",
    )
    headline = f"held-out log density per displacement, best: {best}"
    return Card("LearnedScores", headline, facts, sentences, (table,), held.warnings)
